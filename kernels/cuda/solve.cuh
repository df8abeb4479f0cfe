/* SOLVE: one step of the recursive least squares of the output (`readout: rls`), in double, on
   the device. forecast/least_squares.h has the equations and the layout of the block, which is
   the same in both engines. */
#ifndef RUNNEL_CUDA_SOLVE_CUH
#define RUNNEL_CUDA_SOLVE_CUH

#include "network.cuh"

struct solution {
    /* on the device two rows (stride,) follow its block, from the first kernel for the second */
    struct least_squares ls;
};

/* For a model with a solved output; else empty. */
struct solution solution_of(const struct model *model);

/* Numbers in the block; 0 if empty. */
size_t solution_numbers(const struct solution *solution);

/* The target of the segment to be used. */
enum solve_of { SOLVE_BEFORE_RUN, SOLVE_AT_END };

/* From the slot's data of the newest STEP to the segment's target: two launches. */
cudaError_t launch_solve(const struct network *n, const struct solution *solution, enum solve_of of,
                         cudaStream_t stream);

#endif
