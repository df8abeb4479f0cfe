#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/unaligned.h"
#include "common/vectors.h"
#include "common/wild.h"
#include "forecast.h"
#include "known.h"
#include "least_squares.h"

/* ---- Lag ----

   The lag of 6..400 steps at which the changes of one column repeat best, updated with each change.
   Doubles only; all zero is a new column.

     score(l) = sum u_t u_{t-l} / sqrt(sum u_t^2 sum u_{t-l}^2) - 2.5 / sqrt(terms)

   The sums forget (0.9998 per step). Every 16 steps the best score is searched. A lag that is
   clearly better replaces the current one, and a lag without correlation is dropped. */

enum { LAG_LONGEST = 400 };

struct lag {
    double now; /* steps, 0 = no lag */
    double total, weight;
    double products[LAG_LONGEST + 1], squares[LAG_LONGEST + 1]; /* 0 and 1 are unused */
};

#define KEEP 0.9998
#define TINY 1e-12
#define DOUBT 2.5      /* a correlation by chance is about 1 / sqrt(terms) */
#define LEAST 0.1      /* least score of a new lag */
#define BETTER 1.1     /* a new lag must exceed the current one by this factor */
#define BETTER_BY 0.01 /* and by this difference */
#define GONE 0.05      /* least correlation to keep a lag */

enum {
    FIRST = 2,    /* shortest lag that is counted */
    SHORTEST = 6, /* shortest lag that can be chosen */
    EVERY = 16,   /* steps between two searches */
    PERIODS = 2,  /* required periods of a lag */
    MARGIN = 20,  /* further steps before it can be chosen */
};

/* products += u past, squares += past^2, both with forgetting, for `count` lags. */
VECTOR_BODY void add_body(double *restrict products, double *restrict squares,
                          const double *restrict past, size_t count, double u) {
#pragma omp simd
    for (size_t l = 0; l < count; l++) {
        products[l] = KEEP * products[l] + u * past[l];
        squares[l] = KEEP * squares[l] + past[l] * past[l];
    }
}
VECTOR_CLONES(add,
              (double *restrict products, double *restrict squares, const double *restrict past,
               size_t count, double u),
              (products, squares, past, count, u))

static double correlation(const struct lag *lag, size_t l) {
    return lag->products[l] / sqrt(lag->total * lag->squares[l] + TINY);
}

static double score(const struct lag *lag, size_t l, double t) {
    return correlation(lag, l) - DOUBT / sqrt(fmin(lag->weight, t - (double)l));
}

static void choose(struct lag *lag, size_t top, double t) {
    double best = 0;
    size_t longest = 0;
    for (size_t l = SHORTEST; l <= top && t >= (double)(PERIODS * l + MARGIN); l++) {
        double this = score(lag, l, t);
        if (!longest || this > best) {
            best = this;
            longest = l;
        }
    }
    size_t now = (size_t)lag->now;
    double standing = now ? score(lag, now, t) : 0;
    if (longest && best > LEAST && longest != now && best > BETTER * standing + BETTER_BY)
        lag->now = (double)(now = longest);
    if (now && correlation(lag, now) < GONE)
        lag->now = 0;
}

/* past[l] is u of l steps ago, past[0] the newest; after `t` earlier steps past[0..t] count, up
   to LAG_LONGEST. */
static void lag_take(struct lag *lag, const double *past, double t) {
    double u = past[0];
    size_t top = t < LAG_LONGEST ? (size_t)t : LAG_LONGEST;
    lag->total = KEEP * lag->total + u * u;
    lag->weight = KEEP * lag->weight + 1;
    if (top >= FIRST)
        add(lag->products + FIRST, lag->squares + FIRST, past + FIRST, top + 1 - FIRST, u);
    if (fmod(t, EVERY) == 0)
        choose(lag, top, t);
}

/* Whether a lag is valid. */
static bool lag_valid(const struct lag *lag) {
    static const double weight = 2 / (1 - KEEP),
                        most = weight * FORECAST_FEATURE_MOST * FORECAST_FEATURE_MOST;
    return lag->now >= 0 && lag->now <= LAG_LONGEST && lag->weight >= 0 && lag->weight <= weight &&
           lag->total >= 0 && lag->total <= most &&
           finite_within(lag->products, LAG_LONGEST + 1, most) &&
           finite_within(lag->squares, LAG_LONGEST + 1, most);
}

/* ---- Column ----

   One column of one stream: its units, its recent values and its lag. Doubles only, so that a
   stream's state is one array; all zero is a new column. */

enum {
    COLUMN_PAST = LAG_LONGEST + 2,
    COLUMN_LEVELS = 12,
    COLUMN_FIRST = 30, /* values */
    COLUMN_FAR = 30,   /* limit of a later value, in deviations or changes */
};

#define COLUMN_RATE_LEAST 0.001

