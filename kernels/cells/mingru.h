/* z = s(x_z), c = x_c; h' = (1 - z) h + z c, where x is W_ih x + b_ih: minGRU (Feng and others
   2024, "Were RNNs all we needed?"), with g = identity. Its units are columns: none hears another
   one. Gates are in the order z c. */
#ifndef RUNNEL_CELLS_MINGRU_H
#define RUNNEL_CELLS_MINGRU_H

#include "unit.h"

KIND_CONSTANT struct cell_kind mingru_kind = {
    .kind = {.name = "mingru",
             .what = "minimal gated unit that hears no other unit of its layer",
             .keys = {"size", "memory"}},
    .gates = 2,
    .outputs = 1,
    .states = 1,
    .columns = true,
    .gated = true,
    .carries = true,
    .group_gates = {2},
    .memory = {-1},
    .finished_gate = 2,
    .tensors = {{TENSOR_WEIGHT_IH, "weight_ih", COLUMNS_INPUTS},
                {TENSOR_BIAS_IH, "bias_ih", COLUMNS_NONE}},
    .functions = 1,
    .forward = 4,
    .backward = 6,
};

FORMULA void mingru_gates(struct cell_unit *u) {
    u->gate[0] = formula_sigmoid(u->ih[0]);
    u->gate[1] = u->ih[1];
}

FORMULA void mingru_forward(struct cell_unit *u) {
    float z = u->gate[0];
    u->out = formula_finite((1.0f - z) * u->h + z * u->gate[1]);
}

FORMULA void mingru_backward(const struct cell_unit *u, float d, struct cell_gradient *g) {
    float z = u->gate[0];
    g->gate[0] = d * (u->gate[1] - u->h) * formula_sigmoid_gradient(z);
    g->gate[1] = d * z;
    g->before = d * (1.0f - z);
}

#define mingru_factors cell_has_no_stage
#define mingru_finish cell_has_no_stage
#define mingru_finish_backward cell_has_no_finish_backward

#endif
