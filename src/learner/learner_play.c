/* Playing a plan, and giving each example what belongs to it of the results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "learner_internal.h"
#include "learner_threads.h"

/* ---- What one score says, beside its loss ---- */

/* Sum over observed numbers of (a - y)^2. */
static void add_squared_error(struct learner *learner, struct planned *example, const float *output,
                              const union value *target, size_t score) {
    const double *of_baseline = learner_baseline_errors(learner, score);
    struct column_error *columns = learner->errors.columns;
    double sum = example->squared_error;
    size_t observed = 0, size = learner->model->target_size;
    for (size_t k = 0; k < size; k++) {
        if (isnan(target[k].real))
            continue;
        double difference = (double)output[k] - target[k].real;
        sum += difference * difference;
        observed++;
        judge_number(&columns[k], difference, of_baseline[k]);
        watch_number(&learner->watch, k, difference);
    }
    example->squared_error = sum;
    example->observed += observed;
}

/* Sum over observed numbers of (mean + deviation a - y)^2, in the scale of the prediction. */
static void add_scaled_error(struct learner *learner, struct planned *example, const float *output,
                             size_t score) {
    const double *of_baseline = learner_baseline_errors(learner, score);
    struct column_error *columns = learner->errors.columns;
    size_t size = learner->target_row, observed = 0;
    const double *offsets = learner->score_scales + score * 2 * size, *deviations = offsets + size;
    double sum = example->squared_error;
    for (size_t k = 0; k < size; k++) {
        if (isnan(offsets[k]))
            continue;
        double difference = offsets[k] + deviations[k] * output[k];
        sum += difference * difference;
        observed++;
        judge_number(&columns[k], difference, of_baseline[k]);
        watch_number(&learner->watch, k, difference);
    }
    example->squared_error = sum;
    example->observed += observed;
}

/* Numbers on the target's side of 1/2: s(a) >= 1/2 where a >= 0. */
static void add_sides(const struct learner *learner, struct planned *example, const float *output,
                      const union value *target) {
    for (size_t k = 0; k < learner->model->target_size; k++) {
        if (isnan(target[k].real))
            continue;
        example->correct += (output[k] >= 0) == (target[k].real >= 0.5f);
        example->observed++;
    }
}

static void add_class(const struct learner *learner, struct planned *example, const float *output,
                      const union value *target) {
    size_t best = 0, classes = learner->model->outputs / learner->model->horizons;
    for (size_t k = 1; k < classes; k++)
        if (output[k] > output[best])
            best = k;
    example->correct += best == target->id;
    example->observed++;
}

static void add_score(struct learner *learner, struct planned *example, size_t score) {
    const struct model *model = learner->model;
    const struct loss_kind *loss = loss_kind(model->architecture.output.loss);
    const float *output =
        learner->members[0].results.scored + score * (model->outputs / model->horizons);
    const union value *target = learner->members[0].plan.targets + score * model->target_size;
    example->loss_sum += learner->members[0].results.losses[score];
    example->scored++;
    learner_judge(learner, example, score);
    if (loss->metrics & METRIC_RMSE && learner->score_scales)
        add_scaled_error(learner, example, output, score);
    else if (loss->metrics & METRIC_RMSE)
        add_squared_error(learner, example, output, target, score);
    if (loss->metrics & METRIC_ACCURACY && loss->class_id)
        add_class(learner, example, output, target);
    else if (loss->metrics & METRIC_ACCURACY)
        add_sides(learner, example, output, target);
    watch_score(learner, example, learner->members[0].results.losses[score]);
}

static void add_update(const struct learner *learner, struct planned *example,
                       const struct update_result *update) {
    if (!update->applied) {
        example->skipped++;
        return;
    }
    example->updates++;
    example->gradient_norm = update->gradient_norm;
    example->update_ratio = update->update_ratio * rows_share(learner, update->squares);
}

/* ---- Outputs of an example that spans plans ---- */

