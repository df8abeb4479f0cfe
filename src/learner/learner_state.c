#include "learner_state.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "model/rule.h"
#include "parts/anomalies.h"
#include "parts/part.h"
#include "parts/rows.h"
#include "parts/symbols.h"
#include "parts/targets.h"
#include "parts/truths.h"

static struct member *member_of(const struct learner *learner, size_t member) {
    return &learner_host(learner)->members[member];
}

int learner_read(struct learner *learner, size_t member, enum engine_block block, size_t index,
                 void *data, struct error *error) {
    return member_read(member_of(learner, member), block, index, data, error);
}

int learner_write(struct learner *learner, size_t member, enum engine_block block, size_t index,
                  const void *data, struct error *error) {
    return member_write(member_of(learner, member), block, index, data, error);
}

int learner_read_parameters(struct learner *learner, size_t member, size_t tensor, float *values,
                            struct error *error) {
    return learner_read(learner, member, ENGINE_PARAMETERS, tensor, values, error);
}

int learner_write_parameters(struct learner *learner, size_t member, const float *values,
                             bool begins, struct error *error) {
    struct member *m = member_of(learner, member);
    return learner_flush(learner, error) || (begins && member_begin_statistics(m, error)) ||
                   member_write_values(m, values, begins, error)
               ? -1
               : 0;
}

/* ---- In flight ---- */

/* Number 0 also exists without members. */
static bool is_selected(const struct learner *learner, size_t member, size_t m) {
    return m == member ||
           (member == LEARNER_ALL && (m < learner_host(learner)->member_count || m == 0));
}

int learner_set_rate(struct learner *learner, size_t member, double rate, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    for (size_t m = 0; m < CONFIG_MEMBERS_MAX; m++)
        if (is_selected(learner, member, m))
            learner_host(learner)->members[m].rates.rate = rate;
    return 0;
}

int learner_set_clip(struct learner *learner, size_t member, double clip, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    for (size_t m = 0; m < CONFIG_MEMBERS_MAX; m++)
        if (is_selected(learner, member, m))
            learner_host(learner)->members[m].rates.clip = clip;
    return 0;
}

int learner_configure(struct learner *learner, size_t member, double rate, double clip,
                      struct error *error) {
    struct learner_rates *rates = &learner_host(learner)->members[member].rates;
    if (learner_flush(learner, error))
        return -1;
    if (rate != rates->configured_rate)
        rates->rate = rates->configured_rate = rate;
    if (clip != rates->configured_clip)
        rates->clip = rates->configured_clip = clip;
    return 0;
}

void learner_want_outputs(struct learner *learner, bool wanted) {
    learner_host(learner)->want_outputs = wanted;
}

void learner_want_vectors(struct learner *learner, bool wanted) {
    learner_host(learner)->want_vectors = wanted && learner_host(learner)->member_count;
}

/* ---- Reports ---- */

struct learner_counters learner_counters(const struct learner *learner) {
    return learner_host(learner)->counters;
}

uint64_t learner_taken(const struct learner *learner) {
    return learner_host(learner)->taken;
}

void learner_set_position(struct learner *learner, uint64_t position) {
    learner_host(learner)->counters.position = position;
}

const struct streams *learner_streams_table(const struct learner *learner) {
    return learner_host(learner)->streams;
}

size_t learner_streams(const struct learner *learner) {
    return streams_count(learner_host(learner)->streams);
}

double learner_rate(const struct learner *learner) {
    return member_of(learner, 0)->rates.rate;
}

double learner_plasticity(const struct learner *learner) {
    double least = NAN;
    for (size_t m = 0; m < learner_members(learner); m++) {
        const struct plasticity *p = &member_of(learner, m)->plasticity;
        least = p->probes > 0 ? fmin(least, p->mean) : least;
    }
    return least;
}

double learner_clip(const struct learner *learner) {
    return member_of(learner, 0)->rates.clip;
}

struct learner_rates learner_rates(const struct learner *learner, size_t member) {
    return member_of(learner, member)->rates;
}

void learner_write_rates(struct learner *learner, size_t member,
                         const struct learner_rates *rates) {
    member_of(learner, member)->rates = *rates;
}

size_t learner_members(const struct learner *learner) {
    return learner_host(learner)->member_count;
}

const char *learner_member_name(const struct learner *learner, size_t member) {
    return member_of(learner, member)->name;
}

