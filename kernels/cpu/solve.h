/* The least squares that solve the output's weights (`readout: rls`), in double beside the network,
   whose weights of the output are theirs rounded. What is solved with: h of the last layer, the
   skip path's x, 1. */
#ifndef RUNNEL_CPU_SOLVE_H
#define RUNNEL_CPU_SOLVE_H

#include <stddef.h>

#include "engine/engine.h"

struct error;
struct network;

struct solution {
    struct least_squares ls;
    double *block; /* of them (least_squares_size,), then the scratch of a step */
};

/* -1 (EX_UNAVAILABLE) when out of memory. */
int solution_open(struct solution *solution, const struct model *model, struct error *error);
void solution_close(struct solution *solution);

/* The error that today's weights make at a step: `kept` (inputs - 1,) is what its output was solved
   with, y (outputs,) its target. */
void solution_learn(const struct solution *solution, struct network *n, const float *kept,
                    const union value *y);

/* The network's tensor has been written: the weights begin with it, if it is one of the output. */
void solution_begin(const struct solution *solution, const struct network *n,
                    const struct tensor *tensor);

#endif
