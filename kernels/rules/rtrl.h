/* Real-time recurrent learning (Williams and Zipser 1989), exact.

   s_t are the states of all recurrent layers after step t, p the parameters that reach them, s_t =
   F(s_t-1, x_t, p). The influence J_t = ds_t / dp (states, parameters) follows from the previous
   one:

     J_t = dF/ds J_t-1 + dF/dp,  J_0 = 0

   The gradient of the loss of step t with respect to p is dL_t/ds_t J_t; for parameters above
   the last recurrent layer it is that of the step alone. Nothing is truncated: with constant
   parameters it is the gradient of backpropagation through time from the start of the stream. As
   parameters change, J_t-1 belongs to earlier ones: the usual approximation of online learning. */
#ifndef RUNNEL_RULES_RTRL_H
#define RUNNEL_RULES_RTRL_H

#include "kinds.h"

KIND_CONSTANT struct rule_kind rtrl_kind = {
    .name = "rtrl",
    .what = "real-time recurrent learning (Williams and Zipser, 1989), exact back to the start of "
            "the stream; for small layers",
    .keeps = KEEPS_INFLUENCE,
};

#endif
