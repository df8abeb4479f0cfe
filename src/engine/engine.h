/* The interface between the learner, which plans, and an engine, which plays.

   The learner manages streams, windows, strides and targets, without arithmetic; an engine does
   the arithmetic, without names of streams or sockets. A plan connects them: an array of
   operations, complete before the first one is played, since the operations follow from the order
   of the examples. Splitting operations into plans differently never changes a bit of any result.

   A *slot* is an engine's memory of one stream: its running hidden state, the outputs of its open
   steps, and a ring of *positions* (model_ring). The positions hold the closed steps of the window
   and the open ones: the step's input, the state before it, and the targets to be learned, one for
   each horizon, or for each output of a list.

   Operations, in the order in which they may occur for one slot:
     FORGET   zero the state and the state of the learning rule; the ring becomes invalid
     STEP     forward one step from the slot's state; keep x and the state before it at `position`
     SCORE    loss of the forecast of a `horizon` (model->heads) by the open step at `position`,
              without the head's weight; keep y there if it is to be learned. NAN: the head had
              nothing to score against, and y is not kept
     UPDATE   one optimizer step on the mean loss over the `terms` targets kept at the last `closed`
              steps of a window of `length` steps that begins at `position`. With several outputs a
              step is one term: its loss is their weighted sum. The gradient covers the
              whole window, recomputed from the state before its first step, unless `fresh`: then
              the activations kept by the STEPs of the window are those of the current parameters.
              Running statistics of norms then move towards those of the last `closed` steps. If
              the loss or a gradient is not finite, nothing changes. For a learning rule without a
              window (struct rule_kind) `length` is `closed`, and the slot's state of the rule
              advances over these steps
     ADVANCE  for such a rule: as UPDATE, over `closed` steps without a target
     SOLVE    of a model whose output is solved: one step of its least squares, from the STEP's
              inputs at `position` (h, x and 1) to its observed targets y of all horizons. It uses
              the current weights, not the step's forecasts. It follows the UPDATE of the same
              targets
     MEASURE  statistics of the newest step of any slot

   Not allowed: another slot's STEP, or an UPDATE, after the first STEP of a window with `fresh`;
   a SCORE without a STEP; an UPDATE without a target; a position beyond the ring. */
#ifndef RUNNEL_ENGINE_H
#define RUNNEL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forecast/least_squares.h"
#include "model/model.h"

struct error;
struct engine;
struct threads;

enum operation_kind {
    OPERATION_FORGET,
    OPERATION_STEP,
    OPERATION_SCORE,
    OPERATION_UPDATE,
    OPERATION_ADVANCE,
    OPERATION_SOLVE,
    OPERATION_MEASURE,
};

struct operation {
    enum operation_kind kind;
    uint32_t slot;
    uint32_t position; /* STEP, SCORE, SOLVE: of the step. UPDATE, ADVANCE: of the first one */
    /* STEP: row of plan.inputs. SCORE: row of plan.targets; SOLVE: first of one row per horizon */
    uint32_t value;
    uint32_t horizon; /* SCORE: number of the head */
    uint32_t length;  /* UPDATE, ADVANCE: closed steps in the window, 1..window */
    /* UPDATE, ADVANCE: steps closed since the last update, the last 1..length of these */
    uint32_t closed;
    uint32_t terms; /* UPDATE: targets kept at those steps, or steps with some; at least 1 */
    bool learn;     /* SCORE: keep the target for learning; else the position keeps none */
    bool fresh;     /* UPDATE, ADVANCE */
    bool probe;     /* UPDATE: report what it removed of its loss; not for other rules than tbptt */
};

struct plan {
    struct operation *operations;
    size_t count;
    union value *inputs;  /* (steps, features) */
    union value *targets; /* (rows, target_size); NaN = not observed, but not all of a SCORE's */
    size_t steps, scores, updates, measures; /* operations of each kind */
    size_t rows;                             /* of targets */
    bool outputs, hidden;                    /* whether results.outputs and .hidden are filled */
    double rate;                             /* learning rate of every UPDATE of the plan */
    double clip;                             /* largest gradient norm, 0 = no clipping */
};

