/* scale: forecast. While planning, the learner gets the experts' forecasts for each x. Networks
   receive features and targets from them, and the mixture's data is stored by step. After the plan
   has been played, step by step the mixture learns from the target and makes the next forecast. */
#include "experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/denormals.h"
#include "forecast/forecast.h"
#include "forecast/mixture.h"
#include "part.h"
#include "rows.h"
#include "symbols.h"
#include "truths.h"

_Static_assert((int)AHEAD_MAX <= (int)FORECAST_HORIZONS_MAX, "room for all horizons");

/* The arrays (I,) of a step's row; those of the horizons follow. */
enum { SHARED_X, SHARED_UNSEEN, SHARED_MEAN, SHARED_SD, SHARED_ARRAYS };

/* The arrays of a horizon; those of its experts follow. */
enum { AHEAD_Y, AHEAD_LAST, AHEAD_DS, AHEAD_AR12, AHEAD_EXPERTS };

struct planned_step {
    uint32_t slot;
    bool learn;      /* learn from the targets in its x */
    uint64_t number; /* its number in the stream: 0 is the first */
};

struct experts {
    struct part_host *host;
    const struct output *output;
    struct forecaster *forecaster;
    struct mixture *mixture;
    unsigned set; /* the set of experts */
    size_t columns, horizons;
    size_t count; /* experts and members */
    size_t row_size, forecast_row;
    struct forecast_step step;    /* the step in planning */
    struct planned_step *planned; /* (plan_steps,) */
    double *numbers;              /* (plan_steps, row_size) */
    double *forecasts;            /* (plan_steps, forecast_row) as in struct learned */
    struct gathered gathered;
    double *table;   /* (count, columns) and (columns,) */
    double *targets; /* (columns,) */
};

/* ---- Memory ---- */

/* Returns the numbers stored for a horizon. */
static size_t ahead_size(const struct experts *e) {
    return (AHEAD_EXPERTS + experts_count(e->set)) * e->columns;
}

static bool experts_wanted(const struct part_host *host) {
    return inputs_have_experts(host->model);
}

static int experts_open(void **self, struct part_host *host, struct error *error) {
    const struct config *config = host->config;
    struct experts *e = *self = calloc(1, sizeof *e);
    size_t ahead[AHEAD_MAX];
    if (!e)
        return error_no_memory(error);
    e->host = host;
    e->output = &host->model->architecture.output;
    e->set = config->experts;
    e->columns = host->model->target_size;
    e->horizons = host->model->horizons;
    e->count = experts_count(e->set) + host->member_count;
    host->forecasts = e->count;
    e->row_size = SHARED_ARRAYS * e->columns + e->horizons * ahead_size(e);
    e->forecast_row = e->horizons * (1 + 2 * e->count) * e->columns;
    for (size_t h = 0; h < e->horizons; h++)
        ahead[h] = output_ahead(e->output, h);
    host->errors.experts = calloc(e->count + 1, sizeof *host->errors.experts);
    e->table = calloc(e->count + 1, e->columns * sizeof *e->table);
    e->targets = calloc(e->columns, sizeof *e->targets);
    if (!e->table || !e->targets || !host->errors.experts)
        return error_no_memory(error);
    return forecaster_open(&e->forecaster, e->columns, host->model->known, e->set, ahead,
                           e->horizons, host->slots, error) ||
                   mixture_open(&e->mixture, e->columns, e->count, config->combined, ahead,
                                e->horizons, host->slots, error)
               ? -1
               : 0;
}

static void experts_close(void *self) {
    struct experts *e = self;
    forecaster_close(&e->forecaster);
    mixture_close(&e->mixture);
    free(e->planned);
    free(e->numbers);
    free(e->forecasts);
    free(e->gathered.rows);
    free(e->table);
    free(e->targets);
    free(e);
}

static size_t experts_step_bytes(const void *self) {
    const struct experts *e = self;
    return (e->row_size + e->forecast_row) * sizeof(double);
}

static bool experts_plan_open(void *self) {
    struct experts *e = self;
    size_t steps = e->host->plan_steps;
    e->planned = calloc(steps, sizeof *e->planned);
    e->numbers = calloc(steps, e->row_size * sizeof *e->numbers);
    e->forecasts = calloc(steps, e->forecast_row * sizeof *e->forecasts);
    return e->planned && e->numbers && e->forecasts;
}

