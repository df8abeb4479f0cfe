/* Common parts of the two ways of sending (runnel.h, "feeding"). */
#ifndef RUNNEL_SEND_H
#define RUNNEL_SEND_H

#include <stdbool.h>

#include <zmq.h>

#include "common/wire.h"
#include "runnel.h"

struct error;
struct peer;

/* Longest wait without a tick. */
#define SEND_TICK_SECONDS 0.25

/* Callbacks for reports; may be NULL. */
struct send_hooks {
    void (*report)(void *context, const struct runnel_report *report);
    bool (*tick)(void *context, bool connected);
    void *context;
    uint64_t producer; /* producer of the following examples */
};
void send_report(const struct send_hooks *hooks, const struct runnel_report *report);

/* RUNNEL_STOPPED if the caller ends the wait. */
int send_tick(const struct send_hooks *hooks, bool connected, struct error *error);

/* Connect or bind. EX_USAGE: invalid endpoint; EX_UNAVAILABLE. */
int send_attach(const struct peer *peer, void *socket, bool bind, struct error *error);

/* Another descriptor to wait for: readable or, with `writable`, writable. After a wait `ready`
   contains the result. */
struct send_other {
    int descriptor;
    bool writable, ready;
};

/* zmq_poll on `count` items, with room for one more, and on `other` if it is not NULL. Returns
   -1 with errno; a signal is not an error. */
int send_wait(zmq_pollitem_t *items, int count, struct send_other *other, double seconds);

/* The frames of one message. */
enum { SEND_FRAMES = 7 };
struct frames {
    int count;
    const void *bytes[SEND_FRAMES];
    size_t sizes[SEND_FRAMES];
};
void frames_add(struct frames *frames, const void *bytes, size_t size);

/* Build the frames of an example. They point into it and, if it is `headed`, into `header`,
   which also contains the numbers of a label's example. */
enum { SEND_HEADER_SIZE = WIRE_HEADER_SIZE_MAX + WIRE_LABEL_SIZE };
void frames_make(struct frames *frames, const struct runnel_example *example, bool headed,
                 uint64_t producer, unsigned char header[SEND_HEADER_SIZE]);

/* Send the frames without waiting. Returns 1 if sent, and 0 if the queue is full and nothing was
   sent. Returns -1 with errno if the message may be incomplete: the socket is then unusable. */
int frames_send(const struct frames *frames, void *socket);

#endif
