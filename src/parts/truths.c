#include "truths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "baselines.h"
#include "distributions.h"
#include "part.h"
#include "prediction.h"
#include "rows.h"
#include "symbols.h"

/* An event of a plan for predictions and truths: a step with a prediction, or a truth. */
struct moment {
    uint32_t slot;
    size_t age; /* a truth: age of its prediction, counted back from the newest */
    size_t horizon;
    bool is_truth; /* the next row of truths; otherwise a step */
    bool begins;   /* its stream's first step */
    bool learn;
};

struct truths {
    struct part_host *host;
    struct truth *truth; /* NULL: not requested, and nothing else is allocated */
    bool noted; /* moments are recorded in planning; with scale: forecast the mixture adds them */
    struct moment *moments; /* (plan_steps, 1 + horizons) */
    size_t moment_count, truth_count;
    size_t cursor, truth_cursor; /* those that have been delivered */
    double *truths;              /* (plan_steps, horizons, target_size) in original units */
    double *again;               /* (outputs,) */
    bool *begins;                /* (slots,) the stream in that slot has no prediction yet */
};

/* ---- Memory ---- */

static void release(struct truths *t) {
    truth_close(&t->truth);
    free(t->moments);
    free(t->truths);
    free(t->again);
    free(t->begins);
    *t = (struct truths){.host = t->host, .noted = t->noted};
}

static void truths_close(void *self) {
    release(self);
    free(self);
}

static int truths_open(void **self, struct part_host *host, struct error *error) {
    struct truths *t = *self = calloc(1, sizeof *t);
    if (!t)
        return error_no_memory(error);
    t->host = host;
    t->noted = !inputs_have_experts(host->model);
    return 0;
}

static int open_truths(struct truths *t, struct error *error) {
    const struct model *model = t->host->model;
    const struct output *output = &model->architecture.output;
    bool numbers = loss_kind(output->loss)->metrics & METRIC_RMSE && !model->heads[0].late;
    size_t steps = t->host->plan_steps, targets = model->heads[0].target_size;
    const struct truth_shape shape = {
        .slots = t->host->slots,
        .open = model->open,
        .horizons = model_ahead(model),
        .numbers = model->heads[0].scored,
        .columns = numbers ? targets : 0,
        .keeps = numbers,
        .targets = targets,
        .experts = t->host->forecasts * targets,
        .pair_notes = distributions_pair_notes(t->host),
        .step_notes = distributions_step_notes(t->host),
        .steps = steps,
        .scores = steps * model_ahead(model),
    };
    /* A prediction at each step, and a truth for each horizon. */
    t->moments = calloc(steps, (1 + model->horizons) * sizeof *t->moments);
    t->truths = calloc(steps, model->horizons * targets * sizeof *t->truths);
    t->again = calloc(model->outputs, sizeof *t->again);
    t->begins = calloc(shape.slots, sizeof *t->begins);
    if (!t->moments || !t->truths || !t->again || !t->begins)
        error_no_memory(error);
    else if (truth_open(&t->truth, &shape, error) == 0)
        return 0;
    release(t);
    return -1;
}

int truths_keep(struct part_host *host, bool wanted, struct error *error) {
    struct truths *t = part_find(host, &truths_part);
    if (symbols_measure(host, wanted))
        return 0;
    wanted |= !t->noted;
    if (!wanted || host->model->heads[0].late) /* without a prediction in numbers */
        release(t);
    else if (!t->truth && open_truths(t, error))
        return -1;
    parts_collect(host);
    return 0;
}

static bool truths_skips(const void *self, size_t member) {
    return (void)member, !((const struct truths *)self)->truth;
}

struct truth *truths_of(const struct part_host *host) {
    const struct truths *t = part_find(host, &truths_part);
    return t->truth;
}

bool truths_kept(const struct part_host *host) {
    return truths_of(host) != NULL;
}

struct truth_coverage truths_coverage(const struct part_host *host) {
    const struct truth *truth = truths_of(host);
    return truth ? truth_coverage(truth) : (struct truth_coverage){0};
}

static void truths_reset(void *self) {
    struct truths *t = self;
    truth_write_coverage(t->truth, &(struct truth_coverage){0});
}

