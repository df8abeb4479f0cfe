/* The lag at which one column's change repeats best: of 6..400 steps, found as changes come. Plain
   data, of doubles alone; all zero is a lag that has seen nothing.

     score(l) = sum u_t u_{t-l} / sqrt(sum u_t^2 sum u_{t-l}^2) - 2.5 / sqrt(terms)

   with sums that forget (0.9998 a step). Every 16 steps the best score is looked for; another lag
   is taken when it is clearly better, and given up when its correlation has gone. */
#ifndef RUNNEL_FORECAST_LAG_H
#define RUNNEL_FORECAST_LAG_H

#include <stdbool.h>

enum { LAG_LONGEST = 400 };

struct lag {
    double now; /* steps, 0 = there is none */
    double total, weight;
    double products[LAG_LONGEST + 1], squares[LAG_LONGEST + 1]; /* 0 and 1 are not used */
};

/* past[l] is u of l steps ago, past[0] the newest; `t` steps came before it: past[0..t] count, up
   to LAG_LONGEST. */
void lag_take(struct lag *lag, const double *past, double t);

/* Whether a lag can have come from here. */
bool lag_valid(const struct lag *lag);

#endif