static void experts_begin(void *self, uint32_t slot, enum part_begin when) {
    const struct experts *e = self;
    forecaster_begin(e->forecaster, slot);
    if (when == BEGIN_NOW)
        mixture_begin(e->mixture, slot);
}

const char *experts_name(const struct part_host *host, size_t n) {
    const struct experts *e = part_find(host, &experts_part);
    if (!e)
        return symbols_row_name(host, n);
    size_t experts = experts_count(e->set);
    if (n < experts)
        return expert_name(experts_at(e->set, n));
    return part_member_name(host, n - experts);
}

/* ---- Planning ---- */

/* Computes the target of a member's network for a horizon: y, or the level, less its base. */
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

/* Computes z and u; v of all horizons; if targets are relative to it, the forecasts of ar12; and
   known values. */
static void fill_features(struct member *member, const struct forecast_step *step) {
    const struct model *model = member->model;
    union value *input = member->plan.inputs + member->plan.steps * model->features;
    size_t columns = model->target_size, horizons = model->horizons;
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
    for (size_t n = 0; n < model->known * (horizons + 1); n++)
        ar12[n].real = (float)step->known[n];
}

/* Scores the predictions of the open steps with this x, horizon by horizon. */
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

/* Writes the targets of the closed step, of all horizons, for solving the output, and returns from
   many of them an update learns from. Excluded targets count as none. They follow the used rows,
   even of a full plan. */
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

/* Closes the oldest open step, then solves the output. The least squares of a readout also forget a
   step without observed targets. */
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

/* Returns a horizon's arrays in a step's row. */
static double *ahead_arrays(const struct experts *e, double *row, size_t horizon) {
    return row + SHARED_ARRAYS * e->columns + horizon * ahead_size(e);
}

static void keep_arrays(const double *const *arrays, size_t count, size_t columns, double *row) {
    for (size_t n = 0; n < count; n++)
        memcpy(row + n * columns, arrays[n], columns * sizeof *row);
}

static void keep(struct experts *e, const struct step *planned) {
    const struct forecast_step *step = &e->step;
    size_t columns = e->columns;
    double *row = e->numbers + planned->number * e->row_size;
    const double *const shared[SHARED_ARRAYS] = {[SHARED_X] = step->x,
                                                 [SHARED_UNSEEN] = step->unseen,
                                                 [SHARED_MEAN] = step->mean,
                                                 [SHARED_SD] = step->sd};
    keep_arrays(shared, SHARED_ARRAYS, columns, row);
    for (size_t h = 0; h < e->horizons; h++) {
        const struct forecast_horizon *of = &step->of[h];
        const double *const arrays[AHEAD_EXPERTS] = {[AHEAD_Y] = of->y,
                                                     [AHEAD_LAST] = of->last,
                                                     [AHEAD_DS] = of->ds,
                                                     [AHEAD_AR12] = of->ar12};
        double *ahead = ahead_arrays(e, row, h);
        keep_arrays(arrays, AHEAD_EXPERTS, columns, ahead);
        memcpy(ahead + AHEAD_EXPERTS * columns, of->experts,
               experts_count(e->set) * columns * sizeof *row);
    }
    e->planned[planned->number] =
        (struct planned_step){planned->slot, planned->example->learn, step->number};
}

/* Computes the networks' input of the step in place of x. */
static void experts_input(void *self, struct step *step) {
    struct experts *e = self;
    denormals_to_zero();
    forecaster_take(e->forecaster, step->slot, step->x, step->example->learn, &e->step);
    keep(e, step);
    for (size_t m = 0; m < e->host->member_count; m++)
        fill_features(&e->host->members[m], &e->step);
}

static void experts_score(void *self, struct step *step) {
    const struct experts *e = self;
    for (size_t m = 0; m < e->host->member_count; m++) {
        struct member *member = &e->host->members[m];
        score_member(member, step->slot, &e->step, step->example->learn);
        if (member->windows[step->slot].open == member->model->open)
            close_member(member, step->slot, &e->step, &e->host->planned->planned_updates[m]);
    }
}

/* ---- After the plan has been played ---- */

/* The arrays of a step, and of one horizon. */
struct step_arrays {
    const double *shared, *ahead;
    size_t horizon;
};

static struct step_arrays arrays_of(const struct experts *e, size_t step, size_t horizon) {
    double *row = e->numbers + step * e->row_size;
    return (struct step_arrays){row, ahead_arrays(e, row, horizon), horizon};
}

