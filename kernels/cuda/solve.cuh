/* SOLVE: one step of the recursive least squares of the output (`readout: rls`), in double, on
   the device. forecast/least_squares.h has the equations and the layout of the block, which is
   the same in both engines. */
#ifndef RUNNEL_CUDA_SOLVE_CUH
#define RUNNEL_CUDA_SOLVE_CUH

#include "network.cuh"

struct solution {
    /* two rows (stride,) follow its block on the device, from the first kernel for the second */
    struct least_squares ls;
};

/* The solution of a model's output; empty if it is not solved. */
struct solution solution_of(const struct model *model);

/* Numbers in the block; 0 if empty. */
size_t solution_numbers(const struct solution *solution);

/* The target of the segment to be used. */
enum solve_of { SOLVE_BEFORE_RUN, SOLVE_AT_END };

/* Enqueues two launches, which use the slot's data of the newest STEP and the segment's target. */
cudaError_t launch_solve(const struct network *n, const struct solution *solution, enum solve_of of,
                         cudaStream_t stream);

#endif
