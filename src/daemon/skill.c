#include "skill.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum {
    COURSE_BINS = 128,  /* even; the resolution of the run's course */
    RECENT_LEAST = 500, /* scored examples required for the skill of the last tenth */
    RECENT_SHARE = 10,  /* the recent part is one in this many */
};

/* Room for the figures of all outputs, of up to 24 characters. */
enum { OUTPUTS_SIZE = OUTPUTS_MAX * (OUTPUT_NAME_SIZE + 5 * (13 + 24)) };

/* Sums over examples. */
struct sums {
    double loss, baseline;
    uint64_t examples;
};

struct interval {
    struct sums scored;
    struct learner_errors errors;
};

struct skill {
    struct skill_options options;
    struct sums scored; /* the open interval's sums; the learner has its errors */
    struct interval last, both;

    /* The course of the run, in bins of `width` examples except the last. When all are in use,
       pairs of bins are joined. */
    struct sums course[COURSE_BINS], total;
    size_t bins;
    uint64_t width;

    double *column_rows, *expert_rows;
    char outputs[OUTPUTS_SIZE]; /* JSON of the newest report */
};

/* ---- Memory ---- */

static bool open_interval(struct interval *interval, const struct skill_options *options) {
    interval->errors.columns = calloc(options->columns + 1, sizeof *interval->errors.columns);
    interval->errors.experts = calloc(options->experts + 1, sizeof *interval->errors.experts);
    return interval->errors.columns && interval->errors.experts;
}

static void close_interval(struct interval *interval) {
    free(interval->errors.columns);
    free(interval->errors.experts);
}

int skill_open(struct skill **skill, const struct skill_options *options, struct error *error) {
    struct skill *s = *skill = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(error);
    s->options = *options;
    s->column_rows = calloc(options->columns + 1, COLUMN_FIELDS * sizeof *s->column_rows);
    s->expert_rows = calloc(options->experts + 1, EXPERT_FIELDS * sizeof *s->expert_rows);
    bool opened = open_interval(&s->last, options) & open_interval(&s->both, options);
    return opened && s->column_rows && s->expert_rows ? 0 : error_no_memory(error);
}

void skill_close(struct skill **skill) {
    struct skill *s = *skill;
    *skill = NULL;
    if (!s)
        return;
    close_interval(&s->last);
    close_interval(&s->both);
    free(s->column_rows);
    free(s->expert_rows);
    free(s);
}

/* ---- Adding ---- */

static void begin_interval(const struct skill *s, struct interval *interval) {
    interval->scored = (struct sums){0};
    interval->errors.scored = 0;
    interval->errors.distribution = (struct distribution_error){0};
    memset(interval->errors.outputs, 0, sizeof interval->errors.outputs);
    memset(interval->errors.columns, 0, s->options.columns * sizeof *interval->errors.columns);
    memset(interval->errors.experts, 0, s->options.experts * sizeof *interval->errors.experts);
}

void skill_begin(struct skill *s, struct learner *learner) {
    begin_interval(s, &s->last);
    learner_clear_errors(learner);
    s->scored = s->total = (struct sums){0};
    s->bins = 0;
    s->width = 1;
}

static void add_sums(struct sums *into, const struct sums *from) {
    into->loss += from->loss;
    into->baseline += from->baseline;
    into->examples += from->examples;
}

static void halve_course(struct skill *s) {
    for (size_t i = 0; i < COURSE_BINS / 2; i++) {
        s->course[i] = s->course[2 * i];
        add_sums(&s->course[i], &s->course[2 * i + 1]);
    }
    s->bins = COURSE_BINS / 2;
    s->width *= 2;
}

static void add_to_course(struct skill *s, const struct sums *one) {
    add_sums(&s->total, one);
    if (s->bins == 0 || s->course[s->bins - 1].examples == s->width) {
        if (s->bins == COURSE_BINS)
            halve_course(s);
        s->course[s->bins++] = (struct sums){0};
    }
    add_sums(&s->course[s->bins - 1], one);
}

void skill_add(struct skill *s, const struct learned *learned) {
    const struct sums one = {learned->loss, learned->baseline, 1};
    if (!learned->scored || !isfinite(learned->loss) || !isfinite(learned->baseline))
        return;
    add_sums(&s->scored, &one);
    add_to_course(s, &one);
}

