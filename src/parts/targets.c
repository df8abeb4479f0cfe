/* Targets of networks, of several only with preset: symbols: their source, their form for the
   network (scaled, and relative to a base), the steps that wait for them, and the errors of their
   scores.

   A step is open from its STEP until its target is known or known to be missing, and all earlier
   steps of its stream are closed. With `target: given` that is at once, with `target: next` when
   the stream's x so many steps later arrives, with `target: later` when its label arrives. A step
   is scored when its target arrives; scale and base of its prediction are kept until then. */
#include "targets.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/finite.h"
#include "common/unaligned.h"
#include "part.h"
#include "rows.h"
#include "scaling.h"

/* The state of an open step, in addition to the engine's. */
struct open_step {
    uint64_t producer, sequence; /* its example's */
    uint32_t epoch;              /* its example's */
    uint32_t steps;              /* its example's; 0: not numbered */
    uint32_t known;              /* 1: its target has arrived or is known to be missing */
    uint32_t terms;              /* its targets for learning */
    double time;                 /* time in its example's header, 0 = unknown */
    uint64_t classes;            /* classes known before its example, with a vocabulary */
};

/* Arrays by slot and place (model_place). */
struct targets {
    struct part_host *host;
    const struct model *model;
    const struct output *output;
    const struct loss_kind *loss;
    struct scaler *scaler; /* the targets' scaler; NULL: not scaled */
    bool relative;
    size_t size, places;     /* numbers in a target */
    struct open_step *opens; /* (slots, places) */
    /* (slots, places, 2, size) mean and deviation of an open step's prediction; NULL: not
       scaled. */
    double *scales;
    /* (slots, places, size) bases of relative targets; also with target: next and several open
       steps; otherwise NULL. */
    float *bases;
    /* (slots, size) the last observed target, NaN = none; NULL unless sent targets are relative to
       it. */
    float *lasts;
    /* (scores, 2, size) offset and deviation of each score: offset + deviation a is the error of
       output a. The offset is the prediction for a = 0 less the target, NaN without either; NULL:
       not scaled. */
    double *score_scales;
    float *step_bases; /* (plan_steps, size) of each step with relative targets; or NULL */
    double *errors;    /* (size,) of the newest score, if targets are numbers */
    bool ranks;        /* counts correct classes; with preset: symbols that part does it */
    struct gathered gathered;
};

/* Returns mean or deviation (size,) for the predictions of the example in this row of the plan;
   NULL: not scaled. */
static const double *scale_row(const struct targets *targets, size_t row, bool deviation) {
    return !targets->scaler                     ? NULL
           : targets_are_inputs(targets->model) ? scaling_row(targets->host, row, deviation)
                                                : scaling_target_row(targets->host, row, deviation);
}

/* ---- Memory ---- */

static bool targets_wanted(const struct part_host *host) {
    return !inputs_have_experts(host->model) && host->member_count;
}

static int targets_open(void **self, struct part_host *host, struct error *error) {
    const struct model *model = host->model;
    bool next = targets_are_inputs(model);
    struct targets *t = *self = calloc(1, sizeof *t);
    if (!t)
        return error_no_memory(error);
    t->host = host;
    t->model = model;
    t->output = &model->architecture.output;
    t->loss = loss_kind(t->output->loss);
    t->ranks = t->loss->class_id && host->config->preset != PRESET_SYMBOLS;
    t->scaler = next ? scaling_scaler(host) : scaling_target_scaler(host);
    t->relative = t->output->relative == RELATIVE_TRUE;
    t->size = model->target_size;
    t->places = model_places(model, host->window);
    size_t rows = host->slots * t->places;
    bool lasts = t->relative && !next;
    bool bases = t->relative || (next && !t->loss->class_id && model->open > 1);
    t->opens = calloc(rows, sizeof *t->opens);
    t->errors = calloc(t->size, sizeof *t->errors);
    if (t->scaler)
        t->scales = calloc(rows, 2 * t->size * sizeof *t->scales);
    if (bases)
        t->bases = calloc(rows, t->size * sizeof *t->bases);
    if (lasts)
        t->lasts = calloc(host->slots, t->size * sizeof *t->lasts);
    return t->opens && t->errors && (!t->scaler || t->scales) && (!bases || t->bases) &&
                   (!lasts || t->lasts)
               ? 0
               : error_no_memory(error);
}

