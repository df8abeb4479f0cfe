/* The results of examples for an observer: parts of a stream fill them in (part.h), the learner
   calls. */
#ifndef RUNNEL_OBSERVER_H
#define RUNNEL_OBSERVER_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "anomaly/anomaly.h"
#include "anomaly/incident.h"
#include "engine/engine.h"
#include "symbols/symbols.h"

struct example;
struct out_of_scale;
struct truth;

/* Counters since the start of learning, saved in checkpoints. */
struct learner_counters {
    uint64_t examples, steps, updates, skipped, forgotten;
    uint64_t position; /* newest journal entry taken; 0 = none, or no journal */
};

/* Sums over scored steps of one number of the targets, in original units. */
struct column_error {
    double squared, absolute; /* sums of the prediction's error */
    double baseline;          /* squares of the baseline's error */
    uint64_t observed;
    double crps, log_score; /* sums over `scored` numbers that had a distribution */
    uint64_t scored;
};

/* Adds the errors of prediction and baseline for an observed number, in original units. An unknown
   baseline counts as equal. */
static inline void column_error_add(struct column_error *column, double error, double of_baseline) {
    double square = error * error;
    column->squared += square;
    column->absolute += fabs(error);
    column->baseline += of_baseline == of_baseline ? of_baseline * of_baseline : square;
    column->observed++;
}

/* The loss of one expert or member. */
struct expert_loss {
    double loss;   /* mean over observed columns of (forecast - y)^2 in changes, at most 900 */
    double weight; /* mean weight over these columns */
};

/* Sums over numbers with a distribution: CRPS, absolute error of the baseline and log score, each
   in the root mean square change of its column. */
struct distribution_error {
    double crps, baseline, log_score;
    uint64_t observed;
};

/* Sums over the scores of an output of a list, or of a late one: those with a finite loss, and as
   in struct learned. Of a ranking also of ranks and numbers of candidates, and the counts of ranks
   up to 1, 10 and 20. */
struct output_sums {
    uint64_t scored, observed, correct, recall_1, recall_10, recall_20;
    double loss, squared_error, rank, among;
};

struct learner_errors {
    uint64_t scored;              /* steps */
    struct column_error *columns; /* (target_size,) squared, gaussian; otherwise 0 */
    struct expert_loss *experts;  /* (learner_forecasts,) */
    struct distribution_error distribution;
    struct output_sums outputs[OUTPUTS_MAX]; /* 0 of an only output that is not late */
};

/* The results of one example. Pointers are valid until the observer returns. */
struct learned {
    const char *key; /* its stream */
    size_t key_size;
    uint64_t examples; /* learned so far, with this one */
    uint64_t steps;    /* learned so far, with those of this example */
    /* Examples learned when its plan had been played: the count that belongs to a clock read
       now. */
    uint64_t played;
    uint64_t received; /* the field of struct example */
    double time;       /* time in its header, Unix time; 0 = unknown */
    size_t scored;     /* steps scored by this example */
    double loss;       /* mean loss over them; NaN when scored is 0 */
    /* squared, gaussian: sum over scored steps and observed numbers of (prediction - x)^2 in
       original units. The prediction is unscaled as it was published, with the scale of its own
       example. Numbers without an earlier observation were not predicted, and do not count. */
    double squared_error;
    /* Mean loss of the baseline (baseline.h) over the same steps: NaN when scored is 0, or without
       a known baseline. */
    double baseline;
    size_t observed; /* numbers in that sum; softmax: scored steps; bernoulli: numbers */
    /* softmax: steps whose most probable class (the first of equals) was the target; bernoulli:
       numbers on the target's side of 1/2. */
    size_t correct;
    size_t atoms_read, atoms_written; /* atoms of its messages, and of scored targets */
    size_t updates;                   /* applied while it was learned */
    size_t skipped;                   /* not applied: loss or gradient not finite */
    double gradient_norm;             /* the last of these updates'; 0 without one */
    double update_ratio;              /* the last of these updates'; 0 without one */
    size_t output_steps;              /* T below; 0 for a label */
    size_t streams;                   /* streams in memory after the update */
    /* (members,) of (layers,); NULL: not requested. */
    const struct layer_statistics *const *measured;
    /* From here on each part sets its fields; they are 0 without it. (I,) mean and deviation of the
       scaler for this example, NaN before an observation: x = mean + deviation * z. NULL with
       scale: none. If columns are targets, those columns only. */
    const double *mean;
    const double *deviation;
    /* scale: forecast: the forecasts at its steps, in original units; NULL: not requested. Each
       step has a row: combined (horizons, I), of each expert and member (horizons, N, I), and their
       weights (horizons, N, I). NaN in a column without an observation. See learner_forecasts. */
    const double *forecasts; /* (T, forecast_row) */
    size_t forecast_row;
    /* (T, K) network outputs at its steps, with the base added to relative targets; NULL: not
       requested. */
    const float *outputs;
    const float *hidden; /* (T, width) h of the first network; NULL: not requested */
    size_t width;
    const float *attention; /* (atoms_read,) weights of its atoms; NULL: not requested */
    /* preset: symbols: a row for each of its steps: the class that came and its probability, and
       the guess_count most probable classes before it, after it, and with `all` those of experts
       and networks. Fewer end with a probability of 0. NULL: not requested. */
    const struct symbols_guess *guesses;
    size_t guess_count, guess_row;
    bool guess_bytes; /* they are bytes */
    /* (size,) mean and deviation for unscaling predictions, before this example's y. NULL: not
       scaled. */
    const double *target_mean;
    const double *target_deviation;
    /* Predictions with their truths (truth.h); NULL: not requested. Those of this example start at
       first_pair and first_bounds. */
    const struct truth *truth;
    size_t first_pair, first_bounds;
    /* The largest score of its steps and scores; NULL: anomaly detection is off. */
    const struct anomaly_result *anomaly;
};

