/* The state of a learner in a checkpoint, read and written piece by piece without a second copy.
   Use it only between plans: flush before reading. Write only to a learner that has just been
   opened, or one stream from another daemon. */
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

/* Returns the count of rows besides tensors and words (rows.h), in the order of a checkpoint's
   entries, and copies them to `places` (may be NULL); the caller sets member and slot. */
size_t learner_rows(const struct learner *learner, struct state_place *places);

/* learner_slot_filled: all rows of a slot have been filled; returns NULL, or the name of an invalid
   row. learner_once_filled: all rows without a stream have been filled. */
const char *learner_slot_filled(struct learner *learner, uint32_t slot);
void learner_once_filled(struct learner *learner);

/* Checks that a stream's rows and the members' records are valid, so that they can be read back.
   The buffer has room for a record. 1: invalid; -1: the device has failed. */
int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error);

/* Returns the slot of number n of the memories that streams share (anomalies_shared). */
uint32_t learner_shared_slot(const struct learner *learner, size_t n);

/* A member's count of numbers in a slot's record, and of blocks of moments. */
size_t learner_record_size(const struct learner *learner, size_t member);
size_t learner_moments(const struct learner *learner, size_t member);
size_t learner_start_moment(const struct learner *learner, size_t member); /* see member.h */

/* Adds a stream with empty windows as the most recently used, and returns its slot; there must be
   room. */
uint32_t learner_add_stream(struct learner *learner, const char *key, size_t key_size);

/* Which streams have changed (changes.h); NULL without a fleet (fleet.lease 0). learner_resumed: a
   checkpoint was loaded, whose earlier changes are unknown. learner_all_changed: the next entry, a
   rollback, can change all streams. learner_changes_settle: drops records before an entry. */
struct changes;
const struct changes *learner_changes(const struct learner *learner);
void learner_resumed(struct learner *learner);
void learner_all_changed(struct learner *learner);
void learner_changes_settle(struct learner *learner, uint64_t position);

/* ---- A stream from another daemon ---- */

/* The place for its rows. */
struct learner_place {
    uint32_t slot;
    bool known;  /* the stream existed and starts from scratch in its slot */
    bool evicts; /* the least recently used stream was removed to make room */
    char evicted[STREAMS_KEY_MAX];
    size_t evicted_size;
};

/* Returns whether a stream must make room, and which: the stream itself, or the least recently
   used. */
bool learner_displaces(const struct learner *learner, const char *key, size_t key_size,
                       const char **displaced, size_t *displaced_size);

/* learner_place starts the stream in a slot; the plan must be empty (learner_flush). After its rows
   are written, learner_settle makes it the most recently used. Or learner_withdraw restores the
   displaced stream in its place and order: `*slot` is where to write its rows, STREAMS_NONE without
   one; learner_restored ends that. -1: the device has failed. */
int learner_place(struct learner *learner, const char *key, size_t key_size,
                  struct learner_place *place, struct error *error);
void learner_settle(struct learner *learner, const struct learner_place *place);
int learner_withdraw(struct learner *learner, const struct learner_place *place, uint32_t *slot,
                     struct error *error);
void learner_restored(struct learner *learner, uint32_t slot);

/* Replaces all parameters (parameters,) of a member. `begins`: they are starting values for `pull`
   and for statistics. Moments and streams stay. -1: the device has failed. */
int learner_write_parameters(struct learner *learner, size_t member, const float *values,
                             bool begins, struct error *error);

struct learner_rates learner_rates(const struct learner *learner, size_t member);
void learner_write_rates(struct learner *learner, size_t member, const struct learner_rates *rates);

/* ---- Between the learner's own files ---- */

/* Starts the state of the stream in a slot: with its first step, which is planned, or at once. */
void learner_begin_stream(struct learner *learner, uint32_t slot, bool planned);

/* Records the changes by a stream from another daemon. */
void learner_adopted(struct learner *learner, const struct learner_place *place);

#endif
