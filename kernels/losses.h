/* The losses' formulas for one step, each in its own file (losses/). Written once for every engine,
   in double, in forms that stay finite for any finite activations and targets (log-sum-exp;
   exponents limited where the true value exceeds the range of double). Gradients are with respect
   to the activations.

   A loss NAME defines, by its walk (kinds.def):
     numbers      NAME_number
     classes      NAME_term, NAME_loss
     components   NAME_component, NAME_number */
#ifndef RUNNEL_LOSSES_H
#define RUNNEL_LOSSES_H

#include <math.h>

#include "formulas.h"
#include "kinds.h"

#define LOG_2PI 1.8378770664093454836

/* NaN: a number of a target that is not observed, and not learned. */
FORMULA bool loss_observed(float y) {
    return y == y;
}

/* One component. `a` points to its logit; activations of the other parts follow in the same
   order, `stride` apart. Results are -log N, the density at the target, and its gradients: */
struct loss_component {
    double log_density;
    double gradient[COMPONENT_PARTS_MAX]; /* the walk computes [0], that of the logit */
};

/* The types of these formulas: `a` are activations, `stride` the distance between parts. */
typedef double number_formula(const float *a, size_t stride, float y, double *gradient);
typedef float term_formula(float a, float most);
typedef double class_formula(double sum, float most, float of_class);
typedef struct loss_component component_formula(const float *a, size_t stride,
                                                const union value *y);

#define INCLUDE_LOSSES
#include "kinds.def"

#endif
