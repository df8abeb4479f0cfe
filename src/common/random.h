/* Pseudorandom numbers that depend only on the seed: splitmix64 (Steele, Lea and Flood, "Fast
   splittable pseudorandom number generators", 2014). The state is one counter that begins with
   the seed; all seeds are good. Models, streams and tests depend on every bit. */
#ifndef RUNNEL_RANDOM_H
#define RUNNEL_RANDOM_H

#include <math.h>
#include <stdint.h>

static inline uint64_t random_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t random_bits(uint64_t *state) {
    return random_mix(*state += UINT64_C(0x9E3779B97F4A7C15));
}

/* Uniform in [low, high). */
static inline double random_uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* 0..count-1, without a remainder: the bias is below count / 2^64. */
static inline uint64_t random_below(uint64_t *state, uint64_t count) {
    return (uint64_t)(((unsigned __int128)random_bits(state) * count) >> 64);
}

/* Standard normal (Box and Muller, 1958). */
static inline double random_normal(uint64_t *state) {
    double u = 1 - random_uniform(state, 0, 1), v = random_uniform(state, 0, 1);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

#endif
