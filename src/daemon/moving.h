/* Moves streams to and from other daemons with their state, and imports parameters: the commands of
   the control socket, and their replay. */
#ifndef RUNNEL_MOVING_H
#define RUNNEL_MOVING_H

#include <jansson.h>
#include <stddef.h>

#include "sockets/control.h"

struct daemon;
struct error;

int moving_open(struct daemon *daemon, struct error *error);
void moving_close(struct daemon *daemon);

/* Returns 0 if a client's state of the stream may be adopted, else -1 with an error. */
typedef int moving_may(const struct daemon *daemon, const char *key, size_t key_size,
                       struct error *error);
void moving_ask(struct daemon *daemon, moving_may *may_adopt);

/* Commands of control.h: export the state of one stream in the second frame, adopt one, and replace
   the learned parameters. */
int moving_export(struct daemon *daemon, const json_t *request, struct control_answer *answer,
                  struct error *error);
int moving_adopt(void *context, const json_t *request, struct control_answer *answer,
                 struct error *error);
int moving_import(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error);

/* Announces the stream that a refused adoption may have displaced and lost (carry_lost). */
struct carry;
void moving_lost(struct daemon *daemon, const struct carry *carry);

/* Replay the commands from the journal. -1: impossible, or the device has failed. */
int moving_replay_adopt(struct daemon *daemon, const json_t *command, struct error *error);
int moving_replay_import(struct daemon *daemon, const json_t *command, struct error *error);

#endif
