/* The learner's insides, for learner*.c alone: learner.c opens and closes, learner_plan.c sizes
   plans and fills them by the online protocol, learner_targets.c is what it knows of targets and of
   steps that wait for them, learner_columns.c makes the engine's x of
   columns, learner_time.c what of an example's time comes after it, learner_forecast.c is what
   scale: forecast adds to both, learner_baseline.c says what the simplest forecast would have lost,
   learner_anomaly.c how abnormal what came is, learner_play.c plays plans and calls the observer,
   learner_state.c serves checkpoints. */
#ifndef RUNNEL_LEARNER_INTERNAL_H
#define RUNNEL_LEARNER_INTERNAL_H

#include <math.h>

#include "anomaly/anomaly.h"
#include "baseline.h"
#include "common/error.h"
#include "common/wire.h"
#include "config/config.h"
#include "forecast/forecast.h"
#include "forecast/mixture.h"
#include "learner.h"
#include "learner_state.h"
#include "streams.h"
#include "truth.h"

/* One example of the plan: its results, gathered while its plans are played. An
   example that is longer than a plan is the last of one plan and the first of the next. */
struct planned {
    char key[WIRE_KEY_MAX], forgotten[WIRE_KEY_MAX];
    size_t key_size, forgotten_size;
    bool forgets;  /* the stream `forgotten` made room for it */
    bool outputs;  /* its outputs are wanted */
    bool measured; /* it has a MEASURE */
    bool finished; /* all of it has been planned */
    bool begun;    /* some of it has been given out */
    bool begins;   /* its stream does, with it */
    bool learn;    /* as in struct example */
    uint32_t slot; /* of its stream; of a label without a stream nothing */
    uint64_t received;
    double time;                          /* of its header, 0 = unknown */
    size_t steps;                         /* of the whole example */
    size_t streams;                       /* in memory after it */
    size_t planned_steps, planned_scores; /* in this plan, of each member */
    size_t planned_measures;              /* likewise, 0 or 1 */
    size_t planned_updates[CONFIG_MEMBERS_MAX];
    size_t planned_moments;
    size_t gathered_steps;                              /* played in earlier plans */
    size_t given_steps;                                 /* whose predictions are kept (truth.h) */
    size_t told_scores, told_steps;                     /* of it, the first that is told */
    size_t scored, observed, correct, updates, skipped; /* as in struct learned */
    double loss_sum, baseline_sum, squared_error, gradient_norm, update_ratio;
};

/* One network: an engine and a plan of its own. */
struct member {
    char name[CONFIG_MEMBER_NAME_SIZE]; /* "" where no members are listed */
    const struct model *model;
    struct model *own; /* the same, of one that is listed; else NULL */
    struct engine *engine;
    uint64_t seed;
    size_t window, stride, moments;
    struct learner_rates rates;
    struct learner_window *windows; /* (max_streams,) */

    /* The latest unbroken run of STEPs: of one slot, with no UPDATE among them and nothing else
       that changed parameters. A window that lies at its end is fresh. */
    uint32_t run_slot;
    uint64_t run_length;

    struct plan plan;
    struct results results;
};

/* What of a plan predictions beside their truths follow: a step at which something is said, or a
   truth that comes. */
struct moment {
    uint32_t slot;
    size_t age; /* of a truth: what was said about it, counted back from the newest, */
    size_t horizon;
    bool is_truth; /* the next row of truths; else a step, */
    bool begins;   /* its stream's first */
    bool learn;
};

/* How much of the plan's results has been given out. */
struct cursor {
    size_t steps, scores, measures, moments; /* of each member, */
    size_t updates[CONFIG_MEMBERS_MAX];
};

/* What a planned step says beside what networks are given: learner_forecast.c. */
struct said {
    uint32_t slot;
    bool learn;      /* from the targets that its x is */
    uint64_t number; /* of its stream's steps: 0 begins */
};

