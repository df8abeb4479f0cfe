#include "experiment_run.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "config/config.h"
#include "daemon/learning.h"
#include "daemon/metrics.h"
#include "daemon/skill.h"
#include "engine/engines.h"
#include "experiment_spec.h"
#include "learner/learner.h"
#include "learner/learner_export.h"
#include "model/parameters.h"
#include "parts/experts.h"
#include "parts/part.h"
#include "parts/targets.h"
#include "parts/words.h"
#include "sockets/decode.h"

/* ---- The course: measurements during a run, at almost no cost ---- */

enum {
    DIGEST_SIZE = 17,
    SKIPPED_LEAST = 10, /* skipped updates in a row at the end */
    CHEAP = 1000, /* messages between two readings of all parameters, unless weights are kept */
};

/* Sums over examples. */
struct sums {
    double loss;
    uint64_t scored;
    double compared_loss, baseline; /* sums of examples with a known baseline */
    uint64_t compared;
    double gradient_norm, update_ratio; /* sums of examples with an update */
    uint64_t updated;
};

struct course {
    struct run_options options; /* options with at most one point per message */
    size_t messages;            /* of the stream */
    const struct model *model;
    struct learner *learner;
    struct metrics metrics;
    struct skill *skill;
    struct sums recent, point;
    bool is_recent, nonfinite;
    uint64_t applied, skipped; /* updates; since the last applied one */
    size_t recent_from;        /* message */
    uint64_t examples;

    struct experiment_point *points; /* (options.points,) */
    size_t point_count;
    double *losses; /* (messages,) or NULL */
    uint64_t losses_hash;

    struct experiment_weight *weights; /* (options.points, tensors) or NULL */
    size_t weight_count, tensors;      /* of all members */
    size_t weighed;                    /* messages at the last reading of the parameters */
    float *before, *now;               /* (numbers,) of all tensors, NULL: not kept; (largest,) */
    size_t largest;
};

/* ---- Opening ---- */

/* Tensors of all members, their numbers, and those of the largest. */
static size_t count_tensors(struct course *course) {
    size_t numbers = 0;
    for (size_t m = 0; m < learner_members(course->learner); m++) {
        const struct model *model = learner_member_model(course->learner, m);
        course->tensors += model->tensor_count;
        numbers += model->parameters;
        for (size_t t = 0; t < model->tensor_count; t++) {
            size_t size = tensor_size(&model->tensors[t]);
            course->largest = size > course->largest ? size : course->largest;
        }
    }
    return numbers;
}

static int open_weights(struct course *course, struct error *error) {
    size_t numbers = count_tensors(course);
    bool keep = course->options.keep & SPEC_WEIGHTS;
    course->now = calloc(course->largest + 1, sizeof *course->now);
    if (keep) {
        course->before = calloc(numbers + 1, sizeof *course->before);
        course->weights =
            calloc(course->options.points * course->tensors + 1, sizeof *course->weights);
    }
    return course->now && (!keep || (course->before && course->weights)) ? 0
                                                                         : error_no_memory(error);
}

static int read_starting_values(struct course *course, struct error *error) {
    float *before = course->before;
    for (size_t m = 0; before && m < learner_members(course->learner); m++) {
        const struct model *model = learner_member_model(course->learner, m);
        for (size_t t = 0; t < model->tensor_count; t++) {
            if (learner_read_parameters(course->learner, m, t, before, error))
                return -1;
            before += tensor_size(&model->tensors[t]);
        }
    }
    return 0;
}

