/* x = max over t of h_t, unit by unit. The gradient reaches the first t that has it. */
#ifndef RUNNEL_POOLS_MAX_H
#define RUNNEL_POOLS_MAX_H

#include "pools.h"

KIND_CONSTANT struct pool_kind max_kind = {
    .name = "max",
    .what = "each unit's largest output",
    .vectors = 1,
};

#ifdef ISA
static inline void max_pool(const struct pool_run *r, float *x) {
    memcpy(x, r->h, r->size * sizeof *x);
    for (size_t t = 1; t < r->count; t++)
        for (size_t i = 0; i < r->size; i++)
            x[i] = r->h[t * r->stride + i] > x[i] ? r->h[t * r->stride + i] : x[i];
}

static inline void max_pool_backward(const struct pool_run *r, const float *d) {
    for (size_t i = 0; i < r->size; i++) {
        size_t first = 0;
        for (size_t t = 1; t < r->count; t++)
            if (r->h[t * r->stride + i] > r->h[first * r->stride + i])
                first = t;
        r->dh[first * r->stride + i] += d[i];
    }
}
#endif

#endif
