/* Where a series of losses is going: the last TREND_VALUES of them, whether they fall, and a
   picture of them one row high. */
#ifndef RUNNEL_WATCH_TREND_H
#define RUNNEL_WATCH_TREND_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TREND_VALUES = 40,
    TREND_LEAST = 5,                           /* fewer values have no direction */
    TREND_PICTURE_SIZE = 3 * TREND_VALUES + 1, /* a block character is 3 bytes of UTF-8 */
};

enum direction { TREND_UNKNOWN, TREND_FALLING, TREND_FLAT, TREND_RISING };

struct trend {
    double values[TREND_VALUES]; /* oldest first */
    size_t count;
};

void trend_add(struct trend *trend, double value);

/* Slope of the least-squares line through the values, per value, and its standard error. There must
   be TREND_LEAST of them. */
double trend_slope(const struct trend *trend, double *error);

/* Falling or rising when the slope is more than two of its standard errors from zero. */
enum direction trend_direction(const struct trend *trend);

/* A histogram: `count` values of at least zero as characters of eight heights, in ASCII of four,
   drawn from zero up to the greatest. `count` is at most TREND_VALUES. Returns `picture`. */
char *trend_histogram(const double *values, size_t count, bool utf8,
                      char picture[TREND_PICTURE_SIZE]);

#endif