const struct model *learner_member_model(const struct learner *learner, size_t member) {
    return member_of(learner, member)->model;
}

size_t learner_member_named(const struct learner *learner, const char *name, size_t length) {
    for (size_t m = 0; m < learner_members(learner); m++) {
        const char *own = learner_member_name(learner, m);
        if (*own && strlen(own) == length && memcmp(own, name, length) == 0)
            return m;
    }
    return SIZE_MAX;
}

size_t learner_record_size(const struct learner *learner, size_t member) {
    const struct member *m = member_of(learner, member);
    return slot_record_size(m->model, m->window) + rule_record_size(m->model, m->rule);
}

size_t learner_moments(const struct learner *learner, size_t member) {
    return member_of(learner, member)->moments;
}

size_t learner_start_moment(const struct learner *learner, size_t member) {
    return member_of(learner, member)->start;
}

struct learner_window learner_window(const struct learner *learner, size_t member, uint32_t slot) {
    return member_of(learner, member)->windows[slot];
}

const struct learner_errors *learner_errors(const struct learner *learner) {
    return &learner_host(learner)->errors;
}

void learner_clear_errors(struct learner *learner) {
    const struct part_host *host = learner_host(learner);
    struct learner_errors *errors = &learner_host(learner)->errors;
    errors->scored = 0;
    errors->distribution = (struct distribution_error){0};
    memset(errors->outputs, 0, sizeof errors->outputs);
    memset(errors->columns, 0, host->model->target_size * sizeof *errors->columns);
    if (errors->experts)
        memset(errors->experts, 0, learner_host(learner)->forecasts * sizeof *errors->experts);
}

/* ---- Reports of parts ---- */

int learner_keep_truths(struct learner *learner, bool wanted, struct error *error) {
    struct part_host *host = learner_host(learner);
    if (symbols_measure(host, wanted) ||
        (wanted || inputs_have_experts(host->model)) == truths_kept(host))
        return 0;
    if (learner_flush(learner, error))
        return -1;
    if (streams_count(host->streams))
        learner_all_changed(learner);
    return truths_keep(host, wanted, error);
}

void learner_figures(const struct learner *learner, double *figures) {
    const struct part_host *host = learner_host(learner);
    for (size_t n = 0; n < PART_FIGURES; n++)
        figures[n] = NAN;
    PARTS_EACH(host, part, figures)
    part->kind->figures(part->self, figures);
}

bool learner_watches(const struct learner *learner) {
    return part_find(learner_host(learner), &anomalies_part) != NULL;
}

int learner_set_threshold(struct learner *learner, double threshold, struct error *error) {
    struct learner_thresholds thresholds = anomalies_thresholds(learner_host(learner));
    if (learner_flush(learner, error))
        return -1;
    thresholds.threshold = threshold;
    anomalies_set_thresholds(learner_host(learner), &thresholds);
    return 0;
}

int learner_configure_threshold(struct learner *learner, double threshold, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    anomalies_set_thresholds(learner_host(learner),
                             &(struct learner_thresholds){threshold, threshold});
    return 0;
}

int learner_find_alarm(struct learner *learner, const char *key, size_t key_size, double at,
                       struct anomaly_kept *found, struct error *error) {
    return learner_flush(learner, error)
               ? -1
               : anomalies_find(learner_host(learner), key, key_size, at, found, error);
}

int learner_mark_normal(struct learner *learner, const char *key, size_t key_size,
                        enum anomaly_reason reason, double at, struct anomaly_kept *found,
                        struct error *error) {
    return learner_flush(learner, error)
               ? -1
               : anomalies_mark_normal(learner_host(learner), key, key_size, reason, at, found,
                                       error);
}

uint32_t learner_shared_slot(const struct learner *learner, size_t n) {
    return (uint32_t)(learner_host(learner)->slots + n);
}

/* ---- A stream from another daemon ---- */

static void adopt(const struct learner *learner, uint32_t slot, enum part_adopt what) {
    const struct part_host *host = learner_host(learner);
    PARTS_EACH(host, part, adopt)
    part->kind->adopt(part->self, slot, what);
}

/* Starts the state of a stream, as with its first step. */
static void begin(struct learner *learner, uint32_t slot) {
    learner_begin_stream(learner, slot, false);
    adopt(learner, slot, ADOPT_EXPECTED);
}

static void forget_slot(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner_members(learner); m++)
        plan_append(member_of(learner, m), OPERATION_FORGET, slot);
}

