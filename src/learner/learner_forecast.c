/* scale: forecast. While it plans, the learner asks experts what each x says: networks get features
   and targets of it, and what the mixture needs is kept by step. When the plan has been played, the
   networks' outputs are there, and step by step the mixture learns from the target and says what
   comes next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/denormals.h"
#include "common/error.h"
#include "learner_internal.h"

_Static_assert((int)EXPERTS + (int)CONFIG_MEMBERS_MAX <= (int)LEARNER_FORECASTS_MAX,
               "there is room for the names of all");

/* Arrays of a step's row in said_numbers, (I,) each; the experts follow. */
enum {
    SAID_Y,
    SAID_LAST,
    SAID_X,
    SAID_UNSEEN,
    SAID_MEAN,
    SAID_SD,
    SAID_DS,
    SAID_AR12,
    SAID_EXPERTS
};

/* ---- Memory ---- */

int forecast_open(struct learner *learner, const struct config *config, struct error *error) {
    size_t columns = learner->input_row, slots = config->learning.max_streams;
    size_t experts = experts_count(config->experts);
    learner->experts = config->experts;
    learner->forecast_count = experts + learner->member_count;
    learner->said_row = (SAID_EXPERTS + experts) * columns;
    learner->forecast_row = (1 + 2 * learner->forecast_count) * columns;
    learner->table = calloc(learner->forecast_count + 1, columns * sizeof *learner->table);
    if (!learner->table)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    return forecaster_open(&learner->forecaster, columns, config->experts, slots, error) ||
                   mixture_open(&learner->mixture, columns, learner->forecast_count,
                                config->combined, slots, error)
               ? -1
               : 0;
}

void forecast_close(struct learner *learner) {
    forecaster_close(&learner->forecaster);
    mixture_close(&learner->mixture);
    free(learner->said);
    free(learner->said_numbers);
    free(learner->forecasts);
    free(learner->long_forecasts);
    free(learner->table);
}

size_t forecast_plan_bytes(const struct learner *learner) {
    return (learner->said_row + learner->forecast_row) * sizeof(double);
}

bool forecast_plan_open(struct learner *learner) {
    size_t steps = learner->plan_steps;
    learner->said = calloc(steps, sizeof *learner->said);
    learner->said_numbers = calloc(steps, learner->said_row * sizeof *learner->said_numbers);
    learner->forecasts = calloc(steps, learner->forecast_row * sizeof *learner->forecasts);
    return learner->said && learner->said_numbers && learner->forecasts;
}

void forecast_begin(struct learner *learner, uint32_t slot) {
    forecaster_begin(learner->forecaster, slot);
}

/* ---- Planning ---- */

/* What a member's network is asked to say: y, or the level, less its base. */
static bool fill_target(const struct member *member, const struct forecast_step *step,
                        union value *target) {
    const struct model *model = member->model;
    enum relative relative = model->architecture.output.relative;
    bool observed = false;
    for (size_t k = 0; k < model->target_size; k++) {
        double y = relative == RELATIVE_NONE ? forecast_clip(step->level[k], FORECAST_FEATURE_MOST)
                   : relative == RELATIVE_AR12
                       ? forecast_clip(step->y[k] - step->base[k], FORECAST_CHANGE_MOST)
                       : forecast_clip(step->y[k], FORECAST_CHANGE_MOST);
        target[k].real = (float)y;
        observed |= !isnan(y);
    }
    return observed;
}

static void fill_features(const struct member *member, const struct forecast_step *step,
                          union value *input) {
    const struct model *model = member->model;
    size_t columns = model->architecture.input.size;
    for (size_t k = 0; k < columns; k++) {
        input[k].real = (float)step->z[k];
        input[columns + k].real = (float)step->u[k];
        input[2 * columns + k].real = (float)forecast_clip(step->v[k], FORECAST_FEATURE_MOST);
        if (model->architecture.output.relative == RELATIVE_AR12)
            input[3 * columns + k].real =
                (float)forecast_clip(step->ar12[k], FORECAST_FEATURE_MOST);
    }
}

/* The least squares of a readout forget a step whose target was not observed, too. */
static void plan_solve(struct member *member, uint32_t slot, uint32_t row) {
    struct operation *solve = plan_append(member, OPERATION_SOLVE, slot);
    solve->value = row;
    solve->position = plan_position(member, slot, 1);
}

