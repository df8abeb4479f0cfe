/* The interface between the learner, which plans, and an engine, which plays.

   The learner knows streams, windows, strides and targets, and no arithmetic; an engine knows
   arithmetic, and neither streams' names nor sockets. Between them is a plan: an array of
   operations, fixed before the first of them is played, since what happens next follows from the
   examples' order alone. How operations are cut into plans never changes a bit of any result.

   A *slot* is an engine's memory of one stream: its running hidden state, the outputs of its open
   steps, and a ring of *positions* (model_ring) that hold, for the closed steps of the window and
   the open ones, the step's input, the state before it, and the targets to be learned from, one
   for each horizon.

   Operations, in the order in which they may come for one slot:
     FORGET   zero the state and what is kept for the learning rule; the ring's content counts no
              more
     STEP     forward one step from the slot's state; keep x and the state before it at `position`
     SCORE    loss of what the open step at `position` says of a `horizon`; keep y there when it is
              to be learned
     UPDATE   one optimizer step on the mean loss over the `terms` targets kept at the last `closed`
              steps of a window of `length` steps that begins at `position`; the gradient reaches
              back through the whole window, recomputed from the state kept before its first step
              unless `fresh`: then the activations kept by the STEPs of the window are still those
              that today's parameters give. Running statistics of norms move after it, towards
              those of the last `closed` steps. When the loss or a gradient is not finite, nothing
              changes. By a learning rule without a window (struct rule_kind) `length` is `closed`,
              and what the slot keeps for the rule moves on over these steps
     ADVANCE  of such a rule: it moves on over `closed` steps without a target, as UPDATE has it
     SOLVE    of a model whose output is solved: one step of its least squares, from what the STEP
              at `position` made (h, x and 1) to its targets y of all horizons, or as much of them
              as is observed; what the step then had predicted does not matter, today's weights do.
              After the UPDATE that the same targets bring
     MEASURE  statistics of the newest step of any slot

   Forbidden: another slot's STEP, or an UPDATE, after the first STEP of a window that is called
   fresh; a SCORE without a STEP; an UPDATE without a target; a position beyond the ring. */
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
    uint32_t value;    /* STEP: row of plan.inputs. SCORE: row of plan.targets; SOLVE: the first
                          of as many rows as there are horizons */
    uint32_t horizon;  /* SCORE */
    uint32_t length;   /* UPDATE, ADVANCE: closed steps in the window, 1..window */
    uint32_t closed;   /* likewise: those since the last update, its last 1..length */
    uint32_t terms;    /* UPDATE: targets kept at those, at least 1 */
    bool learn;        /* SCORE: keep the target; else the position keeps none */
    bool fresh;        /* UPDATE, ADVANCE */
};

struct plan {
    struct operation *operations;
    size_t count;
    union value *inputs;  /* (steps, features) */
    union value *targets; /* (rows, target_size); NaN = not observed, never all of a SCORE's */
    size_t steps, scores, updates, measures; /* operations of each kind */
    size_t rows;                             /* of targets */
    bool outputs;                            /* whether results.outputs are wanted */
    double rate;                             /* learning rate of every UPDATE of the plan */
    double clip;                             /* largest gradient norm, 0 = no clipping */
};

struct update_result {
    bool applied;         /* false: loss or gradient was not finite, nothing was changed */
    double gradient_norm; /* before clipping */
    double update_ratio;  /* norm of the parameters' change over norm of the parameters before it */
    double squares;       /* the latter, squared */
};

/* Mean and standard deviation over the units of a layer, at one step. */
struct mean_std {
    double mean, std;
};

/* From which on a unit is saturated: |value| of h, and of the lstm's cell. */
#define ENGINE_SATURATED_HIDDEN 0.99
#define ENGINE_SATURATED_CELL 5.0

struct unit_statistics {
    double mean, std, minimum, maximum, norm;
    double saturated; /* share of units */
};

struct parameter_statistics {
    double mean, std, minimum, maximum;
};

enum { MEASURE_BINS = 20 };