/* Converts a network's output to a change. */
static double change_of(const struct member *member, const struct step_arrays *arrays,
                        size_t columns, size_t k, double a) {
    switch (member->model->architecture.output.relative) {
    case RELATIVE_NONE:
        return (arrays->shared[SHARED_MEAN * columns + k] +
                arrays->shared[SHARED_SD * columns + k] * a -
                arrays->shared[SHARED_X * columns + k]) /
               arrays->ahead[AHEAD_DS * columns + k];
    case RELATIVE_AR12:
        return a + arrays->ahead[AHEAD_AR12 * columns + k];
    default:
        return a;
    }
}

/* Writes all forecasts of the step and horizon to the table, as changes. */
static void fill_table(struct experts *e, size_t step, const struct step_arrays *arrays) {
    size_t columns = e->columns, experts = experts_count(e->set);
    double *table = e->table;
    memcpy(table, arrays->ahead + AHEAD_EXPERTS * columns, experts * columns * sizeof *table);
    table += experts * columns;
    for (size_t m = 0; m < e->host->member_count; m++) {
        const struct member *member = &e->host->members[m];
        const float *outputs =
            member->results.outputs + step * member->model->outputs + arrays->horizon * columns;
        for (size_t k = 0; k < columns; k++)
            *table++ = change_of(member, arrays, columns, k, (double)outputs[k]);
    }
}

/* Converts forecasts to original units, x + ds p, with NaN in a column without an observation. */
static void fill_original(const double *p, size_t count, const struct step_arrays *arrays,
                          size_t columns, double *out) {
    for (size_t n = 0; n < count; n++)
        for (size_t k = 0; k < columns; k++)
            *out++ = arrays->shared[SHARED_X * columns + k] +
                     arrays->ahead[AHEAD_DS * columns + k] * *p++ +
                     arrays->shared[SHARED_UNSEEN * columns + k];
}

/* Adds the x of this step as the truth of an earlier forecast. */
static void record_truth(struct experts *e, const struct planned *example, size_t step,
                         const struct step_arrays *arrays, double loss) {
    const struct planned_step *from = &e->planned[step];
    for (size_t k = 0; k < e->columns; k++)
        e->targets[k] = isnan(arrays->ahead[AHEAD_Y * e->columns + k])
                            ? NAN
                            : arrays->shared[SHARED_X * e->columns + k];
    const struct truth_score target = {
        .loss = loss,
        .target = e->targets,
        .baseline = arrays->ahead + AHEAD_LAST * e->columns,
        .horizon = arrays->horizon,
        .learn = from->learn,
        .report = example->outputs,
    };
    truth_add_target(truths_of(e->host), from->slot, output_ahead(e->output, arrays->horizon) - 1,
                     &target);
}

/* Scores the earlier step whose target is this step. */
static void score_target(struct experts *e, struct planned *example, size_t step, size_t horizon) {
    const struct planned_step *from = &e->planned[step];
    const struct step_arrays arrays = arrays_of(e, step, horizon);
    struct learner_errors *errors = &e->host->errors;
    struct mixture_score score = mixture_learn(e->mixture, from->slot, horizon, from->number,
                                               arrays.ahead + AHEAD_Y * e->columns, from->learn);
    if (score.observed == 0)
        return;
    example->squared_error += score.squared_error;
    example->observed += score.observed;
    for (size_t k = 0; k < e->columns; k++)
        if (!isnan(score.errors[k]))
            column_error_add(&errors->columns[k], score.errors[k], score.of_last[k]);
    for (size_t n = 0; n < e->count; n++) {
        errors->experts[n].loss += score.losses[n];
        errors->experts[n].weight += score.weights[n];
    }
    struct scored scored = {
        .number = SIZE_MAX,
        .step = step,
        .horizon = horizon,
        .loss = score.loss,
        .baseline = score.baseline,
        .errors = score.errors,
        .of_baseline = score.of_last,
    };
    e->host->score(e->host, example, &scored);
    record_truth(e, example, step, &arrays, score.loss);
}

/* Computes the forecast of one horizon in the step's row. */
static void predict(struct experts *e, const struct planned *example, size_t step, size_t horizon) {
    const struct planned_step *from = &e->planned[step];
    const struct step_arrays arrays = arrays_of(e, step, horizon);
    size_t columns = e->columns, all = e->count * columns;
    double *combined = e->table + all;
    double *row = e->forecasts + step * e->forecast_row;
    double *experts = row + e->horizons * columns + horizon * all;
    fill_table(e, step, &arrays);
    mixture_predict(e->mixture, from->slot, horizon, from->number, e->table,
                    arrays.ahead + AHEAD_DS * columns, combined);
    fill_original(combined, 1, &arrays, columns, row + horizon * columns);
    fill_original(e->table, e->count, &arrays, columns, experts);
    if (example->outputs)
        mixture_weights(e->mixture, from->slot, horizon, experts + e->horizons * all);
}

