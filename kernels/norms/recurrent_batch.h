/* Recurrent batch normalization (Cooijmans et al. 2017) online: batch with separate statistics
   for each of the first norm_steps steps of a stream. */
#ifndef RUNNEL_NORMS_RECURRENT_BATCH_H
#define RUNNEL_NORMS_RECURRENT_BATCH_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind recurrent_batch_kind = {
    .kind = {.name = "recurrent_batch",
             .what = "batch normalization with separate statistics for each of the first "
                     "norm_steps steps of a stream (Cooijmans et al., 2017)",
             .keys = {"gain", "norm_momentum", "norm_steps"}},
    .source = SOURCE_RUNNING,
    .by_age = true,
    .summary = " recurrent batch norm",
    .forward = 4,  /* normalized 2, gain and bias 2 */
    .backward = 5, /* gradients of gain and bias 3, of the number 2 */
};

#endif