struct update_result {
    bool applied;         /* false: loss or gradient was not finite, nothing changed */
    bool empty;           /* ... or no target was kept: the bank of a ranking had no other */
    double gradient_norm; /* before clipping */
    double update_ratio;  /* norm of the parameters' change / norm of the parameters before it */
    double squares;       /* squared norm of the parameters before it */

    /* Of a `probe`; else NaN and 0: */
    double plasticity; /* share of the loss of its targets that the update removed, 0 to 1 */
    double growth;     /* the largest of a layer: see struct weight_statistics */
    uint32_t layer;    /* that layer */
};

/* Mean and standard deviation over the units of a layer, at one step. */
struct mean_std {
    double mean, std;
};

/* A unit is saturated from this |value| of h, or of the lstm's cell. */
#define ENGINE_SATURATED_HIDDEN 0.99
#define ENGINE_SATURATED_CELL 5.0

struct unit_statistics {
    double mean, std, minimum, maximum, norm;
    double saturated; /* share of units */
};

/* Over updates (kernels/activities.h); NaN: not known yet. */
struct activity_statistics {
    double dormant, saturated; /* shares of units */
    double rank;
};

/* Norm of a layer's matrices, and its ratio to that at the start of learning. */
struct weight_statistics {
    double norm, growth;
};

struct parameter_statistics {
    double mean, std, minimum, maximum;
};

enum { MEASURE_BINS = 20 };

/* Statistics of one layer at one step; zero if its cell or norm does not have them. */
struct layer_statistics {
    struct mean_std summed_inputs;    /* W_ih x + b_ih (rnn: the whole sum), before normalization */
    struct mean_std summed_recurrent; /* lstm, gru: W_hh h, before normalization */
    struct unit_statistics hidden;    /* h after the step */
    struct unit_statistics cell;      /* lstm: c after the step */
    struct activity_statistics units;
    struct weight_statistics weights;
    struct parameter_statistics gain, bias; /* over all norms of the layer */
    struct parameter_statistics running_mean,
        running_var; /* running statistics of the norms that have them, over all ages */
    /* counts of h over [-1, 1]; values beyond count in the outer bins */
    uint32_t histogram[MEASURE_BINS];
};

/* Written by play, in the order of the plan's operations of each kind. The caller provides the
   arrays, with the sizes of the plan's counts. */
struct results {
    double *losses;   /* (scores,) */
    float *scored;    /* (scores, model->scored): forecasts of each SCORE */
    float *outputs;   /* (steps, K), if plan.outputs */
    float *hidden;    /* (steps, width) h of model.layers, if plan.hidden: only by the CPU engine */
    float *attention; /* (steps, input_weights) of atoms, if plan.outputs; or NULL */
    struct update_result *updates;     /* (updates,) */
    struct layer_statistics *measures; /* (measures, layers) */
};

/* Blocks of an engine that can be read and written between plans, as float32 except counters and
   SOLUTION. */
enum engine_block {
    ENGINE_PARAMETERS, /* one tensor, in the table's layout, including running statistics */
    ENGINE_SLOT,       /* one slot's record, see model.h */
    ENGINE_UPDATES,    /* one uint64_t: number of updates, the t of adam's bias correction */
    /* the least squares of a solved output, doubles: its tensors are rounded from them, and writing
       those tensors restarts them */
    ENGINE_SOLUTION,
    ENGINE_ACTIVITY, /* doubles: enum activity_number. Writing zeros begins them */
    /* uint32_t: for each output that ranks, enum bank_number, then the targets in its bank
       (negatives, size). Writing zeros empties them */
    ENGINE_BANK,
    /* + k: of one tensor, the k-th number that the optimizer keeps for each parameter */
    ENGINE_MOMENTS,
};

/* Statistics over updates (kernels/activities.h): their number, the age, then for each layer these
   numbers, followed by rows, of its output: m, a and the ring of q. */
enum activity_number {
    ACTIVITY_START, /* norm of the layer's matrices at age 0 */
    ACTIVITY_E1,
    ACTIVITY_E2,
    ACTIVITY_HEAD,
};
enum { ACTIVITY_RING = 8, ACTIVITY_ROWS = 2 + ACTIVITY_RING };

/* The first numbers of a bank: the running number of the next target, of 64 bits, and how many it
   has. Target number n is at n % negatives. */
enum bank_number { BANK_NEXT, BANK_COUNT = 2, BANK_HEAD };