static void add_interval(const struct skill *s, struct interval *into, const struct sums *scored,
                         const struct learner_errors *errors) {
    add_sums(&into->scored, scored);
    into->errors.scored += errors->scored;
    for (size_t k = 0; k < s->options.columns; k++) {
        into->errors.columns[k].squared += errors->columns[k].squared;
        into->errors.columns[k].absolute += errors->columns[k].absolute;
        into->errors.columns[k].baseline += errors->columns[k].baseline;
        into->errors.columns[k].observed += errors->columns[k].observed;
        into->errors.columns[k].crps += errors->columns[k].crps;
        into->errors.columns[k].log_score += errors->columns[k].log_score;
        into->errors.columns[k].scored += errors->columns[k].scored;
    }
    into->errors.distribution.crps += errors->distribution.crps;
    into->errors.distribution.baseline += errors->distribution.baseline;
    into->errors.distribution.log_score += errors->distribution.log_score;
    into->errors.distribution.observed += errors->distribution.observed;
    for (size_t k = 0; k < OUTPUTS_MAX; k++) {
        struct output_sums *sums = &into->errors.outputs[k];
        sums->scored += errors->outputs[k].scored;
        sums->observed += errors->outputs[k].observed;
        sums->correct += errors->outputs[k].correct;
        sums->loss += errors->outputs[k].loss;
        sums->squared_error += errors->outputs[k].squared_error;
        sums->recall_1 += errors->outputs[k].recall_1;
        sums->recall_10 += errors->outputs[k].recall_10;
        sums->recall_20 += errors->outputs[k].recall_20;
        sums->rank += errors->outputs[k].rank;
        sums->among += errors->outputs[k].among;
    }
    for (size_t n = 0; n < s->options.experts; n++) {
        into->errors.experts[n].loss += errors->experts[n].loss;
        into->errors.experts[n].weight += errors->experts[n].weight;
    }
}

/* ---- Reporting ---- */

/* Returns NAN if the baseline's loss is zero. */
static double ratio(double loss, double baseline) {
    return baseline > 0 ? 1 - loss / baseline : NAN;
}

double skill_over(enum loss loss, double loss_sum, double baseline_sum, uint64_t examples) {
    if (examples == 0)
        return NAN;
    if (loss_kind(loss)->squares)
        return ratio(loss_sum, baseline_sum);
    return (baseline_sum - loss_sum) / (double)examples;
}

static double skill_of(const struct skill *s, const struct sums *sums) {
    return skill_over(s->options.loss, sums->loss, sums->baseline, sums->examples);
}

/* Returns the skill over the newest bins with a tenth of all examples. */
static double skill_of_tenth(const struct skill *s) {
    struct sums tenth = {0};
    if (s->total.examples < RECENT_LEAST)
        return NAN;
    for (size_t i = s->bins; i-- > 0 && tenth.examples * RECENT_SHARE < s->total.examples;)
        add_sums(&tenth, &s->course[i]);
    return skill_of(s, &tenth);
}

static void put_columns(struct skill *s, const struct interval *interval) {
    for (size_t k = 0; k < s->options.columns; k++) {
        const struct column_error *column = &interval->errors.columns[k];
        double *row = s->column_rows + k * COLUMN_FIELDS, observed = (double)column->observed;
        row[COLUMN_rmse] = sqrt(column->squared / observed); /* NAN without an observation */
        row[COLUMN_mae] = column->absolute / observed;
        row[COLUMN_skill] = ratio(column->squared, column->baseline);
        row[COLUMN_crps] = column->crps / (double)column->scored;
        row[COLUMN_log_score] = column->log_score / (double)column->scored;
    }
}

static void put_experts(struct skill *s, const struct interval *interval) {
    for (size_t n = 0; n < s->options.experts; n++) {
        double *row = s->expert_rows + n * EXPERT_FIELDS, scored = (double)interval->errors.scored;
        row[EXPERT_mean] = interval->errors.experts[n].loss / scored;
        row[EXPERT_weight] = interval->errors.experts[n].weight / scored;
    }
}

