/* x = sum over t of h_t / T. */
#ifndef RUNNEL_POOLS_MEAN_H
#define RUNNEL_POOLS_MEAN_H

#include "pools.h"

KIND_CONSTANT struct pool_kind mean_kind = {
    .name = "mean",
    .what = "the mean of all atoms' outputs",
    .vectors = 1,
};

#ifdef ISA
static inline void mean_pool(const struct pool_run *r, float *x) {
    float share = 1.0F / (float)r->count;
    for (size_t i = 0; i < r->size; i++)
        x[i] = 0;
    for (size_t t = 0; t < r->count; t++)
        for (size_t i = 0; i < r->size; i++)
            x[i] += r->h[t * r->stride + i];
    for (size_t i = 0; i < r->size; i++)
        x[i] *= share;
}

static inline void mean_pool_backward(const struct pool_run *r, const float *d) {
    float share = 1.0F / (float)r->count;
    for (size_t t = 0; t < r->count; t++)
        for (size_t i = 0; i < r->size; i++)
            r->dh[t * r->stride + i] += d[i] * share;
}
#endif

#endif
