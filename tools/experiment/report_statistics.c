#include "report_statistics.h"

#include <float.h>
#include <math.h>

struct statistics_sample statistics_of(const double *values, size_t count) {
    struct statistics_sample sample = {
        .mean = NAN, .deviation = NAN, .least = NAN, .greatest = NAN};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) {
            sample.count++;
            sum += values[i];
            sample.least = fmin(sample.least, values[i]);
            sample.greatest = fmax(sample.greatest, values[i]);
        }
    if (!sample.count)
        return sample;
    sample.mean = sum / (double)sample.count;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            squares += (values[i] - sample.mean) * (values[i] - sample.mean);
    if (sample.least == sample.greatest) { /* equal values: ignore rounding of the sum */
        sample.mean = sample.least;
        squares = 0;
    }
    if (sample.count > 1)
        sample.deviation = sqrt(squares / (double)(sample.count - 1));
    return sample;
}

/* Whether a ranks before b; false for ties. */
static bool is_better(double a, double b, bool larger_better) {
    if (!isfinite(a) || !isfinite(b))
        return isfinite(a) && !isfinite(b);
    return larger_better ? a > b : a < b;
}

void statistics_ranks(const double *values, size_t count, bool larger_better, double *ranks) {
    for (size_t i = 0; i < count; i++) {
        size_t better = 0, worse = 0;
        for (size_t j = 0; j < count; j++) {
            better += is_better(values[j], values[i], larger_better);
            worse += is_better(values[i], values[j], larger_better);
        }
        ranks[i] = ((double)better + 1 + (double)(count - worse)) / 2;
    }
}

/* ---- Student's t ---- */

#define FRACTION_TINY 1e-300
enum { FRACTION_TERMS = 10000 };

/* Neither zero nor so small that its inverse is infinite. */
static double away_from_zero(double x) {
    return fabs(x) < FRACTION_TINY ? FRACTION_TINY : x;
}

/* The continued fraction of the incomplete beta function, DLMF 8.17.22
   (https://dlmf.nist.gov/8.17), 1/(1 + d_1/(1 + d_2/(1 + ...))), d_2m = m (b - m) x / ((a + 2m -
   1) (a + 2m)), d_2m+1 = -(a + m) (a + b + m) x / ((a + 2m) (a + 2m + 1)), by the method of
   Lentz in the form of Thompson and Barnett (1986): from the front, until a term has no effect. */
static double beta_fraction(double a, double b, double x) {
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m < FRACTION_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        f *= c * d;
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        f *= c * d;
        if (fabs(c * d - 1) < DBL_EPSILON)
            break;
    }
    return f;
}

/* I_x(a, b); y = 1 - x, exact if x is near 1. Fast on one side of (a + 1) / (a + b + 2): I_x(a,
   b) = 1 - I_y(b, a). */
static double incomplete_beta(double a, double b, double x, double y) {
    if (x <= 0)
        return 0;
    if (y <= 0)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

double statistics_student(double t, double degrees) {
    double square = t * t;
    if (isnan(t) || !(degrees > 0))
        return NAN;
    if (isinf(square))
        return 0;
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + square),
                           square / (degrees + square));
}

struct statistics_test statistics_paired(const double *differences, size_t count) {
    struct statistics_sample sample = statistics_of(differences, count);
    struct statistics_test test = {.pairs = sample.count, .mean = sample.mean, .p = NAN};
    if (sample.count < 2)
        return test;
    if (sample.deviation > 0)
        test.p = statistics_student(sample.mean / (sample.deviation / sqrt((double)sample.count)),
                                    (double)(sample.count - 1));
    else if (sample.mean == 0)
        test.p = 1;
    return test;
}

/* ---- Several tests ---- */

/* Multiplies the k-th smallest p of m by (m - k + 1), and keeps the order. Each finds its rank
   by counting, without sorting. */
void statistics_holm(double *p, size_t count) {
    double adjusted = 0;
    size_t tests = 0;
    for (size_t i = 0; i < count; i++)
        tests += !isnan(p[i]);
    /* Adjusted values are marked by their sign. */
    for (size_t done = 0; done < tests; done++) {
        size_t next = count;
        for (size_t i = 0; i < count; i++)
            if (!isnan(p[i]) && !signbit(p[i]) && (next == count || p[i] < p[next]))
                next = i;
        adjusted = fmax(adjusted, fmin(1, (double)(tests - done) * p[next]));
        p[next] = -adjusted;
    }
    for (size_t i = 0; i < count; i++)
        p[i] = isnan(p[i]) ? p[i] : fabs(p[i]);
}