/* What the simplest forecast would have lost: learner_baseline.c. Memory of the plan, by score. */
struct judged {
    double *losses;   /* (scores,) */
    double *errors;   /* (scores, target_size) what it said less what came, in original units, where
                         targets are numbers */
    double *said;     /* (scores, K / horizons) what it said, likewise and as prediction.h has it:
                         only when outputs are wanted */
    double *forecast; /* (2, target_size) of the next score */
};

/* From an x of columns to the engine's x: learner_columns.c. Of the step that is planned: */
struct learner_columns {
    bool wanted;         /* columns are listed, and are not one symbol alone or all forecast */
    bool next;           /* some are targets: */
    union value *scaled; /* (I,) a column's value as scaled, a symbol's id */
    union value *came;   /* (target_row,) targets as they came, */
    union value *seen;   /* (target_row,) and as scaled, what is missing filled in */
};

/* What of an example's time follows the rest of an input: learner_time.c. */
struct learner_time {
    double *kept;           /* (max_streams, LEARNER_TIMES); NULL without model.input.time */
    struct time_zone *zone; /* likewise */
    uint64_t backwards;     /* examples that were older than the one before, of all streams */
    union value features[TIME_WIDTH_MAX]; /* of the next step of the example that is planned */
};

/* How abnormal examples are: learner_anomaly.c. */
struct watch {
    struct anomaly *anomaly;   /* NULL: nobody looks, */
    char off[ERROR_TEXT_SIZE]; /* though the preset says so: why; else "" */
    struct alarm_rule rule;
    struct share_config share; /* with symbols none */
    bool alarms_of_surprise;
    size_t columns;    /* that are real; 0 with symbols */
    uint16_t *at;      /* (columns,) where each is in x; NULL: they are all of x */
    size_t *of_target; /* (target_row,) the column that number k of a target is, SIZE_MAX: none;
                          NULL as above */
    bool symbols;      /* each is forecast, and has one loss */
    bool has_errors;   /* of each column: what comes is forecast, as numbers */
    float *x;          /* (plan_steps, columns) as it came */
    size_t *scores;    /* (plan_steps,) that each step brought; 0 with scale: forecast */
    double *errors;    /* (columns,) of the newest score, prediction less truth; or one number */
    double *forecast;  /* (columns,) of the step that is looked at */
    double surprise;   /* largest of the scores before it */
    bool listens;      /* to the score that is given: of the nearest horizon */
    double configured_threshold;
};

#define NO_COLUMN SIZE_MAX

/* A vocabulary: words and their ids. */
struct lexicon {
    char name[CONFIG_NAME_SIZE]; /* "input", "output" */
    struct vocabulary of;
    bool x, y;                 /* whose ids are symbols of x, classes of targets */
    size_t column;             /* of x; NO_COLUMN: of none */
    struct streams *words;     /* a word's slot is its id */
    uint64_t *appeared;        /* (capacity,) how many had appeared with the word */
    uint64_t *used;            /* (capacity,) the example that used it last, since the start */
    uint64_t count;            /* that have appeared */
    struct streams *newcomers; /* words of the example that is looked at; NULL: none is rejected */
};

/* An id that has come with the example that is taken. */
struct fresh {
    size_t lexicon;
    uint32_t id;
};

struct resolved {
    union value *values;
    size_t capacity;
};

/* Words that become symbols and classes: learner_words.c, and what belongs to them of the network:
   learner_rows.c. */
struct words {
    struct lexicon *of;
    size_t count;
    struct lexicon **of_column; /* (input_row,) NULL: it has none */
    struct resolved x, y;       /* of the example that is taken, with ids alone */
    struct fresh *fresh;
    size_t fresh_count, fresh_capacity;
    float *buffer; /* (of the largest tensor that is by ids,) */
    size_t buffer_size;
    float *start[CONFIG_MEMBERS_MAX][MODEL_TENSORS_MAX]; /* their starting values, once asked for */
    struct json_t *initial; /* by name the words of model.initial; NULL: it has none */
};

