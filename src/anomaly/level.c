#include "level.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/finite.h"
#include "habit.h"
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
#define LEAST_COUNT 1e-9
#define TINY 1e-150
#define PRECISION_MOST 1e4
#define WEIGHT_MOST 3.0 /* times the sum of all weights kept */

/* Doubles only. (6, columns) and (2, columns, columns) follow, see `view`. */
struct head {
    double steps;
    double since;     /* weight learned since the precision was computed */
    double run, calm; /* steps of an excursion; of these, the last ones below */
    struct tail doubts, tail;
};

struct view {
    struct head *head;
    double *smoothed, *missed, *count, *weight, *mean, *deviation; /* (columns,) */
    double *products, *precision;                                  /* (columns, columns) */
};

static struct view view_of(const struct level *level, double *stream) {
    size_t d = level->columns;
    double *at = stream + sizeof(struct head) / sizeof *stream;
    return (struct view){(struct head *)(void *)stream,
                         at,
                         at + d,
                         at + 2 * d,
                         at + 3 * d,
                         at + 4 * d,
                         at + 5 * d,
                         at + 6 * d,
                         at + (6 + d) * d};
}

size_t level_size(size_t columns) {
    return sizeof(struct head) / sizeof(double) + (6 + 2 * columns) * columns;
}

const double *level_smoothed(const double *stream) {
    return stream + sizeof(struct head) / sizeof *stream;
}

bool level_open(struct level *level, size_t columns, double half) {
    *level = (struct level){.columns = columns, .keep = exp2(-1 / half)};
    level->shares = calloc(columns + 1, sizeof *level->shares);
    level->work = calloc((columns + 3) * columns + 1, sizeof *level->work);
    return level->shares && level->work;
}

void level_close(struct level *level) {
    free(level->shares);
    free(level->work);
    *level = (struct level){0};
}

/* ---- Precision ---- */

/* One step of a Gauss-Jordan elimination in place: all of them invert a (d, d), some of them leave
   the inverse of the marginal in the other rows and columns. */
static bool sweep(double *a, size_t d, size_t k) {
    double *row = a + k * d, pivot = row[k];
    if (!(pivot > LEAST))
        return false;
    row[k] = 1;
    for (size_t j = 0; j < d; j++)
        row[j] /= pivot;
    for (size_t i = 0; i < d; i++) {
        double *other = a + i * d, factor = other[k];
        if (i == k)
            continue;
        other[k] = 0;
        for (size_t j = 0; j < d; j++)
            other[j] -= factor * row[j];
    }
    return true;
}

static bool invert(const struct view *v, size_t d, double ridge) {
    double *p = v->precision;
    bool good = true;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            double scale =
                (sqrt(v->products[i * d + i]) + TINY) * (sqrt(v->products[j * d + j]) + TINY);
            double r = v->products[i * d + j] / scale;
            p[i * d + j] = i == j ? 1 + ridge : fmin(fmax(r, -1), 1);
        }
    for (size_t k = 0; good && k < d; k++)
        good = sweep(p, d, k);
    for (size_t k = 0; good && k < d; k++)
        good = p[k * d + k] <= PRECISION_MOST;
    return good;
}

static double largest(const double *numbers, size_t count) {
    double most = 0;
    for (size_t k = 0; k < count; k++)
        most = fmax(most, numbers[k]);
    return most;
}

/* Columns that miss values at different times can have correlations that are not positive definite:
   then the ridge grows until they are. */
static void refresh(const struct level *level, const struct view *v) {
    size_t d = level->columns;
    double ridge = RIDGE + (double)d / fmax(largest(v->weight, d), 1);
    for (size_t k = 0; k < d; k++)
        v->deviation[k] = sqrt(v->products[k * d + k] / fmax(v->weight[k], LEAST_COUNT)) +
                          1e-6 * fabs(v->mean[k]) + LEAST;
    while (!invert(v, d, ridge))
        ridge *= 2;
    v->head->since = 0;
}

/* ---- Learning ---- */

/* Adds smoothed values with a weight of each column. */
static void add(const struct level *level, const struct view *v, const double *smoothed,
                const double *weights, double keep) {
    size_t d = level->columns;
    double *before = level->work + d, *after = before + d;
    for (size_t k = 0; k < d; k++) {
        double w = weights[k], root = sqrt(w), apart = smoothed[k] - v->mean[k];
        v->weight[k] = keep * v->weight[k] + w;
        if (w > 0)
            v->mean[k] += w * apart / v->weight[k];
        before[k] = root * apart;
        after[k] = root * (smoothed[k] - v->mean[k]);
    }
    for (size_t i = 0; i < d; i++) {
        double *row = v->products + i * d;
        for (size_t j = 0; j < d; j++)
            row[j] = keep * row[j] + 0.5 * (before[i] * after[j] + after[i] * before[j]);
        row[i] = fmax(row[i], 0); /* rounding can leave less */
    }
}

void level_mark_normal(struct level *level, double *stream, const double *smoothed, size_t steps,
                       double share) {
    const struct view v = view_of(level, stream);
    size_t d = level->columns;
    double *weights = level->work, most = WEIGHT_MOST / (1 - level->keep);
    for (size_t k = 0; k < d; k++)
        weights[k] = v.weight[k] * share;
    for (size_t n = 0; n < steps; n++)
        add(level, &v, smoothed + n * d, weights, 1);
    double excess = largest(v.weight, d) / most;
    for (size_t k = 0; excess > 1 && k < d; k++)
        v.weight[k] /= excess;
    for (size_t n = 0; excess > 1 && n < d * d; n++)
        v.products[n] /= excess;
    refresh(level, &v);
    v.head->run = v.head->calm = 0;
}

