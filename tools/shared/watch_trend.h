/* The trend of a series of losses: the last TREND_VALUES of them, their direction, and a picture
   one row high. */
#ifndef RUNNEL_WATCH_TREND_H
#define RUNNEL_WATCH_TREND_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TREND_VALUES = 40,
    TREND_LEAST = 5,                           /* minimum values of a direction */
    TREND_PICTURE_SIZE = 3 * TREND_VALUES + 1, /* 3 bytes of UTF-8 for each block character */
};

enum direction { TREND_UNKNOWN, TREND_FALLING, TREND_FLAT, TREND_RISING };

struct trend {
    double values[TREND_VALUES]; /* oldest first */
    size_t count;
};

void trend_add(struct trend *trend, double value);

/* Slope of the least-squares line through at least TREND_LEAST values, per value, and its standard
   error. */
double trend_slope(const struct trend *trend, double *error);

/* Falling or rising if the slope is more than two standard errors from zero. */
enum direction trend_direction(const struct trend *trend);

/* A histogram of `count` values of at least zero, at most TREND_VALUES, as characters of eight
   heights, or four in ASCII, from zero to the greatest value. Returns `picture`. */
char *trend_histogram(const double *values, size_t count, bool utf8,
                      char picture[TREND_PICTURE_SIZE]);

#endif
