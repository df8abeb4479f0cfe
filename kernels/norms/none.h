/* No normalization: weights are interchangeable with those of torch.nn. */
#ifndef RUNNEL_NORMS_NONE_H
#define RUNNEL_NORMS_NONE_H

#include "kinds.h"

KIND_CONSTANT struct norm_kind none_kind = {
    .kind = {.name = "none",
             .what = "no normalization: rnn, gru and lstm have the same weights as in PyTorch"},
    .source = SOURCE_NOTHING,
    .outputs = true,
    .summary = "",
};

#endif
