/* How fast learning could be at best: the work that one example cannot do without, and the time
   that it takes at the machine's ceilings.

   Work is counted over one cycle of `stride` examples and one update, and divided by stride. Taken
   as given: truncated backpropagation as the contract has it; a weight is a float32; an update
   needs the whole gradient before it changes the first parameter (its norm decides on clipping, and
   nothing may change unless all of it is finite), so that the gradient is written and read again.

   Flops, two a multiply-add, with M the numbers in the matrices and L the window:
     forward    2 M a step, and the cells' elementwise work
     backward   of a step of the window: 2 |W_hh| (not of the first), 2 |W_ih| of every layer but
                the first, 2 |W_out|: gradients of what lies below; 2 M: gradients of weights; the
                cells' elementwise work. stride < window: also forward over the window, again
     optimizer  a fixed number a parameter; with readout: rls also a step of least squares, in
   double, of which each operation counts as two A square root, a division or a comparison is one; a
   sigmoid or tanh is FUNCTION_FLOPS. The loss is left out. Constants and what they count:
   bench_floor.c.

   Bytes, weights read: a step needs all of W_hh of the state before it, so W_hh is read once a step
   forward, and once a step but the first backward. W_ih and W_out are read once for all steps that
   are computed together: `together` examples that wait forward, all of the window backward. Bytes,
   updated: the gradient is written and read; parameters and moments, and what solves the output by
   least squares, are read and written.
   Activations, inputs, targets and everything else is left out.

   A byte is charged at the bandwidth of the nearest level that can hold it: of a working set of S
   bytes that is walked again and again, as much as the L1 cache holds is charged at L1's bandwidth,
   as much of the rest as the L2 cache holds at L2's, and so on, as if replacement were perfect and
   nothing else wanted a cache. Weights read: S is the bytes of all matrices. Updated: S is
   parameters, gradient and moments.

   Several networks (members) do all of it as often. A thread plays one after the other: each has
   the caches for itself while it is played, and so the sets stay those of one. Several threads are
   taken to have as many times one core's ceilings.

   A phase takes at least the larger one of its flops' time and its bytes' time. The phases follow
   each other, for each needs all of what the one before it computes: floor = the sum over phases of
   max(flops / multiply-add rate, bytes / bandwidth). */
#ifndef RUNNEL_BENCH_FLOOR_H
#define RUNNEL_BENCH_FLOOR_H

#include "bench_machine.h"
#include "engine/engine.h"

struct config;

enum floor_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASES };

/* For one example. */
struct work {
    double flops;
    double weights_read; /* bytes */
    double updated;      /* bytes, read and written */
};

struct floor_work {
    struct work phases[PHASES];
    double weights_set, updated_set; /* bytes of the working sets */
    double solved;                   /* bytes of least squares that are among those updated */
};

/* `together`: how many waiting examples are computed together, at most. */
struct floor_work floor_work(const struct config *config, const struct model *model,
                             size_t together);

/* That of several networks of this kind. */
struct floor_work floor_of(struct floor_work work, size_t networks);

/* Seconds for one example. */
struct floor_time {
    double flops, bytes;
    double stages; /* on a GPU, see bench_gpu.h; else 0 */
    double floor; /* of a phase the larger one of flops and bytes, and stages; of all phases the sum
                     of theirs */
};

struct floor_time floor_phase(const struct floor_work *work, enum floor_phase phase,
                              const struct machine *machine, const struct machine_figures *figures);

/* So many times as fast. */
struct floor_time floor_side_by_side(struct floor_time time, size_t threads);

struct floor_time floor_total(const struct floor_work *work, const struct machine *machine,
                              const struct machine_figures *figures);

extern const char *const floor_phase_names[PHASES];

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
