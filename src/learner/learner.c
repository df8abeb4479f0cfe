#include "learner.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "changes.h"
#include "common/threads.h"
#include "engine/engine_threads.h"
#include "forecast/forecast.h"
#include "learner_state.h"
#include "model/parameters.h"
#include "parts/part.h"
#include "parts/targets.h"
#include "parts/truths.h"
#include "parts/words.h"

enum {
    PLAN_BYTES = 1 << 20, /* inputs, targets and outputs: wide networks have shorter plans */
    PLAN_MEASURES = 64,   /* few examples are measured */
};

/* Parts act in their order (parts.def); `host` is their view of the learner. */
struct learner {
    struct part_host host;
    struct part parts[PARTS_MAX];
    struct error absent; /* why an optional part is absent; "" */
    const struct engine_ops *ops;
    struct threads *threads; /* NULL: only the caller's thread */
    struct changes *changes; /* NULL: no fleet */

    /* The plan of all members, with results and examples. */
    struct planned *examples; /* (plan_steps,) */
    size_t example_count;
    size_t plan_measures, measures; /* room for measures, and used ones */
    size_t *step_scores;            /* (plan_steps,) scores by the x of each step */
    union value *values; /* (x_size,) x as parts rewrite it; NULL: parts write to the network's x */
    double *nothing;     /* (target_size,) zeros */
    struct layer_statistics *long_measure; /* (layers,) of an example that spans plans */
    struct gathered hidden;                /* h of an example that spans plans */
    bool measure;    /* measure the next example with steps, in place of a label */
    uint64_t played; /* examples learned when the current plan had been played */
};

_Static_assert((int)EXPERTS + (int)CONFIG_MEMBERS_MAX <= (int)LEARNER_FORECASTS_MAX,
               "room for all names");

#define EACH(learner, part, function) PARTS_EACH(&(learner)->host, part, function)

struct part_host *learner_host(const struct learner *learner) {
    return (struct part_host *)&learner->host;
}

