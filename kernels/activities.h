/* Activity of a layer's units, over updates. Nothing that is learned depends on it. After each
   applied update, from the h of its newest step, with `age` the number of these updates:

     m += max(1 / age, 0.01) (h - m)
     a += max(1 / age, 0.001) (|h| - a)

   and after every 16th one, with q = h - m and q' each of the 8 before it:

     e1 += u (|q|^2 - e1),  e2 += u (mean of (q . q')^2 - e2),  u = max(1 / samples, 0.002)

   e1^2 / e2 is the participation ratio of the covariance of h, (sum of eigenvalues)^2 / sum of
   their squares, since E (q . q')^2 is the trace of the squared covariance. */
#ifndef RUNNEL_ACTIVITIES_H
#define RUNNEL_ACTIVITIES_H

#include <math.h>

#include "engine/engine.h"
#include "formulas.h"

enum { ACTIVITY_EVERY = 16 };

#define ACTIVITY_LEAST_OF_MEAN 0.01
#define ACTIVITY_LEAST_OF_SIZE 0.001
#define ACTIVITY_LEAST_OF_RANK 0.002
#define ACTIVITY_DORMANT 0.01 /* a, at most this share of its mean over the layer */
#define ACTIVITY_SATURATED 0.95

FORMULA double activity_weight(double count, double least) {
    return 1 / count > least ? 1 / count : least;
}

/* Whether the update of that age is sampled; the row of its q; and the samples of e1 and e2. */
FORMULA bool activity_samples(double age) {
    return (uint64_t)age % ACTIVITY_EVERY == 0;
}

FORMULA size_t activity_row(double age) {
    return (uint64_t)age / ACTIVITY_EVERY % ACTIVITY_RING;
}

FORMULA double activity_sampled(double age) {
    double samples = (double)((uint64_t)age / ACTIVITY_EVERY);
    return samples > ACTIVITY_RING ? samples - ACTIVITY_RING : 0;
}

FORMULA void activity_add_sample(double *head, double age, double square, double products) {
    double weight = activity_weight(activity_sampled(age), ACTIVITY_LEAST_OF_RANK);
    head[ACTIVITY_E1] += weight * (square - head[ACTIVITY_E1]);
    head[ACTIVITY_E2] += weight * (products / ACTIVITY_RING - head[ACTIVITY_E2]);
}

/* What is reported; unknown numbers are NaN. */
FORMULA struct activity_statistics activity_statistics(const double *head, double age,
                                                       double dormant, double saturated) {
    struct activity_statistics s = {(double)NAN, (double)NAN, (double)NAN};
    if (age > 0) {
        s.dormant = dormant;
        s.saturated = saturated;
    }
    if (head[ACTIVITY_E2] > 0)
        s.rank = head[ACTIVITY_E1] * head[ACTIVITY_E1] / head[ACTIVITY_E2];
    return s;
}

FORMULA struct weight_statistics activity_weights(const double *head, double norm) {
    struct weight_statistics s = {norm, (double)NAN};
    if (head[ACTIVITY_START] > 0)
        s.growth = norm / head[ACTIVITY_START];
    return s;
}

/* The starting norm; 0, unknown, if it overflows: a checkpoint must not contain infinity. */
FORMULA double activity_start(double norm) {
    return norm - norm == 0 ? norm : 0;
}

/* Keeps the largest growth. */
FORMULA void activity_add_growth(struct update_result *result, uint32_t layer, double growth) {
    if (growth > result->growth && growth - growth == 0) {
        result->growth = growth;
        result->layer = layer;
    }
}

/* The share of a loss that an update removed; NaN if the loss, as a density's, has no share. */
FORMULA double activity_removed(double before, double after) {
    double share = 1 - after / before;
    if (!(before > 0))
        return (double)NAN;
    return share > 0 ? share < 1 ? share : 1 : 0;
}

#endif
