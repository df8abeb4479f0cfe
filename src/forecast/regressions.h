/* The experts that learn by least squares. Up to 8 columns share a regression; of more each has its
   own. ar3, ar12, ar12fast and ar24 forecast changes from changes, abs12 levels from levels.

     ar of L lags, a group of columns each:
       phi = u | (x l steps ago - x) / ds for l = 2..L-1 | (mean - x) / ds | v | 1, within 10
     abs12: phi = z of l steps ago, l = 0..11, within 4 | 1

   Several steps ahead ds and v are of that horizon, and u is turned into its unit. What was said,
   and from what, is kept in as many places as steps wait: that of step t is t modulo their number.
 */
#ifndef RUNNEL_FORECAST_REGRESSIONS_H
#define RUNNEL_FORECAST_REGRESSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "column.h"
#include "forecast.h"
#include "least_squares.h"

/* What an expert is: a formula of a column, or least squares. */
struct expert_kind {
    const char *name;
    double (*says)(const struct column *c, double ds, double v); /* as a change; NULL: */
    size_t lags;
    bool levels; /* it forecasts levels from levels */
    double keep, prior;
};
extern const struct expert_kind expert_kinds[EXPERTS];

struct regression {
    bool there;
    size_t lags;
    struct least_squares ls; /* of one group */
    size_t begin;            /* of its numbers in a block, group after group: those of ls, and by
                                place phi (stride,) and what it says (width,) in its own unit */
};

struct regressions {
    size_t columns, width, groups; /* columns = groups * width */
    size_t places;                 /* the horizon */
    struct regression of[EXPERTS];
    size_t said; /* in a block: (places, EXPERTS, columns) in changes */
    size_t size; /* numbers in a block */
    size_t work; /* numbers of scratch */
};

void regressions_describe(struct regressions *r, size_t columns, unsigned experts, size_t places);
void regressions_begin(const struct regressions *r, double *block);

/* Whether a block can have come from here. */
bool regressions_valid(const struct regressions *r, const double *block);

/* Forecast from the columns, with the unit and v of the horizon (columns,), and remember at that
   place what was said. */
void regressions_predict(const struct regressions *r, double *block, size_t place,
                         const struct column *columns, const double *ds, const double *v);

/* What an expert has said there, in changes (columns,); 0 without it. */
void regressions_said(const struct regressions *r, const double *block, size_t place,
                      enum expert expert, double *p);

/* The target of what was said there has come: y in changes, level in deviations, (columns,), NaN =
   not observed. Today's weights are corrected by the error that they make. */
void regressions_learn(const struct regressions *r, double *block, size_t place, const double *y,
                       const double *level, double *work);

#endif