static int gather_outputs(struct learner *learner, struct planned *example, size_t first_step,
                          struct error *error) {
    size_t outputs = learner->model->outputs, size = example->steps * outputs;
    if (learner->long_capacity < size) {
        float *grown = realloc(learner->long_outputs, size * sizeof *grown);
        if (!grown)
            return error_set(error, EX_UNAVAILABLE, LEARNER_NO_MEMORY_TO_TELL, example->steps);
        learner->long_outputs = grown;
        learner->long_capacity = size;
    }
    memcpy(learner->long_outputs + example->gathered_steps * outputs,
           learner->members[0].results.outputs + first_step * outputs,
           example->planned_steps * outputs * sizeof(float));
    return 0;
}

/* The outputs (T, K) of a finished example. */
static const float *outputs_of(struct learner *learner, const struct planned *example,
                               size_t first_step) {
    if (!example->outputs || learner->forecaster)
        return NULL;
    if (example->gathered_steps)
        return learner->long_outputs;
    return learner->members[0].results.outputs + first_step * learner->model->outputs;
}

/* What is relative becomes absolute. The parts of a prediction that are levels come first. */
static void add_bases(struct learner *learner, const struct planned *example, size_t first_step) {
    const struct model *model = learner->model;
    size_t size = learner->target_row, outputs = model->outputs / model->horizons;
    for (size_t t = first_step; t < first_step + example->planned_steps; t++) {
        const float *base = learner->step_bases + t * size;
        for (size_t h = 0; h < model->horizons; h++)
            for (size_t k = 0; k < size; k++)
                learner->members[0].results.outputs[t * model->outputs + h * outputs + k] +=
                    base[k];
    }
}

/* ---- The observer ---- */

static void observe(struct learner *learner, const struct planned *example, size_t row,
                    size_t first_step, const struct layer_statistics *const *measured) {
    const struct learner_observer *observer = &learner->observer;
    struct learner_counters *counters = &learner->counters;
    if (example->forgets) {
        counters->forgotten++;
        if (observer->forgotten)
            observer->forgotten(observer->context, example->forgotten, example->forgotten_size);
    }
    counters->examples++;
    counters->steps += example->steps;
    counters->updates += example->updates;
    counters->skipped += example->skipped;
    size_t scale = row * learner->scale_row;
    const struct anomaly_said anomaly = watch_said(learner);
    const struct learned learned = {
        .key = example->key,
        .key_size = example->key_size,
        .examples = counters->examples,
        .steps = counters->steps,
        .played = learner->played,
        .received = example->received,
        .time = example->time,
        .scored = example->scored,
        .loss = example->scored ? example->loss_sum / (double)example->scored : NAN,
        .baseline = example->scored ? example->baseline_sum / (double)example->scored : NAN,
        .squared_error = example->squared_error,
        .observed = example->observed,
        .correct = example->correct,
        .updates = example->updates,
        .skipped = example->skipped,
        .gradient_norm = example->gradient_norm,
        .update_ratio = example->update_ratio,
        .mean = learner->scaler ? learner->means + scale : NULL,
        .deviation = learner->scaler ? learner->deviations + scale : NULL,
        .target_mean = targets_scale(learner, row, false),
        .target_deviation = targets_scale(learner, row, true),
        .forecasts = example->outputs ? forecast_of(learner, example, first_step) : NULL,
        .forecast_row = learner->forecast_row,
        .outputs = outputs_of(learner, example, first_step),
        .output_steps = example->steps,
        .truth = example->outputs ? learner->truth : NULL,
        .told_scores = example->told_scores,
        .told_steps = example->told_steps,
        .anomaly = learner_watches(learner) ? &anomaly : NULL,
        .measured = measured,
        .streams = example->streams,
    };
    observer->learned(observer->context, &learned);
}

/* What its members' updates did. */
static void add_updates(struct learner *learner, struct planned *example, struct cursor *cursor) {
    for (size_t m = 0; m < learner->member_count; m++)
        for (size_t n = 0; n < example->planned_updates[m]; n++)
            add_update(learner, example,
                       &learner->members[m].results.updates[cursor->updates[m]++]);
}