static int open_course(struct course *course, struct error *error) {
    enum loss loss = course->model->architecture.output.loss;
    const struct skill_options options = {
        .loss = loss,
        .columns = loss_kind(loss)->metrics & METRIC_RMSE ? course->model->heads[0].target_size : 0,
        .experts = learner_host(course->learner)->forecasts,
        .architecture = &course->model->architecture};
    struct learner_counters counters = learner_counters(course->learner);
    if (skill_open(&course->skill, &options, error))
        return -1;
    metrics_begin(&course->metrics, &counters, 0, 0);
    skill_begin(course->skill, course->learner);
    course->points = calloc(course->options.points + 1, sizeof *course->points);
    if (course->options.keep & SPEC_LOSSES)
        course->losses = calloc(course->messages + 1, sizeof *course->losses);
    if (!course->points || ((course->options.keep & SPEC_LOSSES) && !course->losses))
        return error_no_memory(error);
    return open_weights(course, error) || read_starting_values(course, error) ? -1 : 0;
}

/* The learner has no examples yet; both must outlive the course. */
static int course_open(struct course **course, const struct run_options *options, size_t messages,
                       const struct model *model, struct learner *learner, struct error *error) {
    struct course *opened = *course = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->options = *options;
    opened->messages = messages;
    if (opened->options.points > messages)
        opened->options.points = messages ? messages : 1;
    opened->model = model;
    opened->learner = learner;
    opened->losses_hash = HASH_BEGIN;
    opened->recent_from = messages - (size_t)((double)messages * options->recent + 0.5);
    opened->is_recent = opened->recent_from == 0;
    return open_course(opened, error);
}

static void course_close(struct course **course) {
    struct course *c = *course;
    if (!c)
        return;
    skill_close(&c->skill);
    free(c->points);
    free(c->losses);
    free(c->weights);
    free(c->before);
    free(c->now);
    free(c);
    *course = NULL;
}

/* ---- Examples ---- */

static void add(struct sums *sums, const struct learned *learned) {
    if (learned->updates) {
        sums->updated++;
        sums->gradient_norm += learned->gradient_norm;
        sums->update_ratio += learned->update_ratio;
    }
    if (!learned->scored || !isfinite(learned->loss))
        return;
    sums->scored++;
    sums->loss += learned->loss;
    if (!isfinite(learned->baseline))
        return;
    sums->compared++;
    sums->compared_loss += learned->loss;
    sums->baseline += learned->baseline;
}

/* Takes one more example from the learner's observer. */
static void course_add(struct course *c, const struct learned *learned) {
    double loss = learned->scored ? learned->loss : NAN;
    metrics_add(&c->metrics, learned, 0);
    skill_add(c->skill, learned);
    add(&c->point, learned);
    if (c->is_recent)
        add(&c->recent, learned);
    c->nonfinite |= learned->scored && !isfinite(loss);
    c->applied += learned->updates;
    c->skipped = learned->updates ? 0 : c->skipped + learned->skipped;
    c->losses_hash = hash_bytes(c->losses_hash, &loss, sizeof loss);
    if (c->losses)
        c->losses[c->examples] = loss;
    c->examples++;
}

static const struct metrics_interval *interval(const struct course *c) {
    return &c->metrics.intervals[c->metrics.current];
}

/* Mean loss so far; NaN before the first score. */
static double course_mean(const struct course *c) {
    return interval(c)->scored ? interval(c)->loss_sum / (double)interval(c)->scored : NAN;
}

/* ---- Points ---- */

/* Messages up to the end of point n. */
static size_t end_of_point(const struct course *c, size_t n) {
    return (size_t)((unsigned __int128)c->messages * (n + 1) / c->options.points);
}

/* The number of messages, more than `next`, after which course_reach must be called, with the
   learner flushed. */
static size_t course_next(const struct course *c, size_t next) {
    size_t end = end_of_point(c, c->point_count);
    return c->recent_from > next && c->recent_from < end ? c->recent_from : end;
}

/* Norms of one tensor and of its change since the previous point. */
static void weigh(struct course *c, const struct experiment_weight *about, float *before,
                  size_t size) {
    double squares = 0, changes = 0;
    for (size_t n = 0; n < size; n++) {
        double change = (double)c->now[n] - before[n];
        squares += (double)c->now[n] * c->now[n];
        changes += change * change;
        before[n] = c->now[n];
    }
    struct experiment_weight *weight = &c->weights[c->weight_count++];
    *weight = *about;
    weight->norm = sqrt(squares);
    weight->change = sqrt(changes);
}

