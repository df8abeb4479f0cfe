#include "horizon.h"

#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "common/unaligned.h"

#define LAG_MOST 10 /* changes */
#define UNIT_LEAST 1e-30

#define IN_DOUBLES(type) (sizeof(type) / sizeof(double))

/* Further than one step ahead, (columns,): the mean square of the changes so far. */
struct unit {
    double count, change;
};

/* Likewise, (ahead, columns), that of step t at t modulo ahead: what was said is relative to. */
struct waiting {
    double known; /* 0: nothing was ever seen */
    double x, mean, sd, ds;
};

void horizon_describe(struct horizon *h, size_t ahead, size_t columns, unsigned experts) {
    *h = (struct horizon){.ahead = ahead, .columns = columns, .experts = experts};
    regressions_describe(&h->regressions, columns, experts, ahead);
    h->units = h->waiting = h->size = h->regressions.size;
    if (ahead == 1)
        return;
    h->waiting += columns * IN_DOUBLES(struct unit);
    h->size = h->waiting + ahead * columns * IN_DOUBLES(struct waiting);
}

void horizon_begin(const struct horizon *h, double *block) {
    memset(block, 0, h->size * sizeof *block);
    regressions_begin(&h->regressions, block);
}

static struct unit *units_of(const struct horizon *h, double *block) {
    return (struct unit *)(void *)(block + h->units);
}

static struct waiting *waiting_of(const struct horizon *h, double *block, size_t place) {
    return (struct waiting *)(void *)(block + h->waiting) + place * h->columns;
}

/* A unit of many steps may be smaller than that of one. */
static bool waiting_valid(const struct waiting *w) {
    double least = w->known > 0 ? UNIT_LEAST : 0;
    return w->known >= 0 && w->known <= 1 && fabs(w->x) <= FINITE_VALUE_MOST &&
           fabs(w->mean) <= FINITE_VALUE_MOST && w->sd >= least && w->sd <= FINITE_VALUE_MOST &&
           w->ds >= least && w->ds <= FINITE_VALUE_MOST;
}

bool horizon_valid(const struct horizon *h, const double *block) {
    const struct unit *units = (const void *)(block + h->units);
    const struct waiting *waiting = (const void *)(block + h->waiting);
    bool valid = regressions_valid(&h->regressions, block);
    for (size_t k = 0; h->ahead > 1 && k < h->columns; k++)
        valid &= units[k].count >= 0 && units[k].count <= FINITE_VALUE_MOST &&
                 units[k].change >= 0 && units[k].change <= FINITE_SQUARE_MOST;
    for (size_t n = 0; h->ahead > 1 && n < h->ahead * h->columns; n++)
        valid &= waiting_valid(&waiting[n]);
    return valid;
}

/* What the step at that place said of column k is relative to. */
static struct waiting waits(const struct horizon *h, double *block, const struct column *c,
                            size_t place, size_t k) {
    if (h->ahead > 1)
        return waiting_of(h, block, place)[k];
    return (struct waiting){c->count > 0, c->x[0], c->mean, c->sd, c->ds};
}

void horizon_settle(const struct horizon *h, double *block, const struct column *columns, size_t t,
                    const void *x, bool learn, double *y, double *level, double *base, double *last,
                    double *work) {
    size_t place = t % h->ahead;
    for (size_t k = 0; k < h->columns; k++) {
        const struct waiting w = waits(h, block, &columns[k], place, k);
        double value =
            w.known > 0 ? (double)unaligned_float(x, k) : NAN; /* a column's first is no target */
        y[k] = (value - w.x) / w.ds;
        last[k] = w.known > 0 ? w.x : NAN;
        level[k] = (value - w.mean) / w.sd;
    }
    regressions_said(&h->regressions, block, place, EXPERT_ar12, base);
    if (learn)
        regressions_learn(&h->regressions, block, place, y, level, work);
}

/* ---- Saying ---- */

/* The unit, when the change over `ahead` steps to this x is known, which is NaN if it is not. */
static double unit_of(const struct horizon *h, struct unit *u, const struct column *c,
                      double change) {
    double ahead = (double)h->ahead, begins = ahead * ahead * c->ds * c->ds;
    double ds = sqrt((u->count * u->change + begins) / (u->count + ahead));
    if (!(column_is_settled(c) && !isnan(change)))
        return ds;
    change = forecast_clip(change, COLUMN_FAR * ds);
    u->count++;
    u->change += fmax(1 / u->count, COLUMN_RATE_LEAST) * (change * change - u->change);
    return sqrt((u->count * u->change + begins) / (u->count + ahead));
}

/* What the value was one whole period before the one that is forecast, as a change. */
static double period_of(const struct horizon *h, const struct column *c, double t, double ds) {
    size_t lag = (size_t)c->lag.now;
    if (!lag)
        return 0;
    size_t back = (h->ahead + lag - 1) / lag * lag - h->ahead;
    return t >= (double)back ? (c->x[back] - c->x[0]) / ds : 0;
}

static void say_units(const struct horizon *h, double *block, const struct column *columns,
                      size_t t, const void *x, double *ds, double *v) {
    for (size_t k = 0; k < h->columns; k++) {
        const struct column *c = &columns[k];
        ds[k] = c->ds;
        v[k] = c->v;
        if (h->ahead == 1)
            continue;
        struct waiting *w = &waiting_of(h, block, t % h->ahead)[k];
        bool pair = t >= h->ahead && w->known > 0;
        ds[k] = unit_of(h, &units_of(h, block)[k], c,
                        pair ? (double)unaligned_float(x, k) - w->x : NAN);
        v[k] = period_of(h, c, (double)t, ds[k]);
        *w = (struct waiting){c->count > 0, c->x[0], c->mean, c->sd, ds[k]};
    }
}

/* What one expert says of a column. */
static double simple(enum expert expert, const struct column *c, double ds, double v) {
    switch (expert) {
    case EXPERT_mean:
        return (c->mean - c->x[0]) / ds;
    case EXPERT_ewma:
        return (c->ewma - c->x[0]) / ds;
    case EXPERT_lag:
        return forecast_clip(v, LAG_MOST);
    default:
        return 0;
    }
}

void horizon_say(const struct horizon *h, double *block, const struct column *columns, size_t t,
                 const void *x, double *ds, double *v, double *ar12, double *experts) {
    size_t place = t % h->ahead;
    say_units(h, block, columns, t, x, ds, v);
    regressions_predict(&h->regressions, block, place, columns, ds, v);
    for (size_t n = 0; n < experts_count(h->experts); n++, experts += h->columns) {
        enum expert expert = experts_at(h->experts, n);
        if (regressions_have(&h->regressions, expert))
            regressions_said(&h->regressions, block, place, expert, experts);
        else
            for (size_t k = 0; k < h->columns; k++)
                experts[k] = simple(expert, &columns[k], ds[k], v[k]);
    }
    regressions_said(&h->regressions, block, place, EXPERT_ar12, ar12);
}
