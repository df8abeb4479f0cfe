/* Repeated measurements of one quantity, and their summary.

   Other load makes cycles slower, and none faster. The quiet value is the low quantile QUIET of
   times and the high one of rates: if a twentieth of the cycles is undisturbed, it is theirs; and
   unlike the minimum it does not fall with the number of cycles. */
#ifndef RUNNEL_BENCH_SERIES_H
#define RUNNEL_BENCH_SERIES_H

#include <stdbool.h>
#include <stddef.h>

enum { SERIES_MAX = 1 << 17 };
#define QUIET 0.05

/* Mostly unused memory: only a static one. */
struct series {
    double values[SERIES_MAX]; /* the newest */
    size_t count;              /* of all */
};

void series_add(struct series *series, double value);

struct figure {
    double quiet, median;
    double minimum, maximum;
    double spread; /* distance of the quartiles / median */
};

/* `quiet`: share of the values at or below the quiet one. All zero for an empty series. Sorts the
   values. */
struct figure series_figure(struct series *series, double quiet);

/* 0 for an empty series. Sorts the values. */
double series_quantile(struct series *series, double share);

/* ---- Intervals ---- */

/* Of the calling thread's CPU time; of the wall clock if threads or a GPU share the work. */
struct stopwatch {
    double (*clock)(void);
    double cost; /* quiet seconds of one reading, which every interval contains */
    double last;
};

void stopwatch_open(struct stopwatch *stopwatch, bool wall);

/* Seconds since the previous lap, without the reading of the clock. */
double stopwatch_lap(struct stopwatch *stopwatch);

#endif
