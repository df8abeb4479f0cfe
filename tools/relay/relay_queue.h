/* Messages on their way to a broker: a bounded queue, and the thread that writes them. A message
   stays until the broker has confirmed it; while the broker is away the newest are kept. */
#ifndef RUNNEL_RELAY_QUEUE_H
#define RUNNEL_RELAY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "relay_sink.h"

struct queue;

struct queue_counts {
    uint64_t written;   /* confirmed by the broker */
    uint64_t too_large; /* the broker takes none of their size */
    uint64_t dropped;   /* there was no room, or no memory, for them */
    uint64_t left;      /* none of these */
};

/* Room for `room` messages. The sink must outlive it. */
int queue_open(struct queue **queue, const struct sink_type *type, struct sink *sink,
               const char *broker, size_t room, struct error *error);

/* Copies topic, key and id (both may be NULL); the text is the queue's now. The oldest message is
   dropped without room, this one without memory. */
void queue_add(struct queue *queue, const char *topic, const char *key, const char *id, char *text);

/* Readable once the broker refuses for good: queue_close says why. */
int queue_descriptor(const struct queue *queue);

/* Wait at most so many seconds until all is written, and end. -1: the broker has refused. */
int queue_close(struct queue **queue, double seconds, struct queue_counts *counts,
                struct error *error);

#endif
