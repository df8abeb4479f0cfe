/* The learner: turns examples into plans by the online protocol (README.md: predict, then score,
   then learn), has an engine play them, and gives an observer the results of each example.

   It knows streams, windows, strides and targets, and no arithmetic. How many examples wait in one
   plan never changes a bit of what is learned or observed, but for `played`. */
#ifndef RUNNEL_LEARNER_H
#define RUNNEL_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "anomaly/anomaly.h"
#include "engine.h"

struct config;
struct error;
struct example;
struct learner;
struct out_of_scale;
struct scaler;
struct truth;
struct truth_coverage;

/* Sums over scored steps of one number of the targets, in original units. */
struct column_error {
    double squared, absolute; /* of what was predicted less what came */
    double baseline;          /* squares, of what the baseline had said */
    uint64_t observed;
};

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
const char *learner_alarm_name(enum learner_alarm_kind kind);

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
const char *learner_label_refusal(enum label_refusal why);

struct learner_observer {
    void *context;
    /* An alarm: told when it has been played, before its example is; of a whole stream that is
       silent, when another stream's example is taken. May be NULL. */
    void (*alarmed)(void *context, const struct learner_alarm *alarm);
    /* Once for each example, in order. */
    void (*learned)(void *context, const struct learned *learned);
    /* A stream made room for another: its state is gone. In order with the examples. */
    void (*forgotten)(void *context, const char *key, size_t key_size);
    /* Numbers of an example's x are out of scale (input_range.h): told when it is taken. May be
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

/* Open a learner with fresh parameters (config.initial, else model_initialize) on an engine.
   `plan_steps` is the most steps in one plan, >= 1: fewer when their rows are wide. What it needs
   of `config` is copied; `model` must outlive it. */
int learner_open(struct learner **learner, const struct config *config, const struct model *model,
                 const struct engine_ops *engine, size_t plan_steps,
                 const struct learner_observer *observer, struct error *error);
void learner_close(struct learner **learner);

/* The same in two steps, for callers that may resume from a checkpoint: what is opened has
   parameters all zero, until learner_start gives it the fresh ones. config.initial is read only
   then. */
int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error);
int learner_start(struct learner *learner, struct error *error);

/* Plan one example, copying what it needs; plays the plan whenever it is full. */
int learner_take(struct learner *learner, const struct example *example, struct error *error);

/* Play what is planned. After it every example taken has been observed. */
int learner_flush(struct learner *learner, struct error *error);

#define LEARNER_ALL SIZE_MAX /* members */

/* In flight, between plans (the learner flushes first), of a member or of all. */
int learner_set_rate(struct learner *learner, size_t member, double rate, struct error *error);
int learner_set_clip(struct learner *learner, size_t member, double clip, struct error *error);
void learner_want_outputs(struct learner *learner, bool wanted);

/* A member's own rate and clip in the configuration are these from now on (member 0: also where
   there is none): learner_reset goes back to them, and
   one that is another than before takes effect. One that is not stays as it was set. */
int learner_configure(struct learner *learner, size_t member, double rate, double clip,
                      struct error *error);

/* Back to how learner_open left it: parameters, moments, streams, scaler and counters; rate, clip
   and threshold as configured. Returns 1, with nothing changed, when the starting values cannot be
   had (model.initial has gone, out of memory); -1 when the device has failed. */
int learner_reset(struct learner *learner, struct error *error);

/* The same of one member alone: its parameters, moments, least squares, hidden states and rates.
   Streams, experts, mixtures, counters and all other members stay. */
int learner_reset_member(struct learner *learner, size_t member, struct error *error);

/* Forget one stream's state, as if another had taken its place: what it has not yet learned from is
   dropped. Returns 1 when there is no such stream: nothing is changed; -1 when the device has
   failed. */
bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size);
int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error);

/* Counters since the start of learning (they are part of a checkpoint). */
struct learner_counters {
    uint64_t examples, steps, updates, skipped, forgotten;
    uint64_t position; /* of the newest journal entry taken; 0 = none, or without a journal */
};
struct learner_counters learner_counters(const struct learner *learner);

/* Examples whose time was before that of the one before in their stream, since the start of
   learning; 0 without model.input.time. */
uint64_t learner_backwards(const struct learner *learner);

/* Examples taken since the start of learning, observed or not. */
uint64_t learner_taken(const struct learner *learner);

