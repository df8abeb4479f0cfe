/* Losses of one step and their slopes, written once for every engine: in double, and in forms that
   stay finite for any finite activations and targets (log-sum-exp; exponents bounded where the true
   value leaves the range of double). Slopes are with respect to the activations. */
#ifndef RUNNEL_LOSSES_H
#define RUNNEL_LOSSES_H

#include <math.h>

#include "formulas.h"
#include "model/model.h"

#define LOSS_LOG_2PI 1.8378770664093454836
#define LOSS_LOG_4 1.3862943611198906188

/* e^500 times the square of any float is still finite in double. */
#define LOSS_EXPONENT_MAX 500.0
/* The same for the mixture, whose deviations are divided by 1 - rho^2 once more. */
#define LOSS_MIXTURE_EXPONENT_MAX 150.0
#define LOSS_MIXTURE_ATANH_MAX 90.0

/* NaN: a number of a target that is not observed, and not learned from. */
FORMULA bool loss_observed(float y) {
    return y == y;
}

/* (a - y)^2 */
FORMULA double loss_squared(float a, float y, double *slope) {
    double d = (double)a - (double)y;
    *slope = 2.0 * d;
    return d * d;
}

/* -log N(y; mean, e^logvar) = (log 2 pi + logvar + (y - mean)^2 e^-logvar) / 2 */
FORMULA double loss_gaussian(float mean, float logvar, float y, double *slope_mean,
                             double *slope_logvar) {
    double d = (double)mean - (double)y;
    double exponent = -(double)logvar;
    double precision = exp(exponent < LOSS_EXPONENT_MAX ? exponent : LOSS_EXPONENT_MAX);
    *slope_mean = d * precision;
    *slope_logvar = 0.5 * (1.0 - d * d * precision);
    return 0.5 * (LOSS_LOG_2PI + (double)logvar + d * d * precision);
}

/* -y log s(a) - (1 - y) log(1 - s(a)) = max(a, 0) - a y + log(1 + e^-|a|) */
FORMULA double loss_bernoulli(float a, float y, double *slope) {
    double x = (double)a, t = exp(-fabs(x));
    double sigmoid = x >= 0 ? 1.0 / (1.0 + t) : t / (1.0 + t);
    *slope = sigmoid - (double)y;
    return (x > 0 ? x : 0.0) - x * (double)y + log1p(t);
}

/* One observed number of a target of squared, gaussian or bernoulli, from its activation a. logvar
   and slope_logvar: gaussian only; a target's `size` of them follow its `size` means. */
FORMULA double loss_element(enum loss loss, float a, float logvar, float y, double *slope,
                            double *slope_logvar) {
    if (loss == LOSS_GAUSSIAN)
        return loss_gaussian(a, logvar, y, slope, slope_logvar);
    return loss == LOSS_BERNOULLI ? loss_bernoulli(a, y, slope) : loss_squared(a, y, slope);
}

/* ---- mixture of `components` bivariate normals, and the end of a stroke ---- */

/* A target's numbers: y1, y2, end. */
enum { LOSS_MIXTURE_Y1, LOSS_MIXTURE_Y2, LOSS_MIXTURE_END };

/* The activations of one component, each kind a row of `components` behind that of the end. */
enum loss_mixture_row {
    LOSS_MIXTURE_LOGIT,
    LOSS_MIXTURE_MEAN1,
    LOSS_MIXTURE_MEAN2,
    LOSS_MIXTURE_LOG_SD1,
    LOSS_MIXTURE_LOG_SD2,
    LOSS_MIXTURE_ATANH_RHO,
    LOSS_MIXTURE_ROWS,
};

FORMULA size_t loss_mixture_at(size_t components, size_t row, size_t component) {
    return 1 + row * components + component;
}

/* The density is learned when both of its numbers are observed. */
FORMULA bool loss_mixture_observed(float y1, float y2) {
    return loss_observed(y1) && loss_observed(y2);
}

