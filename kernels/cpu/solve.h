/* The least squares of the output's weights (`readout: rls`), in double; the network's weights
   of the output are these, rounded. Inputs: h of the last layer, the skip path's x, 1. */
#ifndef RUNNEL_CPU_SOLVE_H
#define RUNNEL_CPU_SOLVE_H

#include <stddef.h>

#include "engine/engine.h"

struct error;
struct network;

struct solution {
    struct least_squares ls;
    double *block; /* the least squares (least_squares_size,), then the scratch of a step */
};

/* -1 (EX_UNAVAILABLE) if out of memory. */
int solution_open(struct solution *solution, const struct model *model, struct error *error);
void solution_close(struct solution *solution);

/* Learns from the error of the current weights at a step: `kept` (inputs - 1,) are its inputs, y
   (outputs,) its target. */
void solution_learn(const struct solution *solution, struct network *n, const float *kept,
                    const union value *y);

/* After a write to the network's tensor: restarts the weights from it if it belongs to the
   output. */
void solution_begin(const struct solution *solution, const struct network *n,
                    const struct tensor *tensor);

#endif
