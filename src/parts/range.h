/* Whether inputs stay in the range of what was seen: a number is out of scale when it is more than
   INPUT_RANGE_FACTOR times as large, |x|, as every one before it in its column, of whatever stream,
   and the column has had INPUT_RANGE_FIRST numbers by then, not all of them 0. After such a number
   the range is INPUT_RANGE_FACTOR times as large, and no more: so one wild number does not hide the
   next one, and a column that has changed its unit is taken for granted after a few.

   It changes nothing of what is learned. A step costs a comparison for each column. */
#ifndef RUNNEL_RANGE_H
#define RUNNEL_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct input_range;

enum { INPUT_RANGE_FACTOR = 100, INPUT_RANGE_FIRST = 30 };

/* What was found in one example. */
struct out_of_scale {
    size_t count;   /* numbers out of scale; the newest one: */
    size_t column;  /* from 0 */
    double value;   /* as it came */
    double largest; /* |x| of all before it */
};

int input_range_open(struct input_range **range, size_t columns, struct error *error);
void input_range_close(struct input_range **range);
void input_range_reset(struct input_range *range);

/* Whatever comes of a column is in its range: it is no number, or one of a cycle. */
void input_range_ignore(struct input_range *range, size_t column);

/* Take the steps (steps, columns) float32 of an example, which may be unaligned; NaN is skipped. */
struct out_of_scale input_range_take(struct input_range *range, const void *x, size_t steps);

/* So many numbers of a column have been seen before, none larger than that. */
void input_range_known(struct input_range *range, size_t column, uint64_t count, double largest);

#endif
