/* ADWIN, a window that keeps the newest part of a series that has one mean:

     A. Bifet and R. Gavalda, Learning from time-varying data with adaptive windowing. Proceedings
     of the SIAM International Conference on Data Mining (2007), 443-448: ADWIN2.

   After each value, the window drops its oldest values as long as it can be cut into an older part
   of n0 values and a newer part of n1 values whose means differ by more than

     e = sqrt(2 v L / m) + 2 L / (3 m),   1/m = 1/n0 + 1/n1,   L = ln(2 ln(n) / delta)

   with n and v the size and variance of the window. The window is a histogram of at most
   ADWIN_BUCKETS buckets for each power of two of values, so memory and time grow with the logarithm
   of its size. delta = 0.002 and 5 buckets are the values of the paper's authors. A part has at
   least 5 values, and a window that is cut has more than 10 (as in MOA and later libraries). A cut
   is searched after every value, as in the paper; libraries search after each 32nd.

   The paper requires values in [0, 1]; here the unit of the values is 1. A value farther from the
   mean than 10 standard deviations of the window and 5 units is clamped to that distance, so that a
   single outlier is not cut off as a part. */
#ifndef RUNNEL_ALERT_ADWIN_H
#define RUNNEL_ALERT_ADWIN_H

#include <stdint.h>

#include "alert_change.h"

enum {
    ADWIN_BUCKETS = 5,
    ADWIN_ROWS = 40,     /* rows of buckets of 2^row values: enough for every series */
    ADWIN_PART = 5,      /* minimum values in a part */
    ADWIN_WARM = 10,     /* smaller windows are not cut */
    ADWIN_SETTLED = 100, /* values without another rise until the new mean is usual */
};

#define ADWIN_DELTA 0.002

struct adwin_bucket {
    double sum, squares; /* sum of the values; sum of squared distances from the mean */
};

struct adwin {
    double delta;
    uint64_t count;      /* values in the window */
    double sum, squares; /* as in a bucket */
    struct adwin_row {
        int count;
        struct adwin_bucket buckets[ADWIN_BUCKETS + 1]; /* oldest first */
    } rows[ADWIN_ROWS];
    uint64_t since;      /* values since the last rise; 0 = none */
    double before, near; /* mean before the rise; limit below which the series is back */
};

void adwin_open(struct adwin *window, double delta);

/* Adds the next value, which must be finite. CHANGE_ROSE: `before` and `after` are the means of the
   two parts; a rise that is found again is reported once. CHANGE_BACK (three quarters of the rise
   are gone) and CHANGE_STAYED end a rise; then `after` is the mean of the newest values. */
struct change adwin_add(struct adwin *window, double value);

double adwin_mean(const struct adwin *window);

#endif
