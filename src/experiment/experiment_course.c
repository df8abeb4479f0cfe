#include "experiment_course.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "daemon/metrics.h"
#include "daemon/skill.h"
#include "learner/learner.h"
#include "model/parameters.h"

enum {
    DIGEST_SIZE = 17,
    SKIPPED_LEAST = 10, /* updates without one that was applied after them */
    CHEAP = 1000, /* messages between two readings of all parameters, unless weights are kept */
};

/* Over examples. */
struct sums {
    double loss;
    uint64_t scored;
    double judged_loss, baseline; /* of those whose baseline is known, too */
    uint64_t judged;
    double gradient_norm, update_ratio; /* of those that brought an update */
    uint64_t updated;
};

struct course {
    struct course_options options;
    const struct model *model;
    struct learner *learner;
    struct metrics metrics;
    struct skill *skill;
    struct sums recent, point;
    bool is_recent, nonfinite;
    uint64_t applied, skipped; /* updates; since the last that was applied */
    size_t recent_from;        /* message */
    uint64_t examples;

    struct experiment_point *points; /* (options.points,) */
    size_t point_count;
    double *losses; /* (messages,) or NULL */
    uint64_t losses_hash;

    struct experiment_weight *weights; /* (options.points, tensors) or NULL */
    size_t weight_count, tensors;      /* of all members */
    size_t weighed;                    /* messages when parameters were read last */
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
    bool keep = course->options.keep_weights;
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
        .columns = loss_kind(loss)->metrics & METRIC_RMSE ? course->model->target_size : 0,
        .experts = learner_forecasts(course->learner)};
    struct learner_counters counters = learner_counters(course->learner);
    if (skill_open(&course->skill, &options, error))
        return -1;
    metrics_begin(&course->metrics, &counters, 0, 0);
    skill_begin(course->skill, course->learner);
    course->points = calloc(course->options.points + 1, sizeof *course->points);
    if (course->options.keep_losses)
        course->losses = calloc(course->options.messages + 1, sizeof *course->losses);
    if (!course->points || (course->options.keep_losses && !course->losses))
        return error_no_memory(error);
    return open_weights(course, error) || read_starting_values(course, error) ? -1 : 0;
}

int course_open(struct course **course, const struct course_options *options,
                const struct model *model, struct learner *learner, struct error *error) {
    struct course *opened = *course = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->options = *options;
    if (opened->options.points > options->messages)
        opened->options.points = options->messages ? options->messages : 1;
    opened->model = model;
    opened->learner = learner;
    opened->losses_hash = HASH_BEGIN;
    opened->recent_from =
        options->messages - (size_t)((double)options->messages * options->recent + 0.5);
    opened->is_recent = opened->recent_from == 0;
    return open_course(opened, error);
}

void course_close(struct course **course) {
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
    sums->judged++;
    sums->judged_loss += learned->loss;
    sums->baseline += learned->baseline;
}

void course_add(struct course *c, const struct learned *learned) {
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

double course_mean(const struct course *c) {
    return interval(c)->scored ? interval(c)->loss_sum / (double)interval(c)->scored : NAN;
}

/* ---- Points ---- */

/* Messages up to the end of point n. */
static size_t end_of_point(const struct course *c, size_t n) {
    return (size_t)((unsigned __int128)c->options.messages * (n + 1) / c->options.points);
}

size_t course_next(const struct course *c, size_t next) {
    size_t end = end_of_point(c, c->point_count);
    return c->recent_from > next && c->recent_from < end ? c->recent_from : end;
}

/* Norms of one tensor and of its change since the point before. */
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

/* What is read costs as much as some hundred examples. */
static int read_weights(struct course *c, size_t messages, double *norm, struct error *error) {
    double squares = 0;
    float *before = c->before;
    bool last = messages == c->options.messages;
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
        .baseline = mean_of(sums->baseline, sums->judged),
        .gradient_norm = mean_of(sums->gradient_norm, sums->updated),
        .update_ratio = mean_of(sums->update_ratio, sums->updated),
    };
    if (read_weights(c, end_of_point(c, c->point_count), &point->weight_norm, error))
        return -1;
    c->point = (struct sums){0};
    c->point_count++;
    return 0;
}

int course_reach(struct course *c, size_t messages, struct error *error) {
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
    float *values = malloc((c->largest + 1) * sizeof *values);
    int result = values ? 0 : error_no_memory(error);
    for (size_t m = 0; m < learner_members(c->learner) && !result; m++) {
        const struct model *model = learner_member_model(c->learner, m);
        for (size_t t = 0; t < model->tensor_count && !result; t++) {
            result = learner_read_parameters(c->learner, m, t, values, error);
            hash = hash_bytes(hash, values, tensor_size(&model->tensors[t]) * sizeof *values);
        }
    }
    free(values);
    row->losses_digest = digest_text(c->losses_hash);
    row->parameters_digest = digest_text(hash);
    if (result == 0 && (!row->losses_digest || !row->parameters_digest))
        result = error_no_memory(error);
    return result;
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
        .baseline_recent = mean_of(recent->baseline, recent->judged),
        .skill_recent = skill_over(loss, recent->judged_loss, recent->baseline, recent->judged),
        .mae = numbers ? mean_absolute(c, c->model->target_size) : NAN,
    };
    metrics_close_interval(&c->metrics, 0, report);
    skill_close_interval(c->skill, c->learner, report);
    figures->mean = report->mean;
    figures->baseline = report->baseline;
    figures->skill = report->skill;
    figures->rmse = numbers ? report->metric_rmse : NAN;
    figures->accuracy = metrics & METRIC_ACCURACY ? report->metric_accuracy : NAN;
    figures->bits = metrics & METRIC_BITS ? report->metric_bits : NAN;
}

/* Of number k of the targets. */
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
    size_t count = learner_forecasts(c->learner);
    struct experiment_expert *experts = calloc(count + 1, sizeof *experts);
    if (!experts)
        return error_no_memory(error);
    for (size_t n = 0; n < count; n++) {
        const double *row = report->experts.numbers + n * EXPERT_FIELDS;
        experts[n] =
            (struct experiment_expert){.mean = row[EXPERT_mean], .weight = row[EXPERT_weight]};
        snprintf(experts[n].name, sizeof experts[n].name, "%s",
                 learner_forecast_name(c->learner, n));
    }
    outcome->experts = experts;
    outcome->expert_count = count;
    return 0;
}

/* A loss was not, or at the end no gradient is any more: such a run learns nothing. */
static bool is_nonfinite(const struct course *c) {
    return c->nonfinite || c->skipped >= SKIPPED_LEAST || (c->skipped && !c->applied);
}

int course_finish(struct course *c, struct experiment_outcome *outcome, struct error *error) {
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
