/* One column of one stream: its units, its past and its lag. Doubles alone, so that a stream's
   state is one array of them; all zero is a column that has seen nothing. */
#ifndef RUNNEL_FORECAST_COLUMN_H
#define RUNNEL_FORECAST_COLUMN_H

#include <stdbool.h>

#include "lag.h"

enum {
    COLUMN_PAST = LAG_LONGEST + 2,
    COLUMN_LEVELS = 12,
    COLUMN_FIRST = 30, /* values */
    COLUMN_FAR = 30,   /* deviations, or changes, that one of later ones counts for at most */
};
#define COLUMN_RATE_LEAST 0.001

struct column {
    double count; /* values seen */
    double mean, variance;
    double change; /* mean square change */
    double sd, ds;
    double ewma;
    struct lag lag;
    double v;                /* the change one lag ago, in ds */
    double x[COLUMN_PAST];   /* newest first; before the first value stands the first */
    double u[COLUMN_PAST];   /* changes in ds, within 8; before the first 0 */
    double z[COLUMN_LEVELS]; /* levels in sd, within 8 */
};

/* One more value, NaN = missing; `t` steps of the stream came before. Rates are not below 0.001;
   after the first 30 a value counts as at most 30 deviations and 30 changes away, so that a wild
   one moves little; a new level is reached in some tens of steps, since the deviation then grows at
   each. Once the first 30 are complete, up to three of them that lie a thousand deviations outside
   of all others are left out. A missing value is held, and moves no statistics. */
void column_take(struct column *c, double value, double t);

/* Whether a column can have come from here. */
bool column_valid(const struct column *c);

/* Whether the first values are complete. */
static inline bool column_is_settled(const struct column *c) {
    return c->count > COLUMN_FIRST;
}

#endif