struct column {
    double count; /* values so far */
    double mean, variance;
    double change; /* mean square change */
    double sd, ds;
    double ewma;
    struct lag lag;
    double v;                /* the change one lag ago, in ds */
    double x[COLUMN_PAST];   /* newest first; before the first value the first */
    double u[COLUMN_PAST];   /* changes in ds, within 8; before the first 0 */
    double z[COLUMN_LEVELS]; /* levels in sd, within 8 */
};

#define EWMA_RATE 0.2
/* most wild ones among the first values: more of them are a level of their own */
#define WILD_MAX 3
#define RELATIVE_LEAST 1e-9 /* least share of a deviation, relative to the mean */
#define LEAST_UNIT 1e-12

static void push(double *past, size_t count, double value) {
    memmove(past + 1, past, (count - 1) * sizeof *past);
    past[0] = value;
}

static void move_statistics(struct column *c, double x, double delta) {
    double t = ++c->count, rate = fmax(1 / t, COLUMN_RATE_LEAST), e = x - c->mean;
    if (t > COLUMN_FIRST) {
        e = forecast_clip(e, COLUMN_FAR * c->sd);
        delta = forecast_clip(delta, COLUMN_FAR * c->ds);
    }
    c->mean += rate * e;
    c->variance = (1 - rate) * (c->variance + rate * e * e);
    if (t > 1)
        c->change += fmax(1 / (t - 1), COLUMN_RATE_LEAST) * (delta * delta - c->change);
}

/* The first values are complete: recomputes the statistics without wild ones. Missing values in
   between count as held. */
static void drop_wild(struct column *c, double t) {
    double values[COLUMN_PAST], median, mean = 0, squares = 0, changes = 0;
    size_t count = (size_t)fmin(t + 1, COLUMN_PAST), used = 0, pairs = 0;
    while (count > 1 && c->x[count - 2] == c->x[count - 1])
        count--; /* values before the first equal the first */
    memcpy(values, c->x, count * sizeof *values);
    double far = wild_distance(values, count, WILD_MAX, &median);
    if (!isfinite(far))
        return;
    for (size_t n = 0; n < count; n++) {
        if (fabs(c->x[n] - median) >= far)
            continue;
        squares = welford(c->x[n], (double)++used, &mean, squares);
        if (n + 1 == count || fabs(c->x[n + 1] - median) >= far)
            continue;
        double delta = c->x[n] - c->x[n + 1];
        changes += delta * delta;
        pairs++;
    }
    c->mean = c->ewma = mean;
    c->variance = squares / (double)used;
    c->change = pairs ? changes / (double)pairs : 0;
}

/* Computes the units from the statistics, also without values. */
static void measure(struct column *c) {
    double least = RELATIVE_LEAST * fabs(c->mean) + LEAST_UNIT;
    c->sd = c->count > 1 ? fmax(sqrt(c->variance), least) : 1;
    c->ds = c->change > 0 ? fmax(sqrt(c->change), least) : c->sd;
}

/* Takes the next value, NaN = missing, after `t` earlier steps of the stream
   (docs/explanation/forecasts.md, "Units"). A missing value is held, and does not move the
   statistics. */
static void column_take(struct column *c, double value, double t) {
    bool seen = !isnan(value), first = seen && c->count == 0;
    double x = seen ? value : c->x[0];
    for (size_t i = 0; first && i < COLUMN_PAST; i++)
        c->x[i] = x;
    double delta = x - c->x[0];
    if (seen)
        move_statistics(c, x, delta);
    if (first)
        c->ewma = x;
    else if (seen)
        c->ewma += fmax(EWMA_RATE, 1 / c->count) * (x - c->ewma);
    push(c->x, COLUMN_PAST, x);
    if (seen && c->count == COLUMN_FIRST)
        drop_wild(c, t);
    measure(c);
    push(c->u, COLUMN_PAST, forecast_clip(delta / c->ds, FORECAST_FEATURE_MOST));
    push(c->z, COLUMN_LEVELS, forecast_clip((x - c->mean) / c->sd, FORECAST_FEATURE_MOST));
    lag_take(&c->lag, c->u, t);
    size_t lag = (size_t)c->lag.now;
    c->v = lag && t >= (double)lag ? (c->x[lag - 1] - c->x[lag]) / c->ds : 0;
}

static bool is_unit(const struct column *c, double unit) {
    return unit >= (c->count > 0 ? LEAST_UNIT : 0) && unit <= FINITE_VALUE_MOST;
}

/* Whether a column is valid. */
static bool column_valid(const struct column *c) {
    return c->count >= 0 && c->count <= FINITE_VALUE_MOST && is_unit(c, c->sd) &&
           is_unit(c, c->ds) && c->variance >= 0 && c->variance <= FINITE_SQUARE_MOST &&
           c->change >= 0 && c->change <= FINITE_SQUARE_MOST &&
           fabs(c->mean) <= FINITE_VALUE_MOST && fabs(c->ewma) <= FINITE_VALUE_MOST &&
           fabs(c->v) <= FINITE_MOST && finite_within(c->x, COLUMN_PAST, FINITE_VALUE_MOST) &&
           finite_within(c->u, COLUMN_PAST, FORECAST_FEATURE_MOST) &&
           finite_within(c->z, COLUMN_LEVELS, FORECAST_FEATURE_MOST) && lag_valid(&c->lag);
}

