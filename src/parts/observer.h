/* The results of examples, as the learner gives them to an observer: parts of a stream fill them in
   (part.h), the learner calls. */
#ifndef RUNNEL_OBSERVER_H
#define RUNNEL_OBSERVER_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "anomaly/anomaly.h"
#include "engine/engine.h"

struct example;
struct out_of_scale;
struct truth;

/* Counters since the start of learning (they are part of a checkpoint). */
struct learner_counters {
    uint64_t examples, steps, updates, skipped, forgotten;
    uint64_t position; /* of the newest journal entry taken; 0 = none, or without a journal */
};

/* Sums over scored steps of one number of the targets, in original units. */
struct column_error {
    double squared, absolute; /* of what was predicted less what came */
    double baseline;          /* squares, of what the baseline had said */
    uint64_t observed;
};

/* An observed number of a target, in original units: error of the prediction, and of the baseline;
   where that is not known, it counts as no better and no worse. */
static inline void column_error_add(struct column_error *column, double error, double of_baseline) {
    double square = error * error;
    column->squared += square;
    column->absolute += fabs(error);
    column->baseline += of_baseline == of_baseline ? of_baseline * of_baseline : square;
    column->observed++;
}

/* Of one expert or member. */
struct expert_loss {
    double loss;   /* mean over observed columns of (forecast - y)^2 in changes, each at most 900 */
    double weight; /* mean over those of the weight that it had */
};

struct learner_errors {
    uint64_t scored;              /* steps */
    struct column_error *columns; /* (target_size,) squared, gaussian; else 0 */
    struct expert_loss *experts;  /* (learner_forecasts,) */
};

/* The results of one example. Pointers are valid until the observer returns. */
struct learned {
    const char *key; /* its stream */
    size_t key_size;
    uint64_t examples; /* examples learned so far, this one included */
    uint64_t steps;    /* steps so far, those of this one included */
    uint64_t played; /* examples learned once its plan had been played: what goes with a clock that
                        is read while they are observed */
    uint64_t received; /* as in struct example */
    double time;       /* of its header, Unix time; 0 = unknown */
    size_t scored;     /* steps scored by this example */
    double loss;       /* mean loss over them; NaN when scored is 0 */
    /* squared, gaussian: sum over scored steps and observed numbers of (prediction - x)^2 in
       original units, the prediction turned back as it was published: with the scale of the example
       that made it. A number that had never been observed then was not predicted: it does not
       count. */
    double squared_error;
    double baseline;      /* mean loss of the baseline (baseline.h) over the same steps: NaN when
                             scored is 0, the loss has none, or it is not known */
    size_t observed;      /* numbers in that sum; softmax: scored steps; bernoulli: numbers */
    size_t correct;       /* softmax: steps whose most probable class (the first of equals) was the
                             target; bernoulli: numbers on the target's side of 1/2 */
    size_t updates;       /* updates applied while it was learned */
    size_t skipped;       /* updates skipped: loss or gradient not finite */
    double gradient_norm; /* of the last of these updates; 0 without one */
    double update_ratio;  /* likewise */
    const double *mean;   /* (I,) the scaler's mean as this example was scaled, NaN where nothing */
    const double *deviation; /* (I,) had been observed yet. x = mean + deviation * z. Both NULL with
                                scale: none; of columns that are targets, those alone */
    /* scale: forecast: what was said at its steps, in original units, or NULL when not asked for: a
       row a step, of what is combined (horizons, I), of what each expert and member says
       (horizons, N, I), and of their weights (horizons, N, I). NaN of a column that was never seen.
       See learner_forecasts. */
    const double *forecasts; /* (T, forecast_row) */
    size_t forecast_row;
    /* (T, K) network outputs at its steps, or NULL when not asked for; of relative targets with
       what they are relative to added. As scaled with */
    const float *outputs;
    size_t output_steps;       /* T, of a label 0 */
    const double *target_mean; /* (size,) likewise of targets, as predictions are turned back: */
    const double
        *target_deviation;     /* as it was before this example's y. NULL: they are not scaled */
    const struct truth *truth; /* predictions beside their truths (truth.h), or NULL when not asked
                                  for: of this example what was told from these on */
    size_t told_scores, told_steps;
    const struct anomaly_said *anomaly; /* how abnormal it is, the largest of its steps and scores;
                                           NULL: nobody looks */
    const struct layer_statistics *const *measured; /* (members,) of (layers,), or NULL when not
                                                       asked for */
    size_t streams;                                 /* streams in memory after it */
};

