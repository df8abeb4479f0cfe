/* Shape scores how unlikely the form of a column's recent values is, whatever their level and
   size.

   - Contexts of three scales: the last 32, 96 and 224 values as 32 means of blocks of 1, 3 and 7,
     less their mean, divided by the larger of their deviation and 0.1 s. s is the deviation of
     all values up to the context's newest. A scale begins with its first full window.
   - Memory: up to `memory` contexts of each scale, which enter 150, 150 and 224 steps late, and
     replace a random one when it is full (novelty.h).
   - Shape is the mean of the L (tail.h) of the three distances to the nearest context. A scale
     without 21 distances counts as 0.

   It has no term of log t, and its memory is the column's own, also where streams share that of
   novelty. A normal alarm enters it like any other step. Distances are float and added in a fixed
   order, so all instruction sets give the same bits. */
#ifndef RUNNEL_SHAPE_H
#define RUNNEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tail.h"

enum {
    SHAPE_SCALES = 3,
    SHAPE_CONTEXT = 32, /* floats */
    SHAPE_RING = 512,   /* at least a window and a delay */
    SHAPE_MEMORY = 1000,
};
#define SHAPE_SHARE 0.5 /* of shape above SHAPE_FROM in novelty, by default */
#define SHAPE_FROM 1.0

/* State of one column, doubles only, beside shape_floats() floats; all zero is a new stream. */
struct shape {
    double count; /* values so far */
    double random[2];
    double used[SHAPE_SCALES];     /* contexts in memory */
    double values[SHAPE_RING];     /* value t at t % SHAPE_RING */
    double deviations[SHAPE_RING]; /* s at that value; negative: not learned */
    struct tail tails[SHAPE_SCALES];
};

/* `memory` must be a multiple of VECTOR_LANES. */
size_t shape_floats(size_t memory);

/* Number of used contexts of a scale, rounded up to VECTOR_LANES; at most the capacity, even if
   the state is invalid. They begin at n * memory * SHAPE_CONTEXT. */
size_t shape_contexts(const struct shape *shape, size_t n, size_t memory);

/* The shape >= 0 of the next finite value x, with s > 0. Without `learn` it is only scored. */
double shape_take(struct shape *shape, float *floats, size_t memory, uint64_t seed, double x,
                  double s, bool learn);

/* Whether a state from a checkpoint is valid. */
bool shape_valid(const struct shape *shape, const float *floats, size_t memory);

#endif