/* ---- Regressions ----

   The experts that learn by least squares. Up to 8 columns share a regression; with more columns
   each has its own. ar3, ar12, ar12fast and ar24 forecast changes from changes, abs12 levels from
   levels. `known` is ar12 with the values of known columns.

   Inputs of a group of columns, for L lags:
     ar:    phi = u | (x l steps ago - x) / ds for l = 2..L-1 | (mean - x) / ds | v | 1, within 10
     abs12: phi = z of l steps ago, l = 0..11, within 4 | 1
     known: phi = that of ar | for each known column 10 z of the forecast step, of this step and of
            steps before, as many as lags fit 48 numbers

   An observation of a known value counts more than the prior, so that one promotion is enough.

   For several steps ahead, ds and v are those of the horizon, and u is converted to its unit.
   Forecasts and their inputs are kept in one place per waiting step: those of step t at t modulo
   their number. */

#define IN_DOUBLES(type) (sizeof(type) / sizeof(double))

struct regression {
    bool there;
    size_t lags;
    struct least_squares ls; /* of one group */
    /* offset of its numbers in a block, group after group: those of ls, then per place phi
       (stride,) and its forecasts (width,) in its own unit */
    size_t begin;
};

struct regressions {
    size_t columns, width, groups; /* columns = groups * width */
    size_t known;
    size_t experts; /* stored: the last one only with known columns */
    size_t places;  /* the horizon */
    struct regression of[EXPERTS];
    size_t stored; /* offset in a block: (places, EXPERTS, columns) in changes */
    size_t size;   /* numbers in a block */
    size_t work;   /* numbers of scratch */
};

#define FEATURE_MOST 10
#define LEVEL_FEATURE_MOST 4
#define LAG_MOST 10            /* changes */
#define KNOWN_CHANGE_MOST 20.0 /* limit of a target: rare events are large changes */

enum { JOINT_COLUMNS = 8 };

/* An expert: a formula of a column, or least squares. */
struct expert_kind {
    const char *name;
    /* forecasts a change; NULL: least squares */
    double (*forecast)(const struct column *c, double ds, double v);
    size_t lags;
    bool levels; /* forecasts levels from levels */
    bool known;  /* also from known columns */
    double keep, prior;
};

static double last_of(const struct column *c, double ds, double v) {
    return (void)c, (void)ds, (void)v, 0;
}

static double mean_of(const struct column *c, double ds, double v) {
    return (void)v, (c->mean - c->x[0]) / ds;
}

static double ewma_of(const struct column *c, double ds, double v) {
    return (void)v, (c->ewma - c->x[0]) / ds;
}

static double lag_of(const struct column *c, double ds, double v) {
    return (void)c, (void)ds, forecast_clip(v, LAG_MOST);
}

static const struct expert_kind expert_kinds[EXPERTS] = {
#define EXPERT(expert, what, ...) {.name = #expert, __VA_ARGS__},
#include "experts.def"
};

/* Numbers of one group in a block. */
static size_t group_size(const struct regressions *r, const struct regression *g) {
    return least_squares_size(&g->ls) + r->places * (g->ls.stride + g->ls.outputs);
}

static void regressions_describe(struct regressions *r, size_t columns, size_t known,
                                 unsigned experts, size_t places) {
    memset(r, 0, sizeof *r);
    r->columns = columns;
    r->known = known;
    r->experts = known ? EXPERTS : EXPERT_known;
    r->places = places;
    r->groups = columns <= JOINT_COLUMNS ? 1 : columns;
    r->width = columns / r->groups;
    for (enum expert expert = 0; expert < EXPERTS; expert++) {
        const struct expert_kind *kind = &expert_kinds[expert];
        struct regression *g = &r->of[expert];
        size_t rows = kind->levels ? kind->lags : kind->lags + 1;
        g->there = kind->lags && experts >> expert & 1;
        if (!g->there)
            continue;
        g->lags = kind->lags;
        size_t extra = kind->known ? known * (1 + known_lags(known)) : 0;
        g->ls = least_squares_of(rows * r->width + 1 + extra, r->width, kind->keep, kind->prior);
        g->begin = r->size;
        r->size += r->groups * group_size(r, g);
        size_t work = least_squares_work(&g->ls) + r->width;
        r->work = work > r->work ? work : r->work;
    }
    r->stored = r->size;
    r->size += places * r->experts * columns;
    r->work += r->work == 0;
}

static double *group_of(const struct regressions *r, double *block, enum expert expert,
                        size_t group) {
    const struct regression *g = &r->of[expert];
    return block + g->begin + group * group_size(r, g);
}

/* phi of a group at that place; the forecasts follow it. */
static double *phi_of(const struct regression *g, double *numbers, size_t place) {
    return numbers + least_squares_size(&g->ls) + place * (g->ls.stride + g->ls.outputs);
}

