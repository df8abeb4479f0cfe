#include "streams.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/hash.h"

/* Links are slots + 1, so that zeroed memory means "none", and unused parts of a large table
   need no memory. */
struct entry {
    uint32_t chain;        /* next entry of the same bucket, or of the free slots */
    uint32_t older, newer; /* neighbours in order of use */
    uint32_t bucket;
    uint16_t key_size;
    char key[STREAMS_KEY_MAX];
};

struct streams {
    size_t capacity, count;
    struct entry *entries; /* (capacity,) */
    size_t touched;        /* number of entries ever used; later ones are free too */
    uint32_t free;         /* list of freed slots */
    uint32_t *buckets;     /* (mask + 1,) */
    uint64_t mask;
    uint64_t seed; /* seed of the hash, so that producers cannot construct collisions */
    uint32_t oldest, newest;
};

int streams_open(struct streams **streams, size_t capacity, struct error *error) {
    assert(capacity > 0 && capacity < STREAMS_NONE);
    struct streams *opened = calloc(1, sizeof *opened);
    *streams = opened;
    if (opened) {
        opened->capacity = capacity;
        size_t buckets = 1;
        while (buckets < 2 * capacity)
            buckets *= 2;
        opened->mask = buckets - 1;
        opened->buckets = calloc(buckets, sizeof *opened->buckets);
        opened->entries = calloc(capacity, sizeof *opened->entries);
        if (getrandom(&opened->seed, sizeof opened->seed, GRND_NONBLOCK) != sizeof opened->seed)
            opened->seed = (uint64_t)(uintptr_t)opened; /* early at boot: use the address */
    }
    if (opened && opened->buckets && opened->entries)
        return 0;
    streams_close(streams);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for %zu streams; use a lower learning.max_streams", capacity);
}

void streams_close(struct streams **streams) {
    struct streams *old = *streams;
    *streams = NULL;
    if (!old)
        return;
    free(old->buckets);
    free(old->entries);
    free(old);
}

void streams_clear(struct streams *streams) {
    while (streams->count)
        streams_remove(streams, streams_oldest(streams));
}

static uint32_t slot_of(uint32_t link) {
    return link ? link - 1 : STREAMS_NONE;
}

static uint32_t bucket_of(const struct streams *streams, const char *key, size_t key_size) {
    return (uint32_t)(hash_keyed(streams->seed, key, key_size) >> 32 & streams->mask);
}

static bool is_of(const struct streams *streams, uint32_t link, const char *key, size_t key_size) {
    const struct entry *entry = &streams->entries[link - 1];
    return entry->key_size == key_size && memcmp(entry->key, key, key_size) == 0;
}

uint32_t streams_find(const struct streams *streams, const char *key, size_t key_size) {
    uint32_t link = streams->newest; /* often used again */
    if (link && is_of(streams, link, key, key_size))
        return link - 1;
    link = streams->buckets[bucket_of(streams, key, key_size)];
    while (link && !is_of(streams, link, key, key_size))
        link = streams->entries[link - 1].chain;
    return slot_of(link);
}

static void append(struct streams *streams, uint32_t link) {
    struct entry *entry = &streams->entries[link - 1];
    entry->older = streams->newest;
    entry->newer = 0;
    if (streams->newest)
        streams->entries[streams->newest - 1].newer = link;
    else
        streams->oldest = link;
    streams->newest = link;
}

static void detach(struct streams *streams, uint32_t link) {
    const struct entry *entry = &streams->entries[link - 1];
    if (entry->older)
        streams->entries[entry->older - 1].newer = entry->newer;
    else
        streams->oldest = entry->newer;
    if (entry->newer)
        streams->entries[entry->newer - 1].older = entry->older;
    else
        streams->newest = entry->older;
}

uint32_t streams_add(struct streams *streams, const char *key, size_t key_size) {
    assert(streams->count < streams->capacity && key_size <= STREAMS_KEY_MAX);
    assert(streams_find(streams, key, key_size) == STREAMS_NONE);
    uint32_t link = streams->free;
    if (link)
        streams->free = streams->entries[link - 1].chain;
    else
        link = (uint32_t)++streams->touched;
    struct entry *entry = &streams->entries[link - 1];
    entry->key_size = (uint16_t)key_size;
    memcpy(entry->key, key, key_size);
    entry->bucket = bucket_of(streams, key, key_size);
    entry->chain = streams->buckets[entry->bucket];
    streams->buckets[entry->bucket] = link;
    append(streams, link);
    streams->count++;
    return link - 1;
}

void streams_remove(struct streams *streams, uint32_t slot) {
    uint32_t link = slot + 1;
    struct entry *entry = &streams->entries[slot];
    uint32_t *place = &streams->buckets[entry->bucket];
    while (*place != link)
        place = &streams->entries[*place - 1].chain;
    *place = entry->chain;
    detach(streams, link);
    entry->chain = streams->free;
    streams->free = link;
    streams->count--;
}

void streams_touch(struct streams *streams, uint32_t slot) {
    if (streams->newest == slot + 1)
        return;
    detach(streams, slot + 1);
    append(streams, slot + 1);
}

void streams_age(struct streams *streams, uint32_t slot) {
    struct entry *entry = &streams->entries[slot];
    if (streams->oldest == slot + 1)
        return;
    detach(streams, slot + 1);
    entry->older = 0;
    entry->newer = streams->oldest;
    streams->entries[streams->oldest - 1].older = slot + 1;
    streams->oldest = slot + 1;
}

uint32_t streams_oldest(const struct streams *streams) {
    return slot_of(streams->oldest);
}

uint32_t streams_newer(const struct streams *streams, uint32_t slot) {
    return slot_of(streams->entries[slot].newer);
}

const char *streams_key(const struct streams *streams, uint32_t slot, size_t *key_size) {
    *key_size = streams->entries[slot].key_size;
    return streams->entries[slot].key;
}

size_t streams_count(const struct streams *streams) {
    return streams->count;
}

size_t streams_capacity(const struct streams *streams) {
    return streams->capacity;
}