static bool targets_skips(const void *self, size_t member) {
    const struct targets *t = self;
    return member == (targets_are_inputs(t->model) ? PART_MEMBER(settled) : PART_MEMBER(score));
}

static bool targets_plan_open(void *self) {
    struct targets *t = self;
    size_t steps = t->host->plan_steps;
    if (t->scaler)
        t->score_scales = calloc(steps * t->model->horizons, 2 * t->size * sizeof(double));
    if (t->relative)
        t->step_bases = calloc(steps, t->size * sizeof *t->step_bases);
    return (!t->scaler || t->score_scales) && (!t->relative || t->step_bases);
}

static void targets_close(void *self) {
    struct targets *t = self;
    free(t->opens);
    free(t->scales);
    free(t->bases);
    free(t->lasts);
    free(t->score_scales);
    free(t->step_bases);
    free(t->errors);
    free(t->gathered.rows);
    free(t);
}

static float *last_of(const struct targets *t, uint32_t slot) {
    return t->lasts ? t->lasts + slot * t->size : NULL;
}

static double *scale_of(const struct targets *t, uint32_t slot, size_t place) {
    return t->scales ? t->scales + (slot * t->places + place) * 2 * t->size : NULL;
}

static float *base_of(const struct targets *t, uint32_t slot, size_t place) {
    return t->bases ? t->bases + (slot * t->places + place) * t->size : NULL;
}

static struct open_step *open_of(const struct targets *t, uint32_t slot, size_t place) {
    return t->opens + slot * t->places + place;
}

double *targets_scale(const struct part_host *host, uint32_t slot, size_t place) {
    const struct targets *t = part_find(host, &targets_part);
    return t ? scale_of(t, slot, place) : NULL;
}

static void targets_begin(void *self, uint32_t slot, enum part_begin when) {
    const struct targets *t = self;
    float *last = last_of(t, slot);
    (void)when;
    for (size_t k = 0; last && k < t->size; k++)
        last[k] = NAN;
}

/* ---- Open steps ---- */

static struct member *network_of(const struct targets *t) {
    return &t->host->members[0];
}

static const struct learner_window *window_of(const struct targets *t, uint32_t slot) {
    return &network_of(t)->windows[slot];
}

/* Returns the place of the open step of that age. */
static size_t place_of(const struct targets *t, uint32_t slot, size_t age) {
    return t->places > 1 ? plan_position(network_of(t), slot, age) : 0;
}

static struct open_step *step_of_age(const struct targets *t, uint32_t slot, size_t age) {
    return open_of(t, slot, place_of(t, slot, age));
}

/* Computes the base of this step's targets: the step's own x, or the last target, as scaled. */
static void fill_base(const struct targets *t, const struct step *step, float *base) {
    const float *last = last_of(t, step->slot);
    const double *means = scale_row(t, t->host->row, false);
    const double *deviations = scale_row(t, t->host->row, true);
    for (size_t k = 0; k < t->size; k++) {
        if (!last)
            base[k] = step->seen[k].real;
        else if (isnan(last[k]))
            base[k] = 0;
        else
            base[k] = t->scaler ? scaler_scale_with(t->scaler, k, means[k], deviations[k], last[k])
                                : last[k];
    }
}

/* Stores scale and base for the step's targets. */
static void targets_stepped(void *self, const struct step *step) {
    struct targets *t = self;
    const struct example *example = step->example;
    size_t place = place_of(t, step->slot, 1), size = t->size, row = t->host->row;
    double *scale = scale_of(t, step->slot, place);
    float *base = base_of(t, step->slot, place);
    *open_of(t, step->slot, place) = (struct open_step){
        .producer = example->producer,
        .sequence = example->sequence,
        .epoch = example->epoch,
        .steps = example->numbered ? (uint32_t)example->steps : 0,
        .time = example->time,
        .classes = t->host->appeared,
    };
    if (scale) {
        memcpy(scale, scale_row(t, row, false), size * sizeof *scale);
        memcpy(scale + size, scale_row(t, row, true), size * sizeof *scale);
    }
    if (base)
        fill_base(t, step, base);
    if (t->step_bases)
        memcpy(t->step_bases + step->number * size, base, size * sizeof *base);
}