/* ---- Score ---- */

/* Whether column k has a value, and had enough of them before. */
static bool is_scored(const struct view *v, const float *x, size_t k) {
    return !isnan(x[k]) && v->count[k] > KNOWN;
}

/* The precision of the scored columns alone. */
static const double *marginal(const struct level *level, const struct view *v, const float *x,
                              size_t scored) {
    size_t d = level->columns;
    double *p = level->work + 3 * d;
    if (scored == d)
        return v->precision;
    memcpy(p, v->precision, d * d * sizeof *p);
    for (size_t k = 0; k < d; k++)
        if (!is_scored(v, x, k))
            sweep(p, d, k);
    return p;
}

static double doubt(struct level *level, const struct view *v, const float *x, size_t scored) {
    size_t d = level->columns;
    double *z = level->work, *shares = level->shares, q = 0, sum = 0;
    const double *p = marginal(level, v, x, scored);
    for (size_t k = 0; k < d; k++) {
        double apart = (v->smoothed[k] - v->mean[k]) / v->deviation[k];
        z[k] = is_scored(v, x, k) ? fmin(fmax(apart, -BOUND), BOUND) : 0;
    }
    memset(shares, 0, d * sizeof *shares);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < d; k++)
            shares[k] += p[j * d + k] * z[j];
    for (size_t k = 0; k < d; k++) {
        q += shares[k] * z[k];
        shares[k] *= is_scored(v, x, k) ? shares[k] / fmax(p[k * d + k], LEAST) : 0;
        sum += shares[k];
    }
    for (size_t k = 0; k < d; k++)
        shares[k] /= fmax(sum, 1e-300);
    return fmax(q / (double)scored, 0);
}

static void learn_doubt(const struct level *level, struct head *head, double q, double l) {
    tail_learn_share(&head->doubts, q, 1, 1 / level->keep);
    if (l >= EXCURSION) {
        head->run++;
        head->calm = 0;
    } else if (head->run > 0) {
        head->calm++;
        head->run = head->calm >= OVER ? 0 : head->run + 1;
    }
    double excess = 1 + head->run / LONG;
    if (head->steps >= NOVELTY_DELAY)
        tail_learn_share(&head->tail, q, 1 / (excess * excess), TAIL_GROWTH);
}

/* Returns the number of values; `scored`: of columns that were known before. */
static size_t smooth(const struct level *level, const struct view *v, const float *x,
                     size_t *scored) {
    size_t values = *scored = 0;
    for (size_t k = 0; k < level->columns; k++) {
        if (isnan(x[k])) {
            v->missed[k]++;
            continue;
        }
        if (v->count[k] == 0)
            v->smoothed[k] = v->mean[k] = (double)x[k];
        double step = v->missed[k] > 0 ? 1 - pow(1 - SMOOTH, 1 + v->missed[k]) : SMOOTH;
        v->smoothed[k] += step * ((double)x[k] - v->smoothed[k]);
        v->missed[k] = 0;
        v->count[k]++;
        values++;
        *scored += is_scored(v, x, k);
    }
    return values;
}

struct level_result level_take(struct level *level, double *stream, const float *x, bool learn) {
    const struct view v = view_of(level, stream);
    struct head *head = v.head;
    struct level_result result = {NAN, NAN, NAN};
    size_t d = level->columns, scored, values = smooth(level, &v, x, &scored);
    double *weights = level->work, w = 1;
    if (values == 0)
        return result;
    if (scored >= 2) {
        if (!(v.precision[0] > 0) || head->since > REFRESH * largest(v.weight, d))
            refresh(level, &v);
        double q = result.doubt = doubt(level, &v, x, scored);
        double gate = fmax(tail_median(&head->doubts), 1) / fmax(q, LEAST);
        w = fmin(gate * gate, 1);
        if (tail_knows(&head->tail)) {
            result.unlikeliness = tail_unlikeliness(&head->tail, q);
            result.score = novelty_patient(result.unlikeliness, head->steps);
        }
        if (learn)
            learn_doubt(level, head, q, result.unlikeliness);
    }
    if (learn && (scored >= 2 || values > scored)) {
        for (size_t k = 0; k < d; k++)
            weights[k] = isnan(x[k]) ? 0 : v.count[k] <= KNOWN ? 1 : scored >= 2 ? w : 0;
        add(level, &v, v.smoothed, weights, level->keep);
        head->since += largest(weights, d);
    }
    head->steps++;
    return result;
}

/* ---- Checkpoints ---- */

bool level_valid(const struct level *level, double *stream) {
    const struct view v = view_of(level, stream);
    const struct head *head = v.head;
    size_t d = level->columns;
    bool valid = habit_is_count(head->steps) && head->since >= 0 && head->since <= FINITE_MOST &&
                 habit_is_count(head->run) && habit_is_count(head->calm) &&
                 tail_valid(&head->doubts) && tail_valid(&head->tail) &&
                 finite_within(v.products, d * d, FINITE_MOST) &&
                 finite_within(v.precision, d * d, PRECISION_MOST);
    for (size_t k = 0; valid && k < d; k++)
        valid = fabs(v.smoothed[k]) <= FINITE_VALUE_MOST && habit_is_count(v.missed[k]) &&
                habit_is_count(v.count[k]) && v.weight[k] >= 0 && v.weight[k] <= FINITE_MOST &&
                fabs(v.mean[k]) <= FINITE_VALUE_MOST && v.products[k * d + k] >= 0 &&
                v.deviation[k] <= FINITE_MOST &&
                (v.deviation[k] > 0 || (v.precision[0] == 0 && v.deviation[k] == 0));
    return valid;
}
