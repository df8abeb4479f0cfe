/* The loss of the simplest forecast (baseline.h). It depends only on the examples, so it is
   computed while the learner plans. With scale: forecast the last value is an expert, and the
   mixture reports its loss. */
#include "baselines.h"

#include <math.h>
#include <stdlib.h>

#include "baseline.h"
#include "common/unaligned.h"
#include "part.h"
#include "rows.h"
#include "scaler.h"

struct baselines {
    struct part_host *host;
    struct baseline *baseline; /* the state of a horizon is that of slot * horizons + horizon */
    enum loss_baseline kind;
    bool next;              /* targets are inputs */
    size_t horizons, size;  /* numbers in a target */
    size_t prediction_size; /* numbers in the prediction of one target */
    double *losses;         /* (scores,) of the plan */
    /* (scores, size) forecast less target in original units, if targets are numbers. */
    double *errors;
    double *predictions; /* (scores, prediction_size), only when outputs are wanted */
    double *forecast;    /* (2, size) of the next score */
};

/* ---- Memory ---- */

static bool baselines_wanted(const struct part_host *host) {
    enum loss_baseline kind = output_baseline(&host->model->architecture.output);
    return !inputs_have_experts(host->model) && kind != BASELINE_NONE && kind != BASELINE_CHANCE;
}

static int baselines_open(void **self, struct part_host *host, struct error *error) {
    const struct model *model = host->model;
    const struct output *output = &model->architecture.output;
    const struct loss_kind *loss = loss_kind(output->loss);
    struct baselines *b = *self = calloc(1, sizeof *b);
    if (!b)
        return error_no_memory(error);
    b->host = host;
    b->kind = output_baseline(output);
    b->next = targets_are_inputs(model);
    b->horizons = model_ahead(model);
    bool message = b->kind == BASELINE_MESSAGE; /* without predictions and errors of numbers */
    b->size = message ? 1 : model->heads[0].target_size;
    b->prediction_size = message ? 1 : model->heads[0].scored;
    if (baseline_open(&b->baseline, b->kind, b->next, loss->class_id ? output->size : b->size,
                      host->slots * b->horizons, error))
        return -1;
    if (host->known_classes != SIZE_MAX && loss->class_id)
        baseline_set_classes(b->baseline, host->known_classes);
    return 0;
}

static bool baselines_plan_open(void *self) {
    struct baselines *b = self;
    size_t scores = b->host->plan_steps * b->host->model->horizons;
    b->losses = calloc(scores, sizeof *b->losses);
    b->predictions = calloc(scores, b->prediction_size * sizeof *b->predictions);
    b->errors = calloc(scores, b->size * sizeof *b->errors);
    b->forecast = calloc(2, b->size * sizeof *b->forecast);
    return b->losses && b->predictions && b->errors && b->forecast;
}

static void baselines_close(void *self) {
    struct baselines *b = self;
    baseline_close(&b->baseline);
    free(b->losses);
    free(b->predictions);
    free(b->errors);
    free(b->forecast);
    free(b);
}

static uint32_t state_at(const struct baselines *b, uint32_t slot, size_t horizon) {
    return slot * (uint32_t)b->horizons + (uint32_t)horizon;
}

static void baselines_begin(void *self, uint32_t slot, enum part_begin when) {
    struct baselines *b = self;
    (void)when;
    for (size_t h = 0; h < b->horizons; h++)
        baseline_begin(b->baseline, state_at(b, slot, h));
}

static bool has_classes(const struct baselines *b) {
    return b->kind == BASELINE_CLASSES || b->kind == BASELINE_MESSAGE;
}

void baselines_set_classes(const struct part_host *host, size_t known) {
    struct baselines *b = part_find(host, &baselines_part);
    if (b && has_classes(b))
        baseline_set_classes(b->baseline, known);
}

void baselines_forget_class(const struct part_host *host, uint32_t id) {
    struct baselines *b = part_find(host, &baselines_part);
    uint32_t slot = streams_oldest(host->streams);
    for (; b && has_classes(b) && slot != STREAMS_NONE; slot = streams_newer(host->streams, slot))
        for (size_t h = 0; h < b->horizons; h++)
            baseline_forget_class(b->baseline, state_at(b, slot, h), id);
}

/* ---- Planning ---- */

static bool has_numbers(const struct baselines *b) {
    return b->kind == BASELINE_VALUE || b->kind == BASELINE_NORMAL;
}

/* A forecast of numbers, (size,) each. */
struct forecast {
    const double *original; /* forecast in the unit of targets; NAN = unknown */
    const double *scaled;   /* forecast in the network's unit; NAN after baseline_lost */
};

/* Returns the forecast for a step that is one of several open ones: the base of its x. */
static struct forecast of_base(struct baselines *b, const float *base, const double *scale) {
    size_t size = b->size;
    double *scaled = b->forecast, *original = scaled + size;
    for (size_t k = 0; k < size; k++) {
        scaled[k] = (double)base[k];
        original[k] = scale ? scale[k] + scale[size + k] * scaled[k] : scaled[k];
    }
    return (struct forecast){original, scaled};
}

/* Returns the mean so far, scaled as the step's targets; before the first target, the value that is
   0 after scaling. */
