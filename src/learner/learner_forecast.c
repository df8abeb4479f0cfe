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

_Static_assert((int)AHEAD_MAX <= (int)FORECAST_HORIZONS_MAX, "there is room for all horizons");

/* Arrays of a step's row in said_numbers, (I,) each; those of the horizons follow, */
enum { SAID_X, SAID_UNSEEN, SAID_MEAN, SAID_SD, SAID_SHARED };

/* each of them with its experts. */
enum { SAID_Y, SAID_LAST, SAID_DS, SAID_AR12, SAID_EXPERTS };

/* ---- Memory ---- */

/* What is kept of a horizon. */
static size_t said_ahead_size(const struct learner *learner) {
    return (SAID_EXPERTS + experts_count(learner->experts)) * learner->input_row;
}

static void describe_rows(struct learner *learner, const struct config *config) {
    size_t columns = learner->input_row, horizons = learner->model->horizons;
    learner->experts = config->experts;
    learner->forecast_count = experts_count(config->experts) + learner->member_count;
    learner->said_row = SAID_SHARED * columns + horizons * said_ahead_size(learner);
    learner->forecast_row = horizons * (1 + 2 * learner->forecast_count) * columns;
}

int forecast_open(struct learner *learner, const struct config *config, struct error *error) {
    size_t columns = learner->input_row, slots = config->learning.max_streams;
    size_t horizons = learner->model->horizons, ahead[AHEAD_MAX];
    for (size_t h = 0; h < horizons; h++)
        ahead[h] = output_ahead(&learner->model->architecture.output, h);
    describe_rows(learner, config);
    learner->table = calloc(learner->forecast_count + 1, columns * sizeof *learner->table);
    if (!learner->table)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    return forecaster_open(&learner->forecaster, columns, config->experts, ahead, horizons, slots,
                           error) ||
                   mixture_open(&learner->mixture, columns, learner->forecast_count,
                                config->combined, ahead, horizons, slots, error)
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

/* What a member's network is asked to say of a horizon: y, or the level, less its base. */
static bool fill_target(const struct member *member, const double *of_y, const double *of_level,
                        const double *base, union value *target) {
    const struct model *model = member->model;
    enum relative relative = model->architecture.output.relative;
    bool observed = false;
    for (size_t k = 0; k < model->target_size; k++) {
        double y = relative == RELATIVE_NONE ? forecast_clip(of_level[k], FORECAST_FEATURE_MOST)
                   : relative == RELATIVE_AR12
                       ? forecast_clip(of_y[k] - base[k], FORECAST_CHANGE_MOST)
                       : forecast_clip(of_y[k], FORECAST_CHANGE_MOST);
        target[k].real = (float)y;
        observed |= !isnan(y);
    }
    return observed;
}

/* z and u; v of all horizons; and, if targets are relative to it, what ar12 says of all. */
static void fill_features(const struct member *member, const struct forecast_step *step,
                          union value *input) {
    const struct model *model = member->model;
    size_t columns = model->architecture.input.size, horizons = model->horizons;
    bool base = model->architecture.output.relative == RELATIVE_AR12;
    union value *v = input + 2 * columns, *ar12 = v + horizons * columns;
    for (size_t k = 0; k < columns; k++) {
        input[k].real = (float)step->z[k];
        input[columns + k].real = (float)step->u[k];
    }
    for (size_t h = 0; h < horizons; h++) {
        for (size_t k = 0; k < columns; k++, v++)
            v->real = (float)forecast_clip(step->of[h].v[k], FORECAST_FEATURE_MOST);
        for (size_t k = 0; base && k < columns; k++, ar12++)
            ar12->real = (float)forecast_clip(step->of[h].ar12[k], FORECAST_FEATURE_MOST);
    }
}

/* Score what the open steps say of this x, horizon by horizon. */
static void score_member(struct member *member, uint32_t slot, const struct forecast_step *step,
                         bool learn) {
    struct plan *plan = &member->plan;
    const struct model *model = member->model;
    for (size_t h = 0; h < model->horizons; h++) {
        const struct forecast_horizon *of = &step->of[h];
        size_t age = output_ahead(&model->architecture.output, h);
        if (age > member->windows[slot].open)
            return;
        union value *target = plan->targets + plan->rows * model->target_size;
        if (fill_target(member, of->y, of->level, of->base, target))
            plan_score(member, slot, age, h, learn);
    }
}

/* What the output is solved with, and how many targets an update learns from: of all horizons the
   targets of the step that is closed, none where they are not to be learned from. They stand after
   the rows that are used, of a full plan too. */
static size_t fill_closed(struct member *member, const struct forecast_step *step, bool *learn) {
    const struct model *model = member->model;
    union value *row = member->plan.targets + member->plan.rows * model->target_size;
    size_t terms = 0;
    *learn = false;
    for (size_t h = 0; h < model->horizons; h++, row += model->target_size) {
        const struct forecast_closed *of = &step->closed[h];
        bool observed = fill_target(member, of->y, of->level, of->base, row);
        terms += of->learn && observed;
        *learn |= of->learn;
        for (size_t k = 0; !of->learn && k < model->target_size; k++)
            row[k].real = NAN;
    }
    return terms;
}

/* The oldest open step is closed, then its output is solved. The least squares of a readout forget
   a step whose targets were not observed, too. */
static void close_member(struct member *member, uint32_t slot, const struct forecast_step *step,
                         size_t *updates) {
    struct plan *plan = &member->plan;
    bool learn;
    size_t terms = fill_closed(member, step, &learn);
    uint32_t position = plan_position(member, slot, member->windows[slot].open);
    plan_close(member, slot, terms, updates);
    if (!member->model->solved || !learn)
        return;
    struct operation *solve = plan_append(member, OPERATION_SOLVE, slot);
    solve->value = (uint32_t)plan->rows;
    solve->position = position;
    plan->rows += member->model->horizons;
}

static void take_member(struct learner *learner, struct member *member, uint32_t slot,
                        const struct forecast_step *step, bool learn, size_t *updates) {
    struct plan *plan = &member->plan;
    const struct model *model = member->model;
    score_member(member, slot, step, learn);
    if (member->windows[slot].open == model->open)
        close_member(member, slot, step, updates);
    union value *input = plan->inputs + plan->steps * model->features;
    fill_features(member, step, input);
    learner_time_put(learner, model, input);
    plan_step(member, slot);
}

/* Where a horizon's arrays are in a step's row. */
static double *said_ahead(const struct learner *learner, double *row, size_t horizon) {
    return row + SAID_SHARED * learner->input_row + horizon * said_ahead_size(learner);
}

static void keep_arrays(const double *const *arrays, size_t count, size_t columns, double *row) {
    for (size_t n = 0; n < count; n++)
        memcpy(row + n * columns, arrays[n], columns * sizeof *row);
}

static void keep(struct learner *learner, uint32_t slot, const struct forecast_step *step,
                 bool learn) {
    size_t columns = learner->input_row;
    double *row = learner->said_numbers + learner->steps * learner->said_row;
    const double *const shared[SAID_SHARED] = {[SAID_X] = step->x,
                                               [SAID_UNSEEN] = step->unseen,
                                               [SAID_MEAN] = step->mean,
                                               [SAID_SD] = step->sd};
    keep_arrays(shared, SAID_SHARED, columns, row);
    for (size_t h = 0; h < learner->model->horizons; h++) {
        const struct forecast_horizon *of = &step->of[h];
        const double *const arrays[SAID_EXPERTS] = {
            [SAID_Y] = of->y, [SAID_LAST] = of->last, [SAID_DS] = of->ds, [SAID_AR12] = of->ar12};
        double *ahead = said_ahead(learner, row, h);
        keep_arrays(arrays, SAID_EXPERTS, columns, ahead);
        memcpy(ahead + SAID_EXPERTS * columns, of->experts,
               experts_count(learner->experts) * columns * sizeof *row);
    }
    learner->said[learner->steps] = (struct said){slot, learn, step->number};
}

void forecast_take(struct learner *learner, uint32_t slot, const void *x, bool learn,
                   struct planned *planned) {
    struct forecast_step step;
    denormals_to_zero();
    forecaster_take(learner->forecaster, slot, x, learn, &step);
    keep(learner, slot, &step, learn);
    for (size_t m = 0; m < learner->member_count; m++)
        take_member(learner, &learner->members[m], slot, &step, learn,
                    &planned->planned_updates[m]);
}

/* ---- After the plan has been played ---- */

/* What was said of a step, and of one horizon. */
struct saying {
    const double *shared, *ahead;
    size_t horizon;
};

static struct saying saying_of(const struct learner *learner, size_t step, size_t horizon) {
    double *row = learner->said_numbers + step * learner->said_row;
    return (struct saying){row, said_ahead(learner, row, horizon), horizon};
}

/* What a network says, as a change. */
static double change_of(const struct member *member, const struct saying *said, size_t columns,
                        size_t k, double a) {
    switch (member->model->architecture.output.relative) {
    case RELATIVE_NONE:
        return (said->shared[SAID_MEAN * columns + k] + said->shared[SAID_SD * columns + k] * a -
                said->shared[SAID_X * columns + k]) /
               said->ahead[SAID_DS * columns + k];
    case RELATIVE_AR12:
        return a + said->ahead[SAID_AR12 * columns + k];
    default:
        return a;
    }
}

/* All forecasts of the step and horizon into the table, in changes. */
static void fill_table(struct learner *learner, size_t step, const struct saying *said) {
    size_t columns = learner->input_row, experts = experts_count(learner->experts);
    double *table = learner->table;
    memcpy(table, said->ahead + SAID_EXPERTS * columns, experts * columns * sizeof *table);
    table += experts * columns;
    for (size_t m = 0; m < learner->member_count; m++) {
        const struct member *member = &learner->members[m];
        const float *outputs =
            member->results.outputs + step * member->model->outputs + said->horizon * columns;
        for (size_t k = 0; k < columns; k++)
            *table++ = change_of(member, said, columns, k, (double)outputs[k]);
    }
}

/* Forecasts in original units: x + ds p, and NaN of a column that was never seen. */
static void put_original(const double *p, size_t count, const struct saying *said, size_t columns,
                         double *out) {
    for (size_t n = 0; n < count; n++)
        for (size_t k = 0; k < columns; k++)
            *out++ = said->shared[SAID_X * columns + k] +
                     said->ahead[SAID_DS * columns + k] * *p++ +
                     said->shared[SAID_UNSEEN * columns + k];
}

static size_t ahead_of(const struct learner *learner, size_t horizon) {
    return output_ahead(&learner->model->architecture.output, horizon);
}

/* The x of this step beside what was said of it. */
static void tell(struct learner *learner, const struct planned *example, size_t step,
                 const struct saying *said, double loss) {
    const struct said *how = &learner->said[step];
    for (size_t k = 0; k < learner->input_row; k++)
        learner->truths[k] = isnan(said->ahead[SAID_Y * learner->input_row + k])
                                 ? NAN
                                 : said->shared[SAID_X * learner->input_row + k];
    const struct truth_score came = {
        .loss = loss,
        .target = learner->truths,
        .baseline = said->ahead + SAID_LAST * learner->input_row,
        .horizon = said->horizon,
        .learn = how->learn,
        .tell = example->outputs,
    };
    truth_came(learner->truth, how->slot, ahead_of(learner, said->horizon) - 1, &came);
}

/* The target of the step so many before has come. */
static void settle(struct learner *learner, struct planned *example, size_t step, size_t horizon) {
    const struct said *how = &learner->said[step];
    const struct saying said = saying_of(learner, step, horizon);
    size_t columns = learner->input_row;
    struct mixture_score score = mixture_learn(learner->mixture, how->slot, horizon, how->number,
                                               said.ahead + SAID_Y * columns, how->learn);
    if (score.observed == 0)
        return;
    watch_listen(&learner->watch, horizon);
    example->scored++;
    example->loss_sum += score.loss;
    example->baseline_sum += score.baseline;
    example->squared_error += score.squared_error;
    example->observed += score.observed;
    for (size_t k = 0; k < columns; k++)
        if (!isnan(score.errors[k])) {
            judge_number(&learner->errors.columns[k], score.errors[k], score.of_last[k]);
            watch_number(&learner->watch, k, score.errors[k]);
        }
    watch_score(learner, example, score.loss);
    learner->errors.scored++;
    for (size_t n = 0; n < learner->forecast_count; n++) {
        learner->errors.experts[n].loss += score.losses[n];
        learner->errors.experts[n].weight += score.weights[n];
    }
    tell(learner, example, step, &said, score.loss);
}

/* What is said of one horizon, into the step's row of forecasts. */
static void say(struct learner *learner, const struct planned *example, size_t step,
                size_t horizon) {
    const struct said *how = &learner->said[step];
    const struct saying said = saying_of(learner, step, horizon);
    size_t columns = learner->input_row, count = learner->forecast_count;
    size_t horizons = learner->model->horizons, all = count * columns;
    double *combined = learner->table + all;
    double *row = learner->forecasts + step * learner->forecast_row;
    double *experts = row + horizons * columns + horizon * all;
    fill_table(learner, step, &said);
    mixture_predict(learner->mixture, how->slot, horizon, how->number, learner->table,
                    said.ahead + SAID_DS * columns, combined);
    put_original(combined, 1, &said, columns, row + horizon * columns);
    put_original(learner->table, count, &said, columns, experts);
    if (example->outputs)
        mixture_weights(learner->mixture, how->slot, horizon, experts + horizons * all);
}

void forecast_give(struct learner *learner, struct planned *example, size_t step) {
    const struct said *how = &learner->said[step];
    size_t horizons = learner->model->horizons;
    if (how->number == 0) {
        mixture_begin(learner->mixture, how->slot);
        truth_begin(learner->truth, how->slot);
    }
    for (size_t h = 0; h < horizons && how->number >= ahead_of(learner, h); h++)
        settle(learner, example, step, h);
    watch_step(learner, example, step);
    for (size_t h = 0; h < horizons; h++)
        say(learner, example, step, h);
    const struct truth_step at = beside_step(learner, example);
    const double *row = learner->forecasts + step * learner->forecast_row;
    truth_said(learner->truth, how->slot, &at, row, row + horizons * learner->input_row,
               example->outputs);
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
