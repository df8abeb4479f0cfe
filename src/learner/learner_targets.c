/* Targets of the one network: where they come from, what the network sees of them (scaled, and
   relative to a base), and the steps that wait for them.

   A step is open from its STEP until its target is known, or known to be missing, and all steps of
   its stream before it are closed. It is scored when its target comes; what it was predicted with,
   scale and base, is kept with it until then. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/unaligned.h"
#include "example.h"
#include "learner_internal.h"
#include "scaler.h"

static const struct output *output_of(const struct learner *learner) {
    return &learner->model->architecture.output;
}

/* What targets are scaled with; NULL: they are not. */
static const struct scaler *target_scaler(const struct learner *learner) {
    return output_of(learner)->target == TARGET_NEXT ? learner->scaler : learner->output_scaler;
}

/* ---- Memory ---- */

bool targets_open(struct learner *learner, size_t slots) {
    const struct output *output = output_of(learner);
    bool next = output->target == TARGET_NEXT, relative = output->relative == RELATIVE_TRUE;
    bool numbers = !loss_kind(output->loss)->class_id;
    size_t rows = slots * learner->places, size = learner->target_row;
    if (learner->forecaster)
        return true;
    bool scales = target_scaler(learner) != NULL, lasts = relative && !next;
    bool bases = relative || (next && numbers && learner->model->open > 1);
    learner->opens = calloc(rows, sizeof *learner->opens);
    if (scales)
        learner->scales = calloc(rows, 2 * size * sizeof *learner->scales);
    if (bases)
        learner->bases = calloc(rows, size * sizeof *learner->bases);
    if (lasts)
        learner->lasts = calloc(slots, size * sizeof *learner->lasts);
    return learner->opens && (!scales || learner->scales) && (!bases || learner->bases) &&
           (!lasts || learner->lasts);
}

void targets_close(struct learner *learner) {
    scaler_close(&learner->output_scaler);
    free(learner->opens);
    free(learner->scales);
    free(learner->bases);
    free(learner->lasts);
    free(learner->score_scales);
    free(learner->output_means);
    free(learner->output_deviations);
    free(learner->step_bases);
}

bool targets_plan_open(struct learner *learner) {
    size_t steps = learner->plan_steps, size = learner->target_row;
    bool scored = target_scaler(learner) != NULL, own = learner->output_scaler != NULL;
    bool relative = output_of(learner)->relative == RELATIVE_TRUE;
    if (learner->forecaster)
        return true;
    if (scored)
        learner->score_scales =
            calloc(steps * learner->model->horizons, 2 * size * sizeof *learner->score_scales);
    if (own) {
        learner->output_means = calloc(steps, size * sizeof *learner->output_means);
        learner->output_deviations = calloc(steps, size * sizeof *learner->output_deviations);
    }
    if (relative)
        learner->step_bases = calloc(steps, size * sizeof *learner->step_bases);
    return (!scored || learner->score_scales) &&
           (!own || (learner->output_means && learner->output_deviations)) &&
           (!relative || learner->step_bases);
}

void targets_begin(struct learner *learner, uint32_t slot) {
    float *last = learner_last(learner, slot);
    for (size_t k = 0; last && k < learner->target_row; k++)
        last[k] = NAN;
}

/* ---- Open steps ---- */

/* The place of the open step of that age. */
static size_t place_of(const struct learner *learner, uint32_t slot, size_t age) {
    return learner->places > 1 ? plan_position(&learner->members[0], slot, age) : 0;
}

const double *targets_scale(const struct learner *learner, size_t row, bool deviation) {
    bool next = output_of(learner)->target == TARGET_NEXT;
    const double *means = next ? learner->means : learner->output_means;
    const double *deviations = next ? learner->deviations : learner->output_deviations;
    const double *rows = deviation ? deviations : means;
    return rows ? rows + row * learner->target_row : NULL;
}

/* What targets of this step are relative to: the step's own x, or the last target, as scaled. */
static void fill_base(const struct learner *learner, uint32_t slot, size_t row,
                      const union value *input, float *base) {
    const struct scaler *scaler = target_scaler(learner);
    const float *last = learner->lasts ? learner->lasts + slot * learner->target_row : NULL;
    for (size_t k = 0; k < learner->target_row; k++) {
        if (!last)
            base[k] = input[k].real;
        else if (isnan(last[k]))
            base[k] = 0;
        else
            base[k] = scaler ? scaler_scale_with(scaler, k, targets_scale(learner, row, false)[k],
                                                 targets_scale(learner, row, true)[k], last[k])
                             : last[k];
    }
}

void targets_keep(struct learner *learner, uint32_t slot, const struct example *example,
                  const union value *input, const struct planned *planned) {
    size_t place = place_of(learner, slot, 1), size = learner->target_row;
    size_t row = (size_t)(planned - learner->examples);
    double *scale = learner_scale(learner, slot, place);
    float *base = learner_base(learner, slot, place);
    *learner_open_step(learner, slot, place) = (struct learner_open){
        .producer = example->producer,
        .sequence = example->sequence,
        .epoch = example->epoch,
        .steps = example->numbered ? (uint32_t)example->steps : 0,
        .time = example->time,
        .classes = learner->words ? learner->words->classes : 0,
    };
    if (scale) {
        memcpy(scale, targets_scale(learner, row, false), size * sizeof *scale);
        memcpy(scale + size, targets_scale(learner, row, true), size * sizeof *scale);
    }
    if (base)
        fill_base(learner, slot, row, input, base);
    if (learner->step_bases)
        memcpy(learner->step_bases + learner->steps * size, base, size * sizeof *base);
}

