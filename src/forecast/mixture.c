#include "mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "forecast.h"

#define KEEP 0.999
#define TINY 1e-12
#define FORECAST_MOST 60 /* changes */
#define TARGET_MOST 30
#define LOSS_MOST 30 /* limit of a difference; its square is 900 */
#define SMOOTHED 0.99

enum { LOSSES = 2 }; /* squared, absolute */

/* One horizon: its columns begin at this offset in a state. Each column keeps forecasts in
   `ahead` places, those of step t at t modulo ahead. */
struct part {
    size_t ahead, begin;
};

struct mixture {
    size_t columns, forecasts, horizons, size;
    unsigned combine;
    struct part of[FORECAST_HORIZONS_MAX];
    double *states; /* (slots, size) */
    double *scores; /* results for struct mixture_score: (2, columns), (2, forecasts) */
};

/* One column of a state; per loss (LOSSES, forecasts). */
struct column {
    double *p;     /* prediction, of one place, */
    double *ds;    /* in this unit, */
    double *parts; /* (LOSSES,) and those of both mixtures */
    double *q;     /* (forecasts,) */

    double *losses; /* (forecasts,) smoothed */
    double *regret, *variance, *bound, *weights;
};

enum { ALONE = 2 + LOSSES, OF_EACH = 1 + 4 * LOSSES };

/* Numbers of a place, and of a column. */
static size_t place_size(const struct mixture *m) {
    return ALONE + m->forecasts;
}
static size_t column_size(const struct mixture *m, size_t horizon) {
    return m->of[horizon].ahead * place_size(m) + OF_EACH * m->forecasts;
}

static struct column column_of(const struct mixture *m, uint32_t slot, size_t horizon,
                               uint64_t step, size_t k) {
    const struct part *part = &m->of[horizon];
    size_t n = m->forecasts, place = step % part->ahead;
    double *first = m->states + slot * m->size + part->begin + k * column_size(m, horizon);
    double *at = first + place * place_size(m);
    struct column c = {.p = at, .ds = at + 1, .parts = at + 2, .q = at + ALONE};
    c.losses = first + part->ahead * place_size(m);
    c.regret = c.losses + n;
    c.variance = c.regret + LOSSES * n;
    c.bound = c.variance + LOSSES * n;
    c.weights = c.bound + LOSSES * n;
    return c;
}

static void describe(struct mixture *m, const size_t *ahead, size_t horizons) {
    m->horizons = horizons;
    for (size_t h = 0; h < horizons; h++) {
        m->of[h] = (struct part){.ahead = ahead[h], .begin = m->size};
        m->size += m->columns * column_size(m, h);
    }
}

int mixture_open(struct mixture **mixture, size_t columns, size_t forecasts, unsigned combine,
                 const size_t *ahead, size_t horizons, size_t slots, struct error *error) {
    struct mixture *opened = *mixture = calloc(1, sizeof *opened);
    if (opened) {
        opened->columns = columns;
        opened->forecasts = forecasts;
        opened->combine = combine;
        describe(opened, ahead, horizons);
        opened->states = calloc(slots, opened->size * sizeof *opened->states);
        opened->scores = calloc(2, (columns + forecasts) * sizeof *opened->scores);
    }
    if (opened && opened->states && opened->scores)
        return 0;
    mixture_close(mixture);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the mixtures of %zu streams; lower learning.max_streams",
                     slots);
}

void mixture_close(struct mixture **mixture) {
    if (*mixture) {
        free((*mixture)->states);
        free((*mixture)->scores);
    }
    free(*mixture);
    *mixture = NULL;
}

size_t mixture_size(const struct mixture *mixture) {
    return mixture->size;
}

double *mixture_state(struct mixture *mixture, uint32_t slot) {
    return mixture->states + slot * mixture->size;
}

static void even(double *weights, size_t n) {
    for (size_t i = 0; i < n; i++)
        weights[i] = 1 / (double)n;
}

void mixture_begin(struct mixture *mixture, uint32_t slot) {
    memset(mixture_state(mixture, slot), 0, mixture->size * sizeof(double));
    for (size_t n = 0; n < mixture->horizons * mixture->columns; n++) {
        struct column c = column_of(mixture, slot, n / mixture->columns, 0, n % mixture->columns);
        even(c.weights, mixture->forecasts);
        even(c.weights + mixture->forecasts, mixture->forecasts);
    }
}

/* Bounds of a column's state, twice as large as the largest possible sums. */
#define SLOPE_MOST (2 * (FORECAST_MOST + TARGET_MOST))
#define REGRET_MOST (2.0 * SLOPE_MOST * 2 * FORECAST_MOST)

static bool place_valid(const struct mixture *m, const double *place) {
    const double most = 2 * FORECAST_MOST;
    return fabs(place[0]) <= most && place[1] >= 0 && place[1] <= FINITE_VALUE_MOST &&
           finite_within(place + 2, LOSSES, most) &&
           finite_within(place + ALONE, m->forecasts, most);
}

bool mixture_state_valid(const struct mixture *m, const double *state) {
    const size_t n = m->forecasts, both = LOSSES * n;
    bool valid = true;
    for (size_t h = 0; h < m->horizons; h++)
        for (size_t k = 0; k < m->columns; k++) {
            const double *at = state + m->of[h].begin + k * column_size(m, h);
            for (size_t place = 0; place < m->of[h].ahead; place++, at += place_size(m))
                valid &= place_valid(m, at);
            valid &= finite_within(at, n, 2 * LOSS_MOST * LOSS_MOST) &&
                     finite_within(at + n, both, REGRET_MOST / (1 - KEEP)) &&
                     finite_within(at + n + both, both, REGRET_MOST * REGRET_MOST / (1 - KEEP)) &&
                     finite_within(at + n + 2 * both, both, REGRET_MOST * REGRET_MOST) &&
                     finite_within(at + n + 3 * both, both, 2);
            for (size_t i = 0; i < n + 4 * both; i++)
                valid &= at[i] >= 0 || (i >= n && i < n + both);
        }
    return valid;
}

