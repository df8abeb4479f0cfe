/* The file of a checkpoint: its entries, and how they are written, checked and read. parts/rows.h
   lists the learner's state; this file adds tensors, words and keys. stream_state.c uses the rows
   of one stream. */
#ifndef RUNNEL_CHECKPOINT_FILE_H
#define RUNNEL_CHECKPOINT_FILE_H

#include "checkpoint.h"
#include "model/parameters.h"
#include "model/safetensors.h"
#include "parts/rows.h"

enum {
    CHECKPOINT_NAME_SIZE = PARAMETERS_NAME_SIZE, /* bytes of an entry's name */
    CHECKPOINT_CHECKSUM_SIZE = sizeof(int64_t),
    CHECKPOINT_COUNTERS = 6, /* numbers in learner.counters; the last is the journal's position */
    CHECKPOINT_SHARE_SIZE = 17, /* bytes of the text of a hash of anomaly.share */
};

enum checkpoint_kind { ENTRY_TENSOR, ENTRY_KEPT, ENTRY_WORDS, ENTRY_KEYS, ENTRY_CHECKSUM };

struct checkpoint_entry {
    enum checkpoint_kind kind;
    const struct state_row *row; /* the row of ENTRY_KEPT */
    void *self;                  /* the part of the row */
    /* ^ENTRY_TENSOR: block 0 has parameters, block n the n-th moments. */
    size_t member, block, tensor;
    bool lacked;   /* missing in the file, or does not fit */
    uint64_t used; /* rows read, if the entry counts its `used` rows */
    char name[CHECKPOINT_NAME_SIZE];
};

/* All entries of a checkpoint, in the file's order. */
struct checkpoint_layout {
    struct learner *learner;
    size_t streams, count, capacity;
    struct safetensors_entry *entries; /* (count,) */
    struct checkpoint_entry *of;       /* (count,) the meaning of each */
    void *buffer;                      /* room for the largest tensor or row */
    bool begins;                       /* windows of streams start from scratch */
    bool moments;                      /* so do the optimizer's moments */
};

/* Lists the entries of a checkpoint of that learner with that many streams. -1: out of memory
   (EX_UNAVAILABLE). Close it in any case. */
int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error);
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* Returns whether the entry has a row for each stream; its keys do not count. */
bool checkpoint_is_row(const struct checkpoint_entry *of);

/* Returns whether the entry belongs to anomalies, which all start from scratch if one does not
   fit. */
bool checkpoint_is_watched(const struct checkpoint_entry *of);

/* Returns the bytes of one row. */
size_t checkpoint_row_size(const struct safetensors_entry *entry);

int checkpoint_put_row(const struct checkpoint_layout *layout, size_t entry, uint32_t slot,
                       safetensors_sink *sink, void *context, struct error *error);

/* The source of entries that are read. */
struct checkpoint_source {
    const char *path;          /* used in messages */
    struct safetensors *file;  /* NULL: use `blob` */
    const unsigned char *blob; /* the bytes of entries, each at its `begin` */
};

/* checkpoint_fill_slot fills a slot, in which the stream has begun, from row number `row` of each
   entry. checkpoint_check_used then checks that all rows were used. EX_IOERR: damaged. */
int checkpoint_fill_slot(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t row, uint32_t slot, struct error *error);
int checkpoint_check_used(const struct checkpoint_layout *layout,
                          const struct checkpoint_source *source, struct error *error);

/* Formats a hash of anomaly.share. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]);

/* Writes the learner to an open file; `path` is for errors. Sets `bytes` to the size. */
int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error);

/* Loads a file into a fresh learner; NULL: only checks whether it can be loaded. Fills in the
   report's examples, bytes and time, and `before` if windows start from scratch. Warns about that,
   and about another device.

   CHECKPOINT_NOT_WHOLE (EX_IOERR): structure or checksum is wrong, or the disk has failed.
   CHECKPOINT_OTHER (EX_CONFIG): the model or learning configuration differs. Both leave the learner
   unchanged. -1: any other error; EX_CONFIG for the format of another version. */
enum { CHECKPOINT_NOT_WHOLE = 1, CHECKPOINT_OTHER = 2 };
int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error);

/* Appends to the report's warning. */
void checkpoint_warn(struct checkpoint_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
