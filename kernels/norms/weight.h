/* Weight normalization (Salimans and Kingma 2016): mean = 0, deviation of unit i = sqrt(sum of
   squares of the rows of the matrices that form a_i + epsilon); of an inner value 1. */
#ifndef RUNNEL_NORMS_WEIGHT_H
#define RUNNEL_NORMS_WEIGHT_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind weight_kind = {
    .kind = {.name = "weight",
             .what = "weight normalization (Salimans and Kingma, 2016): divides sums by the norm "
                     "of the weights' rows",
             .keys = {"gain"}},
    .source = SOURCE_ROWS,
    .summary = " weight norm",
    .forward = 3,  /* normalized 1, gain and bias 2 */
    .backward = 5, /* gradients of gain and bias 3, of the number 2 */
};

#endif
