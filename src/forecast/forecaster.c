#include "forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/unaligned.h"
#include "horizon.h"

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

static const char *const names[EXPERTS] = {
#define EXPERT(name, what) #name,
#include "experts.def"
};

const char *expert_name(enum expert expert) {
    return names[expert];
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
