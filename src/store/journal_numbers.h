/* The newest numbers of the streams of each producer, in memory: those used most recently. The file
   has all of them. */
#ifndef RUNNEL_JOURNAL_NUMBERS_H
#define RUNNEL_JOURNAL_NUMBERS_H

#include <string.h>

#include "common/streams.h"
#include "common/wire.h"
#include "journal_read.h"

/* The key of a stream in memory: the producer, then the stream's key. */
struct journal_key {
    size_t size;
    char bytes[STREAMS_KEY_MAX];
};
_Static_assert(STREAMS_KEY_MAX >= sizeof(uint64_t) + WIRE_KEY_MAX, "producer and key must fit");

static inline void journal_key(struct journal_key *to, const char *key, size_t key_size,
                               uint64_t producer) {
    memcpy(to->bytes, &producer, sizeof producer);
    if (key_size)
        memcpy(to->bytes + sizeof producer, key, key_size);
    to->size = sizeof producer + key_size;
}

struct journal_numbers {
    struct streams *keys;
    struct journal_key searched; /* the key searched last, size 0: none */
    uint32_t searched_slot;      /* its slot in `keys`, or STREAMS_NONE */
    struct journal_last *lasts;  /* (JOURNAL_KEYS,) */
};

/* -1: out of memory. Close it in any case. */
int journal_numbers_open(struct journal_numbers *numbers);
void journal_numbers_close(struct journal_numbers *numbers);
void journal_numbers_clear(struct journal_numbers *numbers);

/* Returns whether another stream can be added: only a stream in the file, which has the entries up
   to `durable`, can be removed. */
bool journal_numbers_have_room(const struct journal_numbers *numbers, uint64_t durable);

/* Returns the numbers of a stream; NULL: not in memory. */
const struct journal_last *journal_numbers_find(struct journal_numbers *numbers, const char *key,
                                                size_t key_size, uint64_t producer);

/* Stores the numbers of the stream searched last, if there is room. */
void journal_numbers_put(struct journal_numbers *numbers, const struct journal_last *last,
                         uint64_t durable);

/* Stores the numbers of a record's stream, if there is room. */
void journal_numbers_note(struct journal_numbers *numbers, const struct journal_record *record,
                          uint64_t durable);

#endif
