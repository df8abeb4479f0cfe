#include "forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/unaligned.h"
#include "regressions.h"

/* ---- One horizon ---- */

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
struct horizon {
    size_t ahead, columns;
    unsigned experts;
    struct regressions regressions; /* at the block's beginning */
    size_t units, waiting;          /* in a block: more than one step ahead */
    size_t size;                    /* numbers in a block */
};

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

static void horizon_describe(struct horizon *h, size_t ahead, size_t columns, unsigned experts) {
    *h = (struct horizon){.ahead = ahead, .columns = columns, .experts = experts};
    regressions_describe(&h->regressions, columns, experts, ahead);
    h->units = h->waiting = h->size = h->regressions.size;
    if (ahead == 1)
        return;
    h->waiting += columns * IN_DOUBLES(struct unit);
    h->size = h->waiting + ahead * columns * IN_DOUBLES(struct waiting);
}

static void horizon_begin(const struct horizon *h, double *block) {
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

/* Whether a block can have come from here. */
static bool horizon_valid(const struct horizon *h, const double *block) {
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

/* Step t's x (columns,), maybe unaligned, as the truth of the step `ahead` before, t >= ahead.
   `columns` are as they were before step t. Arrays (columns,): see struct forecast_horizon. With
   `learn` the experts do. */
static void horizon_settle(const struct horizon *h, double *block, const struct column *columns,
                           size_t t, const void *x, bool learn, double *y, double *level,
                           double *base, double *last, double *work) {
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

/* What is said at step t, of which x came; `columns` have taken it. Arrays (columns,), experts
   (experts of the set, columns). */
static void horizon_say(const struct horizon *h, double *block, const struct column *columns,
                        size_t t, const void *x, double *ds, double *v, double *ar12,
                        double *experts) {
    size_t place = t % h->ahead;
    say_units(h, block, columns, t, x, ds, v);
    regressions_predict(&h->regressions, block, place, columns, ds, v);
    for (size_t n = 0; n < experts_count(h->experts); n++, experts += h->columns) {
        enum expert expert = experts_at(h->experts, n);
        const struct expert_kind *kind = &expert_kinds[expert];
        if (!kind->says)
            regressions_said(&h->regressions, block, place, expert, experts);
        for (size_t k = 0; kind->says && k < h->columns; k++)
            experts[k] = kind->says(&columns[k], ds[k], v[k]);
    }
    regressions_said(&h->regressions, block, place, EXPERT_ar12, ar12);
}

/* ---- All of them ---- */

/* A state is a head, the columns, and the horizons; of several of them follow, for as many steps as
   the furthest looks ahead, what the others' targets were: (ahead, horizons - 1, OUTCOMES) rows of
   columns and one number more, 1 where they are to be learned from. */
struct head {
    double steps;
    double waits; /* 1: the newest step waits for its target */
};

#define STEPS_MOST 9007199254740992.0 /* 2^53: whole numbers are exact up to there */

enum { OF_Y, OF_LEVEL, OF_BASE, OUTCOMES };

/* What is said of a step, in the order of struct forecast_step, */
enum { OF_X, OF_UNSEEN, OF_MEAN, OF_SD, OF_Z, OF_U, ARRAYS };

/* and of one horizon; experts follow. */
enum { OF_LAST = OUTCOMES, OF_DS, OF_V, OF_AR12, OF_EXPERTS };

struct forecaster {
    size_t columns, size, horizons, furthest;
    unsigned experts;
    struct horizon of[FORECAST_HORIZONS_MAX];
    size_t begin[FORECAST_HORIZONS_MAX]; /* of its block in a state */
    size_t outcomes;                     /* in a state */
    double *states;                      /* (slots, size) */
    double *said;                        /* (ARRAYS + horizons * row, columns) */
    double *work;
    struct forecast_horizon says[FORECAST_HORIZONS_MAX];
    struct forecast_closed closed[FORECAST_HORIZONS_MAX];
};

const char *expert_name(enum expert expert) {
    return expert_kinds[expert].name;
}

size_t experts_count(unsigned experts) {
    return (size_t)__builtin_popcount(experts & EXPERTS_ALL);
}

enum expert experts_at(unsigned experts, size_t n) {
    enum expert expert = 0;
    for (; !(experts >> expert & 1) || n--; expert++)
        continue;
    return expert;
}

/* ---- Memory ---- */

#define IN_DOUBLES(type) (sizeof(type) / sizeof(double))

static size_t said_rows(const struct forecaster *f) {
    return ARRAYS + f->horizons * (OF_EXPERTS + experts_count(f->experts));
}

/* Numbers that are kept of one horizon's targets of a step. */
static size_t outcome_size(const struct forecaster *f) {
    return 1 + OUTCOMES * f->columns;
}

static void describe(struct forecaster *f, size_t columns, unsigned experts, const size_t *ahead,
                     size_t horizons) {
    f->columns = columns;
    f->experts = experts;
    f->horizons = horizons;
    f->furthest = ahead[horizons - 1];
    f->size = IN_DOUBLES(struct head) + columns * IN_DOUBLES(struct column);
    for (size_t n = 0; n < horizons; n++) {
        horizon_describe(&f->of[n], ahead[n], columns, experts);
        f->begin[n] = f->size;
        f->size += f->of[n].size;
    }
    f->outcomes = f->size;
    f->size += f->furthest * (horizons - 1) * outcome_size(f);
}

static bool allocate(struct forecaster *f, size_t slots) {
    f->states = calloc(slots, f->size * sizeof *f->states);
    f->said = calloc(said_rows(f), f->columns * sizeof *f->said);
    f->work = calloc(f->of[0].regressions.work, sizeof *f->work);
    return f->states && f->said && f->work;
}

int forecaster_open(struct forecaster **forecaster, size_t columns, unsigned experts,
                    const size_t *ahead, size_t horizons, size_t slots, struct error *error) {
    struct forecaster *opened = *forecaster = calloc(1, sizeof *opened);
    if (opened) {
        describe(opened, columns, experts, ahead, horizons);
        if (allocate(opened, slots))
            return 0;
    }
    forecaster_close(forecaster);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the experts of %zu streams: lower learning.max_streams",
                     slots);
}

void forecaster_close(struct forecaster **forecaster) {
    struct forecaster *old = *forecaster;
    *forecaster = NULL;
    if (!old)
        return;
    free(old->states);
    free(old->said);
    free(old->work);
    free(old);
}

size_t forecaster_size(const struct forecaster *forecaster) {
    return forecaster->size;
}

double *forecaster_state(struct forecaster *forecaster, uint32_t slot) {
    return forecaster->states + slot * forecaster->size;
}

static struct head *head_of(struct forecaster *f, uint32_t slot) {
    return (struct head *)(void *)forecaster_state(f, slot);
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
        horizon_begin(&forecaster->of[n], block_of(forecaster, slot, n));
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

static double *said(const struct forecaster *f, size_t array) {
    return f->said + array * f->columns;
}

static double *said_ahead(const struct forecaster *f, size_t horizon, size_t array) {
    return said(f, ARRAYS + horizon * (OF_EXPERTS + experts_count(f->experts)) + array);
}

/* What is kept of that horizon's targets of step t, of all but the furthest. */
static double *outcome_of(struct forecaster *f, uint32_t slot, size_t t, size_t horizon) {
    size_t row = t % f->furthest * (f->horizons - 1) + horizon;
    return forecaster_state(f, slot) + f->outcomes + row * outcome_size(f);
}

/* What this x, of step t, says of the steps that wait for it. */
static void settle(struct forecaster *f, uint32_t slot, size_t t, const void *x, bool learn) {
    const struct column *columns = columns_of(f, slot);
    for (size_t n = 0; n < f->horizons && t >= f->of[n].ahead; n++) {
        double *y = said_ahead(f, n, OF_Y);
        horizon_settle(&f->of[n], block_of(f, slot, n), columns, t, x, learn, y,
                       said_ahead(f, n, OF_LEVEL), said_ahead(f, n, OF_BASE),
                       said_ahead(f, n, OF_LAST), f->work);
        if (n + 1 == f->horizons)
            break;
        double *kept = outcome_of(f, slot, t - f->of[n].ahead, n);
        *kept = learn;
        memcpy(kept + 1, y, OUTCOMES * f->columns * sizeof *y);
    }
}

/* What is to be learned of the step that is complete with this one: the furthest target is new. */
static void close_step(struct forecaster *f, uint32_t slot, size_t t, bool learn) {
    for (size_t n = 0; n < f->horizons; n++) {
        const double *kept = n + 1 < f->horizons ? outcome_of(f, slot, t, n) : NULL;
        const double *y = kept ? kept + 1 : said_ahead(f, n, OF_Y);
        f->closed[n] = (struct forecast_closed){
            .learn = kept ? *kept > 0 : learn,
            .y = y + OF_Y * f->columns,
            .level = y + OF_LEVEL * f->columns,
            .base = y + OF_BASE * f->columns,
        };
    }
}

static void say_columns(struct forecaster *f, uint32_t slot) {
    for (size_t k = 0; k < f->columns; k++) {
        const struct column *c = &columns_of(f, slot)[k];
        const double values[ARRAYS] = {
            [OF_X] = c->x[0],    [OF_UNSEEN] = c->count > 0 ? 0 : NAN,
            [OF_MEAN] = c->mean, [OF_SD] = c->sd,
            [OF_Z] = c->z[0],    [OF_U] = c->u[0],
        };
        for (size_t array = 0; array < ARRAYS; array++)
            said(f, array)[k] = values[array];
    }
}

static void say_ahead(struct forecaster *f, uint32_t slot, size_t t, const void *x) {
    for (size_t n = 0; n < f->horizons; n++) {
        double *ds = said_ahead(f, n, OF_DS), *v = said_ahead(f, n, OF_V);
        double *ar12 = said_ahead(f, n, OF_AR12), *experts = said_ahead(f, n, OF_EXPERTS);
        horizon_say(&f->of[n], block_of(f, slot, n), columns_of(f, slot), t, x, ds, v, ar12,
                    experts);
        f->says[n] = (struct forecast_horizon){
            .settles = t >= f->of[n].ahead,
            .y = said_ahead(f, n, OF_Y),
            .level = said_ahead(f, n, OF_LEVEL),
            .base = said_ahead(f, n, OF_BASE),
            .last = said_ahead(f, n, OF_LAST),
            .ds = ds,
            .v = v,
            .ar12 = ar12,
            .experts = experts,
        };
    }
}

void forecaster_take(struct forecaster *f, uint32_t slot, const void *x, bool learn,
                     struct forecast_step *step) {
    struct head *head = head_of(f, slot);
    size_t t = (size_t)head->steps;
    settle(f, slot, t, x, learn);
    if (t >= f->furthest)
        close_step(f, slot, t, learn);
    for (size_t k = 0; k < f->columns; k++)
        column_take(&columns_of(f, slot)[k], (double)unaligned_float(x, k), head->steps);
    head->steps++;
    head->waits = 1;
    say_columns(f, slot);
    say_ahead(f, slot, t, x);
    *step = (struct forecast_step){
        .number = t,
        .of = f->says,
        .closes = t >= f->furthest,
        .closed = f->closed,
        .x = said(f, OF_X),
        .unseen = said(f, OF_UNSEEN),
        .mean = said(f, OF_MEAN),
        .sd = said(f, OF_SD),
        .z = said(f, OF_Z),
        .u = said(f, OF_U),
    };
}
