/* The formulas of pools. Each makes one vector of the outputs h_t (H,) of a message's T steps, and
   passes its gradient back: kernels/pools/. */
#ifndef RUNNEL_POOLS_H
#define RUNNEL_POOLS_H

#include <math.h>
#include <string.h>

#include "kinds.h"

#ifdef ISA
#    include "cpu/vector.h"
#endif

/* A message's outputs and a pool's arrays. Tensors are row-major. */
struct pool_run {
    size_t count, size, attention; /* T, H, A */
    const float *h;                /* row t at h + t * stride */
    float *dh;                     /* their gradients, in the same rows, are added to */
    size_t stride;
    const float *tensors[POOL_TENSORS_MAX];
    float *gradients[POOL_TENSORS_MAX]; /* are added to */
    float *scratch;                     /* (T + 1, A + 1), kept from forward to backward */
};

#define INCLUDE_POOLS
#include "kinds.def"

#ifdef ISA
/* Forward: x (vectors H,) of the message; or backward after it, if x is NULL: d is its gradient. */
static inline void pool_play(enum pool pool, const struct pool_run *r, float *x, const float *d) {
    switch (pool) {
#    define POOL(name)                                                                             \
    case POOL_##name:                                                                              \
        x ? name##_pool(r, x) : name##_pool_backward(r, d);                                        \
        break;
#    include "kinds.def"
    case POOLS:
        break;
    }
}
#endif

#endif
