/* Noise of a seed, for streams in which nothing happens. */
#ifndef RUNNEL_BENCH_NOISE_H
#define RUNNEL_BENCH_NOISE_H

#include <math.h>
#include <stdint.h>

struct noise {
    uint64_t state; /* of splitmix64 (Steele, Lea and Flood 2014) */
    double last;    /* of the autoregression */
};

static inline double uniform(struct noise *noise) { /* in (0, 1) */
    uint64_t z = noise->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ z >> 31) >> 12) + 0.5) * 0x1p-52;
}

static inline double normal(struct noise *noise) { /* Box and Muller 1958 */
    double radius = sqrt(-2 * log(uniform(noise)));
    return radius * cos(2 * M_PI * uniform(noise));
}

#endif
