#include "send.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "peer.h"
#include "send_push.h"
#include "send_router.h"

struct runnel_sender {
    struct peer peer;
    struct send_hooks hooks;
    struct push *push; /* one of the two is there */
    struct router *router;
    struct runnel_counts counts;
};

/* ---- for both ways ---- */

void send_tell(const struct send_hooks *hooks, const struct runnel_report *report) {
    if (hooks->tell)
        hooks->tell(hooks->context, report);
}

int send_tick(const struct send_hooks *hooks, bool connected, struct error *error) {
    return !hooks->tick || hooks->tick(hooks->context, connected)
               ? 0
               : error_set(error, RUNNEL_STOPPED, "interrupted");
}

int send_attach(const struct peer *peer, void *socket, bool bind, struct error *error) {
    if ((bind ? zmq_bind : zmq_connect)(socket, peer->endpoint) == 0)
        return 0;
    int reason = errno;
    if (reason == EINVAL || reason == EPROTONOSUPPORT || reason == ENOCOMPATPROTO)
        return error_set(error, EX_USAGE,
                         "--%s: '%s' is no endpoint; expected tcp://HOST:PORT or ipc://PATH",
                         bind ? "bind" : "connect", peer->endpoint);
    return error_set(error, EX_UNAVAILABLE, "%s: cannot be %s: %s", peer->endpoint,
                     bind ? "bound" : "connected", zmq_strerror(reason));
}

int send_wait(zmq_pollitem_t *items, int count, struct send_other *other, double seconds) {
    if (other)
        items[count] =
            (zmq_pollitem_t){.fd = other->descriptor,
                             .events = (short)(ZMQ_POLLIN | (other->writable ? ZMQ_POLLOUT : 0))};
    int ready = zmq_poll(items, count + (other != NULL), clock_milliseconds(seconds));
    if (other)
        other->ready = ready > 0 && items[count].revents;
    return ready < 0 && errno != EINTR ? -1 : 0;
}

void frames_add(struct frames *frames, const void *bytes, size_t size) {
    frames->bytes[frames->count] = bytes;
    frames->sizes[frames->count++] = size;
}

void frames_make(struct frames *frames, const struct runnel_example *e, bool headed,
                 uint64_t producer, unsigned char header[SEND_HEADER_SIZE]) {
    const struct wire_header fields = {.flags = e->flags,
                                       .epoch = e->epoch,
                                       .sequence = e->sequence,
                                       .time = e->time,
                                       .producer = producer};
    frames->count = 0;
    if (e->json) {
        frames_add(frames, e->json, e->json_size);
        return;
    }
    frames_add(frames, e->key, e->key_size);
    frames_add(frames, e->x_size ? e->x : "", e->x_size);
    if (e->y || headed)
        frames_add(frames, e->y, e->y ? e->y_size : 0);
    if (headed)
        frames_add(frames, header, wire_header_pack(&fields, header));
    if (headed && e->flags & WIRE_LABEL) {
        const struct wire_label label = {e->label_epoch, e->label_sequence};
        wire_label_pack(&label, header + WIRE_HEADER_SIZE_MAX);
        frames_add(frames, header + WIRE_HEADER_SIZE_MAX, WIRE_LABEL_SIZE);
    }
    if (headed && e->flags & WIRE_WORDS)
        frames_add(frames, e->words, e->words_size);
    if (headed && e->flags & WIRE_NOTE)
        frames_add(frames, e->note, e->note_size);
}

int frames_send(const struct frames *frames, void *socket) {
    for (int i = 0; i < frames->count; i++) {
        int more = i + 1 < frames->count ? ZMQ_SNDMORE : 0, sent;
        do
            sent = zmq_send(socket, frames->bytes[i], frames->sizes[i], more | ZMQ_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
            return i == 0 && errno == EAGAIN ? 0 : -1;
    }
    return 1;
}

/* ---- the object ---- */

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
