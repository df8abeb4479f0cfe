/* A bounded queue of messages to a broker, and the thread that writes them. A message stays until
   the broker has confirmed it. If the queue is full, the newest messages are kept. */
#ifndef RUNNEL_RELAY_QUEUE_H
#define RUNNEL_RELAY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "relay_sink.h"

struct queue;

struct queue_counts {
    uint64_t written;   /* confirmed by the broker */
    uint64_t too_large; /* rejected by the broker for their size */
    uint64_t dropped;   /* no room or memory for them */
    uint64_t left;      /* not written */
};

/* Opens a queue for `room` messages. The sink must outlive it. */
int queue_open(struct queue **queue, const struct sink_type *type, struct sink *sink,
               const char *broker, size_t room, struct error *error);

/* Copies topic, key and id (both may be NULL) and takes over the text. If the queue is full, it
   drops the oldest message; if out of memory, this one. */
void queue_add(struct queue *queue, const char *topic, const char *key, const char *id, char *text);

/* Readable after a permanent failure; queue_close returns its error. */
int queue_descriptor(const struct queue *queue);

/* Waits at most `seconds` until everything is written, and ends. Returns -1 after a permanent
   failure. */
int queue_close(struct queue **queue, double seconds, struct queue_counts *counts,
                struct error *error);

#endif