static struct forecast of_mean(struct baselines *b, uint32_t state,
                               const struct target_arrival *target) {
    size_t size = b->size;
    const double *means = baseline_values(b->baseline, state), *scale = target->scale;
    double *scaled = b->forecast, *original = scaled + size;
    if (!scale)
        return (struct forecast){means, means};
    for (size_t k = 0; k < size; k++) {
        double mean = baseline_value(b->baseline, state, k);
        bool known = !isnan(mean) && !isnan(scale[k]);
        original[k] = known ? mean : scale[k];
        scaled[k] = known ? (double)scaler_scale_with(target->scaler, k, scale[k], scale[size + k],
                                                      (float)mean)
                          : 0;
    }
    return (struct forecast){original, scaled};
}

static struct forecast forecast_at(struct baselines *b, uint32_t state,
                                   const struct target_arrival *target) {
    if (!b->next)
        return of_mean(b, state, target);
    if (b->host->model->open > 1)
        return of_base(b, target->base, target->scale);
    return (struct forecast){baseline_values(b->baseline, state),
                             baseline_scaled(b->baseline, state)};
}

/* Stores the prediction in original units, in the form of prediction.h. An unknown value is the
   network's 0, the mean of a scale. */
static void predict(struct baselines *b, uint32_t state, size_t score, const double *scale,
                    const struct forecast *forecast) {
    double *prediction = b->predictions + score * b->prediction_size;
    if (!has_numbers(b)) {
        baseline_probabilities(b->baseline, state, prediction);
        return;
    }
    for (size_t k = 0; k < b->size; k++) {
        double value = forecast->original[k];
        prediction[k] = !isnan(value) ? value : scale ? scale[k] : 0;
        if (b->kind == BASELINE_NORMAL)
            prediction[b->size + k] =
                baseline_deviation(b->baseline, state, k) * (scale ? scale[b->size + k] : 1);
    }
}

static void baselines_target(void *self, const struct target_arrival *target) {
    struct baselines *b = self;
    size_t score = b->host->members[0].plan.scores;
    uint32_t state = state_at(b, target->slot, target->horizon);
    double *errors = b->errors + score * b->size;
    struct forecast forecast = {NULL, NULL};
    if (b->kind == BASELINE_VALUE && !b->next && !target->scale && !b->host->want_outputs) {
        b->losses[score] = baseline_score_mean(b->baseline, state, target->original, errors);
        return;
    }
    if (has_numbers(b)) {
        forecast = forecast_at(b, state, target);
        for (size_t k = 0; k < b->size; k++)
            errors[k] = forecast.original[k] - (double)unaligned_float(target->original, k);
    }
    if (b->host->want_outputs && b->kind != BASELINE_MESSAGE)
        predict(b, state, score, target->scale, &forecast);
    b->losses[score] = baseline_score(b->baseline, state, target->value, forecast.scaled);
    if (has_numbers(b) && !b->next)
        baseline_see_target(b->baseline, state, target->original);
}

static void baselines_stepped(void *self, const struct step *step) {
    struct baselines *b = self;
    baseline_see_last(b->baseline, step->slot, step->original, step->seen, b->size);
}

static bool baselines_skips(const void *self, size_t member) {
    const struct baselines *b = self;
    bool last = has_numbers(b) && b->next && b->host->model->open == 1;
    return member == PART_MEMBER(stepped) && !last;
}

/* ---- After the plan has been played ---- */

static void baselines_scored(void *self, struct planned *example, struct scored *score) {
    const struct baselines *b = self;
    (void)example;
    if (score->number == SIZE_MAX)
        return;
    score->baseline = b->losses[score->number];
    score->of_baseline = b->errors + score->number * b->size;
}

const double *baselines_prediction(const struct part_host *host, size_t score) {
    const struct baselines *b = part_find(host, &baselines_part);
    return b ? b->predictions + score * b->prediction_size : NULL;
}

/* ---- Checkpoints ---- */

static size_t baseline_numbers(const struct state_place *p) {
    const struct baselines *b = p->self;
    return b->horizons * baseline_size(b->baseline);
}

static void *baseline_at(const struct state_place *p, size_t n) {
    const struct baselines *b = p->self;
    return (void)n, baseline_state(b->baseline, state_at(b, p->slot, 0));
}

static void baseline_lacked(const struct state_place *p) {
    const struct baselines *b = p->self;
    for (size_t h = 0; h < b->horizons; h++)
        baseline_lost(b->baseline, state_at(b, p->slot, h));
}

static const char *baselines_valid(void *self, uint32_t slot) {
    const struct baselines *b = self;
    for (size_t h = 0; h < b->horizons; h++)
        if (!baseline_state_valid(b->baseline, baseline_state(b->baseline, state_at(b, slot, h))))
            return "streams.baseline";
    return NULL;
}

static const struct state_row rows[] = {
    STATE_ROW("streams.baseline", F64, STATE_LATER, .size = baseline_numbers, .at = baseline_at,
              .lacked = baseline_lacked),
};

const struct part_kind baselines_part = {
    .name = "baselines",
    .wanted = baselines_wanted,
    .skips = baselines_skips,
    .open = baselines_open,
    .close = baselines_close,
    .plan_open = baselines_plan_open,
    .begin = baselines_begin,
    .stepped = baselines_stepped,
    .target = baselines_target,
    .scored = baselines_scored,
    STATE_ROWS(rows),
    .valid = baselines_valid,
};