static size_t stored_of(const struct regressions *r, size_t place, enum expert expert) {
    return r->stored + (place * r->experts + expert) * r->columns;
}

static void regressions_begin(const struct regressions *r, double *block) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        for (size_t n = 0; r->of[expert].there && n < r->groups; n++)
            least_squares_begin(&r->of[expert].ls, group_of(r, block, expert, n));
}

static bool group_valid(const struct regressions *r, const struct regression *g,
                        const double *numbers) {
    bool valid = least_squares_valid(&g->ls, numbers);
    const double *phi = numbers + least_squares_size(&g->ls);
    for (size_t place = 0; place < r->places; place++, phi += g->ls.stride + g->ls.outputs)
        valid &= finite_within(phi, g->ls.stride, FEATURE_MOST) &&
                 finite_within(phi + g->ls.stride, g->ls.outputs, FINITE_MOST);
    return valid;
}

/* Whether a block is valid. */
static bool regressions_valid(const struct regressions *r, const double *block) {
    bool valid = finite_within(block + r->stored, r->size - r->stored, FINITE_MOST);
    for (enum expert expert = 0; expert < EXPERTS; expert++) {
        const struct regression *g = &r->of[expert];
        for (size_t n = 0; g->there && n < r->groups; n++)
            valid &= group_valid(r, g, block + g->begin + n * group_size(r, g));
    }
    return valid;
}

/* ---- Forecasting ---- */

static void fill_changes(double *phi, size_t lags, const struct column *c, const double *ds,
                         const double *v, size_t width) {
    for (size_t k = 0; k < width; k++) {
        double x = c[k].x[0], *at = phi + k;
        *at = forecast_clip(c[k].u[0] * (c[k].ds / ds[k]), FEATURE_MOST);
        for (size_t l = 2; l < lags; l++)
            *(at += width) = forecast_clip((c[k].x[l] - x) / ds[k], FEATURE_MOST);
        *(at += width) = forecast_clip((c[k].mean - x) / ds[k], FEATURE_MOST);
        *(at += width) = forecast_clip(v[k], FEATURE_MOST);
    }
    phi[(lags + 1) * width] = 1;
}

static void fill_levels(double *phi, const struct column *c, size_t width) {
    for (size_t k = 0; k < width; k++)
        for (size_t l = 0; l < COLUMN_LEVELS; l++)
            phi[l * width + k] = forecast_clip(c[k].z[l], LEVEL_FEATURE_MOST);
    phi[COLUMN_LEVELS * width] = 1;
}

static void fill_known(double *phi, size_t known, size_t ahead, const double *values) {
    for (size_t m = 0; m < known; m++, values += known_size(known, ahead)) {
        const struct known *k = (const void *)values;
        *phi++ = FEATURE_MOST * known_z(k, 0);
        for (size_t l = 0; l < known_lags(known); l++)
            *phi++ = FEATURE_MOST * known_z(k, ahead + l);
    }
}

static void predict_group(const struct regressions *r, double *block, size_t place,
                          enum expert expert, size_t group, const struct column *columns,
                          const double *ds, const double *v, const double *known) {
    const struct regression *g = &r->of[expert];
    size_t first = group * r->width;
    const struct column *c = columns + first;
    double *numbers = group_of(r, block, expert, group);
    double *phi = phi_of(g, numbers, place), *own = phi + g->ls.stride;
    double *stored = block + stored_of(r, place, expert) + first;
    if (expert_kinds[expert].levels)
        fill_levels(phi, c, r->width);
    else
        fill_changes(phi, g->lags, c, ds + first, v + first, r->width);
    if (expert_kinds[expert].known)
        fill_known(phi + (g->lags + 1) * r->width + 1, r->known, r->places, known);
    least_squares_predict(&g->ls, numbers, phi, own);
    for (size_t k = 0; k < r->width; k++)
        stored[k] = expert_kinds[expert].levels /* as a change */
                        ? (c[k].mean + c[k].sd * own[k] - c[k].x[0]) / ds[first + k]
                        : own[k];
}

/* Forecasts from the columns, with the unit and v of the horizon (columns,), and stores the
   forecasts at that place. */
static void regressions_predict(const struct regressions *r, double *block, size_t place,
                                const struct column *columns, const double *ds, const double *v,
                                const double *known) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        for (size_t n = 0; r->of[expert].there && n < r->groups; n++)
            predict_group(r, block, place, expert, n, columns, ds, v, known);
}

/* The stored forecasts of an expert, in changes (columns,); 0 without it. */
static void regressions_stored(const struct regressions *r, const double *block, size_t place,
                               enum expert expert, double *p) {
    memcpy(p, block + stored_of(r, place, expert), r->columns * sizeof *p);
}

/* ---- Learning ---- */

