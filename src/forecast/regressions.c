#include "regressions.h"

#include <string.h>

#include "common/finite.h"

#define FEATURE_MOST 10
#define LEVEL_FEATURE_MOST 4
#define LAG_MOST 10 /* changes */

enum { JOINT_COLUMNS = 8 };

/* ---- Kinds of experts ---- */

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

const struct expert_kind expert_kinds[EXPERTS] = {
#define EXPERT(expert, what, ...) {.name = #expert, __VA_ARGS__},
#include "experts.def"
};

/* ---- Least squares ---- */

/* Numbers of one group in a block. */
static size_t group_size(const struct regressions *r, const struct regression *g) {
    return least_squares_size(&g->ls) + r->places * (g->ls.stride + g->ls.outputs);
}

void regressions_describe(struct regressions *r, size_t columns, unsigned experts, size_t places) {
    memset(r, 0, sizeof *r);
    r->columns = columns;
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
        g->ls = least_squares_of(rows * r->width + 1, r->width, kind->keep, kind->prior);
        g->begin = r->size;
        r->size += r->groups * group_size(r, g);
        size_t work = least_squares_work(&g->ls) + r->width;
        r->work = work > r->work ? work : r->work;
    }
    r->said = r->size;
    r->size += places * EXPERTS * columns;
    r->work += r->work == 0;
}

static double *group_of(const struct regressions *r, double *block, enum expert expert,
                        size_t group) {
    const struct regression *g = &r->of[expert];
    return block + g->begin + group * group_size(r, g);
}

/* Of a group's numbers: phi at that place; what was said from it follows. */
static double *phi_of(const struct regression *g, double *numbers, size_t place) {
    return numbers + least_squares_size(&g->ls) + place * (g->ls.stride + g->ls.outputs);
}

static size_t said_of(const struct regressions *r, size_t place, enum expert expert) {
    return r->said + (place * EXPERTS + expert) * r->columns;
}

void regressions_begin(const struct regressions *r, double *block) {
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

bool regressions_valid(const struct regressions *r, const double *block) {
    bool valid = finite_within(block + r->said, r->size - r->said, FINITE_MOST);
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

/* A level that is forecast, as a change. */
static double change_of(const struct column *c, double ds, double level) {
    return (c->mean + c->sd * level - c->x[0]) / ds;
}

static void predict_group(const struct regressions *r, double *block, size_t place,
                          enum expert expert, size_t group, const struct column *columns,
                          const double *ds, const double *v) {
    const struct regression *g = &r->of[expert];
    size_t first = group * r->width;
    const struct column *c = columns + first;
    double *numbers = group_of(r, block, expert, group);
    double *phi = phi_of(g, numbers, place), *own = phi + g->ls.stride;
    double *said = block + said_of(r, place, expert) + first;
    if (expert_kinds[expert].levels)
        fill_levels(phi, c, r->width);
    else
        fill_changes(phi, g->lags, c, ds + first, v + first, r->width);
    least_squares_predict(&g->ls, numbers, phi, own);
    for (size_t k = 0; k < r->width; k++)
        said[k] = expert_kinds[expert].levels ? change_of(&c[k], ds[first + k], own[k]) : own[k];
}

void regressions_predict(const struct regressions *r, double *block, size_t place,
                         const struct column *columns, const double *ds, const double *v) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        for (size_t n = 0; r->of[expert].there && n < r->groups; n++)
            predict_group(r, block, place, expert, n, columns, ds, v);
}

void regressions_said(const struct regressions *r, const double *block, size_t place,
                      enum expert expert, double *p) {
    memcpy(p, block + said_of(r, place, expert), r->columns * sizeof *p);
}

/* ---- Learning ---- */

/* One step ahead nothing has been learned since: what today's weights say is what was said. */
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
        double target = expert_kinds[expert].levels
                            ? forecast_clip(level[column], FORECAST_FEATURE_MOST)
                            : forecast_clip(y[column], FORECAST_CHANGE_MOST);
        error[k] = target - own[k];
    }
    least_squares_learn(&g->ls, numbers, phi, error, rest);
}

void regressions_learn(const struct regressions *r, double *block, size_t place, const double *y,
                       const double *level, double *work) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        for (size_t n = 0; r->of[expert].there && n < r->groups; n++)
            learn_group(r, block, place, expert, n, y, level, work);
}
