/* The experts that learn by least squares. Up to 8 columns share a regression; of more each has its
   own. ar3, ar12, ar12fast and ar24 forecast changes from changes, abs12 levels from levels.

     ar of L lags, a group of columns each:
       phi = u | (x l steps ago - x) / ds for l = 2..L-1 | (mean - x) / ds | v | 1, within 10
     abs12: phi = z of l steps ago, l = 0..11, within 4 | 1 */
#ifndef RUNNEL_FORECAST_REGRESSIONS_H
#define RUNNEL_FORECAST_REGRESSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "column.h"
#include "forecast.h"
#include "least_squares.h"

struct regression {
    bool there;
    size_t lags;
    struct least_squares ls; /* of one group */
    size_t begin;            /* of its numbers in a block, group after group: those of ls, phi
                                (stride,), and what it says (width,) in its own unit */
};

struct regressions {
    size_t columns, width, groups; /* columns = groups * width */
    struct regression of[EXPERTS];
    size_t said; /* in a block: (EXPERTS, columns) in changes */
    size_t size; /* numbers in a block */
    size_t work; /* numbers of scratch */
};

void regressions_describe(struct regressions *r, size_t columns, unsigned experts);
void regressions_begin(const struct regressions *r, double *block);

bool regressions_have(const struct regressions *r, enum expert expert);

/* Forecast from the columns, and remember what was said. */
void regressions_predict(const struct regressions *r, double *block, const struct column *columns);

/* What an expert has said, in changes (columns,); 0 without it. */
void regressions_said(const struct regressions *r, const double *block, enum expert expert,
                      double *p);

/* The target has come: y in changes, level in deviations, (columns,), NaN = not observed. */
void regressions_learn(const struct regressions *r, double *block, const double *y,
                       const double *level, double *work);

#endif