/* One step ahead the weights have not changed since: today's forecast is the stored one. */
static void learn_group(const struct regressions *r, double *block, size_t place,
                        enum expert expert, size_t group, const double *y, const double *level,
                        double *work) {
    const struct regression *g = &r->of[expert];
    double *numbers = group_of(r, block, expert, group), *error = work, *rest = work + r->width;
    double *phi = phi_of(g, numbers, place), *own = phi + g->ls.stride;
    if (r->places > 1)
        least_squares_predict(&g->ls, numbers, phi, own);
    for (size_t k = 0; k < r->width; k++) {
        size_t column = group * r->width + k;
        const struct expert_kind *kind = &expert_kinds[expert];
        double target = kind->levels ? forecast_clip(level[column], FORECAST_FEATURE_MOST)
                                     : forecast_clip(y[column], kind->known ? KNOWN_CHANGE_MOST
                                                                            : FORECAST_CHANGE_MOST);
        error[k] = target - own[k];
    }
    least_squares_learn(&g->ls, numbers, phi, error, rest);
}

/* Takes the target of the forecasts at that place: y in changes, level in deviations,
   (columns,), NaN = not observed. The current weights are corrected by their current error. */
static void regressions_learn(const struct regressions *r, double *block, size_t place,
                              const double *y, const double *level, double *work) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        for (size_t n = 0; r->of[expert].there && n < r->groups; n++)
            learn_group(r, block, place, expert, n, y, level, work);
}

/* ---- One horizon ---- */

/* One horizon of a stream: the unit of a change over that many steps, its experts, and the steps
   that wait for their truths. A description, and a block of doubles for each stream, like the
   regressions; all zero except the regressions is a new stream. The equations are in
   docs/explanation/forecasts.md, "Several steps ahead".

   One step ahead, the unit and the waiting step are those of the columns. Else changes count once
   the units of the column are complete, at the rates above, and each as at most 30 ds_h. */
struct horizon {
    size_t ahead, columns;
    unsigned experts;
    struct regressions regressions; /* offset at the beginning of the block */
    size_t units, waiting;          /* offsets in a block, with more than one step ahead */
    size_t known;                   /* offset of known columns, each struct known */
    size_t size;                    /* numbers in a block */
};

#define UNIT_LEAST 1e-30

/* The mean square of the changes so far, with more than one step ahead, (columns,). */
struct unit {
    double count, change;
};

/* The reference of the forecasts, with more than one step ahead: (ahead, columns), that of step
   t at t modulo ahead. */
struct waiting {
    double known; /* 0: no value yet */
    double x, mean, sd, ds;
};

static void horizon_describe(struct horizon *h, size_t ahead, size_t columns, size_t known,
                             unsigned experts) {
    *h = (struct horizon){.ahead = ahead, .columns = columns, .experts = experts};
    regressions_describe(&h->regressions, columns, known, experts, ahead);
    h->known = h->regressions.size;
    h->units = h->waiting = h->size = h->known + known * known_size(known, ahead);
    if (ahead == 1)
        return;
    h->waiting += columns * IN_DOUBLES(struct unit);
    h->size = h->waiting + ahead * columns * IN_DOUBLES(struct waiting);
}

