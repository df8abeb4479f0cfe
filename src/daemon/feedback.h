/* Feedback of users on alarms; docs/explanation/anomalies.md describes its effect. */
#ifndef RUNNEL_FEEDBACK_H
#define RUNNEL_FEEDBACK_H

#include <jansson.h>

struct control_answer;
struct daemon;
struct error;

/* The command `normal` of commands.h. */
int feedback_normal(void *context, const json_t *request, struct control_answer *answer,
                    struct error *error);

/* Replays the command from the journal and ignores an unknown alarm; -1: the device has failed. */
int feedback_replay(struct daemon *daemon, const json_t *request, struct error *error);

#endif