/* Outputs, or what is said, of an example that spans plans. */
static int gather(struct learner *learner, struct planned *example, size_t first_step,
                  struct error *error) {
    if (learner->forecaster ? forecast_gather(learner, example, first_step, error)
                            : gather_outputs(learner, example, first_step, error))
        return -1;
    example->gathered_steps += example->planned_steps;
    return 0;
}

/* The statistics of an example whose updates go on in another plan: only later targets do that, and
   they have one network. */
static void gather_measure(struct learner *learner, const struct planned *example, size_t measure) {
    const struct member *member = &learner->members[0];
    size_t layers = learner->model->architecture.layer_count;
    if (!example->planned_measures)
        return;
    memcpy(learner->long_measure, member->results.measures + measure * layers,
           layers * sizeof *learner->long_measure);
}

/* Of the example in this row, what makes predictions of its outputs in this plan. */
static struct learned in_plan(const struct learner *learner, size_t row, size_t first_step) {
    return (struct learned){
        .target_mean = targets_scale(learner, row, false),
        .target_deviation = targets_scale(learner, row, true),
        .outputs = learner->members[0].results.outputs + first_step * learner->model->outputs,
    };
}

/* So many scores of one x: of its horizons, from the nearest on, or of a label's targets. */
static void give_scores(struct learner *learner, struct planned *example, size_t count,
                        struct cursor *cursor) {
    for (size_t n = 0; n < count; n++) {
        watch_listen(&learner->watch, n % learner->model->horizons);
        add_score(learner, example, cursor->scores++);
    }
}

/* Its scores, and what it says. Each step is looked at with the scores that it brought, so that
   nothing depends on how examples, or the plan, are cut. */
static void give_steps(struct learner *learner, struct planned *example, size_t row,
                       struct cursor *cursor) {
    size_t first_score = cursor->scores;
    watch_begin(learner, example);
    for (size_t n = 0; n < example->planned_steps; n++) {
        size_t step = cursor->steps + n;
        if (learner->forecaster) {
            forecast_give(learner, example, step);
            continue;
        }
        give_scores(learner, example, watch_scores(learner, step), cursor);
        watch_step(learner, example, step);
    }
    give_scores(learner, example, first_score + example->planned_scores - cursor->scores, cursor);
    if (learner->forecaster)
        return;
    if (learner->members[0].plan.outputs && learner->step_bases)
        add_bases(learner, example, cursor->steps);
    if (!learner->truth)
        return;
    const struct learned learned = in_plan(learner, row, cursor->steps);
    give_truths(learner, example, &learned, cursor, first_score);
}

/* Give the example in this row what belongs to it, and observe it when it is finished. */
static int give(struct learner *learner, size_t row, struct cursor *cursor, struct error *error) {
    struct planned *example = &learner->examples[row];
    size_t first_step = cursor->steps;
    if (learner->truth && !example->begun) {
        example->told_scores = truth_count(learner->truth);
        example->told_steps = truth_steps(learner->truth);
    }
    give_steps(learner, example, row, cursor);
    example->begun = true;
    add_updates(learner, example, cursor);
    cursor->steps += example->planned_steps;
    bool spans = example->steps && (!example->finished || example->gathered_steps);
    if (example->outputs && spans && gather(learner, example, first_step, error))
        return -1;
    if (!example->finished) {
        gather_measure(learner, example, cursor->measures);
        return 0;
    }
    const struct layer_statistics *measured[CONFIG_MEMBERS_MAX] = {learner->long_measure};
    for (size_t m = 0; example->planned_measures && m < learner->member_count; m++)
        measured[m] = learner->members[m].results.measures +
                      cursor->measures * learner->members[m].model->architecture.layer_count;
    cursor->measures += example->planned_measures;
    watch_end(learner, example);
    observe(learner, example, row, first_step, example->measured ? measured : NULL);
    return 0;
}