struct learner {
    const struct model *model; /* of the configuration as it stands */
    const struct engine_ops *ops;
    struct learner_observer observer;
    struct member *members; /* (member_count,), and one more for its rates where that is 0 */
    size_t member_count;
    char initial[CONFIG_PATH_SIZE];

    /* What is known of the streams, by slot. */
    struct streams *streams;
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

/* The plan has no room for one more step with all that may come with it; play it and begin another,
   in which the unfinished example is the first. */
int plan_make_room(struct learner *learner, struct planned **planned, struct error *error);

/* The position `age` steps before the next one of a stream. */
uint32_t plan_position(const struct member *member, uint32_t slot, size_t age);

/* Of one member: append an operation; a target of the open step of that age is the next row, which
   is filled; step with the next row of inputs, which is filled: it is open; the oldest open step's
   targets have come, or there are none: `terms` of them are learned from. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot);
void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn);
void plan_step(struct member *member, uint32_t slot);
void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates);

/* ---- Columns (learner_columns.c) ---- */

int learner_columns_open(struct learner *learner, struct error *error);
void learner_columns_close(struct learner *learner);

/* The x (I,) of a step, float32 and uint32, maybe unaligned, becomes the engine's x (features,). */
void learner_encode(struct learner *learner, uint32_t slot, const void *x, union value *input);

/* ---- Time (learner_time.c) ---- */

int learner_time_open(struct learner *learner, size_t slots, struct error *error);
void learner_time_close(struct learner *learner);

/* A stream begins; an example of it comes, whose first step is next; a step has been planned. All
   of them do nothing without model.input.time. */
void learner_time_begin(struct learner *learner, uint32_t slot);
void learner_time_take(struct learner *learner, uint32_t slot, const struct example *example);
void learner_time_stepped(struct learner *learner);

/* Into the engine's x (features,) of a step: the last numbers of it. */
void learner_time_put(struct learner *learner, const struct model *model, union value *input);

/* ---- Targets of the one network (learner_targets.c) ---- */

bool targets_open(struct learner *learner, size_t slots);
void targets_close(struct learner *learner);
bool targets_plan_open(struct learner *learner);

/* A stream begins; an example does, in this row of the plan: what it brings given is scaled by. */
void targets_begin(struct learner *learner, uint32_t slot);
void targets_example(struct learner *learner, const struct example *example, size_t row);

/* Mean or deviation (target_row,) that targets of an example in this row of the plan are predicted
   with; NULL: they are not scaled. */
const double *targets_scale(const struct learner *learner, size_t row, bool deviation);

/* Before its STEP: score and close what waits for an x, as it came and as the network sees it. */
void targets_next(struct learner *learner, uint32_t slot, const struct example *example,
                  const void *x, const union value *input, struct planned *planned);

/* After it: keep what its targets will be compared with. */
void targets_keep(struct learner *learner, uint32_t slot, const struct example *example,
                  const union value *input, const struct planned *planned);

/* Step t of an example has been planned: given, its target is there; later, the oldest of too many
   open steps gives up. */
int targets_given(struct learner *learner, uint32_t slot, const struct example *example, size_t t,
                  struct planned **planned, struct error *error);

/* Tell that a label changes nothing; `steps`: of the example that it is for. */
void label_refuse(const struct learner_observer *observer, const struct example *label,
                  enum label_refusal reason, size_t steps);

/* Take a label. */
int targets_label(struct learner *learner, const struct example *example, struct planned **planned,
                  struct error *error);

/* The sequence ends: open steps have no targets any more. */
int targets_end(struct learner *learner, uint32_t slot, struct planned **planned,
                struct error *error);

/* ---- Words (learner_words.c) ---- */

int words_open(struct learner *learner, struct error *error);
void words_close(struct learner *learner);

/* Forget all. */
void words_reset(struct learner *learner);

/* Before an example is planned: put ids in the place of its words; x and y then lie here. After it:
   classes that came with it take part from now on. The plan may be played. */
int words_take(struct learner *learner, struct example *example, struct error *error);
int words_taken(struct learner *learner, struct error *error);

/* The class that a symbol of the example that is taken is as a target. */
uint32_t words_target(const struct learner *learner, uint32_t id);

/* The vocabulary of classes; NULL: there is none. */
struct lexicon *words_of_classes(const struct learner *learner);
uint32_t words_unknown(const struct lexicon *lexicon);

/* The baseline says the frequencies of classes that have come. */
void words_count_classes(struct learner *learner);

/* ---- Words of model.initial (learner_initial.c) ---- */

/* Read and check them; EX_CONFIG: they are another model's. Then: learning begins with them. */
int words_read_initial(struct learner *learner, struct error *error);
void words_write_initial(struct learner *learner);

/* ---- Rows of words (learner_rows.c) ---- */

/* A word gets an id, which another had before it or not (`again`): what is learned of its symbol
   and class begins. Its class takes no part in predictions until it is shown. */
int rows_begin(struct learner *learner, const struct lexicon *lexicon, uint32_t id, bool again,
               struct error *error);
int rows_show(struct learner *learner, uint32_t id, struct error *error);

/* Of starting values (parameters,) of a member: classes that have not come take no part. */
void rows_hide(const struct learner *learner, const struct model *model, float *values);
void rows_close(struct words *words);

/* ---- scale: forecast (learner_forecast.c) ---- */

int forecast_open(struct learner *learner, const struct config *config, struct error *error);
void forecast_close(struct learner *learner);

/* The plan's part; false when out of memory. Bytes that a step takes. */
bool forecast_plan_open(struct learner *learner);
size_t forecast_plan_bytes(const struct learner *learner);

/* A stream begins. */
void forecast_begin(struct learner *learner, uint32_t slot);

/* Plan one step, x (I,) float32, maybe unaligned, for all members. */
void forecast_take(struct learner *learner, uint32_t slot, const void *x, bool learn,
                   struct planned *planned);

/* The plan has been played: what step number `step` of it said and scored, for its example. */
void forecast_give(struct learner *learner, struct planned *example, size_t step);

/* What is said of a finished example, (T, forecast_row); gather what a plan has of one that spans
   several. */
const double *forecast_of(const struct learner *learner, const struct planned *example,
                          size_t first_step);
int forecast_gather(struct learner *learner, const struct planned *example, size_t first_step,
                    struct error *error);

/* ---- Predictions beside their truths (learner_truth.c) ---- */

void beside_close(struct learner *learner);

/* Whether every step's outputs are needed, for what was said is kept. */
bool beside_wants_outputs(const struct learner *learner);

/* Plan: something is said at a step; the truth (target_size,), maybe unaligned and in original
   units, comes of what was said `age` steps before the newest, of that horizon. Nothing without
   truths. */
void plan_said(struct learner *learner, struct planned *planned, uint32_t slot);
void plan_truth(struct learner *learner, struct planned *planned, uint32_t slot, size_t age,
                size_t horizon, const void *target, bool learn);

/* The step of an example whose results are given next. */
struct truth_step beside_step(const struct learner *learner, const struct planned *example);

/* The plan has been played: what was said, and the truths that came, for their example, of which
   `learned` has scale and outputs of this plan. `first_score` is that of its first truth. */
void give_truths(struct learner *learner, struct planned *example, const struct learned *learned,
                 struct cursor *cursor, size_t first_score);
/* ---- What the simplest forecast would have lost (learner_baseline.c) ---- */

int learner_baseline_open(struct learner *learner, size_t slots, struct error *error);
void learner_baseline_close(struct learner *learner);

/* The plan's part; false when out of memory. */
bool learner_baseline_plan_open(struct learner *learner);

/* While planning, right before plan_score: the next score's target, of the step open at that place,
   as scaled and not yet relative to anything, and as it came, float32, maybe unaligned. */
void learner_baseline_score(struct learner *learner, uint32_t slot, size_t place, size_t horizon,
                            const union value *target, const void *came);

/* While planning, with a step of the one network: x as it came, and as the network is given it. */
void learner_baseline_step(struct learner *learner, uint32_t slot, const void *x,
                           const union value *input);

/* When the plan has been played, of the next score: add what it would have lost; its errors
   (target_size,); what it had said of that target, (K / horizons,) as prediction_of says it, NULL
   where there is none. */
void learner_judge(struct learner *learner, struct planned *example, size_t score);
const double *learner_baseline_errors(const struct learner *learner, size_t score);
const double *learner_baseline_said(const struct learner *learner, size_t score);

/* An observed number of a target, in original units: error of the prediction, and of the baseline;
   where that is not known, it counts as no better and no worse. */
static inline void judge_number(struct column_error *column, double error, double of_baseline) {
    double square = error * error;
    column->squared += square;
    column->absolute += fabs(error);
    column->baseline += of_baseline == of_baseline ? of_baseline * of_baseline : square;
    column->observed++;
}

/* ---- How abnormal it is (learner_anomaly.c) ---- */

int watch_open(struct learner *learner, const struct config *config, struct error *error);
void watch_close(struct learner *learner);

/* The plan's part; false when out of memory. Bytes that a step takes. */
bool watch_plan_open(struct learner *learner);
size_t watch_plan_bytes(const struct learner *learner);

/* While planning, an example of a stream: whether others have stopped, by its time. */
void plan_heard(struct learner *learner, const struct planned *example);

/* While planning, with a step: x (I,) as it came, float32, maybe unaligned. */
void plan_watch(struct learner *learner, const void *x);

/* Likewise, when all of the step number `step` of the plan is planned: the scores it brought. */
void plan_watch_scores(struct learner *learner, size_t step, size_t scores);

/* When the plan has been played: an example begins or goes on, or is finished; a score of it, whose
   errors by column are in watch.errors; step number `step` of the plan, after the scores it
   brought, of which there are so many (0 where nobody looks). */
void watch_begin(struct learner *learner, struct planned *example);
void watch_end(struct learner *learner, const struct planned *example);
void watch_score(struct learner *learner, const struct planned *example, double loss);
size_t watch_scores(const struct learner *learner, size_t step);
void watch_step(struct learner *learner, const struct planned *example, size_t step);
struct anomaly_said watch_said(const struct learner *learner);

/* Whether a score of that horizon is looked at: of several, the nearest is. */
static inline void watch_listen(struct learner *learner, size_t horizon) {
    learner->watch.listens = horizon == 0;
}

/* An observed number of a target, likewise: prediction less what came, in original units. */
static inline void watch_number(struct learner *learner, size_t k, double error) {
    const struct watch *watch = &learner->watch;
    if (!watch->has_errors || !watch->listens)
        return;
    size_t column = watch->of_target ? watch->of_target[k] : k;
    if (column != SIZE_MAX)
        watch->errors[column] = error;
}

/* The plan's memory: for at most so many steps. False when out of memory; close it all the same. */
bool learner_plan_open(struct learner *learner, size_t most_steps);
void learner_plan_close(struct learner *learner);

/* Forget all streams, and play that. The plan must be empty. */
int learner_forget_all(struct learner *learner, struct error *error);

/* Zero one member's states of all streams, and play that. The plan must be empty. */
int learner_forget_member(struct learner *learner, size_t member, struct error *error);

/* Operations that one step can bring at most: FORGET of the stream that made room, STEP, MEASURE,
   SCORE (for each horizon), UPDATE and SOLVE, and at the end of a sequence one more UPDATE and
   FORGET. */
enum { OPERATIONS_PER_STEP = 8, UPDATES_PER_STEP = 2 };

#endif
