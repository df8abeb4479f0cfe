#include "feed_window.h"

#include <stdlib.h>
#include <string.h>

#include "feed_outlet.h"
#include "streams/feed.h"

struct held {
    bool answered;
    uint32_t epoch;
    uint64_t sequence;
    size_t key_size, size; /* of the key, which follows, and of the frames behind it */
    size_t frame_size[WINDOW_FRAMES];
    int frames;
    char bytes[];
};

struct window {
    struct held *ring[WINDOW_EXAMPLES]; /* example n is at n modulo its size */
    uint64_t oldest, end, waiting;
    size_t bytes;
    uint64_t next_answered[WIRE_REJECTED + 1]; /* where the next answer of this status may belong */
};

int window_open(struct window **window, struct error *error) {
    *window = calloc(1, sizeof **window);
    return *window ? 0 : error_no_memory(error);
}

static struct held **at(struct window *window, uint64_t number) {
    return &window->ring[number % WINDOW_EXAMPLES];
}

void window_close(struct window **pointer) {
    struct window *window = *pointer;
    for (uint64_t n = window ? window->oldest : 0; window && n < window->end; n++)
        free(*at(window, n));
    free(window);
    *pointer = NULL;
}

static size_t frames_size(const struct message *m) {
    size_t y_size = m->y ? m->y_size : 0;
    return m->json ? m->json_size : m->stream->key_size + m->x_size + y_size + WIRE_HEADER_SIZE;
}

static size_t held_size(size_t key_size, size_t size) {
    return sizeof(struct held) + key_size + size;
}

bool window_has_room(const struct window *window, const struct message *message) {
    size_t size = held_size(message->stream->key_size, frames_size(message));
    uint64_t count = window->end - window->oldest;
    return count == 0 || (count < WINDOW_EXAMPLES && window->bytes + size <= WINDOW_BYTES);
}

static void append(struct held *held, const void *bytes, size_t size) {
    if (size)
        memcpy(held->bytes + held->key_size + held->size, bytes, size);
    held->size += size;
    held->frame_size[held->frames++] = size;
}

int window_add(struct window *window, const struct message *m, struct error *error) {
    const struct stream *stream = m->stream;
    unsigned char header[WIRE_HEADER_SIZE];
    struct held *held = calloc(1, held_size(stream->key_size, frames_size(m)));
    if (!held)
        return error_no_memory(error);
    held->epoch = m->header.epoch;
    held->sequence = m->header.sequence;
    held->key_size = stream->key_size;
    memcpy(held->bytes, stream->key, stream->key_size);
    if (m->json) {
        append(held, m->json, m->json_size);
    } else {
        wire_header_pack(&m->header, header);
        append(held, stream->key, stream->key_size);
        append(held, m->x, m->x_size);
        append(held, m->y, m->y ? m->y_size : 0);
        append(held, header, sizeof header);
    }
    window->bytes += held_size(held->key_size, held->size);
    window->waiting++;
    *at(window, window->end++) = held;
    return 0;
}

uint64_t window_oldest(const struct window *window) {
    return window->oldest;
}

uint64_t window_end(const struct window *window) {
    return window->end;
}

uint64_t window_waiting(const struct window *window) {
    return window->waiting;
}

bool window_get(const struct window *window, uint64_t number, struct window_example *example) {
    const struct held *held = window->ring[number % WINDOW_EXAMPLES];
    example->bytes = held->bytes + held->key_size;
    example->frames = held->frames;
    memcpy(example->frame_size, held->frame_size, sizeof example->frame_size);
    return !held->answered;
}

static bool is_of(const struct held *held, const char *key, size_t key_size,
                  const struct wire_acknowledgement *answer) {
    return !held->answered && held->sequence == answer->sequence && held->epoch == answer->epoch &&
           held->key_size == key_size && memcmp(held->bytes, key, key_size) == 0;
}

static void settle(struct window *window, uint64_t number) {
    (*at(window, number))->answered = true;
    window->waiting--;
    while (window->oldest < window->end && (*at(window, window->oldest))->answered) {
        struct held *oldest = *at(window, window->oldest++);
        window->bytes -= held_size(oldest->key_size, oldest->size);
        free(oldest);
    }
}

/* Rejections come at once, the other answers when the disk has their examples, both in order: so
   the next of a kind is mostly found at once. */
bool window_answer(struct window *window, uint64_t sent, const char *key, size_t key_size,
                   const struct wire_acknowledgement *answer) {
    uint64_t *next = &window->next_answered[answer->status == WIRE_REJECTED ? WIRE_REJECTED : 0];
    uint64_t first = window->oldest, count = sent - first;
    uint64_t start = *next > first && *next < sent ? *next - first : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = first + (start + i) % count;
        if (!is_of(*at(window, number), key, key_size, answer))
            continue;
        *next = number + 1;
        settle(window, number);
        return true;
    }
    return false;
}
