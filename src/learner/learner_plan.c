/* The online protocol: predict, then score, then learn (README.md). A step is open until its
   target is known or known to be missing and all before it are closed: with `target: given` at
   once, with `target: next` when the stream's x so many steps later arrives, with `target: later`
   when its label does. */
#include <math.h>
#include <string.h>

#include "common/unaligned.h"
#include "example.h"
#include "input_range.h"
#include "learner_internal.h"
#include "scaler.h"

/* ---- One step ---- */

/* Right after the step, before an update recomputes the window. */
static void plan_measure(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++) {
        plan_append(&learner->members[m], OPERATION_MEASURE, slot);
        learner->members[m].plan.measures++;
    }
    learner->measures++;
}

static union value *next_input_row(const struct learner *learner) {
    const struct plan *plan = &learner->members[0].plan;
    return plan->inputs + plan->steps * learner->model->features;
}

/* A step of the one network. */
static void take_plain(struct learner *learner, uint32_t slot, const struct example *example,
                       size_t t, struct planned *planned) {
    const void *x = unaligned_at(example->x, t * learner->input_row);
    union value *input = next_input_row(learner);
    learner_read_input(learner, slot, x, input);
    learner_time_put(learner, learner->model, input);
    if (learner->columns.next) { /* what of it is a target */
        x = learner->columns.came;
        input = learner->columns.seen;
    }
    union value symbol = *input; /* as a target a hashed one has no sign */
    if (learner->model->architecture.input.hash) {
        symbol.id &= ~SYMBOL_MINUS;
        x = input = &symbol;
    }
    targets_next(learner, slot, example, x, input, planned);
    plan_step(&learner->members[0], slot);
    learner_baseline_step(learner, slot, x, input);
    plan_said(learner, planned, slot);
    targets_keep(learner, slot, example, input, planned);
}

static int take_step(struct learner *learner, uint32_t slot, const struct example *example,
                     size_t t, struct planned **planned, struct error *error) {
    const void *x = unaligned_at(example->x, t * learner->input_row);
    size_t step = learner->steps, scores = (*planned)->planned_scores;
    plan_watch(learner, x);
    if (learner->forecaster)
        forecast_take(learner, slot, x, example->learn, *planned);
    else
        take_plain(learner, slot, example, t, *planned);
    learner_time_stepped(learner);
    learner->steps++;
    (*planned)->planned_steps++;
    if ((*planned)->measured && t == example->steps - 1) {
        plan_measure(learner, slot);
        (*planned)->planned_measures = 1;
    }
    if (!learner->forecaster && targets_given(learner, slot, example, t, planned, error))
        return -1;
    /* A step whose targets come later brings none, and may be in a plan that is played. */
    plan_watch_scores(learner, step, (*planned)->planned_scores - scores);
    return 0;
}

/* ---- One example ---- */

static void forget(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++)
        plan_append(&learner->members[m], OPERATION_FORGET, slot);
    learner_mark_gone(learner, slot);
    streams_remove(learner->streams, slot);
}

int learner_forget_all(struct learner *learner, struct error *error) {
    size_t room = learner->plan_steps * OPERATIONS_PER_STEP;
    for (size_t forgotten = 1; streams_count(learner->streams); forgotten++) {
        forget(learner, streams_oldest(learner->streams));
        if (forgotten % room == 0 && learner_play(learner, error))
            return -1;
    }
    return learner_play(learner, error);
}

int learner_forget_member(struct learner *learner, size_t member, struct error *error) {
    struct member *m = &learner->members[member];
    size_t room = learner->plan_steps * OPERATIONS_PER_STEP;
    uint32_t slot = streams_oldest(learner->streams);
    for (; slot != STREAMS_NONE; slot = streams_newer(learner->streams, slot)) {
        plan_append(m, OPERATION_FORGET, slot);
        m->windows[slot] = (struct learner_window){0};
        if (m->plan.count == room && learner_play(learner, error))
            return -1;
    }
    learner_all_changed(learner);
    return learner_play(learner, error);
}

bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size) {
    return streams_find(learner->streams, key, key_size) != STREAMS_NONE;
}

int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error) {
    if (learner_play(learner, error))
        return -1;
    uint32_t slot = streams_find(learner->streams, key, key_size);
    if (slot == STREAMS_NONE)
        return 1;
    forget(learner, slot);
    return learner_play(learner, error);
}

static void end_member(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->open) {
        /* The dropped steps come after the window: the window's steps are not the latest. */
        window->next = plan_position(member, slot, window->open);
        window->open = 0;
        member->run_length = 0;
    }
    plan_update(member, slot, updates);
}

static int end_sequence(struct learner *learner, uint32_t slot, struct planned **planned,
                        struct error *error) {
    if (!learner->forecaster && targets_end(learner, slot, planned, error))
        return -1;
    for (size_t m = 0; m < learner->member_count; m++)
        end_member(&learner->members[m], slot, &(*planned)->planned_updates[m]);
    forget(learner, slot);
    return 0;
}