static void truths_begin(void *self, uint32_t slot, enum part_begin when) {
    struct truths *t = self;
    t->begins[slot] = when == BEGIN_PLANNED;
    if (when == BEGIN_NOW)
        truth_begin(t->truth, slot);
}

/* ---- Planning ---- */

static void truths_stepped(void *self, const struct step *step) {
    struct truths *t = self;
    if (!t->noted)
        return;
    t->host->planned->planned_moments++;
    t->moments[t->moment_count++] =
        (struct moment){.slot = step->slot, .begins = t->begins[step->slot]};
    t->begins[step->slot] = false;
}

static void truths_target(void *self, const struct target_arrival *target) {
    struct truths *t = self;
    const struct model *model = t->host->model;
    size_t size = model->heads[0].target_size;
    double *truth = t->truths + t->truth_count++ * size;
    bool ids = loss_kind(model->architecture.output.loss)->class_id;
    for (size_t k = 0; k < size; k++) {
        union value value;
        memcpy(&value, (const char *)target->original + k * sizeof value, sizeof value);
        truth[k] = ids ? value.id : (double)value.real;
    }
    t->host->planned->planned_moments++;
    t->moments[t->moment_count++] = (struct moment){.slot = target->slot,
                                                    .age = target->age - 1,
                                                    .horizon = target->horizon,
                                                    .is_truth = true,
                                                    .learn = target->learn};
}

/* ---- After the plan has been played ---- */

static bool truths_needs_outputs(const void *self) {
    const struct truths *t = self;
    return truth_shape(t->truth)->keeps;
}

static void truths_resumed(void *self, struct planned *example) {
    const struct truths *t = self;
    if (example->begun)
        return;
    example->first_pair = truth_count(t->truth);
    example->first_bounds = truth_steps(t->truth);
}

struct truth_step truths_step(const struct part_host *host, const struct planned *example) {
    return (struct truth_step){.example = host->counters.examples + 1,
                               .time = example->time,
                               .step = example->given_steps};
}

/* Computes the prediction again from the output that was scored. */
static const double *predict_again(const struct truths *t, const struct learned *learned,
                                   size_t score) {
    const struct model *model = t->host->model;
    prediction_of_head(model, learned, 0,
                       t->host->members[0].results.scored + score * model->scored, t->again);
    return t->again;
}

static void record_truth(struct truths *t, const struct planned *example,
                         const struct learned *learned, const struct moment *moment, size_t score) {
    bool keeps = truth_shape(t->truth)->keeps;
    const struct truth_score target = {
        .loss = t->host->members[0].results.losses[score],
        .target = t->truths + t->truth_cursor++ * t->host->model->heads[0].target_size,
        .again = !keeps && example->outputs && !t->host->model->heads[0].late
                     ? predict_again(t, learned, score)
                     : NULL,
        .baseline = example->outputs ? baselines_prediction(t->host, score) : NULL,
        .horizon = moment->horizon,
        .learn = moment->learn,
        .report = example->outputs,
    };
    truth_add_target(t->truth, moment->slot, moment->age, &target);
}

static void truths_given(void *self, struct planned *example, const struct given *given) {
    struct truths *t = self;
    size_t score = given->first_score, predicted = 0;
    for (size_t n = 0; n < example->planned_moments; n++) {
        const struct moment *moment = &t->moments[t->cursor++];
        if (moment->is_truth) {
            while (t->host->model->heads[t->host->members[0].heads[score]].output)
                score++;
            record_truth(t, example, given->learned, moment, score++);
            continue;
        }
        const struct truth_step step = truths_step(t->host, example);
        if (moment->begins)
            truth_begin(t->truth, moment->slot);
        if (truth_shape(t->truth)->keeps)
            prediction_of(t->host->model, given->learned, predicted++, t->again);
        truth_add_prediction(t->truth, moment->slot, &step, t->again, NULL, example->outputs);
        example->given_steps++;
    }
}

static void truths_report(void *self, const struct planned *example, const struct given *given) {
    const struct truths *t = self;
    given->learned->truth = example->outputs ? t->truth : NULL;
    given->learned->first_pair = example->first_pair;
    given->learned->first_bounds = example->first_bounds;
}

