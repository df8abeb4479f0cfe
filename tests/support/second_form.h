/* The rules that keep a trace, written a second time in double from their equations
   (kernels/rules/snap1.h, eprop.h), as plainly as they stand there: every derivative is a central
   difference. Shares no arithmetic with kernels/. For inputs of numbers, without a skip path, and
   norms that do not go by age. */
#ifndef RUNNEL_TESTS_SECOND_FORM_H
#define RUNNEL_TESTS_SECOND_FORM_H

#include "model/model.h"

/* The gradient (model.learned,) of the mean loss over the learned targets among the last `closed`
   of a stream's first steps. x: (steps, I), y: (steps, target_size), learned: (steps,).
   `parameters` is restored. */
void second_form(const struct model *model, enum rule rule, double *parameters,
                 const union value *x, const union value *y, const bool *learned, size_t steps,
                 size_t closed, double *gradient);

#endif
