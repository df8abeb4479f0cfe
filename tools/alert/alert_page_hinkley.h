/* The Page-Hinkley test: whether the mean of a series has risen or fallen.

     E. S. Page, Continuous inspection schemes. Biometrika 41 (1954), 100-115.
     D. V. Hinkley, Inference about the change-point from cumulative sum tests. Biometrika 58
     (1971), 509-523.

   With x the values in standard deviations from their mean, a rise is found when

     m(t) = sum over i <= t of (x(i) - delta),   m(t) - min over i <= t of m(i) > lambda

   and a fall in the same way with -x. delta is half of the smallest change worth finding, lambda
   sets how rare false alarms are. Both are in standard deviations, as in charts of cumulative sums
   (D. C. Montgomery, Introduction to Statistical Quality Control, chapter 9), where delta = 0.5 is
   usual. lambda = 15 follows from the mean number of values between two false alarms (D. Siegmund,
   Sequential Analysis, 1985) with b = 2 delta (lambda + 1.166):

     (e^b - b - 1) / (2 delta^2)        that is 2e7 for independent normal values

   Libraries for streams default to lambda = 50 with delta = 0.005, which fits errors of 0 or 1.

   Mean and deviation are estimated: over all values until there are PAGE_HINKLEY_MEMORY, then with
   fading weights. To ignore a single outlier, a value counts as at most 3 deviations from the mean
   in the estimates, and as at most 10 in the sums.

   After a rise the series is compared with the mean before it. The rise ends when the series is
   back at that mean, or after PAGE_HINKLEY_STAY values, when a new mean is estimated. A fall starts
   a new estimate at once. The first PAGE_HINKLEY_WARM values are not tested. */
#ifndef RUNNEL_ALERT_PAGE_HINKLEY_H
#define RUNNEL_ALERT_PAGE_HINKLEY_H

#include "alert_change.h"

enum {
    PAGE_HINKLEY_WARM = 30,
    PAGE_HINKLEY_MEMORY = 1000,
    PAGE_HINKLEY_STAY = 100,
    PAGE_HINKLEY_BACK = 5, /* values whose mean is tested after a rise */
};

#define PAGE_HINKLEY_DELTA 0.5
#define PAGE_HINKLEY_LAMBDA 15.0

struct page_hinkley {
    double delta, lambda;
    int count;             /* number of values in the estimates, at most PAGE_HINKLEY_MEMORY */
    double mean, variance; /* of the series without a change */
    double usual_mean, usual_variance; /* mean and variance before `rise` left 0 */
    double rise, fall;                 /* m(t) - min m(i), for x and for -x */
    double since;                      /* sum of the values since `rise` was 0 */
    int since_count;
    int away;                         /* values since a rise was found; 0 = none */
    double recent[PAGE_HINKLEY_BACK]; /* the last of these values, a ring */
};

void page_hinkley_open(struct page_hinkley *test, double delta, double lambda);

/* Adds the next value, which must be finite. CHANGE_ROSE: `before` is the mean until the rise,
   `after` that of the values since. CHANGE_BACK and CHANGE_STAYED end a rise; then `after` is the
   current mean. */
struct change page_hinkley_add(struct page_hinkley *test, double value);

#endif