static struct known *known_of(const struct horizon *h, double *block, size_t m) {
    return (struct known *)(void *)(block + h->known +
                                    m * known_size(h->regressions.known, h->ahead));
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

/* Whether a block is valid. */
static bool horizon_valid(const struct horizon *h, const double *block) {
    const struct unit *units = (const void *)(block + h->units);
    const struct waiting *waiting = (const void *)(block + h->waiting);
    bool valid = regressions_valid(&h->regressions, block);
    size_t known = h->regressions.known, size = known_size(known, h->ahead);
    for (size_t m = 0; m < known; m++)
        valid &=
            known_valid((const void *)(block + h->known + m * size), h->ahead + known_lags(known));
    for (size_t k = 0; h->ahead > 1 && k < h->columns; k++)
        valid &= units[k].count >= 0 && units[k].count <= FINITE_VALUE_MOST &&
                 units[k].change >= 0 && units[k].change <= FINITE_SQUARE_MOST;
    for (size_t n = 0; h->ahead > 1 && n < h->ahead * h->columns; n++)
        valid &= waiting_valid(&waiting[n]);
    return valid;
}

/* The reference of column k's forecasts at that place. */
static struct waiting waits(const struct horizon *h, double *block, const struct column *c,
                            size_t place, size_t k) {
    if (h->ahead > 1)
        return waiting_of(h, block, place)[k];
    return (struct waiting){c->count > 0, c->x[0], c->mean, c->sd, c->ds};
}

/* Takes step t's x (columns,), possibly unaligned, as the truth of the step `ahead` before, t >=
   ahead. `columns` are in their state before step t. Arrays (columns,): see struct
   forecast_horizon. With `learn` the experts learn. */
static void horizon_settle(const struct horizon *h, double *block, const struct column *columns,
                           size_t t, const void *x, bool learn, double *y, double *level,
                           double *base, double *last, double *work) {
    size_t place = t % h->ahead;
    for (size_t k = 0; k < h->columns; k++) {
        const struct waiting w = waits(h, block, &columns[k], place, k);
        double value =
            /* the first value of a column is not a target */
            w.known > 0 ? (double)unaligned_float(x, k) : NAN;
        y[k] = (value - w.x) / w.ds;
        last[k] = w.known > 0 ? w.x : NAN;
        level[k] = (value - w.mean) / w.sd;
    }
    regressions_stored(&h->regressions, block, place, EXPERT_ar12, base);
    if (learn)
        regressions_learn(&h->regressions, block, place, y, level, work);
}

/* ---- Forecasts of a step ---- */

/* The unit after the change over `ahead` steps to this x, which is NaN if unknown. */
static double unit_of(const struct horizon *h, struct unit *u, const struct column *c,
                      double change) {
    double ahead = (double)h->ahead, begins = ahead * ahead * c->ds * c->ds;
    double ds = sqrt((u->count * u->change + begins) / (u->count + ahead));
    if (c->count <= COLUMN_FIRST || isnan(change))
        return ds;
    change = forecast_clip(change, COLUMN_FAR * ds);
    u->count++;
    u->change += fmax(1 / u->count, COLUMN_RATE_LEAST) * (change * change - u->change);
    return sqrt((u->count * u->change + begins) / (u->count + ahead));
}

/* The value one whole period before the forecast one, as a change. */
static double period_of(const struct horizon *h, const struct column *c, double t, double ds) {
    size_t lag = (size_t)c->lag.now;
    if (!lag)
        return 0;
    size_t back = (h->ahead + lag - 1) / lag * lag - h->ahead;
    return t >= (double)back ? (c->x[back] - c->x[0]) / ds : 0;
}

static void horizon_units(const struct horizon *h, double *block, const struct column *columns,
                          size_t t, const void *x, double *ds, double *v) {
    struct unit *units = (void *)(block + h->units);
    for (size_t k = 0; k < h->columns; k++) {
        const struct column *c = &columns[k];
        ds[k] = c->ds;
        v[k] = c->v;
        if (h->ahead == 1)
            continue;
        struct waiting *w = &waiting_of(h, block, t % h->ahead)[k];
        bool pair = t >= h->ahead && w->known > 0;
        ds[k] = unit_of(h, &units[k], c, pair ? (double)unaligned_float(x, k) - w->x : NAN);
        v[k] = period_of(h, c, (double)t, ds[k]);
        *w = (struct waiting){c->count > 0, c->x[0], c->mean, c->sd, ds[k]};
    }
}

/* The forecasts at step t; `columns` have taken its x. Arrays (columns,), experts (experts of
   the set, columns). */
static void horizon_forecast(const struct horizon *h, double *block, const struct column *columns,
                             size_t t, const void *x, double *ds, double *v, double *ar12,
                             double *experts) {
    size_t place = t % h->ahead;
    horizon_units(h, block, columns, t, x, ds, v);
    regressions_predict(&h->regressions, block, place, columns, ds, v, block + h->known);
    for (size_t n = 0; n < experts_count(h->experts); n++, experts += h->columns) {
        enum expert expert = experts_at(h->experts, n);
        const struct expert_kind *kind = &expert_kinds[expert];
        if (!kind->forecast)
            regressions_stored(&h->regressions, block, place, expert, experts);
        for (size_t k = 0; kind->forecast && k < h->columns; k++)
            experts[k] = kind->forecast(&columns[k], ds[k], v[k]);
    }
    regressions_stored(&h->regressions, block, place, EXPERT_ar12, ar12);
}

/* ---- All of them ---- */

/* A state is a head, the columns, and the horizons. With several horizons the targets of the
   other horizons follow, for as many steps as the furthest looks ahead: (ahead, horizons - 1,
   OUTCOMES) rows of columns and one number more, 1 if they are to be learned. */
struct head {
    double steps;
    double waits; /* 1: the newest step waits for its target */
};

#define STEPS_MOST 9007199254740992.0 /* 2^53: integers are exact up to it */

enum { OF_Y, OF_LEVEL, OF_BASE, OUTCOMES };

/* Arrays of a step, in the order of struct forecast_step, */
enum { OF_X, OF_UNSEEN, OF_MEAN, OF_SD, OF_Z, OF_U, ARRAYS };

/* arrays of one horizon; experts follow. */
enum { OF_LAST = OUTCOMES, OF_DS, OF_V, OF_AR12, OF_EXPERTS };

struct forecaster {
    size_t columns, known, size, horizons, furthest;
    unsigned experts;
    struct horizon of[FORECAST_HORIZONS_MAX];
    size_t begin[FORECAST_HORIZONS_MAX]; /* offset of its block in a state */
    size_t outcomes;                     /* in a state */
    double *states;                      /* (slots, size) */
    double *results;                     /* (ARRAYS + horizons * row, columns) */
    double *known_values;                /* (known, horizons + 1) */
    double *work;
    struct forecast_horizon forecasts[FORECAST_HORIZONS_MAX];
    struct forecast_closed closed[FORECAST_HORIZONS_MAX];
};

const char *expert_name(enum expert expert) {
    return expert_kinds[expert].name;
}

size_t experts_count(unsigned experts) {
    return (size_t)__builtin_popcount(experts & ((1u << EXPERTS) - 1));
}

enum expert experts_at(unsigned experts, size_t n) {
    enum expert expert = 0;
    for (; !(experts >> expert & 1) || n--; expert++)
        continue;
    return expert;
}

/* ---- Memory ---- */

/* Numbers kept of one horizon's targets of a step. */
static size_t outcome_size(const struct forecaster *f) {
    return 1 + OUTCOMES * f->columns;
}

static void describe(struct forecaster *f, size_t columns, size_t known, unsigned experts,
                     const size_t *ahead, size_t horizons) {
    f->columns = columns;
    f->known = known;
    f->experts = experts;
    f->horizons = horizons;
    f->furthest = ahead[horizons - 1];
    f->size = IN_DOUBLES(struct head) + columns * IN_DOUBLES(struct column);
    for (size_t n = 0; n < horizons; n++) {
        horizon_describe(&f->of[n], ahead[n], columns, known, experts);
        f->begin[n] = f->size;
        f->size += f->of[n].size;
    }
    f->outcomes = f->size;
    f->size += f->furthest * (horizons - 1) * outcome_size(f);
}

static bool allocate(struct forecaster *f, size_t slots) {
    f->states = calloc(slots, f->size * sizeof *f->states);
    size_t rows = ARRAYS + f->horizons * (OF_EXPERTS + experts_count(f->experts));
    f->results = calloc(rows, f->columns * sizeof *f->results);
    f->work = calloc(f->of[0].regressions.work, sizeof *f->work);
    f->known_values = calloc(f->known + 1, (f->horizons + 1) * sizeof *f->known_values);
    return f->states && f->results && f->work && f->known_values;
}

int forecaster_open(struct forecaster **forecaster, size_t columns, size_t known, unsigned experts,
                    const size_t *ahead, size_t horizons, size_t slots, struct error *error) {
    struct forecaster *opened = *forecaster = calloc(1, sizeof *opened);
    if (opened) {
        describe(opened, columns, known, experts, ahead, horizons);
        if (allocate(opened, slots))
            return 0;
    }
    forecaster_close(forecaster);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the experts of %zu streams; lower learning.max_streams",
                     slots);
}

