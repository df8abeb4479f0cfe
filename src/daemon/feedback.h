/* Feedback of users on alarms; docs/explanation/anomalies.md describes its effect. */
#ifndef RUNNEL_FEEDBACK_H
#define RUNNEL_FEEDBACK_H

#include <jansson.h>

struct control_answer;
struct daemon;
struct error;

/* The commands `normal` and `silence` of commands.h. */
int feedback_normal(void *context, const json_t *request, struct control_answer *answer,
                    struct error *error);
int feedback_silence(void *context, const json_t *request, struct control_answer *answer,
                     struct error *error);

/* Replay the command from the journal, and ignore an unknown alarm or stream; -1: the device has
   failed. */
int feedback_replay(struct daemon *daemon, const json_t *request, struct error *error);
int feedback_replay_silence(struct daemon *daemon, const json_t *request, struct error *error);

#endif
