/* Layer normalization (Ba, Kiros and Hinton 2016): mean = mean(a), deviation = sqrt(mean((a -
   mean)^2) + epsilon), both over the units of a group of one step of one stream. */
#ifndef RUNNEL_NORMS_LAYER_H
#define RUNNEL_NORMS_LAYER_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind layer_kind = {
    .kind = {.name = "layer",
             .what = "layer normalization (Ba, Kiros and Hinton, 2016)",
             .keys = {"gain"}},
    .source = SOURCE_GROUP,
    .centred = true,
    .outputs = true,
    .summary = " norm",
    .forward = 7,   /* mean 1, variance 2, normalized 2, gain and bias 2 */
    .backward = 11, /* gradients of gain and bias 3, two means 4, of the number 4 */
};

#endif
