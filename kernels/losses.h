/* The losses' formulas, each in a file of its own (losses/), for one step: written once for every
   engine, in double, and in forms that stay finite for any finite activations and targets
   (log-sum-exp; exponents bounded where the true value leaves the range of double). Gradients are
   with respect to the activations.

   A loss NAME gives, by its walk (kinds.def):
     numbers      NAME_number
     classes      NAME_term, NAME_loss
     components   NAME_component, NAME_number */
#ifndef RUNNEL_LOSSES_H
#define RUNNEL_LOSSES_H

#include <math.h>

#include "formulas.h"
#include "kinds.h"

#define LOG_2PI 1.8378770664093454836

/* NaN: a number of a target that is not observed, and not learned from. */
FORMULA bool loss_observed(float y) {
    return y == y;
}

/* One component's activations: `a` points to its logit, those of the other parts follow in the same
   order, each `stride` further on. Of -log N, the density at the target, with respect to them: */
struct loss_component {
    double log_density;
    double gradient[COMPONENT_PARTS_MAX]; /* [0], of the logit, is the walk's own */
};

/* The types of these formulas: `a` are activations, `stride` from one part's to the next. */
typedef double number_formula(const float *a, size_t stride, float y, double *gradient);
typedef float term_formula(float a, float most);
typedef double class_formula(double sum, float most, float of_class);
typedef struct loss_component component_formula(const float *a, size_t stride,
                                                const union value *y);

#define INCLUDE_LOSSES
#include "kinds.def"

#endif
