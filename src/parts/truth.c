#include "truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "forecast/conformal.h"

/* Numbers before the arrays of a row, in a kept prediction and in a pair. */
enum { ROW_EXAMPLE, ROW_TIME, ROW_STEP, ROW_KEPT, ROW_LOSS = ROW_KEPT, ROW_HORIZON, ROW_PAIR };

/* Offsets of the arrays in a row, and its total `size`. */
struct row {
    size_t prediction, bounds, experts, target, baseline, notes, size;
};

struct truth {
    struct truth_shape shape;
    struct conformal *conformal; /* NULL without columns */
    size_t columns;              /* columns of all horizons */
    struct row kept, pair;
    size_t state_size;
    double *states; /* (slots, state_size): the count of predictions, and a ring of the newest */
    struct truth_coverage coverage;

    double *rows; /* (row_room, pair.size) */
    size_t row_count, row_room;
    double *bounds; /* (step_room, bounds_size): (horizons, columns, 2), then notes */
    size_t bounds_size, step_count, step_room;
};

/* ---- Memory ---- */

static struct row row_of(size_t numbers, size_t prediction, size_t columns, size_t experts,
                         size_t targets, size_t baseline, size_t notes) {
    struct row row = {.prediction = numbers};
    row.bounds = row.prediction + prediction;
    row.experts = row.bounds + 2 * columns;
    row.target = row.experts + experts;
    row.baseline = row.target + targets;
    row.notes = row.baseline + baseline;
    row.size = row.notes + notes;
    return row;
}

static int make_room(struct truth *truth, size_t steps, size_t scores) {
    double *rows = realloc(truth->rows, scores * truth->pair.size * sizeof *rows);
    if (!rows)
        return -1;
    truth->rows = rows;
    truth->row_room = scores;
    if (!truth->shape.columns) {
        truth->step_room = steps;
        return 0;
    }
    double *bounds = realloc(truth->bounds, steps * truth->bounds_size * sizeof *bounds);
    if (!bounds)
        return -1;
    truth->bounds = bounds;
    truth->step_room = steps;
    return 0;
}

int truth_open(struct truth **truth, const struct truth_shape *shape, struct error *error) {
    struct truth *made = *truth = calloc(1, sizeof *made);
    bool good = false;
    if (made) {
        made->shape = *shape;
        made->columns = shape->horizons * shape->columns;
        made->bounds_size = 2 * made->columns + shape->step_notes;
        made->kept = row_of(ROW_KEPT, shape->keeps ? shape->horizons * shape->numbers : 0,
                            made->columns, shape->horizons * shape->experts, 0, 0, 0);
        made->pair = row_of(ROW_PAIR, shape->numbers, shape->columns, shape->experts,
                            shape->targets, shape->numbers, shape->pair_notes);
        made->state_size = 1 + shape->open * made->kept.size;
        made->states = calloc(shape->slots, made->state_size * sizeof *made->states);
        good = made->states && make_room(made, shape->steps, shape->scores) == 0;
    }
    if (good && (!shape->columns ||
                 conformal_open(&made->conformal, made->columns, shape->slots, error) == 0))
        return 0;
    truth_close(truth);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the predictions of %zu streams: lower learning.max_streams",
                     shape->slots);
}

void truth_close(struct truth **truth) {
    if (*truth) {
        conformal_close(&(*truth)->conformal);
        free((*truth)->states);
        free((*truth)->rows);
        free((*truth)->bounds);
    }
    free(*truth);
    *truth = NULL;
}

int truth_clear(struct truth *truth, size_t scores, size_t steps) {
    size_t row = truth->pair.size, bounds = truth->bounds_size;
    truth->row_count -= scores;
    truth->step_count -= steps;
    if (truth->row_count)
        memmove(truth->rows, truth->rows + scores * row,
                truth->row_count * row * sizeof *truth->rows);
    if (truth->step_count && bounds)
        memmove(truth->bounds, truth->bounds + steps * bounds,
                truth->step_count * bounds * sizeof *truth->bounds);
    steps = truth->step_count + truth->shape.steps;
    scores = truth->row_count + truth->shape.scores;
    if (steps <= truth->step_room && scores <= truth->row_room)
        return 0;
    return make_room(truth, steps, scores);
}

