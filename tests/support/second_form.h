/* A second implementation in double of the rules with a trace, from their equations
   (kernels/rules/snap1.h, eprop.h): every derivative is a central difference. Shares no
   arithmetic with kernels/. For inputs of numbers, without a skip path, and norms without ages. */
#ifndef RUNNEL_TESTS_SECOND_FORM_H
#define RUNNEL_TESTS_SECOND_FORM_H

#include "model/model.h"

/* The gradient (model.learned,) of the mean loss over the learned targets among the last
   `closed` of a stream's first steps. x: (steps, I), y: (steps, target_size), learned: (steps,).
   Restores `parameters`. */
void second_form(const struct model *model, enum rule rule, double *parameters,
                 const union value *x, const union value *y, const bool *learned, size_t steps,
                 size_t closed, double *gradient);

#endif
