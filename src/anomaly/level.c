#include "level.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/finite.h"
#include "novelty.h"
#include "tail.h"

#define SMOOTH 0.1
#define KNOWN 50.0
#define BOUND 30.0
#define RIDGE 0.1
#define REFRESH 0.01
#define EXCURSION 1.3 /* of L */
#define LONG 20.0     /* steps of an excursion */
#define OVER 10.0     /* steps that end it */
#define LEAST 1e-12
#define PIVOT_LEAST 1e-3
#define NORMAL_MOST 3.0 /* times the weight that learning tends to */

/* Doubles only. (columns, columns) products and precision follow. */
struct level_state {
    double keep; /* when it was learned */
    double steps;
    double largest;   /* weight of a column */
    double since;     /* weight learned since the precision was computed */
    double run, calm; /* steps of an excursion, and since L was that large */
    struct tail doubts, tail;
    struct column {
        double smoothed, missed, count, weight, mean, deviation;
    } columns[];
};

static double *products_of(const struct level *level, struct level_state *s) {
    return &s->columns[level->columns].smoothed;
}

static double *precision_of(const struct level *level, struct level_state *s) {
    return products_of(level, s) + level->columns * level->columns;
}

size_t level_size(size_t columns) {
    return sizeof(struct level_state) / sizeof(double) + (6 + 2 * columns) * columns;
}

void level_smoothed(const struct level *level, const struct level_state *s, double *smoothed) {
    for (size_t k = 0; k < level->columns; k++)
        smoothed[k] = s->columns[k].smoothed;
}

bool level_open(struct level *level, size_t columns, double half) {
    *level = (struct level){.columns = columns, .keep = exp2(-1 / half)};
    level->shares = calloc((columns + 5) * columns + 1, sizeof *level->shares);
    return level->shares != NULL;
}

void level_close(struct level *level) {
    free(level->shares);
}

/* ---- Precision ---- */

/* A step of Gauss-Jordan elimination in place: all d steps invert a (d, d). */
static bool sweep(double *a, size_t d, size_t k) {
    double *row = a + k * d, pivot = row[k];
    if (!(pivot > PIVOT_LEAST))
        return false;
    row[k] = 1;
    for (size_t j = 0; j < d; j++)
        row[j] /= pivot;
    for (size_t i = 0; i < d; i++) {
        double *other = a + i * d, factor = i == k ? 0 : other[k];
        other[k] = i == k ? other[k] : 0;
        for (size_t j = 0; j < d; j++)
            other[j] -= factor * row[j];
    }
    return true;
}

/* After missing values correlations may not be positive definite: then the ridge grows. */
static void refresh(const struct level *level, struct level_state *s) {
    double *p = precision_of(level, s), *products = products_of(level, s);
    size_t d = level->columns, done = 0;
    double ridge = RIDGE + (double)d / fmax(s->largest, 1);
    for (size_t k = 0; k < d; k++) {
        struct column *c = &s->columns[k];
        double square = products[k * d + k] / fmax(c->weight, 1e-9);
        c->deviation = sqrt(square) + 1e-6 * fabs(c->mean) + LEAST;
    }
    for (; done < d; ridge *= 2) {
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++) {
                double root = sqrt(products[i * d + i] * products[j * d + j]) + 1e-300;
                p[i * d + j] = i == j ? 1 + ridge : fmin(fmax(products[i * d + j] / root, -1), 1);
            }
        for (done = 0; done < d && sweep(p, d, done);)
            done++;
    }
    s->since = 0;
}

/* ---- Learning ---- */

/* Adds smoothed values, after all before were multiplied by `keep`. */
static void add(const struct level *level, struct level_state *s, const double *smoothed,
                const double *weights, double keep) {
    size_t d = level->columns;
    double *before = level->shares + 3 * d, *after = before + d, most = s->largest = 0;
    for (size_t k = 0; k < d; k++) {
        struct column *c = &s->columns[k];
        before[k] = sqrt(weights[k]) * (smoothed[k] - c->mean);
        c->weight = keep * c->weight + weights[k];
        s->largest = fmax(s->largest, c->weight);
        most = fmax(most, weights[k]);
        if (weights[k] > 0)
            c->mean += weights[k] * (smoothed[k] - c->mean) / c->weight;
        after[k] = sqrt(weights[k]) * (smoothed[k] - c->mean);
    }
    for (size_t i = 0; i < d; i++) {
        double *row = products_of(level, s) + i * d;
        for (size_t j = 0; j < d; j++)
            row[j] = keep * row[j] + 0.5 * (before[i] * after[j] + after[i] * before[j]);
        row[i] = fmax(row[i], 0); /* rounding can leave less */
    }
    s->since += most;
}

void level_mark_normal(struct level *level, struct level_state *s, const double *smoothed,
                       size_t steps, double share) {
    size_t d = level->columns;
    double *weights = level->shares + d;
    for (size_t k = 0; k < d; k++)
        weights[k] = share * fmin(s->columns[k].weight, NORMAL_MOST / (1 - level->keep));
    for (size_t n = 0; n < steps; n++)
        add(level, s, smoothed + n * d, weights, 1);
    refresh(level, s);
    s->run = 0;
}