const double *experts_changes(const struct part_host *host, size_t step, size_t horizon) {
    const struct experts *e = part_find(host, &experts_part);
    return ahead_arrays(e, e->numbers + step * e->row_size, horizon) + AHEAD_DS * e->columns;
}

struct experts_step experts_step(const struct part_host *host, size_t step) {
    const struct experts *e = part_find(host, &experts_part);
    const struct planned_step *from = &e->planned[step];
    const double *row = e->forecasts + step * e->forecast_row;
    return (struct experts_step){
        .slot = from->slot,
        .learn = from->learn,
        .number = from->number,
        .combined = row,
        .experts = row + e->horizons * e->columns,
        .count = e->count,
    };
}

static void experts_played(void *self, struct planned *example, size_t step) {
    struct experts *e = self;
    struct truth *truth = truths_of(e->host);
    const struct planned_step *from = &e->planned[step];
    if (from->number == 0) {
        mixture_begin(e->mixture, from->slot);
        truth_begin(truth, from->slot);
    }
    for (size_t h = 0; h < e->horizons && from->number >= output_ahead(e->output, h); h++)
        score_target(e, example, step, h);
    for (size_t h = 0; h < e->horizons; h++)
        predict(e, example, step, h);
    const struct truth_step at = truths_step(e->host, example);
    const double *row = e->forecasts + step * e->forecast_row;
    truth_add_prediction(truth, from->slot, &at, row, row + e->horizons * e->columns,
                         example->outputs);
    example->given_steps++;
}

static bool experts_needs_outputs(const void *self) {
    return (void)self, true;
}

static int experts_gather(void *self, const struct planned *example, size_t first_step,
                          struct error *error) {
    struct experts *e = self;
    return parts_gather(&e->gathered, example, e->forecasts + first_step * e->forecast_row,
                        e->forecast_row * sizeof *e->forecasts, error);
}

static void experts_report(void *self, const struct planned *example, const struct given *given) {
    const struct experts *e = self;
    given->learned->forecast_row = e->forecast_row;
    given->learned->forecasts = !example->outputs ? NULL
                                : example->gathered_steps
                                    ? e->gathered.rows
                                    : e->forecasts + given->first_step * e->forecast_row;
}

/* ---- Checkpoints ---- */

static size_t states_size(const struct state_place *p) {
    return forecaster_size(((struct experts *)p->self)->forecaster);
}

static void *states_at(const struct state_place *p, size_t n) {
    return (void)n, forecaster_state(((struct experts *)p->self)->forecaster, p->slot);
}

static size_t mixture_numbers(const struct state_place *p) {
    return mixture_size(((struct experts *)p->self)->mixture);
}

static void *mixture_at(const struct state_place *p, size_t n) {
    return (void)n, mixture_state(((struct experts *)p->self)->mixture, p->slot);
}

static const char *experts_valid(void *self, uint32_t slot) {
    const struct experts *e = self;
    size_t open = 0;
    for (size_t m = 0; m < e->host->member_count; m++)
        if (e->host->members[m].windows[slot].open > open)
            open = e->host->members[m].windows[slot].open;
    return forecaster_state_valid(e->forecaster, forecaster_state(e->forecaster, slot), open) &&
                   mixture_state_valid(e->mixture, mixture_state(e->mixture, slot))
               ? NULL
               : "streams.experts";
}

static const struct state_row rows[] = {
    STATE_ROW("streams.experts", F64, 0, .size = states_size, .at = states_at),
    STATE_ROW("streams.mixture", F64, 0, .size = mixture_numbers, .at = mixture_at),
};

const struct part_kind experts_part = {
    .name = "experts",
    .wanted = experts_wanted,
    .open = experts_open,
    .close = experts_close,
    .step_bytes = experts_step_bytes,
    .plan_open = experts_plan_open,
    .begin = experts_begin,
    .input = experts_input,
    .score = experts_score,
    .needs_outputs = experts_needs_outputs,
    .played = experts_played,
    .gather = experts_gather,
    .report = experts_report,
    STATE_ROWS(rows),
    .valid = experts_valid,
};