bool learner_displaces(const struct learner *learner, const char *key, size_t key_size,
                       const char **displaced, size_t *displaced_size) {
    const struct streams *streams = learner_host(learner)->streams;
    uint32_t slot = streams_find(streams, key, key_size);
    if (slot == STREAMS_NONE && streams_count(streams) < streams_capacity(streams))
        return false;
    slot = slot == STREAMS_NONE ? streams_oldest(streams) : slot;
    *displaced = streams_key(streams, slot, displaced_size);
    return true;
}

int learner_place(struct learner *learner, const char *key, size_t key_size,
                  struct learner_place *place, struct error *error) {
    struct streams *streams = learner_host(learner)->streams;
    *place = (struct learner_place){.slot = streams_find(streams, key, key_size)};
    place->known = place->slot != STREAMS_NONE;
    place->evicts = !place->known && streams_count(streams) == streams_capacity(streams);
    if (place->evicts) {
        uint32_t oldest = streams_oldest(streams);
        const char *gone = streams_key(streams, oldest, &place->evicted_size);
        memcpy(place->evicted, gone, place->evicted_size);
        streams_remove(streams, oldest);
    }
    if (!place->known)
        place->slot = streams_add(streams, key, key_size);
    forget_slot(learner, place->slot);
    begin(learner, place->slot);
    return learner_flush(learner, error);
}

void learner_settle(struct learner *learner, const struct learner_place *place) {
    struct part_host *host = learner_host(learner);
    streams_touch(host->streams, place->slot);
    adopt(learner, place->slot, ADOPT_ARRIVED);
    learner_adopted(learner, place);
    if (!place->evicts)
        return;
    host->counters.forgotten++;
    if (host->observer.forgotten)
        host->observer.forgotten(host->observer.context, place->evicted, place->evicted_size);
}

int learner_withdraw(struct learner *learner, const struct learner_place *place, uint32_t *slot,
                     struct error *error) {
    struct streams *streams = learner_host(learner)->streams;
    adopt(learner, place->slot, ADOPT_WITHDRAWN);
    *slot = place->known ? place->slot : STREAMS_NONE;
    if (!place->known)
        streams_remove(streams, place->slot);
    if (place->evicts) {
        *slot = streams_add(streams, place->evicted, place->evicted_size);
        assert(*slot == place->slot);
        streams_age(streams, *slot);
    }
    forget_slot(learner, place->slot);
    if (*slot != STREAMS_NONE)
        begin(learner, *slot);
    return learner_flush(learner, error);
}

void learner_restored(struct learner *learner, uint32_t slot) {
    adopt(learner, slot, ADOPT_WITHDRAWN);
}

/* ---- Rows of the learner itself: `self` is the host ---- */

enum {
    COUNTERS = sizeof(struct learner_counters) / sizeof(uint64_t),
    RATES = 4,
    WINDOW = 5,
    PLASTICITY = 5
};
_Static_assert(sizeof(struct learner_rates) == RATES * sizeof(double), "one row");
_Static_assert(sizeof(struct plasticity) == PLASTICITY * sizeof(double), "one row");

static struct member *member_at(const struct state_place *p) {
    return &((struct part_host *)p->self)->members[p->member];
}

/* A block of the engine: `which`. */
static int read_block(const struct state_place *p, void *numbers, struct error *error) {
    return member_read(member_at(p), p->row->which, p->slot, numbers, error);
}

static int write_block(const struct state_place *p, const void *numbers, struct error *error) {
    return member_write(member_at(p), p->row->which, p->slot, numbers, error);
}

static size_t solution_size(const struct state_place *p) {
    const struct model *model = member_at(p)->model;
    if (!model->solved)
        return 0;
    const struct least_squares solution = engine_solution(model);
    return least_squares_size(&solution);
}

static int write_solution(const struct state_place *p, const void *numbers, struct error *error) {
    return finite_within(numbers, solution_size(p), DBL_MAX) ? write_block(p, numbers, error) : 1;
}

static size_t banks_size(const struct state_place *p) {
    return engine_banks_size(member_at(p)->model);
}

/* Checks the number of targets in an output's bank, and their symbols and numbers. */
static bool bank_fits(const struct output *output, size_t size, const uint32_t *bank) {
    const float *targets = (const float *)(const void *)(bank + BANK_HEAD);
    bool fits = bank[BANK_COUNT] <= output->ranking.negatives;
    for (size_t n = BANK_HEAD; n < size; n++)
        fits &= output_has_classes(output) ? bank[n] < output_classes(output)
                                           : isfinite(targets[n - BANK_HEAD]) != 0;
    return fits;
}

