/* The memory of plans: allocated when a learner opens, for as many steps as one plan may have. */
#include <stdlib.h>

#include "learner_internal.h"

enum {
    PLAN_BYTES =
        1 << 20, /* of inputs, targets and outputs, about: a wide network's plan is shorter */
    PLAN_MEASURES = 64, /* they are asked for once in many examples */
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool open_scales(struct learner *learner) {
    const struct architecture *architecture = &learner->model->architecture;
    size_t steps = learner->plan_steps, size = learner->scale_row;
    if (architecture->input.scale != SCALE_STANDARD)
        return true;
    learner->means = calloc(steps, size * sizeof *learner->means);
    learner->deviations = calloc(steps, size * sizeof *learner->deviations);
    return learner->means && learner->deviations;
}

/* Rows of targets that a step brings at most: one for each SCORE, and as many for SOLVE. */
static size_t rows_per_step(const struct model *model) {
    return model->horizons * (model->solved ? 2 : 1);
}

static size_t step_bytes(const struct model *model) {
    size_t targets = model->horizons * model->target_size;
    return (model->features + targets + 2 * model->outputs) * sizeof(union value);
}

static size_t operations_per_step(const struct model *model) {
    return OPERATIONS_PER_STEP + model->horizons - 1;
}

struct plan plan_longest(const struct learner *learner, const struct model *model) {
    size_t steps = learner->plan_steps;
    return (struct plan){
        .count = steps * operations_per_step(model),
        .steps = steps,
        .scores = steps * model->horizons,
        .updates = steps * UPDATES_PER_STEP,
        .measures = learner->plan_measures,
        .rows = steps * rows_per_step(model) + model->horizons, /* the last: fill_closed's */
        .outputs = true,
    };
}

static bool open_member(const struct learner *learner, struct member *member) {
    const struct model *model = member->model;
    size_t layers = model->architecture.layer_count, outputs = model->outputs;
    const struct plan longest = plan_longest(learner, model);
    struct plan *plan = &member->plan;
    struct results *results = &member->results;
    plan->operations = calloc(longest.count, sizeof *plan->operations);
    plan->inputs = calloc(longest.steps, model->features * sizeof *plan->inputs);
    plan->targets = calloc(longest.rows, model->target_size * sizeof *plan->targets);
    results->losses = calloc(longest.scores, sizeof *results->losses);
    results->scored = calloc(longest.steps, outputs * sizeof *results->scored);
    results->outputs = calloc(longest.steps, outputs * sizeof *results->outputs);
    results->updates = calloc(longest.updates, sizeof *results->updates);
    results->measures = calloc(longest.measures, layers * sizeof *results->measures);
    return plan->operations && plan->inputs && plan->targets && results->losses &&
           results->scored && results->outputs && results->updates && results->measures;
}

static void close_member(struct member *member) {
    free(member->plan.operations);
    free(member->plan.inputs);
    free(member->plan.targets);
    free(member->results.losses);
    free(member->results.scored);
    free(member->results.outputs);
    free(member->results.updates);
    free(member->results.measures);
}

bool learner_plan_open(struct learner *learner, size_t most_steps) {
    size_t bytes = forecast_plan_bytes(learner) + watch_plan_bytes(learner);
    for (size_t m = 0; m < learner->member_count; m++)
        bytes += step_bytes(learner->members[m].model);
    size_t fitting = PLAN_BYTES / bytes;
    size_t steps = learner->plan_steps = smaller(most_steps, fitting ? fitting : 1);
    bool good = true;
    learner->plan_measures = smaller(steps, PLAN_MEASURES);
    for (size_t m = 0; m < learner->member_count; m++)
        good &= open_member(learner, &learner->members[m]);
    learner->examples = calloc(steps, sizeof *learner->examples);
    learner->long_measure =
        calloc(learner->model->architecture.layer_count, sizeof *learner->long_measure);
    return good && learner->examples && learner->long_measure && open_scales(learner) &&
           learner_baseline_plan_open(learner) && targets_plan_open(learner) &&
           watch_plan_open(learner) && (!learner->forecaster || forecast_plan_open(learner));
}

void learner_plan_close(struct learner *learner) {
    for (size_t m = 0; learner->members && m < learner->member_count; m++)
        close_member(&learner->members[m]);
    free(learner->examples);
    free(learner->long_measure);
    free(learner->means);
    free(learner->deviations);
}

/* What steps bring at most has room where they have; labels bring more. */
bool plan_has_room(const struct learner *learner) {
    const struct member *member = &learner->members[0];
    size_t steps = learner->plan_steps;
    if (learner->steps == steps || learner->measures == learner->plan_measures)
        return false;
    if (learner->model->architecture.output.target != TARGET_LATER)
        return true;
    return member->plan.rows < steps &&
           member->plan.updates + UPDATES_PER_STEP <= steps * UPDATES_PER_STEP &&
           member->plan.count + OPERATIONS_PER_STEP <= steps * OPERATIONS_PER_STEP;
}

int plan_make_room(struct learner *learner, struct planned **planned, struct error *error) {
    if (plan_has_room(learner))
        return 0;
    if (learner_play(learner, error))
        return -1;
    *planned = &learner->examples[0];
    return 0;
}
