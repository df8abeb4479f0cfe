/* Labels of a table's rows, from a table of their own (--label-file), in the order in which they
   come. Its columns: `row`, the number of the row that the label is for, from 1; `after`, the
   number of the row after which it comes, or `time`, when; all others are the targets. All of it is
   in memory. */
#ifndef RUNNEL_FEED_LABELS_H
#define RUNNEL_FEED_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/moment.h"
#include "streams/feed.h"

struct error;
struct labels;

/* What --delimiter, --missing, --targets and --class say; `time`: how times of rows are
   written, and of labels; NULL: rows have none. */
struct labels_options {
    const char *path;
    char delimiter;
    const char *missing, *targets, *class_name;
    const struct time_reader *time;
};

/* Read the file; `y` is what a target is. Errors (EX_USAGE, EX_DATAERR, EX_NOINPUT) name file,
   line and column. */
int labels_open(struct labels **labels, const struct labels_options *options, struct shape *y,
                struct error *error);
void labels_close(struct labels **labels);

/* Back to the first. */
void labels_rewind(struct labels *labels);

/* Row number `row`, from 1, is yielded now, as the next example of its stream; NULL: of the stream
   of --stream. Rows left out are those that were skipped. */
int labels_row(struct labels *labels, uint64_t row, struct stream *stream, struct error *error);

/* 1: `step` is the label that comes next, before row number `row`, whose time is `time`. 0: that
   row is next. -1 (EX_DATAERR): the label is for a row that has not come. */
int labels_next(struct labels *labels, uint64_t row, double time, struct step *step,
                struct error *error);

/* The name of target `k`. */
const char *labels_target(const struct labels *labels, size_t k);

#endif
