/* A predictive distribution around the point forecasts of one column and horizon, learned online
   from pairs of forecast and truth. docs/explanation/forecasts.md describes it, and tools/check
   compares it with an executable specification.

       F(x) = C(B(x))                               C: correction, a histogram of past B(truth)
       B(x) = (1 - A) M(x) + sum of a_i, v_i <= x   atoms: values v_i that repeat, A = sum of a_i
       M(x) = sum of w_j L((x - m_j) / s_j)         28 parts, L(z) = 1 / (1 + exp(-z))

   M is rounded to the lattice of the values, and only a share of it counts beyond a bound. All
   values, scales and CRPS have the unit of the column.

   Both structs consist of doubles only, so that checkpoints keep them as rows. A state of zeros is
   one that begins. Nothing is allocated. On one machine the same calls give the same bits, with
   every instruction set of the engine. */
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

/* One distribution that was issued, and waits for its truth. unit, fast: the mean |error| at rates
   0.01 and 0.3; lattice: 0 = none; hour: of the day, -1 = unknown; share: A. */
struct distribution {
    double issued; /* 0: not issued */
    double point, unit, fast, lattice, hour, repeats, share;
    struct distribution_value ends[2]; /* weight: the share of M beyond it that counts; 0: none */
    double weight[DISTRIBUTION_PARTS], scale[DISTRIBUTION_SCALES];
    double feature[DISTRIBUTION_FEATURES];
    double atom_count;
    struct distribution_value atoms[DISTRIBUTION_ATOMS]; /* by value */
    double correction[DISTRIBUTION_BINS + 1];
};

struct distribution_score {
    double pit[2];    /* F just below the truth, and F */
    double z;         /* the normal quantile of their middle, within +-8 */
    double crps;      /* twice the mean pinball loss at 20 even levels */
    double log_score; /* nats: -log of the mean density within half a lattice or unit / 20 */
};

/* Learns from the truth of a distribution issued `ahead` steps before. The truth is finite. */
void distribution_learn(struct distribution_state *state, const struct distribution *issued,
                        double truth, size_t ahead);

/* Learns the newest value, which is finite, after distribution_learn; or that it is missing. */
void distribution_see(struct distribution_state *state, double value);
void distribution_miss(struct distribution_state *state);

/* Issues the distribution around the forecast `point`: for `time` (Unix seconds of the truth, NaN:
   unknown) and the forecasts of `count` experts. Nothing is issued before two values have been
   seen, or around a number that is not finite. */
void distribution_issue(const struct distribution_state *state, double point, double time,
                        const double *experts, size_t count, struct distribution *issued);

/* Writes the values (count,) at rising levels from 0 to 1: NaN where nothing was issued. */
void distribution_quantiles(const struct distribution *issued, const double *levels, size_t count,
                            double *values);

/* Returns the scores of a truth, or of any other finite number. Something must be issued. */
struct distribution_score distribution_score(const struct distribution *issued, double truth);

/* Whether a state or distribution of a checkpoint can be used. */
bool distribution_state_valid(const struct distribution_state *state);
bool distribution_valid(const struct distribution *issued);

#endif