static int write_banks(const struct state_place *p, const void *numbers, struct error *error) {
    const struct model *model = member_at(p)->model;
    const uint32_t *bank = numbers;
    for (size_t k = 0; k <= model->architecture.other_count; k++) {
        size_t size = engine_bank_size(model, k);
        if (size && !bank_fits(model_output(model, k), size, bank))
            return 1;
        bank += size;
    }
    return write_block(p, numbers, error);
}

static size_t activity_size(const struct state_place *p) {
    return engine_activity_size(member_at(p)->model);
}

/* Before the first update the engine sets starting norms when it plays; they are not state. */
static int read_activity(const struct state_place *p, void *numbers, struct error *error) {
    int status = read_block(p, numbers, error);
    if (status == 0 && *(double *)numbers == 0)
        memset(numbers, 0, activity_size(p) * sizeof(double));
    return status;
}

/* Numbers of units are at most h, or a difference of two. */
static int write_activity(const struct state_place *p, const void *numbers, struct error *error) {
    const struct model *model = member_at(p)->model;
    const double most = 2 * (double)FLT_MAX, *at = numbers;
    bool valid = *at >= 0 && *at <= 0x1p53;
    at++;
    for (size_t k = 0; k < model->layer_count; k++) {
        size_t rows = ACTIVITY_ROWS * layer_width(model_layer(model, k));
        for (size_t n = 0; n < ACTIVITY_HEAD; n++)
            valid &= isfinite(at[n]) && at[n] >= 0;
        valid &= finite_within(at + ACTIVITY_HEAD, rows, most);
        at += ACTIVITY_HEAD + rows;
    }
    return valid ? write_block(p, numbers, error) : 1;
}

static void *plasticity_at(const struct state_place *p, size_t n) {
    return (void)n, &member_at(p)->plasticity;
}

static int plasticity_filled(const struct state_place *p) {
    return !plasticity_valid(&member_at(p)->plasticity);
}

static void *counters_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct part_host *)p->self)->counters;
}

static int counters_filled(const struct state_place *p) {
    struct part_host *host = p->self;
    host->taken = host->counters.examples;
    return 0;
}

static void *rates_at(const struct state_place *p, size_t n) {
    return (void)n, &member_at(p)->rates;
}

static bool is_rate(double rate) {
    return (isfinite(rate) && rate >= 0) || rate == RATE_AUTO;
}

static bool is_clip(double clip) {
    return isfinite(clip) && clip >= 0;
}

static int rates_filled(const struct state_place *p) {
    const struct learner_rates *r = &member_at(p)->rates;
    return !is_rate(r->rate) || !is_rate(r->configured_rate) || !is_clip(r->clip) ||
           !is_clip(r->configured_clip);
}

static int read_window(const struct state_place *p, void *numbers, struct error *error) {
    const struct learner_window w = member_at(p)->windows[p->slot];
    const int64_t row[WINDOW] = {w.next, w.length, w.closed, w.terms, w.open};
    memcpy(numbers, row, sizeof row);
    return (void)error, 0;
}

static int write_window(const struct state_place *p, const void *numbers, struct error *error) {
    const struct part_host *host = p->self;
    struct member *member = member_at(p);
    int64_t w[WINDOW];
    memcpy(w, numbers, sizeof w);
    for (size_t n = 0; n < WINDOW; n++)
        if (w[n] < 0 || w[n] > INT32_MAX)
            return 1;
    member->windows[p->slot] = (struct learner_window){
        (uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], (uint32_t)w[4]};
    return (void)error, !targets_window_valid(host->model, member, &member->windows[p->slot]);
}

/* A slot's record, as in model.h: positions follow the state and the data by place. Each has state,
   x, the targets of all horizons, and a mark for each that is used for learning. */
struct record {
    const struct model *model;
    const float *positions;
    size_t ring, stride;
};

static struct record record_of(const struct member *member, const float *numbers) {
    const struct model *model = member->model;
    size_t ring = model_ring(member->model, member->window), places = model->open == 1 ? 1 : ring;
    return (struct record){
        model, numbers + model->state_size + places * (model->outputs + model->kept), ring,
        model->state_size + model->features + model->horizons * (model->target_size + 1)};
}

