/* Labels of a table's rows, from a table of their own (--label-file), in the order in which they
   are due. Columns: `row`, the number of the labelled row, from 1; `after`, the row after which it
   is due, or `time`; all others are targets. The whole table is in memory. */
#ifndef RUNNEL_FEED_LABELS_H
#define RUNNEL_FEED_LABELS_H

#include <stddef.h>
#include <stdint.h>

#include "common/moment.h"
#include "streams/feed.h"

struct error;
struct labels;

/* The options --delimiter, --missing, --targets and --class. `time`: format of the times of rows
   and labels; NULL: rows have no times. */
struct labels_options {
    const char *path;
    char delimiter;
    const char *missing, *targets, *class_name;
    const struct time_reader *time;
};

/* Reads the file; `y` is the shape of a target. Errors (EX_USAGE, EX_DATAERR, EX_NOINPUT) name
   file, line and column. */
int labels_open(struct labels **labels, const struct labels_options *options, struct shape *y,
                struct error *error);
void labels_close(struct labels **labels);

/* Returns to the first label. */
void labels_rewind(struct labels *labels);

/* Notes that row number `row`, from 1, is yielded now as the next example of its stream; NULL: the
   stream of --stream. Rows that are not noted were skipped. */
int labels_row(struct labels *labels, uint64_t row, struct stream *stream, struct error *error);

/* Returns 1 and in `step` the next label due before row number `row` with the time `time`; 0 if the
   row is next; -1 (EX_DATAERR) if the labelled row was not yielded yet. */
int labels_next(struct labels *labels, uint64_t row, double time, struct step *step,
                struct error *error);

/* Returns the name of target `k`. */
const char *labels_target(const struct labels *labels, size_t k);

#endif
