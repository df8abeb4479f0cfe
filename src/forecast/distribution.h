/* A predictive distribution around the point forecasts of one column and horizon, learned online
   from pairs of forecast and truth: quantiles, probability integral transform (PIT), continuous
   ranked probability score (CRPS) and log score. The equations, and figures on 79 columns, are in
   docs/explanation/forecasts.md.

       F(x) = C(B(x)),   B(x) = (1 - A) M(x) + sum of the atoms a_i with v_i <= x

   M is a mixture of 28 logistic components with six learned scales, rounded to the lattice of the
   values; atoms are values that repeat; C is a histogram of past B(truth).

   Both structs consist of doubles only, so that checkpoints keep them as rows. A state of zeros is
   one that begins. Nothing is allocated, and the same calls give the same bits. */
#ifndef RUNNEL_FORECAST_DISTRIBUTION_H
#define RUNNEL_FORECAST_DISTRIBUTION_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DISTRIBUTION_RATES = 5,
    DISTRIBUTION_SCALES = DISTRIBUTION_RATES + 1, /* the last is by regression */
    DISTRIBUTION_PARTS = 28,                      /* four a scale, and four aside of the last */
    DISTRIBUTION_FEATURES = 8,
    DISTRIBUTION_HOURS = 24,
    DISTRIBUTION_TABLE = 16, /* values that may repeat */
    DISTRIBUTION_ATOMS = DISTRIBUTION_TABLE + 1,
    DISTRIBUTION_LATTICES = 14, /* 1e-6 to 1e7 */
    DISTRIBUTION_BINS = 34,
    DISTRIBUTION_CRPS_LEVELS = 20, /* CRPS is twice the mean pinball loss at so many even levels */
};

/* A value with its weight, count or share. */
struct distribution_value {
    double value, weight;
};

struct distribution_state {
    double begun, truths, values;       /* counts: truths with a forecast, values */
    double last, change, repeats, size; /* of the newest value; size: mean |value| */
    double scale[DISTRIBUTION_RATES];   /* mean |error| at each rate */
    double weight[DISTRIBUTION_PARTS];
    double regression[DISTRIBUTION_FEATURES];
    double covariance[DISTRIBUTION_FEATURES][DISTRIBUTION_FEATURES];
    double hour[DISTRIBUTION_HOURS], hour_count[DISTRIBUTION_HOURS];
    double share[2], share_count[2]; /* of all atoms, after a new and after a repeated value */
    struct distribution_value table[DISTRIBUTION_TABLE], ends[2]; /* ends: least, greatest */
    double multiples[DISTRIBUTION_LATTICES];
    double histogram[DISTRIBUTION_BINS], mass;
};

/* One distribution that was issued, and waits for its truth. */
struct distribution {
    double issued; /* 0: there is none */
    double point, unit, fast, lattice, hour, repeats, share;
    struct distribution_value ends[2]; /* weight: the share of M beyond it that counts; 0: none */
    double weight[DISTRIBUTION_PARTS], scale[DISTRIBUTION_SCALES];
    double feature[DISTRIBUTION_FEATURES];
    double atom_count;
    struct distribution_value atoms[DISTRIBUTION_ATOMS]; /* by value */
    double correction[DISTRIBUTION_BINS + 1];
};

/* Learn from the truth of a distribution issued `ahead` steps before; then, or alone, from the
   value. Both finite. */
void distribution_learn(struct distribution_state *state, const struct distribution *issued,
                        double truth, size_t ahead);
void distribution_see(struct distribution_state *state, double value);

/* The newest value is missing. */
void distribution_miss(struct distribution_state *state);

/* Issue the distribution around the forecast `point`: for `time` (Unix seconds of the truth, NaN:
   unknown) and the forecasts of `count` experts. Not issued before two values have been seen, or
   around a number that is not finite. */
void distribution_issue(const struct distribution_state *state, double point, double time,
                        const double *experts, size_t count, struct distribution *issued);

/* The values at `count` rising levels of 0 to 1: NaN where nothing was issued. */
void distribution_quantiles(const struct distribution *issued, const double *levels, size_t count,
                            double *values);

/* F(x), or F just below x. */
double distribution_cdf(const struct distribution *issued, double x, bool below);

/* CRPS in units of the value; log score in nats, -log of the mean density around the truth. */
double distribution_crps(const struct distribution *issued, double truth);
double distribution_log_score(const struct distribution *issued, double truth);

/* The normal quantile of a level, within +-8. */
double distribution_normal(double level);

bool distribution_state_valid(const struct distribution_state *state);
bool distribution_valid(const struct distribution *issued);

#endif