static const float *targets_of(const struct record *record, size_t position) {
    return record->positions + position * record->stride + record->model->state_size +
           record->model->features;
}

static const float *marks_of(const struct record *record, size_t position) {
    return targets_of(record, position) + record->model->horizons * record->model->target_size;
}

static bool record_finite(const struct member *member, const float *numbers) {
    const struct record record = record_of(member, numbers);
    size_t size = record.model->state_size;
    bool finite = finite_floats(numbers, size);
    for (size_t p = 0; p < record.ring; p++)
        finite &= finite_floats(record.positions + p * record.stride, size);
    size = slot_record_size(member->model, member->window);
    return finite && finite_floats(numbers + size, rule_record_size(member->model, member->rule));
}

static bool symbol_fits(const float *bits, size_t size, bool sign) {
    uint32_t id;
    memcpy(&id, bits, sizeof id);
    return (sign ? id & ~SYMBOL_MINUS : id) < size;
}

/* Checks one x, or atom. A symbol of columns, or a hashed one, can be its negative row. */
static bool atom_fits(const struct model *model, const float *x) {
    const struct input *input = &model->architecture.input;
    for (size_t n = 0; n < model->part_count; n++) {
        const struct input_part *part = &model->parts[n];
        if (part->size && !symbol_fits(x + part->from, part->size, true))
            return false;
    }
    return input_is_real(input) || symbol_fits(x, input->size, input->hash > 0);
}

/* The atoms of a row, if it is one of a message: none where no step has been. */
static size_t atoms_of(const float *row) {
    uint32_t count;
    memcpy(&count, row, sizeof count);
    return count;
}

/* Checks the engine's x (features,). */
static bool input_fits(const struct model *model, const float *x) {
    const struct input *input = &model->architecture.input;
    bool fits = !input_is_message(input) || atoms_of(x) <= input->sequence.longest;
    if (!input_is_message(input))
        return atom_fits(model, x);
    size_t atoms = fits && atoms_of(x) ? atoms_of(x) : 1; /* the engine reads at least one */
    for (size_t n = 0; fits && n < atoms; n++)
        fits = atom_fits(model, x + 1 + n * model->features_atom);
    return fits;
}

/* Checks a target (target_size,) that is learned. */
static bool target_fits(const struct model *model, const struct model_head *head, const float *y) {
    const struct output *output = model_output(model, head->output);
    bool message = output_is_message(output);
    size_t count = message ? atoms_of(y) : 1;
    if (message && (count == 0 || count > output->sequence.longest))
        return false;
    for (size_t n = 0; output_has_classes(output) && n < count; n++)
        if (!symbol_fits(y + message + n, output_classes(output), false))
            return false;
    return true;
}

/* A step's terms: with a list of outputs at most one. */
static size_t terms_of(const struct record *record, size_t position) {
    const float *marks = marks_of(record, position);
    size_t count = 0;
    for (size_t h = 0; h < record->model->horizons; h++)
        count += marks[h] == 1;
    return record->model->architecture.other_count ? count > 0 : count;
}

/* Checks symbols and classes, and that the closed steps have as many targets as the window. */
static bool record_fits(const struct record *record, const struct learner_window *window) {
    const struct model *model = record->model;
    size_t terms = 0;
    for (size_t p = 0; p < record->ring; p++) {
        const float *y = targets_of(record, p), *marks = marks_of(record, p);
        size_t age = (window->next + record->ring - p) % record->ring; /* before the next step */
        bool closed = age > window->open && age <= window->open + window->closed;
        if (!input_fits(model, y - model->features))
            return false;
        for (size_t h = 0; h < model->horizons; h++)
            if ((marks[h] != 0 && marks[h] != 1) ||
                (marks[h] == 1 &&
                 !target_fits(model, &model->heads[h], y + h * model->target_size)))
                return false;
        terms += closed ? terms_of(record, p) : 0;
    }
    return model->late ? terms <= window->terms : terms == window->terms;
}

/* Checks that open steps have as many targets for learning as the record has marks. */
static bool open_fits(const struct part_host *host, const struct record *record, uint32_t slot) {
    const struct member *member = &host->members[0];
    for (size_t age = 1; age <= member->windows[slot].open; age++) {
        size_t position = plan_position(member, slot, age);
        if (!targets_terms_fit(host, slot, position, terms_of(record, position)))
            return false;
    }
    return true;
}

