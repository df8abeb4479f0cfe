/* Stochastic gradient descent, with momentum and Nesterov's momentum: torch.optim.SGD. */
#ifndef RUNNEL_OPTIMIZERS_SGD_H
#define RUNNEL_OPTIMIZERS_SGD_H

#include "optimizers.h"

KIND_CONSTANT struct optimizer_kind sgd_kind = {
    .name = "sgd",
    .what = "stochastic gradient descent, optionally with momentum",
    .keys = {{KIND_KEY(momentum), .maximum = 1, .below = true, .fallback = "0",
              .what = "share of the previous step that is added to the next", .example = "0.9"},
             {KIND_KEY(nesterov), .boolean = true, .fallback = "false", .needs = "momentum",
              .what = "Nesterov's momentum", .more = "It requires `momentum` above 0.",
              .example = "true"}},
    .moments = 1, /* the buffer */
    .moments_need = "momentum",
    .flops = 3, /* clipping factor, product and difference; momentum costs more */
};

struct sgd_numbers {
    float rate, momentum, decay, nesterov; /* nesterov: 1 or 0 */
};

FORMULA struct sgd_numbers sgd_prepare(const struct optimizer *o, double rate, double t) {
    (void)t;
    struct sgd_numbers n;
    n.rate = (float)rate;
    n.momentum = (float)o->momentum;
    n.decay = (float)o->weight_decay;
    n.nesterov = o->nesterov ? 1.0f : 0.0f;
    return n;
}

/* buffer = momentum buffer + g; w -= rate (nesterov ? g + momentum buffer : buffer). Without
   momentum and buffer: w -= rate g */
FORMULA float sgd_step(const struct sgd_numbers *o, size_t kept, float weight, float gradient,
                       float *const *moments) {
    if (kept == 0)
        return weight - o->rate * (gradient + o->decay * weight);
    float g = gradient + o->decay * weight;
    float b = o->momentum * *moments[0] + g;
    *moments[0] = b;
    float step = o->nesterov > 0.0f ? g + o->momentum * b : b;
    return weight - o->rate * step;
}

#endif