void forecaster_close(struct forecaster **forecaster) {
    struct forecaster *old = *forecaster;
    *forecaster = NULL;
    if (!old)
        return;
    free(old->states);
    free(old->results);
    free(old->known_values);
    free(old->work);
    free(old);
}

size_t forecaster_size(const struct forecaster *forecaster) {
    return forecaster->size;
}

double *forecaster_state(struct forecaster *forecaster, uint32_t slot) {
    return forecaster->states + slot * forecaster->size;
}

static struct column *columns_of(struct forecaster *f, uint32_t slot) {
    return (struct column *)(void *)(forecaster_state(f, slot) + IN_DOUBLES(struct head));
}

static double *block_of(struct forecaster *f, uint32_t slot, size_t horizon) {
    return forecaster_state(f, slot) + f->begin[horizon];
}

void forecaster_begin(struct forecaster *forecaster, uint32_t slot) {
    memset(forecaster_state(forecaster, slot), 0, forecaster->size * sizeof(double));
    for (size_t n = 0; n < forecaster->horizons; n++)
        regressions_begin(&forecaster->of[n].regressions, block_of(forecaster, slot, n));
}

bool forecaster_state_valid(const struct forecaster *forecaster, const double *state, size_t open) {
    const struct head *head = (const void *)state;
    const struct column *columns = (const void *)(state + IN_DOUBLES(struct head));
    bool valid = head->steps >= (double)open && head->steps <= STEPS_MOST &&
                 floor(head->steps) == head->steps && (head->waits == 0 || head->waits == 1) &&
                 finite_or_nan(state + forecaster->outcomes,
                               forecaster->size - forecaster->outcomes, FINITE_MOST);
    for (size_t k = 0; k < forecaster->columns; k++)
        valid &= column_valid(&columns[k]);
    for (size_t n = 0; n < forecaster->horizons; n++)
        valid &= horizon_valid(&forecaster->of[n], state + forecaster->begin[n]);
    return valid;
}

/* ---- One step ---- */

static double *results_of(const struct forecaster *f, size_t array) {
    return f->results + array * f->columns;
}

static double *horizon_results(const struct forecaster *f, size_t horizon, size_t array) {
    return results_of(f, ARRAYS + horizon * (OF_EXPERTS + experts_count(f->experts)) + array);
}

/* The stored targets of that horizon of step t, for all but the furthest. */
static double *outcome_of(struct forecaster *f, uint32_t slot, size_t t, size_t horizon) {
    size_t row = t % f->furthest * (f->horizons - 1) + horizon;
    return forecaster_state(f, slot) + f->outcomes + row * outcome_size(f);
}

