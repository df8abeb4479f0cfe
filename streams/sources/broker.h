/* The common part of sources that read a broker: IDs of messages to acknowledge, and producers.
   feed.h handles broken connections, payload.h the content of messages. */
#ifndef RUNNEL_FEED_BROKER_H
#define RUNNEL_FEED_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct source;

/* ---- Messages to acknowledge ---- */

/* The broker's ID of a message; only the source interprets it. */
struct pending_id {
    void *what;
    uint64_t first, second;
};

struct pending;

int pending_open(struct pending **pending, struct error *error);
void pending_close(struct pending **pending);

/* Adds the next message. `example`: the source's `next` yields it, and struct source_type reports
   when it is settled. Other messages, for example bad ones, are settled with the example before
   them. */
int pending_add(struct pending *pending, const struct pending_id *id, bool example,
                struct error *error);

/* Reports that the first `count` examples are settled. */
void pending_settle(struct pending *pending, uint64_t count);

/* The same for a source, for struct source_type. */
void broker_settled(struct source *source, uint64_t count);

/* Removes the oldest message if it is settled. */
bool pending_take(struct pending *pending, struct pending_id *id);

/* Returns the number of waiting messages, and how many of them are settled. */
size_t pending_count(const struct pending *pending);
size_t pending_settled(const struct pending *pending);

/* Returns waiting message n; 0 is the oldest. */
const struct pending_id *pending_at(const struct pending *pending, size_t n);

/* ---- Names ---- */

/* Returns a producer, never 0, that depends only on these texts; the last one is NULL. Used for the
   broker's numbers. */
uint64_t broker_producer(const char *first, ...) __attribute__((sentinel));

#endif