/* The oldest open step is closed. */
static void close_oldest(struct learner *learner, uint32_t slot, struct planned *planned) {
    struct member *member = &learner->members[0];
    size_t place = place_of(learner, slot, member->windows[slot].open);
    plan_close(member, slot, learner_open_step(learner, slot, place)->terms,
               planned->planned_updates);
}

/* Close those whose targets are known, from the oldest on: one target may bring many updates. */
static int close_known(struct learner *learner, uint32_t slot, struct planned **planned,
                       struct error *error) {
    const struct learner_window *window = &learner->members[0].windows[slot];
    while (window->open &&
           learner_open_step(learner, slot, place_of(learner, slot, window->open))->known) {
        if (plan_make_room(learner, planned, error))
            return -1;
        close_oldest(learner, slot, *planned);
    }
    return 0;
}

/* ---- Scores ---- */

/* Whether something of the target is observed. */
static bool is_observed(const struct model *model, const union value *target) {
    const struct loss_kind *loss = loss_kind(model->architecture.output.loss);
    if (loss->class_id)
        return target->id != WIRE_NO_CLASS;
    size_t together = 0, single = 0;
    for (size_t k = 0; k < loss->together; k++)
        together += !isnan(target[k].real);
    for (size_t k = loss->together; k < model->target_size; k++)
        single += !isnan(target[k].real);
    return single > 0 || (together > 0 && together == loss->together);
}

/* What makes the error of the step's prediction, in original units, out of the network's output;
   `y` as it came. */
static void keep_score_scale(struct learner *learner, const double *scale, const float *base,
                             const void *y) {
    size_t size = learner->target_row;
    double *offsets = learner->score_scales + learner->members[0].plan.scores * 2 * size;
    bool relative = learner->step_bases != NULL;
    for (size_t k = 0; k < size; k++) {
        float value = unaligned_float(y, k);
        offsets[k] = scale[k] - value;
        if (relative)
            offsets[k] += scale[size + k] * base[k];
    }
    memcpy(offsets + size, scale + size, size * sizeof *scale);
}

/* A target of the open step of that age has come: `y` as it came, and in the next row of targets as
   scaled. */
static void score(struct learner *learner, uint32_t slot, size_t age, size_t horizon, const void *y,
                  bool learn, struct planned *planned) {
    struct plan *plan = &learner->members[0].plan;
    size_t place = place_of(learner, slot, age);
    union value *target = plan->targets + plan->rows * learner->model->target_size;
    const float *base = learner_base(learner, slot, place);
    const double *scale = learner_scale(learner, slot, place);
    if (!is_observed(learner->model, target))
        return;
    if (learner->words && loss_kind(output_of(learner)->loss)->class_id)
        target->id =
            words_target(learner, target->id, learner_open_step(learner, slot, place)->classes);
    if (scale)
        keep_score_scale(learner, scale, base, y);
    learner_baseline_score(learner, slot, place, horizon, target, y);
    for (size_t k = 0; learner->step_bases && k < learner->target_row; k++)
        target[k].real = finite_float((double)(target[k].real - base[k]));
    plan_score(&learner->members[0], slot, age, horizon, learn);
    plan_truth(learner, planned, slot, age - 1, horizon, y, learn);
    learner_open_step(learner, slot, place)->terms += learn;
    planned->planned_scores++;
}

/* ---- target: next ---- */

/* What of the x is a target: what was not observed is no target, held or not. */
static void fill_next(const struct learner *learner, const void *x, const union value *input,
                      union value *target) {
    memcpy(target, input, learner->target_row * sizeof *target);
    if (loss_kind(output_of(learner)->loss)->class_id)
        return;
    for (size_t k = 0; k < learner->target_row; k++) {
        float value = unaligned_float(x, k);
        if (isnan(value))
            target[k].real = value;
    }
}

void targets_next(struct learner *learner, uint32_t slot, const struct example *example,
                  const void *x, const union value *input, struct planned *planned) {
    const struct model *model = learner->model;
    struct member *member = &learner->members[0];
    const struct learner_window *window = &member->windows[slot];
    if (output_of(learner)->target != TARGET_NEXT)
        return;
    for (size_t h = 0; h < model->horizons; h++) {
        size_t age = output_ahead(&model->architecture.output, h);
        if (age > window->open)
            break;
        fill_next(learner, x, input, member->plan.targets + member->plan.rows * model->target_size);
        score(learner, slot, age, h, x, example->learn, planned);
    }
    if (window->open == model->open)
        close_oldest(learner, slot, planned);
}

/* ---- Given and later targets ---- */