/* Keeps the pairs of an unfinished example. */
static int truths_next(void *self, const struct planned *unfinished, size_t last,
                       struct error *error) {
    struct truths *t = self;
    (void)last;
    t->moment_count = t->truth_count = t->cursor = t->truth_cursor = 0;
    bool stays = unfinished && unfinished->outputs;
    size_t scores = stays ? unfinished->first_pair : truth_count(t->truth);
    size_t steps = stays ? unfinished->first_bounds : truth_steps(t->truth);
    if (truth_clear(t->truth, scores, steps) == 0)
        return 0;
    return error_set(error, EX_UNAVAILABLE, PART_NO_MEMORY, unfinished ? unfinished->steps : 0);
}

/* ---- Checkpoints ---- */

enum { COVERAGE = 4 };
_Static_assert(sizeof(struct truth_coverage) == COVERAGE * sizeof(double), "one row");

static struct truth *truth_at(const struct state_place *p) {
    return ((struct truths *)p->self)->truth;
}

static size_t coverage_size(const struct state_place *p) {
    return truth_at(p) != NULL;
}

static int read_coverage(const struct state_place *p, void *numbers, struct error *error) {
    const struct truth_coverage coverage = truth_coverage(truth_at(p));
    memcpy(numbers, &coverage, sizeof coverage);
    return (void)error, 0;
}

/* Earlier versions wrote a share above 1 by rounding. */
static const double coverage_rounding = 1e-9;

static int write_coverage(const struct state_place *p, const void *numbers, struct error *error) {
    struct truth_coverage c;
    memcpy(&c, numbers, sizeof c);
    if (c.recent_held > c.recent_weight &&
        c.recent_held <= c.recent_weight * (1 + coverage_rounding))
        c.recent_held = c.recent_weight;
    if (!(c.held >= 0 && c.numbers >= c.held && c.recent_held >= 0 &&
          c.recent_weight >= c.recent_held && isfinite(c.numbers + c.recent_weight)))
        return 1;
    truth_write_coverage(truth_at(p), &c);
    return (void)error, 0;
}

enum { PREDICTIONS, LEVELS, ERRORS };

static struct truth_state state_at(const struct state_place *p) {
    struct truth *truth = truth_at(p);
    return truth ? truth_state(truth, p->slot) : (struct truth_state){0};
}

static size_t state_size(const struct state_place *p) {
    const struct truth_state s = state_at(p);
    return p->row->which == PREDICTIONS ? s.predictions_size
           : p->row->which == LEVELS    ? s.levels_size
                                        : s.errors_size;
}

static void *numbers_at(const struct state_place *p, size_t n) {
    const struct truth_state s = state_at(p);
    return (void)n, p->row->which == PREDICTIONS ? (void *)s.predictions
                    : p->row->which == LEVELS    ? (void *)s.levels
                                                 : (void *)s.errors;
}

static const char *truths_valid(void *self, uint32_t slot) {
    const struct truths *t = self;
    return truth_valid(t->truth, slot) ? NULL : "streams.said";
}

static const char *truths_filled(void *self, uint32_t slot) {
    const struct truths *t = self;
    return truth_written(t->truth, slot) ? NULL : "streams.said";
}

#define TRUTH_ROW(name, type, which)                                                               \
    STATE_ROW(name, type, STATE_LATER | STATE_TRUTH, which, .size = state_size, .at = numbers_at)

static const struct state_row rows[] = {
    STATE_ROW("learner.coverage", F64, STATE_ONCE | STATE_LATER | STATE_TRUTH, .width = COVERAGE,
              .size = coverage_size, STATE_COPIED(coverage)),
    TRUTH_ROW("streams.said", F64, PREDICTIONS),
    TRUTH_ROW("streams.levels", F64, LEVELS),
    TRUTH_ROW("streams.errors", F32, ERRORS),
};

const struct part_kind truths_part = {
    .name = "truths",
    .skips = truths_skips,
    .open = truths_open,
    .close = truths_close,
    .reset = truths_reset,
    .begin = truths_begin,
    .stepped = truths_stepped,
    .target = truths_target,
    .needs_outputs = truths_needs_outputs,
    .resumed = truths_resumed,
    .given = truths_given,
    .report = truths_report,
    .next = truths_next,
    STATE_ROWS(rows),
    .valid = truths_valid,
    .filled = truths_filled,
};
