/* One horizon of a stream: the unit of a change so many steps ahead, the experts that say it, and
   the steps that wait for their truths. A description, and a block of doubles for each stream, as
   in regressions.h; all zero but the regressions is a stream that begins.

   One step ahead unit and waiting step are those of the columns (column.h). Further ahead, of h
   steps, with c_h the mean square of the n changes over h steps so far, and v of the newest whole
   period L of the lag, m = ceil(h / L):

     ds_h = sqrt((n c_h + h h ds^2) / (n + h))      v_h = (x of mL - h steps ago - x) / ds_h

   As long as there are few, the unit is that of a random walk, for h changes that overlap are worth
   about one. They count once the units of the column are complete, at the rates of column.h, and
   each as at most 30 ds_h. */
#ifndef RUNNEL_FORECAST_HORIZON_H
#define RUNNEL_FORECAST_HORIZON_H

#include "regressions.h"

struct horizon {
    size_t ahead, columns;
    unsigned experts;
    struct regressions regressions; /* at the block's beginning */
    size_t units, waiting;          /* in a block: more than one step ahead; see horizon.c */
    size_t size;                    /* numbers in a block */
};

void horizon_describe(struct horizon *h, size_t ahead, size_t columns, unsigned experts);
void horizon_begin(const struct horizon *h, double *block);

/* Whether a block can have come from here. */
bool horizon_valid(const struct horizon *h, const double *block);

/* Step t's x (columns,), maybe unaligned, as the truth of the step `ahead` before, t >= ahead.
   `columns` are as they were before step t. Arrays (columns,): see struct forecast_horizon. With
   `learn` the experts do. */
void horizon_settle(const struct horizon *h, double *block, const struct column *columns, size_t t,
                    const void *x, bool learn, double *y, double *level, double *base, double *last,
                    double *work);

/* What is said at step t, of which x came; `columns` have taken it. Arrays (columns,), experts
   (experts of the set, columns). */
void horizon_say(const struct horizon *h, double *block, const struct column *columns, size_t t,
                 const void *x, double *ds, double *v, double *ar12, double *experts);

#endif