static void close_oldest(const struct targets *t, uint32_t slot) {
    struct part_host *host = t->host;
    size_t terms = step_of_age(t, slot, window_of(t, slot)->open)->terms;
    for (size_t m = 0; m < host->member_count; m++)
        if (host->members[m].windows[slot].open) /* 0: started again */
            plan_close(&host->members[m], slot, terms, &host->planned->planned_updates[m]);
}

/* Closes the oldest steps while their targets are known: one target can cause many updates. */
static int close_known(const struct targets *t, uint32_t slot, struct error *error) {
    const struct learner_window *window = window_of(t, slot);
    while (window->open && step_of_age(t, slot, window->open)->known) {
        if (t->host->make_room(t->host, error))
            return -1;
        close_oldest(t, slot);
    }
    return 0;
}

/* ---- Scores ---- */

/* Returns whether some of the target is observed. */
static bool is_observed(const struct targets *t, const union value *target) {
    if (t->loss->class_id)
        return target->id != WIRE_NO_CLASS;
    for (size_t k = t->loss->together; k < t->size; k++)
        if (!isnan(target[k].real))
            return true;
    for (size_t k = 0; k < t->loss->together; k++)
        if (isnan(target[k].real))
            return false;
    return t->loss->together > 0;
}

/* Stores offset and deviation that convert the network's output to the error in original units; `y`
   as received. */
static void keep_score_scale(struct targets *t, const double *scale, const float *base,
                             const void *y) {
    size_t size = t->size;
    double *offsets = t->score_scales + network_of(t)->plan.scores * 2 * size;
    for (size_t k = 0; k < size; k++) {
        float value = unaligned_float(y, k);
        offsets[k] = scale[k] - value;
        if (t->relative)
            offsets[k] += scale[size + k] * base[k];
    }
    memcpy(offsets + size, scale + size, size * sizeof *scale);
}

static union value *next_target(const struct targets *t) {
    const struct plan *plan = &network_of(t)->plan;
    return plan->targets + plan->rows * t->size;
}

/* Scores the open step of that age: `y` is its target as received, the next row of targets as
   scaled. */
static void score(struct targets *t, uint32_t slot, size_t age, size_t horizon, const void *y,
                  bool learn) {
    struct open_step *open = step_of_age(t, slot, age);
    size_t place = place_of(t, slot, age);
    const struct target_arrival come = {
        .slot = slot,
        .age = age,
        .horizon = horizon,
        .value = next_target(t),
        .original = y,
        .learn = learn,
        .classes = open->classes,
        .scale = scale_of(t, slot, place),
        .scaler = t->scaler,
        .base = base_of(t, slot, place),
    };
    if (!is_observed(t, come.value))
        return;
    if (come.scale)
        keep_score_scale(t, come.scale, come.base, y);
    part_target(t->host, &come);
    for (size_t k = 0; t->relative && k < t->size; k++)
        come.value[k].real = finite_float((double)(come.value[k].real - come.base[k]));
    for (size_t m = 0; m < t->host->member_count; m++) {
        struct member *member = &t->host->members[m];
        union value *row = member->plan.targets + member->plan.rows * t->size;
        if (member->windows[slot].open < age)
            continue;
        if (row != come.value)
            memcpy(row, come.value, t->size * sizeof *row);
        plan_score(member, slot, age, horizon, learn);
    }
    open->terms += learn;
    t->host->planned->planned_scores++;
}

/* ---- target: next ---- */

/* Returns the targets in x: an unobserved value is not a target, even if it is held. */
static void fill_next(const struct targets *t, const struct step *step, union value *target) {
    memcpy(target, step->seen, t->size * sizeof *target);
    for (size_t k = 0; !t->loss->class_id && k < t->size; k++) {
        float value = unaligned_float(step->original, k);
        if (isnan(value))
            target[k].real = value;
    }
}

