/* Detects inputs outside their range. A number is out of scale if |x| is more than
   INPUT_RANGE_FACTOR times as large as every earlier one in its column, in any stream. The column
   must have had INPUT_RANGE_FIRST numbers, not all of them 0. Such a number extends the range only
   by the factor INPUT_RANGE_FACTOR: one wild number does not hide the next one, and a column with a
   new unit is accepted after a few.

   It does not affect learning. A step costs a comparison for each column. */
#ifndef RUNNEL_RANGE_H
#define RUNNEL_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct input_range;

enum { INPUT_RANGE_FACTOR = 100, INPUT_RANGE_FIRST = 30 };

/* The findings in one example. */
struct out_of_scale {
    size_t count;   /* count of numbers out of scale */
    size_t column;  /* column of the newest one, from 0 */
    double value;   /* value of the newest one, as received */
    double largest; /* |x| of all earlier numbers */
};

int input_range_open(struct input_range **range, size_t columns, struct error *error);
void input_range_close(struct input_range **range);
void input_range_reset(struct input_range *range);

/* Checks the steps (steps, columns) float32 of an example, perhaps unaligned; NaN is skipped. */
struct out_of_scale input_range_take(struct input_range *range, const void *x, size_t steps);

/* Records `count` earlier numbers of a column, none larger than `largest`. */
void input_range_known(struct input_range *range, size_t column, uint64_t count, double largest);

#endif
