#include "baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/unaligned.h"

#define LOG_2PI 1.83787706640934548356

struct baseline {
    enum loss_baseline kind;
    bool next;
    size_t classes;       /* active classes: the last, and the first classes - 1 */
    size_t ends;          /* MESSAGE: 1, the end, a class after all others */
    size_t numbers, size; /* doubles of a state */
    double *states;       /* (slots, size) */
};

/* Arrays of a state, one number each. VALUE and NORMAL: the last value, NAN before the first, and
   its scaled form; or the mean and its count. NORMAL also: the sum of squared errors and their
   count. RATES: sum and count. CLASSES, MESSAGE: the count of each class, then of
   all. */
enum { VALUE, SCALED, COUNT = SCALED, SQUARES, ERRORS };
enum { SUM, SUM_COUNT };

static size_t state_size(enum loss_baseline kind, size_t numbers) {
    static const size_t arrays[] = {
        [BASELINE_NONE] = 0,
        [BASELINE_VALUE] = SQUARES,
        [BASELINE_NORMAL] = ERRORS + 1,
        [BASELINE_RATES] = SUM_COUNT + 1,
        [BASELINE_CLASSES] = 1,
        [BASELINE_MESSAGE] = 1,
        [BASELINE_CHANCE] = 0,
    };
    return arrays[kind] * numbers + (kind == BASELINE_CLASSES || kind == BASELINE_MESSAGE);
}

int baseline_open(struct baseline **baseline, enum loss_baseline kind, bool next, size_t numbers,
                  size_t slots, struct error *error) {
    struct baseline *opened = *baseline = calloc(1, sizeof *opened);
    if (opened) {
        opened->kind = kind;
        opened->next = next;
        opened->ends = kind == BASELINE_MESSAGE;
        opened->classes = numbers;
        opened->numbers = numbers + opened->ends;
        opened->size = state_size(kind, opened->numbers);
        opened->states = calloc(slots, opened->size * sizeof *opened->states);
    }
    if (opened && opened->states)
        return 0;
    baseline_close(baseline);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the baselines of %zu streams: lower learning.max_streams",
                     slots);
}

void baseline_close(struct baseline **baseline) {
    if (*baseline)
        free((*baseline)->states);
    free(*baseline);
    *baseline = NULL;
}

size_t baseline_size(const struct baseline *b) {
    return b->size;
}

double *baseline_state(struct baseline *b, uint32_t slot) {
    return b->states + slot * b->size;
}

static const double *state_of(const struct baseline *b, uint32_t slot) {
    return b->states + slot * b->size;
}

static double *array_of(struct baseline *b, uint32_t slot, size_t array) {
    return baseline_state(b, slot) + array * b->numbers;
}

static const double *known_of(const struct baseline *b, uint32_t slot, size_t array) {
    return state_of(b, slot) + array * b->numbers;
}

static bool is_value(const struct baseline *b) {
    return b->kind == BASELINE_VALUE || b->kind == BASELINE_NORMAL;
}

void baseline_begin(struct baseline *b, uint32_t slot) {
    memset(baseline_state(b, slot), 0, b->size * sizeof(double));
    for (size_t k = 0; is_value(b) && b->next && k < b->numbers; k++)
        array_of(b, slot, VALUE)[k] = NAN;
}

/* A mean starts again. The last value existed, but is unknown. */
void baseline_lost(struct baseline *b, uint32_t slot) {
    baseline_begin(b, slot);
    for (size_t k = 0; is_value(b) && b->next && k < b->numbers; k++)
        array_of(b, slot, SCALED)[k] = NAN;
}

/* The values come first, then counts and sums, which are not negative. */
bool baseline_state_valid(const struct baseline *b, const double *state) {
    size_t values = is_value(b) ? (b->next ? SCALED + 1 : VALUE + 1) * b->numbers : 0;
    for (size_t n = values; n < b->size; n++)
        if (!(state[n] >= 0 && state[n] <= FINITE_MOST))
            return false;
    return finite_or_nan(state, values, FINITE_VALUE_MOST);
}

/* ---- Forecasts ---- */

double baseline_value(const struct baseline *b, uint32_t slot, size_t k) {
    bool known = b->next || known_of(b, slot, COUNT)[k] > 0;
    return known ? known_of(b, slot, VALUE)[k] : NAN;
}

const double *baseline_values(const struct baseline *b, uint32_t slot) {
    return known_of(b, slot, VALUE);
}

const double *baseline_scaled(const struct baseline *b, uint32_t slot) {
    return known_of(b, slot, SCALED);
}

static double variance(const struct baseline *b, uint32_t slot, size_t k) {
    double squares = known_of(b, slot, SQUARES)[k], errors = known_of(b, slot, ERRORS)[k];
    return errors > 0 ? fmax(squares / errors, BASELINE_VARIANCE_LEAST) : BASELINE_VARIANCE_FIRST;
}

double baseline_deviation(const struct baseline *b, uint32_t slot, size_t k) {
    return sqrt(variance(b, slot, k));
}

static double rate_of(double sum, double count) {
    return (sum + 0.5) / (count + 1);
}

/* Returns the relative frequency of a class among a state's targets. */
static double share_of(const struct baseline *b, const double *state, size_t id) {
    if (id + 1 >= b->classes && id + 1 + b->ends < b->numbers)
        return 0;
    return (state[id] + 1) / (state[b->numbers] + (double)(b->classes + b->ends));
}

