/* The Page-Hinkley test: whether the mean of a series has risen, or fallen.

     E. S. Page, Continuous inspection schemes. Biometrika 41 (1954), 100-115.
     D. V. Hinkley, Inference about the change-point from cumulative sum tests. Biometrika 58
     (1971), 509-523.

   With x the values in standard deviations from their mean, a rise is found when

     m(t) = sum over i <= t of (x(i) - delta),   m(t) - min over i <= t of m(i) > lambda

   and a fall likewise with -x. delta is half of the smallest change worth finding, lambda sets
   how rare false alarms are; both in standard deviations, as charts of cumulative sums have them
   (D. C. Montgomery, Introduction to Statistical Quality Control, chapter 9), where delta = 0.5 is
   the usual choice. lambda = 15 follows from the mean number of values between two false alarms (D.
   Siegmund, Sequential Analysis, 1985) with b = 2 delta (lambda + 1.166):

     (e^b - b - 1) / (2 delta^2)        that is 2e7 for independent normal values

   (lambda = 50 with delta = 0.005, which libraries for streams start with, are made for errors that
   are 0 or 1.) Mean and deviation are not known but estimated as the values come: over all of them
   until there are PAGE_HINKLEY_MEMORY, then fading; a value counts as at most 3 deviations from the
   mean there, and as at most 10 in the sums, so that one wild value alone is no change.

   After a rise the series is compared with the mean before it, until it is back there, or has
   stayed away for PAGE_HINKLEY_STAY values and a new mean is estimated; after a fall that happens
   at once. The first PAGE_HINKLEY_WARM values that are learned from are not tested. */
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
    int count;                         /* of values in the estimates, at most PAGE_HINKLEY_MEMORY */
    double mean, variance;             /* of the series without a change */
    double usual_mean, usual_variance; /* the same before `rise` left 0 */
    double rise, fall;                 /* m(t) - min m(i), for x and for -x */
    double since;                      /* sum of the values since `rise` was 0 */
    int since_count;
    int away;                         /* values since a rise was found; 0 = there is none */
    double recent[PAGE_HINKLEY_BACK]; /* of these the last ones, a ring */
};

void page_hinkley_open(struct page_hinkley *test, double delta, double lambda);

/* Take the next value, a finite one. CHANGE_ROSE: `before` is the mean until then, `after` that of
   the values since. CHANGE_BACK and CHANGE_STAYED end what CHANGE_ROSE began; then `after` is where
   the series is now. */
struct change page_hinkley_add(struct page_hinkley *test, double value);

#endif
