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

#endif