void targets_example(struct learner *learner, const struct example *example, size_t row) {
    struct scaler *scaler = learner->output_scaler;
    size_t size = learner->target_row;
    if (!scaler)
        return;
    double *means = learner->output_means + row * size;
    memcpy(means, scaler_means(scaler), size * sizeof *means);
    for (size_t k = 0; k < size; k++)
        if (!scaler_knows(scaler, k))
            means[k] = NAN;
    memcpy(learner->output_deviations + row * size, scaler_deviations(scaler),
           size * sizeof(double));
    if (example->label || !example->y)
        return;
    for (size_t t = 0; t < example->steps; t++)
        scaler_add(scaler, unaligned_at(example->y, t * size));
}

/* Score a step by a y that was sent, and remember what was observed. */
static void score_sent(struct learner *learner, uint32_t slot, size_t age, const void *y,
                       bool learn, struct planned *planned) {
    const struct plan *plan = &learner->members[0].plan;
    size_t size = learner->target_row;
    union value *target = plan->targets + plan->rows * size;
    float *last = learner_last(learner, slot);
    memcpy(target, y, size * sizeof *target);
    for (size_t k = 0; learner->output_scaler && k < size; k++)
        if (!isnan(target[k].real))
            target[k].real = scaler_scale(learner->output_scaler, k, target[k].real);
    score(learner, slot, age, 0, y, learn, planned);
    for (size_t k = 0; last && k < size; k++) {
        float value = unaligned_float(y, k);
        if (!isnan(value))
            last[k] = value;
    }
}

int targets_given(struct learner *learner, uint32_t slot, const struct example *example, size_t t,
                  struct planned **planned, struct error *error) {
    const struct output *output = output_of(learner);
    const struct learner_window *window = &learner->members[0].windows[slot];
    if (output->target == TARGET_GIVEN) {
        if (example->y)
            score_sent(learner, slot, 1, unaligned_at(example->y, t * learner->target_row),
                       example->learn, *planned);
        close_oldest(learner, slot, *planned);
    }
    if (output->target != TARGET_LATER || window->open <= output->patience)
        return 0;
    learner_open_step(learner, slot, place_of(learner, slot, window->open))->known = 1;
    return close_known(learner, slot, planned, error);
}

static bool is_of(const struct learner_open *open, const struct example *label) {
    return open->steps && open->sequence == label->label_sequence &&
           open->epoch == label->label_epoch && open->producer == label->producer;
}

/* The age of the first of the open steps that the label is for, or 0: it is refused. */
static size_t find_labelled(struct learner *learner, uint32_t slot, const struct example *label) {
    size_t open = slot == STREAMS_NONE ? 0 : learner->members[0].windows[slot].open;
    size_t first = 0, count = 0, steps = 0;
    bool known = false;
    for (size_t age = open; age > 0; age--) {
        const struct learner_open *step =
            learner_open_step(learner, slot, place_of(learner, slot, age));
        if (!is_of(step, label))
            continue;
        first = count ? first : age;
        steps = step->steps;
        known |= step->known;
        count++;
    }
    if (count == label->steps && count == steps && !known)
        return first;
    label_refuse(&learner->observer, label,
                 count == 0      ? LABEL_UNKNOWN
                 : known         ? LABEL_LABELLED
                 : count < steps ? LABEL_CLOSED
                                 : LABEL_SIZE,
                 steps);
    return 0;
}

static int take_targets(struct learner *learner, uint32_t slot, size_t age,
                        const struct example *label, struct planned **planned,
                        struct error *error) {
    size_t size = learner->target_row;
    for (size_t t = 0; learner->output_scaler && t < label->steps; t++)
        scaler_add(learner->output_scaler, unaligned_at(label->y, t * size));
    for (size_t t = 0; t < label->steps; t++) {
        if (plan_make_room(learner, planned, error))
            return -1;
        score_sent(learner, slot, age - t, unaligned_at(label->y, t * size), label->learn,
                   *planned);
        learner_open_step(learner, slot, place_of(learner, slot, age - t))->known = 1;
    }
    return close_known(learner, slot, planned, error);
}

int targets_label(struct learner *learner, const struct example *example, struct planned **planned,
                  struct error *error) {
    const struct learner_observer *observer = &learner->observer;
    uint32_t slot = streams_find(learner->streams, example->key, example->key_size);
    size_t age = find_labelled(learner, slot, example);
    if (age == 0)
        return 0;
    if (observer->labelled)
        observer->labelled(observer->context, example, age - example->steps,
                           learner_open_step(learner, slot, place_of(learner, slot, age))->time);
    streams_touch(learner->streams, slot);
    learner_mark(learner, slot);
    return take_targets(learner, slot, age, example, planned, error);
}

int targets_end(struct learner *learner, uint32_t slot, struct planned **planned,
                struct error *error) {
    const struct learner_window *window = &learner->members[0].windows[slot];
    if (output_of(learner)->target != TARGET_LATER)
        return 0;
    for (size_t age = 1; age <= window->open; age++)
        learner_open_step(learner, slot, place_of(learner, slot, age))->known = 1;
    return close_known(learner, slot, planned, error) || plan_make_room(learner, planned, error)
               ? -1
               : 0;
}
