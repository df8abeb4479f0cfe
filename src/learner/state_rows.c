#include "state_rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "learner_internal.h"
#include "scaler.h"

/* ---- Of the learner and its members ---- */

static int read_updates(const struct state_place *p, void *numbers, struct error *error) {
    return learner_read(p->learner, p->member, ENGINE_UPDATES, 0, numbers, error);
}

static int write_updates(const struct state_place *p, const void *numbers, struct error *error) {
    return learner_write(p->learner, p->member, ENGINE_UPDATES, 0, numbers, error);
}

static size_t solution_size(const struct state_place *p) {
    const struct model *model = p->learner->members[p->member].model;
    if (!model->solved)
        return 0;
    const struct least_squares solution = engine_solution(model);
    return least_squares_size(&solution);
}

static int read_solution(const struct state_place *p, void *numbers, struct error *error) {
    return learner_read(p->learner, p->member, ENGINE_SOLUTION, 0, numbers, error);
}

static int write_solution(const struct state_place *p, const void *numbers, struct error *error) {
    if (!finite_within(numbers, solution_size(p), DBL_MAX))
        return 1;
    return learner_write(p->learner, p->member, ENGINE_SOLUTION, 0, numbers, error);
}

enum {
    COUNTERS = sizeof(struct learner_counters) / sizeof(uint64_t),
    RATES = 4,
    COVERAGE = 4,
    THRESHOLDS = 2
};
_Static_assert(sizeof(struct learner_rates) == RATES * sizeof(double), "one row");
_Static_assert(sizeof(struct truth_coverage) == COVERAGE * sizeof(double), "one row");
_Static_assert(sizeof(struct learner_thresholds) == THRESHOLDS * sizeof(double), "one row");

static void *counters_at(const struct state_place *p, size_t n) {
    return (void)n, &p->learner->counters;
}

static int counters_filled(const struct state_place *p) {
    p->learner->taken = p->learner->counters.examples;
    return 0;
}

static void *rates_at(const struct state_place *p, size_t n) {
    return (void)n, &p->learner->members[p->member].rates;
}

static bool is_rate(double rate) {
    return (isfinite(rate) && rate >= 0) || rate == RATE_AUTO;
}

static bool is_clip(double clip) {
    return isfinite(clip) && clip >= 0;
}

static int rates_filled(const struct state_place *p) {
    const struct learner_rates *r = &p->learner->members[p->member].rates;
    return !is_rate(r->rate) || !is_rate(r->configured_rate) || !is_clip(r->clip) ||
           !is_clip(r->configured_clip);
}

static size_t backwards_size(const struct state_place *p) {
    return p->learner->time.kept != NULL;
}

static void *backwards_at(const struct state_place *p, size_t n) {
    return (void)n, &p->learner->time.backwards;
}

static size_t coverage_size(const struct state_place *p) {
    return p->learner->truth != NULL;
}

static int read_coverage(const struct state_place *p, void *numbers, struct error *error) {
    const struct truth_coverage coverage = truth_coverage(p->learner->truth);
    memcpy(numbers, &coverage, sizeof coverage);
    return (void)error, 0;
}

/* Earlier versions wrote a share above 1 by rounding. */
static const double coverage_rounding = 1e-9;

static int write_coverage(const struct state_place *p, const void *numbers, struct error *error) {
    struct truth_coverage c;
    memcpy(&c, numbers, sizeof c);
    if (c.recent_held > c.recent_weight &&
        c.recent_held <= c.recent_weight * (1 + coverage_rounding))
        c.recent_held = c.recent_weight;
    if (!(c.held >= 0 && c.numbers >= c.held && c.recent_held >= 0 &&
          c.recent_weight >= c.recent_held && isfinite(c.numbers + c.recent_weight)))
        return 1;
    truth_write_coverage(p->learner->truth, &c);
    return (void)error, 0;
}

static size_t thresholds_size(const struct state_place *p) {
    return learner_watches(p->learner);
}

static int read_thresholds(const struct state_place *p, void *numbers, struct error *error) {
    const struct learner_thresholds thresholds = learner_thresholds(p->learner);
    memcpy(numbers, &thresholds, sizeof thresholds);
    return (void)error, 0;
}