static struct learner *learner_of(struct part_host *host) {
    return (struct learner *)((char *)host - offsetof(struct learner, host));
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- The plan's memory ---- */

static bool has_room(const struct learner *learner) {
    const struct part_host *host = &learner->host;
    return host->steps < host->plan_steps && learner->measures < learner->plan_measures &&
           plan_has_room(&host->members[0], host->plan_steps);
}

static int make_room(struct part_host *host, struct error *error) {
    struct learner *learner = learner_of(host);
    return has_room(learner) ? 0 : learner_flush(learner, error);
}

static int play_for(struct part_host *host, struct error *error) {
    return learner_flush(learner_of(host), error);
}

static bool open_plan(struct learner *learner, size_t most_steps) {
    struct part_host *host = &learner->host;
    const struct model *model = host->model;
    const struct input *input = &model->architecture.input;
    bool apart = (input->column_count && input_is_real(input)) || input_has_experts(input) ||
                 !host->member_count,
         good = true;
    size_t bytes = 0;
    EACH(learner, part, step_bytes)
    bytes += part->kind->step_bytes(part->self);
    for (size_t m = 0; m < host->member_count; m++)
        bytes += member_step_bytes(host->members[m].model);
    size_t fitting = PLAN_BYTES / bytes;
    size_t steps = host->plan_steps = smaller(most_steps, fitting ? fitting : 1);
    learner->plan_measures = smaller(steps, PLAN_MEASURES);
    for (size_t m = 0; m < host->member_count; m++)
        good &= member_open(&host->members[m], host->slots, steps, learner->plan_measures);
    learner->examples = calloc(steps, sizeof *learner->examples);
    learner->step_scores = calloc(steps, sizeof *learner->step_scores);
    learner->nothing = calloc(model->target_size, sizeof *learner->nothing);
    learner->long_measure = calloc(model->layer_count, sizeof *learner->long_measure);
    if (apart)
        learner->values = calloc(model->x_size, sizeof *learner->values);
    EACH(learner, part, plan_open)
    good &= part->kind->plan_open(part->self);
    return good && learner->examples && learner->step_scores && learner->nothing &&
           learner->long_measure && (!apart || learner->values);
}

/* ---- Playing a plan, and delivering the results to examples ---- */

/* How much of the plan's results has been delivered. */
struct cursor {
    size_t steps, scores, measures; /* counts for each member */
};

/* Adds a score of the network or of a part. */
static void score(struct part_host *host, struct planned *example, struct scored *scored) {
    example->scored++;
    host->errors.scored++;
    PARTS_EACH(host, part, scored)
    part->kind->scored(part->self, example, scored);
    example->loss_sum += scored->loss;
    example->baseline_sum += scored->baseline;
}

/* Delivers scores of one x: of its horizons, nearest first, or of a label's targets. Of a list's
   outputs after the first only means are published. A head that is
   late has no loss while it has nothing to score against. */
static void deliver_scores(struct learner *learner, struct planned *example, size_t count,
                           struct cursor *cursor) {
    const struct model *model = learner->host.model;
    const struct member *network = &learner->host.members[0];
    for (size_t n = 0; n < count; n++) {
        size_t number = cursor->scores++;
        struct scored scored = {
            .number = number,
            .horizon = network->heads[number],
            .loss = network->results.losses[number],
            .baseline = NAN,
            .output = network->results.scored + number * model->scored,
            .target = network->plan.targets + number * model->target_size,
            .of_baseline = learner->nothing,
        };
        const struct model_head *head = &model->heads[scored.horizon];
        if (head->late && isnan(scored.loss))
            continue;
        if (head->late && !head->scored)
            example->atoms_written += scored.target->id;
        if (model->architecture.other_count || head->late)
            targets_add(&learner->host, &scored);
        if (head->output == 0)
            score(&learner->host, example, &scored);
    }
}

/* Delivers an example's scores and steps. Each step is processed with the scores of its x, so that
   results do not depend on how examples and plans are divided. */
static void deliver_steps(struct learner *learner, struct planned *example, struct cursor *cursor) {
    size_t first_score = cursor->scores;
    EACH(learner, part, resumed)
    part->kind->resumed(part->self, example);
    for (size_t n = 0; n < example->planned_steps; n++) {
        deliver_scores(learner, example, learner->step_scores[cursor->steps + n], cursor);
        EACH(learner, part, played)
        part->kind->played(part->self, example, cursor->steps + n);
    }
    deliver_scores(learner, example, first_score + example->planned_scores - cursor->scores,
                   cursor);
}

/* Classes that have not occurred have biases that are not learned: returns the ratio of the norm of
   all parameters, whose sum of squares is given, to that of the others. */
static double share_of_learned(const struct part_host *host, double squares) {
    double theirs = (double)(host->hidden_classes * host->class_biases) *
                    (ENGINE_HIDDEN_BIAS * ENGINE_HIDDEN_BIAS);
    return host->hidden_classes && squares > theirs ? sqrt(squares / (squares - theirs)) : 1;
}

static void add_probe(const struct learner *learner, struct member *member,
                      const struct update_result *update) {
    const struct learner_observer *observer = &learner->host.observer;
    const struct plasticity *p = &member->plasticity;
    if (!isfinite(update->plasticity) || !plasticity_add(&member->plasticity, update) ||
        !observer->stale)
        return;
    observer->stale(observer->context,
                    &(struct learner_stale){member->name, update->layer, update->growth, p->mean,
                                            p->best, member->rates.rate});
}

static void add_updates(const struct learner *learner, struct planned *example) {
    const struct part_host *host = &learner->host;
    for (size_t m = 0; m < host->member_count; m++)
        for (size_t n = 0; n < example->planned_updates[m]; n++) {
            struct member *member = &host->members[m];
            const struct update_result *update = &member->results.updates[member->delivered++];
            if (update->empty)
                continue;
            if (!update->applied) {
                example->skipped++;
                continue;
            }
            example->updates++;
            add_probe(learner, member, update);
            example->gradient_norm = update->gradient_norm;
            example->update_ratio = update->update_ratio * share_of_learned(host, update->squares);
        }
}

static void observe(struct learner *learner, const struct planned *example,
                    const struct given *given, const struct layer_statistics *const *measured) {
    const struct learner_observer *observer = &learner->host.observer;
    struct learner_counters *counters = &learner->host.counters;
    struct learned *learned = given->learned;
    double scored = (double)example->scored;
    if (example->forgets) {
        counters->forgotten++;
        if (observer->forgotten)
            observer->forgotten(observer->context, example->forgotten, example->forgotten_size);
    }
    counters->examples++;
    counters->steps += example->steps;
    counters->updates += example->updates;
    counters->skipped += example->skipped;
    learned->key = example->key;
    learned->key_size = example->key_size;
    learned->examples = counters->examples;
    learned->steps = counters->steps;
    learned->played = learner->played;
    learned->received = example->received;
    learned->time = example->time;
    learned->scored = example->scored;
    learned->loss = example->scored ? example->loss_sum / scored : NAN;
    learned->baseline = example->scored ? example->baseline_sum / scored : NAN;
    learned->squared_error = example->squared_error;
    learned->observed = example->observed;
    learned->correct = example->correct;
    learned->atoms_read = example->atoms_read;
    learned->atoms_written = example->atoms_written;
    learned->updates = example->updates;
    learned->skipped = example->skipped;
    learned->gradient_norm = example->gradient_norm;
    learned->update_ratio = example->update_ratio;
    learned->output_steps = example->steps;
    learned->measured = measured;
    learned->streams = example->streams;
    EACH(learner, part, report)
    part->kind->report(part->self, example, given);
    observer->learned(observer->context, learned);
}

/* Saves outputs or forecasts of an example that spans plans. */
static int gather(struct learner *learner, struct planned *example, size_t first_step,
                  struct error *error) {
    const struct learned *learned = &learner->host.learned;
    EACH(learner, part, gather)
    if (example->outputs && part->kind->gather(part->self, example, first_step, error))
        return -1;
    if (example->vectors && parts_gather(&learner->hidden, example, learned->hidden,
                                         learned->width * sizeof(float), error))
        return -1;
    example->gathered_steps += example->planned_steps;
    return 0;
}

/* Saves the statistics of an example whose updates continue in another plan: only with later
   targets, which have one network. */
static void gather_measure(struct learner *learner, const struct planned *example, size_t measure) {
    size_t layers = learner->host.model->layer_count;
    if (!example->planned_measures)
        return;
    memcpy(learner->long_measure, learner->host.members[0].results.measures + measure * layers,
           layers * sizeof *learner->long_measure);
}

/* Delivers the results of the example in this row, and observes it when it is finished. */
static int deliver(struct learner *learner, size_t row, struct cursor *cursor,
                   struct error *error) {
    const struct part_host *host = &learner->host;
    struct planned *example = &learner->examples[row];
    const struct given given = {row, cursor->steps, cursor->scores, &learner->host.learned};
    deliver_steps(learner, example, cursor);
    EACH(learner, part, given)
    part->kind->given(part->self, example, &given);
    example->begun = true;
    add_updates(learner, example);
    cursor->steps += example->planned_steps;
    bool spans = example->steps && (!example->finished || example->gathered_steps);
    size_t weights = input_weights(&host->model->architecture.input);
    if (!example->outputs || !example->atoms_read || !weights)
        given.learned->attention = NULL;
    else if (example->planned_steps) /* a message is one step, and may be learned in another plan */
        given.learned->attention = host->members[0].results.attention + given.first_step * weights;
    given.learned->width = example->vectors ? host->members[0].model->chains[0].width : 0;
    given.learned->hidden = !example->vectors ? NULL
                                              : host->members[0].results.hidden +
                                                    given.first_step * given.learned->width;
    if ((example->outputs || example->vectors) && spans &&
        gather(learner, example, given.first_step, error))
        return -1;
    if (!example->finished) {
        gather_measure(learner, example, cursor->measures);
        return 0;
    }
    const struct layer_statistics *measured[CONFIG_MEMBERS_MAX]; /* few are used */
    for (size_t m = 0; example->measured && m < host->member_count; m++) {
        size_t first = cursor->measures * host->members[m].model->layer_count;
        measured[m] = example->planned_measures ? host->members[m].results.measures + first
                      : m                       ? NULL
                                                : learner->long_measure;
    }
    cursor->measures += example->planned_measures;
    if (example->vectors && example->gathered_steps)
        given.learned->hidden = learner->hidden.rows;
    observe(learner, example, &given, example->measured ? measured : NULL);
    return 0;
}

/* Starts an empty plan; an unfinished example becomes its first. */
static int begin_plan(struct learner *learner, struct error *error) {
    struct part_host *host = &learner->host;
    size_t last = learner->example_count - 1;
    bool unfinished = learner->example_count && !learner->examples[last].finished;
    EACH(learner, part, next)
    if (part->kind->next(part->self, unfinished ? &learner->examples[last] : NULL, last, error))
        return -1;
    learner->example_count = unfinished;
    if (unfinished) {
        struct planned *example = &learner->examples[0];
        if (last)
            *example = learner->examples[last];
        example->planned_steps = example->planned_scores = example->planned_measures = 0;
        example->planned_moments = 0;
        example->first_pair = example->first_bounds = 0;
        memset(example->planned_updates, 0, host->member_count * sizeof *example->planned_updates);
    }
    host->planned = &learner->examples[0];
    host->row = 0;
    host->steps = learner->measures = 0;
    for (size_t m = 0; m < host->member_count; m++)
        plan_empty(&host->members[m]);
    return 0;
}

/* Counts the examples that do not continue in the next plan. */
static size_t finished_examples(const struct learner *learner) {
    size_t count = learner->example_count;
    return count && !learner->examples[count - 1].finished ? count - 1 : count;
}

static bool wants_vectors(const struct learner *learner) {
    bool wants = false;
    for (size_t row = 0; row < learner->example_count; row++)
        wants |= learner->examples[row].vectors;
    return wants;
}

static bool wants_outputs(const struct learner *learner) {
    for (size_t row = 0; row < learner->example_count; row++)
        if (learner->examples[row].outputs)
            return true;
    EACH(learner, part, needs_outputs)
    if (part->kind->needs_outputs(part->self))
        return true;
    return false;
}

/* Collects the members with operations to play. */
static size_t gather_parts(struct learner *learner, struct engine_part *parts) {
    bool outputs = wants_outputs(learner);
    size_t count = 0;
    for (size_t m = 0; m < learner->host.member_count; m++) {
        struct member *member = &learner->host.members[m];
        member->plan.outputs = outputs;
        member->plan.hidden = m == 0 && wants_vectors(learner);
        member->plan.rate = member->rates.rate;
        member->plan.clip = member->rates.clip;
        if (member->plan.count)
            parts[count++] = (struct engine_part){member->engine, &member->plan, &member->results};
    }
    return count;
}

size_t learner_parameters(const struct learner *learner) {
    size_t count = 0;
    for (size_t m = 0; m < learner->host.member_count; m++)
        count += learner->host.members[m].model->learned;
    return count;
}

int learner_flush(struct learner *learner, struct error *error) {
    const struct part_host *host = &learner->host;
    struct engine_part parts[CONFIG_MEMBERS_MAX];
    size_t count = gather_parts(learner, parts);
    if (!count && !learner->example_count)
        return 0;
    if (engine_threads_play(learner->threads, learner->ops, parts, count,
                            host->steps * learner_parameters(learner), error))
        return -1;
    learner->played = host->counters.examples + finished_examples(learner);
    struct cursor cursor = {0};
    for (size_t row = 0; row < learner->example_count; row++)
        if (deliver(learner, row, &cursor, error))
            return -1;
    if (begin_plan(learner, error))
        return -1;
    if (host->observer.played)
        host->observer.played(host->observer.context);
    return 0;
}

/* ---- Planning: predict, then score, then learn (README.md) ---- */

static void mark(struct part_host *host, uint32_t slot) {
    changes_mark(learner_of(host)->changes, slot, host->counters.position + 1);
}

/* Right after the step, before an update recomputes the window. */
static void plan_measure(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->host.member_count; m++) {
        struct member *member = &learner->host.members[m];
        plan_append(member, OPERATION_MEASURE, slot);
        member->plan.measures++;
    }
    learner->measures++;
    learner->host.planned->planned_measures = 1;
}