static void targets_score(void *self, struct step *step) {
    struct targets *t = self;
    const struct learner_window *window = window_of(t, step->slot);
    bool full = false;
    for (size_t m = 0; m < t->host->member_count; m++) {
        const struct member *member = &t->host->members[m];
        memmove(member->plan.inputs + member->plan.steps * t->model->features, step->input,
                t->model->features * sizeof *step->input);
        full |= member->windows[step->slot].open == t->model->open;
    }
    for (size_t h = 0; h < t->model->horizons; h++) {
        size_t age = output_ahead(t->output, h);
        if (age > window->open)
            break;
        fill_next(t, step, next_target(t));
        score(t, step->slot, age, h, step->original, step->example->learn);
    }
    if (full)
        close_oldest(t, step->slot);
}

/* ---- Given and later targets ---- */

/* Scores a step with a sent y, and keeps the observed numbers. */
static void score_sent(struct targets *t, uint32_t slot, size_t age, const void *y, bool learn) {
    union value *target = next_target(t);
    float *last = last_of(t, slot);
    memcpy(target, y, t->size * sizeof *target);
    for (size_t k = 0; t->scaler && k < t->size; k++)
        if (!isnan(target[k].real))
            target[k].real = scaler_scale(t->scaler, k, target[k].real);
    score(t, slot, age, 0, y, learn);
    for (size_t k = 0; last && k < t->size; k++) {
        float value = unaligned_float(y, k);
        if (!isnan(value))
            last[k] = value;
    }
}

/* given: the target is there; later: the oldest of too many open steps is closed without one. */
static int targets_settled(void *self, const struct step *step, struct error *error) {
    struct targets *t = self;
    const struct example *example = step->example;
    const struct learner_window *window = window_of(t, step->slot);
    if (targets_are_given(t->model)) {
        if (example->y)
            score_sent(t, step->slot, 1, unaligned_at(example->y, step->t * t->size),
                       example->learn);
        close_oldest(t, step->slot);
    }
    if (!targets_are_labels(t->model) || window->open <= t->output->patience)
        return 0;
    step_of_age(t, step->slot, window->open)->known = 1;
    return close_known(t, step->slot, error);
}

/* ---- Labels ---- */

enum { WHY_SIZE = 192 };

const char *targets_label_refusal(enum label_refusal why) {
    static const char *const names[] = {
        [LABEL_UNKNOWN] = "unknown",
        [LABEL_LABELLED] = "labelled",
        [LABEL_CLOSED] = "closed",
        [LABEL_SIZE] = "size",
    };
    return names[why];
}

static void explain_refusal(const struct example *label, enum label_refusal reason, size_t steps,
                            char why[WHY_SIZE]) {
    uint64_t of = label->label_sequence;
    switch (reason) {
    case LABEL_UNKNOWN:
        snprintf(why, WHY_SIZE,
                 "no open step of the example %" PRIu64 " of epoch %" PRIu32
                 " in its stream: not received, already labelled, or closed by "
                 "model.output.patience or the end of its sequence",
                 of, label->label_epoch);
        return;
    case LABEL_LABELLED:
        snprintf(why, WHY_SIZE, "the example %" PRIu64 " is already labelled", of);
        return;
    case LABEL_CLOSED:
        snprintf(why, WHY_SIZE,
                 "the first steps of the example %" PRIu64 " are already closed by "
                 "model.output.patience",
                 of);
        return;
    default:
        snprintf(why, WHY_SIZE,
                 "the label has %zu targets, but the example %" PRIu64 " has %zu steps",
                 label->steps, of, steps);
    }
}

static void refuse(const struct learner_observer *observer, const struct example *label,
                   enum label_refusal reason, size_t steps) {
    char why[WHY_SIZE];
    if (!observer->refused)
        return;
    explain_refusal(label, reason, steps, why);
    observer->refused(observer->context, label, reason, why);
}

static bool is_of(const struct open_step *open, const struct example *label) {
    return open->steps && open->sequence == label->label_sequence &&
           open->epoch == label->label_epoch && open->producer == label->producer;
}

