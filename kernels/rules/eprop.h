/* e-prop (Bellec, Scherr, Subramoney, Hajek, Salaj, Legenstein and Maass 2020, "A solution to the
   learning dilemma for recurrent networks of spiking neurons"), in its form for lstm: eligibility
   goes through the cell's own state alone, the learning signal is the loss of the step.

   With c_u the inner state of unit u, f_u its forget gate, and p a parameter of one of its sums,

     e_t(p) = f_u e_t-1(p) + I_t(p),  e_0 = 0    (the eligibility vector)
     I_t(p) = dc_u / dp of the step alone, h of the step before a constant

   and the gradient of the loss of step t with respect to p is that of the step alone (through it,
   and its norms, exactly; for the output gate that is all) and l_u e_t-1(p), l_u = dL_t/dc_u of the
   step before, through this step and the layers above it: the learning signal, by the output's own
   weights (symmetric e-prop), times dh/dc and f_u. Where a norm takes mean and deviation from a
   group of units, I takes these as constants, as in snap1.h. */
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
