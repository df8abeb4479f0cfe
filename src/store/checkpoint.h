/* The state directory: a lock, and the checkpoints in it.

   A checkpoint is a safetensors file with everything needed to resume with the same bits:
     parameters                 under the contract's names
     optimizer.moment_1.TENSOR  and optimizer.moment_2.TENSOR, as many as the optimizer keeps (of
                                cocob the starting values first, see optimizers/cocob.h)
     optimizer.updates          (1,) updates applied
     learner.counters           (6,) examples, steps, updates, skipped, forgotten, position
                                in the journal
     learner.rates              (4,) rate and clip in effect, rate and clip configured
                                (rate -1: auto)
     learner.words              one row per word of a vocabulary, by ids: see CHECKPOINT_WORD
     streams.*                  one row per stream, least recently used first: keys (size, bytes),
                                windows, records (the engine's slots), held (missing: hold),
                                experts and mixture (scale: forecast), or else baseline; said
                                (predictions that wait for their truth), levels and errors of their
                                intervals (squared, gaussian); of open steps scales (where targets
                                are scaled), bases and lasts (where they are relative), open (where
                                more than one can be) and open_classes (that had appeared before,
                                where classes have a vocabulary)
     learner.coverage           (1, 4) of the intervals: numbers, held, both of late. This and
                                streams.said, levels, errors are there where predictions can be
                                asked for; a checkpoint without begins them anew, and
                                streams.baseline, which those of format 3 lack
     output.solution            least squares of readout: rls, doubles
     members.NAME.*             of each member, where they are listed: parameters, optimizer.*,
                                learner.rates, streams.windows, streams.records, output.solution
     scaler.*                   (I,) counts, means, squares (scale: standard); first (I, 30) (limit)
     targets.*                  likewise of targets (output.scale)
     checksum                   (1,) CRC-32 of every byte of the file before it
   and in __metadata__ the format, the program's version, the configuration's name, digests and
   description, the device, the examples learned and the time.

   checkpoint.safetensors is the newest, checkpoint.previous.safetensors the one before it, and with
   state.checkpoint.keep above 2 checkpoint.3.safetensors and so on those before that.
   checkpoint.first.safetensors is the state that a journal begins with, for as long as the journal
   has its first entry. A new one is written to checkpoint.tmp, synced, and takes its name by
   rename, so that whenever the power fails a whole checkpoint has one of the two names. The
   learning thread writes the bytes (a file's pages are the snapshot: nothing is copied twice); a
   second thread waits for the disk. */
#ifndef RUNNEL_CHECKPOINT_H
#define RUNNEL_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "config/config.h"

struct learner;
struct checkpoint;

enum { CHECKPOINT_PATH_SIZE = CONFIG_PATH_SIZE + 64 };

struct checkpoint_report {
    char path[CHECKPOINT_PATH_SIZE];
    uint64_t examples; /* learned when it was written, */
    uint64_t steps;    /* and steps; loading: 0 */
    uint64_t bytes;    /* of the file */
    double seconds;    /* from checkpoint_start to the end of the last sync; loading: all of it */
    double time;       /* Unix time at which it was written */
    uint64_t position; /* checkpoint_check: of the newest journal entry in it */
    bool held;         /* checkpoint_check: by a process that is there */
    char before[CONFIG_DIGEST_SIZE]; /* loading: "", or the digest (compatible) of the other window,
                                        stride, rule or optimizer that it was learned with */
    char warning[ERROR_TEXT_SIZE]; /* loading: one sentence for the log, "" = nothing to warn of */
};

/* Create the directory (mode 0700, with its parents) unless it is there, and lock it for this
   process. EX_UNAVAILABLE when another process has it: the sentence names directory and process.
   EX_IOERR when the directory cannot be made or written. */
int checkpoint_open(struct checkpoint **checkpoint, const char *directory, struct error *error);

/* Waits for a checkpoint in flight and gives the lock back. */
void checkpoint_close(struct checkpoint **checkpoint);

