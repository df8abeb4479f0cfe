/* torch.optim.Adam: weight decay is added to the gradient. */
#ifndef RUNNEL_OPTIMIZERS_ADAM_H
#define RUNNEL_OPTIMIZERS_ADAM_H

#include "optimizers.h"

#define ADAM_KEYS                                                                                  \
    {KIND_KEY(beta1),                                                                              \
     .maximum = 1,                                                                                 \
     .below = true,                                                                                \
     .fallback = "0",                                                                              \
     .earlier = "0.9",                                                                             \
     .what = "decay of the gradient's average",                                                    \
     .more = "With 0 steps follow the newest gradient alone, and no average of it is kept.",       \
     .example = "0"},                                                                              \
        {KIND_KEY(beta2),                                                                          \
         .maximum = 1,                                                                             \
         .below = true,                                                                            \
         .fallback = "0.999",                                                                      \
         .what = "decay of the squared gradient's average",                                        \
         .example = "0.999"},                                                                      \
        EPSILON_KEY
enum { ADAM_MOMENTS = 2 }; /* averages of the gradient, unless beta1 is 0, and of its square */
#define ADAM_KEPT .moments = ADAM_MOMENTS, .moments_need = "beta1", .moments_least = 1
#define ADAM_FLOPS 9 /* beta1 costs more */

KIND_CONSTANT struct optimizer_kind adam_kind = {
    .name = "adam",
    .what = "rmsprop with a running mean of the gradient; both averages are bias-corrected",
    .keys = {ADAM_KEYS},
    ADAM_KEPT,
    .flops = ADAM_FLOPS};

struct adam_numbers {
    float step;  /* rate / (1 - beta1^t) */
    float scale; /* 1 / sqrt(1 - beta2^t) */
    float beta1, rest1, beta2, rest2, epsilon;
    float decay;  /* added to the gradient, times the weight */
    float shrink; /* factor of the weight before the step; adam: 1 */
};

FORMULA struct adam_numbers adam_prepare(const struct optimizer *o, double rate, double t) {
    struct adam_numbers n;
    n.step = (float)(rate / (1 - pow(o->beta1, t)));
    n.scale = (float)(1 / sqrt(1 - pow(o->beta2, t)));
    n.beta1 = (float)o->beta1;
    n.rest1 = (float)(1 - o->beta1);
    n.beta2 = (float)o->beta2;
    n.rest2 = (float)(1 - o->beta2);
    n.epsilon = (float)o->epsilon;
    n.decay = (float)o->weight_decay;
    n.shrink = 1.0f;
    return n;
}

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
   w -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) */
FORMULA float adam_step(const struct adam_numbers *o, size_t kept, float weight, float gradient,
                        float *const *moments) {
    /* No address depends on `both`: it would keep the moments out of registers. */
    bool both = kept == ADAM_MOMENTS;
    float g = gradient + o->decay * weight, first = *moments[0];
    float m = both ? o->beta1 * first + o->rest1 * g : g;
    float v = o->beta2 * (both ? *moments[1] : first) + o->rest2 * (g * g);
    *moments[0] = both ? m : v;
    if (both)
        *moments[1] = v;
    return weight * o->shrink - o->step * m / (sqrtf(v) * o->scale + o->epsilon);
}

#endif