static int take_step(struct learner *learner, const struct example *example, size_t t,
                     struct error *error) {
    struct part_host *host = &learner->host;
    const struct model *model = host->model;
    const struct plan *plan = &host->members[0].plan;
    const void *x = (const char *)example->x + t * model->x_size * sizeof(union value);
    union value *input =
        host->member_count ? plan->inputs + plan->steps * model->features : learner->values;
    struct step step = {
        .example = example,
        .t = t,
        .number = host->steps,
        .slot = host->planned->slot,
        .x = x,
        .values = learner->values ? learner->values : input,
        .input = input,
    };
    parts_fill_input(host, &step);
    host->planned->atoms_read += example->atoms;
    size_t scores = host->planned->planned_scores;
    EACH(learner, part, score)
    part->kind->score(part->self, &step);
    for (size_t m = 0; m < host->member_count; m++)
        plan_step(&host->members[m], step.slot);
    EACH(learner, part, stepped)
    part->kind->stepped(part->self, &step);
    host->steps++;
    host->planned->planned_steps++;
    if (host->planned->measured && t == example->steps - 1)
        plan_measure(learner, step.slot);
    learner->step_scores[step.number] = 0;
    EACH(learner, part, settled)
    if (part->kind->settled(part->self, &step, error))
        return -1;
    /* A step with a later target has no scores, and its plan may have been played. */
    if (host->planned->planned_scores > scores)
        learner->step_scores[step.number] = host->planned->planned_scores - scores;
    return 0;
}

