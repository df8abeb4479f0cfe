/* The learner's insides, for learner*.c alone: learner.c opens and closes, learner_plan.c fills
   plans by the online protocol, learner_operations.c with what is played, in memory of
   learner_memory.c; learner_columns.c makes the engine's x, learner_time.c what of an example's
   time comes after it (learner_inputs.h); learner_targets.c is what it knows of targets and of
   steps that wait for them, learner_forecast.c what scale: forecast adds to both,
   learner_baseline.c says what the simplest forecast would have lost (learner_targets.h),
   learner_words.c gives words ids (learner_words.h), learner_anomaly.c says how abnormal what came
   is (learner_watch.h), learner_play.c plays plans and calls the observer, learner_state.c serves
   checkpoints, learner_adopt.c streams that come from elsewhere. */
#ifndef RUNNEL_LEARNER_INTERNAL_H
#define RUNNEL_LEARNER_INTERNAL_H

#include <math.h>

#include "baseline.h"
#include "changes.h"
#include "common/error.h"
#include "forecast/forecast.h"
#include "forecast/mixture.h"
#include "learner.h"
#include "learner_inputs.h"
#include "learner_planning.h"
#include "learner_state.h"
#include "learner_targets.h"
#include "learner_watch.h"
#include "learner_words.h"
#include "streams.h"
#include "truth.h"

struct learner {
    const struct model *model; /* of the configuration as it stands */
    const struct engine_ops *ops;
    struct learner_observer observer;
    struct member *members; /* (member_count,), and one more for its rates where that is 0 */
    size_t member_count;
    struct threads *threads; /* NULL: the caller's thread alone */
    char initial[CONFIG_PATH_SIZE];

    /* What is known of the streams, by slot. */
    struct streams *streams;
    struct changes *changes;   /* NULL: nobody asks */
    float *held;               /* (max_streams, I), NaN = none yet; NULL without hold */
    struct scaler *scaler;     /* NULL without scale: standard */
    struct input_range *range; /* NULL for symbols */

    /* What is known of targets and of the open steps that wait for them, by slot and place
       (model_place). */
    size_t target_row, places;
    struct scaler *output_scaler; /* of targets, with output.scale: standard; else NULL */
    struct learner_open *opens;   /* (max_streams, places); NULL with scale: forecast */
    double *scales; /* (max_streams, places, 2, target_row) mean and deviation that an open step was
                       predicted with; NULL where targets are not scaled */
    float *bases;   /* (max_streams, places, target_row) what its targets are relative to; also
                       with target: next and more than one open step; else NULL */
    float *lasts; /* (max_streams, target_row) the last observed target, NaN = none yet; NULL where
                     given or later targets are not relative to it */

    struct baseline *baseline; /* NULL: the loss has none, or scale: forecast */
    struct judged judged;
    struct learner_errors errors;

    struct words *words; /* NULL: symbols and classes are numbers */

    /* scale: forecast; else NULL. */
    struct forecaster *forecaster;
    struct mixture *mixture;
    unsigned experts;
    size_t forecast_count; /* experts and members */
    size_t said_row, forecast_row;
    struct said *said;      /* (plan_steps,) */
    double *said_numbers;   /* (plan_steps, said_row) */
    double *forecasts;      /* (plan_steps, forecast_row) as in struct learned */
    double *long_forecasts; /* of an example that spans plans; grows to the longest */
    size_t long_forecasts_capacity;
    double *table; /* (forecast_count, I) and (I,) */

    /* The plan of all members, its results and its examples. */
    size_t plan_steps;        /* room for steps, scores and examples */
    size_t plan_measures;     /* room for measures */
    size_t steps, measures;   /* in use */
    size_t input_row;         /* numbers in an x */
    struct planned *examples; /* (plan_steps,) */
    size_t example_count;
    size_t scale_row;           /* I; of columns that are targets, those: */
    double *means, *deviations; /* (plan_steps, scale_row) the scaler as each example was scaled, or
                                   NULL */
    double
        *score_scales; /* (scores, 2, target_row) per score what makes its error out of the output
                          a, offset + deviation a: the prediction for a = 0 less the target (NaN:
                          not observed, or not predicted) and the deviation. NULL as scales */
    double *output_means, *output_deviations; /* (plan_steps, target_row) of the output scaler
                                                 before each example, or NULL */
    float *
        step_bases; /* (plan_steps, target_row) of each step, where targets are relative; or NULL */

    /* Predictions beside their truths; NULL where nobody may ask for them. */
    struct truth *truth;
    struct moment *moments; /* (plan_steps, 1 + horizons) */
    size_t moment_count, truth_count;
    double *truths; /* (plan_steps, horizons, target_size) in original units */
    double *again;  /* (outputs,) */
    bool *begins;   /* (max_streams,) nothing has been said of the stream in that slot */

    struct learner_columns columns;
    struct learner_time time;
    struct watch watch;

    bool decays, keeps_start; /* of an optimizer: weight_decay, kept starting values (kinds.h) */
    bool want_outputs;
    bool measure; /* a label was to be measured: the next example with steps is */
    struct layer_statistics *long_measure; /* (layers,) of an example that spans plans */
    float *long_outputs; /* outputs of an example that spans plans; grows to the longest */
    size_t long_capacity;

    uint64_t taken;  /* examples taken since the start of learning */
    uint64_t played; /* those learned once the plan that is observed was */
    struct learner_counters counters;
};

#define LEARNER_NO_MEMORY_TO_TELL                                                                  \
    "out of memory for the predictions of an example of %zu steps: send it in pieces or turn "     \
    "statistics.predictions off"

/* Play the plan, give the observer every finished example, and begin an empty plan that continues
   with the unfinished one, if there is one. */
int learner_play(struct learner *learner, struct error *error);

/* What the learner itself keeps of the stream in a slot begins. */
void learner_begin_slot(struct learner *learner, uint32_t slot);

/* Forget all streams, and play that. The plan must be empty. */
int learner_forget_all(struct learner *learner, struct error *error);

/* The stream in a slot has changed with the entry that is being learned; it goes, before
   streams_remove. */
void learner_mark(struct learner *learner, uint32_t slot);
void learner_mark_gone(struct learner *learner, uint32_t slot);

/* Zero one member's states of all streams, and play that. The plan must be empty. */
int learner_forget_member(struct learner *learner, size_t member, struct error *error);

/* learner_start.c: the least squares of a member's output begin, where it is solved; its weights
   are those written after it. */
int learner_begin_solution(struct learner *learner, size_t member, struct error *error);

#endif