/* Returns the age of the first open step of the label's example; 0: the label is refused. */
static size_t find_labelled(const struct targets *t, uint32_t slot, const struct example *label) {
    size_t open = slot == STREAMS_NONE ? 0 : window_of(t, slot)->open;
    size_t first = 0, count = 0, steps = 0;
    bool known = false;
    for (size_t age = open; age > 0; age--) {
        const struct open_step *step = step_of_age(t, slot, age);
        if (!is_of(step, label))
            continue;
        first = count ? first : age;
        steps = step->steps;
        known |= step->known;
        count++;
    }
    if (count == label->steps && count == steps && !known)
        return first;
    refuse(&t->host->observer, label,
           count == 0      ? LABEL_UNKNOWN
           : known         ? LABEL_LABELLED
           : count < steps ? LABEL_CLOSED
                           : LABEL_SIZE,
           steps);
    return 0;
}

static int take_targets(struct targets *t, uint32_t slot, size_t age, const struct example *label,
                        struct error *error) {
    for (size_t n = 0; t->scaler && n < label->steps; n++)
        scaler_add(t->scaler, unaligned_at(label->y, n * t->size));
    for (size_t n = 0; n < label->steps; n++) {
        if (t->host->make_room(t->host, error))
            return -1;
        score_sent(t, slot, age - n, unaligned_at(label->y, n * t->size), label->learn);
        step_of_age(t, slot, age - n)->known = 1;
    }
    return close_known(t, slot, error);
}

static int targets_label(void *self, const struct example *label, struct error *error) {
    struct targets *t = self;
    const struct learner_observer *observer = &t->host->observer;
    uint32_t slot = t->host->planned->slot;
    size_t age = find_labelled(t, slot, label);
    if (age == 0)
        return 0;
    if (observer->labelled)
        observer->labelled(observer->context, label, age - label->steps,
                           step_of_age(t, slot, age)->time);
    streams_touch(t->host->streams, slot);
    t->host->mark(t->host, slot);
    return take_targets(t, slot, age, label, error);
}

/* The sequence ends: its open steps get no targets. */
static int targets_end(void *self, uint32_t slot, struct error *error) {
    struct targets *t = self;
    const struct learner_window *window = window_of(t, slot);
    if (!targets_are_labels(t->model))
        return 0;
    for (size_t age = 1; age <= window->open; age++)
        step_of_age(t, slot, age)->known = 1;
    return close_known(t, slot, error) || t->host->make_room(t->host, error) ? -1 : 0;
}

/* ---- Errors of scores ---- */

/* Adds over observed numbers (prediction - y)^2 in original units; if scaled, with the scale of the
   prediction. */
static void add_errors(struct targets *t, struct planned *example, struct scored *score) {
    const double *offsets = t->scaler ? t->score_scales + score->number * 2 * t->size : NULL;
    struct column_error *columns = t->host->errors.columns;
    double sum = example->squared_error;
    for (size_t k = 0; k < t->size; k++) {
        t->errors[k] = NAN;
        if (offsets ? isnan(offsets[k]) : isnan(score->target[k].real))
            continue;
        double difference = offsets ? offsets[k] + offsets[t->size + k] * score->output[k]
                                    : (double)score->output[k] - score->target[k].real;
        sum += difference * difference;
        example->observed++;
        column_error_add(&columns[k], difference, score->of_baseline[k]);
        t->errors[k] = difference;
    }
    example->squared_error = sum;
    score->errors = t->errors;
}

/* Counts numbers on the target's side of 1/2: s(a) >= 1/2 if a >= 0. */
static void add_sides(const struct targets *t, struct planned *example,
                      const struct scored *score) {
    for (size_t k = 0; k < t->size; k++) {
        if (isnan(score->target[k].real))
            continue;
        example->correct += (score->output[k] >= 0) == (score->target[k].real >= 0.5f);
        example->observed++;
    }
}

static void add_class(const struct targets *t, struct planned *example,
                      const struct scored *score) {
    size_t best = 0;
    for (size_t k = 1; k < t->model->scored; k++)
        if (score->output[k] > score->output[best])
            best = k;
    example->correct += best == score->target->id;
    example->observed++;
}

static void targets_scored(void *self, struct planned *example, struct scored *score) {
    struct targets *t = self;
    if (t->loss->metrics & METRIC_RMSE)
        add_errors(t, example, score);
    if (t->ranks)
        add_class(t, example, score);
    else if (!t->loss->class_id && t->loss->metrics & METRIC_ACCURACY)
        add_sides(t, example, score);
}

/* ---- Outputs ---- */