static void forget(struct learner *learner, uint32_t slot) {
    struct part_host *host = &learner->host;
    size_t key_size;
    const char *key = streams_key(host->streams, slot, &key_size);
    for (size_t m = 0; m < host->member_count; m++)
        plan_append(&host->members[m], OPERATION_FORGET, slot);
    changes_remove(learner->changes, key, key_size, host->counters.position + 1);
    streams_remove(host->streams, slot);
}

static int end_sequence(struct learner *learner, struct error *error) {
    struct part_host *host = &learner->host;
    uint32_t slot = host->planned->slot;
    EACH(learner, part, end)
    if (part->kind->end(part->self, slot, error))
        return -1;
    for (size_t m = 0; m < host->member_count; m++)
        plan_end(&host->members[m], slot, &host->planned->planned_updates[m]);
    forget(learner, slot);
    host->planned->ends = true;
    return 0;
}

void learner_begin_stream(struct learner *learner, uint32_t slot, bool planned) {
    struct part_host *host = &learner->host;
    for (size_t m = 0; m < host->member_count; m++)
        host->members[m].windows[slot] = (struct learner_window){0};
    EACH(learner, part, begin)
    part->kind->begin(part->self, slot, planned ? BEGIN_PLANNED : BEGIN_NOW);
}

static uint32_t add_stream(struct learner *learner, const char *key, size_t key_size,
                           bool planned) {
    uint32_t slot = streams_add(learner->host.streams, key, key_size);
    changes_add(learner->changes, key, key_size);
    learner_begin_stream(learner, slot, planned);
    return slot;
}

