/* The state directory: a lock, and the checkpoints.

   A checkpoint is a safetensors file with everything needed to resume with the same bits:
     parameters                 by the contract's names
     optimizer.moment_1.TENSOR  and optimizer.moment_2.TENSOR, as many as the optimizer has (cocob:
                                the starting values first, see optimizers/cocob.h)
     start.TENSOR               starting values, with learning.optimizer.pull
     optimizer.updates          (1,) updates applied
     learner.counters           (6,) examples, steps, updates, skipped, forgotten, position in the
                                journal
     learner.rates              (4,) rate and clip in effect, rate and clip configured (rate -1:
                                auto)
     statistics.activity        of units (enum activity_number)
     statistics.plasticity      of updates (struct plasticity)
     learner.words              one row per word of a vocabulary, by ids: see CHECKPOINT_WORD
     streams.*                  one row per stream, least recently used first: keys (size, bytes),
                                windows, records (the engine's slots), held (missing: hold), experts
                                and mixture (scale: forecast), otherwise baseline; said (predictions
                                that wait for their truth), levels and errors of their intervals
                                (squared, gaussian); of open steps: scales (scaled targets), bases
                                and lasts (relative targets), open (if several can be open) and
                                open_classes (classes seen earlier, for a vocabulary of classes)
     learner.coverage           (1, 4) of the intervals: numbers, held, both of late. This and
                                streams.said, levels, errors exist if predictions can be requested;
                                without them they start from scratch, as does streams.baseline,
                                which format 3 lacks
     output.solution            least squares of readout: rls, doubles
     members.NAME.*             of each listed member: parameters, optimizer.*, statistics.*,
                                learner.rates, streams.windows, streams.records, output.solution
     scaler.*                   (I,) counts, means, squares (scale: standard); first (I, 30) (limit)
     targets.*                  the same for targets (output.scale)
     checksum                   (1,) CRC-32 of all earlier bytes of the file
   and in __metadata__ the format, the program's version, the configuration's name, digests and
   description, the device, the examples learned and the time.

   checkpoint.safetensors is the newest and checkpoint.previous.safetensors the second; with
   state.checkpoint.keep above 2, checkpoint.3.safetensors and so on are older.
   checkpoint.first.safetensors is the state at the start of the journal, kept while the journal has
   its first entry.

   A checkpoint is written to checkpoint.tmp, synced and renamed, so that after a loss of power one
   of the names has a whole checkpoint. The learning thread writes the bytes (a file's pages are the
   snapshot, without a second copy); another thread waits for the disk. */
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
    uint64_t examples; /* learned when it was written */
    uint64_t steps;    /* learned when it was written; loading: 0 */
    uint64_t bytes;    /* file size */
    double seconds; /* time from checkpoint_start to the end of the last sync; loading: in total */
    double time;    /* Unix time of writing */
    uint64_t position; /* checkpoint_check: newest journal entry in it */
    bool held;         /* checkpoint_check: a running process has the lock */
    /* Loading: the digest (compatible) of the earlier window, stride, rule or optimizer, or "". */
    char before[CONFIG_DIGEST_SIZE];
    char warning[ERROR_TEXT_SIZE]; /* loading: for the log, "" = none */
};

/* Creates the directory (mode 0700, with its parents) if it does not exist, and locks it for this
   process. EX_UNAVAILABLE: another process has the lock; the error names directory and process.
   EX_IOERR: the directory cannot be created or written. */
int checkpoint_open(struct checkpoint **checkpoint, const char *directory, struct error *error);

/* Waits for a checkpoint in progress and releases the lock. */
void checkpoint_close(struct checkpoint **checkpoint);

/* Loads the newest checkpoint, or else the previous one, into a learner that was just opened. The
   learner has the same configuration, except perhaps for window, stride, rule or optimizer: then
   windows and moments start from scratch, and the report has `before`.

   Returns 1: loaded. 0: no checkpoint. -1: the checkpoint is damaged and no other can be used
   (EX_IOERR), or has another model, learning configuration or version (EX_CONFIG); the error
   contains the way out, and the learner must be closed.

   Changes nothing in the directory: checkpoint_set_aside renames a damaged newest checkpoint, and
   the report has a warning. With a journal, checkpoints of another configuration without any
   learning are ignored: 0, checkpoint_unlearned is true, and checkpoint_set_aside removes them. The
   journal must then have no entries.

   Rate and clip, in effect and configured, are those of the checkpoint: the entries after it were
   learned with them. learner_configure then applies changes of the configuration. */
