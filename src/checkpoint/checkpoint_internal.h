/* The insides of checkpoints, for checkpoint*.c alone: checkpoint.c has directory, lock and the
   thread that waits for the disk, checkpoint_kept.c the older ones, checkpoint_layout.c the file's
   entries, checkpoint_write.c their bytes, checkpoint_verify.c whether a file is whole,
   checkpoint_read*.c what is read of them. */
#ifndef RUNNEL_CHECKPOINT_INTERNAL_H
#define RUNNEL_CHECKPOINT_INTERNAL_H

#include <pthread.h>

#include "checkpoint.h"
#include "common/wire.h"
#include "learner/learner_state.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/safetensors.h"

#define CHECKPOINT_NEWEST "checkpoint.safetensors"
#define CHECKPOINT_PREVIOUS "checkpoint.previous.safetensors"
#define CHECKPOINT_OLDER "checkpoint.%u.safetensors" /* 3, 4, ...: before the previous one */
#define CHECKPOINT_FIRST "checkpoint.first.safetensors"
#define CHECKPOINT_TEMPORARY "checkpoint.tmp"
#define CHECKPOINT_DAMAGED "checkpoint.damaged-%d.safetensors" /* set aside: 1, 2, ... */
#define CHECKPOINT_BACK "checkpoint.back.tmp" /* the first, on its way to be the newest */
#define CHECKPOINT_FORMAT "runnel-checkpoint-4"
#define CHECKPOINT_MEMORY "anomaly_memory" /* metadata: contexts that its memories hold */
#define CHECKPOINT_SHARE "anomaly_share"   /* metadata: a hash of what streams share them by */
#define CHECKPOINT_FORMAT_BEFORE "runnel-checkpoint-3" /* the same without its later entries */

enum {
    CHECKPOINT_NAME_SIZE = PARAMETERS_NAME_SIZE, /* of an entry */
    CHECKPOINT_DESCRIPTION_SIZE = 2048,          /* of a configuration */
    CHECKPOINT_COUNTERS = 6,                     /* numbers in learner.counters */
    CHECKPOINT_RATES = 4,                        /* in learner.rates */
    CHECKPOINT_COVERAGE = 4,                     /* in learner.coverage */
    CHECKPOINT_THRESHOLDS = 2,                   /* in learner.thresholds */
    CHECKPOINT_WINDOW = 5,                       /* in a row of streams.windows */
    CHECKPOINT_OPEN = 6,                         /* of one step in a row of streams.open */
    CHECKPOINT_KEY = 1 + WIRE_KEY_MAX,        /* bytes in a row of streams.keys: size, key, zeros */
    CHECKPOINT_WORD = 16 + 1 + WIRE_WORD_MAX, /* in a row of learner.words: vocabulary and place in
                                                 the order of use (uint32), how many had appeared
                                                 (uint64), size, word, zeros */
    CHECKPOINT_CHECKSUM_SIZE = sizeof(int64_t),
    CHECKPOINT_ASIDE_SIZE = 64, /* of the name of one that is set aside */
};

struct checkpoint {
    char directory[CONFIG_PATH_SIZE];
    int directory_file, lock, event;
    int spare;                         /* a descriptor in reserve, for the file to be written */
    unsigned keep;                     /* the newest so many */
    char aside[CHECKPOINT_ASIDE_SIZE]; /* what the newest, which is damaged, is to be called;
                                              "": it is whole */
    bool unlearned; /* those there are of another configuration, with which nothing was learned:
                       they are to be removed, and are not there for anybody */

    /* The one in flight. The thread has report, status and error until the event. */
    bool busy;
    pthread_t thread;
    int file;
    double started;
    struct checkpoint_report report;
    int status;
    struct error error;
};

