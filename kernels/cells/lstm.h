/* i, f, g, o = the sum of both sums after their norms; c' = s(f) c + s(i) tanh(g); h' = s(o)
   tanh(LN(c')): eq. 20-22 of the supplement of Ba, Kiros and Hinton (2016). c' is the inner
   value; the next step gets c' before its norm. Gates are in PyTorch's order, i f g o. */
#ifndef RUNNEL_CELLS_LSTM_H
#define RUNNEL_CELLS_LSTM_H

#include "unit.h"

KIND_CONSTANT struct cell_kind lstm_kind = {
    .kind = {.name = "lstm",
             .what = "long short-term memory",
             .keys = {"size", "forget_bias", "recurrent", "memory"}},
    .gates = 4,
    .outputs = 1,
    .states = 2,
    .apart = true,
    .gated = true,
    .inner = true,
    .finishes = true,
    .carries = true,
    .group_gates = {4},
    .forget_gate = 1,
    .memory = {-1, 1},
    .finished_gate = 3,
    .tensors = {{TENSOR_WEIGHT_IH, "weight_ih", COLUMNS_INPUTS},
                {TENSOR_WEIGHT_HH, "weight_hh", COLUMNS_UNITS},
                {TENSOR_BIAS_IH, "bias_ih", COLUMNS_NONE},
                {TENSOR_BIAS_HH, "bias_hh", COLUMNS_NONE, true}},
    .norms = {"norm_ih", "norm_hh", "norm_c"},
    .functions = 5,
    .forward = 8,
    .backward = 22,
};

FORMULA void lstm_gates(struct cell_unit *u) {
    u->gate[0] = formula_sigmoid(u->ih[0] + u->hh[0]);
    u->gate[1] = formula_sigmoid(u->ih[1] + u->hh[1]);
    u->gate[2] = formula_tanh(u->ih[2] + u->hh[2]);
    u->gate[3] = formula_sigmoid(u->ih[3] + u->hh[3]);
}

FORMULA void lstm_forward(struct cell_unit *u) {
    float i = u->gate[0], f = u->gate[1], g = u->gate[2];
    u->inner = f * u->before + i * g;
}

FORMULA void lstm_finish(struct cell_unit *u) {
    u->squashed = formula_tanh(u->inner);
    u->out = u->gate[3] * u->squashed;
}

FORMULA void lstm_finish_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    float o = u->gate[3], s = u->squashed;
    g->gate[3] = d * s * formula_sigmoid_gradient(o);
    g->inner = d * o * formula_tanh_gradient(s);
}

FORMULA void lstm_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    float i = u->gate[0], f = u->gate[1], c = u->gate[2];
    g->gate[0] = d * c * formula_sigmoid_gradient(i);
    g->gate[1] = d * u->before * formula_sigmoid_gradient(f);
    g->gate[2] = d * i * formula_tanh_gradient(c);
    g->before = d * f;
}

#define lstm_factors cell_has_no_stage

#endif