/* ---- Predictions and truths ---- */

/* Returns the state of a stream: the count of predictions, and the ring. */
static double *state_of(const struct truth *truth, uint32_t slot) {
    return truth->states + slot * truth->state_size;
}

static double *kept_of(const struct truth *truth, double *state, uint64_t number) {
    return state + 1 + number % truth->shape.open * truth->kept.size;
}

void truth_begin(struct truth *truth, uint32_t slot) {
    memset(state_of(truth, slot), 0, truth->state_size * sizeof(double));
    if (truth->conformal)
        conformal_begin(truth->conformal, slot);
}

static void copy(double *to, const double *from, size_t count) {
    if (from && count)
        memcpy(to, from, count * sizeof *to);
}

void truth_add_prediction(struct truth *truth, uint32_t slot, const struct truth_step *step,
                          const double *prediction, const double *experts, bool report) {
    const struct truth_shape *shape = &truth->shape;
    double *state = state_of(truth, slot), *row = kept_of(truth, state, (uint64_t)*state);
    double *bounds = row + truth->kept.bounds;
    ++*state;
    row[ROW_EXAMPLE] = (double)step->example;
    row[ROW_TIME] = step->time;
    row[ROW_STEP] = (double)step->step;
    copy(row + truth->kept.prediction, prediction,
         shape->keeps ? shape->horizons * shape->numbers : 0);
    copy(row + truth->kept.experts, experts, shape->horizons * shape->experts);
    for (size_t k = 0; k < truth->columns; k++) {
        size_t number = k / shape->columns * shape->numbers + k % shape->columns;
        struct conformal_bounds b = conformal_bounds(truth->conformal, slot, k, prediction[number]);
        bounds[2 * k] = b.low;
        bounds[2 * k + 1] = b.high;
    }
    if (!report)
        return;
    copy(truth->bounds + truth->step_count * truth->bounds_size, bounds, 2 * truth->columns);
    truth->step_count++;
}

/* Updates intervals, and counts how many contain the truth. */
static void learn_intervals(struct truth *truth, uint32_t slot, const double *kept,
                            const struct truth_score *score) {
    struct truth_coverage *c = &truth->coverage;
    size_t first = score->horizon * truth->shape.columns;
    const double *p = kept + truth->kept.prediction + score->horizon * truth->shape.numbers;
    const double *bounds = kept + truth->kept.bounds + 2 * first;
    double numbers = 0, held = 0;
    for (size_t k = 0; k < truth->shape.columns; k++) {
        const struct conformal_bounds b = {bounds[2 * k], bounds[2 * k + 1]};
        if (isnan(score->target[k]) || isnan(p[k]))
            continue;
        numbers += !isnan(b.low);
        held += conformal_holds(b, score->target[k]);
        if (score->learn)
            conformal_learn(truth->conformal, slot, first + k, p[k], b, score->target[k]);
    }
    if (numbers == 0)
        return;
    c->numbers += numbers;
    c->held += held;
    c->recent_weight = TRUTH_RECENT * c->recent_weight + (1 - TRUTH_RECENT);
    /* If all intervals contained their truths, rounding must not make the share larger than 1. */
    c->recent_held = fmin(TRUTH_RECENT * c->recent_held + (1 - TRUTH_RECENT) * (held / numbers),
                          c->recent_weight);
}

static void add_pair(struct truth *truth, const double *kept, const struct truth_score *score) {
    const struct truth_shape *shape = &truth->shape;
    const struct row *from = &truth->kept, *to = &truth->pair;
    double *row = truth->rows + truth->row_count++ * to->size;
    memcpy(row, kept, ROW_KEPT * sizeof *row);
    row[ROW_LOSS] = score->loss;
    row[ROW_HORIZON] = (double)score->horizon;
    copy(row + to->prediction,
         shape->keeps ? kept + from->prediction + score->horizon * shape->numbers : score->again,
         shape->numbers);
    copy(row + to->bounds, kept + from->bounds + 2 * score->horizon * shape->columns,
         2 * shape->columns);
    for (size_t k = 0; k < shape->numbers; k++)
        row[to->baseline + k] = score->baseline ? score->baseline[k] : NAN;
    copy(row + to->experts, kept + from->experts + score->horizon * shape->experts, shape->experts);
    copy(row + to->target, score->target, shape->targets);
}

