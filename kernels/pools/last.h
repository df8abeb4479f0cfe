/* x = h_T. */
#ifndef RUNNEL_POOLS_LAST_H
#define RUNNEL_POOLS_LAST_H

#include "pools.h"

KIND_CONSTANT struct pool_kind last_kind = {
    .name = "last",
    .what = "the last atom's output",
    .vectors = 1,
};

#ifdef ISA
static inline void last_pool(const struct pool_run *r, float *x) {
    memcpy(x, r->h + (r->count - 1) * r->stride, r->size * sizeof *x);
}

static inline void last_pool_backward(const struct pool_run *r, const float *d) {
    float *dh = r->dh + (r->count - 1) * r->stride;
    for (size_t i = 0; i < r->size; i++)
        dh[i] += d[i];
}
#endif

#endif
