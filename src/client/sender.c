/* Feeding (runnel.h): one object for both ways of sending. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/error.h"
#include "peer.h"
#include "send.h"
#include "send_push.h"
#include "send_router.h"

struct runnel_sender {
    struct peer peer;
    struct send_hooks hooks;
    struct push *push; /* one of the two is there */
    struct router *router;
    struct runnel_counts counts;
};

static int fail(struct runnel_error *error, const struct error *why) {
    return peer_fail(error, why->status, "%s", why->text);
}

int runnel_sender_open(struct runnel_sender **sender, const struct runnel_peer *peer,
                       const struct runnel_sender_options *options, struct runnel_error *error) {
    static const struct runnel_sender_options preset = {.kind = RUNNEL_PUSH};
    const struct runnel_sender_options *o = options ? options : &preset;
    struct runnel_sender *s = *sender = calloc(1, sizeof *s);
    struct error why;
    if (!s)
        return peer_fail(error, EX_OSERR, "out of memory");
    s->hooks = (struct send_hooks){o->tell, o->tick, o->context, 0};
    int status = -1;
    if (o->kind == RUNNEL_ROUTER && o->bind)
        peer_fail(error, EX_USAGE,
                  "--bind: not with --socket router, which connects to the daemon");
    else if (peer_open(&s->peer, peer, error) == 0) {
        status = o->kind == RUNNEL_ROUTER
                     ? router_open(&s->router, &s->peer, o->window, &s->hooks, &s->counts, &why)
                     : push_open(&s->push, &s->peer, o->bind, &s->hooks, &why);
        if (status < 0)
            fail(error, &why);
    }
    if (status < 0)
        runnel_sender_close(sender, 0, NULL);
    return status;
}

uint64_t runnel_producer(void) {
    uint64_t producer = 0;
    while (producer == 0)
        if (getrandom(&producer, sizeof producer, 0) != sizeof producer)
            producer = 0;
    return producer;
}

void runnel_sender_identify(struct runnel_sender *s, uint64_t producer) {
    s->hooks.producer = producer;
}

bool runnel_sender_connected(const struct runnel_sender *s) {
    return s->router ? router_connected(s->router) : push_connected(s->push);
}

int runnel_sender_poll(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    struct error why;
    int status = s->router ? router_poll(s->router, seconds, NULL, &why)
                           : push_poll(s->push, seconds, NULL, &why);
    return status < 0 ? fail(error, &why) : 0;
}

int runnel_sender_poll_with(struct runnel_sender *s, int descriptor, bool writable, double seconds,
                            struct runnel_error *error) {
    struct send_other other = {.descriptor = descriptor, .writable = writable};
    struct error why;
    int status = s->router ? router_poll(s->router, seconds, &other, &why)
                           : push_poll(s->push, seconds, &other, &why);
    return status < 0 ? fail(error, &why) : other.ready;
}

uint64_t runnel_sender_settled(const struct runnel_sender *s) {
    return s->router ? router_settled(s->router) : s->counts.sent;
}

int runnel_sender_wait(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    double until = clock_seconds() + seconds, left = seconds;
    struct error why;
    if (runnel_sender_poll(s, 0, error))
        return -1;
    for (; !runnel_sender_connected(s); left = until - clock_seconds()) {
        if (left <= 0)
            return peer_fail(error, EX_UNAVAILABLE,
                             "%s: nobody was there within %g seconds; is runneld running?",
                             s->peer.endpoint, seconds);
        if (runnel_sender_poll(s, fmin(left, SEND_TICK_SECONDS), error))
            return -1;
        if (send_tick(&s->hooks, runnel_sender_connected(s), &why))
            return fail(error, &why);
    }
    return 0;
}

int runnel_send(struct runnel_sender *s, const struct runnel_example *example,
                struct runnel_error *error) {
    struct error why;
    int status =
        s->router ? router_send(s->router, example, &why) : push_send(s->push, example, &why);
    if (status < 0)
        return fail(error, &why);
    s->counts.sent++;
    return 0;
}

int runnel_sender_schema(struct runnel_sender *s, const char *text, struct runnel_error *error) {
    const struct runnel_example example = {.json = text, .json_size = strlen(text)};
    struct error why;
    int status =
        s->router ? router_schema(s->router, text, &why) : push_send(s->push, &example, &why);
    return status < 0 ? fail(error, &why) : 0;
}

const struct runnel_counts *runnel_sender_counts(const struct runnel_sender *s) {
    return &s->counts;
}

int runnel_sender_flush(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    struct error why;
    return s->router && router_flush(s->router, seconds, &why) < 0 ? fail(error, &why) : 0;
}

int runnel_sender_close(struct runnel_sender **sender, double linger, struct runnel_error *error) {
    struct runnel_sender *s = *sender;
    struct error why;
    int status = 0;
    if (!s)
        return 0;
    if (s->router)
        status = router_flush(s->router, linger, &why);
    if (status < 0 && why.status == RUNNEL_STOPPED)
        status = router_flush(s->router, 0, &why); /* says how many */
    if (s->push)
        status = push_close(&s->push, linger, &why);
    router_close(&s->router);
    if (status < 0)
        fail(error, &why);
    peer_close(&s->peer);
    free(s);
    *sender = NULL;
    return status;
}
