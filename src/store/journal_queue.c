#include "journal_queue.h"

#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>

static const size_t NO_WRAP = SIZE_MAX;

bool journal_queue_open(struct journal_queue *queue, size_t capacity) {
    void *bytes = mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return false;
    *queue = (struct journal_queue){.bytes = bytes, .capacity = capacity, .wrap = NO_WRAP};
    return true;
}

void journal_queue_close(struct journal_queue *queue) {
    if (queue->bytes)
        munmap(queue->bytes, queue->capacity);
    *queue = (struct journal_queue){.bytes = NULL};
}

size_t journal_queue_size(size_t bytes) {
    size_t unit = alignof(struct journal_record);
    return (sizeof(struct journal_record) + bytes + unit - 1) / unit * unit;
}

struct journal_record *journal_queue_place(struct journal_queue *queue, size_t size) {
    if (queue->count == 0) {
        queue->head = queue->tail = 0;
        queue->wrap = NO_WRAP;
    }
    size_t place = queue->head;
    if (queue->wrap != NO_WRAP) {
        if (size > queue->tail - queue->head)
            return NULL;
    } else if (size > queue->capacity - queue->head) {
        if (size > queue->tail)
            return NULL;
        place = 0;
    }
    return (struct journal_record *)(void *)(queue->bytes + place);
}

void journal_queue_write(struct journal_record *place, const struct journal_record *record) {
    char *key = (char *)(place + 1), *x = key + record->key_size, *y = x + record->x_size;
    *place = *record;
    place->key = record->key_size ? memcpy(key, record->key, record->key_size) : key;
    place->x = memcpy(x, record->x, record->x_size);
    if (record->y)
        place->y = memcpy(y, record->y, record->y_size);
    if (record->words_size)
        place->words = memcpy(y + record->y_size, record->words, record->words_size);
}

void journal_queue_put(struct journal_queue *queue, const struct journal_record *record) {
    size_t place = (size_t)((const char *)record - queue->bytes);
    if (place != queue->head)
        queue->wrap = queue->head;
    queue->head = place + record->size;
    queue->count++;
}

const struct journal_record *journal_queue_next(const struct journal_queue *queue,
                                                const struct journal_record *record) {
    size_t place = queue->tail;
    if (record)
        place = (size_t)((const char *)record - queue->bytes) + record->size;
    if (place == queue->wrap)
        place = 0;
    return (const struct journal_record *)(const void *)(queue->bytes + place);
}

void journal_queue_drop(struct journal_queue *queue, size_t count,
                        const struct journal_record *last) {
    size_t tail = (size_t)((const char *)last - queue->bytes) + last->size;
    bool passed = tail <= queue->tail;
    queue->tail = tail;
    queue->count -= count;
    if (passed)
        queue->wrap = NO_WRAP;
    if (queue->tail == queue->wrap) {
        queue->tail = 0;
        queue->wrap = NO_WRAP;
    }
}
