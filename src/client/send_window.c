#include "send_window.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/wire.h"
#include "runnel.h"
#include "send.h"

struct held {
    bool answered;
    bool sent, sent_again;
    uint32_t epoch;
    uint64_t sequence;
    size_t key_size, size; /* of the key, which follows, and of the frames after it */
    size_t frame_size[SEND_FRAMES];
    int frames;
    char bytes[];
};

struct window {
    uint64_t oldest, end, waiting;
    size_t bytes;
    uint64_t next_answered[WIRE_REJECTED + 1]; /* where the next answer of this status may belong */
    size_t examples;
    struct held *ring[]; /* (examples,) example n is at n modulo their number */
};

int window_open(struct window **window, size_t examples, struct error *error) {
    if (examples == 0)
        examples = WINDOW_EXAMPLES;
    *window = examples < SIZE_MAX / sizeof(struct held *) - sizeof **window
                  ? calloc(1, sizeof **window + examples * sizeof(struct held *))
                  : NULL;
    if (!*window)
        return error_no_memory(error);
    (*window)->examples = examples;
    return 0;
}

static struct held **at(struct window *window, uint64_t number) {
    return &window->ring[number % window->examples];
}

void window_close(struct window **pointer) {
    struct window *window = *pointer;
    for (uint64_t n = window ? window->oldest : 0; window && n < window->end; n++)
        free(*at(window, n));
    free(window);
    *pointer = NULL;
}

static size_t frames_size(const struct runnel_example *e) {
    size_t y_size = e->y ? e->y_size : 0;
    size_t words_size = e->flags & WIRE_WORDS ? e->words_size : 0;
    size_t note_size = e->flags & WIRE_NOTE ? e->note_size : 0;
    return e->json ? e->json_size
                   : e->key_size + e->x_size + y_size + words_size + note_size + SEND_HEADER_SIZE;
}

static size_t held_size(size_t key_size, size_t size) {
    return sizeof(struct held) + key_size + size;
}

bool window_has_room(const struct window *window, const struct runnel_example *example) {
    size_t size = held_size(example->key_size, frames_size(example));
    uint64_t count = window->end - window->oldest;
    return count == 0 || (count < window->examples && window->bytes + size <= WINDOW_BYTES);
}

int window_add(struct window *window, const struct runnel_example *e, uint64_t producer,
               struct error *error) {
    unsigned char header[SEND_HEADER_SIZE];
    struct frames frames;
    struct held *held = calloc(1, held_size(e->key_size, frames_size(e)));
    if (!held)
        return error_no_memory(error);
    held->epoch = e->epoch;
    held->sequence = e->sequence;
    held->key_size = e->key_size;
    memcpy(held->bytes, e->key, e->key_size);
    frames_make(&frames, e, true, producer, header);
    for (int i = 0; i < frames.count; i++) {
        held->frame_size[held->frames++] = frames.sizes[i];
        if (frames.sizes[i])
            memcpy(held->bytes + held->key_size + held->size, frames.bytes[i], frames.sizes[i]);
        held->size += frames.sizes[i];
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

bool window_get(const struct window *window, uint64_t number, struct frames *frames) {
    const struct held *held = window->ring[number % window->examples];
    const char *bytes = held->bytes + held->key_size;
    frames->count = 0;
    for (int i = 0; i < held->frames; bytes += held->frame_size[i++])
        frames_add(frames, bytes, held->frame_size[i]);
    return !held->answered;
}

void window_sent(struct window *window, uint64_t number) {
    struct held *held = *at(window, number);
    held->sent_again = held->sent;
    held->sent = true;
}

/* A key that is itself rejected does not come back. */
static bool is_bad_key(const struct held *held) {
    return held->key_size > WIRE_KEY_MAX || !wire_is_utf8(held->bytes, held->key_size);
}

static bool is_of(const struct held *held, const char *key, size_t key_size,
                  const struct wire_acknowledgement *answer) {
    bool same = held->key_size == key_size && memcmp(held->bytes, key, key_size) == 0;
    return !held->answered && held->sequence == answer->sequence && held->epoch == answer->epoch &&
           (same || (key_size == 0 && answer->status == WIRE_REJECTED && is_bad_key(held)));
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
                   const struct wire_acknowledgement *answer, bool *once) {
    uint64_t *next = &window->next_answered[answer->status == WIRE_REJECTED ? WIRE_REJECTED : 0];
    uint64_t first = window->oldest, count = sent - first;
    uint64_t start = *next > first && *next < sent ? *next - first : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = first + (start + i) % count;
        if (!is_of(*at(window, number), key, key_size, answer))
            continue;
        *next = number + 1;
        *once = !(*at(window, number))->sent_again;
        settle(window, number);
        return true;
    }
    return false;
}
