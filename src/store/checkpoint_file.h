/* The file of a checkpoint: how its entries (checkpoint_layout.h) are written, checked and read.
   stream_state.c uses the rows of one stream. */
#ifndef RUNNEL_CHECKPOINT_FILE_H
#define RUNNEL_CHECKPOINT_FILE_H

#include "checkpoint.h"
#include "checkpoint_layout.h"

enum {
    CHECKPOINT_CHECKSUM_SIZE = sizeof(int64_t),
    CHECKPOINT_COUNTERS = 6, /* numbers in learner.counters; the last is the journal's position */
};

int checkpoint_put_row(const struct checkpoint_layout *layout, size_t entry, uint32_t slot,
                       safetensors_sink *sink, void *context, struct error *error);

/* checkpoint_fill_slot fills a slot, in which the stream has begun, from row number `row` of each
   entry. checkpoint_check_used then checks that all rows were used. EX_IOERR: damaged. */
int checkpoint_fill_slot(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t row, uint32_t slot, struct error *error);
int checkpoint_check_used(const struct checkpoint_layout *layout,
                          const struct checkpoint_source *source, struct error *error);

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

#endif