/* Adds the bases of relative targets to the levels, which are the first parts of a prediction. */
static void add_bases(const struct targets *t, const struct planned *example, size_t first_step) {
    float *all = network_of(t)->results.outputs;
    for (size_t n = first_step; n < first_step + example->planned_steps; n++)
        for (size_t h = 0; h < t->model->horizons; h++)
            for (size_t k = 0; k < t->size; k++)
                all[n * t->model->outputs + h * t->model->scored + k] +=
                    t->step_bases[n * t->size + k];
}

static void targets_given(void *self, struct planned *example, const struct given *given) {
    const struct targets *t = self;
    const struct member *network = network_of(t);
    if (network->plan.outputs && t->step_bases)
        add_bases(t, example, given->first_step);
    given->learned->target_mean = scale_row(t, given->row, false);
    given->learned->target_deviation = scale_row(t, given->row, true);
    given->learned->outputs = network->results.outputs + given->first_step * t->model->outputs;
}

static int targets_gather(void *self, const struct planned *example, size_t first_step,
                          struct error *error) {
    struct targets *t = self;
    size_t outputs = t->model->outputs;
    return parts_gather(&t->gathered, example,
                        network_of(t)->results.outputs + first_step * outputs,
                        outputs * sizeof(float), error);
}

static void targets_report(void *self, const struct planned *example, const struct given *given) {
    const struct targets *t = self;
    if (!example->outputs)
        given->learned->outputs = NULL;
    else if (example->gathered_steps)
        given->learned->outputs = t->gathered.rows;
}

/* ---- Checkpoints ---- */

/* With given targets, no step is open between plans. */
static size_t if_waits(const struct state_place *p, size_t size) {
    return targets_are_given(((struct targets *)p->self)->model) ? 0 : size;
}

static size_t scales_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return t->scales ? if_waits(p, t->places * 2 * t->size) : 0;
}

static void *scales_at(const struct state_place *p, size_t n) {
    return (void)n, scale_of(p->self, p->slot, 0);
}

static size_t bases_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return t->bases ? if_waits(p, t->places * t->size) : 0;
}

static void *bases_at(const struct state_place *p, size_t n) {
    return (void)n, base_of(p->self, p->slot, 0);
}

static size_t lasts_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return t->lasts ? t->size : 0;
}

static void *lasts_at(const struct state_place *p, size_t n) {
    return (void)n, last_of(p->self, p->slot);
}

enum { OPEN = 6 };

static size_t open_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return t->model->open > 1 ? t->places * OPEN : 0;
}

static int read_open(const struct state_place *p, void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++) {
        const struct open_step *open = open_of(t, p->slot, place);
        const int64_t row[OPEN] = {(int64_t)open->producer,
                                   (int64_t)open->sequence,
                                   open->epoch,
                                   open->steps,
                                   open->known,
                                   open->terms};
        memcpy((int64_t *)numbers + place * OPEN, row, sizeof row);
    }
    return (void)error, 0;
}

static int write_open(const struct state_place *p, const void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++) {
        int64_t n[OPEN];
        memcpy(n, (const int64_t *)numbers + place * OPEN, sizeof n);
        *open_of(t, p->slot, place) = (struct open_step){.producer = (uint64_t)n[0],
                                                         .sequence = (uint64_t)n[1],
                                                         .epoch = (uint32_t)n[2],
                                                         .steps = (uint32_t)n[3],
                                                         .known = (uint32_t)n[4],
                                                         .terms = (uint32_t)n[5]};
        for (size_t k = 2; k < OPEN; k++)
            if (n[k] < 0 || n[k] > UINT32_MAX)
                return 1;
        if (n[4] > 1)
            return 1;
    }
    return (void)error, 0;
}

static size_t times_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return targets_are_labels(t->model) ? t->places : 0;
}

static int read_times(const struct state_place *p, void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++)
        memcpy((double *)numbers + place, &open_of(t, p->slot, place)->time, sizeof(double));
    return (void)error, 0;
}

static int write_times(const struct state_place *p, const void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++)
        memcpy(&open_of(t, p->slot, place)->time, (const double *)numbers + place, sizeof(double));
    return (void)error, !finite_within(numbers, t->places, DBL_MAX);
}

static size_t classes_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return t->host->known_classes != SIZE_MAX ? if_waits(p, t->places) : 0;
}