uint32_t learner_add_stream(struct learner *learner, const char *key, size_t key_size) {
    return add_stream(learner, key, key_size, false);
}

/* Returns the slot of the example's stream, as the most recently used; a new one can displace
   another. */
static uint32_t find_stream(struct learner *learner, const struct example *example) {
    struct streams *streams = learner->host.streams;
    struct planned *planned = learner->host.planned;
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
    planned->begins = true;
    return add_stream(learner, example->key, example->key_size, true);
}

/* Assigns the next row of the plan to the example. */
static void begin(struct learner *learner, const struct example *example) {
    struct part_host *host = &learner->host;
    const struct learner_observer *observer = &host->observer;
    host->row = learner->example_count++;
    struct planned *planned = host->planned = &learner->examples[host->row];
    memset(&planned->forgets, 0,
           offsetof(struct planned, planned_updates[host->member_count]) -
               offsetof(struct planned, forgets));
    memcpy(planned->key, example->key, example->key_size);
    planned->key_size = example->key_size;
    planned->received = example->received;
    planned->learn = example->learn;
    planned->time = example->numbered ? example->time : 0;
    planned->steps = example->label ? 0 : example->steps;
    planned->outputs = host->want_outputs;
    planned->vectors = host->want_vectors;
    learner->measure |= observer->measure && observer->measure(observer->context, host->taken);
    planned->measured = learner->measure && !example->label;
    learner->measure &= example->label;
    if (example->label)
        planned->slot = streams_find(host->streams, example->key, example->key_size);
    else
        mark(host, planned->slot = find_stream(learner, example));
}

/* There is room for the first one. */
static int take_steps(struct learner *learner, const struct example *example, struct error *error) {
    for (size_t t = 0; t < example->steps; t++)
        if ((t && make_room(&learner->host, error)) || take_step(learner, example, t, error))
            return -1;
    return example->end ? end_sequence(learner, error) : 0;
}

/* A label can also end a sequence, even one without effect. */
static int take_label(struct learner *learner, const struct example *label, struct error *error) {
    EACH(learner, part, label)
    if (part->kind->label(part->self, label, error))
        return -1;
    return label->end && learner->host.planned->slot != STREAMS_NONE ? end_sequence(learner, error)
                                                                     : 0;
}