void baseline_set_classes(struct baseline *b, size_t known) {
    b->classes = known + 1;
}

void baseline_forget_class(struct baseline *b, uint32_t slot, size_t id) {
    double *state = baseline_state(b, slot);
    state[b->numbers] -= state[id];
    state[id] = 0;
}

void baseline_probabilities(const struct baseline *b, uint32_t slot, double *numbers) {
    const double *sums = known_of(b, slot, SUM), *counts = sums + b->numbers;
    for (size_t k = 0; k < b->numbers; k++)
        numbers[k] =
            b->kind == BASELINE_CLASSES ? share_of(b, sums, k) : rate_of(sums[k], counts[k]);
}

/* ---- Losses ---- */

static double score_class(const struct baseline *b, double *state, uint32_t id) {
    double loss = -log(share_of(b, state, id));
    state[id]++;
    state[b->numbers]++;
    return loss;
}

/* Mean over the atoms and the end. */
static double score_message(const struct baseline *b, double *state, const union value *y) {
    double loss = score_class(b, state, (uint32_t)b->numbers - 1);
    for (size_t n = 1; n <= y->id; n++)
        loss += score_class(b, state, y[n].id);
    return loss / (double)(y->id + 1);
}

/* Mean over observed numbers of -y log r - (1 - y) log(1 - r). */
static double score_rates(struct baseline *b, uint32_t slot, const union value *y) {
    double *sums = array_of(b, slot, SUM), *counts = array_of(b, slot, SUM_COUNT), loss = 0;
    size_t observed = 0;
    for (size_t k = 0; k < b->numbers; k++) {
        double original = (double)y[k].real, r = rate_of(sums[k], counts[k]);
        if (isnan(original))
            continue;
        loss -= original * log(r) + (1 - original) * log1p(-r);
        sums[k] += original;
        counts[k]++;
        observed++;
    }
    return loss / (double)observed;
}

/* Mean over observed numbers of (p - y)^2. */
static double score_values(size_t numbers, const union value *y, const double *p) {
    double loss = 0;
    size_t observed = 0;
    for (size_t k = 0; k < numbers; k++) {
        double original = (double)y[k].real, error = p[k] - original;
        bool there = original == original;
        loss += there ? error * error : 0;
        observed += there;
    }
    return loss / (double)observed;
}

/* Mean over observed numbers of (log 2 pi v + (p - y)^2 / v) / 2, with v from earlier errors. */
static double score_normals(struct baseline *b, uint32_t slot, const union value *y,
                            const double *p) {
    double *squares = array_of(b, slot, SQUARES), *errors = array_of(b, slot, ERRORS), loss = 0;
    size_t observed = 0;
    for (size_t k = 0; k < b->numbers; k++) {
        double error = p[k] - (double)y[k].real, v = variance(b, slot, k);
        if (isnan(y[k].real))
            continue;
        loss += 0.5 * (LOG_2PI + log(v) + error * error / v);
        observed++;
        if (isnan(error))
            continue;
        squares[k] += error * error;
        errors[k]++;
    }
    return loss / (double)observed;
}

double baseline_score(struct baseline *b, uint32_t slot, const union value *y, const double *p) {
    switch (b->kind) {
    case BASELINE_VALUE:
        return score_values(b->numbers, y, p);
    case BASELINE_NORMAL:
        return score_normals(b, slot, y, p);
    case BASELINE_CLASSES:
        return score_class(b, baseline_state(b, slot), y->id);
    case BASELINE_RATES:
        return score_rates(b, slot, y);
    case BASELINE_MESSAGE:
        return score_message(b, baseline_state(b, slot), y);
    case BASELINE_NONE:
    case BASELINE_CHANCE:
        break;
    }
    return NAN;
}

void baseline_see_last(struct baseline *b, uint32_t slot, const void *x, const union value *z,
                       size_t count) {
    double *values = array_of(b, slot, VALUE), *scaled = array_of(b, slot, SCALED);
    for (size_t k = 0; k < count; k++) {
        double value = (double)unaligned_float(x, k);
        values[k] = value == value ? value : values[k];
        scaled[k] = (double)z[k].real;
    }
}

/* Numbers with the same count share one division, 1 / count. */
struct counted {
    double count, rate;
};

static void add_to_mean(double *mean, double *count, double difference, struct counted *last) {
    if (++*count != last->count)
        *last = (struct counted){*count, 1 / *count};
    *mean += last->rate * difference;
}

void baseline_see_target(struct baseline *b, uint32_t slot, const void *y) {
    double *means = array_of(b, slot, VALUE), *counts = array_of(b, slot, COUNT);
    struct counted last = {0, 0};
    for (size_t k = 0; k < b->numbers; k++) {
        double value = (double)unaligned_float(y, k);
        if (!isnan(value))
            add_to_mean(&means[k], &counts[k], value - means[k], &last);
    }
}

double baseline_score_mean(struct baseline *b, uint32_t slot, const void *y, double *errors) {
    double *means = array_of(b, slot, VALUE), *counts = array_of(b, slot, COUNT), loss = 0;
    struct counted last = {0, 0};
    size_t observed = 0;
    for (size_t k = 0; k < b->numbers; k++) {
        double error = errors[k] = means[k] - (double)unaligned_float(y, k);
        if (isnan(error))
            continue;
        loss += error * error;
        observed++;
        add_to_mean(&means[k], &counts[k], -error, &last);
    }
    return loss / (double)observed;
}
