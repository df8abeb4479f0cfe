/* What the two ways of sending share (runnel.h, "feeding"). */
#ifndef RUNNEL_SEND_H
#define RUNNEL_SEND_H

#include <stdbool.h>

#include <zmq.h>

#include "common/wire.h"
#include "runnel.h"

struct error;
struct peer;

/* No wait is longer than this without a tick. */
#define SEND_TICK_SECONDS 0.25

/* Where reports go; functions may be NULL. */
struct send_hooks {
    void (*tell)(void *context, const struct runnel_report *report);
    bool (*tick)(void *context, bool connected);
    void *context;
    uint64_t producer; /* of the examples sent from now on */
};
void send_tell(const struct send_hooks *hooks, const struct runnel_report *report);

/* RUNNEL_STOPPED when the caller ends the wait. */
int send_tick(const struct send_hooks *hooks, bool connected, struct error *error);

/* Connect or bind. EX_USAGE: it is no endpoint; EX_UNAVAILABLE. */
int send_attach(const struct peer *peer, void *socket, bool bind, struct error *error);

/* What is waited for beside the daemon: a descriptor that is readable or, with `writable`, can be
   written to; after a wait `ready` says whether it is so. */
struct send_other {
    int descriptor;
    bool writable, ready;
};

/* zmq_poll of so many items, which have room for one more, and of `other` unless that is NULL. -1
   with errno; a signal is no error. */
int send_wait(zmq_pollitem_t *items, int count, struct send_other *other, double seconds);

/* The frames of one message. */
enum { SEND_FRAMES = 7 };
struct frames {
    int count;
    const void *bytes[SEND_FRAMES];
    size_t sizes[SEND_FRAMES];
};
void frames_add(struct frames *frames, const void *bytes, size_t size);

/* Those of an example, which point into it and, where it is `headed`, into `header`: also of what a
   label is for. */
enum { SEND_HEADER_SIZE = WIRE_HEADER_SIZE_MAX + WIRE_LABEL_SIZE };
void frames_make(struct frames *frames, const struct runnel_example *example, bool headed,
                 uint64_t producer, unsigned char header[SEND_HEADER_SIZE]);

/* Send them without waiting. 1: sent. 0: the queue is full, and nothing was sent. -1 with errno:
   the message may be cut off, and what is sent next would belong to it: the socket is done for. */
int frames_send(const struct frames *frames, void *socket);

#endif
