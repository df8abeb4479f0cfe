/* The floor of learning: the least work of one example, and its time at the machine's ceilings.

   Work is counted over one cycle of `stride` examples and one update, and divided by stride.
   Assumptions: weights are float32; an update needs the whole gradient before it changes the first
   parameter (for clipping, and since nothing may change unless all of it is finite), so the
   gradient is written and read again.

   Flops, two per multiply-add, with M the numbers in the matrices and L the window:
     forward    2 M per step, and the cells' elementwise work
     backward   per step of the window: 2 |W_hh| (except the first step), 2 |W_ih| of every layer
                but the first, 2 |W_out|: gradients of lower layers; 2 M: gradients of weights; the
                cells' elementwise work. stride < window: also forward over the window. Rules with
                traces (kernels/rules/snap1.h): S (2 S + 3) per parameter with S of them, instead
                of 2 |W_hh|. The influence of rtrl is left out
     optimizer  a fixed number per parameter; with readout: rls also a step of least squares, in
                double, whose operations count twice
   A square root, a division or a comparison counts as one; a sigmoid or tanh as FUNCTION_FLOPS. The
   loss is left out. bench_floor.c has the constants.

   Bytes of weights read: a step needs all of W_hh from the previous state, so W_hh is read once
   per step forward, and once per step but the first backward. W_ih and W_out are read once for all
   steps that are computed together: `together` queued examples forward, the whole window backward.
   Bytes updated: the gradient is written and read; parameters, moments and the least squares of the
   output are read and written; traces, once an update. Activations, inputs, targets and everything
   else are left out.

   A byte counts at the bandwidth of the nearest level that can hold it. Of a working set of S bytes
   that is read repeatedly, the size of the L1 cache counts at L1's bandwidth, the size of the L2
   cache of the rest at L2's, and so on, as if replacement were perfect and nothing else used a
   cache. Weights read: S is the bytes of all matrices. Updated: S is parameters, gradient and
   moments.

   Several networks (members) multiply the work. A thread plays one after the other: each has the
   caches to itself meanwhile, so the sets are those of one. Several threads multiply one core's
   ceilings.

   A phase takes at least the larger of its flops' time and its bytes' time. Each phase needs all
   results of the previous one, so floor = the sum over phases of
   max(flops / multiply-add rate, bytes / bandwidth).

   Rates and bandwidths are quiet values (bench_series.h), as are the times beside a floor. Left out
   are the latencies of the recurrent chain (two sums of a norm, a root, divisions and functions
   that wait for each other: some 340 cycles for a step of a GRU, about as many backward). Also,
   backward cannot overlap flops and bytes well: gradients of weights need all steps' gradients
   first. */
#ifndef RUNNEL_BENCH_FLOOR_H
#define RUNNEL_BENCH_FLOOR_H

#include "bench_machine.h"
#include "engine/engine.h"

struct config;

enum floor_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASES };

/* Work of one example. */
struct work {
    double flops;
    double weights_read; /* bytes */
    double updated;      /* bytes, read and written */
};

struct floor_work {
    struct work phases[PHASES];
    double weights_set, updated_set; /* bytes of the working sets */
    double solved;                   /* bytes of least squares, part of those updated */
};

/* `together`: the most queued examples that are computed together. */
struct floor_work floor_work(const struct config *config, const struct model *model,
                             size_t together);

/* The work of several networks of this kind. */
struct floor_work floor_of(struct floor_work work, size_t networks);

/* Seconds for one example. */
struct floor_time {
    double flops, bytes;
    double barriers; /* time of barriers and launches on a GPU; else 0 */
    /* the larger of flops and bytes, plus barriers, of a phase; or their sum over all phases */
    double floor;
};

struct floor_time floor_phase(const struct floor_work *work, enum floor_phase phase,
                              const struct machine *machine, const struct machine_figures *figures);

/* The time divided by the number of threads. */
struct floor_time floor_side_by_side(struct floor_time time, size_t threads);

struct floor_time floor_total(const struct floor_work *work, const struct machine *machine,
                              const struct machine_figures *figures);

extern const char *const floor_phase_names[PHASES];

/* The floor of learning on a GPU with the barriers of the CUDA engine. It differs from the floor
   above as follows.

   Barriers. One launch plays a plan. The blocks that play a network meet whenever one needs the
   results of another. With T steps computed together, L layers and a window of W steps:
     forward    T + L + 2: begin, a wave for each diagonal of steps and layers and one for the
                output's, finish
     backward   loss, output, W + L - 1 waves, one more for an embedding;
                stride < window: W + L before them, to recompute the window
     optimizer  norm, update, its sums; with readout: rls two more for each example

   Flops count at the rate of the multiprocessors in use: one for each network in scope block, 8 in
   scope cluster.

   Bytes. If parameters and moments fit into the shared memory of the scope, each is read and
   written once for the longer of plan and stride, and reads of shared memory are left out. Else
   weights read are as above, and an update reads and writes parameters and moments, 8 bytes each:
   24 per parameter for adam, 8 for sgd without momentum. The gradient does not count: it is a sum
   of outer products, one per step of the window, which need not be stored.

   A byte counts at the bandwidth of the L2 cache if its working set is at most 80% of it, else at
   that of copies in device memory. The sets are those above, without the gradient.

   Several networks (members) share launches and barriers, between which each does its own work; the
   working sets are those of all.

   floor = the sum over phases of max(flops / multiply-add rate, bytes / bandwidth) + barriers and
   launches. */
struct cuda_figures;

struct gpu_play {
    const struct cuda_figures *figures;
    enum scope scope;
    size_t plan, networks; /* examples per plan; networks played together */
};

struct gpu_work {
    struct floor_work work;
    double barriers[PHASES]; /* for one example */
    double launches;         /* for one example */
    double used;             /* share of multiprocessors */
};

struct gpu_work gpu_work(const struct config *config, const struct model *model,
                         const struct gpu_play *play);

struct floor_time gpu_phase(const struct gpu_work *work, enum floor_phase phase,
                            const struct gpu_play *play);

/* Including the launches. */
struct floor_time gpu_total(const struct gpu_work *work, const struct gpu_play *play);

#endif
