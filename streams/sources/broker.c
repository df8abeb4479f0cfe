#include "broker.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "streams/feed.h"

/* ---- Messages to acknowledge ---- */

enum { PENDING_FIRST = 64 };

struct waiting {
    struct pending_id id;
    uint64_t after; /* the message is settled when this many examples are */
};

struct pending {
    struct waiting *ring; /* (capacity,) `count` messages from `oldest` on */
    size_t capacity, oldest, count;
    uint64_t examples, settled;
};

int pending_open(struct pending **pending, struct error *error) {
    *pending = calloc(1, sizeof **pending);
    return *pending ? 0 : error_no_memory(error);
}

void pending_close(struct pending **pending) {
    if (*pending)
        free((*pending)->ring);
    free(*pending);
    *pending = NULL;
}

static struct waiting *at(const struct pending *pending, size_t n) {
    return &pending->ring[(pending->oldest + n) % pending->capacity];
}

static int grow(struct pending *pending, struct error *error) {
    size_t capacity = pending->capacity ? 2 * pending->capacity : PENDING_FIRST;
    struct waiting *ring = calloc(capacity, sizeof *ring);
    if (!ring)
        return error_no_memory(error);
    for (size_t n = 0; n < pending->count; n++)
        ring[n] = *at(pending, n);
    free(pending->ring);
    pending->ring = ring;
    pending->capacity = capacity;
    pending->oldest = 0;
    return 0;
}

int pending_add(struct pending *pending, const struct pending_id *id, bool example,
                struct error *error) {
    if (pending->count == pending->capacity && grow(pending, error) < 0)
        return -1;
    pending->examples += example;
    *at(pending, pending->count++) = (struct waiting){*id, pending->examples};
    return 0;
}

void pending_settle(struct pending *pending, uint64_t count) {
    pending->settled = count;
}

void broker_settled(struct source *source, uint64_t count) {
    pending_settle(source->pending, count);
}

bool pending_take(struct pending *pending, struct pending_id *id) {
    if (pending->count == 0 || at(pending, 0)->after > pending->settled)
        return false;
    *id = at(pending, 0)->id;
    pending->oldest = (pending->oldest + 1) % pending->capacity;
    pending->count--;
    return true;
}

size_t pending_count(const struct pending *pending) {
    return pending->count;
}

size_t pending_settled(const struct pending *pending) {
    size_t n = 0;
    while (n < pending->count && at(pending, n)->after <= pending->settled)
        n++;
    return n;
}

const struct pending_id *pending_at(const struct pending *pending, size_t n) {
    return &at(pending, n)->id;
}

/* ---- Names ---- */

uint64_t broker_producer(const char *first, ...) {
    uint64_t hash = HASH_BEGIN;
    va_list texts;
    va_start(texts, first);
    for (const char *text = first; text; text = va_arg(texts, const char *))
        hash = hash_bytes(hash, text, strlen(text) + 1); /* including its terminator */
    va_end(texts);
    return hash ? hash : 1;
}
