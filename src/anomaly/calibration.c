#include "calibration.h"

#include <math.h>

#include "common/finite.h"

#define WIDTH 40 /* bins a unit */
#define GROWTH (100000.0 / 99999)
#define ENOUGH 100.0
#define UPPER 0.02
#define PRIOR 20.0
#define PRIOR_MEAN 17.0    /* bins */
#define PRIOR_SQUARE 578.0 /* mean of their squares */
#define SHAPE_MOST 0.4
#define SHAPE_PRIOR 50.0
#define EXCEEDING 2.7

static double place_of(double score) {
    return fmin(fmax(score * WIDTH, 0), CALIBRATION_BINS - 0.01);
}

/* -log10 of the share of the tail that is further above the edge than u. */
static double tail_of(const struct calibration *c, double u) {
    double prior = PRIOR * c->sums.weight, count = c->above + prior, edge = c->edge - 0.5;
    double a = fmax((c->first - edge * c->above + prior * PRIOR_MEAN) / count, 0.5);
    double b = (c->second - (2 * c->first - edge * c->above) * edge + prior * PRIOR_SQUARE) / count;
    double shape = 0.5 - 0.5 * a * a / (b - a * a);
    shape *= c->above / (c->above + SHAPE_PRIOR * c->sums.weight);
    shape = fmin(fmax(shape, -SHAPE_MOST), SHAPE_MOST) + 1e-300; /* not 0 */
    double units = (u - c->edge) / (a * (1 - shape));
    return log1p(fmax(shape * units, -1 + 1e-12)) / (shape * M_LN10);
}

double calibration_rarity(const struct calibration *c, double score) {
    double total = c->sums.total, weight = c->sums.weight, u = place_of(score), beyond = c->above;
    int n = (int)u;
    if (isnan(score) || total < ENOUGH * fmax(weight, 1))
        return NAN;
    if (u >= c->edge)
        return tail_of(c, u) - log10(fmax(beyond / total, 0.5 * weight / (total + weight)));
    for (int i = (int)c->edge - 1; i > n; i--)
        beyond += c->mass[i];
    beyond += c->mass[n] * (n + 1 - u) + 0.5 * weight;
    return fmax(-log10(beyond / (total + weight)), 0);
}

/* Adds the mass of a bin to the sums above the edge. */
static void count(struct calibration *c, double bin, double mass) {
    c->above += mass;
    c->first += mass * bin;
    c->second += mass * bin * bin;
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
    int n = (int)place_of(score);
    histogram_learn(&c->sums, c->mass, CALIBRATION_BINS, (size_t)n, 1, GROWTH);
    if (n >= c->edge)
        count(c, n, c->sums.weight);
    if (c->sums.weight == 1) { /* all masses were divided */
        c->above = c->first = c->second = 0;
        c->edge = CALIBRATION_BINS;
    }
    for (; c->edge < CALIBRATION_BINS && c->above > UPPER * c->sums.total; c->edge++)
        count(c, c->edge, -c->mass[(int)c->edge]);
    for (; c->edge > 1 && c->above + c->mass[(int)c->edge - 1] <= UPPER * c->sums.total; c->edge--)
        count(c, c->edge - 1, c->mass[(int)c->edge - 1]);
}

double calibration_threshold(const struct calibration *c, double rate) {
    return log10((c->bunches + 5) / (c->exceeding + 10) / rate);
}

bool calibration_valid(const struct calibration *c) {
    return finite_within(&c->steps, 8, FINITE_MOST) && c->bunches >= 0 &&
           c->exceeding >= c->bunches && c->edge >= 0 && c->edge <= CALIBRATION_BINS &&
           c->edge == floor(c->edge) && histogram_valid(&c->sums, c->mass, CALIBRATION_BINS);
}
