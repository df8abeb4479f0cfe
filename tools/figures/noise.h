/* Noise from a seed, for streams without events. */
#ifndef RUNNEL_NOISE_H
#define RUNNEL_NOISE_H

#include "common/random.h"

struct noise {
    uint64_t state; /* of common/random.h */
    double last;    /* of the autoregression */
};

static inline double uniform(struct noise *noise) { /* in (0, 1) */
    return ((double)(random_bits(&noise->state) >> 12) + 0.5) * 0x1p-52;
}

static inline double normal(struct noise *noise) { /* Box and Muller 1958 */
    double radius = sqrt(-2 * log(uniform(noise)));
    return radius * cos(2 * M_PI * uniform(noise));
}

#endif
