/* e-prop (Bellec, Scherr, Subramoney, Hajek, Salaj, Legenstein and Maass 2020, "A solution to the
   learning dilemma for recurrent networks of spiking neurons"), in its form for lstm: eligibility
   passes only through the cell's own state, and the learning signal is the loss of the step.

   With c_u the inner state of unit u, f_u its forget gate, and p a parameter of one of its sums,

     e_t(p) = f_u e_t-1(p) + I_t(p),  e_0 = 0    (the eligibility vector)
     I_t(p) = dc_u / dp of the step alone, with the previous h as a constant

   The gradient of the loss of step t with respect to p has two parts. One is that of the step
   alone (exact through it and its norms; for the output gate the only part). The other is l_u
   e_t-1(p), where l_u = dL_t/dc_u of the previous step, through this step and the layers above
   it: the learning signal by the output's own weights (symmetric e-prop), times dh/dc and f_u.
   With a norm of groups, I treats its mean and deviation as constants, as in snap1.h. */
#ifndef RUNNEL_RULES_EPROP_H
#define RUNNEL_RULES_EPROP_H

#include "kinds.h"

KIND_CONSTANT struct rule_kind eprop_kind = {
    .name = "eprop",
    .what = "e-prop (Bellec et al., 2020), for lstm: eligibility traces through the cell's own "
            "state, one number per parameter",
    .keeps = KEEPS_TRACE,
    .states = 2,
};

#endif
