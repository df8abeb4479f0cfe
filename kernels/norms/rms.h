/* Root mean square (Zhang and Sennrich 2019): mean = 0, deviation = sqrt(mean(a^2) + epsilon) over
   the units of a group of one step of one stream. */
#ifndef RUNNEL_NORMS_RMS_H
#define RUNNEL_NORMS_RMS_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind rms_kind = {
    .kind = {.name = "rms",
             .what = "root mean square (Zhang and Sennrich, 2019): layer normalization without "
                     "subtracting the mean",
             .keys = {"gain"}},
    .source = SOURCE_GROUP,
    .summary = " rms norm",
    .forward = 5,  /* mean square 2, normalized 1, gain and bias 2 */
    .backward = 9, /* gradients of gain and bias 3, mean 3, of the number 3 */
};

#endif
