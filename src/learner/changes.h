/* Records which streams have changed since an entry of the journal, and which were removed: copies
   of the others elsewhere are still valid. Allocates only on opening; NULL is allowed and records
   nothing.

   A change belongs to the entry that is being learned: the newest entry plus one, until
   learner_set_position. */
#ifndef RUNNEL_CHANGES_H
#define RUNNEL_CHANGES_H

#include <stddef.h>
#include <stdint.h>

struct changes;
struct error;
struct streams;

int changes_open(struct changes **changes, size_t slots, struct error *error);
void changes_close(struct changes **changes);

/* Starts at this entry: all streams count as changed with it, in the order of their use. */
void changes_begin(struct changes *changes, const struct streams *streams, uint64_t position);

/* Record the entry that changes the stream in a slot; the entry that removes a stream; and
   that a stream is new. */
void changes_mark(struct changes *changes, uint32_t slot, uint64_t position);
void changes_remove(struct changes *changes, const char *key, size_t key_size, uint64_t position);
void changes_add(struct changes *changes, const char *key, size_t key_size);

/* Returns the last entry that changed the stream in a slot, or the entry of changes_begin; 0
   without records. It rises from the least to the most recently used stream. */
uint64_t changes_of(const struct changes *changes, uint32_t slot);

/* Returns the entry after which all changes are known; UINT64_MAX without records. */
uint64_t changes_known(const struct changes *changes);

/* Returns the removed streams, by slots of this table; and the entry of each. */
const struct streams *changes_left(const struct changes *changes);
uint64_t changes_left_with(const struct changes *changes, uint32_t slot);

/* Drops records before an entry. */
void changes_settle(struct changes *changes, uint64_t position);

#endif
