/* h' = tanh(LN(W_ih x + b_ih + W_hh h)); without norm + b_hh. */
#ifndef RUNNEL_CELLS_RNN_H
#define RUNNEL_CELLS_RNN_H

#include "unit.h"

KIND_CONSTANT struct cell_kind rnn_kind = {
    .kind = {.name = "rnn", .what = "recurrent, with tanh", .keys = {"size", "recurrent"}},
    .gates = 1,
    .outputs = 1,
    .states = 1,
    .group_gates = {1},
    .finished_gate = 1,
    .tensors = {{TENSOR_WEIGHT_IH, "weight_ih", COLUMNS_INPUTS},
                {TENSOR_WEIGHT_HH, "weight_hh", COLUMNS_UNITS},
                {TENSOR_BIAS_IH, "bias_ih", COLUMNS_NONE},
                {TENSOR_BIAS_HH, "bias_hh", COLUMNS_NONE, true}},
    .norms = {"norm"},
    .functions = 1,
    .forward = 1,
    .backward = 3,
};

FORMULA void rnn_forward(struct cell_unit *u) {
    u->out = formula_tanh(u->ih[0]);
}

FORMULA void rnn_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    g->gate[0] = d * formula_tanh_gradient(u->out);
}

#define rnn_factors cell_has_no_stage
#define rnn_gates cell_has_no_stage
#define rnn_finish cell_has_no_stage
#define rnn_finish_backward cell_has_no_finish_backward

#endif
