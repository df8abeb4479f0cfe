/* SnAp-1 (Menick, Elsen, Evci, Osindero, Simonyan and Graves 2021, "Practical real time recurrent
   learning with a sparse approximation"): real-time recurrent learning (rtrl.h) that keeps only the
   influence of a parameter on its own unit.

   With h_u the state of unit u, and p a parameter of one of its sums (a row of a weight matrix, a
   bias, a gain),

     e_t(p) = D_u e_t-1(p) + I_t(p),  e_0 = 0
     D_u    = dh_u / dh_u of the previous step: carried past the weights, and through its weights
   from itself I_t(p) = dh_u / dp of the step alone

   The gradient of the loss of step t with respect to p is that of the step alone (exact through
   it and its norms) plus delta_u D_u e_t-1(p), delta_u = dL_t/dh_u through the layers above at
   this step. With a norm of groups, D and I treat its mean and deviation as constants: the
   influence on other units through them is dropped. The influence on the own unit counts,
   including the deviation of weight normalization. */
#ifndef RUNNEL_RULES_SNAP1_H
#define RUNNEL_RULES_SNAP1_H

#include "kinds.h"

KIND_CONSTANT struct rule_kind snap1_kind = {
    .name = "snap1",
    .what = "SnAp-1 (Menick et al., 2021), for rnn and gru: influence on a parameter's own unit "
            "only, one number per parameter; exact for mingru, rtu and `recurrent: diagonal`",
    .keeps = KEEPS_TRACE,
    .states = 1,
    .through_weights = true,
    .columns = true,
};

#endif
