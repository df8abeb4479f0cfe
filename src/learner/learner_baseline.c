/* What the simplest forecast would have lost (baseline.h). It depends on the examples alone: so it
   is computed while the learner plans, score by score, and is there when the plan has been played.
   With scale: forecast the last value is an expert, and the mixture says what it costs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/unaligned.h"
#include "learner_internal.h"
#include "scaler.h"

/* Numbers in what is said of one target. */
static size_t said_size(const struct learner *learner) {
    return learner->model->outputs / learner->model->horizons;
}

/* ---- Memory ---- */

/* Each horizon has a baseline of its own: its state is that of slot * horizons + horizon. */
int learner_baseline_open(struct learner *learner, size_t slots, struct error *error) {
    const struct output *output = &learner->model->architecture.output;
    const struct loss_kind *loss = loss_kind(output->loss);
    size_t size = loss->class_id ? output->size : learner->model->target_size;
    bool next = output->target == TARGET_NEXT;
    if (learner->forecaster || loss->baseline == BASELINE_NONE)
        return 0;
    return baseline_open(&learner->baseline, loss->baseline, next, size,
                         slots * learner->model->horizons, error);
}

bool learner_baseline_plan_open(struct learner *learner) {
    const struct model *model = learner->model;
    size_t scores = learner->plan_steps * model->horizons, size = model->target_size;
    struct judged *judged = &learner->judged;
    judged->losses = calloc(scores, sizeof *judged->losses);
    judged->said = calloc(scores, said_size(learner) * sizeof *judged->said);
    judged->errors = calloc(scores, size * sizeof *judged->errors);
    judged->forecast = calloc(2, size * sizeof *judged->forecast);
    learner->errors.columns = calloc(size, sizeof *learner->errors.columns);
    learner->errors.experts = calloc(learner->forecast_count + 1, sizeof *learner->errors.experts);
    return judged->losses && judged->said && judged->errors && judged->forecast &&
           learner->errors.columns && learner->errors.experts;
}

void learner_baseline_close(struct learner *learner) {
    struct judged *judged = &learner->judged;
    baseline_close(&learner->baseline);
    free(judged->losses);
    free(judged->said);
    free(judged->errors);
    free(judged->forecast);
    free(learner->errors.columns);
    free(learner->errors.experts);
}

/* ---- Planning ---- */

static enum loss_baseline kind_of(const struct learner *learner) {
    return loss_kind(learner->model->architecture.output.loss)->baseline;
}

static bool is_next(const struct learner *learner) {
    return learner->model->architecture.output.target == TARGET_NEXT;
}

static bool has_numbers(const struct learner *learner) {
    return kind_of(learner) == BASELINE_VALUE || kind_of(learner) == BASELINE_NORMAL;
}

/* A forecast of numbers, (target_size,) each. */
struct forecast {
    const double *original; /* as targets come; NAN where nothing is known */
    const double *scaled;   /* as the network is asked for it; NAN where it was lost */
};

/* Of the x of a step that is one of several open ones: what is known of it is its base. */
static struct forecast of_base(struct learner *learner, const float *base, const double *scale) {
    size_t size = learner->model->target_size;
    double *scaled = learner->judged.forecast, *original = scaled + size;
    for (size_t k = 0; k < size; k++) {
        scaled[k] = (double)base[k];
        original[k] = scale ? scale[k] + scale[size + k] * scaled[k] : scaled[k];
    }
    return (struct forecast){original, scaled};
}

/* The mean so far as the step's targets are scaled; before there is one what is 0 there. */
static struct forecast of_mean(struct learner *learner, uint32_t state, const double *scale) {
    size_t size = learner->model->target_size;
    const double *means = baseline_values(learner->baseline, state);
    double *scaled = learner->judged.forecast, *original = scaled + size;
    if (!scale)
        return (struct forecast){means, means};
    for (size_t k = 0; k < size; k++) {
        double mean = baseline_value(learner->baseline, state, k);
        bool known = !isnan(mean) && !isnan(scale[k]);
        original[k] = known ? mean : scale[k];
        scaled[k] = known ? (double)scaler_scale_with(learner->output_scaler, k, scale[k],
                                                      scale[size + k], (float)mean)
                          : 0;
    }
    return (struct forecast){original, scaled};
}