/* One bivariate normal of Graves (2013), eq. 24-25, from its five activations. */
struct loss_component {
    double log_density; /* log N(y1, y2) */
    double slope_mean1, slope_mean2, slope_log_sd1, slope_log_sd2, slope_atanh_rho;
    /* of -log N, as in eq. 33-35 before the responsibility */
};

FORMULA double loss_bounded_exp(double exponent) {
    return exp(exponent < LOSS_MIXTURE_EXPONENT_MAX ? exponent : LOSS_MIXTURE_EXPONENT_MAX);
}

FORMULA struct loss_component loss_normal(float mean1, float mean2, float log_sd1, float log_sd2,
                                          float atanh_rho, float y1, float y2) {
    double inverse1 = loss_bounded_exp(-(double)log_sd1);
    double inverse2 = loss_bounded_exp(-(double)log_sd2);
    double d1 = ((double)y1 - (double)mean1) * inverse1;
    double d2 = ((double)y2 - (double)mean2) * inverse2;
    double r = fabs((double)atanh_rho),
           bounded = r < LOSS_MIXTURE_ATANH_MAX ? r : LOSS_MIXTURE_ATANH_MAX;
    double t = exp(-2.0 * bounded), rho = (1.0 - t) / (1.0 + t);
    double rest = 4.0 * t / ((1.0 + t) * (1.0 + t)); /* 1 - rho^2, without cancellation */
    rho = atanh_rho < 0 ? -rho : rho;
    double log_rest = LOSS_LOG_4 - 2.0 * r - 2.0 * log1p(t);
    double e1 = (d1 - rho * d2) / rest, e2 = (d2 - rho * d1) / rest;
    double z = (d1 - rho * d2) * e1 + d2 * d2;
    struct loss_component c;
    c.log_density = -0.5 * z - LOSS_LOG_2PI - (double)log_sd1 - (double)log_sd2 - 0.5 * log_rest;
    c.slope_mean1 = -e1 * inverse1;
    c.slope_mean2 = -e2 * inverse2;
    c.slope_log_sd1 = 1.0 - d1 * e1;
    c.slope_log_sd2 = 1.0 - d2 * e2;
    c.slope_atanh_rho = -(d1 * d2 + rho * (1.0 - z));
    return c;
}

/* The same from a step's activations a (1 + 6 components,). */
FORMULA struct loss_component loss_mixture_component(const float *a, size_t components,
                                                     size_t component, float y1, float y2) {
    const float *p = a + loss_mixture_at(components, 0, component);
    return loss_normal(p[LOSS_MIXTURE_MEAN1 * components], p[LOSS_MIXTURE_MEAN2 * components],
                       p[LOSS_MIXTURE_LOG_SD1 * components], p[LOSS_MIXTURE_LOG_SD2 * components],
                       p[LOSS_MIXTURE_ATANH_RHO * components], y1, y2);
}

/* Slopes of -scale log sum_j pi_j N_j, pi = softmax(logits), with respect to one component's
   activations, by row: Graves (2013), eq. 29, 33-35. weight: its pi_j; share: its responsibility
   pi_j N_j / sum. A component of no responsibility has no slopes, however far off it is. */
FORMULA void loss_mixture_slopes(const struct loss_component *c, double weight, double share,
                                 double scale, double slopes[LOSS_MIXTURE_ROWS]) {
    double g = share * scale;
    slopes[LOSS_MIXTURE_LOGIT] = (weight - share) * scale;
    slopes[LOSS_MIXTURE_MEAN1] = g == 0 ? 0 : g * c->slope_mean1;
    slopes[LOSS_MIXTURE_MEAN2] = g == 0 ? 0 : g * c->slope_mean2;
    slopes[LOSS_MIXTURE_LOG_SD1] = g == 0 ? 0 : g * c->slope_log_sd1;
    slopes[LOSS_MIXTURE_LOG_SD2] = g == 0 ? 0 : g * c->slope_log_sd2;
    slopes[LOSS_MIXTURE_ATANH_RHO] = g == 0 ? 0 : g * c->slope_atanh_rho;
}

#endif
