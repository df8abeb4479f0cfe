/* What the sources have in common that take examples from a broker: the ids of messages that wait
   to be acknowledged, and whose numbers they are. A connection that breaks is feed.h's, what
   is in a message payload.h's. */
#ifndef RUNNEL_FEED_BROKER_H
#define RUNNEL_FEED_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct source;

/* ---- messages to acknowledge ---- */

/* The name that a broker has given a message; what is in it, its source knows. */
struct pending_id {
    void *what;
    uint64_t first, second;
};

struct pending;

int pending_open(struct pending **pending, struct error *error);
void pending_close(struct pending **pending);

/* The next message; `example`: it is handed on by the source's `next`, and settled once that says
   so (struct source_type). Others, as bad ones, are settled with the example before. */
int pending_add(struct pending *pending, const struct pending_id *id, bool example,
                struct error *error);

/* The first `count` examples of all are settled. */
void pending_settle(struct pending *pending, uint64_t count);

/* The same of a source, as struct source_type has it. */
void broker_settled(struct source *source, uint64_t count);

/* Take off the oldest message if it is settled. */
bool pending_take(struct pending *pending, struct pending_id *id);

/* How many wait, and how many of them are settled. */
size_t pending_count(const struct pending *pending);
size_t pending_settled(const struct pending *pending);

/* Message n of those that wait, 0 the oldest. */
const struct pending_id *pending_at(const struct pending *pending, size_t n);

/* ---- names ---- */

/* A producer that depends on these texts alone, the last one NULL: of the examples that a broker
   numbers. Never 0. */
uint64_t broker_producer(const char *first, ...) __attribute__((sentinel));

#endif