static struct forecast forecast_at(struct learner *learner, uint32_t slot, size_t place,
                                   uint32_t state) {
    const double *scale = learner_scale(learner, slot, place);
    if (!is_next(learner))
        return of_mean(learner, state, scale);
    if (learner->model->open > 1)
        return of_base(learner, learner_base(learner, slot, place), scale);
    return (struct forecast){baseline_values(learner->baseline, state),
                             baseline_scaled(learner->baseline, state)};
}

/* What is said, in original units and as prediction.h has it. Where nothing is known that is 0 of
   the network's, which is the mean of a scale. */
static void say(struct learner *learner, uint32_t state, size_t score, const double *scale,
                const struct forecast *forecast) {
    size_t size = learner->model->target_size;
    double *said = learner->judged.said + score * said_size(learner);
    if (!has_numbers(learner)) {
        baseline_probabilities(learner->baseline, state, said);
        return;
    }
    for (size_t k = 0; k < size; k++) {
        double value = forecast->original[k];
        said[k] = !isnan(value) ? value : scale ? scale[k] : 0;
        if (kind_of(learner) == BASELINE_NORMAL)
            said[size + k] =
                baseline_deviation(learner->baseline, state, k) * (scale ? scale[size + k] : 1);
    }
}

void learner_baseline_score(struct learner *learner, uint32_t slot, size_t place, size_t horizon,
                            const union value *target, const void *came) {
    const struct model *model = learner->model;
    size_t score = learner->members[0].plan.scores, size = model->target_size;
    uint32_t state = slot * (uint32_t)model->horizons + (uint32_t)horizon;
    double *errors = learner->judged.errors + score * size;
    const double *scale = learner_scale(learner, slot, place);
    struct forecast forecast = {NULL, NULL};
    if (!learner->baseline)
        return;
    if (kind_of(learner) == BASELINE_VALUE && !is_next(learner) && !scale &&
        !learner->want_outputs) {
        learner->judged.losses[score] = baseline_score_mean(learner->baseline, state, came, errors);
        return;
    }
    if (has_numbers(learner)) {
        forecast = forecast_at(learner, slot, place, state);
        for (size_t k = 0; k < size; k++)
            errors[k] = forecast.original[k] - (double)unaligned_float(came, k);
    }
    if (learner->want_outputs)
        say(learner, state, score, scale, &forecast);
    learner->judged.losses[score] =
        baseline_score(learner->baseline, state, target, forecast.scaled);
    if (has_numbers(learner) && !is_next(learner))
        baseline_see_target(learner->baseline, state, came);
}

void learner_baseline_step(struct learner *learner, uint32_t slot, const void *x,
                           const union value *input) {
    if (learner->baseline && has_numbers(learner) && is_next(learner) && learner->model->open == 1)
        baseline_see_last(learner->baseline, slot, x, input, learner->target_row);
}

/* ---- After the plan has been played ---- */

void learner_judge(struct learner *learner, struct planned *example, size_t score) {
    example->baseline_sum += learner->baseline ? learner->judged.losses[score] : NAN;
    learner->errors.scored++;
}

const double *learner_baseline_errors(const struct learner *learner, size_t score) {
    return learner->judged.errors + score * learner->model->target_size;
}

const double *learner_baseline_said(const struct learner *learner, size_t score) {
    return learner->baseline ? learner->judged.said + score * said_size(learner) : NULL;
}

const struct learner_errors *learner_errors(const struct learner *learner) {
    return &learner->errors;
}

void learner_clear_errors(struct learner *learner) {
    struct learner_errors *errors = &learner->errors;
    errors->scored = 0;
    memset(errors->columns, 0, learner->model->target_size * sizeof *errors->columns);
    memset(errors->experts, 0, learner->forecast_count * sizeof *errors->experts);
}
