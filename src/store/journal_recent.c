#include "journal_recent.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/hash.h"

/* Each row has its newest examples first. With one place a row, 2,000 other examples would replace
   a stream's newest once in 500 times. With eight, 6,000 others replace one once in 10^12. */
enum { ROW = 8, ROWS = JOURNAL_RECENT_PLACES / ROW };

struct journal_recent {
    uint64_t seed;
    uint64_t *places; /* (ROWS, ROW) tag and checksum, 32 bits each; 0 = empty */
};

int journal_recent_open(struct journal_recent **recent, struct error *error) {
    struct journal_recent *opened = *recent = calloc(1, sizeof *opened);
    if (opened)
        opened->places = calloc(JOURNAL_RECENT_PLACES, sizeof *opened->places);
    if (!opened || !opened->places) {
        journal_recent_close(recent);
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal");
    }
    if (getrandom(&opened->seed, sizeof opened->seed, GRND_NONBLOCK) != sizeof opened->seed)
        opened->seed = (uint64_t)(uintptr_t)opened->places; /* early at boot: no random bytes yet */
    return 0;
}

void journal_recent_close(struct journal_recent **recent) {
    if (*recent)
        free((*recent)->places);
    free(*recent);
    *recent = NULL;
}

/* Consecutive numbers of a stream have consecutive rows, so that they do not replace each other. */
static uint64_t *row_of(const struct journal_recent *recent, const struct journal_record *r,
                        uint32_t *tag) {
    uint64_t numbers = hash_mix(recent->seed ^ r->producer, HASH_ODD ^ r->epoch);
    uint64_t stream = hash_keyed(recent->seed ^ numbers, r->key, r->key_size);
    *tag = (uint32_t)(hash_mix(stream ^ r->sequence, recent->seed | 1) >> 32);
    return &recent->places[(stream + r->sequence) % ROWS * ROW];
}

static uint32_t checksum_of(const struct journal_recent *recent, const struct journal_record *r) {
    uint64_t form = (uint64_t)r->steps << 16 | (uint64_t)r->flags << 8 | (r->y != NULL);
    uint64_t hash = hash_keyed(hash_mix(~recent->seed ^ form, HASH_ODD), r->x, r->x_size);
    if (r->y)
        hash = hash_keyed(hash, r->y, r->y_size);
    if (r->words_size)
        hash = hash_keyed(hash, r->words, r->words_size);
    if (r->flags & WIRE_LABEL)
        hash = hash_keyed(hash_mix(hash ^ r->label.epoch, HASH_ODD), &r->label.sequence,
                          sizeof r->label.sequence);
    return (uint32_t)(hash >> 32);
}

static uint64_t *fill(const struct journal_recent *recent, const struct journal_record *record,
                      uint64_t *value) {
    uint32_t tag;
    uint64_t *row = row_of(recent, record, &tag);
    *value = (uint64_t)tag << 32 | checksum_of(recent, record);
    return row;
}

void journal_recent_put(struct journal_recent *recent, const struct journal_record *record) {
    uint64_t value, *row = fill(recent, record, &value);
    memmove(row + 1, row, (ROW - 1) * sizeof *row);
    *row = value;
}

void journal_recent_put_older(struct journal_recent *recent, const struct journal_record *record) {
    uint64_t value, *row = fill(recent, record, &value);
    for (int i = 0; i < ROW; i++)
        if (!row[i]) {
            row[i] = value;
            return;
        }
}

enum journal_seen journal_recent_find(const struct journal_recent *recent,
                                      const struct journal_record *record) {
    uint32_t tag;
    const uint64_t *row = row_of(recent, record, &tag);
    for (int i = 0; i < ROW; i++)
        if (row[i] && row[i] >> 32 == tag)
            return (uint32_t)row[i] == checksum_of(recent, record) ? JOURNAL_SEEN_SAME
                                                                   : JOURNAL_SEEN_OTHER;
    return JOURNAL_SEEN_UNKNOWN;
}