/* What was taken or set last is the journal's entry at `position`. */
void learner_set_position(struct learner *learner, uint64_t position);
size_t learner_streams(const struct learner *learner);

/* Sums over the examples observed since they were cleared: while one is observed, itself included.
 */
const struct learner_errors *learner_errors(const struct learner *learner);
void learner_clear_errors(struct learner *learner);
double learner_rate(const struct learner *learner);
double learner_clip(const struct learner *learner);
const char *learner_device(const struct learner *learner);

/* What inputs are scaled with now; NULL with scale: none. */
const struct scaler *learner_scaler(const struct learner *learner);

/* The networks: one, whose name is "", or as many as `members` lists, perhaps none. The model of
   the one is the learner's. */
size_t learner_members(const struct learner *learner);
const char *learner_member_name(const struct learner *learner, size_t member);
const struct model *learner_member_model(const struct learner *learner, size_t member);

/* Threads that compute, the caller's among them. */
size_t learner_thread_count(const struct learner *learner);

/* Parameters that are learned, of all members. */
size_t learner_parameters(const struct learner *learner);

/* The member of that name; SIZE_MAX when there is none. */
size_t learner_member_named(const struct learner *learner, const char *name, size_t length);

/* Keep what is said until its truth comes (truth.h), or not: then no example costs anything of it,
   and `truth` is NULL in what is learned. scale: forecast always does. As statistics.predictions
   says, from learner_open on. */
int learner_keep_truths(struct learner *learner, bool wanted, struct error *error);

/* Whether it looks for anomalies; and from which score on they are alarms: to be set in flight. */
bool learner_watches(const struct learner *learner);
const char *learner_watches_not(const struct learner *learner); /* a sentence: why, though the
                                                                   preset says so; else "" */
double learner_threshold(const struct learner *learner);
double learner_limit(const struct learner *learner); /* what a score of novelty must reach, without
                                                         fatigue: of several columns more */
int learner_set_threshold(struct learner *learner, double threshold, struct error *error);
int learner_configure_threshold(struct learner *learner, double threshold, struct error *error);

/* An alarm of novelty of the stream that is kept: anomaly_find_alarm. Returns 1 with a sentence
   (EX_USAGE) where there is none; -1 when the device has failed. */
int learner_find_alarm(struct learner *learner, const char *key, size_t key_size, double at,
                       struct anomaly_kept *found, struct error *error);

/* Mark one as normal: anomaly_mark_normal. Returns likewise; at 1 nothing is changed. */
int learner_mark_normal(struct learner *learner, const char *key, size_t key_size, double at,
                        struct anomaly_kept *found, struct error *error);

/* Vocabularies: of inputs, of classes, or one of both. */
struct learner_lexicon {
    const char *name;      /* "input", "output" */
    size_t size, capacity; /* words that there are, and can be */
    bool classes;          /* they are classes */
    bool forgets;          /* forget: lru: an id may become another word's */
    const struct streams
        *words;               /* slots are ids, 0 .. size - 1; by order of use with forget: lru */
    const uint64_t *appeared; /* (size,) by id: greater is newer */
    uint64_t count;           /* that have appeared */
};
size_t learner_lexicons(const struct learner *learner);
struct learner_lexicon learner_lexicon(const struct learner *learner, size_t n);
size_t learner_lexicon_of_classes(const struct learner *learner); /* SIZE_MAX: there is none */

/* The word of an id, not terminated; NULL: it has none, or stands for what is not known. */
const char *learner_word(const struct learner *learner, size_t lexicon, uint32_t id, size_t *size);

/* What would be rejected since it has a word beyond a vocabulary with unknown: reject: the
   vocabulary's name, and the word, NULL of a number that has none. Else NULL. */
const char *learner_word_refused(const struct learner *learner, const struct example *example,
                                 const char **word, size_t *size);

/* How often the intervals of predictions have held the truth. */
struct truth_coverage learner_coverage(const struct learner *learner);

/* With scale: forecast, how many are mixed, experts and members, and their names; else 0. */
enum { LEARNER_FORECASTS_MAX = 128 };
size_t learner_forecasts(const struct learner *learner);
const char *learner_forecast_name(const struct learner *learner, size_t n);

/* Copy one tensor's parameters, in the table's layout. */
int learner_read_parameters(struct learner *learner, size_t member, size_t tensor, float *values,
                            struct error *error);

#endif