/* Reading costs as much as some hundred examples. */
static int read_weights(struct course *c, size_t messages, double *norm, struct error *error) {
    double squares = 0;
    float *before = c->before;
    bool last = messages == c->messages;
    *norm = NAN;
    if (!before && !last && messages < c->weighed + CHEAP)
        return 0;
    c->weighed = messages;
    for (size_t m = 0; m < learner_members(c->learner); m++) {
        const struct model *model = learner_member_model(c->learner, m);
        for (size_t t = 0; t < model->tensor_count; t++) {
            struct experiment_weight about = {.point = c->point_count};
            size_t size = tensor_size(&model->tensors[t]);
            char name[PARAMETERS_NAME_SIZE];
            if (learner_read_parameters(c->learner, m, t, c->now, error))
                return -1;
            for (size_t n = 0; n < size; n++)
                squares += (double)c->now[n] * c->now[n];
            if (!before)
                continue;
            parameters_name(learner_member_name(c->learner, m), model->tensors[t].name, name);
            snprintf(about.tensor, sizeof about.tensor, "%s", name);
            weigh(c, &about, before, size);
            before += size;
        }
    }
    *norm = sqrt(squares);
    return 0;
}

static double mean_of(double sum, uint64_t count) {
    return count ? sum / (double)count : NAN;
}

static int close_point(struct course *c, struct error *error) {
    struct experiment_point *point = &c->points[c->point_count];
    const struct sums *sums = &c->point;
    *point = (struct experiment_point){
        .examples = c->examples,
        .scored = sums->scored,
        .mean = mean_of(sums->loss, sums->scored),
        .baseline = mean_of(sums->baseline, sums->compared),
        .gradient_norm = mean_of(sums->gradient_norm, sums->updated),
        .update_ratio = mean_of(sums->update_ratio, sums->updated),
    };
    if (read_weights(c, end_of_point(c, c->point_count), &point->weight_norm, error))
        return -1;
    c->point = (struct sums){0};
    c->point_count++;
    return 0;
}

static int course_reach(struct course *c, size_t messages, struct error *error) {
    c->is_recent |= messages >= c->recent_from;
    return messages == end_of_point(c, c->point_count) ? close_point(c, error) : 0;
}

/* ---- The end ---- */

static char *digest_text(uint64_t hash) {
    char *text = malloc(DIGEST_SIZE);
    if (text)
        snprintf(text, DIGEST_SIZE, "%016" PRIx64, hash);
    return text;
}

static int put_digests(struct course *c, struct experiment_run *row, struct error *error) {
    uint64_t hash = HASH_BEGIN;
    for (size_t m = 0; m < learner_members(c->learner); m++) {
        const struct model *model = learner_member_model(c->learner, m);
        for (size_t t = 0; t < model->tensor_count; t++) {
            if (learner_read_parameters(c->learner, m, t, c->now, error))
                return -1;
            hash = hash_bytes(hash, c->now, tensor_size(&model->tensors[t]) * sizeof *c->now);
        }
    }
    row->losses_digest = digest_text(c->losses_hash);
    row->parameters_digest = digest_text(hash);
    return row->losses_digest && row->parameters_digest ? 0 : error_no_memory(error);
}

/* Over all columns; before skill.c takes the errors. */
static double mean_absolute(const struct course *c, size_t columns) {
    const struct learner_errors *errors = learner_errors(c->learner);
    double sum = 0;
    uint64_t observed = 0;
    for (size_t k = 0; k < columns; k++) {
        sum += errors->columns[k].absolute;
        observed += errors->columns[k].observed;
    }
    return mean_of(sum, observed);
}