void truth_add_target(struct truth *truth, uint32_t slot, size_t age,
                      const struct truth_score *score) {
    double *state = state_of(truth, slot);
    if (*state < (double)age + 1)
        return;
    const double *kept = kept_of(truth, state, (uint64_t)*state - 1 - age);
    if (truth->shape.columns)
        learn_intervals(truth, slot, kept, score);
    if (score->report)
        add_pair(truth, kept, score);
}

/* ---- Pairs ---- */

size_t truth_count(const struct truth *truth) {
    return truth->row_count;
}

size_t truth_steps(const struct truth *truth) {
    return truth->step_count;
}

struct truth_pair truth_pair(const struct truth *truth, size_t n) {
    const struct row *pair = &truth->pair;
    const double *row = truth->rows + n * pair->size;
    return (struct truth_pair){
        .step = {(uint64_t)row[ROW_EXAMPLE], row[ROW_TIME], (size_t)row[ROW_STEP]},
        .horizon = (size_t)row[ROW_HORIZON],
        .loss = row[ROW_LOSS],
        .prediction = row + pair->prediction,
        .bounds = truth->shape.columns ? row + pair->bounds : NULL,
        .target = row + pair->target,
        .baseline = row + pair->baseline,
        .experts = truth->shape.experts ? row + pair->experts : NULL,
        .notes = row + pair->notes,
    };
}

const double *truth_bounds(const struct truth *truth, size_t step) {
    return truth->columns ? truth->bounds + step * truth->bounds_size : NULL;
}

double *truth_next_notes(const struct truth *truth) {
    return truth->rows + truth->row_count * truth->pair.size + truth->pair.notes;
}

double *truth_step_notes(const struct truth *truth, size_t step) {
    return truth->bounds + step * truth->bounds_size + 2 * truth->columns;
}

const struct truth_shape *truth_shape(const struct truth *truth) {
    return &truth->shape;
}

/* ---- Coverage of intervals ---- */

struct truth_coverage truth_coverage(const struct truth *truth) {
    return truth->coverage;
}

void truth_write_coverage(struct truth *truth, const struct truth_coverage *coverage) {
    truth->coverage = *coverage;
}

double truth_held(const struct truth_coverage *c) {
    return c->numbers > 0 ? c->held / c->numbers : NAN;
}

double truth_held_recently(const struct truth_coverage *c) {
    return c->recent_weight > 0 ? c->recent_held / c->recent_weight : NAN;
}

/* ---- For checkpoints ---- */

struct truth_state truth_state(struct truth *truth, uint32_t slot) {
    struct truth_state state = {.predictions = state_of(truth, slot),
                                .predictions_size = truth->state_size};
    if (!truth->conformal)
        return state;
    state.levels = conformal_state(truth->conformal, slot);
    state.errors = conformal_errors(truth->conformal, slot);
    state.levels_size = truth->columns * CONFORMAL_STATE;
    state.errors_size = truth->columns * CONFORMAL_ERRORS;
    return state;
}

static bool is_count(double number) {
    static const double most = 9007199254740992.0; /* 2^53: whole numbers are exact up to here */
    return number >= 0 && number <= most && number == floor(number);
}

bool truth_valid(const struct truth *truth, uint32_t slot) {
    const double *state = state_of(truth, slot);
    for (size_t n = 0; n < truth->shape.open; n++) {
        const double *row = state + 1 + n * truth->kept.size;
        if (!is_count(row[ROW_EXAMPLE]) || !is_count(row[ROW_STEP]) || !isfinite(row[ROW_TIME]))
            return false;
    }
    return is_count(*state) && (!truth->conformal || conformal_valid(truth->conformal, slot));
}

bool truth_written(struct truth *truth, uint32_t slot) {
    return truth_valid(truth, slot) &&
           (!truth->conformal || conformal_written(truth->conformal, slot));
}
