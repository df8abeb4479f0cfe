/* The file of a checkpoint: which entries it has, and how they are written, checked and read. What
   is kept of a learner says parts/rows.h; here stand tensors, words and keys beside it.
   stream_state.c puts the rows of one stream somewhere else. */
#ifndef RUNNEL_CHECKPOINT_FILE_H
#define RUNNEL_CHECKPOINT_FILE_H

#include "checkpoint.h"
#include "model/parameters.h"
#include "model/safetensors.h"
#include "parts/rows.h"

enum {
    CHECKPOINT_NAME_SIZE = PARAMETERS_NAME_SIZE, /* of an entry */
    CHECKPOINT_CHECKSUM_SIZE = sizeof(int64_t),
    CHECKPOINT_COUNTERS = 6,    /* numbers in learner.counters, the journal's position last */
    CHECKPOINT_SHARE_SIZE = 17, /* of a hash of anomaly.share, as text */
};

enum checkpoint_kind { ENTRY_TENSOR, ENTRY_KEPT, ENTRY_WORDS, ENTRY_KEYS, ENTRY_CHECKSUM };

struct checkpoint_entry {
    enum checkpoint_kind kind;
    const struct state_row *row;  /* of ENTRY_KEPT, */
    void *self;                   /* and the part that it belongs to */
    size_t member, block, tensor; /* of ENTRY_TENSOR: block 0 are parameters, n the n-th moments */
    bool lacked;                  /* the file lacks it, or it does not fit */
    uint64_t used;                /* rows that have been read, of one that has `used` of them */
    char name[CHECKPOINT_NAME_SIZE];
};

/* Every entry of a checkpoint, in the file's order. */
struct checkpoint_layout {
    struct learner *learner;
    size_t streams, count, capacity;
    struct safetensors_entry *entries; /* (count,) */
    struct checkpoint_entry *of;       /* (count,) what each is for */
    void *buffer;                      /* for the largest tensor, or row */
    bool begins;                       /* windows of streams begin anew; */
    bool moments;                      /* the optimizer's moments, too */
};

/* The entries of a checkpoint of that learner with that many streams. -1 (EX_UNAVAILABLE) when out
   of memory; to be closed all the same. */
int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error);
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* Whether the entry has rows of each stream, beside its key. */
bool checkpoint_is_row(const struct checkpoint_entry *of);

/* Whether it is of anomalies, which begin together where one does not fit. */
bool checkpoint_is_watched(const struct checkpoint_entry *of);

/* Bytes of one row. */
size_t checkpoint_row_size(const struct safetensors_entry *entry);

/* Put what a slot has of such an entry. */
int checkpoint_put_row(const struct checkpoint_layout *layout, size_t entry, uint32_t slot,
                       safetensors_sink *sink, void *context, struct error *error);

/* Where entries are read from. */
struct checkpoint_source {
    const char *path;          /* for people */
    struct safetensors *file;  /* NULL: */
    const unsigned char *blob; /* entries' bytes are there, each from its `begin` on */
};

/* Fill a slot, in which the stream has begun, from row number `row` of each entry; then, whether as
   many rows were used as there are. EX_IOERR: damaged. */
int checkpoint_fill_slot(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t row, uint32_t slot, struct error *error);
int checkpoint_check_used(const struct checkpoint_layout *layout,
                          const struct checkpoint_source *source, struct error *error);

/* A hash of anomaly.share, as text. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]);

/* Write all of a learner into an open file; `path` is for errors. Sets `bytes` to its size. */
int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error);

/* Put a whole file into a fresh learner, or, where that is NULL, check whether it could be; fills
   the report's examples, bytes and time, `before` when windows begin anew, and adds to its warning
   then and when the device is another. CHECKPOINT_NOT_WHOLE: its structure or checksum is not
   what was written, or the disk does not give its bytes (EX_IOERR); the learner is as it was.
   CHECKPOINT_OTHER: it is of another model or learning configuration (EX_CONFIG); likewise. -1:
   anything else; EX_CONFIG when it is of another version's format. */
enum { CHECKPOINT_NOT_WHOLE = 1, CHECKPOINT_OTHER = 2 };
int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error);

/* Add a sentence to the report's warning. */
void checkpoint_warn(struct checkpoint_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
