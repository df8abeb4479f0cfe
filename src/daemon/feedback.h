/* What people say of alarms, by command. docs/explanation/anomalies.md says what follows from it. */
#ifndef RUNNEL_FEEDBACK_H
#define RUNNEL_FEEDBACK_H

#include <jansson.h>

struct control_answer;
struct daemon;
struct error;

/* The command `normal`, as those of commands.h. */
int feedback_normal(void *context, const json_t *request, struct control_answer *answer,
                    struct error *error);

/* The same, of the journal: -1 when the device has failed. An alarm that was not there is none. */
int feedback_replay(struct daemon *daemon, const json_t *request, struct error *error);

#endif
