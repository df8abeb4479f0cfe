/* State that moves between daemons of a fleet: streams, and parameters. These functions change the
   learner and append their commands to the journal, so that a replay does the same. They do not
   wait until the entries are durable (journal_sync).

   Call them only between batches, when all taken examples are learned. A blob has every row that a
   checkpoint has of the stream (store/stream_state.h). */
#ifndef RUNNEL_CARRY_H
#define RUNNEL_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct carry;
struct config;
struct error;
struct journal;
struct learner;

/* Opens for one batch of streams: the learner must not be replaced before carry_close. `journal`
   may be NULL: nothing is appended. -1: EX_UNAVAILABLE, out of memory; EX_CONFIG, streams of this
   configuration cannot move. */
int carry_open(struct carry **carry, const struct config *config, struct learner *learner,
               struct journal *journal, struct error *error);
void carry_close(struct carry **carry);

/* ---- Streams ---- */

/* The bytes are valid until the next call with the same carry. */
struct carry_blob {
    const unsigned char *bytes;
    size_t size;
    /* Greater than that of all streams used less recently. An unchanged stream keeps it in
       carry_changed; 0 = unknown. */
    uint64_t order;
};

/* Exports the state of the stream. 0; 1: not in memory; -1: the device has failed. */
int carry_export(struct carry *carry, const char *key, size_t key_size, struct carry_blob *blob,
                 struct error *error);

/* Visits the wanted streams in memory with their blobs, from the least to the most recently used:
   adopted in this order, they are forgotten in this order. -1: from `visit`, or the device has
   failed. */
struct carry_visitor {
    void *context;
    int (*wants)(void *context, const char *key, size_t key_size); /* 1 or 0; NULL: all */
    int (*visit)(void *context, const char *key, size_t key_size, const struct carry_blob *blob,
                 struct error *error);
    int (*gone)(void *context, const char *key, size_t key_size,
                struct error *error); /* only carry_changed calls it; may be NULL */
};
int carry_each(struct carry *carry, const struct carry_visitor *visitor, struct error *error);

/* Visits only the streams that changed after entry `since` of the journal; the others have the
   state of that entry. `gone` gets the streams that have since ended, been forgotten or lost their
   slots. Returns 1 and visits nothing if the changes are unknown: after a rollback, a start from a
   checkpoint after `since`, more streams gone than slots, or without a fleet (fleet.lease). Then
   use carry_each. Otherwise the same as carry_each. */
int carry_changed(struct carry *carry, uint64_t since, const struct carry_visitor *visitor,
                  struct error *error);

/* Returns the entry to pass as `since` next time: exports contain the changes up to it. */
uint64_t carry_position(const struct carry *carry);

/* No later call has a `since` before this entry. */
void carry_settle(struct carry *carry, uint64_t position);

/* Returns the stream of the blob; `key` is valid while the blob is. 0; 1 (EX_DATAERR): the blob is
   damaged, or has another format or configuration. Changes nothing. */
int carry_look(const struct carry *carry, const void *bytes, size_t size, const char **key,
               size_t *key_size, struct error *error);

/* Replaces the stream by the state of the blob, as the most recently used. Without room, it forgets
   the least recently used one, as for a new stream. 0; 1 (EX_DATAERR): nothing changed; -1: the
   device has failed. */
int carry_adopt(struct carry *carry, const void *bytes, size_t size, struct error *error);

/* Returns whether a refused adoption has lost the stream that it displaced (stream_state_lost):
   record that in the journal. */
bool carry_lost(const struct carry *carry, const char **key, size_t *key_size);

/* Forgets the wanted streams, which another daemon has now, with as few commands as possible. -1:
   the device has failed, or out of memory. */
int carry_forget(struct carry *carry, const struct carry_visitor *visitor, struct error *error);

/* ---- Parameters ---- */

/* Returns the count of numbers in all members' tensors with running statistics, one member after
   the other, in the order of its table. */
size_t carry_parameters(const struct carry *carry);

/* Copies them to values (carry_parameters,). -1: the device has failed. */
int carry_read_parameters(struct carry *carry, float *values, struct error *error);

/* Replaces the parameters by values (carry_parameters,), which are also new starting values for
   `pull` if `begins`. The optimizer's moments, all streams and
   the precision of least squares stay. With a journal, first writes and syncs a file in the state
   directory (store/parameters_file.h), then sets the values, then appends a command with the file's
   name; the daemon removes the file when no replay needs it. 0; 1: a value is not finite, the file
   cannot be written, or there are vocabularies, and nothing changed; -1: the device has failed. */
int carry_write_parameters(struct carry *carry, const float *values, bool begins,
                           struct error *error);

#endif
