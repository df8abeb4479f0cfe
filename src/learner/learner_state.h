/* What a checkpoint keeps of a learner, read and written piece by piece so that nothing is held
   twice. Between plans only: flush before reading. Writing is for a learner that has just been
   opened and has taken no example, or for one stream that comes from elsewhere. */
#ifndef RUNNEL_LEARNER_STATE_H
#define RUNNEL_LEARNER_STATE_H

#include "common/streams.h"
#include "engine/member.h"
#include "learner.h"

struct state_place;

/* A block of a member's engine; ENGINE_SLOT is by the slots of learner_streams_table. */
int learner_read(struct learner *learner, size_t member, enum engine_block block, size_t index,
                 void *data, struct error *error);
int learner_write(struct learner *learner, size_t member, enum engine_block block, size_t index,
                  const void *data, struct error *error);

/* Keys, slots and order of use. */
const struct streams *learner_streams_table(const struct learner *learner);
struct learner_window learner_window(const struct learner *learner, size_t member, uint32_t slot);

/* Rows of what is kept beside tensors and words (rows.h), in the order of a checkpoint's entries:
   how many, into `places` unless it is NULL; of which member and slot is to be said. */
size_t learner_rows(const struct learner *learner, struct state_place *places);

/* All rows of a slot have been filled: NULL, or the name of one that this learner cannot have
   written. All those that are not of streams have been. */
const char *learner_slot_filled(struct learner *learner, uint32_t slot);
void learner_once_filled(struct learner *learner);

/* Whether all of this, and the states in the members' records, can have come from this learner: a
   stream with other numbers could not be read again. The buffer has room for a record. 1: it
   cannot; -1: the device has failed. */
int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error);

/* The slot of number n of the memories that streams share (anomalies_shared). */
uint32_t learner_shared_slot(const struct learner *learner, size_t n);

/* Of a member: numbers in a slot's record, blocks of moments. */
size_t learner_record_size(const struct learner *learner, size_t member);
size_t learner_moments(const struct learner *learner, size_t member);

/* Add a stream as the most recently used, its windows empty; there must be room. Returns its slot.
 */
uint32_t learner_add_stream(struct learner *learner, const char *key, size_t key_size);

/* Which streams have changed (changes.h); NULL where no fleet asks (fleet.lease 0). All has been
   written: what a checkpoint has is not known to have changed. All may have, with the entry that
   comes next: some of what was learned is left out. Nobody asks for what was before an entry. */
struct changes;
const struct changes *learner_changes(const struct learner *learner);
void learner_resumed(struct learner *learner);
void learner_all_changed(struct learner *learner);
void learner_changes_settle(struct learner *learner, uint64_t position);

/* ---- A stream that comes from elsewhere ---- */

/* Where its rows are to be written. */
struct learner_place {
    uint32_t slot;
    bool known;  /* the stream was there: it has begun anew in its slot */
    bool evicts; /* there was no room: this one, the least recently used, is gone */
    char evicted[STREAMS_KEY_MAX];
    size_t evicted_size;
};

/* What will have to go for the stream's sake: itself, the least recently used, or none: false. */
bool learner_displaces(const struct learner *learner, const char *key, size_t key_size,
                       const char **displaced, size_t *displaced_size);

/* The plan must be empty (learner_flush): a slot in which the stream begins. Then, once its rows
   are written, settle: it is the most recently used. Or withdraw: what has gone is there again, in
   the place and order in which it was, to be written once more; `*slot` is STREAMS_NONE when none
   has. That ends with learner_restored. -1: the device has failed. */
int learner_place(struct learner *learner, const char *key, size_t key_size,
                  struct learner_place *place, struct error *error);
void learner_settle(struct learner *learner, const struct learner_place *place);
int learner_withdraw(struct learner *learner, const struct learner_place *place, uint32_t *slot,
                     struct error *error);
void learner_restored(struct learner *learner, uint32_t slot);

/* All of a member's parameters (parameters,) become these; moments and streams stay. -1: the device
   has failed. */
int learner_write_parameters(struct learner *learner, size_t member, const float *values,
                             struct error *error);

struct learner_rates learner_rates(const struct learner *learner, size_t member);
void learner_write_rates(struct learner *learner, size_t member, const struct learner_rates *rates);

/* ---- Between the learner's own files ---- */

/* All that is kept of the stream in a slot begins: with its first step, which is planned, or now.
 */
void learner_begin_stream(struct learner *learner, uint32_t slot, bool planned);

/* A stream has come from elsewhere: what has changed with it. */
void learner_adopted(struct learner *learner, const struct learner_place *place);

#endif