static int write_thresholds(const struct state_place *p, const void *numbers, struct error *error) {
    struct learner_thresholds t;
    memcpy(&t, numbers, sizeof t);
    if (!(t.threshold >= 0 && t.configured >= 0 && isfinite(t.threshold + t.configured)))
        return 1;
    learner_write_thresholds(p->learner, &t);
    return (void)error, 0;
}

/* ---- Scalers ---- */

/* Fields of the scaler of inputs; those of targets follow. */
enum { SCALER_COUNTS, SCALER_MEANS, SCALER_SQUARES, SCALER_VALUES, SCALER_FIELDS };

static struct scaler *scaler_of(const struct state_place *p) {
    return p->row->which < SCALER_FIELDS ? p->learner->scaler : p->learner->output_scaler;
}

static size_t scaler_rows(const struct state_place *p) {
    const struct scaler *scaler = scaler_of(p);
    bool values = p->row->which % SCALER_FIELDS == SCALER_VALUES;
    return scaler && (!values || scaler_first(scaler, 0)) ? scaler_size(scaler) : 0;
}

static void *values_at(const struct state_place *p, size_t n) {
    return (void)n, scaler_first(scaler_of(p), 0);
}

static int values_filled(const struct state_place *p) {
    return !finite_floats(scaler_first(scaler_of(p), 0), scaler_rows(p) * SCALER_FIRST);
}

static void *field_of(const struct state_place *p, struct scaler_number *number) {
    switch (p->row->which % SCALER_FIELDS) {
    case SCALER_COUNTS:
        return &number->count;
    case SCALER_MEANS:
        return &number->mean;
    default:
        return &number->squares;
    }
}

static int read_scaler(const struct state_place *p, void *numbers, struct error *error) {
    for (size_t k = 0; k < scaler_rows(p); k++) {
        struct scaler_number number = scaler_read(scaler_of(p), k);
        memcpy((double *)numbers + k, field_of(p, &number), sizeof(double));
    }
    return (void)error, 0;
}

static int write_scaler(const struct state_place *p, const void *numbers, struct error *error) {
    for (size_t k = 0; k < scaler_rows(p); k++) {
        struct scaler_number number = scaler_read(scaler_of(p), k);
        memcpy(field_of(p, &number), (const double *)numbers + k, sizeof(double));
        if (!isfinite(number.mean) || !isfinite(number.squares) || number.squares < 0)
            return 1;
        scaler_write(scaler_of(p), k, &number);
    }
    return (void)error, 0;
}

/* ---- Windows and records of members' engines ---- */

enum { WINDOW = 5 };

static int read_window(const struct state_place *p, void *numbers, struct error *error) {
    const struct learner_window w = p->learner->members[p->member].windows[p->slot];
    const int64_t row[WINDOW] = {w.next, w.length, w.closed, w.terms, w.open};
    memcpy(numbers, row, sizeof row);
    return (void)error, 0;
}

static bool window_valid(const struct learner *learner, const struct member *member,
                         const struct learner_window *window) {
    enum target target = learner->model->architecture.output.target;
    size_t least = target == TARGET_NEXT, most = target == TARGET_GIVEN ? 0 : member->model->open;
    bool begun = !window->next && !window->length && !window->closed && !window->terms;
    if (begun && !window->open) /* no step since a member's reset, or since windows began anew */
        return true;
    return window->next < model_ring(member->model, member->window) &&
           window->length <= member->window && window->closed <= window->length &&
           window->closed < member->stride &&
           window->terms <= window->closed * member->model->horizons && window->open >= least &&
           window->open <= most;
}

static int write_window(const struct state_place *p, const void *numbers, struct error *error) {
    struct member *member = &p->learner->members[p->member];
    int64_t w[WINDOW];
    memcpy(w, numbers, sizeof w);
    for (size_t n = 0; n < WINDOW; n++)
        if (w[n] < 0 || w[n] > INT32_MAX)
            return 1;
    member->windows[p->slot] = (struct learner_window){
        (uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], (uint32_t)w[4]};
    return (void)error, !window_valid(p->learner, member, &member->windows[p->slot]);
}

/* A slot's record, as model.h has it: positions follow the state and what is kept by place, each of
   them state, x, the targets of all horizons, and for each a mark: it is to be learned from. */
