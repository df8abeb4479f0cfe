#include "solve.h"

#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"
#include "memory.h"
#include "network.h"

int solution_open(struct solution *solution, const struct model *model, struct error *error) {
    const struct least_squares *ls = &solution->ls;
    solution->ls = engine_solution(model);
    solution->block =
        calloc(least_squares_size(ls) + ls->stride + ls->outputs + least_squares_work(ls),
               sizeof *solution->block);
    if (solution->block)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the least squares of %zu inputs; lower the last layer's "
                     "size, or use readout: gradient",
                     ls->inputs);
}

void solution_close(struct solution *solution) {
    free(solution->block);
    solution->block = NULL;
}

/* Rounds the weights into the output's. */
static void round_weights(const struct solution *solution, struct network *n) {
    const struct least_squares *ls = &solution->ls;
    const double *weights = least_squares_weights(ls, solution->block);
    for (size_t k = 0; k < ls->outputs; k++, weights += ls->stride)
        for (size_t i = 0; i < ls->inputs; i++)
            *network_output(n, k, i) = (float)weights[i];
}

void solution_learn(const struct solution *solution, struct network *n, const float *kept,
                    const union value *y) {
    const struct least_squares *ls = &solution->ls;
    double *phi = solution->block + least_squares_size(ls);
    double *error = phi + ls->stride, *work = error + ls->outputs;
    for (size_t i = 0; i + 1 < ls->inputs; i++)
        phi[i] = (double)kept[i];
    phi[ls->inputs - 1] = 1;
    least_squares_predict(ls, solution->block, phi, error);
    for (size_t k = 0; k < ls->outputs; k++) {
        double d = (double)y[k].real - error[k];
        error[k] = d > ENGINE_SOLUTION_MOST    ? ENGINE_SOLUTION_MOST
                   : d < -ENGINE_SOLUTION_MOST ? -ENGINE_SOLUTION_MOST
                                               : d;
    }
    least_squares_learn(ls, solution->block, phi, error, work);
    round_weights(solution, n);
}

void solution_begin(const struct solution *solution, const struct network *n,
                    const struct tensor *tensor) {
    const struct least_squares *ls = &solution->ls;
    size_t first = tensor->role == TENSOR_OUTPUT_WEIGHT ? 0
                   : tensor->role == TENSOR_OUTPUT_SKIP ? n->width
                                                        : ls->inputs - 1;
    size_t columns = tensor->columns ? tensor->columns : 1;
    if (tensor->role < TENSOR_OUTPUT_WEIGHT || tensor->role > TENSOR_OUTPUT_SKIP)
        return;
    for (size_t k = 0; k < ls->outputs; k++)
        for (size_t i = first; i < first + columns; i++)
            least_squares_weights(ls, solution->block)[k * ls->stride + i] =
                (double)*network_output(n, k, i);
}
