#include "tail.h"

#include <math.h>
#include <string.h>

#define GROWTH (2001.0 / 2000)
#define UPPER 0.05
#define PRIOR 60.0
#define PRIOR_SLOPE 0.3
#define ENOUGH 20.0
#define LEAST_FEATURE 1e-12
#define HIGHEST (TAIL_BINS - 1.01)
#define WEIGHT_MOST 1e6   /* then all masses are divided by it */
#define TOTAL_MOST 4096.0 /* limit of the sum of weights, which tends to 2001 */
#define ROUNDING 1e-6     /* share of the total, relative to its sum */
#define MASS_LEAST 1e-100 /* below it an old value counts as 0 */

void tail_begin(struct tail *tail) {
    memset(tail, 0, sizeof *tail);
    tail->weight = 1;
}

/* In bins. */
static double place_of(double feature) {
    return fmin(fmax(TAIL_WIDTH * log2(feature + LEAST_FEATURE) + TAIL_ZERO, 0), HIGHEST);
}

bool tail_knows(const struct tail *tail) {
    return tail->total > ENOUGH * tail->weight;
}

double tail_unlikeliness(const struct tail *tail, double feature) {
    if (!tail_knows(tail))
        return 0;
    const double *mass = tail->mass;
    double u = place_of(feature), beyond = 0, steps = 0;
    int n = (int)u, upper = (int)tail->top;
    /* `steps` is the sum of m(i) (i - upper) over the bins above it. */
    while (beyond + mass[upper] < UPPER * tail->total && upper > 0) {
        beyond += mass[upper--];
        steps += beyond;
    }
    double probability, weight = tail->weight;
    if (n > upper) {
        double slope =
            (steps + PRIOR * PRIOR_SLOPE * TAIL_WIDTH * weight) / (beyond + PRIOR * weight);
        probability = (beyond + 0.5 * mass[upper]) / tail->total;
        return fmax((u - upper - 0.5) / (slope * M_LN10) - log10(probability), 0);
    }
    for (int i = upper; i > n; i--)
        beyond += mass[i];
    probability = (beyond + 0.5 * (mass[n] + weight)) / (tail->total + weight);
    return fmax(-log10(probability), 0);
}

static void divide(struct tail *tail) {
    double total = 0;
    int top = 0;
    for (int i = 0; i < TAIL_BINS; i++) {
        double mass = tail->mass[i] / tail->weight;
        tail->mass[i] = mass < MASS_LEAST ? 0 : mass;
        total += tail->mass[i];
        top = tail->mass[i] > 0 ? i : top;
    }
    tail->total = total;
    tail->top = top;
    tail->weight = 1;
}

void tail_learn(struct tail *tail, double feature) {
    int n = (int)place_of(feature);
    tail->weight *= GROWTH;
    tail->mass[n] += tail->weight;
    tail->total += tail->weight;
    tail->top = fmax(tail->top, n);
    if (tail->weight > WEIGHT_MOST)
        divide(tail);
}

bool tail_valid(const struct tail *tail) {
    double sum = 0;
    bool valid = tail->weight >= 1 && tail->weight <= WEIGHT_MOST && tail->top >= 0 &&
                 tail->top < TAIL_BINS && tail->top == floor(tail->top) && tail->total >= 0 &&
                 tail->total <= TOTAL_MOST * tail->weight;
    for (int i = 0; valid && i < TAIL_BINS; i++) {
        valid = tail->mass[i] >= 0 && !(i > tail->top && tail->mass[i]);
        sum += tail->mass[i];
    }
    return valid && fabs(tail->total - sum) <= ROUNDING * tail->total;
}