/* Numbers in an output's bank; 0: it ranks nothing. */
static inline size_t engine_bank_size(const struct model *model, size_t output) {
    const struct output *ranks = model_output(model, output);
    size_t targets = ranks->ranking.negatives;
    return targets ? BANK_HEAD + targets * output_candidate_size(ranks) : 0;
}

static inline size_t engine_banks_size(const struct model *model) {
    size_t size = 0;
    for (size_t k = 0; k <= model->architecture.other_count; k++)
        size += engine_bank_size(model, k);
    return size;
}

/* Numbers before those of a layer. */
static inline size_t engine_activity_at(const struct model *model, size_t layer) {
    size_t size = 1;
    for (size_t k = 0; k < layer; k++)
        size += ACTIVITY_HEAD + ACTIVITY_ROWS * layer_width(model_layer(model, k));
    return size;
}

static inline size_t engine_activity_size(const struct model *model) {
    return engine_activity_at(model, model->layer_count);
}

/* The least squares of a solved output: h of the last layer, x of the skip path and 1 to its
   activations. Levels need a weaker prior than changes, which are small. */
static inline struct least_squares engine_solution(const struct model *model) {
    const double keep = 0.9998, of_level = 30, of_change = 100;
    bool level = model->architecture.output.relative == RELATIVE_NONE;
    return least_squares_of(model->solved, model->outputs, keep, level ? of_level : of_change);
}

/* The output's bias of a class that has not occurred yet: its share is 0 in float32, and so is
   its gradient. Updates and weight decay do not move a parameter of this value with gradient 0. */
#define ENGINE_HIDDEN_BIAS (-200.0F)

/* Largest error that the least squares take. */
#define ENGINE_SOLUTION_MOST 6.0

/* The part of a GPU that plays one network, in the order of `device_scope`. */
enum scope { SCOPE_AUTO, SCOPE_BLOCK, SCOPE_CLUSTER, SCOPE_GRID };

static inline const char *scope_name(enum scope scope) {
    static const char *const names[] = {"auto", "block", "cluster", "grid"};
    return names[scope];
}

struct engine_options {
    struct optimizer optimizer;
    enum rule rule;
    enum scope scope; /* the CPU engine ignores it */
    size_t window;    /* largest length of an UPDATE */
    size_t slots;     /* slots 0..slots-1; a slot's memory is touched on first use */
    /* upper bounds of the counts of all plans, to budget their memory; only valid while opening.
       NULL: unknown */
    const struct plan *longest;
    /* threads for the engine's work, while no others play on them (common/threads.h); they
       outlive the engine. NULL: none */
    struct threads *threads;
};

/* One engine's part of a joint play. */
struct engine_part {
    struct engine *engine;
    const struct plan *plan;
    const struct results *results;
};

struct engine_ops {
    const char *name; /* "cpu", "cuda" */

    /* Opens an engine with parameters, moments and slots all zero. The model must outlive it.
       `device` is the configuration's, e.g. "cpu" or "cuda:1". */
    int (*open)(struct engine **engine, const struct model *model,
                const struct engine_options *options, const char *device, struct error *error);

    /* Plays the plan to its end. -1 only if the device fails: then only close the engine. */
    int (*play)(struct engine *engine, const struct plan *plan, const struct results *results,
                struct error *error);

    /* Plays the plans of several engines, each to its end, with the same bits as one after the
       other. -1 only if the device fails: then only close them all. NULL: an engine of this kind
       plays on the caller's thread, and several engines may play on several threads. */
    int (*play_together)(const struct engine_part *parts, size_t count, struct error *error);

    /* Copies a block out of or into the engine. `index` is the tensor's in the table, or the
       slot. */
    int (*read)(struct engine *engine, enum engine_block block, size_t index, void *data,
                struct error *error);
    int (*write)(struct engine *engine, enum engine_block block, size_t index, const void *data,
                 struct error *error);

    /* Describes the computing device for users. Valid until close, as is `fingerprint`. */
    const char *(*describe)(const struct engine *engine);

    /* The device in a checkpoint: equal texts mean equal bits. NULL: the description. */
    const char *(*fingerprint)(const struct engine *engine);

    void (*close)(struct engine **engine);
};

extern const struct engine_ops cpu_engine;

#endif
