/* From an x as it came to the engine's x, of columns (docs/columns.md) and without. While it plans,
   the learner fills in what is missing, scales numbers, and makes sines and cosines of cycles; a
   symbol's id goes on to the engine, which knows its row. Targets of `next` are those columns of x
   that the configuration names: as they came, and as scaled. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/unaligned.h"
#include "input_range.h"
#include "learner_internal.h"
#include "scaler.h"

static const double TAU = 6.283185307179586476925286766559;

static const struct input *input_of(const struct learner *learner) {
    return &learner->model->architecture.input;
}

static union value unaligned_value(const void *numbers, size_t k) {
    union value value;
    memcpy(&value, unaligned_at(numbers, k), sizeof value);
    return value;
}

/* ---- Opening and closing ---- */

static int open_scaler(struct learner *learner, struct error *error) {
    const struct input *input = input_of(learner);
    double limit = 0;
    if (input->scale != SCALE_STANDARD)
        return 0;
    for (size_t k = 0; k < input->column_count; k++)
        limit = fmax(limit, input->columns[k].limit);
    if (scaler_open(&learner->scaler, learner->input_row, 0, limit, error))
        return -1;
    for (size_t k = 0; k < input->column_count; k++) {
        const struct column *column = &input->columns[k];
        scaler_set(learner->scaler, k, column->standard, column->memory, column->limit);
    }
    return 0;
}

int learner_columns_open(struct learner *learner, struct error *error) {
    const struct input *input = input_of(learner);
    struct learner_columns *columns = &learner->columns;
    size_t targets = learner->target_row;
    columns->wanted = true;
    columns->next = learner->model->architecture.output.target == TARGET_NEXT;
    columns->scaled = calloc(learner->input_row, sizeof *columns->scaled);
    columns->came = calloc(targets, sizeof *columns->came);
    columns->seen = calloc(targets, sizeof *columns->seen);
    if (!columns->scaled || !columns->came || !columns->seen)
        return error_no_memory(error);
    for (size_t k = 0; k < input->column_count; k++)
        if (input->columns[k].kind != COLUMN_REAL)
            input_range_ignore(learner->range, k);
    return open_scaler(learner, error);
}

void learner_columns_close(struct learner *learner) {
    free(learner->columns.scaled);
    free(learner->columns.came);
    free(learner->columns.seen);
}

/* ---- One step ---- */

/* z, and the mask after it. `held`: the stream's last value of the column, or NULL. */
static union value *encode_real(const struct learner *learner, size_t k, float value, float *held,
                                union value *input) {
    const struct column *column = &input_of(learner)->columns[k];
    bool missing = isnan(value);
    if (column->hold && missing)
        value = *held;
    else if (column->hold)
        *held = value;
    if (isnan(value))
        input->real = 0;
    else
        input->real = column->standard ? scaler_scale(learner->scaler, k, value) : value;
    if (column->mask)
        (++input)->real = missing ? 1 : 0;
    return input + 1;
}

/* sin(2 pi k r) and cos(2 pi k r), where r is the part of the period that has gone. */
static union value *encode_cycle(const struct column *column, float value, union value *input) {
    double part = fmod((double)value, column->period) / column->period;
    for (size_t k = 1; k <= column->harmonics; k++) {
        double angle = TAU * (double)k * part;
        (input++)->real = (float)sin(angle);
        (input++)->real = (float)cos(angle);
    }
    return input;
}

/* What of x is a target, as it came and as scaled. */
static void gather_targets(struct learner *learner, const void *x) {
    const struct output *output = &learner->model->architecture.output;
    struct learner_columns *columns = &learner->columns;
    for (size_t k = 0; k < output->column_count; k++) {
        size_t column = output->columns[k];
        columns->came[k] = unaligned_value(x, column);
        columns->seen[k] = columns->scaled[column];
        if (input_of(learner)->columns[column].hash) {
            columns->came[k].id &= ~SYMBOL_MINUS;
            columns->seen[k].id &= ~SYMBOL_MINUS;
        }
    }
}

static void encode(struct learner *learner, uint32_t slot, const void *x, union value *input) {
    const struct input *of = input_of(learner);
    float *held = learner_held(learner, slot);
    union value *scaled = learner->columns.scaled;
    for (size_t k = 0; k < of->column_count; k++) {
        const struct column *column = &of->columns[k];
        union value value = unaligned_value(x, k), *first = input;
        switch (column->kind) {
        case COLUMN_REAL:
            input = encode_real(learner, k, value.real, held ? held + k : NULL, input);
            value = *first;
            break;
        case COLUMN_SYMBOL:
            *input++ = value;
            break;
        case COLUMN_CYCLE:
            input = encode_cycle(column, value.real, input);
            break;
        }
        scaled[k] = value;
    }
    if (learner->columns.next)
        gather_targets(learner, x);
}

/* ---- Without columns ---- */

/* A real x (I,) as the network sees it: a missing number is held, then all are scaled. */
static void read_real(struct learner *learner, uint32_t slot, const void *x, union value *input) {
    float *held = learner_held(learner, slot);
    for (size_t k = 0; k < learner->input_row; k++) {
        float value = unaligned_float(x, k);
        if (held && isnan(value))
            value = held[k];
        else if (held)
            held[k] = value;
        if (isnan(value))
            input[k].real = 0;
        else
            input[k].real = learner->scaler ? scaler_scale(learner->scaler, k, value) : value;
    }
}

/* ---- Any x ---- */

void learner_read_input(struct learner *learner, uint32_t slot, const void *x, union value *input) {
    if (learner->model->architecture.input.kind == INPUT_SYMBOL)
        memcpy(input, x, sizeof *input);
    else if (learner->columns.wanted)
        encode(learner, slot, x, input);
    else
        read_real(learner, slot, x, input);
}