/* Writes a comma and a figure; null if it is not finite. */
static size_t print_figure(char *text, size_t size, const char *name, double figure) {
    int used = isfinite(figure) ? snprintf(text, size, ",\"%s\":%.15g", name, figure)
                                : snprintf(text, size, ",\"%s\":null", name);
    return (size_t)used;
}

/* The figures of each output that its loss has. */
static const char *print_outputs(struct skill *s, const struct interval *interval) {
    const struct architecture *architecture = s->options.architecture;
    size_t used = 0;
    for (size_t k = 0; k <= architecture->other_count; k++) {
        const struct output *output = architecture_output(architecture, k);
        const struct output_sums *sums = &interval->errors.outputs[k];
        unsigned metrics = output_metrics(output);
        double scored = (double)sums->scored, mean = sums->loss / scored,
               observed = (double)sums->observed;
#define PUT(...) used += print_figure(s->outputs + used, sizeof s->outputs - used, __VA_ARGS__)
        used += (size_t)snprintf(s->outputs + used, sizeof s->outputs - used,
                                 "%c\"%s\":", k ? ',' : '{', output->name);
        size_t first = used;
        PUT("mean", mean);
        s->outputs[first] = '{';
        if (metrics & METRIC_BITS)
            PUT("bits", mean / M_LN2);
        if (metrics & METRIC_ACCURACY)
            PUT("accuracy", (double)sums->correct / observed);
        if (metrics & METRIC_RMSE)
            PUT("rmse", sqrt(sums->squared_error / observed));
        if (metrics & METRIC_RANK) {
            PUT("rank", sums->rank / scored);
            PUT("recall_1", (double)sums->recall_1 / scored);
            PUT("recall_10", (double)sums->recall_10 / scored);
            PUT("recall_20", (double)sums->recall_20 / scored);
            PUT("among", sums->among / scored);
        }
#undef PUT
        used += (size_t)snprintf(s->outputs + used, sizeof s->outputs - used, "}");
    }
    snprintf(s->outputs + used, sizeof s->outputs - used, "}");
    return s->outputs;
}

static void report_interval(struct skill *s, const struct interval *interval,
                            struct loss_fields *report) {
    const struct sums *scored = &interval->scored;
    report->baseline = scored->baseline / (double)scored->examples; /* NAN without an example */
    report->skill = skill_of(s, scored);
    report->skill_recent = skill_of_tenth(s);
    const struct distribution_error *d = &interval->errors.distribution;
    report->crps_mean = d->crps / (double)d->observed; /* NAN without one */
    report->crps_skill = ratio(d->crps, d->baseline);
    report->log_score_mean = d->log_score / (double)d->observed;
    put_columns(s, interval);
    put_experts(s, interval);
    const struct output_sums *first = &interval->errors.outputs[0];
    report->metric_rank = first->rank / (double)first->scored; /* NAN without one, or a ranking */
    report->metric_recall_1 = (double)first->recall_1 / (double)first->scored;
    report->metric_recall_10 = (double)first->recall_10 / (double)first->scored;
    report->metric_recall_20 = (double)first->recall_20 / (double)first->scored;
    report->metric_among = first->among / (double)first->scored;
    if (s->options.architecture->other_count)
        report->outputs = print_outputs(s, interval);
    report->columns = (struct field_rows){&field_tables[FIELDS_OF_COLUMN], NULL, s->options.columns,
                                          s->column_rows};
    report->experts = (struct field_rows){&field_tables[FIELDS_OF_EXPERT], NULL, s->options.experts,
                                          s->expert_rows};
}

void skill_close_interval(struct skill *s, struct learner *learner, struct loss_fields *report) {
    begin_interval(s, &s->last);
    add_interval(s, &s->last, &s->scored, learner_errors(learner));
    s->scored = (struct sums){0};
    learner_clear_errors(learner);
    if (report)
        report_interval(s, &s->last, report);
}

void skill_recent(struct skill *s, const struct learner *learner, struct loss_fields *report) {
    begin_interval(s, &s->both);
    add_interval(s, &s->both, &s->last.scored, &s->last.errors);
    add_interval(s, &s->both, &s->scored, learner_errors(learner));
    report_interval(s, &s->both, report);
}
