/* ADWIN, a window that keeps as much of a series as has one mean:

     A. Bifet and R. Gavalda, Learning from time-varying data with adaptive windowing. Proceedings
     of the SIAM International Conference on Data Mining (2007), 443-448: ADWIN2.

   After each value, as long as the window can be cut into an older part of n0 values and a newer
   one of n1 whose means differ by more than

     e = sqrt(2 v L / m) + 2 L / (3 m),   1/m = 1/n0 + 1/n1,   L = ln(2 ln(n) / delta)

   with n and v the size and variance of the window, its oldest values are dropped. The window is a
   histogram of at most ADWIN_BUCKETS buckets for each power of two of values, so that memory and
   time grow with its logarithm. delta = 0.002 and 5 buckets are the values of the paper's authors;
   a part has at least 5 values, a window that is cut more than 10 (as in MOA and later libraries).
   A cut is searched after every value, as in the paper, where libraries do it after each 32nd.

   The paper has values in [0, 1]; here 1 is the unit in which the values come, and a value that is
   farther than 10 standard deviations of the window and than 5 units from its mean counts as that
   far, so that one wild value is not cut off as a part. */
#ifndef RUNNEL_ALERT_ADWIN_H
#define RUNNEL_ALERT_ADWIN_H

#include <stdint.h>

#include "alert_change.h"

enum {
    ADWIN_BUCKETS = 5,
    ADWIN_ROWS = 40, /* of buckets of 2^row values: more than will ever be sent */
    ADWIN_PART = 5,  /* least values in a part */
    ADWIN_WARM = 10, /* a smaller window is not cut */
    ADWIN_SETTLED =
        100, /* values without another rise, after which what is usual now has been found */
};

#define ADWIN_DELTA 0.002

struct adwin_bucket {
    double sum, squares; /* of its values; of their distances from its mean */
};

struct adwin {
    double delta;
    uint64_t count;      /* values in the window */
    double sum, squares; /* as in a bucket */
    struct adwin_row {
        int count;
        struct adwin_bucket buckets[ADWIN_BUCKETS + 1]; /* oldest first */
    } rows[ADWIN_ROWS];
    uint64_t since;      /* values since a rise was found last; 0 = there is none */
    double before, near; /* mean before it, and what is near enough to that to be back */
};

void adwin_open(struct adwin *window, double delta);

/* Take the next value, a finite one. CHANGE_ROSE: `before` and `after` are the means of the two
   parts. It is reported once for a rise that is found repeatedly while values of the new
   kind arrive. CHANGE_BACK (three quarters of the rise are gone) and CHANGE_STAYED end it;
   then `after` is the mean of the newest values. */
struct change adwin_add(struct adwin *window, double value);

double adwin_mean(const struct adwin *window);

#endif