int checkpoint_load(struct checkpoint *checkpoint, const struct config *config,
                    struct learner *learner, struct checkpoint_report *report, struct error *error);

/* Returns the same as checkpoint_load for a learner of that configuration, but loads, locks and
   writes nothing. A missing directory has no checkpoint. */
int checkpoint_check(const char *directory, const struct config *config,
                     struct checkpoint_report *report, struct error *error);

bool checkpoint_unlearned(const struct checkpoint *checkpoint);

/* Whether the newest readable checkpoint of the directory was learned with the defaults of earlier
   versions, which the configuration does not state: see config_load_earlier. */
bool checkpoint_is_earlier(const char *directory, const struct config *config);

/* Renames a newest checkpoint that checkpoint_load found damaged to
   checkpoint.damaged-N.safetensors, so that it is not overwritten. Call it when everything else
   that a start needs is good, before writing a checkpoint. EX_IOERR. */
int checkpoint_set_aside(struct checkpoint *checkpoint, struct error *error);

/* Flushes the learner and starts to write a checkpoint of it. None may be in progress
   (checkpoint_busy). On error the existing checkpoints are unchanged: EX_IOERR, or EX_TEMPFAIL if
   no file descriptor is available now. */
int checkpoint_start(struct checkpoint *checkpoint, const struct config *config,
                     struct learner *learner, struct error *error);

/* Returns whether a checkpoint was started whose result poll or finish has not returned. */
bool checkpoint_busy(const struct checkpoint *checkpoint);

/* Returns the result of a checkpoint that has ended: 1 and the report: safe on disk; -1: it failed
   (EX_IOERR); 0: none has ended. */
int checkpoint_poll(struct checkpoint *checkpoint, struct checkpoint_report *report,
                    struct error *error);

/* Waits for the checkpoint in progress and returns its result; 0: none is in progress. */
int checkpoint_finish(struct checkpoint *checkpoint, struct checkpoint_report *report,
                      struct error *error);

/* ---- Kept checkpoints ---- */

enum { CHECKPOINT_KEPT_NAME_SIZE = 40 };

struct checkpoint_kept {
    char name[CHECKPOINT_KEPT_NAME_SIZE];
    uint64_t position; /* newest journal entry in it */
    double time;       /* Unix time of writing */
};

/* Lists all readable checkpoints, the newest first and checkpoint.first last, and returns the
   count. None may be in progress. */
size_t checkpoint_list(const struct checkpoint *checkpoint,
                       struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1]);

/* Returns the position of the oldest checkpoint except the first: the journal must keep the entries
   after it. 0: no checkpoint. */
uint64_t checkpoint_oldest(const struct checkpoint *checkpoint);

/* Loads that checkpoint into a fresh learner; the same as checkpoint_load, without a
   replacement. */
int checkpoint_load_kept(const struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                         const struct config *config, struct learner *learner,
                         struct checkpoint_report *report, struct error *error);

/* Removes checkpoints newer than `kept`, which becomes the newest. After a loss of power, one of
   them is the newest. EX_IOERR. */
int checkpoint_go_back(struct checkpoint *checkpoint, const struct checkpoint_kept *kept,
                       struct error *error);

/* Keep the checkpoint at position 0, if it exists, as the first; remove the first. A failure only
   limits how far a rollback can go back. */
void checkpoint_keep_first(struct checkpoint *checkpoint);
void checkpoint_drop_first(struct checkpoint *checkpoint);

/* Returns -1 (EX_IOERR) if the directory or its lock was removed or replaced: another process can
   use the new one. */
int checkpoint_look(const struct checkpoint *checkpoint, struct error *error);

/* A file descriptor for zmq_poll, readable while a result waits for checkpoint_poll. */
int checkpoint_descriptor(const struct checkpoint *checkpoint);

#endif
