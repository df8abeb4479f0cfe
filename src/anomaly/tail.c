#include "tail.h"

#include <math.h>
#include <string.h>

#define UPPER 0.05
#define PRIOR 60.0
#define PRIOR_SLOPE 0.3
#define ENOUGH 20.0
#define LEAST_FEATURE 1e-12
#define HIGHEST (TAIL_BINS - 1.01)

void tail_begin(struct tail *tail) {
    memset(tail, 0, sizeof *tail);
    tail->sums.weight = 1;
}

/* In bins. */
static double place_of(double feature) {
    return fmin(fmax(TAIL_WIDTH * log2(feature + LEAST_FEATURE) + TAIL_ZERO, 0), HIGHEST);
}

bool tail_knows(const struct tail *tail) {
    return tail->sums.total > ENOUGH * tail->sums.weight;
}

double tail_unlikeliness(const struct tail *tail, double feature) {
    if (!tail_knows(tail))
        return 0;
    const double *mass = tail->mass;
    double u = place_of(feature), beyond = 0, steps = 0;
    int n = (int)u, upper = (int)tail->sums.top;
    /* `steps` is the sum of m(i) (i - upper) over the bins above it. */
    while (beyond + mass[upper] < UPPER * tail->sums.total && upper > 0) {
        beyond += mass[upper--];
        steps += beyond;
    }
    double probability, weight = tail->sums.weight;
    if (n > upper) {
        double slope =
            (steps + PRIOR * PRIOR_SLOPE * TAIL_WIDTH * weight) / (beyond + PRIOR * weight);
        probability = (beyond + 0.5 * mass[upper]) / tail->sums.total;
        return fmax((u - upper - 0.5) / (slope * M_LN10) - log10(probability), 0);
    }
    for (int i = upper; i > n; i--)
        beyond += mass[i];
    probability = (beyond + 0.5 * (mass[n] + weight)) / (tail->sums.total + weight);
    return fmax(-log10(probability), 0);
}

void tail_learn(struct tail *tail, double feature) {
    tail_learn_share(tail, feature, 1, TAIL_GROWTH);
}

void tail_learn_share(struct tail *tail, double feature, double share, double growth) {
    histogram_learn(&tail->sums, tail->mass, TAIL_BINS, (size_t)place_of(feature), share, growth);
}

double tail_median(const struct tail *tail) {
    int n = (int)tail->sums.top;
    double above = tail->mass[n];
    if (tail->sums.total <= 0)
        return 0;
    while (n > 0 && above <= 0.5 * tail->sums.total)
        above += tail->mass[--n];
    return exp2((n + 0.5 - TAIL_ZERO) / TAIL_WIDTH);
}

bool tail_valid(const struct tail *tail) {
    return histogram_valid(&tail->sums, tail->mass, TAIL_BINS);
}
