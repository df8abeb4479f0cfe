#include "journal_numbers.h"

#include <stdlib.h>

int journal_numbers_open(struct journal_numbers *numbers) {
    numbers->lasts = calloc(JOURNAL_KEYS, sizeof *numbers->lasts);
    return !numbers->lasts || streams_open(&numbers->keys, JOURNAL_KEYS, NULL) ? -1 : 0;
}

void journal_numbers_close(struct journal_numbers *numbers) {
    streams_close(&numbers->keys);
    free(numbers->lasts);
}

void journal_numbers_clear(struct journal_numbers *numbers) {
    streams_clear(numbers->keys);
    numbers->searched.size = 0;
}

bool journal_numbers_have_room(const struct journal_numbers *numbers, uint64_t durable) {
    return streams_count(numbers->keys) < JOURNAL_KEYS ||
           numbers->lasts[streams_oldest(numbers->keys)].position <= durable;
}

/* Returns the slot of the key, or STREAMS_NONE. Keeps key and slot, since the key that is checked
   is usually appended next. */
static uint32_t find_key(struct journal_numbers *numbers, const char *key, size_t key_size,
                         uint64_t producer) {
    struct journal_key *searched = &numbers->searched;
    journal_key(searched, key, key_size, producer);
    return numbers->searched_slot = streams_find(numbers->keys, searched->bytes, searched->size);
}

const struct journal_last *journal_numbers_find(struct journal_numbers *numbers, const char *key,
                                                size_t key_size, uint64_t producer) {
    uint32_t slot = find_key(numbers, key, key_size, producer);
    return slot == STREAMS_NONE ? NULL : &numbers->lasts[slot];
}

/* Returns the slot of the key searched last, as the most recently used. There must be room. */
static uint32_t remember(struct journal_numbers *numbers) {
    const struct journal_key *searched = &numbers->searched;
    if (numbers->searched_slot != STREAMS_NONE) {
        streams_touch(numbers->keys, numbers->searched_slot);
        return numbers->searched_slot;
    }
    if (streams_count(numbers->keys) == JOURNAL_KEYS)
        streams_remove(numbers->keys, streams_oldest(numbers->keys));
    return numbers->searched_slot = streams_add(numbers->keys, searched->bytes, searched->size);
}

void journal_numbers_put(struct journal_numbers *numbers, const struct journal_last *last,
                         uint64_t durable) {
    if (journal_numbers_have_room(numbers, durable))
        numbers->lasts[remember(numbers)] = *last;
}

void journal_numbers_note(struct journal_numbers *numbers, const struct journal_record *record,
                          uint64_t durable) {
    const struct journal_key *searched = &numbers->searched;
    size_t size = sizeof record->producer;
    bool same = searched->size == size + record->key_size &&
                memcmp(searched->bytes, &record->producer, size) == 0 &&
                memcmp(searched->bytes + size, record->key, record->key_size) == 0;
    if (!same)
        find_key(numbers, record->key, record->key_size, record->producer);
    const struct journal_last last = {record->epoch, record->sequence, record->position};
    journal_numbers_put(numbers, &last, durable);
}
