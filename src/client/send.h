/* What the two ways of sending share (runnel.h, "feeding"). */
#ifndef RUNNEL_SEND_H
#define RUNNEL_SEND_H

#include <stdbool.h>

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
};
void send_tell(const struct send_hooks *hooks, const struct runnel_report *report);

/* RUNNEL_STOPPED when the caller ends the wait. */
int send_tick(const struct send_hooks *hooks, bool connected, struct error *error);

/* Connect or bind. EX_USAGE: it is no endpoint; EX_UNAVAILABLE. */
int send_attach(const struct peer *peer, void *socket, bool bind, struct error *error);

/* Returns its size. */
size_t send_header(const struct runnel_example *example, unsigned char bytes[WIRE_HEADER_SIZE_MAX]);

#endif