static void put_figures(struct course *c, struct experiment_figures *figures,
                        struct loss_fields *report) {
    enum loss loss = c->model->architecture.output.loss;
    unsigned metrics = loss_kind(loss)->metrics;
    const struct sums *recent = &c->recent;
    bool numbers = metrics & METRIC_RMSE;
    *figures = (struct experiment_figures){
        .recent = mean_of(recent->loss, recent->scored),
        .baseline_recent = mean_of(recent->baseline, recent->compared),
        .skill_recent = skill_over(loss, recent->compared_loss, recent->baseline, recent->compared),
        .mae = numbers ? mean_absolute(c, c->model->heads[0].target_size) : NAN,
    };
    metrics_close_interval(&c->metrics, 0, report);
    skill_close_interval(c->skill, c->learner, report);
    figures->mean = report->mean;
    figures->baseline = report->baseline;
    figures->skill = report->skill;
    figures->rmse = numbers ? report->metric_rmse : NAN;
    figures->accuracy = metrics & METRIC_ACCURACY ? report->metric_accuracy : NAN;
    figures->bits = metrics & METRIC_BITS ? report->metric_bits : NAN;
    figures->crps = report->crps_mean;
    figures->crps_skill = report->crps_skill;
}

/* The name of number k of the targets. */
static void name_column(const struct course *c, size_t k, char name[EXPERIMENT_NAME_SIZE]) {
    const struct architecture *of = &c->model->architecture;
    char label[COLUMN_NAME_SIZE] = "";
    if (output_is_next(&of->output))
        input_label(&of->input, output_column(&of->output, k), label);
    else if (k < of->output.column_count)
        snprintf(label, sizeof label, "%s", of->target_names[k]);
    else
        snprintf(label, sizeof label, "y[%zu]", k);
    snprintf(name, EXPERIMENT_NAME_SIZE, "%s", label);
}

static int put_columns(struct course *c, const struct loss_fields *report,
                       struct experiment_outcome *outcome, struct error *error) {
    size_t count = report->columns.size;
    struct experiment_column *columns = calloc(count + 1, sizeof *columns);
    if (!columns)
        return error_no_memory(error);
    for (size_t k = 0; k < count; k++) {
        const double *row = report->columns.numbers + k * COLUMN_FIELDS;
        columns[k] = (struct experiment_column){
            .rmse = row[COLUMN_rmse], .mae = row[COLUMN_mae], .skill = row[COLUMN_skill]};
        name_column(c, k, columns[k].name);
    }
    outcome->columns = columns;
    outcome->column_count = count;
    return 0;
}

static int put_experts(struct course *c, const struct loss_fields *report,
                       struct experiment_outcome *outcome, struct error *error) {
    size_t count = learner_host(c->learner)->forecasts;
    struct experiment_expert *experts = calloc(count + 1, sizeof *experts);
    if (!experts)
        return error_no_memory(error);
    for (size_t n = 0; n < count; n++) {
        const double *row = report->experts.numbers + n * EXPERT_FIELDS;
        experts[n] =
            (struct experiment_expert){.mean = row[EXPERT_mean], .weight = row[EXPERT_weight]};
        snprintf(experts[n].name, sizeof experts[n].name, "%s",
                 experts_name(learner_host(c->learner), n));
    }
    outcome->experts = experts;
    outcome->expert_count = count;
    return 0;
}

/* A loss was not finite, or at the end no gradient is any more: such a run learns nothing. */
static bool is_nonfinite(const struct course *c) {
    return c->nonfinite || c->skipped >= SKIPPED_LEAST || (c->skipped && !c->applied);
}

/* Figures, points, columns, experts, digests, losses and weights; state done or nonfinite. The
   outcome owns its memory. */
