/* The learner's insides, for learner*.c alone: learner.c opens and closes, learner_plan.c sizes
   plans and fills them by the online protocol, learner_play.c plays plans and calls the observer,
   learner_state.c serves checkpoints. */
#ifndef RUNNEL_LEARNER_INTERNAL_H
#define RUNNEL_LEARNER_INTERNAL_H

#include "common/wire.h"
#include "config/config.h"
#include "learner.h"
#include "learner_state.h"
#include "streams.h"

/* One example of the plan: its results, gathered while its plans are played. An
   example that is longer than a plan is the last of one plan and the first of the next. */
struct planned {
    char key[WIRE_KEY_MAX], forgotten[WIRE_KEY_MAX];
    size_t key_size, forgotten_size;
    bool forgets;  /* the stream `forgotten` made room for it */
    bool outputs;  /* its outputs are wanted */
    bool measured; /* it has a MEASURE */
    bool finished; /* all of it has been planned */
    uint64_t received;
    size_t steps;                                          /* of the whole example */
    size_t streams;                                        /* in memory after it */
    size_t planned_steps, planned_scores, planned_updates; /* in this plan */
    size_t gathered_steps;                                 /* played in earlier plans */
    size_t scored, observed, correct, updates, skipped;    /* as in struct learned */
    double loss_sum, squared_error, gradient_norm, update_ratio;
};

struct learner {
    const struct model *model;
    const struct engine_ops *ops;
    struct engine *engine;
    struct learner_observer observer;

    char initial[CONFIG_PATH_SIZE];
    uint64_t seed;
    size_t window, stride, moments;
    struct learner_rates rates;

    /* What is known of the streams, by slot. */
    struct streams *streams;
    struct learner_window *windows; /* (max_streams,) */
    float *held;                    /* (max_streams, I), NaN = none yet; NULL without hold */
    struct scaler *scaler;          /* NULL with scale: none */
    struct input_range *range;      /* NULL for symbols */
    double *scales; /* (max_streams, 2, I) mean and deviation that each stream's open step was
                       predicted with; NULL without scale: standard and target: next */

    /* The latest unbroken run of STEPs: of one slot, with no UPDATE among them and nothing else
       that changed parameters. A window that lies at its end is fresh. */
    uint32_t run_slot;
    uint64_t run_length;

    /* The plan, its results and its examples. */
    size_t plan_steps;    /* room for steps, scores and examples */
    size_t plan_measures; /* room for measures */
    size_t input_row;     /* numbers in a row of plan.inputs */
    struct plan plan;
    struct results results;
    struct planned *examples; /* (plan_steps,) */
    size_t example_count;
    double *means, *deviations; /* (plan_steps, I) the scaler as each example was scaled, or NULL */
    double *score_scales; /* (plan_steps, 2, I) per score what makes its error out of the output a,
                             offset + deviation a: the mean less x (NaN: not observed, or not
                             predicted) and the deviation. NULL as scales */

    bool want_outputs;
    float *long_outputs; /* outputs of an example that spans plans; grows to the longest */
    size_t long_capacity;

    uint64_t taken;  /* examples taken since the start of learning */
    uint64_t played; /* those learned once the plan that is observed was */
    struct learner_counters counters;
};

/* Play the plan, give the observer every finished example, and begin an empty plan that continues
   with the unfinished one, if there is one. */
int learner_play(struct learner *learner, struct error *error);

/* The plan's memory: for at most so many steps. False when out of memory; close it all the same. */
bool learner_plan_open(struct learner *learner, size_t most_steps);
void learner_plan_close(struct learner *learner);

/* Forget all streams, and play that. The plan must be empty. */
int learner_forget_all(struct learner *learner, struct error *error);

/* Operations that one step can bring at most: FORGET of the stream that made room, STEP, MEASURE,
   SCORE and UPDATE, and at the end of a sequence one more UPDATE and FORGET. */
enum { OPERATIONS_PER_STEP = 7, UPDATES_PER_STEP = 2 };

#endif
