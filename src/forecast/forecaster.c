#include "forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "column.h"
#include "common/error.h"
#include "regressions.h"

#define LAG_MOST 10 /* changes */

/* Ahead of a stream's columns and regressions. */
struct head {
    double steps;
    double waits; /* 1: the newest step waits for its target */
};

/* What is said of a step, in the order of struct forecast_step. */
enum {
    OF_Y,
    OF_LEVEL,
    OF_BASE,
    OF_LAST,
    OF_X,
    OF_UNSEEN,
    OF_MEAN,
    OF_SD,
    OF_DS,
    OF_Z,
    OF_U,
    OF_V,
    OF_AR12,
    ARRAYS
};

struct forecaster {
    size_t columns, size;
    unsigned experts;
    struct regressions regressions;
    double *states; /* (slots, size) */
    double *said;   /* (ARRAYS + experts, columns) */
    double *work;
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

int forecaster_open(struct forecaster **forecaster, size_t columns, unsigned experts, size_t slots,
                    struct error *error) {
    struct forecaster *new = *forecaster = calloc(1, sizeof *new);
    if (new) {
        new->columns = columns;
        new->experts = experts;
        regressions_describe(&new->regressions, columns, experts);
        new->size =
            IN_DOUBLES(struct head) + columns *IN_DOUBLES(struct column) + new->regressions.size;
        new->states = calloc(slots, new->size * sizeof *new->states);
        new->said = calloc(ARRAYS + experts_count(experts), columns * sizeof *new->said);
        new->work = calloc(new->regressions.work, sizeof *new->work);
    }
    if (new &&new->states &&new->said &&new->work)
        return 0;
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

static double *regressions_of(struct forecaster *f, uint32_t slot) {
    return forecaster_state(f, slot) + IN_DOUBLES(struct head) +
           f->columns * IN_DOUBLES(struct column);
}

void forecaster_begin(struct forecaster *forecaster, uint32_t slot) {
    memset(forecaster_state(forecaster, slot), 0, forecaster->size * sizeof(double));
    regressions_begin(&forecaster->regressions, regressions_of(forecaster, slot));
}

/* All that counts or chooses; other numbers may be anything. */
static bool column_valid(const struct column *c) {
    return c->count >= 0 && c->lag.now >= 0 && c->lag.now <= LAG_LONGEST && c->sd >= 0 &&
           c->ds >= 0;
}

bool forecaster_state_valid(const struct forecaster *forecaster, const double *state) {
    const struct head *head = (const void *)state;
    const struct column *columns = (const void *)(state + IN_DOUBLES(struct head));
    bool valid = head->steps >= 0 && (head->waits == 0 || head->waits == 1);
    for (size_t k = 0; k < forecaster->columns; k++)
        valid &= column_valid(&columns[k]);
    return valid;
}

/* ---- One step ---- */

static double *said(struct forecaster *f, size_t array) {
    return f->said + array * f->columns;
}

static double value_at(const void *x, size_t k) {
    float value;
    memcpy(&value, (const char *)x + k * sizeof value, sizeof value);
    return (double)value;
}

/* What this x says of the step that waits. */
static void settle(struct forecaster *f, uint32_t slot, const void *x, bool learn) {
    const struct column *columns = columns_of(f, slot);
    double *y = said(f, OF_Y), *level = said(f, OF_LEVEL), *last = said(f, OF_LAST);
    for (size_t k = 0; k < f->columns; k++) {
        const struct column *c = &columns[k];
        double value = c->count > 0 ? value_at(x, k) : NAN; /* a column's first is no target */
        y[k] = (value - c->x[0]) / c->ds;
        last[k] = c->count > 0 ? c->x[0] : NAN;
        level[k] = (value - c->mean) / c->sd;
    }
    regressions_said(&f->regressions, regressions_of(f, slot), EXPERT_ar12, said(f, OF_BASE));
    if (learn)
        regressions_learn(&f->regressions, regressions_of(f, slot), y, level, f->work);
}

/* What one expert says of column k. */
static double simple(enum expert expert, const struct column *c) {
    switch (expert) {
    case EXPERT_mean:
        return (c->mean - c->x[0]) / c->ds;
    case EXPERT_ewma:
        return (c->ewma - c->x[0]) / c->ds;
    case EXPERT_lag:
        return forecast_clip(c->v, LAG_MOST);
    default:
        return 0;
    }
}

static void ask_experts(struct forecaster *f, uint32_t slot) {
    const struct column *columns = columns_of(f, slot);
    double *block = regressions_of(f, slot);
    regressions_predict(&f->regressions, block, columns);
    for (size_t n = 0; n < experts_count(f->experts); n++) {
        enum expert expert = experts_at(f->experts, n);
        double *q = said(f, ARRAYS + n);
        if (regressions_have(&f->regressions, expert))
            regressions_said(&f->regressions, block, expert, q);
        else
            for (size_t k = 0; k < f->columns; k++)
                q[k] = simple(expert, &columns[k]);
    }
    regressions_said(&f->regressions, block, EXPERT_ar12, said(f, OF_AR12));
}

static void say_columns(struct forecaster *f, uint32_t slot) {
    for (size_t k = 0; k < f->columns; k++) {
        const struct column *c = &columns_of(f, slot)[k];
        const double values[ARRAYS] = {
            [OF_X] = c->x[0],    [OF_UNSEEN] = c->count > 0 ? 0 : NAN,
            [OF_MEAN] = c->mean, [OF_SD] = c->sd,
            [OF_DS] = c->ds,     [OF_Z] = c->z[0],
            [OF_U] = c->u[0],    [OF_V] = c->v,
        };
        for (size_t array = OF_X; array <= OF_V; array++)
            said(f, array)[k] = values[array];
    }
}

bool forecaster_is_new(const struct forecaster *f, uint32_t slot) {
    const struct head *head = (const void *)(f->states + slot * f->size);
    return head->steps == 0;
}

void forecaster_take(struct forecaster *f, uint32_t slot, const void *x, bool learn,
                     struct forecast_step *step) {
    struct head *head = head_of(f, slot);
    bool settles = head->waits > 0;
    if (settles)
        settle(f, slot, x, learn);
    for (size_t k = 0; k < f->columns; k++)
        column_take(&columns_of(f, slot)[k], value_at(x, k), head->steps);
    head->steps++;
    head->waits = 1;
    say_columns(f, slot);
    ask_experts(f, slot);
    *step = (struct forecast_step){
        .settles = settles,
        .y = said(f, OF_Y),
        .level = said(f, OF_LEVEL),
        .base = said(f, OF_BASE),
        .last = said(f, OF_LAST),
        .x = said(f, OF_X),
        .unseen = said(f, OF_UNSEEN),
        .mean = said(f, OF_MEAN),
        .sd = said(f, OF_SD),
        .ds = said(f, OF_DS),
        .z = said(f, OF_Z),
        .u = said(f, OF_U),
        .v = said(f, OF_V),
        .ar12 = said(f, OF_AR12),
        .experts = said(f, ARRAYS),
    };
}
