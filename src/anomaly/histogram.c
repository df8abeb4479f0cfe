#include "histogram.h"

#include <math.h>

#define WEIGHT_MOST 1e6   /* then all masses are divided by it */
#define TOTAL_MOST 2e9    /* limit of the sum of weights, 1 / (1 - 1 / growth) */
#define ROUNDING 1e-6     /* share of the total, relative to its sum */
#define MASS_LEAST 1e-100 /* below it an old value counts as 0 */

static void divide(struct histogram *histogram, double *mass, size_t bins) {
    double total = 0;
    size_t top = 0;
    for (size_t i = 0; i < bins; i++) {
        double divided = mass[i] / histogram->weight;
        mass[i] = divided < MASS_LEAST ? 0 : divided;
        total += mass[i];
        top = mass[i] > 0 ? i : top;
    }
    *histogram = (struct histogram){1, total, (double)top};
}

void histogram_learn(struct histogram *histogram, double *mass, size_t bins, size_t bin,
                     double share, double growth) {
    histogram->weight = fmax(histogram->weight, 1) * growth;
    mass[bin] += histogram->weight * share;
    histogram->total += histogram->weight * share;
    histogram->top = fmax(histogram->top, (double)bin);
    if (histogram->weight > WEIGHT_MOST)
        divide(histogram, mass, bins);
}

bool histogram_valid(const struct histogram *histogram, const double *mass, size_t bins) {
    const struct histogram *h = histogram;
    double sum = 0;
    bool valid = (h->weight >= 1 || (h->weight == 0 && h->total == 0)) &&
                 h->weight <= WEIGHT_MOST && h->top >= 0 && h->top < (double)bins &&
                 h->top == floor(h->top) && h->total >= 0 && h->total <= TOTAL_MOST * h->weight;
    for (size_t i = 0; valid && i < bins; i++) {
        valid = mass[i] >= 0 && !((double)i > h->top && mass[i] > 0);
        sum += mass[i];
    }
    return valid && fabs(h->total - sum) <= ROUNDING * h->total;
}
