/* A pen's offset as a mixture of bivariate normals, and the end of its stroke: Graves (2013),
   eq. 23-26, with s(a_0) for the end. A target is y1, y2 (learned when both are observed), end. */
#ifndef RUNNEL_LOSSES_MIXTURE_H
#define RUNNEL_LOSSES_MIXTURE_H

#include "losses.h"
#include "losses/bernoulli.h"

#define MIXTURE_LOG_4 1.3862943611198906188
/* The square of any float times e^(2 MIXTURE_EXPONENT_MAX), and that divided by 1 - rho^2 of
   MIXTURE_ATANH_MAX, are still finite in double. */
#define MIXTURE_EXPONENT_MAX 150.0
#define MIXTURE_ATANH_MAX 90.0

static const struct loss_kind mixture_kind = {
    .name = "mixture",
    .what =
        "pen strokes (Graves, 2013): a mixture of normals over two offsets, and an end of stroke",
    .size = 3,
    .size_reason = "two offsets and an end",
    .together = 2,
    .metrics = METRIC_BITS,
    .parts = {{"end", EXTENT_ONCE, MEANS_PROBABILITY, UNIT_NONE},
              {"weights", EXTENT_COMPONENTS, MEANS_SHARE, UNIT_NONE},
              {"mean1", EXTENT_COMPONENTS, MEANS_ITSELF, UNIT_NONE},
              {"mean2", EXTENT_COMPONENTS, MEANS_ITSELF, UNIT_NONE},
              {"sd1", EXTENT_COMPONENTS, MEANS_EXPONENTIAL, UNIT_NONE},
              {"sd2", EXTENT_COMPONENTS, MEANS_EXPONENTIAL, UNIT_NONE},
              {"rho", EXTENT_COMPONENTS, MEANS_TANH, UNIT_NONE}},
};

/* A component's activations. */
enum mixture_row {
    MIXTURE_LOGIT,
    MIXTURE_MEAN1,
    MIXTURE_MEAN2,
    MIXTURE_LOG_SD1,
    MIXTURE_LOG_SD2,
    MIXTURE_ATANH_RHO,
};

/* The end of a stroke. */
FORMULA double mixture_number(const float *a, size_t stride, float y, double *gradient) {
    return bernoulli_number(a, stride, y, gradient);
}

FORMULA double mixture_bounded_exp(double exponent) {
    return exp(exponent < MIXTURE_EXPONENT_MAX ? exponent : MIXTURE_EXPONENT_MAX);
}

/* log N(y1, y2), eq. 24-25, and its gradients as in eq. 33-35 before the responsibility. */
FORMULA struct loss_component mixture_component(const float *a, size_t stride,
                                                const union value *y) {
    float log_sd1 = a[MIXTURE_LOG_SD1 * stride], log_sd2 = a[MIXTURE_LOG_SD2 * stride];
    float atanh_rho = a[MIXTURE_ATANH_RHO * stride];
    double rstd1 = mixture_bounded_exp(-(double)log_sd1);
    double rstd2 = mixture_bounded_exp(-(double)log_sd2);
    double d1 = ((double)y[0].real - (double)a[MIXTURE_MEAN1 * stride]) * rstd1;
    double d2 = ((double)y[1].real - (double)a[MIXTURE_MEAN2 * stride]) * rstd2;
    double r = fabs((double)atanh_rho), bounded = r < MIXTURE_ATANH_MAX ? r : MIXTURE_ATANH_MAX;
    double t = exp(-2.0 * bounded), rho = (1.0 - t) / (1.0 + t);
    double rest = 4.0 * t / ((1.0 + t) * (1.0 + t)); /* 1 - rho^2, without cancellation */
    rho = atanh_rho < 0 ? -rho : rho;
    double log_rest = MIXTURE_LOG_4 - 2.0 * r - 2.0 * log1p(t);
    double e1 = (d1 - rho * d2) / rest, e2 = (d2 - rho * d1) / rest;
    double z = (d1 - rho * d2) * e1 + d2 * d2;
    struct loss_component c;
    c.log_density = -0.5 * z - LOG_2PI - (double)log_sd1 - (double)log_sd2 - 0.5 * log_rest;
    c.gradient[MIXTURE_LOGIT] = 0;
    c.gradient[MIXTURE_MEAN1] = -e1 * rstd1;
    c.gradient[MIXTURE_MEAN2] = -e2 * rstd2;
    c.gradient[MIXTURE_LOG_SD1] = 1.0 - d1 * e1;
    c.gradient[MIXTURE_LOG_SD2] = 1.0 - d2 * e2;
    c.gradient[MIXTURE_ATANH_RHO] = -(d1 * d2 + rho * (1.0 - z));
    return c;
}

#endif