int learner_take(struct learner *learner, const struct example *example, struct error *error) {
    struct part_host *host = &learner->host;
    struct example taken = *example; /* parts may rewrite it */
    host->taken++;
    EACH(learner, part, take)
    if (part->kind->take(part->self, &taken, error))
        return -1;
    bool full = !has_room(learner) || learner->example_count == host->plan_steps;
    if (full && learner_flush(learner, error))
        return -1;
    begin(learner, &taken);
    EACH(learner, part, example)
    part->kind->example(part->self, &taken);
    if (taken.label ? take_label(learner, &taken, error) : take_steps(learner, &taken, error))
        return -1;
    host->planned->streams = streams_count(host->streams);
    host->planned->finished = true;
    EACH(learner, part, taken)
    if (part->kind->taken(part->self, error))
        return -1;
    return 0;
}

/* ---- Forgetting ---- */

static int forget_all(struct learner *learner, struct error *error) {
    struct streams *streams = learner->host.streams;
    size_t room = learner->host.plan_steps * OPERATIONS_PER_STEP;
    for (size_t forgotten = 1; streams_count(streams); forgotten++) {
        forget(learner, streams_oldest(streams));
        if (forgotten % room == 0 && learner_flush(learner, error))
            return -1;
    }
    return learner_flush(learner, error);
}

static int forget_member(struct learner *learner, size_t member, struct error *error) {
    struct member *m = &learner->host.members[member];
    const struct streams *streams = learner->host.streams;
    size_t room = learner->host.plan_steps * OPERATIONS_PER_STEP;
    uint32_t slot = streams_oldest(streams);
    for (; slot != STREAMS_NONE; slot = streams_newer(streams, slot)) {
        plan_append(m, OPERATION_FORGET, slot);
        m->windows[slot] = (struct learner_window){0};
        if (m->plan.count == room && learner_flush(learner, error))
            return -1;
    }
    learner_all_changed(learner);
    return learner_flush(learner, error);
}

bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size) {
    return streams_find(learner->host.streams, key, key_size) != STREAMS_NONE;
}

int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    uint32_t slot = streams_find(learner->host.streams, key, key_size);
    if (slot == STREAMS_NONE)
        return 1;
    EACH(learner, part, forget)
    part->kind->forget(part->self, slot);
    forget(learner, slot);
    return learner_flush(learner, error);
}

/* ---- Opening and closing ---- */

static void release(struct learner *learner) {
    struct part_host *host = &learner->host;
    while (host->part_count) {
        const struct part *last = &host->parts[--host->part_count];
        last->kind->close(last->self);
    }
    for (size_t m = 0; host->members && m < host->member_count; m++)
        member_close(&host->members[m]);
    free(host->members);
    free(host->errors.columns);
    free(host->errors.experts);
    streams_close(&host->streams);
    changes_close(&learner->changes);
    free(learner->examples);
    free(learner->step_scores);
    free(learner->values);
    free(learner->nothing);
    free(learner->long_measure);
    free(learner->hidden.rows);
    threads_close(&learner->threads);
    free(learner);
}

static void describe(struct member *member, uint64_t seed, const struct learning *learning,
                     uint64_t probe) {
    double rate = learning->optimizer.rate, clip = learning->clip;
    member->seed = seed;
    member->rule = learning->rule;
    member->probe = rule_kind(learning->rule)->keeps == KEEPS_NOTHING ? probe : 0;
    member->window = learning->window;
    member->stride = learning->stride;
    member->moments = optimizer_moments(&learning->optimizer);
    member->start = optimizer_start(&learning->optimizer);
    member->rates = (struct learner_rates){rate, clip, rate, clip};
}

/* Describes the members of the configuration, or its one network. */
static int describe_members(struct learner *learner, const struct config *config,
                            struct error *error) {
    struct part_host *host = &learner->host;
    size_t count = config->members_given ? config->member_count : 1;
    host->members = calloc(count ? count : 1, sizeof *host->members);
    if (!host->members)
        return error_no_memory(error);
    host->member_count = count;
    host->members[0].model = host->model;
    host->members[0].ops = learner->ops;
    describe(&host->members[0], config->seed, &config->learning, config->statistics_plasticity);
    for (size_t m = 0; config->members_given && m < count; m++) {
        const struct member_config *listed = &config->members[m];
        struct member *member = &host->members[m];
        struct architecture architecture;
        member->model = member->own = calloc(1, sizeof *member->own);
        if (!member->own)
            return error_no_memory(error);
        member->ops = learner->ops;
        snprintf(member->name, sizeof member->name, "%s", listed->name);
        config_member_network(config, m, &architecture);
        model_build(member->own, &architecture);
        describe(member, listed->seed, &listed->learning, config->statistics_plasticity);
    }
    return 0;
}

