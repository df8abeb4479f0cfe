/* r, z = s(x_rz + h_rz); n = tanh(x_n + r h_n); h' = (1 - z) n + z h, where x and h are the two
   sums after their norms: r and z are one group, n is another. The inner value is h_n, for the
   gradient of r. Gates are in PyTorch's order, r z n. */
#ifndef RUNNEL_CELLS_GRU_H
#define RUNNEL_CELLS_GRU_H

#include "unit.h"

KIND_CONSTANT struct cell_kind gru_kind = {
    .kind = {.name = "gru",
             .what = "gated recurrent unit",
             .keys = {"size", "recurrent", "memory"}},
    .gates = 3,
    .outputs = 1,
    .states = 1,
    .apart = true,
    .gated = true,
    .inner = true,
    .own = true,
    .carries = true,
    .group_gates = {2, 1},
    .memory = {0, 1},
    .finished_gate = 3,
    .tensors = {{TENSOR_WEIGHT_IH, "weight_ih", COLUMNS_INPUTS},
                {TENSOR_WEIGHT_HH, "weight_hh", COLUMNS_UNITS},
                {TENSOR_BIAS_IH, "bias_ih", COLUMNS_NONE},
                {TENSOR_BIAS_HH, "bias_hh", COLUMNS_NONE, true}},
    .norms = {"norm_ih", "norm_hh"},
    .functions = 3,
    .forward = 7,
    .backward = 16,
};

FORMULA void gru_gates(struct cell_unit *u) {
    u->gate[0] = formula_sigmoid(u->ih[0] + u->hh[0]);
    u->gate[1] = formula_sigmoid(u->ih[1] + u->hh[1]);
    u->gate[2] = u->ih[2];
    u->inner = u->hh[2];
}

FORMULA void gru_forward(struct cell_unit *u) {
    float r = u->gate[0], z = u->gate[1];
    float n = formula_tanh(u->gate[2] + r * u->inner);
    u->gate[2] = n;
    u->out = (1.0f - z) * n + z * u->h;
}

FORMULA void gru_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    float r = u->gate[0], z = u->gate[1], n = u->gate[2];
    g->gate[2] = d * (1.0f - z) * formula_tanh_gradient(n);
    g->gate[0] = g->gate[2] * u->inner * formula_sigmoid_gradient(r);
    g->gate[1] = d * (u->h - n) * formula_sigmoid_gradient(z);
    g->own = g->gate[2] * r;
    g->before = d * z;
}

#define gru_factors cell_has_no_stage
#define gru_finish cell_has_no_stage
#define gru_finish_backward cell_has_no_finish_backward

#endif
