#include "calibration.h"

#include <math.h>
#include <stddef.h>

#include "habit.h"

#define GROWTH (100000.0 / 99999)
#define ENOUGH 100.0
#define UPPER 0.02
#define PRIOR 20.0
#define PRIOR_MEAN 17.0 /* bins */
#define SHAPE_MOST 0.4
#define SHAPE_PRIOR 50.0
#define EXCEEDING 2.7
#define EXCEEDING_PRIOR 10.0
#define BUNCHES_PRIOR 5.0
#define LEAST 1e-12

/* In bins. */
static double place_of(double score) {
    return fmin(fmax(score * CALIBRATION_WIDTH, 0), CALIBRATION_BINS - 0.01);
}

/* The excess in bins above an edge; `first` and `second`: sums of mass (j + 1) and of mass (j + 1)
   (j + 2) / 2 over the bins j above it. */
static double tail_of(double excess, double mass, double first, double second, double weight) {
    double prior = PRIOR * weight, count = mass + prior;
    double squares = 2 * second - 2 * first + 0.25 * mass; /* of the bins' middles */
    double a = (first - 0.5 * mass + prior * PRIOR_MEAN) / count;
    double b = (squares + prior * 2 * PRIOR_MEAN * PRIOR_MEAN) / count;
    double shape = 0.5 * (1 - a * a / (b - a * a)) * mass / (mass + SHAPE_PRIOR * weight);
    shape = fmin(fmax(shape, -SHAPE_MOST), SHAPE_MOST);
    double units = excess / (a * (1 - shape));
    if (fabs(shape) < LEAST)
        return units / M_LN10;
    return log(fmax(1 + shape * units, LEAST)) / (shape * M_LN10);
}

double calibration_rarity(const struct calibration *calibration, double score) {
    const double *mass = calibration->mass, total = calibration->sums.total;
    double weight = calibration->sums.weight, beyond = 0, first = 0, second = 0;
    if (isnan(score) || !(total >= ENOUGH * weight) || total == 0)
        return NAN;
    double u = place_of(score);
    int n = (int)u, upper = (int)calibration->sums.top; /* the highest bin below B */
    while (upper > 0 && beyond + mass[upper] <= UPPER * total) {
        beyond += mass[upper--];
        first += beyond;
        second += first;
    }
    if (n > upper) {
        double share =
            beyond > 0.5 * weight ? beyond / total : (beyond + 0.5 * weight) / (total + weight);
        return tail_of(u - upper - 1, beyond, first, second, weight) - log10(share);
    }
    for (int i = upper; i > n; i--)
        beyond += mass[i];
    beyond += mass[n] * (n + 1 - u) + 0.5 * weight;
    return fmax(-log10(beyond / (total + weight)), 0);
}

void calibration_learn(struct calibration *calibration, double score, double rarity, double rest) {
    struct calibration *c = calibration;
    if (isnan(score))
        return;
    if (rarity >= EXCEEDING) {
        bool counts = c->last == 0 || c->steps + 1 - c->last > rest;
        c->exceeding++;
        c->bunches += counts;
        c->last = counts ? c->steps + 1 : c->last;
    }
    c->steps += !isnan(rarity);
    histogram_learn(&c->sums, c->mass, CALIBRATION_BINS, (size_t)place_of(score), 1, GROWTH);
}

double calibration_threshold(const struct calibration *calibration, double rate) {
    return log10((calibration->bunches + BUNCHES_PRIOR) /
                 (calibration->exceeding + EXCEEDING_PRIOR) / rate);
}

bool calibration_valid(const struct calibration *calibration) {
    const struct calibration *c = calibration;
    return habit_is_count(c->steps) && habit_is_count(c->exceeding) && habit_is_count(c->bunches) &&
           habit_is_count(c->last) && c->bunches <= c->exceeding && c->exceeding <= c->steps &&
           c->last <= c->steps && histogram_valid(&c->sums, c->mass, CALIBRATION_BINS);
}