static int open_engines(struct learner *learner, const struct config *config, struct error *error) {
    if (engine_threads_open(&learner->threads, config, learner->ops, error))
        return -1;
    for (size_t m = 0; m < learner->host.member_count; m++) {
        struct member *member = &learner->host.members[m];
        const struct learning *learning =
            config->members_given ? &config->members[m].learning : &config->learning;
        const struct plan longest =
            plan_longest(member->model, learner->host.plan_steps, learner->plan_measures);
        const struct engine_options options = {.optimizer = learning->optimizer,
                                               .rule = learning->rule,
                                               .scope = config->device_scope,
                                               .window = member->window,
                                               .slots = config->learning.max_streams,
                                               .longest = &longest,
                                               .threads = learner->threads};
        if (learner->ops->open(&member->engine, member->model, &options, config->device, error) ||
            member_begin_solution(member, error))
            return *member->name ? error_prefix(error, "member %s", member->name) : -1;
    }
    return 0;
}

/* Opens the parts that the configuration requires. */
static int open_parts(struct learner *learner, struct error *error) {
    struct part_host *host = &learner->host;
    for (size_t n = 0; part_kinds[n]; n++) {
        const struct part_kind *kind = part_kinds[n];
        void *self = NULL;
        assert(host->part_count < PARTS_MAX);
        if (kind->wanted && !kind->wanted(host))
            continue;
        int status = kind->open(&self, host, error);
        if (status == 0) {
            host->parts[host->part_count++] = (struct part){kind, self};
            continue;
        }
        if (self)
            kind->close(self);
        if (status < 0)
            return -1;
        learner->absent = *error;
    }
    parts_collect(host);
    return 0;
}

static int open_all(struct learner *learner, const struct config *config, size_t plan_steps,
                    struct error *error) {
    struct part_host *host = &learner->host;
    const struct model *model = host->model;
    host->config = config;
    host->slots = config->learning.max_streams;
    host->window = config->learning.window;
    host->known_classes = SIZE_MAX;
    host->parts = learner->parts;
    host->make_room = make_room;
    host->play = play_for;
    host->mark = mark;
    host->score = score;
    snprintf(host->initial, sizeof host->initial, "%s", config->initial);
    host->errors.columns = calloc(model->target_size, sizeof *host->errors.columns);
    if (!host->errors.columns)
        return error_no_memory(error);
    if (describe_members(learner, config, error) ||
        streams_open(&host->streams, host->slots, error) ||
        (config->fleet.lease > 0 && changes_open(&learner->changes, host->slots, error)) ||
        open_parts(learner, error))
        return -1;
    if (!open_plan(learner, plan_steps))
        return error_no_memory(error);
    if (truths_keep(host, config->predictions != PREDICTIONS_NONE, error) ||
        open_engines(learner, config, error))
        return -1;
    host->config = NULL;
    return 0;
}

int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error) {
    assert(plan_steps > 0 && config->learning.stride <= config->learning.window);
    struct learner *opened = calloc(1, sizeof *opened);
    *learner = opened;
    if (!opened)
        return error_no_memory(error);
    opened->host.model = model;
    opened->host.observer = *observer;
    opened->ops = engine;
    if (open_all(opened, config, plan_steps, error) == 0)
        return 0;
    learner_close(learner);
    return -1;
}

int learner_open(struct learner **learner, const struct config *config, const struct model *model,
                 const struct engine_ops *engine, size_t plan_steps,
                 const struct learner_observer *observer, struct error *error) {
    if (learner_open_empty(learner, config, model, engine, plan_steps, observer, error))
        return -1;
    if (learner_start(*learner, error) == 0)
        return 0;
    learner_close(learner);
    return -1;
}

void learner_close(struct learner **learner) {
    if (*learner)
        release(*learner);
    *learner = NULL;
}

/* ---- Starting, and starting again ---- */

static int start_member(struct member *member, const float *values, struct error *error) {
    return member_begin_solution(member, error) || member_write_values(member, values, true, error);
}

static int fill(const struct learner *learner, size_t m, float *values, struct error *error) {
    EACH(learner, part, fill)
    if (part->kind->fill(part->self, m, values, error))
        return -1;
    return 0;
}