/* The example's stream, as the most recently used; a new one may need another's slot. */
static uint32_t find_stream(struct learner *learner, const struct example *example,
                            struct planned *planned) {
    struct streams *streams = learner->streams;
    uint32_t slot = streams_find(streams, example->key, example->key_size);
    if (slot != STREAMS_NONE) {
        streams_touch(streams, slot);
        return slot;
    }
    if (streams_count(streams) == streams_capacity(streams)) {
        uint32_t oldest = streams_oldest(streams);
        const char *key = streams_key(streams, oldest, &planned->forgotten_size);
        memcpy(planned->forgotten, key, planned->forgotten_size);
        planned->forgets = true;
        forget(learner, oldest);
    }
    slot = learner_add_stream(learner, example->key, example->key_size);
    planned->begins = true;
    if (learner->truth)
        learner->begins[slot] = true;
    if (learner->forecaster)
        forecast_begin(learner, slot);
    return slot;
}

/* Of columns that are targets, in their order. */
static void keep_scale(struct learner *learner, const struct example *example, size_t row) {
    const struct scaler *scaler = learner->scaler;
    const struct output *output = &learner->model->architecture.output;
    size_t size = learner->scale_row;
    for (size_t t = 0; t < example->steps && !example->label; t++)
        scaler_add(learner->scaler, unaligned_at(example->x, t * learner->input_row));
    double *means = learner->means + row * size, *deviations = learner->deviations + row * size;
    for (size_t k = 0; k < size; k++) {
        size_t column = learner->columns.next ? output_column(output, k) : k;
        means[k] = scaler_knows(scaler, column) ? scaler_means(scaler)[column] : NAN;
        deviations[k] = scaler_deviations(scaler)[column];
    }
}

static struct planned *begin(struct learner *learner, const struct example *example) {
    const struct learner_observer *observer = &learner->observer;
    size_t row = learner->example_count++;
    struct planned *planned = &learner->examples[row];
    memset(&planned->forgets, 0,
           offsetof(struct planned, planned_updates) - offsetof(struct planned, forgets));
    memset(planned->planned_updates, 0, learner->member_count * sizeof *planned->planned_updates);
    memcpy(planned->key, example->key, example->key_size);
    planned->key_size = example->key_size;
    planned->received = example->received;
    planned->learn = example->learn;
    planned->time = example->numbered ? example->time : 0;
    planned->steps = example->label ? 0 : example->steps;
    planned->outputs = learner->want_outputs;
    learner->measure |= observer->measure && observer->measure(observer->context, learner->taken);
    planned->measured = learner->measure && !example->label;
    learner->measure &= example->label;
    if (learner->scaler)
        keep_scale(learner, example, row);
    targets_example(learner, example, row);
    return planned;
}

static void look_at_range(struct learner *learner, const struct example *example) {
    const struct learner_observer *observer = &learner->observer;
    struct out_of_scale found = input_range_take(learner->range, example->x, example->steps);
    if (found.count > 0 && observer->out_of_scale)
        observer->out_of_scale(observer->context, example, &found);
}

static int take_steps(struct learner *learner, const struct example *example,
                      struct planned **planned, struct error *error) {
    uint32_t slot = (*planned)->slot = find_stream(learner, example, *planned);
    learner_mark(learner, slot);
    plan_heard(learner, *planned);
    learner_time_take(learner, slot, example);
    for (size_t t = 0; t < example->steps; t++)
        if (plan_make_room(learner, planned, error) ||
            take_step(learner, slot, example, t, planned, error))
            return -1;
    return example->end ? end_sequence(learner, slot, planned, error) : 0;
}

/* It may end a sequence, too: one that changes nothing likewise. */
static int take_label(struct learner *learner, const struct example *label,
                      struct planned **planned, struct error *error) {
    uint32_t slot = streams_find(learner->streams, label->key, label->key_size);
    (*planned)->slot = slot;
    if (targets_label(learner, label, planned, error))
        return -1;
    return label->end && slot != STREAMS_NONE ? end_sequence(learner, slot, planned, error) : 0;
}

static int plan_example(struct learner *learner, const struct example *example,
                        struct error *error) {
    bool full = !plan_has_room(learner) || learner->example_count == learner->plan_steps;
    if (learner->range && !example->label)
        look_at_range(learner, example);
    if (full && learner_play(learner, error))
        return -1;
    struct planned *planned = begin(learner, example);
    if (example->label ? take_label(learner, example, &planned, error)
                       : take_steps(learner, example, &planned, error))
        return -1;
    planned->streams = streams_count(learner->streams);
    planned->finished = true;
    return 0;
}

/* Once ids are in the place of words, it is an example as any other. */
static int take_words(struct learner *learner, struct example example, struct error *error) {
    return words_take(learner, &example, error) || plan_example(learner, &example, error) ||
                   words_taken(learner, error)
               ? -1
               : 0;
}

int learner_take(struct learner *learner, const struct example *example, struct error *error) {
    learner->taken++;
    return learner->words ? take_words(learner, *example, error)
                          : plan_example(learner, example, error);
}
