/* What a checkpoint keeps of a learner, read and written piece by piece so that nothing is held
   twice. Between plans only: flush before reading. Writing is for a learner that has just been
   opened and has taken no example, or for one stream that comes from elsewhere. */
#ifndef RUNNEL_LEARNER_STATE_H
#define RUNNEL_LEARNER_STATE_H

#include "learner.h"
#include "streams.h"

/* The window of one stream, beside the slot's record in the engine. */
struct learner_window {
    uint32_t next;   /* ring position of its next step */
    uint32_t length; /* closed steps in the window */
    uint32_t closed; /* of them: closed since the last update */
    uint32_t terms;  /* targets to be learned among those */
    uint32_t open;   /* steps after those that wait for their targets */
};

/* What is kept of an open step, beside what the engine keeps. */
struct learner_open {
    uint64_t producer, sequence; /* of its example, */
    uint32_t epoch;              /* likewise; */
    uint32_t steps;              /* how many that has; 0: it had no number */
    uint32_t known;              /* 1: its target has come, or it is known that there is none */
    uint32_t terms;              /* its targets that are to be learned from */
    double time;                 /* of its example's header, 0 = unknown */
    uint64_t classes;            /* of a vocabulary: appeared before its example */
};

/* The rate and clip in effect, and those of the configuration (learner_open, learner_configure):
   they differ after learner_set_rate and learner_set_clip. */
struct learner_rates {
    double rate, clip, configured_rate, configured_clip;
};

/* A block of a member's engine; ENGINE_SLOT is by the slots of learner_streams_table. */
int learner_read(struct learner *learner, size_t member, enum engine_block block, size_t index,
                 void *data, struct error *error);
int learner_write(struct learner *learner, size_t member, enum engine_block block, size_t index,
                  const void *data, struct error *error);

/* Keys, slots and order of use. */
const struct streams *learner_streams_table(const struct learner *learner);
struct learner_window learner_window(const struct learner *learner, size_t member, uint32_t slot);

/* The last observed x (I,) of a stream, NaN where none yet; NULL without missing: hold, and with
   scale: forecast, whose experts keep it. */
float *learner_held(struct learner *learner, uint32_t slot);

/* What is kept of a stream's times (LEARNER_TIMES,), NULL without model.input.time; whether what
   was written there can have come from this learner. */
enum { LEARNER_TIMES = 4 };
double *learner_times(struct learner *learner, uint32_t slot);
bool learner_times_valid(struct learner *learner, uint32_t slot);

/* Of a stream's open steps, by place (model_place). Mean and deviation of targets (2, size) that
   one was predicted with, the mean NaN where nothing had been observed: NULL where they are not
   scaled. What its targets are relative to (size,), as scaled: NULL unless they are, or, with
   target: next, more than one step is open. What else is kept of it: NULL with scale: forecast. */
double *learner_scale(struct learner *learner, uint32_t slot, size_t place);
float *learner_base(struct learner *learner, uint32_t slot, size_t place);
struct learner_open *learner_open_step(struct learner *learner, uint32_t slot, size_t place);

/* A stream's last observed target (size,), NaN where none yet: NULL unless given or later targets
   are relative to it. */
float *learner_last(struct learner *learner, uint32_t slot);

/* What is kept of a stream to say how abnormal it is (anomaly.h), where learner_watches; whether
   what was written there can have come from this learner. */
struct anomaly_contexts learner_contexts(struct learner *learner, uint32_t slot, size_t k);
bool learner_anomaly_written(struct learner *learner, uint32_t slot);

/* Whether all of this, and the states in the members' records, can have come from this learner: a
   stream with other numbers could not be read again. The buffer has room for a record. 1: it
   cannot; -1: the device has failed. */
int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error);

/* How many memories are shared by streams: each is kept in a slot after those of streams. */
size_t learner_shared(const struct learner *learner);
uint32_t learner_shared_slot(const struct learner *learner, size_t n);

/* The threshold of alarms in effect, and that of the configuration. */
struct learner_thresholds {
    double threshold, configured;
};
struct learner_thresholds learner_thresholds(const struct learner *learner);
void learner_write_thresholds(struct learner *learner, const struct learner_thresholds *thresholds);

/* Of a member: numbers in a slot's record, positions in its ring, blocks of moments. */
size_t learner_record_size(const struct learner *learner, size_t member);
size_t learner_ring(const struct learner *learner, size_t member);
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

/* ---- A stream that comes from elsewhere (learner_adopt.c) ---- */

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
void learner_write_counters(struct learner *learner, const struct learner_counters *counters);

/* Put a vocabulary back: its words in the order of their ids, then in that in which they were used.
   -1: they cannot be its. Then say that all are there. */
int learner_add_word(struct learner *learner, size_t lexicon, const char *word, size_t size,
                     uint64_t appeared);
int learner_use_word(struct learner *learner, size_t lexicon, uint32_t id);
void learner_words_written(struct learner *learner);

/* For targets that are not the next input; NULL: they are not scaled. */
struct scaler *learner_output_scaler(struct learner *learner);

/* The scaler has been written: what it says of the range of inputs is what was seen of it. */
void learner_scaler_written(struct learner *learner);

#endif
