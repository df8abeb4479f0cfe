/* What was learned, for a client: the parameters as safetensors. docs/protocol.md says what is in
   them. */
#ifndef RUNNEL_EXPORT_H
#define RUNNEL_EXPORT_H

#include <jansson.h>

struct control_answer;
struct error;

/* The command `export`, as those of commands.h. */
int export_command(void *context, const json_t *request, struct control_answer *answer,
                   struct error *error);

/* For ingest_answer_more; its context is the daemon: {"classes": {"words": [..], "forgets": ..}},
   the words of classes in the order of ids. NULL: they are numbers, or out of memory. */
char *export_classes(const void *context);

#endif