/* Takes this x, of step t, as the truth of the steps that wait for it. */
static void settle(struct forecaster *f, uint32_t slot, size_t t, const void *x, bool learn) {
    const struct column *columns = columns_of(f, slot);
    for (size_t n = 0; n < f->horizons && t >= f->of[n].ahead; n++) {
        double *y = horizon_results(f, n, OF_Y);
        horizon_settle(&f->of[n], block_of(f, slot, n), columns, t, x, learn, y,
                       horizon_results(f, n, OF_LEVEL), horizon_results(f, n, OF_BASE),
                       horizon_results(f, n, OF_LAST), f->work);
        if (n + 1 == f->horizons)
            break;
        double *kept = outcome_of(f, slot, t - f->of[n].ahead, n);
        *kept = learn;
        memcpy(kept + 1, y, OUTCOMES * f->columns * sizeof *y);
    }
}

/* The targets of the step that is complete now: the furthest one is new. */
static void close_step(struct forecaster *f, uint32_t slot, size_t t, bool learn) {
    for (size_t n = 0; n < f->horizons; n++) {
        const double *kept = n + 1 < f->horizons ? outcome_of(f, slot, t, n) : NULL;
        const double *y = kept ? kept + 1 : horizon_results(f, n, OF_Y);
        f->closed[n] = (struct forecast_closed){
            .learn = kept ? *kept > 0 : learn,
            .y = y + OF_Y * f->columns,
            .level = y + OF_LEVEL * f->columns,
            .base = y + OF_BASE * f->columns,
        };
    }
}

static void forecast_columns(struct forecaster *f, uint32_t slot) {
    for (size_t k = 0; k < f->columns; k++) {
        const struct column *c = &columns_of(f, slot)[k];
        const double values[ARRAYS] = {
            [OF_X] = c->x[0],    [OF_UNSEEN] = c->count > 0 ? 0 : NAN,
            [OF_MEAN] = c->mean, [OF_SD] = c->sd,
            [OF_Z] = c->z[0],    [OF_U] = c->u[0],
        };
        for (size_t array = 0; array < ARRAYS; array++)
            results_of(f, array)[k] = values[array];
    }
}

/* Takes the known values of all horizons, which follow the columns in x. */
static void take_known(struct forecaster *f, uint32_t slot, const void *x) {
    double *out = f->known_values;
    for (size_t m = 0; m < f->known; m++, out += f->horizons + 1)
        for (size_t n = f->horizons; n-- > 0;) {
            const struct horizon *h = &f->of[n];
            struct known *k = known_of(h, block_of(f, slot, n), m);
            known_take(k, h->ahead + known_lags(f->known),
                       (double)unaligned_float(x, f->columns + m * f->horizons + n));
            out[n] = known_z(k, 0);
            out[f->horizons] = known_z(k, h->ahead);
        }
}

static void forecast_ahead(struct forecaster *f, uint32_t slot, size_t t, const void *x) {
    for (size_t n = 0; n < f->horizons; n++) {
        double *ds = horizon_results(f, n, OF_DS), *v = horizon_results(f, n, OF_V);
        double *ar12 = horizon_results(f, n, OF_AR12), *experts = horizon_results(f, n, OF_EXPERTS);
        horizon_forecast(&f->of[n], block_of(f, slot, n), columns_of(f, slot), t, x, ds, v, ar12,
                         experts);
        f->forecasts[n] = (struct forecast_horizon){
            .settles = t >= f->of[n].ahead,
            .y = horizon_results(f, n, OF_Y),
            .level = horizon_results(f, n, OF_LEVEL),
            .base = horizon_results(f, n, OF_BASE),
            .last = horizon_results(f, n, OF_LAST),
            .ds = ds,
            .v = v,
            .ar12 = ar12,
            .experts = experts,
        };
    }
}

void forecaster_take(struct forecaster *f, uint32_t slot, const void *x, bool learn,
                     struct forecast_step *step) {
    struct head *head = (void *)forecaster_state(f, slot);
    size_t t = (size_t)head->steps;
    settle(f, slot, t, x, learn);
    if (t >= f->furthest)
        close_step(f, slot, t, learn);
    for (size_t k = 0; k < f->columns; k++)
        column_take(&columns_of(f, slot)[k], (double)unaligned_float(x, k), head->steps);
    head->steps++;
    head->waits = 1;
    forecast_columns(f, slot);
    take_known(f, slot, x);
    forecast_ahead(f, slot, t, x);
    *step = (struct forecast_step){
        .number = t,
        .of = f->forecasts,
        .closes = t >= f->furthest,
        .closed = f->closed,
        .x = results_of(f, OF_X),
        .unseen = results_of(f, OF_UNSEEN),
        .mean = results_of(f, OF_MEAN),
        .sd = results_of(f, OF_SD),
        .z = results_of(f, OF_Z),
        .u = results_of(f, OF_U),
        .known = f->known_values,
    };
}
