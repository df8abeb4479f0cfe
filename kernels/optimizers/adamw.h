/* torch.optim.AdamW: adam, but weight decay shrinks the weight by rate * weight_decay before the
   step. */
#ifndef RUNNEL_OPTIMIZERS_ADAMW_H
#define RUNNEL_OPTIMIZERS_ADAMW_H

#include "optimizers/adam.h"

KIND_CONSTANT struct optimizer_kind adamw_kind = {.name = "adamw",
                                                  .what = "adam with decoupled weight decay",
                                                  .keys = {ADAM_KEYS},
                                                  ADAM_KEPT,
                                                  .flops = ADAM_FLOPS};

struct adamw_numbers {
    struct adam_numbers adam;
};

FORMULA struct adamw_numbers adamw_prepare(const struct optimizer *o, double rate, double t) {
    struct adamw_numbers n;
    n.adam = adam_prepare(o, rate, t);
    n.adam.decay = 0.0f;
    n.adam.shrink = (float)(1 - rate * o->weight_decay);
    return n;
}

FORMULA float adamw_step(const struct adamw_numbers *o, size_t kept, float weight, float gradient,
                         float *const *moments) {
    return adam_step(&o->adam, kept, weight, gradient, moments);
}

#endif
