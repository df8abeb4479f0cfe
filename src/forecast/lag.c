#include "lag.h"

#include <math.h>
#include <stddef.h>

#include "common/finite.h"
#include "common/vectors.h"
#include "forecast.h"

#define KEEP 0.9998
#define TINY 1e-12
#define DOUBT 2.5      /* a correlation by chance is about 1 / sqrt(terms) */
#define LEAST 0.1      /* a score worth taking */
#define BETTER 1.1     /* than the one now, */
#define BETTER_BY 0.01 /* and by */
#define GONE 0.05      /* a correlation not worth keeping */

enum {
    FIRST = 2,    /* the shortest lag that is counted, */
    SHORTEST = 6, /* and that can be chosen */
    EVERY = 16,   /* steps between two looks */
    PERIODS = 2,  /* of a lag, and */
    MARGIN = 20,  /* steps more, before it can be chosen */
};

/* products += u past, squares += past^2, both forgetting, for `count` lags. */
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

void lag_take(struct lag *lag, const double *past, double t) {
    double u = past[0];
    size_t top = t < LAG_LONGEST ? (size_t)t : LAG_LONGEST;
    lag->total = KEEP * lag->total + u * u;
    lag->weight = KEEP * lag->weight + 1;
    if (top >= FIRST)
        add(lag->products + FIRST, lag->squares + FIRST, past + FIRST, top + 1 - FIRST, u);
    if (fmod(t, EVERY) == 0)
        choose(lag, top, t);
}

bool lag_valid(const struct lag *lag) {
    static const double weight = 2 / (1 - KEEP),
                        most = weight * FORECAST_FEATURE_MOST * FORECAST_FEATURE_MOST;
    return lag->now >= 0 && lag->now <= LAG_LONGEST && lag->weight >= 0 && lag->weight <= weight &&
           lag->total >= 0 && lag->total <= most &&
           finite_within(lag->products, LAG_LONGEST + 1, most) &&
           finite_within(lag->squares, LAG_LONGEST + 1, most);
}
