/* Shape scores how unlikely the form of a column's recent values is, whatever their level and
   size. The equations are in docs/explanation/anomalies.md.

   The part above SHAPE_FROM is added to novelty after the term of log t. The memory is the
   column's own, also where streams share that of novelty; `runnel-ctl normal` does not change it.
   Distances are float and added in a fixed order: all instruction sets give the same bits. */
#ifndef RUNNEL_SHAPE_H
#define RUNNEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "novelty.h"
#include "tail.h"

enum {
    SHAPE_SCALES = 3,
    SHAPE_CONTEXT = 32, /* floats */
    SHAPE_RING = 512,   /* at least a window and a delay */
    SHAPE_MEMORY = 1000,
};
#define SHAPE_SHARE 0.5
#define SHAPE_FROM 1.0

/* State of one column, doubles only, beside (SHAPE_SCALES, memory, SHAPE_CONTEXT) floats; all
   zero is a new stream. `memory` is a multiple of VECTOR_LANES. */
struct shape {
    double count; /* t: values so far */
    double random[2];
    double used[SHAPE_SCALES];     /* contexts in memory */
    double values[SHAPE_RING];     /* value t at t % SHAPE_RING */
    double deviations[SHAPE_RING]; /* s at that value; negative: not learned */
    struct tail tails[SHAPE_SCALES];
};

/* Number of used contexts of a scale, rounded up to VECTOR_LANES; at most the capacity, even if
   the state is invalid. */
size_t shape_contexts(const struct shape *shape, size_t scale, size_t memory);

/* The shape >= 0 of the next finite value x, which `novelty` of the column has taken. Without
   `learn` it is only scored. */
double shape_take(struct shape *shape, float *floats, size_t memory, const struct novelty *novelty,
                  double x, bool learn);

/* Whether a state from a checkpoint is valid. */
bool shape_valid(const struct shape *shape, const float *floats, size_t memory);

#endif