/* Statistics of one layer at one step. What a cell or norm does not have is left zero. */
struct layer_statistics {
    struct mean_std summed_inputs;    /* W_ih x + b_ih (rnn: the whole sum), before normalization */
    struct mean_std summed_recurrent; /* lstm, gru: W_hh h, before normalization */
    struct unit_statistics hidden;    /* h after the step */
    struct unit_statistics cell;      /* lstm: c after the step */
    struct parameter_statistics gain, bias; /* over all norms of the layer */
    struct parameter_statistics running_mean,
        running_var;                  /* of a norm that has them, over all ages */
    uint32_t histogram[MEASURE_BINS]; /* of h over [-1, 1]; beyond: the outer bins */
};

/* Written by play, in the order of the plan's operations of each kind. The caller provides the
   arrays, sized by the plan's counts. */
struct results {
    double *losses;                    /* (scores,) */
    float *scored;                     /* (scores, K / horizons): what each SCORE scored */
    float *outputs;                    /* (steps, K), if plan.outputs */
    struct update_result *updates;     /* (updates,) */
    struct layer_statistics *measures; /* (measures, layers) */
};

/* What of an engine can be read and written between plans. All but counters and SOLUTION are
   float32. */
enum engine_block {
    ENGINE_PARAMETERS, /* one tensor, in the table's layout: running statistics, too */
    ENGINE_SLOT,       /* one slot's record, see model.h */
    ENGINE_UPDATES,    /* one uint64_t: updates applied so far, the t of adam's bias correction */
    ENGINE_SOLUTION,   /* of an output that is solved: the block of its least squares, doubles; its
                          tensors are rounded from that, and writing those begins with them */
    ENGINE_MOMENTS, /* + k, of one tensor: the k-th number that the optimizer keeps beside each */
};

/* The least squares that solve the output of such a model: h of the last layer, x of the skip path
   and 1 to its activations. A level needs a weaker prior than a change, which is small. */
static inline struct least_squares engine_solution(const struct model *model) {
    const double keep = 0.9998, of_level = 30, of_change = 100;
    bool level = model->architecture.output.relative == RELATIVE_NONE;
    return least_squares_of(model->solved, model->outputs, keep, level ? of_level : of_change);
}

/* The output's bias of a class that has not come: beside any other logit its share is 0 in float32,
   and so is its gradient. No update moves a parameter of this value whose gradient is 0: neither
   does weight decay. */
#define ENGINE_HIDDEN_BIAS (-200.0F)

/* What an error counts for at most in that. */
#define ENGINE_SOLUTION_MOST 6.0

struct engine_options {
    struct optimizer optimizer;
    enum rule rule;
    size_t window;              /* largest length of an UPDATE */
    size_t slots;               /* slots 0..slots-1; memory is touched when a slot is first used */
    const struct plan *longest; /* only its counts are read, which no plan exceeds, and while it
                                   opens: what an engine takes for plans is budgeted by them.
                                   NULL: not known */
    struct threads *threads;    /* that an engine may share its work with, while no others play on
                                   them (common/threads.h); they outlive it. NULL: none */
};

/* One engine's part of what several play together. */
struct engine_part {
    struct engine *engine;
    const struct plan *plan;
    const struct results *results;
};

struct engine_ops {
    const char *name; /* "cpu", "cuda" */

    /* Open an engine with parameters, moments and slots all zero. The model must outlive it.
       `device` is the configuration's, e.g. "cpu" or "cuda:1". */
    int (*open)(struct engine **engine, const struct model *model,
                const struct engine_options *options, const char *device, struct error *error);

    /* Play the plan to its end. -1 only when the device fails: the engine can then only be closed.
     */
    int (*play)(struct engine *engine, const struct plan *plan, const struct results *results,
                struct error *error);

    /* Play the plans of several engines, each to its end: the same bits as one after the other. -1
       only when the device fails: all of them can then only be closed. NULL: an engine of this kind
       is played on the thread that asks, and several can be on several threads. */
    int (*play_together)(const struct engine_part *parts, size_t count, struct error *error);

    /* Copy a block out of or into the engine. `index` is the tensor's in the table, or the slot. */
    int (*read)(struct engine *engine, enum engine_block block, size_t index, void *data,
                struct error *error);
    int (*write)(struct engine *engine, enum engine_block block, size_t index, const void *data,
                 struct error *error);

    /* What computes, for people and for a checkpoint's fingerprint: the same text means the same
       bits. Valid until close. */
    const char *(*describe)(const struct engine *engine);

    void (*close)(struct engine **engine);
};

extern const struct engine_ops cpu_engine;

#endif
