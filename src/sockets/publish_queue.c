#include "publish_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What stands before a message's bytes. */
struct head {
    size_t size;
    unsigned topic;
};

struct publish_queue {
    pthread_mutex_t lock; /* held for a copy */
    size_t capacity, first, used;
    unsigned char bytes[];
};

struct publish_queue *publish_queue_open(size_t capacity) {
    struct publish_queue *queue = malloc(sizeof *queue + capacity);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    queue->capacity = capacity;
    queue->first = queue->used = 0;
    return queue;
}

void publish_queue_close(struct publish_queue **queue) {
    if (*queue)
        pthread_mutex_destroy(&(*queue)->lock);
    free(*queue);
    *queue = NULL;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void put(struct publish_queue *queue, const void *bytes, size_t size) {
    size_t at = (queue->first + queue->used) % queue->capacity;
    size_t part = smaller(size, queue->capacity - at);
    memcpy(queue->bytes + at, bytes, part);
    memcpy(queue->bytes, (const unsigned char *)bytes + part, size - part);
    queue->used += size;
}

static void take(struct publish_queue *queue, void *bytes, size_t size) {
    size_t part = smaller(size, queue->capacity - queue->first);
    memcpy(bytes, queue->bytes + queue->first, part);
    memcpy((unsigned char *)bytes + part, queue->bytes, size - part);
    queue->first = (queue->first + size) % queue->capacity;
    queue->used -= size;
}

bool publish_queue_put(struct publish_queue *queue, unsigned topic, const void *bytes,
                       size_t size) {
    const struct head head = {size, topic};
    pthread_mutex_lock(&queue->lock);
    bool room = queue->capacity - queue->used >= sizeof head &&
                queue->capacity - queue->used - sizeof head >= size;
    if (queue->used == 0)
        queue->first = 0; /* the same memory again */
    if (room) {
        put(queue, &head, sizeof head);
        put(queue, bytes, size);
    }
    pthread_mutex_unlock(&queue->lock);
    return room;
}

bool publish_queue_take(struct publish_queue *queue, unsigned *topic, zmq_msg_t *message) {
    struct head head;
    bool taken = false;
    pthread_mutex_lock(&queue->lock);
    if (queue->used > 0) {
        take(queue, &head, sizeof head);
        *topic = head.topic;
        taken = zmq_msg_init_size(message, head.size) == 0;
        if (taken) {
            take(queue, zmq_msg_data(message), head.size);
        } else {
            queue->first = (queue->first + head.size) % queue->capacity;
            queue->used -= head.size;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

bool publish_queue_is_empty(struct publish_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool empty = queue->used == 0;
    pthread_mutex_unlock(&queue->lock);
    return empty;
}
