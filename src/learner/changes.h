/* Which streams have changed since an entry of the journal, and which are gone since: so that what
   has been kept elsewhere of the others is still true. Allocates when it opens and never again;
   NULL keeps nothing, and knows nothing.

   A change belongs to the entry that is being learned, whose number is that of the newest one and
   one more (learner_set_position comes after it). */
#ifndef RUNNEL_CHANGES_H
#define RUNNEL_CHANGES_H

#include <stddef.h>
#include <stdint.h>

struct changes;
struct error;
struct streams;

int changes_open(struct changes **changes, size_t slots, struct error *error);
void changes_close(struct changes **changes);

/* Nothing is known of what was before this entry, nor of that: all streams may have changed with
   it. Among themselves they keep the order in which they were used. */
void changes_begin(struct changes *changes, const struct streams *streams, uint64_t position);

/* With the entry at `position`: the stream in a slot has changed; one that is not in memory any
   more. One that is new there. */
void changes_mark(struct changes *changes, uint32_t slot, uint64_t position);
void changes_gone(struct changes *changes, const char *key, size_t key_size, uint64_t position);
void changes_came(struct changes *changes, const char *key, size_t key_size);

/* The last entry that changed the stream in a slot, or a later one that is not after where it
   began; 0 where nothing is kept. It rises from the least to the most recently used. */
uint64_t changes_of(const struct changes *changes, uint32_t slot);

/* Of what changed after this entry all is known; UINT64_MAX where nothing is kept. */
uint64_t changes_known(const struct changes *changes);

/* Streams that are gone, by slots of this table; the entry with which each was. */
const struct streams *changes_left(const struct changes *changes);
uint64_t changes_left_with(const struct changes *changes, uint32_t slot);

/* Nobody will ask for what was before an entry. */
void changes_settle(struct changes *changes, uint64_t position);

#endif