struct record {
    const struct model *model;
    const float *positions;
    size_t ring, stride;
};

static struct record record_of(const struct learner *learner, size_t m, const float *numbers) {
    const struct model *model = learner->members[m].model;
    size_t ring = learner_ring(learner, m), places = model->open == 1 ? 1 : ring;
    size_t solved = model->solved ? model->solved - 1 : 0;
    return (struct record){
        model, numbers + model->state_size + places * (model->outputs + solved), ring,
        model->state_size + model->features + model->horizons * (model->target_size + 1)};
}

static const float *targets_of(const struct record *record, size_t position) {
    return record->positions + position * record->stride + record->model->state_size +
           record->model->features;
}

static const float *marks_of(const struct record *record, size_t position) {
    return targets_of(record, position) + record->model->horizons * record->model->target_size;
}

static bool record_finite(const struct learner *learner, size_t m, const float *numbers) {
    const struct record record = record_of(learner, m, numbers);
    size_t size = record.model->state_size;
    bool finite = finite_floats(numbers, size);
    for (size_t p = 0; p < record.ring; p++)
        finite &= finite_floats(record.positions + p * record.stride, size);
    return finite;
}

static bool symbol_fits(const float *bits, size_t size, bool sign) {
    uint32_t id;
    memcpy(&id, bits, sizeof id);
    return (sign ? id & ~SYMBOL_MINUS : id) < size;
}

/* Of the engine's x (features,). A symbol of columns, or a hashed one, may count as minus its row.
 */
static bool input_fits(const struct model *model, const float *x) {
    const struct input *input = &model->architecture.input;
    for (size_t n = 0; n < model->part_count; n++) {
        const struct input_part *part = &model->parts[n];
        if (part->size && !symbol_fits(x + part->from, part->size, true))
            return false;
    }
    return input->kind != INPUT_SYMBOL || symbol_fits(x, input->size, input->hash > 0);
}

/* Symbols of the alphabet, classes of the output, and as many targets among the closed steps as the
   window says. */
static bool record_fits(const struct record *record, const struct learner_window *window) {
    const struct model *model = record->model;
    const struct output *output = &model->architecture.output;
    bool classes = loss_kind(output->loss)->class_id;
    size_t terms = 0;
    for (size_t p = 0; p < record->ring; p++) {
        const float *y = targets_of(record, p), *marks = marks_of(record, p);
        size_t age = (window->next + record->ring - p) % record->ring; /* before the next step */
        bool closed = age > window->open && age <= window->open + window->closed;
        if (!input_fits(model, y - model->features))
            return false;
        for (size_t h = 0; h < model->horizons; h++) {
            if ((marks[h] != 0 && marks[h] != 1) ||
                (marks[h] == 1 && classes &&
                 !symbol_fits(y + h * model->target_size, output->size, false)))
                return false;
            terms += closed && marks[h] == 1;
        }
    }
    return terms == window->terms;
}

/* Open steps have as many targets to be learned from as the record has marks. */
static bool open_fits(struct learner *learner, const struct record *record, uint32_t slot) {
    const struct learner_window *window = &learner->members[0].windows[slot];
    for (size_t age = 1; age <= window->open; age++) {
        size_t position = plan_position(&learner->members[0], slot, age), terms = 0;
        for (size_t h = 0; h < record->model->horizons; h++)
            terms += marks_of(record, position)[h] == 1;
        if (learner_open_step(learner, slot, position)->terms != terms)
            return false;
    }
    return true;
}

/* Its state is all that goes on where windows begin anew. */
static size_t record_lasting(const struct state_place *p) {
    return p->learner->members[p->member].model->state_size;
}

static size_t record_size(const struct state_place *p) {
    return learner_record_size(p->learner, p->member);
}

static int read_record(const struct state_place *p, void *numbers, struct error *error) {
    return learner_read(p->learner, p->member, ENGINE_SLOT, p->slot, numbers, error);
}

static int write_record(const struct state_place *p, const void *numbers, struct error *error) {
    const struct record record = record_of(p->learner, p->member, numbers);
    bool opens = p->member == 0 && p->learner->opens && record.model->open > 1;
    if (!record_finite(p->learner, p->member, numbers) ||
        !record_fits(&record, &p->learner->members[p->member].windows[p->slot]) ||
        (opens && !open_fits(p->learner, &record, p->slot)))
        return 1;
    return learner_write(p->learner, p->member, ENGINE_SLOT, p->slot, numbers, error);
}

