/* Messages on their way from the thread that writes them to the thread that sends them: a ring of
   bytes. Whoever puts never waits for more than a copy and allocates nothing; what finds no room is
   dropped. */
#ifndef RUNNEL_PUBLISH_QUEUE_H
#define RUNNEL_PUBLISH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <zmq.h>

struct publish_queue;

/* For `capacity` bytes, of which only those that have been used take memory. NULL: out of memory.
 */
struct publish_queue *publish_queue_open(size_t capacity);
void publish_queue_close(struct publish_queue **queue);

/* False: there is no room. */
bool publish_queue_put(struct publish_queue *queue, unsigned topic, const void *bytes, size_t size);

/* Take the oldest: `message` is initialized with its bytes. False: there is none, or no memory for
   it, which loses it. */
bool publish_queue_take(struct publish_queue *queue, unsigned *topic, zmq_msg_t *message);

bool publish_queue_is_empty(struct publish_queue *queue);

#endif
