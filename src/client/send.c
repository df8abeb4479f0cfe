#include "send.h"

#include <errno.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/error.h"
#include "peer.h"

void send_report(const struct send_hooks *hooks, const struct runnel_report *report) {
    if (hooks->report)
        hooks->report(hooks->context, report);
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
                         "--%s: invalid endpoint '%s'; expected tcp://HOST:PORT or ipc://PATH",
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
