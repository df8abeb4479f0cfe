/* A convolution within a step, without padding: at each position h = f(LN(W patch + b)), as
   torch.nn.Conv2d. Units are channels, rows and columns, in this order. */
#ifndef RUNNEL_CELLS_CONV_H
#define RUNNEL_CELLS_CONV_H

#include "kinds.h"

KIND_CONSTANT struct cell_kind conv_kind = {
    .kind = {.name = "conv",
             .what = "convolution within an input that has rows and columns, stateless",
             .keys = {"channels", "kernel", "stride", "norm_groups", "activation"}},
    .gates = 1,
    .outputs = 1,
    .function = true,
    .spatial = true,
    .group_gates = {1},
    .finished_gate = 1,
    .tensors = {{TENSOR_WEIGHT_IH, "weight", COLUMNS_INPUTS},
                {TENSOR_BIAS_IH, "bias", COLUMNS_NONE}},
    .norms = {"norm"},
    .forward = 1,
    .backward = 1,
};

#endif