static int course_finish(struct course *c, struct experiment_outcome *outcome,
                         struct error *error) {
    struct loss_fields report;
    outcome->run.state = is_nonfinite(c) ? EXPERIMENT_NONFINITE : EXPERIMENT_DONE;
    outcome->run.scored = interval(c)->scored;
    put_figures(c, &outcome->run.figures, &report);
    if (put_columns(c, &report, outcome, error) || put_experts(c, &report, outcome, error) ||
        put_digests(c, &outcome->run, error))
        return -1;
    outcome->points = c->points;
    outcome->point_count = c->point_count;
    outcome->losses = c->losses;
    outcome->loss_count = c->losses ? c->examples : 0;
    outcome->weights = c->weights;
    outcome->weight_count = c->weight_count;
    c->points = NULL;
    c->losses = NULL;
    c->weights = NULL;
    return 0;
}

enum { LOOK = 64 /* messages between two checks of other threads' requests */ };

struct run {
    struct config *config;
    const struct examples *examples;
    const struct run_options *options;
    struct model model;
    struct decoder *decoder;
    struct learner *learner;
    struct course *course;
    uint64_t rejected;
    char why[EXPERIMENT_WHY_SIZE]; /* reason of the first rejected message */
    double started, seconds, cpu_seconds;
};

static void on_learned(void *context, const struct learned *learned) {
    struct run *run = context;
    course_add(run->course, learned);
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    (void)context;
    (void)key;
    (void)key_size;
}

static void count_rejection(struct run *run, const char *reason, const char *why) {
    if (run->rejected++ == 0)
        snprintf(run->why, sizeof run->why, "%s: %s", reason, why);
}

/* A label without effect counts as rejected, as in a daemon. */
static void on_refused(void *context, const struct example *label, enum label_refusal reason,
                       const char *why) {
    (void)label;
    count_rejection(context, targets_label_refusal(reason), why);
}

/* ---- Opening and closing ---- */

static int open_learner(struct run *run, struct engines_choice *engine, struct error *error) {
    const struct learner_observer observer = {
        .context = run, .learned = on_learned, .forgotten = on_forgotten, .refused = on_refused};
    while (learner_open(&run->learner, run->config, &run->model, engine->ops, LEARNING_BATCH_MAX,
                        &observer, error))
        if (!engines_fall_back(engine, error))
            return -1;
    return 0;
}

/* Parallel runs would each use the whole machine, and pin their threads to the same CPUs. */
static void share_machine(struct config *config) {
    if (!config->threads.count)
        config->threads.count = 1;
    strcpy(config->threads.pin, "false");
}

static int open_run(struct run *run, struct engines_choice *engine, struct error *error) {
    run->config->predictions = PREDICTIONS_NONE; /* unused, and no bit depends on it */
    run->config->anomaly.enabled = false;        /* unused */
    if (run->options->beside)
        share_machine(run->config);
    model_build(&run->model, &run->config->architecture);
    return decoder_open(&run->decoder, &run->model, run->config->many_steps, error) ||
                   open_learner(run, engine, error) ||
                   course_open(&run->course, run->options, run->examples->count, &run->model,
                               run->learner, error)
               ? -1
               : 0;
}

static void close_run(struct run *run) {
    course_close(&run->course);
    learner_close(&run->learner);
    decoder_close(&run->decoder);
    free(run);
}

/* ---- Learning ---- */

/* Takes a message like a daemon's PULL socket: ingest_take, then take_example. */
static int take_message(struct run *run, size_t n, struct error *error) {
    struct frame frames[MESSAGE_FRAMES_MAX];
    struct example example;
    char why[REJECT_WHY_SIZE];
    const char *word;
    size_t word_size;
    size_t count = examples_message(run->examples, n, frames);
    enum reject_reason reason = decode(run->decoder, frames, count, &example, why);
    if (reason == REJECT_NOT && example.steps == 0) /* a schema that fits */
        return 0;
    example.received = 0;
    if (reason == REJECT_NOT &&
        words_refused(learner_host(run->learner), &example, &word, &word_size))
        reason = reject(REJECT_VOCABULARY, why, "unknown word: the vocabulary is full");
    if (reason == REJECT_NOT)
        return learner_take(run->learner, &example, error);
    count_rejection(run, reject_name(reason), why);
    return 0;
}