static int read_classes(const struct state_place *p, void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++)
        memcpy((uint64_t *)numbers + place, &open_of(t, p->slot, place)->classes, sizeof(uint64_t));
    return (void)error, 0;
}

static int write_classes(const struct state_place *p, const void *numbers, struct error *error) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++) {
        uint64_t *classes = &open_of(t, p->slot, place)->classes;
        memcpy(classes, (const uint64_t *)numbers + place, sizeof *classes);
        if (*classes > t->host->appeared)
            return 1;
    }
    return (void)error, 0;
}

/* All classes of the file count as known before these steps. */
static void classes_lacked(const struct state_place *p) {
    const struct targets *t = p->self;
    for (size_t place = 0; place < t->places; place++)
        open_of(t, p->slot, place)->classes = t->host->appeared;
}

static const struct state_row rows[] = {
    STATE_ROW("streams.scales", F64, STATE_WINDOW, .size = scales_size, .at = scales_at),
    STATE_ROW("streams.bases", F32, STATE_WINDOW, .size = bases_size, .at = bases_at),
    STATE_ROW("streams.lasts", F32, 0, .size = lasts_size, .at = lasts_at),
    STATE_ROW("streams.open", I64, STATE_WINDOW, .size = open_size, STATE_COPIED(open)),
    STATE_ROW("streams.open_times", F64, STATE_LATER | STATE_WINDOW, .size = times_size,
              STATE_COPIED(times)),
    STATE_ROW("streams.open_classes", I64, STATE_LATER | STATE_WINDOW, .size = classes_size,
              STATE_COPIED(classes), .lacked = classes_lacked),
};

static bool has_infinite(const float *values, size_t count) {
    for (size_t k = 0; values && k < count; k++)
        if (isinf(values[k]))
            return true;
    return false;
}

/* Checks (places, 2, size) means and deviations: a mean is NaN before an observation. */
static bool scales_valid(const double *scales, size_t places, size_t size) {
    bool valid = true;
    for (size_t n = 0; scales && n < places; n++, scales += 2 * size) {
        valid &= finite_or_nan(scales, size, FINITE_VALUE_MOST) &&
                 finite_within(scales + size, size, FINITE_VALUE_MOST);
        for (size_t k = size; k < 2 * size; k++)
            valid &= scales[k] >= 0;
    }
    return valid;
}

static const char *targets_valid(void *self, uint32_t slot) {
    const struct targets *t = self;
    return has_infinite(base_of(t, slot, 0), t->places * t->size)    ? "streams.bases"
           : has_infinite(last_of(t, slot), t->size)                 ? "streams.lasts"
           : !scales_valid(scale_of(t, slot, 0), t->places, t->size) ? "streams.scales"
                                                                     : NULL;
}

bool targets_window_valid(const struct model *model, const struct member *member,
                          const struct learner_window *window) {
    size_t least = targets_are_inputs(model),
           most = targets_are_given(model) ? 0 : member->model->open;
    bool begun = !window->next && !window->length && !window->closed && !window->terms;
    /* no step since a member's reset, or since windows started from scratch */
    if (begun && !window->open)
        return true;
    return window->next < model_ring(member->model, member->window) &&
           window->length <= member->window && window->closed <= window->length &&
           window->closed < member->stride &&
           window->terms <= window->closed * member->model->horizons && window->open >= least &&
           window->open <= most;
}

bool targets_terms_fit(const struct part_host *host, uint32_t slot, size_t position, size_t terms) {
    const struct targets *t = part_find(host, &targets_part);
    return !t || t->model->open <= 1 || open_of(t, slot, position)->terms == terms;
}

const struct part_kind targets_part = {
    .name = "targets",
    .wanted = targets_wanted,
    .skips = targets_skips,
    .open = targets_open,
    .close = targets_close,
    .plan_open = targets_plan_open,
    .begin = targets_begin,
    .score = targets_score,
    .stepped = targets_stepped,
    .settled = targets_settled,
    .label = targets_label,
    .end = targets_end,
    .scored = targets_scored,
    .given = targets_given,
    .gather = targets_gather,
    .report = targets_report,
    STATE_ROWS(rows),
    .valid = targets_valid,
};
