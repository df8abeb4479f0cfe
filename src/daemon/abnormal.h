/* The command `abnormal` marks examples as abnormal: a rollback (rollback.h) leaves out the
   examples that a stream sent at an alarm or in a time span. Memory, scaler and network then do not
   contain them. */
#ifndef RUNNEL_ABNORMAL_H
#define RUNNEL_ABNORMAL_H

#include <jansson.h>

struct control_answer;
struct error;

/* The command `abnormal` of commands.h. It appends a rollback to the journal. */
int abnormal_command(void *context, const json_t *request, struct control_answer *answer,
                     struct error *error);

#endif