static int take_messages(struct run *run, size_t *next, size_t end, struct run_watch *watch,
                         struct error *error) {
    for (; *next < end; (*next)++) {
        if (*next % LOOK == 0) {
            if (*run->options->stop)
                return 1;
            atomic_store_explicit(&watch->messages, *next, memory_order_relaxed);
            atomic_store_explicit(&watch->mean, course_mean(run->course), memory_order_relaxed);
        }
        if (take_message(run, *next, error))
            return -1;
    }
    return learner_flush(run->learner, error);
}

static double thread_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / NS_PER_SECOND;
}

static int learn(struct run *run, struct run_watch *watch, struct error *error) {
    double begin = clock_seconds(), cpu = thread_seconds();
    size_t next = 0;
    int result = 0;
    run->started = clock_unix();
    while (next < run->examples->count && result == 0) {
        result = take_messages(run, &next, course_next(run->course, next), watch, error);
        if (result == 0)
            result = course_reach(run->course, next, error);
    }
    run->seconds = clock_seconds() - begin;
    run->cpu_seconds = thread_seconds() - cpu;
    return result;
}

/* ---- The outcome ---- */

static int put_parameters(struct run *run, struct experiment_outcome *outcome,
                          struct error *error) {
    struct safetensors_memory memory;
    if (!(run->options->keep & SPEC_PARAMETERS))
        return 0;
    if (learner_export(run->learner, run->config->compatible, &memory, error))
        return -1;
    outcome->parameters = memory.bytes;
    outcome->parameters_size = memory.size;
    return 0;
}

static int put_outcome(struct run *run, struct experiment_outcome *outcome, struct error *error) {
    struct learner_counters counters = learner_counters(run->learner);
    struct experiment_run *row = &outcome->run;
    row->device = strdup(learner_device(run->learner));
    row->parameters = learner_parameters(run->learner);
    row->examples = counters.examples;
    row->steps = counters.steps;
    row->updates = counters.updates;
    row->skipped = counters.skipped;
    row->rejected = run->rejected;
    row->started = run->started;
    row->seconds = run->seconds;
    row->cpu_seconds = run->cpu_seconds;
    memcpy(outcome->rejected, run->why, sizeof outcome->rejected);
    if (!row->device)
        return error_no_memory(error);
    if (row->examples == 0)
        return error_set(error, EX_DATAERR,
                         "all %zu messages were rejected, the first as %s; check that the "
                         "configuration fits the stream",
                         run->examples->count, run->why);
    return course_finish(run->course, outcome, error) || put_parameters(run, outcome, error) ? -1
                                                                                             : 0;
}

int run_play(struct config *config, struct engines_choice *engine, const struct examples *examples,
             const struct run_options *options, struct run_watch *watch,
             struct experiment_outcome *outcome, struct error *error) {
    struct run *run = calloc(1, sizeof *run);
    *outcome = (struct experiment_outcome){0};
    if (!run)
        return error_no_memory(error);
    run->config = config;
    run->examples = examples;
    run->options = options;
    int result = open_run(run, engine, error);
    if (result == 0)
        result = learn(run, watch, error);
    if (result == 0)
        result = put_outcome(run, outcome, error);
    close_run(run);
    return result;
}

static void release(const void *memory) {
    free((void *)(uintptr_t)memory);
}

void run_clear(struct experiment_outcome *outcome) {
    release(outcome->run.device);
    release(outcome->run.losses_digest);
    release(outcome->run.parameters_digest);
    release(outcome->points);
    release(outcome->columns);
    release(outcome->experts);
    release(outcome->losses);
    release(outcome->weights);
    release(outcome->parameters);
    *outcome = (struct experiment_outcome){0};
}
