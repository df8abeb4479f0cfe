/* Predictions beside their truths, see truth.h: while it plans, the learner notes in order what is
   said and which truths come; when the plan has been played, both follow. With scale: forecast the
   mixture says when (learner_forecast.c). */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "learner_internal.h"
#include "prediction.h"
#include "truth.h"

void beside_close(struct learner *learner) {
    truth_close(&learner->truth);
    free(learner->moments);
    free(learner->truths);
    free(learner->again);
    free(learner->begins);
    learner->moments = NULL;
    learner->truths = learner->again = NULL;
    learner->begins = NULL;
}

static int open_truths(struct learner *learner, struct error *error) {
    const struct model *model = learner->model;
    const struct output *output = &model->architecture.output;
    bool numbers = loss_kind(output->loss)->metrics & METRIC_RMSE;
    size_t steps = learner->plan_steps;
    const struct truth_shape shape = {
        .slots = streams_capacity(learner->streams),
        .open = model->open,
        .horizons = model->horizons,
        .numbers = model->outputs / model->horizons,
        .columns = numbers ? model->target_size : 0,
        .keeps = numbers,
        .targets = model->target_size,
        .experts = learner->forecast_count * learner->input_row,
        .steps = steps,
        .scores = steps * model->horizons,
    };
    /* What is said at a step, and a truth for each horizon. */
    learner->moments = calloc(steps, (1 + model->horizons) * sizeof *learner->moments);
    learner->truths = calloc(steps, model->horizons * model->target_size * sizeof *learner->truths);
    learner->again = calloc(model->outputs, sizeof *learner->again);
    learner->begins = calloc(shape.slots, sizeof *learner->begins);
    if (!learner->moments || !learner->truths || !learner->again || !learner->begins)
        error_no_memory(error);
    else if (truth_open(&learner->truth, &shape, error) == 0)
        return 0;
    beside_close(learner);
    return -1;
}

bool beside_wants_outputs(const struct learner *learner) {
    return learner->truth && truth_shape(learner->truth)->keeps;
}

int learner_keep_truths(struct learner *learner, bool wanted, struct error *error) {
    wanted |= learner->forecaster != NULL;
    if (wanted == (learner->truth != NULL))
        return 0;
    if (learner_flush(learner, error))
        return -1;
    if (streams_count(learner->streams))
        learner_all_changed(learner);
    if (wanted)
        return open_truths(learner, error);
    beside_close(learner);
    return 0;
}

/* ---- Planning ---- */

void plan_said(struct learner *learner, struct planned *planned, uint32_t slot) {
    if (!learner->truth)
        return;
    planned->planned_moments++;
    learner->moments[learner->moment_count++] =
        (struct moment){.slot = slot, .begins = learner->begins[slot]};
    learner->begins[slot] = false;
}

void plan_truth(struct learner *learner, struct planned *planned, uint32_t slot, size_t age,
                size_t horizon, const void *target, bool learn) {
    if (!learner->truth)
        return;
    planned->planned_moments++;
    size_t size = learner->model->target_size;
    double *truth = learner->truths + learner->truth_count++ * size;
    bool ids = loss_kind(learner->model->architecture.output.loss)->class_id;
    for (size_t k = 0; k < size; k++) {
        union value value;
        memcpy(&value, (const char *)target + k * sizeof value, sizeof value);
        truth[k] = ids ? value.id : (double)value.real;
    }
    learner->moments[learner->moment_count++] = (struct moment){
        .slot = slot, .age = age, .horizon = horizon, .is_truth = true, .learn = learn};
}

/* ---- After the plan has been played ---- */

struct truth_step beside_step(const struct learner *learner, const struct planned *example) {
    return (struct truth_step){.example = learner->counters.examples + 1,
                               .time = example->time,
                               .step = example->given_steps};
}

/* What was said once more, from the output that was scored. */
static const double *say_again(struct learner *learner, const struct learned *learned,
                               size_t score) {
    size_t outputs = learner->model->outputs / learner->model->horizons;
    prediction_of_horizon(learner->model, learned,
                          learner->members[0].results.scored + score * outputs, learner->again);
    return learner->again;
}

void give_truths(struct learner *learner, struct planned *example, const struct learned *learned,
                 struct cursor *cursor, size_t first_score) {
    struct truth *truth = learner->truth;
    size_t size = learner->model->target_size, score = first_score, said = 0;
    bool keeps = truth_shape(truth)->keeps;
    for (size_t n = 0; n < example->planned_moments; n++) {
        const struct moment *moment = &learner->moments[cursor->moments++];
        if (moment->is_truth) {
            const struct truth_score came = {
                .loss = learner->members[0].results.losses[score],
                .target = learner->truths + score * size,
                .again = !keeps && example->outputs ? say_again(learner, learned, score) : NULL,
                .baseline = example->outputs ? learner_baseline_said(learner, score) : NULL,
                .horizon = moment->horizon,
                .learn = moment->learn,
                .tell = example->outputs,
            };
            truth_came(truth, moment->slot, moment->age, &came);
            score++;
            continue;
        }
        const struct truth_step step = beside_step(learner, example);
        if (moment->begins)
            truth_begin(truth, moment->slot);
        if (keeps)
            prediction_of(learner->model, learned, said++, learner->again);
        truth_said(truth, moment->slot, &step, learner->again, NULL, example->outputs);
        example->given_steps++;
    }
}
