/* COCOB-Backprop: each parameter bets on its next gradient, and needs no learning rate. F. Orabona
   and T. Tommasi, "Training deep networks without learning rates through coin betting" (NIPS 2017),
   algorithm 2. With g the gradient (the paper uses the negative), w_1 the starting value of the
   parameter, and all else 0 before the first update:

     L      = max(L, |g|)                           largest gradient
     G      = G + |g|                               sum of the gradients' sizes
     reward = max(reward - (w - w_1) g, 0)
     theta  = theta - g                             sum of the negative gradients
     w      = w_1 + theta / (L max(G + L, alpha L)) (L + reward)

   While L is 0 all gradients were 0, and w is w_1. The first step is +-1 / alpha for any size of
   the gradient (alpha at least 2). Kept for each parameter, in single precision: w_1 (set in
   update 1), L, theta, G, reward. Weight decay is added to the gradient. */
#ifndef RUNNEL_OPTIMIZERS_COCOB_H
#define RUNNEL_OPTIMIZERS_COCOB_H

#include "optimizers.h"

KIND_CONSTANT struct optimizer_kind cocob_kind = {
    .name = "cocob",
    .what = "coin betting without a learning rate (COCOB-Backprop, Orabona and Tommasi, 2017)",
    .keys = {{KIND_KEY(alpha), .maximum = 1e6, .fallback = "100",
              .what = "the divisor of the first steps",
              .more = "With `cocob` the first step of a parameter is 1 / alpha; later steps grow "
                      "as long as they reduce the loss.",
              .example = "100"}},
    .rateless = true,
    .keeps_start = true,
    .moments = 5,
    .flops = 14,
};

struct cocob_numbers {
    float alpha, decay;
    uint32_t first; /* 1: this update's weight is the starting value */
};

FORMULA struct cocob_numbers cocob_prepare(const struct optimizer *o, double rate, double t) {
    (void)rate;
    struct cocob_numbers n;
    n.alpha = (float)o->alpha;
    n.decay = (float)o->weight_decay;
    n.first = t <= 1;
    return n;
}

/* Not fmaxf, which compilers do not vectorize. */
FORMULA float cocob_larger(float a, float b) {
    return a > b ? a : b;
}

/* Quotients come before products, since L^2 could exceed the range of float. */
FORMULA float cocob_step(const struct cocob_numbers *o, size_t kept, float weight, float gradient,
                         float *const *moments) {
    (void)kept;
    float g = -(gradient + o->decay * weight), size = fabsf(g);
    float start = o->first ? weight : *moments[0];
    float largest = cocob_larger(*moments[1], size);
    float theta = *moments[2] + g;
    float sizes = *moments[3] + size;
    float reward = cocob_larger(*moments[4] + (weight - start) * g, 0.0f);
    float divisor = cocob_larger(sizes + largest, o->alpha * largest);
    float next = start + theta / divisor * (1.0f + reward / largest);
    *moments[0] = start;
    *moments[1] = largest;
    *moments[2] = theta;
    *moments[3] = sizes;
    *moments[4] = reward;
    return largest > 0.0f ? next : start;
}

#endif
