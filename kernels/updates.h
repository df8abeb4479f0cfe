/* What an update decides on and starts from, written once for every engine: clipping, the guard
   against what is not finite, and the optimizer's numbers of one step. */
#ifndef RUNNEL_UPDATES_H
#define RUNNEL_UPDATES_H

#include <float.h>
#include <math.h>

#include "formulas.h"
#include "learner/engine.h"

/* As torch.nn.utils.clip_grad_norm_: what the gradient is multiplied with. clip 0: no clipping. */
FORMULA double update_clip_factor(double clip, double norm) {
    const double epsilon = 1e-6;
    double factor = clip > 0 ? clip / (norm + epsilon) : 1;
    return factor < 1 ? factor : 1;
}

/* Whether an update may be made. A gradient whose square leaves the range of float would make the
   moments infinite for good. */
FORMULA bool update_applies(double loss, double squares, double factor) {
    return loss - loss == 0 && squares * factor * factor <= (double)FLT_MAX;
}

/* The optimizer's numbers of step t, rounded once; t counts from 1. */
struct update_step {
    enum optimizer_kind kind;
    bool momentum; /* sgd keeps a buffer */
    struct formula_sgd_numbers sgd;
    struct formula_rmsprop_numbers rmsprop;
    struct formula_adam_numbers adam;
};

FORMULA struct update_step update_prepare(const struct optimizer *o, double rate, uint64_t t) {
    double decay = o->weight_decay, power = (double)t;
    bool decoupled = o->kind == OPTIMIZER_ADAMW;
    struct update_step s;
    s.kind = o->kind;
    s.momentum = o->momentum > 0;
    s.sgd.rate = (float)rate;
    s.sgd.momentum = (float)o->momentum;
    s.sgd.decay = (float)decay;
    s.sgd.nesterov = o->nesterov ? 1.0f : 0.0f;
    s.rmsprop.rate = (float)rate;
    s.rmsprop.alpha = (float)o->alpha;
    s.rmsprop.rest = (float)(1 - o->alpha);
    s.rmsprop.epsilon = (float)o->epsilon;
    s.rmsprop.decay = (float)decay;
    s.adam.step = (float)(rate / (1 - pow(o->beta1, power)));
    s.adam.scale = (float)(1 / sqrt(1 - pow(o->beta2, power)));
    s.adam.beta1 = (float)o->beta1;
    s.adam.rest1 = (float)(1 - o->beta1);
    s.adam.beta2 = (float)o->beta2;
    s.adam.rest2 = (float)(1 - o->beta2);
    s.adam.epsilon = (float)o->epsilon;
    s.adam.decay = decoupled ? 0.0f : (float)decay;
    s.adam.shrink = decoupled ? (float)(1 - rate * decay) : 1.0f;
    return s;
}

#endif