static void learn_doubt(const struct level *level, struct level_state *s, double q, double l) {
    bool far = l >= EXCURSION;
    s->calm = far ? 0 : s->calm + 1;
    s->run = far || (s->run > 0 && s->calm < OVER) ? s->run + 1 : 0;
    tail_learn_share(&s->doubts, q, 1, 1 / level->keep);
    if (s->steps >= NOVELTY_DELAY)
        tail_learn_share(&s->tail, q, pow(1 + s->run / LONG, -2), TAIL_GROWTH);
}

/* ---- Score ---- */

/* Whether column k has a value, and had enough of them before. */
static bool is_scored(const struct level_state *s, const float *x, size_t k) {
    return !isnan(x[k]) && s->columns[k].count > KNOWN;
}

/* Returns the doubt, with the columns' shares. */
static double compare(struct level *level, struct level_state *s, const float *x, size_t scored) {
    size_t d = level->columns;
    double *shares = level->shares, *z = shares + d, *marginal = shares + 5 * d, q = 0, sum = 0;
    const double *p = precision_of(level, s);
    if (scored < d)
        p = memcpy(marginal, p, d * d * sizeof *p);
    for (size_t k = 0; k < d; k++) {
        const struct column *c = &s->columns[k];
        bool here = is_scored(s, x, k);
        z[k] = here ? fmin(fmax((c->smoothed - c->mean) / c->deviation, -BOUND), BOUND) : 0;
        shares[k] = 0;
        if (!here)
            sweep(marginal, d, k); /* leaves the precision of the others alone */
    }
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < d; k++)
            shares[k] += p[j * d + k] * z[j];
    for (size_t k = 0; k < d; k++) {
        q += shares[k] * z[k];
        shares[k] *= is_scored(s, x, k) ? shares[k] / fmax(p[k * d + k], LEAST) : 0;
        sum += shares[k];
    }
    for (size_t k = 0; k < d; k++)
        shares[k] /= fmax(sum, 1e-300);
    return fmax(q / (double)scored, 0);
}

/* Returns the number of values; `scored`: of columns that were known before. */
static size_t smooth(const struct level *level, struct level_state *s, const float *x,
                     size_t *scored) {
    size_t values = *scored = 0;
    for (size_t k = 0; k < level->columns; k++) {
        struct column *c = &s->columns[k];
        c->missed += isnan(x[k]) != 0;
        if (isnan(x[k]))
            continue;
        if (c->count++ == 0)
            c->smoothed = c->mean = (double)x[k];
        double step = c->missed > 0 ? 1 - pow(1 - SMOOTH, 1 + c->missed) : SMOOTH;
        c->smoothed += step * ((double)x[k] - c->smoothed);
        c->missed = 0;
        values++;
        *scored += is_scored(s, x, k);
    }
    return values;
}

struct level_result level_take(struct level *level, struct level_state *s, const float *x,
                               bool learn) {
    struct level_result result = {NAN, NAN, NAN};
    if (s->keep != level->keep)
        memset(s, 0, level_size(level->columns) * sizeof(double));
    s->keep = level->keep;
    size_t d = level->columns, scored, values = smooth(level, s, x, &scored);
    double *weights = level->shares + d, *smoothed = weights + d, w = 0;
    if (values == 0)
        return result;
    if (scored >= 2) {
        if (!(*precision_of(level, s) > 0) || s->since > REFRESH * s->largest)
            refresh(level, s);
        double q = result.doubt = compare(level, s, x, scored);
        w = fmin(pow(fmax(tail_median(&s->doubts), 1) / fmax(q, LEAST), 2), 1);
        if (tail_knows(&s->tail)) {
            result.unlikeliness = tail_unlikeliness(&s->tail, q);
            result.score = novelty_patient(result.unlikeliness, s->steps);
        }
        if (learn)
            learn_doubt(level, s, q, result.unlikeliness);
    }
    for (size_t k = 0; k < d; k++)
        weights[k] = isnan(x[k]) ? 0 : s->columns[k].count > KNOWN ? w : 1;
    level_smoothed(level, s, smoothed);
    if (learn && (scored >= 2 || values > scored))
        add(level, s, smoothed, weights, level->keep);
    s->steps++;
    return result;
}

/* ---- Checkpoints ---- */

bool level_valid(const struct level *level, struct level_state *s) {
    size_t d = level->columns;
    const double *products = products_of(level, s), *precision = precision_of(level, s);
    bool valid = s->run >= 0 && finite_within(&s->keep, 6, FINITE_MOST) && tail_valid(&s->doubts) &&
                 tail_valid(&s->tail) &&
                 finite_within(&s->columns->smoothed, (6 + 2 * d) * d, FINITE_MOST);
    for (size_t k = 0; valid && k < d; k++) {
        const struct column *c = &s->columns[k];
        valid = fabs(c->smoothed) + fabs(c->mean) <= FINITE_VALUE_MOST && c->missed >= 0 &&
                c->count >= 0 && c->weight >= 0 && products[k * d + k] >= 0 && c->deviation >= 0 &&
                (c->deviation > 0 || *precision == 0);
    }
    return valid;
}
