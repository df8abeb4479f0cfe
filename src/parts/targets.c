/* Targets of networks, of several only with preset: symbols: their source, their form for the
   network (scaled, and relative to a base), the steps that wait for them, and the errors of their
   scores.

   A step is open from its STEP until its target is known or known to be missing, and all earlier
   steps of its stream are closed. With `target: given`, `previous` and `same` that is at once, with
   `target: next` when the stream's x so many steps later arrives, with `target: later` when its
   label arrives. A step is scored when its target arrives; scale and base of its prediction are
   kept until then. With a list of outputs a step has a target of each: it closes when all of them
   are known. */
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
#include "words.h"

/* The state of an open step, in addition to the engine's. */
struct open_step {
    uint64_t producer, sequence; /* its example's */
    uint32_t epoch;              /* its example's */
    uint32_t steps;              /* its example's; 0: not numbered */
    uint32_t known;              /* 1: its label has arrived or is known to be missing */
    uint32_t terms;              /* its targets for learning; of a list 1 if it has some */
    double time;                 /* time in its example's header, 0 = unknown */
    uint64_t classes;            /* classes known before its example, with a vocabulary */
};

/* A head of the model, or of a list of outputs. */
struct head {
    const struct output *output;
    bool scaled, classes;
    size_t together; /* first numbers of its target that are learned only together */
};

/* Arrays by slot and place (model_place). */
struct targets {
    struct part_host *host;
    const struct model *model;
    const struct output *output; /* the first; the others have no ahead and relative */
    const struct loss_kind *loss;
    struct scaler *scaler; /* the targets' scaler; NULL: not scaled */
    bool relative;
    struct head heads[AHEAD_MAX];
    bool at_once; /* targets of some output are known with the step's x */
    /* Whether targets of some output are in x, and the stream's later x is waited for; whether
       labels are; and the head whose target is sent, if one is. */
    bool in_x, next, labels;
    size_t sent, sent_size;  /* its numbers in y */
    size_t size, places;     /* numbers in a target that can be scaled or relative */
    size_t row;              /* numbers in a row of targets, the most of a head */
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
    /* (slots, row) the stream's last x as received, as a target; a message as the network's row of
       inputs. Before the first one NaN, which is also WIRE_NO_CLASS, or a count of 0. NULL: no
       target is `previous`. */
    union value *before;
    /* (scores, 2, size) offset and deviation of each score: offset + deviation a is the error of
       output a. The offset is the prediction for a = 0 less the target, NaN without either; NULL:
       not scaled. */
    double *score_scales;
    float *step_bases; /* (plan_steps, size) of each step with relative targets; or NULL */
    double *errors;    /* (row,) of the newest score, if targets are numbers */
    bool ranks;        /* counts correct classes; with preset: symbols that part does it */
    struct gathered gathered;
};

/* Returns mean or deviation (size,) for the predictions of the example in this row of the plan;
   NULL: not scaled. */
static const double *scale_row(const struct targets *targets, size_t row, bool deviation) {
    return !targets->scaler ? NULL
           : targets->in_x  ? scaling_row(targets->host, row, deviation)
                            : scaling_target_row(targets->host, row, deviation);
}

static const struct output *output_of(const struct targets *t, size_t head) {
    return t->heads[head].output;
}

static size_t numbers_of(const struct targets *t, size_t head) {
    return t->model->heads[head].target_size;
}

static bool has_sent(const struct targets *t) {
    return t->sent <= t->model->architecture.other_count;
}

/* Numbers in what is kept of an x as a target. */
static size_t kept_of_x(const struct targets *t) {
    return numbers_of(t, model_output_with(t->model, true));
}

/* ---- Memory ---- */

static bool targets_wanted(const struct part_host *host) {
    return !inputs_have_experts(host->model) && host->member_count;
}