static int prepare(const struct learner *learner, struct error *error) {
    EACH(learner, part, prepare)
    if (part->kind->prepare(part->self, error))
        return -1;
    return 0;
}

static void reset_parts(const struct learner *learner) {
    EACH(learner, part, reset)
    part->kind->reset(part->self);
}

int learner_start(struct learner *learner, struct error *error) {
    int status = prepare(learner, error);
    if (status == 0)
        reset_parts(learner);
    for (size_t m = 0; m < learner->host.member_count && status == 0; m++) {
        float *values =
            member_starting_values(&learner->host.members[m], learner->host.initial, error);
        status = values && fill(learner, m, values, error) == 0
                     ? start_member(&learner->host.members[m], values, error)
                     : -1;
        free(values);
    }
    return status;
}

static void reset_rates(struct member *member) {
    member->rates.rate = member->rates.configured_rate;
    member->rates.clip = member->rates.configured_clip;
}

static int begin_again(struct learner *learner, float *const *values, struct error *error) {
    struct part_host *host = &learner->host;
    if (learner_flush(learner, error) || forget_all(learner, error))
        return -1;
    reset_parts(learner);
    for (size_t m = 0; m < host->member_count; m++)
        if (fill(learner, m, values[m], error) ||
            start_member(&host->members[m], values[m], error) ||
            member_clear(&host->members[m], values[m], error))
            return -1;
    for (size_t m = 0; m < host->member_count || m == 0; m++)
        reset_rates(&host->members[m]);
    host->counters = (struct learner_counters){.position = host->counters.position};
    host->taken = 0;
    return 0;
}

int learner_reset(struct learner *learner, struct error *error) {
    float *values[CONFIG_MEMBERS_MAX] = {NULL};
    size_t count = learner->host.member_count;
    int status = prepare(learner, error) ? 1 : 0;
    for (size_t m = 0; m < count && status == 0; m++) {
        values[m] = member_starting_values(&learner->host.members[m], learner->host.initial, error);
        status = values[m] ? 0 : 1;
    }
    if (status == 0)
        status = begin_again(learner, values, error);
    for (size_t m = 0; m < count; m++)
        free(values[m]);
    return status;
}

static int begin_member(struct learner *learner, size_t m, float *values, struct error *error) {
    struct member *member = &learner->host.members[m];
    if (fill(learner, m, values, error) || learner_flush(learner, error) ||
        forget_member(learner, m, error) ||
        start_member(&learner->host.members[m], values, error) ||
        member_clear(member, values, error))
        return -1;
    reset_rates(member);
    return 0;
}

int learner_reset_member(struct learner *learner, size_t member, struct error *error) {
    float *values =
        member_starting_values(&learner->host.members[member], learner->host.initial, error);
    int status = values ? begin_member(learner, member, values, error) : 1;
    free(values);
    return status;
}

/* ---- Changes ---- */

const struct changes *learner_changes(const struct learner *learner) {
    return learner->changes;
}

void learner_all_changed(struct learner *learner) {
    changes_begin(learner->changes, learner->host.streams, learner->host.counters.position + 1);
}

void learner_resumed(struct learner *learner) {
    changes_begin(learner->changes, learner->host.streams, learner->host.counters.position);
}

void learner_changes_settle(struct learner *learner, uint64_t position) {
    changes_settle(learner->changes, position);
}

void learner_adopted(struct learner *learner, const struct learner_place *place) {
    size_t size;
    const char *key = streams_key(learner->host.streams, place->slot, &size);
    uint64_t entry = learner->host.counters.position + 1;
    changes_mark(learner->changes, place->slot, entry);
    if (!place->known)
        changes_add(learner->changes, key, size);
    if (place->evicts)
        changes_remove(learner->changes, place->evicted, place->evicted_size, entry);
}

/* ---- Reports ---- */

const char *learner_device(const struct learner *learner) {
    return learner->host.member_count ? learner->ops->describe(learner->host.members[0].engine)
                                      : "cpu, experts alone";
}

const char *learner_fingerprint(const struct learner *learner) {
    if (!learner->host.member_count || !learner->ops->fingerprint)
        return learner_device(learner);
    return learner->ops->fingerprint(learner->host.members[0].engine);
}

size_t learner_thread_count(const struct learner *learner) {
    return threads_count(learner->threads);
}

const char *learner_watches_not(const struct learner *learner) {
    return learner->absent.text;
}
