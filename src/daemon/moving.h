/* Streams that go to another daemon and come from one, with all that is kept of them, and
   parameters that come from elsewhere: what the control socket asks for, and its replay. */
#ifndef RUNNEL_MOVING_H
#define RUNNEL_MOVING_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "sockets/control.h"

struct daemon;
struct error;

int moving_open(struct daemon *daemon, struct error *error);
void moving_close(struct daemon *daemon);

/* 0 when a client's state of that stream may be adopted, else -1 with a sentence. */
typedef int moving_may(const struct daemon *daemon, const char *key, size_t key_size,
                       struct error *error);
void moving_ask(struct daemon *daemon, moving_may *may_adopt);

/* Commands of control.h: the state of one stream, in the second frame; adopt one; take parameters
   in place of those that were learned. */
int moving_export(struct daemon *daemon, const json_t *request, struct control_answer *answer,
                  struct error *error);
int moving_adopt(void *context, const json_t *request, struct control_answer *answer,
                 struct error *error);
int moving_import(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error);

/* A refused adoption may have lost the stream that it displaced (carry_lost): it is announced. */
struct carry;
void moving_lost(struct daemon *daemon, const struct carry *carry);

/* The same of the journal. -1: it cannot be, or the device has failed. */
int moving_replay_adopt(struct daemon *daemon, const json_t *command, struct error *error);
int moving_replay_import(struct daemon *daemon, const json_t *command, struct error *error);

#endif
