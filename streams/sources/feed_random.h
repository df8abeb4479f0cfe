/* Numbers that look random and are a function of the seed alone: splitmix64 (Steele, Lea and Flood,
   "Fast splittable pseudorandom number generators", 2014). */
#ifndef RUNNEL_FEED_RANDOM_H
#define RUNNEL_FEED_RANDOM_H

#include <math.h>
#include <stdint.h>

struct feed_random {
    uint64_t state; /* the seed, to begin with */
};

static inline uint64_t random_bits(struct feed_random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [low, high). */
static inline double random_uniform(struct feed_random *random, double low, double high) {
    return low + (high - low) * (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* 0..count-1; the bias is below count / 2^64. */
static inline uint64_t random_below(struct feed_random *random, uint64_t count) {
    return (uint64_t)(((unsigned __int128)random_bits(random) * count) >> 64);
}

/* Standard normal (Box and Muller, 1958). */
static inline double random_normal(struct feed_random *random) {
    double u = 1 - random_uniform(random, 0, 1), v = random_uniform(random, 0, 1);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

#endif