/* ---- Inputs ---- */

static size_t held_size(const struct state_place *p) {
    return p->learner->held ? p->learner->input_row : 0;
}

static void *held_at(const struct state_place *p, size_t n) {
    return (void)n, learner_held(p->learner, p->slot);
}

static size_t times_size(const struct state_place *p) {
    return p->learner->time.kept ? LEARNER_TIMES : 0;
}

static void *times_at(const struct state_place *p, size_t n) {
    return (void)n, learner_times(p->learner, p->slot);
}

/* ---- Open steps and targets ---- */

/* With given targets none is open for long. */
static bool waits(const struct learner *learner) {
    return learner->model->architecture.output.target != TARGET_GIVEN;
}

static size_t scales_size(const struct state_place *p) {
    const struct learner *learner = p->learner;
    return learner->scales && waits(learner) ? learner->places * 2 * learner->target_row : 0;
}

static void *scales_at(const struct state_place *p, size_t n) {
    return (void)n, learner_scale(p->learner, p->slot, 0);
}

static size_t bases_size(const struct state_place *p) {
    const struct learner *learner = p->learner;
    return learner->bases && waits(learner) ? learner->places * learner->target_row : 0;
}

static void *bases_at(const struct state_place *p, size_t n) {
    return (void)n, learner_base(p->learner, p->slot, 0);
}

static size_t lasts_size(const struct state_place *p) {
    return p->learner->lasts ? p->learner->target_row : 0;
}

static void *lasts_at(const struct state_place *p, size_t n) {
    return (void)n, learner_last(p->learner, p->slot);
}

enum { OPEN = 6 };

static size_t open_size(const struct state_place *p) {
    return p->learner->opens && p->learner->model->open > 1 ? p->learner->places * OPEN : 0;
}