static void take_member(struct member *member, uint32_t slot, const struct forecast_step *step,
                        bool learn, size_t *updates) {
    struct plan *plan = &member->plan;
    struct learner_window *window = &member->windows[slot];
    const struct model *model = member->model;
    if (window->open) {
        uint32_t row = (uint32_t)plan->rows;
        bool solves = model->solved && learn;
        bool observed = fill_target(member, step, plan->targets + row * model->target_size);
        size_t terms = observed && learn;
        if (observed)
            plan_score(member, slot, 1, 0, learn);
        else
            plan->rows += solves;
        plan_close(member, slot, terms, updates);
        if (solves)
            plan_solve(member, slot, row);
    }
    fill_features(member, step, plan->inputs + plan->steps * model->features);
    plan_step(member, slot);
}

static void keep(struct learner *learner, uint32_t slot, const struct forecast_step *step,
                 bool learn, bool begins) {
    size_t columns = learner->input_row, bytes = columns * sizeof(double);
    double *row = learner->said_numbers + learner->steps * learner->said_row;
    const double *const arrays[SAID_EXPERTS] = {
        [SAID_Y] = step->y,           [SAID_LAST] = step->last, [SAID_X] = step->x,
        [SAID_UNSEEN] = step->unseen, [SAID_MEAN] = step->mean, [SAID_SD] = step->sd,
        [SAID_DS] = step->ds,         [SAID_AR12] = step->ar12,
    };
    for (size_t n = 0; n < SAID_EXPERTS; n++)
        memcpy(row + n * columns, arrays[n], bytes);
    memcpy(row + SAID_EXPERTS * columns, step->experts, experts_count(learner->experts) * bytes);
    learner->said[learner->steps] = (struct said){slot, begins, step->settles, learn};
}

void forecast_take(struct learner *learner, uint32_t slot, const void *x, bool learn,
                   struct planned *planned) {
    struct forecast_step step;
    denormals_to_zero();
    bool begins = forecaster_is_new(learner->forecaster, slot);
    forecaster_take(learner->forecaster, slot, x, learn, &step);
    keep(learner, slot, &step, learn, begins);
    for (size_t m = 0; m < learner->member_count; m++)
        take_member(&learner->members[m], slot, &step, learn, &planned->planned_updates[m]);
}

/* ---- After the plan has been played ---- */

/* What a network says, as a change. */
static double change_of(const struct member *member, const double *said, size_t columns, size_t k,
                        double a) {
    switch (member->model->architecture.output.relative) {
    case RELATIVE_NONE:
        return (said[SAID_MEAN * columns + k] + said[SAID_SD * columns + k] * a -
                said[SAID_X * columns + k]) /
               said[SAID_DS * columns + k];
    case RELATIVE_AR12:
        return a + said[SAID_AR12 * columns + k];
    default:
        return a;
    }
}

/* All forecasts of the step into the table, in changes. */
static void fill_table(struct learner *learner, size_t step, const double *said) {
    size_t columns = learner->input_row, experts = experts_count(learner->experts);
    double *table = learner->table;
    memcpy(table, said + SAID_EXPERTS * columns, experts * columns * sizeof *table);
    table += experts * columns;
    for (size_t m = 0; m < learner->member_count; m++) {
        const struct member *member = &learner->members[m];
        const float *outputs = member->results.outputs + step * member->model->outputs;
        for (size_t k = 0; k < columns; k++)
            *table++ = change_of(member, said, columns, k, (double)outputs[k]);
    }
}

/* Forecasts in original units: x + ds p, and NaN of a column that was never seen. */
static void put_original(const double *p, size_t count, const double *said, size_t columns,
                         double *out) {
    for (size_t n = 0; n < count; n++)
        for (size_t k = 0; k < columns; k++)
            *out++ = said[SAID_X * columns + k] + said[SAID_DS * columns + k] * *p++ +
                     said[SAID_UNSEEN * columns + k];
}