#define SYMBOLS_GUESSES(count, others) (1 + (count) * (2 + (others))) /* in a row */

/* Returns whether its predictions were requested: see prediction.h. */
static inline bool learned_has_outputs(const struct learned *learned) {
    return learned->outputs || learned->forecasts || learned->guesses;
}

/* The kind of an alarm: novel input, a large forecast error, columns that are not as usual
   together, a column that repeats one value, a column or stream without data. Their names:
   novelty, surprise, level, stuck, silent. */
enum learner_alarm_kind { ALARM_NOVELTY, ALARM_SURPRISE, ALARM_LEVEL, ALARM_STUCK, ALARM_SILENT };

/* An alarm at a step. Pointers are valid until the observer returns. */
struct learner_alarm {
    enum learner_alarm_kind kind;
    const char *key; /* its stream */
    size_t key_size;
    uint64_t example;     /* its number, as in struct learned */
    uint64_t stream_step; /* steps of the stream before it */
    double time;          /* time in its header, Unix time; 0 = unknown */
    double score;         /* the step's score; NaN with stuck and silent */
    double threshold;     /* threshold without fatigue; NaN with stuck and silent */
    /* The column with the largest score, or stuck or silent; SIZE_MAX: the whole stream. */
    size_t column;
    /* Real columns of x; 0 for symbols. A whole silent stream has 0, and none of the next
       fields. */
    size_t columns;
    const uint16_t *at; /* (columns,) their numbers in x; NULL: all of x */
    /* scores of the example so far: `scores` and `surprises` by column */
    struct anomaly_result result;
    const float *x; /* (columns,) the input, NaN = missing; NULL for a label */
    /* (columns,) its forecast, NaN = none; NULL unless the target is the next x. */
    const double *forecast;
    bool silenced; /* its incident, or a whole silent stream */
};

enum { LEARNER_INCIDENT_STREAMS = 32 };

/* An incident begins, goes on after a silence, or has ended. */
struct learner_incident {
    bool ended, silenced;
    const char *group;   /* prefix of its streams; NULL: one stream */
    struct incident sum; /* of all streams */
    struct learner_key {
        const char *key;
        size_t size;
    } streams[LEARNER_INCIDENT_STREAMS]; /* in the order of their begins, silenced ones last */
    size_t stream_count;
    struct learner_alarm blame; /* the example that reports it, and shares as of a level */
    const struct incident_column *before, *newest; /* (columns,) values of the first stream */
};

/* Why a label has no effect. Their names: unknown, labelled, closed, size. */
enum label_refusal {
    LABEL_UNKNOWN,  /* its stream has no open step of that example */
    LABEL_LABELLED, /* it already has a label */
    LABEL_CLOSED,   /* too many steps were open, and some of its own are closed */
    LABEL_SIZE,     /* it has another number of steps */
    LABEL_REFUSALS,
};

/* A network whose updates achieve less: see plasticity.h. */
struct learner_stale {
    const char *member; /* its name; "" without members */
    uint32_t layer;     /* with the largest growth */
    double growth, plasticity, best, rate;
};

struct learner_observer {
    void *context;
    /* Called before its example. May be NULL. */
    void (*stale)(void *context, const struct learner_stale *stale);
    /* An alarm: called when its step has been played, before its example; for a silent stream, when
       another stream's example is taken. May be NULL. */
    void (*alarmed)(void *context, const struct learner_alarm *alarm);
    /* Called before the alarm with which the incident begins. Returns whether it was published.
       May be NULL. */
    bool (*incident)(void *context, const struct learner_incident *incident);
    /* Called once for each example, in order. */
    void (*learned)(void *context, const struct learned *learned);
    /* A stream was forgotten to make room. In order with the examples. */
    void (*forgotten)(void *context, const char *key, size_t key_size);
    /* Numbers of an example's x are out of scale (range.h): called when it is taken. May be
       NULL. */
    void (*out_of_scale)(void *context, const struct example *example,
                         const struct out_of_scale *found);
    /* A label: called when it is taken. `age`: steps from the last step of its example to the
       stream's newest; `time`: of the example's header, Unix time, 0 = unknown. May be NULL. */
    void (*labelled)(void *context, const struct example *label, size_t age, double time);
    /* A label that has no effect, with the reason as a sentence. May be NULL. */
    void (*refused)(void *context, const struct example *label, enum label_refusal reason,
                    const char *why);
    /* Returns whether example number `example` (from 1) is to be measured. May be NULL. */
    bool (*measure)(void *context, uint64_t example);
    /* Called after each plan as a sign of life, since a long example takes many. May be NULL. */
    void (*played)(void *context);
};

#endif
