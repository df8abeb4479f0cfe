/* What people call abnormal is taken back: a rollback (rollback.h) leaves out what a stream sent at
   an alarm, or in a time. So neither memory nor scaler nor network know of it. */
#ifndef RUNNEL_ABNORMAL_H
#define RUNNEL_ABNORMAL_H

#include <jansson.h>

struct control_answer;
struct error;

/* The command `abnormal`, as those of commands.h. The journal gets a rollback. */
int abnormal_command(void *context, const json_t *request, struct control_answer *answer,
                     struct error *error);

#endif