static int read_open(const struct state_place *p, void *numbers, struct error *error) {
    for (size_t place = 0; place < p->learner->places; place++) {
        const struct learner_open *open = learner_open_step(p->learner, p->slot, place);
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
    for (size_t place = 0; place < p->learner->places; place++) {
        int64_t n[OPEN];
        memcpy(n, (const int64_t *)numbers + place * OPEN, sizeof n);
        *learner_open_step(p->learner, p->slot, place) =
            (struct learner_open){.producer = (uint64_t)n[0],
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

static size_t open_times_size(const struct state_place *p) {
    bool later = p->learner->model->architecture.output.target == TARGET_LATER;
    return p->learner->opens && later ? p->learner->places : 0;
}

static int read_open_times(const struct state_place *p, void *numbers, struct error *error) {
    for (size_t place = 0; place < p->learner->places; place++)
        memcpy((double *)numbers + place, &learner_open_step(p->learner, p->slot, place)->time,
               sizeof(double));
    return (void)error, 0;
}

static int write_open_times(const struct state_place *p, const void *numbers, struct error *error) {
    for (size_t place = 0; place < p->learner->places; place++)
        memcpy(&learner_open_step(p->learner, p->slot, place)->time,
               (const double *)numbers + place, sizeof(double));
    return (void)error, !finite_within(numbers, p->learner->places, DBL_MAX);
}

static size_t open_classes_size(const struct state_place *p) {
    return words_of_classes(p->learner) && waits(p->learner) ? p->learner->places : 0;
}

static int read_open_classes(const struct state_place *p, void *numbers, struct error *error) {
    for (size_t place = 0; place < p->learner->places; place++)
        memcpy((uint64_t *)numbers + place, &learner_open_step(p->learner, p->slot, place)->classes,
               sizeof(uint64_t));
    return (void)error, 0;
}

static int write_open_classes(const struct state_place *p, const void *numbers,
                              struct error *error) {
    uint64_t most = words_of_classes(p->learner)->count;
    for (size_t place = 0; place < p->learner->places; place++) {
        uint64_t *classes = &learner_open_step(p->learner, p->slot, place)->classes;
        memcpy(classes, (const uint64_t *)numbers + place, sizeof *classes);
        if (*classes > most)
            return 1;
    }
    return (void)error, 0;
}

/* All classes that the file has appeared before these steps. */
static void open_classes_lacked(const struct state_place *p) {
    for (size_t place = 0; place < p->learner->places; place++)
        learner_open_step(p->learner, p->slot, place)->classes =
            words_of_classes(p->learner)->count;
}

/* ---- Forecasts and baseline ---- */

static size_t experts_size(const struct state_place *p) {
    return p->learner->forecaster ? forecaster_size(p->learner->forecaster) : 0;
}

static void *expert_states_at(const struct state_place *p, size_t n) {
    return (void)n, forecaster_state(p->learner->forecaster, p->slot);
}

static size_t mixture_numbers(const struct state_place *p) {
    return p->learner->forecaster ? mixture_size(p->learner->mixture) : 0;
}

static void *mixture_at(const struct state_place *p, size_t n) {
    return (void)n, mixture_state(p->learner->mixture, p->slot);
}

/* Each horizon has one, after another. */
static uint32_t first_baseline(const struct state_place *p) {
    return p->slot * (uint32_t)p->learner->model->horizons;
}

static size_t baseline_numbers(const struct state_place *p) {
    const struct baseline *baseline = p->learner->baseline;
    return baseline ? p->learner->model->horizons * baseline_size(baseline) : 0;
}

static void *baseline_at(const struct state_place *p, size_t n) {
    return (void)n, baseline_state(p->learner->baseline, first_baseline(p));
}

static void baseline_lacked(const struct state_place *p) {
    for (uint32_t h = 0; h < p->learner->model->horizons; h++)
        baseline_lost(p->learner->baseline, first_baseline(p) + h);
}

/* ---- Truths ---- */

static struct truth_state truths_of(const struct state_place *p) {
    struct truth *truth = p->learner->truth;
    return truth ? truth_state(truth, p->slot) : (struct truth_state){0};
}

enum { TRUTH_SAID, TRUTH_LEVELS, TRUTH_ERRORS };

static size_t truths_size(const struct state_place *p) {
    const struct truth_state s = truths_of(p);
    return p->row->which == TRUTH_SAID     ? s.said_size
           : p->row->which == TRUTH_LEVELS ? s.levels_size
                                           : s.errors_size;
}

static void *truths_at(const struct state_place *p, size_t n) {
    const struct truth_state s = truths_of(p);
    return (void)n, p->row->which == TRUTH_SAID     ? (void *)s.said
                    : p->row->which == TRUTH_LEVELS ? (void *)s.levels
                                                    : (void *)s.errors;
}

/* ---- Anomalies ---- */

static struct anomaly_state anomalies_of(const struct state_place *p) {
    struct anomaly *anomaly = p->learner->watch.anomaly;
    return anomaly ? anomaly_state(anomaly, p->slot) : (struct anomaly_state){0};
}

static size_t anomalies_size(const struct state_place *p) {
    return anomalies_of(p).numbers_size;
}

static size_t shared_size(const struct state_place *p) {
    return learner_shared(p->learner) ? anomalies_of(p).numbers_size : 0;
}

static void *anomalies_at(const struct state_place *p, size_t n) {
    return (void)n, anomalies_of(p).numbers;
}

static size_t alarms_size(const struct state_place *p) {
    return anomalies_of(p).alarms_size;
}

static void *alarms_at(const struct state_place *p, size_t n) {
    return (void)n, anomalies_of(p).alarms;
}

static size_t anomalies_held_size(const struct state_place *p) {
    return anomalies_of(p).held_size;
}

static void *anomalies_held_at(const struct state_place *p, size_t n) {
    const struct anomaly_state s = anomalies_of(p);
    return n == 0 && s.holds ? s.held : NULL;
}

static size_t one_used(const struct state_place *p, size_t n) {
    return (void)p, (void)n, 1;
}

static size_t one_at_most(const struct state_place *p) {
    return (void)p, 1;
}

static size_t contexts_size(const struct state_place *p) {
    return anomalies_of(p).memories ? ANOMALY_CONTEXT : 0;
}

static void *contexts_at(const struct state_place *p, size_t n) {
    return n < anomalies_of(p).memories ? learner_contexts(p->learner, p->slot, n).floats : NULL;
}

static size_t contexts_used(const struct state_place *p, size_t n) {
    return learner_contexts(p->learner, p->slot, n).count;
}

static size_t contexts_at_most(const struct state_place *p) {
    return anomalies_of(p).contexts_size / ANOMALY_CONTEXT;
}

/* ---- All of them ---- */

#define ROW(name, type, flags, ...)                                                                \
    { name, SAFETENSORS_##type, flags, __VA_ARGS__ }
#define COPIED(what) .read = read_##what, .write = write_##what
#define SCALER(of, first)                                                                          \
    ROW(of ".counts", I64, STATE_ONCE, (first) + SCALER_COUNTS, .size = scaler_rows,               \
        COPIED(scaler)),                                                                           \
        ROW(of ".means", F64, STATE_ONCE, (first) + SCALER_MEANS, .size = scaler_rows,             \
            COPIED(scaler)),                                                                       \
        ROW(of ".squares", F64, STATE_ONCE, (first) + SCALER_SQUARES, .size = scaler_rows,         \
            COPIED(scaler)),                                                                       \
        ROW(of ".first", F32, STATE_ONCE, (first) + SCALER_VALUES, .width = SCALER_FIRST,          \
            .size = scaler_rows, .at = values_at, .filled = values_filled)

static const struct state_row rows[] = {
    ROW("optimizer.updates", I64, STATE_ONCE | STATE_MEMBERS | STATE_MOMENTS, .count = 1,
        COPIED(updates)),
    ROW("output.solution", F64, STATE_ONCE | STATE_MEMBERS, .size = solution_size,
        COPIED(solution)),
    ROW("learner.counters", I64, STATE_ONCE, .count = COUNTERS, .at = counters_at,
        .filled = counters_filled),
    ROW("learner.rates", F64, STATE_ONCE | STATE_MEMBERS | STATE_ALWAYS | STATE_MOMENTS,
        .count = RATES, .at = rates_at, .filled = rates_filled),
    ROW("learner.backwards", I64, STATE_ONCE, .size = backwards_size, .at = backwards_at),
    ROW("learner.coverage", F64, STATE_ONCE | STATE_LATER | STATE_TRUTH, .width = COVERAGE,
        .size = coverage_size, COPIED(coverage)),
    ROW("learner.thresholds", F64, STATE_ONCE | STATE_LATER | STATE_WATCH, .width = THRESHOLDS,
        .size = thresholds_size, COPIED(thresholds)),
    ROW("streams.windows", I64, STATE_MEMBERS | STATE_WINDOW, .count = WINDOW, COPIED(window)),
    ROW("streams.held", F32, 0, .size = held_size, .at = held_at),
    ROW("streams.times", F64, 0, .size = times_size, .at = times_at),
    ROW("streams.scales", F64, STATE_WINDOW, .size = scales_size, .at = scales_at),
    ROW("streams.bases", F32, STATE_WINDOW, .size = bases_size, .at = bases_at),
    ROW("streams.lasts", F32, 0, .size = lasts_size, .at = lasts_at),
    ROW("streams.open", I64, STATE_WINDOW, .size = open_size, COPIED(open)),
    ROW("streams.open_times", F64, STATE_LATER | STATE_WINDOW, .size = open_times_size,
        COPIED(open_times)),
    ROW("streams.open_classes", I64, STATE_LATER | STATE_WINDOW, .size = open_classes_size,
        COPIED(open_classes), .lacked = open_classes_lacked),
    SCALER("scaler", 0),
    SCALER("targets", SCALER_FIELDS),
    ROW("streams.experts", F64, 0, .size = experts_size, .at = expert_states_at),
    ROW("streams.mixture", F64, 0, .size = mixture_numbers, .at = mixture_at),
    ROW("streams.baseline", F64, STATE_LATER, .size = baseline_numbers, .at = baseline_at,
        .lacked = baseline_lacked),
    ROW("streams.said", F64, STATE_LATER | STATE_TRUTH, TRUTH_SAID, .size = truths_size,
        .at = truths_at),
    ROW("streams.levels", F64, STATE_LATER | STATE_TRUTH, TRUTH_LEVELS, .size = truths_size,
        .at = truths_at),
    ROW("streams.errors", F32, STATE_LATER | STATE_TRUTH, TRUTH_ERRORS, .size = truths_size,
        .at = truths_at),
    ROW("streams.anomaly", F64, STATE_LATER | STATE_WATCH | STATE_MEMORY, .size = anomalies_size,
        .at = anomalies_at),
    ROW("shared.anomaly", F64, STATE_LATER | STATE_WATCH | STATE_SHARED | STATE_ALONE,
        .size = shared_size, .at = anomalies_at),
    ROW("streams.anomaly_held", F64, STATE_LATER | STATE_WATCH, .size = anomalies_held_size,
        .at = anomalies_held_at, .used = one_used, .most = one_at_most),
    ROW("streams.contexts", F32, STATE_LATER | STATE_WATCH | STATE_SHARED | STATE_MEMORY,
        .size = contexts_size, .at = contexts_at, .used = contexts_used, .most = contexts_at_most),
    ROW("streams.alarms", F64, STATE_LATER | STATE_WATCH, .size = alarms_size, .at = alarms_at),
    ROW("streams.records", F32, STATE_MEMBERS, .size = record_size, .lasting = record_lasting,
        COPIED(record)),
};

const struct state_row *state_rows(size_t *count) {
    *count = sizeof rows / sizeof *rows;
    return rows;
}

size_t state_row_size(const struct state_place *place) {
    return place->row->size ? place->row->size(place) : place->row->count;
}

/* ---- Whether a slot is valid ---- */

static bool has_infinite(const float *values, size_t count) {
    for (size_t k = 0; values && k < count; k++)
        if (isinf(values[k]))
            return true;
    return false;
}

/* Of (places, 2, size) means and deviations: a mean is NaN where nothing had been observed. */
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

static bool baseline_valid(struct learner *learner, uint32_t slot) {
    uint32_t horizons = (uint32_t)learner->model->horizons;
    bool valid = true;
    for (uint32_t h = 0; learner->baseline && h < horizons; h++)
        valid &= baseline_state_valid(learner->baseline,
                                      baseline_state(learner->baseline, slot * horizons + h));
    return valid;
}

static bool forecasts_valid(const struct learner *learner, uint32_t slot) {
    size_t open = 0;
    for (size_t m = 0; m < learner->member_count; m++)
        if (learner->members[m].windows[slot].open > open)
            open = learner->members[m].windows[slot].open;
    return !learner->forecaster ||
           (forecaster_state_valid(learner->forecaster, forecaster_state(learner->forecaster, slot),
                                   open) &&
            mixture_state_valid(learner->mixture, mixture_state(learner->mixture, slot)));
}

/* The name of the first that is not valid; NULL: all are. */
static const char *find_invalid(struct learner *learner, uint32_t slot) {
    size_t size = learner->target_row, places = learner->places;
    return has_infinite(learner_held(learner, slot), learner->input_row)  ? "streams.held"
           : has_infinite(learner_base(learner, slot, 0), places * size)  ? "streams.bases"
           : has_infinite(learner_last(learner, slot), size)              ? "streams.lasts"
           : !scales_valid(learner_scale(learner, slot, 0), places, size) ? "streams.scales"
           : learner->time.kept && !learner_times_valid(learner, slot)    ? "streams.times"
           : !baseline_valid(learner, slot)                               ? "streams.baseline"
           : !forecasts_valid(learner, slot)                              ? "streams.experts"
                                                                          : NULL;
}

const char *learner_slot_filled(struct learner *learner, uint32_t slot) {
    bool shared = slot >= streams_capacity(learner->streams);
    const char *invalid = shared ? NULL : find_invalid(learner, slot);
    if (!invalid && !shared && learner->truth && !truth_written(learner->truth, slot))
        invalid = "streams.said";
    if (!invalid && learner->watch.anomaly && !learner_anomaly_written(learner, slot))
        invalid = "streams.anomaly";
    return invalid;
}

int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error) {
    for (size_t m = 0; m < learner->member_count; m++) {
        if (learner_read(learner, m, ENGINE_SLOT, slot, buffer, error))
            return -1;
        if (!record_finite(learner, m, buffer))
            return 1;
    }
    return find_invalid(learner, slot) || (learner->truth && !truth_valid(learner->truth, slot)) ||
           (learner->watch.anomaly && !anomaly_valid(learner->watch.anomaly, slot));
}