/* Put the newest checkpoint, or else the previous one, into a learner that has just been opened
   with the same configuration, or one with another window, stride, rule or optimizer: the report
   says so, and windows and moments begin anew. Nothing in the directory changes: a newest one that
   is damaged is renamed by checkpoint_set_aside, and the report's warning says so. Returns 1 when
   one was put, 0 when there is none, -1 on error: damaged with no other to resume from (EX_IOERR),
   or of another model or learning configuration or another version (EX_CONFIG). The sentence says
   what is wrong and how to continue. After an error the learner must be closed. Checkpoints of
   another configuration in which nothing is learned are no reason to stop, where a journal is kept,
   which has to be without entries then: 0 is returned, checkpoint_unlearned says so, and
   checkpoint_set_aside removes them.

   Rate and clip are those of the checkpoint, also those configured: what is replayed after it was
   learned with them. learner_configure then applies what the configuration has changed since. */
int checkpoint_load(struct checkpoint *checkpoint, const struct config *config,
                    struct learner *learner, struct checkpoint_report *report, struct error *error);

/* What checkpoint_load would return for a learner of that configuration: as it, but nothing is put,
   locked or written, and a directory that is not there has no checkpoint. */
int checkpoint_check(const char *directory, const struct config *config,
                     struct checkpoint_report *report, struct error *error);

bool checkpoint_unlearned(const struct checkpoint *checkpoint);

/* Rename the newest checkpoint, if checkpoint_load has found it damaged, to
   checkpoint.damaged-N.safetensors, so that nothing replaces it or the previous one. What writes
   checkpoints does that first; to be called once all that a start needs is known to be good.
   EX_IOERR. */
int checkpoint_set_aside(struct checkpoint *checkpoint, struct error *error);

/* Flush the learner and begin to write a checkpoint of it. It must not be in flight already: see
   checkpoint_busy. After an error the checkpoints in the directory are as they were: EX_IOERR, or
   EX_TEMPFAIL where the system has no file descriptor for it now. */
int checkpoint_start(struct checkpoint *checkpoint, const struct config *config,
                     struct learner *learner, struct error *error);

/* Whether a checkpoint has been started whose result has not been taken by poll or finish. */
bool checkpoint_busy(const struct checkpoint *checkpoint);

/* Take the result of a checkpoint that has come to its end: 1 and the report when it is safe on
   disk, -1 when it failed (EX_IOERR), 0 when there is none yet. */
int checkpoint_poll(struct checkpoint *checkpoint, struct checkpoint_report *report,
                    struct error *error);

/* The same, waiting for the one in flight; 0 when there is none in flight. */
int checkpoint_finish(struct checkpoint *checkpoint, struct checkpoint_report *report,
                      struct error *error);

/* ---- Those that are kept ---- */

enum { CHECKPOINT_KEPT_NAME_SIZE = 40 };

struct checkpoint_kept {
    char name[CHECKPOINT_KEPT_NAME_SIZE];
    uint64_t position; /* of the newest journal entry in it */
    double time;       /* Unix time at which it was written */
};

/* All of them, the newest first, and the first last. One that cannot be read is left out. Returns
   how many. None must be in flight. */
size_t checkpoint_list(const struct checkpoint *checkpoint,
                       struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1]);

/* The position of the oldest, not counting the first: what the journal has after it is needed. 0
   when there is none. */
uint64_t checkpoint_oldest(const struct checkpoint *checkpoint);

/* Put that one into a fresh learner; as checkpoint_load, but that nothing takes its place. */
int checkpoint_load_kept(const struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                         const struct config *config, struct learner *learner,
                         struct checkpoint_report *report, struct error *error);

/* Remove those that are newer than `kept`, which becomes the newest. Whenever the power fails one
   is the newest. EX_IOERR. */
int checkpoint_go_back(struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                       struct error *error);

/* Keep the one at position 0, if there is one, as the first too; remove the first. Where that
   cannot be done a rollback has less to go back to, and nothing else is wrong. */
void checkpoint_keep_first(struct checkpoint *checkpoint);
void checkpoint_drop_first(struct checkpoint *checkpoint);

/* -1 (EX_IOERR) when the directory or its lock was removed or replaced: another process may use
   what now has the name. */
int checkpoint_look(const struct checkpoint *checkpoint, struct error *error);

/* A file descriptor that is readable while a result waits for checkpoint_poll, for the main loop's
   zmq_poll. */
int checkpoint_descriptor(const struct checkpoint *checkpoint);

#endif
