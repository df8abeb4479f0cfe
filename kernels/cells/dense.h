/* A layer without recurrent sum: h = f(LN(W x + b)), and its functions f. With `taps` x is the
   inputs of several steps, one after the other; with `residual` the step's own is added to h. */
#ifndef RUNNEL_CELLS_DENSE_H
#define RUNNEL_CELLS_DENSE_H

#include "unit.h"

KIND_CONSTANT struct cell_kind dense_kind = {
    .kind = {.name = "dense",
             .what = "feed-forward, stateless without taps",
             .keys = {"size", "activation", "taps", "dilation", "residual"}},
    .gates = 1,
    .outputs = 1,
    .function = true,
    .group_gates = {1},
    .finished_gate = 1,
    .tensors = {{TENSOR_WEIGHT_IH, "weight", COLUMNS_INPUTS},
                {TENSOR_BIAS_IH, "bias", COLUMNS_NONE}},
    .norms = {"norm"},
    .forward = 1,
    .backward = 1,
};

KIND_CONSTANT struct activation_kind relu_kind = {.kind = {.name = "relu"}};
KIND_CONSTANT struct activation_kind tanh_kind = {.kind = {.name = "tanh"}, .functions = 1};
KIND_CONSTANT struct activation_kind identity_kind = {.kind = {.name = "identity"}};

/* NaN stays NaN. */
FORMULA float relu_of(float a) {
    return a <= 0.0f ? 0.0f : a;
}

/* The gradient of a from d, that of h = f(a): f' follows from h. */
FORMULA float relu_backward(float h, float d) {
    return h > 0.0f ? d : 0.0f;
}

FORMULA float tanh_of(float a) {
    return formula_tanh(a);
}

FORMULA float tanh_backward(float h, float d) {
    return d * formula_tanh_gradient(h);
}

FORMULA float identity_of(float a) {
    return a;
}

FORMULA float identity_backward(float h, float d) {
    (void)h;
    return d;
}

FORMULA float activation_of(enum activation activation, float a) {
    switch (activation) {
#define ACTIVATION(name)                                                                           \
case ACTIVATION_##name:                                                                            \
    return name##_of(a);
#include "kinds.def"
    default:
        return a;
    }
}

FORMULA float activation_backward(enum activation activation, float h, float d) {
    switch (activation) {
#define ACTIVATION(name)                                                                           \
case ACTIVATION_##name:                                                                            \
    return name##_backward(h, d);
#include "kinds.def"
    default:
        return d;
    }
}

FORMULA void dense_forward(struct cell_unit *u) {
    u->out = activation_of(u->activation, u->ih[0]);
}

FORMULA void dense_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    g->gate[0] = activation_backward(u->activation, u->out, d);
}

#define dense_factors cell_has_no_stage
#define dense_gates cell_has_no_stage
#define dense_finish cell_has_no_stage
#define dense_finish_backward cell_has_no_finish_backward

#endif
