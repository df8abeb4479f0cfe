/* The streams in memory: a table from keys to slots, and their order of use. Allocates only when
   it opens; every operation takes constant time.

   A slot is a number 0..capacity-1 that belongs to a stream from streams_add to streams_remove. */
#ifndef RUNNEL_STREAMS_H
#define RUNNEL_STREAMS_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct streams;

#define STREAMS_NONE UINT32_MAX /* no such slot */

enum { STREAMS_KEY_MAX = 263 }; /* WIRE_KEY_MAX, and a producer */

int streams_open(struct streams **streams, size_t capacity, struct error *error);
void streams_close(struct streams **streams);
void streams_clear(struct streams *streams);

/* The slot of the key (at most STREAMS_KEY_MAX bytes), or STREAMS_NONE. */
uint32_t streams_find(const struct streams *streams, const char *key, size_t key_size);

/* Add a new key as the most recently used, and return its slot. There must be room. */
uint32_t streams_add(struct streams *streams, const char *key, size_t key_size);
void streams_remove(struct streams *streams, uint32_t slot);

/* Make the slot the most recently used. */
void streams_touch(struct streams *streams, uint32_t slot);

/* Make the slot the least recently used. */
void streams_age(struct streams *streams, uint32_t slot);

/* Iterate from the least to the most recently used; STREAMS_NONE at the end. */
uint32_t streams_oldest(const struct streams *streams);
uint32_t streams_newer(const struct streams *streams, uint32_t slot);

/* The slot's key, valid until the slot is removed. */
const char *streams_key(const struct streams *streams, uint32_t slot, size_t *key_size);

size_t streams_count(const struct streams *streams);
size_t streams_capacity(const struct streams *streams);

#endif
