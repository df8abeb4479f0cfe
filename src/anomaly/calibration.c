#include "calibration.h"

#include <math.h>

#include "common/finite.h"

#define WIDTH 40 /* bins a unit */
#define GROWTH (100000.0 / 99999)
#define ENOUGH 100.0
#define UPPER 0.02
#define PRIOR 20.0
#define PRIOR_MEAN 17.0 /* bins */
#define SHAPE_MOST 0.4
#define SHAPE_PRIOR 50.0
#define EXCEEDING 2.7

/* In bins. */
static double place_of(double score) {
    return fmin(fmax(score * WIDTH, 0), CALIBRATION_BINS - 0.01);
}

/* The excess in bins above an edge; `first` and `second`: sums of mass (j + 1) and of mass (j + 1)
   (j + 2) / 2 over the bins j above it. */
static double tail_of(double excess, double mass, double first, double second, double weight) {
    double prior = PRIOR * weight, count = mass + prior;
    double a = (first - 0.5 * mass + prior * PRIOR_MEAN) / count;
    double b = (2 * (second - first + prior * PRIOR_MEAN * PRIOR_MEAN) + 0.25 * mass) / count;
    double shape = 0.5 * (1 - a * a / (b - a * a)) * mass / (mass + SHAPE_PRIOR * weight);
    shape = fmin(fmax(shape, -SHAPE_MOST), SHAPE_MOST);
    double units = excess / (a * (1 - shape));
    if (fabs(shape) < 1e-12)
        return units / M_LN10;
    return log(fmax(1 + shape * units, 1e-12)) / (shape * M_LN10);
}

double calibration_rarity(const struct calibration *c, double score) {
    const double *mass = c->mass, total = c->sums.total;
    double weight = c->sums.weight, beyond = 0, first = 0, second = 0;
    if (isnan(score) || !(total >= ENOUGH * weight) || total == 0)
        return NAN;
    double u = place_of(score);
    int n = (int)u, upper = (int)c->sums.top; /* the highest bin below B */
    while (upper > 0 && beyond + mass[upper] <= UPPER * total) {
        beyond += mass[upper--];
        first += beyond;
        second += first;
    }
    if (n > upper)
        return tail_of(u - upper - 1, beyond, first, second, weight) -
               log10(fmax(beyond / total, 0.5 * weight / (total + weight)));
    for (int i = upper; i > n; i--)
        beyond += mass[i];
    beyond += mass[n] * (n + 1 - u) + 0.5 * weight;
    return fmax(-log10(beyond / (total + weight)), 0);
}

void calibration_learn(struct calibration *c, double score, double rarity, double rest) {
    if (isnan(score))
        return;
    bool exceeds = rarity >= EXCEEDING;
    c->steps += !isnan(rarity);
    c->exceeding += exceeds;
    if (exceeds && (c->last == 0 || c->steps - c->last > rest)) {
        c->bunches++;
        c->last = c->steps;
    }
    histogram_learn(&c->sums, c->mass, CALIBRATION_BINS, (size_t)place_of(score), 1, GROWTH);
}

double calibration_threshold(const struct calibration *c, double rate) {
    return log10((c->bunches + 5) / (c->exceeding + 10) / rate);
}

bool calibration_valid(const struct calibration *c) {
    return finite_within(&c->steps, 4, FINITE_MOST) && fmin(c->steps, c->last) >= 0 &&
           c->bunches >= 0 && c->exceeding >= c->bunches &&
           histogram_valid(&c->sums, c->mass, CALIBRATION_BINS);
}