/* What was told stays as far as it is of an example that is not finished. */
static int clear_told(struct learner *learner, const struct planned *unfinished,
                      struct error *error) {
    struct truth *truth = learner->truth;
    if (!truth)
        return 0;
    bool stays = unfinished && unfinished->outputs;
    size_t scores = stays ? unfinished->told_scores : truth_count(truth);
    size_t steps = stays ? unfinished->told_steps : truth_steps(truth);
    if (truth_clear(truth, scores, steps) == 0)
        return 0;
    return error_set(error, EX_UNAVAILABLE, LEARNER_NO_MEMORY_TO_TELL,
                     unfinished ? unfinished->steps : 0);
}

/* Begin an empty plan; an unfinished example becomes its first. */
static int begin_plan(struct learner *learner, struct error *error) {
    size_t last = learner->example_count - 1, size = learner->scale_row;
    bool unfinished = learner->example_count && !learner->examples[last].finished;
    if (clear_told(learner, unfinished ? &learner->examples[last] : NULL, error))
        return -1;
    learner->example_count = unfinished;
    if (unfinished) {
        struct planned *example = &learner->examples[0];
        if (last)
            *example = learner->examples[last];
        example->planned_steps = example->planned_scores = example->planned_measures = 0;
        example->planned_moments = 0;
        example->told_scores = example->told_steps = 0;
        memset(example->planned_updates, 0,
               learner->member_count * sizeof *example->planned_updates);
        if (learner->scaler && last) {
            memcpy(learner->means, learner->means + last * size, size * sizeof(double));
            memcpy(learner->deviations, learner->deviations + last * size, size * sizeof(double));
        }
        if (learner->output_scaler && last) {
            size_t row = learner->target_row, bytes = row * sizeof(double);
            memcpy(learner->output_means, learner->output_means + last * row, bytes);
            memcpy(learner->output_deviations, learner->output_deviations + last * row, bytes);
        }
    }
    learner->steps = learner->measures = learner->moment_count = learner->truth_count = 0;
    for (size_t m = 0; m < learner->member_count; m++) {
        struct plan *plan = &learner->members[m].plan;
        plan->count = plan->rows = 0;
        plan->steps = plan->scores = plan->updates = plan->measures = 0;
    }
    return 0;
}

/* Of the plan: all but one that continues in the next. */
static size_t finished_examples(const struct learner *learner) {
    size_t count = learner->example_count;
    return count && !learner->examples[count - 1].finished ? count - 1 : count;
}

/* The parts of members that have something to play. */
static size_t gather_parts(struct learner *learner, bool outputs, struct engine_part *parts) {
    size_t count = 0;
    for (size_t m = 0; m < learner->member_count; m++) {
        struct member *member = &learner->members[m];
        member->plan.outputs = outputs;
        member->plan.rate = member->rates.rate;
        member->plan.clip = member->rates.clip;
        if (member->plan.count)
            parts[count++] = (struct engine_part){member->engine, &member->plan, &member->results};
    }
    return count;
}

int learner_play(struct learner *learner, struct error *error) {
    bool outputs = learner->forecaster || beside_wants_outputs(learner);
    bool planned = learner->example_count > 0;
    for (size_t row = 0; row < learner->example_count; row++)
        outputs |= learner->examples[row].outputs;
    for (size_t m = 0; m < learner->member_count; m++)
        planned |= learner->members[m].plan.count > 0;
    if (!planned)
        return 0;
    struct engine_part parts[CONFIG_MEMBERS_MAX];
    size_t count = gather_parts(learner, outputs, parts);
    if (learner_threads_play(learner->threads, learner->ops, parts, count,
                             learner->steps * learner_parameters(learner), error))
        return -1;
    learner->played = learner->counters.examples + finished_examples(learner);
    struct cursor cursor = {0};
    for (size_t row = 0; row < learner->example_count; row++)
        if (give(learner, row, &cursor, error))
            return -1;
    if (begin_plan(learner, error))
        return -1;
    if (learner->observer.played)
        learner->observer.played(learner->observer.context);
    return 0;
}