static int targets_open(void **self, struct part_host *host, struct error *error) {
    const struct model *model = host->model;
    struct targets *t = *self = calloc(1, sizeof *t);
    if (!t)
        return error_no_memory(error);
    t->host = host;
    t->model = model;
    t->output = &model->architecture.output;
    t->loss = loss_kind(t->output->loss);
    t->in_x = model_has_output(model, true);
    t->next = model_waits_for_x(model);
    t->labels = model_waits_for_labels(model);
    t->sent = model_output_with(model, false);
    t->ranks = t->loss->class_id && host->config->preset != PRESET_SYMBOLS;
    t->scaler = !t->in_x                                       ? scaling_target_scaler(host)
                : input_is_message(&model->architecture.input) ? NULL
                                                               : scaling_scaler(host);
    t->relative = t->output->relative == RELATIVE_TRUE;
    size_t scaled = t->in_x ? model_output_with(model, true) : 0;
    t->size = model->heads[scaled].target_size;
    for (size_t h = 0; h < model->horizons; h++) {
        const struct output *output = model_output(model, model->heads[h].output);
        t->heads[h] = (struct head){
            output, t->scaler && model_scales(model, h), output_has_classes(output),
            output_ranks(output) ? model->heads[h].target_size : loss_kind(output->loss)->together};
    }
    t->row = model->target_size;
    t->sent_size = model->y_size;
    t->places = model_places(model, host->window);
    size_t rows = host->slots * t->places;
    bool lasts = t->relative && !t->in_x, before = model_has_target(model, TARGET_PREVIOUS);
    t->at_once = before || model_has_target(model, TARGET_SAME);
    bool bases =
        t->relative || (targets_are_inputs(model) && !t->loss->class_id && model->open > 1);
    t->opens = calloc(rows, sizeof *t->opens);
    t->errors = calloc(t->row, sizeof *t->errors);
    if (t->scaler)
        t->scales = calloc(rows, 2 * t->size * sizeof *t->scales);
    if (bases)
        t->bases = calloc(rows, t->size * sizeof *t->bases);
    if (lasts)
        t->lasts = calloc(host->slots, t->size * sizeof *t->lasts);
    if (before)
        t->before = calloc(host->slots, t->row * sizeof *t->before);
    return t->opens && t->errors && (!t->scaler || t->scales) && (!bases || t->bases) &&
                   (!lasts || t->lasts) && (!before || t->before)
               ? 0
               : error_no_memory(error);
}

