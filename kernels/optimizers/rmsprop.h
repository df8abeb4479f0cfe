/* torch.optim.RMSprop, without momentum. */
#ifndef RUNNEL_OPTIMIZERS_RMSPROP_H
#define RUNNEL_OPTIMIZERS_RMSPROP_H

#include "optimizers.h"

KIND_CONSTANT struct optimizer_kind rmsprop_kind = {
    .name = "rmsprop",
    .what = "divides steps by the root of the gradient's running mean square",
    .keys = {{KIND_KEY(alpha), .maximum = 1, .below = true, .fallback = "0.99",
              .what = "decay of the squared gradient's average",
              .more = "With `rmsprop` it must be below 1.", .example = "0.99"},
             EPSILON_KEY},
    .moments = 1, /* the squared gradient's average */
    .flops = 8,
};

struct rmsprop_numbers {
    float rate, alpha, rest, epsilon, decay; /* rest = 1 - alpha */
};

FORMULA struct rmsprop_numbers rmsprop_prepare(const struct optimizer *o, double rate, double t) {
    (void)t;
    struct rmsprop_numbers n;
    n.rate = (float)rate;
    n.alpha = (float)o->alpha;
    n.rest = (float)(1 - o->alpha);
    n.epsilon = (float)o->epsilon;
    n.decay = (float)o->weight_decay;
    return n;
}

/* v = alpha v + (1 - alpha) g^2; w -= rate g / (sqrt(v) + epsilon) */
FORMULA float rmsprop_step(const struct rmsprop_numbers *o, size_t kept, float weight,
                           float gradient, float *const *moments) {
    (void)kept;
    float g = gradient + o->decay * weight;
    float v = o->alpha * *moments[0] + o->rest * (g * g);
    *moments[0] = v;
    return weight - o->rate * g / (sqrtf(v) + o->epsilon);
}

#endif