/* What the entries are for, in the file's order; of some each member has one. */
enum checkpoint_part {
    PART_TENSOR,   /* of a member, `block` and `tensor` say which */
    PART_UPDATES,  /* of a member */
    PART_SOLUTION, /* likewise */
    PART_COUNTERS,
    PART_RATES, /* of a member, and where there is none */
    PART_BACKWARDS,
    PART_COVERAGE,
    PART_THRESHOLDS,
    PART_WORDS,
    PART_KEYS,
    PART_WINDOWS, /* of a member */
    PART_HELD,
    PART_TIMES,
    PART_SCALES,
    PART_BASES,
    PART_LASTS,
    PART_OPEN,
    PART_OPEN_TIMES,
    PART_OPEN_CLASSES,
    PART_COUNTS, /* of the scaler of inputs; the four of targets have the same order */
    PART_MEANS,
    PART_SQUARES,
    PART_FIRST,
    PART_TARGET_COUNTS,
    PART_TARGET_MEANS,
    PART_TARGET_SQUARES,
    PART_TARGET_FIRST,
    PART_EXPERTS,
    PART_MIXTURE,
    PART_BASELINE,
    PART_SAID,
    PART_LEVELS,
    PART_ERRORS,
    PART_WATCH,
    PART_HOLDS,
    PART_SHARED,
    PART_CONTEXTS,
    PART_ALARMS,
    PART_RECORDS, /* of a member */
    PART_CHECKSUM,
    PARTS,
};

struct checkpoint_entry {
    enum checkpoint_part part;
    size_t member, block, tensor;
    bool rows;   /* it is of streams: a row for each, */
    bool varies; /* or as many as the streams have used, or words */
    bool later;  /* checkpoints of before lack it: what it would hold begins */
    bool lacked; /* this one does */
    char name[CHECKPOINT_NAME_SIZE];
};

/* Every entry of a checkpoint, in the file's order. */
struct checkpoint_layout {
    size_t streams, count, capacity;
    struct safetensors_entry *entries;       /* (count,) */
    struct checkpoint_entry *of;             /* (count,) what each is for */
    size_t parts[CONFIG_MEMBERS_MAX][PARTS]; /* entry of each part of a member, of those of all
                                                 member 0's; those there is no use for, and those
                                                 that the file lacks: SIZE_MAX */
};

/* The entries of a checkpoint of that learner with that many streams. -1 (EX_UNAVAILABLE) when out
   of memory; to be closed all the same. */
int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error);
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* The name of a part that is there only where predictions are kept for their truth; else NULL. */
const char *checkpoint_truth(enum checkpoint_part part);

/* Of one that is there only where somebody looks for anomalies. */
const char *checkpoint_watch(enum checkpoint_part part);

/* A hash of anomaly.share, as text. */
enum { CHECKPOINT_SHARE_SIZE = 17 };
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]);

/* The block of the engine whose tensors are the layout's block 0, 1, 2. */
enum engine_block checkpoint_block(size_t block);

/* Bytes in a buffer that takes any tensor, slot record, solution or held x. */
size_t checkpoint_buffer_size(const struct checkpoint_layout *layout);

/* One line that says for people what network and learning a checkpoint is of. */
void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]);

/* Write all of a learner into an open file; `path` is for errors. Sets `bytes` to its size. */
int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error);

/* Put a whole file into a fresh learner; fills the report's examples, bytes and time, and adds to
   its warning when the device is another. CHECKPOINT_NOT_WHOLE: its structure or checksum is not
   what was written, or the disk does not give its bytes (EX_IOERR); the learner is as it was.
   CHECKPOINT_OTHER: it is of another model or learning configuration (EX_CONFIG); likewise. -1:
   anything else; EX_CONFIG when it is of another version's format. */
enum { CHECKPOINT_NOT_WHOLE = 1, CHECKPOINT_OTHER = 2 };

int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error);

/* ---- checkpoint_kept.c ---- */

/* The newest checkpoint is about to be replaced: it becomes the previous one, and so on; of those
   before the newest `keep` - 2 stay. -1 with errno. */
int checkpoint_rotate(int directory, unsigned keep);

/* Whether all that are there have no example, and no entry of the journal beside them. */
bool checkpoint_is_unlearned(const struct checkpoint *checkpoint);

/* -1 with errno. */
int checkpoint_remove_all(const struct checkpoint *checkpoint);

/* Add a sentence to the report's warning. */
void checkpoint_warn(struct checkpoint_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