static bool targets_skips(const void *self, size_t member) {
    const struct targets *t = self;
    return member == PART_MEMBER(settled) ? t->next && !has_sent(t)
                                          : member == PART_MEMBER(score) && !t->next;
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
    free(t->before);
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

static union value *before_of(const struct targets *t, uint32_t slot) {
    return t->before ? t->before + slot * t->row : NULL;
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
    int none = input_is_message(&t->model->architecture.input) ? 0 : UINT8_MAX;
    (void)when;
    if (t->before)
        memset(before_of(t, slot), none, t->row * sizeof *t->before);
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
static void keep_step(struct targets *t, const struct step *step) {
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

/* Closes the oldest steps while their targets are known: one target can cause many updates. The
   newest step still waits for the next x, if one is a target. */
static int close_known(const struct targets *t, uint32_t slot, struct error *error) {
    const struct learner_window *window = window_of(t, slot);
    while (window->open > t->next && step_of_age(t, slot, window->open)->known) {
        if (t->host->make_room(t->host, error))
            return -1;
        close_oldest(t, slot);
    }
    return 0;
}

/* ---- Scores ---- */

/* Returns whether some of the head's target is observed; a message has atoms, and a candidate all
   of its numbers. */
static bool is_observed(const struct targets *t, size_t head, const union value *target) {
    size_t size = numbers_of(t, head), together = t->heads[head].together;
    if (output_is_message(output_of(t, head)))
        return target->id > 0;
    if (t->heads[head].classes)
        return target->id != WIRE_NO_CLASS;
    for (size_t k = together; k < size; k++)
        if (!isnan(target[k].real))
            return true;
    for (size_t k = 0; k < together; k++)
        if (isnan(target[k].real))
            return false;
    return together > 0;
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
    return plan->targets + plan->rows * t->row;
}

/* Scores the open step of that age at a horizon, or an output of a list: `y` is its target as
   received, the next row of targets as scaled. */
static void score(struct targets *t, uint32_t slot, size_t age, size_t horizon, const void *y,
                  bool learn) {
    struct open_step *open = step_of_age(t, slot, age);
    size_t place = place_of(t, slot, age);
    bool first = t->model->heads[horizon].output == 0, scaled = t->heads[horizon].scaled;
    const struct target_arrival come = {
        .slot = slot,
        .age = age,
        .horizon = horizon,
        .value = next_target(t),
        .original = y,
        .learn = learn,
        .classes = open->classes,
        .scale = scaled ? scale_of(t, slot, place) : NULL,
        .scaler = scaled ? t->scaler : NULL,
        .base = base_of(t, slot, place),
    };
    if (!is_observed(t, horizon, come.value))
        return;
    if (come.scale)
        keep_score_scale(t, come.scale, come.base, y);
    if (first)
        part_target(t->host, &come);
    else
        words_target(t->host, &come);
    for (size_t k = 0; t->relative && k < t->size; k++)
        come.value[k].real = finite_float((double)(come.value[k].real - come.base[k]));
    for (size_t m = 0; m < t->host->member_count; m++) {
        struct member *member = &t->host->members[m];
        union value *row = member->plan.targets + member->plan.rows * t->row;
        if (member->windows[slot].open < age)
            continue;
        if (row != come.value)
            memcpy(row, come.value, t->row * sizeof *row);
        plan_score(member, slot, age, horizon, learn);
    }
    open->terms = t->model->architecture.other_count ? open->terms | learn : open->terms + learn;
    t->host->planned->planned_scores++;
}

/* ---- Targets in x ---- */

/* Fills in a head's target from an x in the networks' form, and as received: an unobserved value is
   not a target, even if it is held. A message has only the networks' form, the row of inputs. */
static void fill(const struct targets *t, size_t head, const void *seen, const void *original,
                 union value *target) {
    const struct output *output = output_of(t, head);
    size_t size = numbers_of(t, head);
    bool held = seen != original && !output_is_message(output) && !t->heads[head].classes;
    memcpy(target, seen, size * sizeof *target);
    for (size_t k = 0; held && k < size; k++)
        if (isnan(unaligned_float(original, k)))
            target[k].real = unaligned_float(original, k);
}

static const void *seen_of(const struct targets *t, const struct step *step) {
    return input_is_message(&t->model->architecture.input) ? step->input : step->seen;
}

/* The stream's x before, scaled as this step's predictions. */
static void score_previous(struct targets *t, size_t head, const struct step *step) {
    const union value *before = before_of(t, step->slot);
    const struct output *output = model_output(t->model, model_output_with(t->model, true));
    const double *means = scale_row(t, t->host->row, false);
    const double *deviations = scale_row(t, t->host->row, true);
    union value *target = next_target(t);
    memcpy(target, before, numbers_of(t, head) * sizeof *target);
    for (size_t k = 0; t->heads[head].scaled && k < t->size; k++)
        if (!isnan(target[k].real))
            target[k].real = scaler_scale_with(t->scaler, output_column(output, k), means[k],
                                               deviations[k], target[k].real);
    score(t, step->slot, 1, head, before, step->example->learn);
}

/* Scores what is known with the step, and keeps its x for the next one. */
static void targets_stepped(void *self, const struct step *step) {
    struct targets *t = self;
    keep_step(t, step);
    for (size_t h = 0; t->at_once && h < t->model->horizons; h++) {
        if (output_of(t, h)->target == TARGET_PREVIOUS)
            score_previous(t, h, step);
        if (output_of(t, h)->target != TARGET_SAME)
            continue;
        fill(t, h, seen_of(t, step), step->original, next_target(t));
        score(t, step->slot, 1, h, step->original, step->example->learn);
    }
    if (!t->before)
        return;
    bool message = input_is_message(&t->model->architecture.input);
    memcpy(before_of(t, step->slot), message ? (const void *)step->input : step->original,
           kept_of_x(t) * sizeof *t->before);
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
        size_t age = output_ahead(output_of(t, h), h);
        if (!output_is_next(output_of(t, h)))
            continue;
        if (age > window->open)
            break;
        fill(t, h, seen_of(t, step), step->original, next_target(t));
        score(t, step->slot, age, h, step->original, step->example->learn);
    }
    if (t->labels ? window->open && step_of_age(t, step->slot, window->open)->known : full)
        close_oldest(t, step->slot);
}

/* ---- Given and later targets ---- */

/* A sent message as a row of targets (model.h). */
static void fill_message(const struct targets *t, const struct example *example,
                         union value *target) {
    size_t numbers = example->target_atoms * t->sent_size;
    target->id = (uint32_t)example->target_atoms;
    memcpy(target + 1, example->y, numbers * sizeof *target);
    memset(target + 1 + numbers, 0, (t->row - 1 - numbers) * sizeof *target);
}

/* Scores a step with number n of the example's y, and keeps the observed numbers. */
static void score_sent(struct targets *t, uint32_t slot, size_t age, const struct example *example,
                       size_t n) {
    union value *target = next_target(t);
    const void *y = unaligned_at(example->y, n * t->sent_size);
    float *last = last_of(t, slot);
    if (example->target_atoms)
        fill_message(t, example, target);
    else
        memcpy(target, y, numbers_of(t, t->sent) * sizeof *target);
    for (size_t k = 0; t->heads[t->sent].scaled && k < t->size; k++)
        if (!isnan(target[k].real))
            target[k].real = scaler_scale(t->scaler, k, target[k].real);
    score(t, slot, age, t->sent, example->target_atoms ? target : y, example->learn);
    for (size_t k = 0; last && k < t->size; k++) {
        float value = unaligned_float(y, k);
        if (!isnan(value))
            last[k] = value;
    }
}

/* given: the target is there; later: the oldest of too many open steps is closed without one.
   Without targets that come later, the step is closed. */
static int targets_settled(void *self, const struct step *step, struct error *error) {
    struct targets *t = self;
    const struct example *example = step->example;
    const struct learner_window *window = window_of(t, step->slot);
    if (!t->labels && has_sent(t) && example->y)
        score_sent(t, step->slot, 1, example, step->t);
    if (!t->labels && !t->next)
        close_oldest(t, step->slot);
    if (!t->labels || window->open <= output_of(t, t->sent)->patience)
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

static void refuse(const struct learner_observer *observer, const struct example *label,
                   enum label_refusal reason, size_t steps) {
    char why[WHY_SIZE];
    uint64_t of = label->label_sequence;
    if (!observer->refused)
        return;
    if (reason == LABEL_UNKNOWN)
        snprintf(why, WHY_SIZE,
                 "no open step of the example %" PRIu64 " of epoch %" PRIu32
                 " in its stream: not received, already labelled, or closed by "
                 "model.output.patience or the end of its sequence",
                 of, label->label_epoch);
    else if (reason == LABEL_LABELLED)
        snprintf(why, WHY_SIZE, "the example %" PRIu64 " is already labelled", of);
    else if (reason == LABEL_CLOSED)
        snprintf(why, WHY_SIZE,
                 "the first steps of the example %" PRIu64 " are already closed by "
                 "model.output.patience",
                 of);
    else
        snprintf(why, WHY_SIZE,
                 "the label has %zu targets, but the example %" PRIu64 " has %zu steps",
                 label->steps, of, steps);
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
    for (size_t n = 0; t->heads[t->sent].scaled && n < label->steps; n++)
        scaler_add(t->scaler, unaligned_at(label->y, n * t->sent_size));
    for (size_t n = 0; n < label->steps; n++) {
        if (t->host->make_room(t->host, error))
            return -1;
        score_sent(t, slot, age - n, label, n);
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

/* The sequence ends: its open steps get no labels. */
static int targets_end(void *self, uint32_t slot, struct error *error) {
    struct targets *t = self;
    const struct learner_window *window = window_of(t, slot);
    if (!t->labels)
        return 0;
    for (size_t age = 1; age <= window->open; age++)
        step_of_age(t, slot, age)->known = 1;
    return close_known(t, slot, error) || t->host->make_room(t->host, error) ? -1 : 0;
}

/* ---- Errors of scores ---- */

/* Counts numbers on the target's side of 1/2: s(a) >= 1/2 if a >= 0. */
static void count_sides(const struct scored *score, size_t size, size_t *correct,
                        size_t *observed) {
    for (size_t k = 0; k < size; k++) {
        if (isnan(score->target[k].real))
            continue;
        *correct += (score->output[k] >= 0) == (score->target[k].real >= 0.5f);
        ++*observed;
    }
}

static void count_class(const struct scored *score, size_t classes, size_t *correct,
                        size_t *observed) {
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
        if (score->output[k] > score->output[best])
            best = k;
    *correct += best == score->target->id;
    ++*observed;
}

/* Adds errors or correct classes to the sums: prediction - y in original units, if scaled with the
   scale of the prediction. Those of the first output are also added to those of columns. Late heads
   have no activations here: those of a ranking are rank and number of candidates. */
static void add_score(const struct targets *t, const struct scored *score,
                      struct column_error *columns, struct output_sums *sums) {
    const struct model_head *head = &t->model->heads[score->horizon];
    const struct loss_kind *loss = loss_kind(output_of(t, score->horizon)->loss);
    const double *offsets =
        t->heads[score->horizon].scaled ? t->score_scales + score->number * 2 * t->size : NULL;
    double squares = sums->squared_error;
    bool errors = loss->metrics & METRIC_RMSE;
    for (size_t k = 0; errors && k < head->target_size; k++) {
        double a = score->output[k], known = offsets ? offsets[k] : -(double)score->target[k].real;
        double difference = offsets ? known + offsets[t->size + k] * a : known + a;
        if (columns)
            t->errors[k] = difference; /* NaN, if it is unknown */
        if (isnan(known))
            continue;
        squares += difference * difference;
        sums->observed++;
        if (columns)
            column_error_add(&columns[k], difference, score->of_baseline[k]);
    }
    sums->squared_error = squares;
    if (loss->class_id && (t->ranks || !columns))
        count_class(score, head->scored, &sums->correct, &sums->observed);
    else if (!loss->class_id && loss->metrics & METRIC_ACCURACY)
        count_sides(score, head->target_size, &sums->correct, &sums->observed);
}

static void targets_scored(void *self, struct planned *example, struct scored *score) {
    const struct targets *t = self;
    struct output_sums sums = {.squared_error = example->squared_error,
                               .observed = example->observed,
                               .correct = example->correct};
    if (t->model->heads[score->horizon].late) {
        if (output_baseline(t->output) == BASELINE_CHANCE)
            score->baseline = log((double)score->output[1]);
        return;
    }
    add_score(t, score, t->host->errors.columns, &sums);
    score->errors = t->loss->metrics & METRIC_RMSE ? t->errors : NULL;
    example->squared_error = sums.squared_error;
    example->observed = sums.observed;
    example->correct = sums.correct;
}

static void add_rank(struct output_sums *sums, float rank, float among) {
    sums->rank += (double)rank;
    sums->among += (double)among;
    sums->recall_1 += rank <= 1;
    sums->recall_10 += rank <= 10;
    sums->recall_20 += rank <= 20;
}

void targets_add(struct part_host *host, const struct scored *score) {
    const struct targets *t = part_find(host, &targets_part);
    const struct model_head *head = &t->model->heads[score->horizon];
    struct output_sums *sums = &host->errors.outputs[head->output];
    if (isfinite(score->loss)) {
        sums->scored++;
        sums->loss += score->loss;
        if (loss_kind(output_of(t, score->horizon)->loss)->metrics & METRIC_RANK)
            add_rank(sums, score->output[0], score->output[1]);
    }
    if (!head->late)
        add_score(t, score, NULL, sums);
}

/* ---- Outputs ---- */

/* Adds the bases of relative targets to the levels, which are the first parts of a prediction. */
static void add_bases(const struct targets *t, const struct planned *example, size_t first_step) {
    float *all = network_of(t)->results.outputs;
    for (size_t n = first_step; n < first_step + example->planned_steps; n++)
        for (size_t h = 0; h < t->model->horizons; h++)
            for (size_t k = 0; k < t->size; k++)
                all[n * t->model->outputs + t->model->heads[h].at + k] +=
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

/* Without targets that come later, no step is open between plans. */
static size_t if_waits(const struct state_place *p, size_t size) {
    const struct targets *t = p->self;
    return t->next || t->labels ? size : 0;
}

/* Rows that are one array of the slot. */
enum { SCALES, BASES, LASTS, BEFORE };

static void *array_of(const struct state_place *p, size_t *count) {
    const struct targets *t = p->self;
    switch (p->row->which) {
    case SCALES:
        *count = if_waits(p, t->places * 2 * t->size);
        return scale_of(t, p->slot, 0);
    case BASES:
        *count = if_waits(p, t->places * t->size);
        return base_of(t, p->slot, 0);
    case LASTS:
        *count = t->size;
        return last_of(t, p->slot);
    default:
        *count = kept_of_x(t);
        return before_of(t, p->slot);
    }
}

static size_t array_size(const struct state_place *p) {
    size_t count;
    return array_of(p, &count) ? count : 0;
}

static void *array_at(const struct state_place *p, size_t n) {
    size_t count;
    return (void)n, array_of(p, &count);
}

enum { OPEN = 6 };

/* A lone open step has its terms from the target that closes it, unless others are known before. */
static bool keeps_open(const struct targets *t) {
    return t->model->open > 1 || (t->next && t->model->architecture.other_count);
}

static size_t open_size(const struct state_place *p) {
    const struct targets *t = p->self;
    return keeps_open(t) ? t->places * OPEN : 0;
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
    return t->labels ? t->places : 0;
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

#define ARRAY .size = array_size, .at = array_at
static const struct state_row rows[] = {
    STATE_ROW("streams.scales", F64, STATE_WINDOW, SCALES, ARRAY),
    STATE_ROW("streams.bases", F32, STATE_WINDOW, BASES, ARRAY),
    STATE_ROW("streams.lasts", F32, 0, LASTS, ARRAY),
    STATE_ROW("streams.before", F32, 0, BEFORE, ARRAY),
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

/* Checks the atoms of a message, or a target that is not one. */
static bool before_of_output_valid(const struct output *output, const union value *before,
                                   size_t size) {
    bool message = output_is_message(output), valid = true;
    size_t count = message ? before->id : 1;
    if (message && count > output->sequence.longest)
        return false;
    if (!output_has_classes(output))
        return !has_infinite(&before[message].real, size - message);
    for (size_t n = 0; n < count; n++)
        valid &= before[message + n].id < output_classes(output) ||
                 (!message && before->id == WIRE_NO_CLASS);
    return valid;
}

static bool before_valid(const struct targets *t, uint32_t slot) {
    bool valid = true;
    for (size_t h = 0; t->before && h < t->model->horizons; h++)
        if (output_of(t, h)->target == TARGET_PREVIOUS)
            valid &= before_of_output_valid(output_of(t, h), before_of(t, slot), numbers_of(t, h));
    return valid;
}

static const char *targets_valid(void *self, uint32_t slot) {
    const struct targets *t = self;
    return has_infinite(base_of(t, slot, 0), t->places * t->size)    ? "streams.bases"
           : has_infinite(last_of(t, slot), t->size)                 ? "streams.lasts"
           : !before_valid(t, slot)                                  ? "streams.before"
           : !scales_valid(scale_of(t, slot, 0), t->places, t->size) ? "streams.scales"
                                                                     : NULL;
}

bool targets_window_valid(const struct model *model, const struct member *member,
                          const struct learner_window *window) {
    size_t least = model_waits_for_x(model),
           most = least || model_waits_for_labels(model) ? member->model->open : 0;
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
    if (!t || !keeps_open(t))
        return true;
    size_t place = t->places > 1 ? position : 0, most = open_of(t, slot, place)->terms;
    /* a ranking may have scored nothing */
    return t->model->late ? terms <= most : terms == most;
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