/* Whether what was said at its steps was asked for: see prediction.h. */
static inline bool learned_has_outputs(const struct learned *learned) {
    return learned->outputs || learned->forecasts;
}

/* Why there is an alarm: what came is novel, its forecast was far off, a column repeats one value,
   it or the whole stream sends none. Their names: novelty, surprise, stuck, silent. */
enum learner_alarm_kind { ALARM_NOVELTY, ALARM_SURPRISE, ALARM_STUCK, ALARM_SILENT };

/* A step that is an alarm. Pointers are valid until the observer returns. */
struct learner_alarm {
    enum learner_alarm_kind kind;
    const char *key; /* its stream */
    size_t key_size;
    uint64_t example;     /* its number, as in struct learned */
    uint64_t stream_step; /* steps of the stream before it */
    double time;          /* of its header, Unix time; 0 = unknown */
    double score;         /* of the step; NaN with stuck and silent */
    double threshold;     /* what that had to reach, without fatigue; NaN likewise */
    size_t column;        /* the one that it is about: of the largest score, or stuck or silent;
                             SIZE_MAX: the stream as a whole */
    size_t columns;     /* those of x that are real; 0 for symbols, and with a whole stream that is
                           silent, where the rest is not there: */
    const uint16_t *at; /* (columns,) where each is in x; NULL: they are all of x */
    struct anomaly_said said; /* of the example so far: `scores` and `surprises` by column */
    const float *x;           /* (columns,) what came, NaN = missing; NULL of a label */
    const double *forecast;   /* (columns,) what had been said of it, NaN = nothing; NULL unless the
                                 target is the next x */
};

/* Why a label changes nothing. Their names: unknown, labelled, closed, size. */
enum label_refusal {
    LABEL_UNKNOWN,  /* its stream has no open step of that example */
    LABEL_LABELLED, /* it has a label already */
    LABEL_CLOSED,   /* some of its steps are closed, since too many were open */
    LABEL_SIZE,     /* it has another number of steps */
    LABEL_REFUSALS,
};

struct learner_observer {
    void *context;
    /* An alarm: told when it has been played, before its example is; of a whole stream that is
       silent, when another stream's example is taken. May be NULL. */
    void (*alarmed)(void *context, const struct learner_alarm *alarm);
    /* Once for each example, in order. */
    void (*learned)(void *context, const struct learned *learned);
    /* A stream made room for another: its state is gone. In order with the examples. */
    void (*forgotten)(void *context, const char *key, size_t key_size);
    /* Numbers of an example's x are out of scale (range.h): told when it is taken. May be
       NULL. */
    void (*out_of_scale)(void *context, const struct example *example,
                         const struct out_of_scale *found);
    /* A label: told when it is taken. `age`: steps of its stream from the last of those that it is
       for to the newest one; `time`: of the header of the example that it is for, Unix time, 0 =
       unknown. May be NULL. */
    void (*labelled)(void *context, const struct example *label, size_t age, double time);
    /* A label that changes nothing, and why, in a sentence, too. May be NULL. */
    void (*refused)(void *context, const struct example *label, enum label_refusal reason,
                    const char *why);
    /* Whether example number `example` (counted from 1) is to be measured. May be NULL. */
    bool (*measure)(void *context, uint64_t example);
    /* After each plan: a sign of life, for a long example takes many. May be NULL. */
    void (*played)(void *context);
};

#endif
