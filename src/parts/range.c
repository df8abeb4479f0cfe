#include "range.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/unaligned.h"
#include "part.h"
#include "scaling.h"

struct input_range {
    size_t columns;
    float *largest; /* (columns,) */
    float *usual;   /* (columns,) smaller numbers change nothing: largest, or -1 */
    uint8_t *seen;  /* (columns,) numbers, at most INPUT_RANGE_FIRST */
    bool *ignored;  /* (columns,) */
};

int input_range_open(struct input_range **range, size_t columns, struct error *error) {
    struct input_range *opened = calloc(1, sizeof *opened);
    *range = opened;
    if (opened) {
        opened->columns = columns;
        opened->largest = calloc(columns, sizeof *opened->largest);
        opened->usual = calloc(columns, sizeof *opened->usual);
        opened->seen = calloc(columns, sizeof *opened->seen);
        opened->ignored = calloc(columns, sizeof *opened->ignored);
    }
    if (opened && opened->largest && opened->usual && opened->seen && opened->ignored) {
        input_range_reset(opened);
        return 0;
    }
    input_range_close(range);
    return error_set(error, EX_UNAVAILABLE, "out of memory for the range of %zu inputs", columns);
}

void input_range_close(struct input_range **range) {
    struct input_range *old = *range;
    *range = NULL;
    if (!old)
        return;
    free(old->largest);
    free(old->usual);
    free(old->seen);
    free(old->ignored);
    free(old);
}

void input_range_reset(struct input_range *range) {
    memset(range->largest, 0, range->columns * sizeof *range->largest);
    memset(range->seen, 0, range->columns * sizeof *range->seen);
    for (size_t k = 0; k < range->columns; k++)
        range->usual[k] = range->ignored[k] ? INFINITY : -1;
}

/* Accepts all values of a column: it has symbols, or values of a cycle. */
static void input_range_ignore(struct input_range *range, size_t column) {
    range->ignored[column] = true;
    range->usual[column] = INFINITY;
}

/* The common case, and its whole cost. */
static bool is_usual(const struct input_range *range, const char *x) {
    for (size_t k = 0; k < range->columns; k++)
        if (fabsf(unaligned_float(x, k)) > range->usual[k])
            return false;
    return true;
}

static void note_usual(struct input_range *range, size_t k) {
    range->usual[k] = range->seen[k] == INPUT_RANGE_FIRST ? range->largest[k] : -1;
}

static void take_number(struct input_range *range, size_t k, float value,
                        struct out_of_scale *found) {
    float largest = range->largest[k];
    bool known = range->seen[k] == INPUT_RANGE_FIRST && largest > 0;
    if (range->seen[k] < INPUT_RANGE_FIRST && !isnan(value))
        range->seen[k]++;
    if (known && fabsf(value) > INPUT_RANGE_FACTOR * largest) {
        *found = (struct out_of_scale){found->count + 1, k, value, largest};
        range->largest[k] = INPUT_RANGE_FACTOR * largest;
    } else if (fabsf(value) > largest) {
        range->largest[k] = fabsf(value);
    }
    note_usual(range, k);
}

static void take_step(struct input_range *range, const char *x, struct out_of_scale *found) {
    if (is_usual(range, x))
        return;
    for (size_t k = 0; k < range->columns; k++) {
        if (!range->ignored[k])
            take_number(range, k, unaligned_float(x, k), found);
    }
}

struct out_of_scale input_range_take(struct input_range *range, const void *x, size_t steps) {
    struct out_of_scale found = {0};
    for (size_t t = 0; t < steps; t++)
        take_step(range, (const char *)x + t * range->columns * sizeof(float), &found);
    return found;
}

void input_range_known(struct input_range *range, size_t column, uint64_t count, double largest) {
    range->seen[column] = (uint8_t)(count < INPUT_RANGE_FIRST ? count : INPUT_RANGE_FIRST);
    range->largest[column] = (float)fmin(largest, FLT_MAX);
    note_usual(range, column);
}

/* ---- The part ---- */

struct range {
    struct part_host *host;
    struct input_range *range;
};

static bool range_wanted(const struct part_host *host) {
    return input_is_real(&host->model->architecture.input);
}

static int range_open(void **self, struct part_host *host, struct error *error) {
    const struct input *input = &host->model->architecture.input;
    struct range *range = *self = calloc(1, sizeof *range);
    if (!range)
        return error_no_memory(error);
    range->host = host;
    if (input_range_open(&range->range, host->model->x_size, error))
        return -1;
    for (size_t k = 0; k < input->column_count; k++)
        if (!column_is_real(&input->columns[k]))
            input_range_ignore(range->range, k);
    return 0;
}

static void range_close(void *self) {
    struct range *range = self;
    input_range_close(&range->range);
    free(range);
}

static void range_reset(void *self) {
    struct range *range = self;
    input_range_reset(range->range);
}

static int range_take(void *self, struct example *example, struct error *error) {
    struct range *range = self;
    const struct learner_observer *observer = &range->host->observer;
    (void)error;
    struct out_of_scale found = input_range_take(range->range, example->x, example_inputs(example));
    if (found.count > 0 && observer->out_of_scale)
        observer->out_of_scale(observer->context, example, &found);
    return 0;
}

/* Hardly any number has a larger deviation from the mean. */
static const double deviations_seen = 10;

/* The range includes the values of the scaler. */
static void range_restored(void *self) {
    struct range *range = self;
    const struct scaler *scaler = scaling_scaler(range->host);
    for (size_t k = 0; scaler && k < scaler_size(scaler); k++)
        if (scaler_read(scaler, k).count)
            input_range_known(range->range, k, scaler_read(scaler, k).count,
                              fabs(scaler_means(scaler)[k]) +
                                  deviations_seen * scaler_deviations(scaler)[k]);
}

const struct part_kind range_part = {
    .name = "range",
    .wanted = range_wanted,
    .open = range_open,
    .close = range_close,
    .reset = range_reset,
    .restored = range_restored,
    .take = range_take,
};