/* The x of this step beside what was said of it. */
static void tell(struct learner *learner, const struct planned *example, size_t step, double loss) {
    const struct said *how = &learner->said[step];
    const double *said = learner->said_numbers + step * learner->said_row;
    for (size_t k = 0; k < learner->input_row; k++)
        learner->truths[k] = isnan(said[SAID_Y * learner->input_row + k])
                                 ? NAN
                                 : said[SAID_X * learner->input_row + k];
    const struct truth_score came = {
        .loss = loss,
        .target = learner->truths,
        .baseline = said + SAID_LAST * learner->input_row,
        .learn = how->learn,
        .tell = example->outputs,
    };
    truth_came(learner->truth, how->slot, 0, &came);
}

/* The target of the step before has come. */
static void settle(struct learner *learner, struct planned *example, size_t step) {
    const struct said *how = &learner->said[step];
    const double *said = learner->said_numbers + step * learner->said_row;
    size_t columns = learner->input_row;
    struct mixture_score score =
        mixture_learn(learner->mixture, how->slot, said + SAID_Y * columns, how->learn);
    if (score.observed == 0)
        return;
    example->scored++;
    example->loss_sum += score.loss;
    example->baseline_sum += score.baseline;
    example->squared_error += score.squared_error;
    example->observed += score.observed;
    for (size_t k = 0; k < columns; k++)
        if (!isnan(score.errors[k])) {
            judge_number(&learner->errors.columns[k], score.errors[k], score.of_last[k]);
            watch_number(learner, k, score.errors[k]);
        }
    watch_score(learner, example, score.loss);
    learner->errors.scored++;
    for (size_t n = 0; n < learner->forecast_count; n++) {
        learner->errors.experts[n].loss += score.losses[n];
        learner->errors.experts[n].weight += score.weights[n];
    }
    tell(learner, example, step, score.loss);
}

void forecast_give(struct learner *learner, struct planned *example, size_t step) {
    const struct said *how = &learner->said[step];
    const double *said = learner->said_numbers + step * learner->said_row;
    size_t columns = learner->input_row, count = learner->forecast_count;
    double *combined = learner->table + count * columns;
    if (how->begins) {
        mixture_begin(learner->mixture, how->slot);
        truth_begin(learner->truth, how->slot);
    }
    if (how->settles)
        settle(learner, example, step);
    watch_step(learner, example, step);
    fill_table(learner, step, said);
    mixture_predict(learner->mixture, how->slot, learner->table, said + SAID_DS * columns,
                    combined);
    double *row = learner->forecasts + step * learner->forecast_row;
    put_original(combined, 1, said, columns, row);
    put_original(learner->table, count, said, columns, row + columns);
    if (example->outputs)
        mixture_weights(learner->mixture, how->slot, row + (1 + count) * columns);
    const struct truth_step at = beside_step(learner, example);
    truth_said(learner->truth, how->slot, &at, row, row + columns, example->outputs);
    example->given_steps++;
}

const double *forecast_of(const struct learner *learner, const struct planned *example,
                          size_t first_step) {
    if (!learner->forecaster)
        return NULL;
    return example->gathered_steps ? learner->long_forecasts
                                   : learner->forecasts + first_step * learner->forecast_row;
}

int forecast_gather(struct learner *learner, const struct planned *example, size_t first_step,
                    struct error *error) {
    size_t row = learner->forecast_row, size = example->steps * row;
    if (learner->long_forecasts_capacity < size) {
        double *grown = realloc(learner->long_forecasts, size * sizeof *grown);
        if (!grown)
            return error_set(error, EX_UNAVAILABLE, LEARNER_NO_MEMORY_TO_TELL, example->steps);
        learner->long_forecasts = grown;
        learner->long_forecasts_capacity = size;
    }
    memcpy(learner->long_forecasts + example->gathered_steps * row,
           learner->forecasts + first_step * row, example->planned_steps * row * sizeof(double));
    return 0;
}

/* ---- Names ---- */

size_t learner_forecasts(const struct learner *learner) {
    return learner->forecast_count;
}

const char *learner_forecast_name(const struct learner *learner, size_t n) {
    size_t experts = experts_count(learner->experts);
    if (n < experts)
        return expert_name(experts_at(learner->experts, n));
    const char *name = learner->members[n - experts].name;
    return *name ? name : CONFIG_NETWORK;
}
