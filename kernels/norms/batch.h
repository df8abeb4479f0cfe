/* Batch normalization (Ioffe and Szegedy 2015) online: mean and deviation = sqrt(variance +
   epsilon) of each unit are running ones, over the steps that updates have closed. */
#ifndef RUNNEL_NORMS_BATCH_H
#define RUNNEL_NORMS_BATCH_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind batch_kind = {
    .kind = {.name = "batch",
             .what = "batch normalization (Ioffe and Szegedy, 2015) with running statistics of "
                     "each unit",
             .keys = {"gain", "norm_momentum"}},
    .source = SOURCE_RUNNING,
    .summary = " batch norm",
    .forward = 4,  /* normalized 2, gain and bias 2 */
    .backward = 5, /* gradients of gain and bias 3, of the number 2 */
};

#endif