/* ---- Prediction ---- */

static double mean(const double *q, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i];
    return sum / (double)n;
}

static size_t lowest(const double *losses, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (losses[i] < losses[best])
            best = i;
    return best;
}

static double combined(const struct mixture *m, const struct column *c) {
    switch (m->combine) {
    case COMBINE_MLPOLY:
        return (c->parts[0] + c->parts[1]) / LOSSES;
    case COMBINE_AVERAGE:
        return mean(c->q, m->forecasts);
    case COMBINE_BEST:
        return c->q[lowest(c->losses, m->forecasts)];
    default:
        return c->q[m->combine - COMBINE_ONE];
    }
}

void mixture_predict(struct mixture *mixture, uint32_t slot, size_t horizon, uint64_t step,
                     const double *q, const double *ds, double *p) {
    size_t n = mixture->forecasts, columns = mixture->columns;
    for (size_t k = 0; k < columns; k++) {
        struct column c = column_of(mixture, slot, horizon, step, k);
        for (size_t i = 0; i < n; i++)
            c.q[i] = forecast_clip(q[i * columns + k], FORECAST_MOST);
        for (size_t loss = 0; loss < LOSSES; loss++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += c.weights[loss * n + i] * c.q[i];
            c.parts[loss] = sum;
        }
        *c.ds = ds[k];
        *c.p = p[k] = combined(mixture, &c);
    }
}

void mixture_weights(struct mixture *mixture, uint32_t slot, size_t horizon, double *weights) {
    size_t n = mixture->forecasts, columns = mixture->columns;
    for (size_t k = 0; k < columns; k++) {
        struct column c = column_of(mixture, slot, horizon, 0, k);
        for (size_t i = 0; i < n; i++)
            weights[i * columns + k] = (c.weights[i] + c.weights[n + i]) / LOSSES;
    }
}

/* ---- Learning ---- */

/* Sums the regret r_i = slope (part - q_i) of each forecast. The weight of a forecast is its
   regret above 0, divided by the sum of its squares. */
static void weigh(const struct column *c, size_t n, size_t loss, double y) {
    double part = c->parts[loss], sum = 0;
    double slope = loss == 0 ? 2 * (part - y) : part > y ? 1 : -1;
    double *regret = c->regret + loss * n, *variance = c->variance + loss * n;
    double *bound = c->bound + loss * n, *weights = c->weights + loss * n;
    for (size_t i = 0; i < n; i++) {
        double r = slope * (part - c->q[i]);
        bound[i] = fmax(bound[i], r * r);
        variance[i] = KEEP * variance[i] + r * r;
        regret[i] = KEEP * regret[i] + r;
        weights[i] = fmax(regret[i], 0) / (variance[i] + bound[i] + TINY);
        sum += weights[i];
    }
    if (!(sum > 0)) {
        even(weights, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        weights[i] /= sum;
}

static void smooth_losses(const struct column *c, size_t n, double y) {
    for (size_t i = 0; i < n; i++) {
        double d = forecast_clip(c->q[i] - y, LOSS_MOST);
        c->losses[i] = SMOOTHED * c->losses[i] + (1 - SMOOTHED) * d * d;
    }
}

static double square(double a) {
    return a * a;
}

/* The loss of each forecast of one column, and its weight. */
static void measure(const struct column *c, size_t n, double y, double *losses, double *weights) {
    for (size_t i = 0; i < n; i++) {
        losses[i] += square(forecast_clip(c->q[i] - y, LOSS_MOST));
        weights[i] += (c->weights[i] + c->weights[n + i]) / LOSSES;
    }
}

struct mixture_score mixture_learn(struct mixture *mixture, uint32_t slot, size_t horizon,
                                   uint64_t step, const double *y, bool learn) {
    size_t columns = mixture->columns, n = mixture->forecasts;
    double *errors = mixture->scores, *of_last = errors + columns;
    double *losses = of_last + columns, *weights = losses + n;
    struct mixture_score score = {
        .errors = errors, .of_last = of_last, .losses = losses, .weights = weights};
    memset(losses, 0, 2 * n * sizeof *losses);
    for (size_t k = 0; k < columns; k++) {
        errors[k] = of_last[k] = NAN;
        if (isnan(y[k]))
            continue;
        struct column c = column_of(mixture, slot, horizon, step, k);
        double d = *c.p - y[k], counted = forecast_clip(d, LOSS_MOST), original = *c.ds * d;
        score.loss += counted * counted;
        score.baseline += square(forecast_clip(y[k], LOSS_MOST));
        score.squared_error += original * original;
        score.observed++;
        errors[k] = original;
        of_last[k] = -*c.ds * y[k];
        measure(&c, n, y[k], losses, weights);
        if (!learn)
            continue;
        double target = forecast_clip(y[k], TARGET_MOST);
        for (size_t loss = 0; loss < LOSSES; loss++)
            weigh(&c, n, loss, target);
        smooth_losses(&c, n, y[k]);
    }
    score.loss /= (double)score.observed; /* NaN if none was observed */
    score.baseline /= (double)score.observed;
    for (size_t i = 0; i < 2 * n; i++)
        losses[i] /= (double)score.observed;
    return score;
}
