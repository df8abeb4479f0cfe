/* SOLVE: one step of the recursive least squares that solve the output (`readout: rls`), in double,
   on the device. forecast/least_squares.h has the equations and the form of the block, which is the
   same on both engines. */
#ifndef RUNNEL_CUDA_SOLVE_CUH
#define RUNNEL_CUDA_SOLVE_CUH

#include "network.cuh"

struct solution {
    struct least_squares ls; /* its block on the device is followed by two rows (stride,) of what
                                the first kernel leaves for the second */
};

/* Of a model whose output is solved; else nothing. */
struct solution solution_of(const struct model *model);

/* Numbers in the block; 0 of nothing. */
size_t solution_numbers(const struct solution *solution);

/* Which target of the segment counts. */
enum solve_of { SOLVE_BEFORE_RUN, SOLVE_AT_END };

/* From what the newest STEP left in the slot to the segment's target: two launches. */
cudaError_t launch_solve(const struct network *n, const struct solution *solution, enum solve_of of,
                         cudaStream_t stream);

#endif
