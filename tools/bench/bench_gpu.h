/* How fast a GPU could learn at best with the stages that the CUDA engine has. What is counted and
   taken as given is that of bench_floor.h, but for this.

   Stages. The engine plays each segment (the steps up to the next update, and the update) as a
   graph of kernels, each of which needs what the one before it has computed. With T steps computed
   together, L layers and a window of W steps:
     forward    T + L + 2: begin, a wave for each diagonal of steps and layers and one for the
                output's, finish
     backward   loss, output, W + L - 1 waves, one more for an embedding;
                stride < window: W + L before them, to recompute the window
     optimizer  norm, update
   A stage takes `node` seconds. A segment takes another `graph_launch` less one node: each example
   does where they come one at a time, T of them together where they are queued.

   Bytes. Weights read are as in bench_floor.h. Updated: parameters and moments are read and
   written, 8 bytes each: 24 a parameter for adam, 8 for sgd without momentum. The gradient is not
   counted: it is a sum of as many outer products as the window has steps, and need never be
   written.

   A byte is charged at the bandwidth of the L2 cache when its working set takes no more than
   80% of it, else at the device memory's, that of a copy. The sets are those of
   bench_floor.h, without the gradient.

   Several networks of one shape (members) have their stages and launches in common, in which each
   does its own work; the working sets are those of all.

   floor = the sum over phases of max(flops / multiply-add rate, bytes / bandwidth) + stages and
   launches. */
#ifndef RUNNEL_BENCH_GPU_H
#define RUNNEL_BENCH_GPU_H

#include "bench_floor.h"

struct cuda_figures;

struct gpu_work {
    struct floor_work work;
    double nodes[PHASES]; /* stages, for one example */
    double launches;      /* segments, for one example */
};

/* `plan`: how many examples are computed in one plan, by so many networks. */
struct gpu_work gpu_work(const struct config *config, const struct model *model, size_t plan,
                         size_t networks);

struct floor_time gpu_phase(const struct gpu_work *work, enum floor_phase phase,
                            const struct cuda_figures *figures);

/* With the launches. */
struct floor_time gpu_total(const struct gpu_work *work, const struct cuda_figures *figures);

#endif
