/* What goes from one daemon of a fleet to another: streams with their state, and parameters. It
   changes the learner and appends to the journal what it has done, so that a replay does the same;
   nothing here waits until that is durable (journal_sync).

   Between batches of examples only: what was taken is learned first. A blob is what
   store/stream_state.h says: every row that a checkpoint has of the stream. */
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

/* For one batch of streams: the learner must not be replaced before carry_close. `journal` may be
   NULL: then nothing is appended. -1 (EX_UNAVAILABLE): out of memory; (EX_CONFIG): streams of this
   configuration cannot go elsewhere. */
int carry_open(struct carry **carry, const struct config *config, struct learner *learner,
               struct journal *journal, struct error *error);
void carry_close(struct carry **carry);

/* ---- Streams ---- */

/* Bytes that are valid until the next call with the same carry. */
struct carry_blob {
    const unsigned char *bytes;
    size_t size;
    uint64_t order; /* greater than that of all streams that were used less recently; one that has
                       not changed keeps it (carry_changed), 0 where that is not known */
};

/* All that is kept of the stream: 0; 1 when it is not in memory; -1 when the device has failed. */
int carry_export(struct carry *carry, const char *key, size_t key_size, struct carry_blob *blob,
                 struct error *error);

/* Streams in memory from the least to the most recently used: those that it wants, with their
   blobs. Adopted in that order elsewhere they are forgotten there in that order. -1: as `visit`, or
   the device has failed. */
struct carry_visitor {
    void *context;
    int (*wants)(void *context, const char *key, size_t key_size); /* 1 or 0; NULL: all */
    int (*visit)(void *context, const char *key, size_t key_size, const struct carry_blob *blob,
                 struct error *error);
    int (*gone)(void *context, const char *key, size_t key_size,
                struct error *error); /* carry_changed alone; NULL: nobody asks */
};
int carry_each(struct carry *carry, const struct carry_visitor *visitor, struct error *error);

/* Likewise those alone that have changed after the entry `since` of the journal: all others are
   what they were when the learner had learned that. And `gone`: those that have ended since, were
   forgotten or lost their places, and are not in memory. 1 when that is not known, and nothing has
   been visited: something was left out since (rollback), the daemon has resumed from a checkpoint
   after `since`, more streams are gone than there are places, or it is in no fleet (fleet.lease);
   then carry_each. Otherwise as that. */
int carry_changed(struct carry *carry, uint64_t since, const struct carry_visitor *visitor,
                  struct error *error);

/* The entry to give it next time: what is exported is of this one. */
uint64_t carry_position(const struct carry *carry);

/* Nobody will ask with an entry before this one. */
void carry_settle(struct carry *carry, uint64_t position);

/* The stream of the blob, until that changes: 0; 1 with a sentence (EX_DATAERR) when the blob is
   damaged, of another format or of another configuration. Changes nothing. */
int carry_look(const struct carry *carry, const void *bytes, size_t size, const char **key,
               size_t *key_size, struct error *error);

/* The stream goes on here from there, as the most recently used: what was kept of it before is
   gone; without room the least recently used is forgotten, as with an example of a new stream. 0;
   1 with a sentence (EX_DATAERR), and nothing is changed; -1 when the device has failed. */
int carry_adopt(struct carry *carry, const void *bytes, size_t size, struct error *error);

/* Whether a refused adoption has lost the stream that it had displaced (stream_state_lost): the
   journal must be told to forget it. */
bool carry_lost(const struct carry *carry, const char **key, size_t *key_size);

/* Another daemon has them now: all those that `wants` says are forgotten, with as few commands as
   they fit into. -1: the device has failed, or out of memory. */
int carry_forget(struct carry *carry, const struct carry_visitor *visitor, struct error *error);

/* ---- Parameters ---- */

/* Numbers of all members' tensors (running statistics, too), one member after the other, each in
   the order of its table. */
size_t carry_parameters(const struct carry *carry);

/* Copy them: values (carry_parameters,). -1: the device has failed. */
int carry_read_parameters(struct carry *carry, float *values, struct error *error);

/* Put others in their place: values (carry_parameters,). The optimizer's moments, all streams and
   the least squares' precision stay. With a journal they are first written into a file of the state
   directory (store/parameters_file.h), which is synced, then set, then the journal gets a
   command that names the file; the daemon removes it when no replay needs it any more. 0; 1 with a
   sentence when one is not finite, the disk does not take them, or there are vocabularies, and
   nothing is changed; -1 when the device has failed. */
int carry_write_parameters(struct carry *carry, const float *values, struct error *error);

#endif
