/* Truncated backpropagation through time (Williams and Peng 1990): the gradient of the mean loss
   of an update's steps, with the current parameters, back through the window's steps. The state
   before the window is a constant. */
#ifndef RUNNEL_RULES_TBPTT_H
#define RUNNEL_RULES_TBPTT_H

#include "kinds.h"

KIND_CONSTANT struct rule_kind tbptt_kind = {
    .name = "tbptt",
    .what = "truncated backpropagation through time, over the last `window` steps",
    .keeps = KEEPS_NOTHING,
    .columns = true,
};

#endif
