/* Linear recurrent trace unit (Elelimy, White, Bowling and White 2024, "Real-time recurrent
   learning using trace units in reinforcement learning"): a damped rotation of two numbers, h and
   the inner value, both outputs.

     r = exp(-exp(nu)), t = exp(theta), g = r cos t, q = r sin t, m = sqrt(1 - r^2)
     h' = g h - q c + m u,  c' = g c + q h + m v,  where u, v are W_ih x + b_ih

   Its units are columns. Derivatives of the factors by nu are -e^nu g, -e^nu q, e^nu r^2 / m, those
   by theta -e^theta q, e^theta g, 0. */
#ifndef RUNNEL_CELLS_RTU_H
#define RUNNEL_CELLS_RTU_H

#include "unit.h"

KIND_CONSTANT struct cell_kind rtu_kind = {
    .kind = {.name = "rtu",
             .what = "recurrent trace unit: oscillations that hear no other unit of their layer, "
                     "two outputs each",
             .keys = {"size", "radius"}},
    .gates = 2,
    .outputs = 2,
    .states = 2,
    .columns = true,
    .parameters = 2,
    .gated = true,
    .inner = true,
    .carries = true,
    .group_gates = {2},
    .finished_gate = 2,
    .tensors = {{TENSOR_WEIGHT_IH, "weight_ih", COLUMNS_INPUTS},
                {TENSOR_BIAS_IH, "bias_ih", COLUMNS_NONE},
                {TENSOR_UNIT_0, "log_decay", COLUMNS_NONE, .of_unit = true},
                {TENSOR_UNIT_1, "log_phase", COLUMNS_NONE, .of_unit = true}},
    .forward = 10,
    .backward = 34,
};

/* g, q, m, e^nu and e^theta. Beyond the limits a factor is that at the limit. */
FORMULA void rtu_factors(struct cell_unit *u) {
    const float least = -60.0f, most = 15.0f;
    float nu = u->parameter[0], theta = u->parameter[1];
    float speed = expf(nu < least ? least : nu > most ? most : nu);
    float turn = expf(theta > most ? most : theta);
    float r = expf(-speed);
    u->factor[0] = r * cosf(turn);
    u->factor[1] = r * sinf(turn);
    u->factor[2] = sqrtf(-expm1f(-2.0f * speed));
    u->factor[3] = speed;
    u->factor[4] = turn;
}

FORMULA void rtu_gates(struct cell_unit *u) {
    u->gate[0] = u->ih[0];
    u->gate[1] = u->ih[1];
}

FORMULA void rtu_forward(struct cell_unit *u) {
    float g = u->factor[0], q = u->factor[1], m = u->factor[2];
    u->out = formula_finite(g * u->h - q * u->before + m * u->gate[0]);
    u->inner = formula_finite(g * u->before + q * u->h + m * u->gate[1]);
}

FORMULA void rtu_backward(const struct cell_unit *u, float d, struct cell_gradient *gradient) {
    float g = u->factor[0], q = u->factor[1], m = u->factor[2], e = gradient->inner;
    float turned = d * u->h + e * u->before, across = e * u->h - d * u->before;
    float along = g * turned + q * across; /* what r's part of h' and c' adds */
    float inputs = d * u->gate[0] + e * u->gate[1];
    gradient->gate[0] = d * m;
    gradient->gate[1] = e * m;
    gradient->h = g * d + q * e;
    gradient->before = g * e - q * d;
    gradient->parameter[0] = u->factor[3] * ((1.0f - m * m) / m * inputs - along);
    gradient->parameter[1] = u->factor[4] * (g * across - q * turned);
}

#define rtu_finish cell_has_no_stage
#define rtu_finish_backward cell_has_no_finish_backward

#endif