/* When windows start from scratch, only the state continues. */
static size_t record_lasting(const struct state_place *p) {
    return member_at(p)->model->state_size;
}

static size_t record_size(const struct state_place *p) {
    const struct member *m = member_at(p);
    return slot_record_size(m->model, m->window) + rule_record_size(m->model, m->rule);
}

static int write_record(const struct state_place *p, const void *numbers, struct error *error) {
    struct member *member = member_at(p);
    const struct record record = record_of(member, numbers);
    if (!record_finite(member, numbers) || !record_fits(&record, &member->windows[p->slot]) ||
        (p->member == 0 && !open_fits(p->self, &record, p->slot)))
        return 1;
    return write_block(p, numbers, error);
}

static const struct state_row first_rows[] = {
    STATE_ROW("optimizer.updates", I64, STATE_ONCE | STATE_MEMBERS | STATE_MOMENTS, ENGINE_UPDATES,
              .count = 1, STATE_COPIED(block)),
    STATE_ROW("output.solution", F64, STATE_ONCE | STATE_MEMBERS, ENGINE_SOLUTION,
              .size = solution_size, .read = read_block, .write = write_solution),
    STATE_ROW("output.banks", F32, STATE_ONCE | STATE_MEMBERS, ENGINE_BANK, .size = banks_size,
              .read = read_block, .write = write_banks),
    STATE_ROW("statistics.activity", F64, STATE_ONCE | STATE_MEMBERS | STATE_LATER, ENGINE_ACTIVITY,
              .size = activity_size, .read = read_activity, .write = write_activity),
    STATE_ROW("statistics.plasticity", F64, STATE_ONCE | STATE_MEMBERS | STATE_LATER,
              .count = PLASTICITY, .at = plasticity_at, .filled = plasticity_filled),
    STATE_ROW("learner.counters", I64, STATE_ONCE, .count = COUNTERS, .at = counters_at,
              .filled = counters_filled),
    STATE_ROW("learner.rates", F64, STATE_ONCE | STATE_MEMBERS | STATE_ALWAYS | STATE_MOMENTS,
              .count = RATES, .at = rates_at, .filled = rates_filled),
    STATE_ROW("streams.windows", I64, STATE_MEMBERS | STATE_WINDOW, .count = WINDOW,
              STATE_COPIED(window)),
};

/* A record is checked against the rows filled before it. */
static const struct state_row last_rows[] = {
    STATE_ROW("streams.records", F32, STATE_MEMBERS, ENGINE_SLOT, .size = record_size,
              .lasting = record_lasting, .read = read_block, .write = write_record),
};

static size_t collect(void *self, const struct state_row *rows, size_t count,
                      struct state_place *places, size_t at) {
    for (size_t n = 0; places && n < count; n++)
        places[at + n] = (struct state_place){.self = self, .row = &rows[n]};
    return at + count;
}

size_t learner_rows(const struct learner *learner, struct state_place *places) {
    struct part_host *host = learner_host(learner);
    size_t count = collect(host, first_rows, sizeof first_rows / sizeof *first_rows, places, 0);
    for (size_t n = 0; n < host->part_count; n++)
        count = collect(host->parts[n].self, host->parts[n].kind->rows,
                        host->parts[n].kind->row_count, places, count);
    return collect(host, last_rows, sizeof last_rows / sizeof *last_rows, places, count);
}

/* ---- Validity of a slot ---- */

static const char *find_invalid(const struct part_host *host, uint32_t slot, bool filled) {
    PARTS_EACH(host, part, valid) {
        bool shared = slot >= host->slots, derives = filled && part->kind->filled;
        if (shared && !part->kind->shares)
            continue;
        const char *name =
            derives ? part->kind->filled(part->self, slot) : part->kind->valid(part->self, slot);
        if (name)
            return name;
    }
    return NULL;
}

const char *learner_slot_filled(struct learner *learner, uint32_t slot) {
    return find_invalid(learner_host(learner), slot, true);
}

void learner_once_filled(struct learner *learner) {
    const struct part_host *host = learner_host(learner);
    PARTS_EACH(host, part, restored)
    part->kind->restored(part->self);
}

int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error) {
    for (size_t m = 0; m < learner_members(learner); m++) {
        if (learner_read(learner, m, ENGINE_SLOT, slot, buffer, error))
            return -1;
        if (!record_finite(member_of(learner, m), buffer))
            return 1;
    }
    return find_invalid(learner_host(learner), slot, false) != NULL;
}
