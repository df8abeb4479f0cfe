/* Converts numbers of x to the network's x, if columns are listed (docs/reference/columns.md):
   cycles become sines and cosines, numbers get a mask, and the engine uses a symbol's id as its
   row. Targets of `next` are the columns of x that the configuration names, as received and as
   scaled. A hashed symbol has a sign, which is not part of it as a target. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/unaligned.h"
#include "part.h"

static const double TAU = 6.283185307179586476925286766559;

struct columns {
    const struct input *input;
    const struct output *output;
    bool next;             /* some columns are targets */
    union value *original; /* (target_size,) as received */
    union value *seen;     /* (target_size,) as scaled, with missing ones filled in */
};

static bool are_listed(const struct model *model) {
    const struct input *input = &model->architecture.input;
    return input->column_count && input_is_real(input) && !inputs_have_experts(model);
}

static bool columns_wanted(const struct part_host *host) {
    return are_listed(host->model) || host->model->architecture.input.hash;
}

static int columns_open(void **self, struct part_host *host, struct error *error) {
    const struct model *model = host->model;
    struct columns *columns = *self = calloc(1, sizeof *columns);
    if (!columns)
        return error_no_memory(error);
    columns->input = &model->architecture.input;
    columns->next = model_has_output(model, true);
    columns->output = model_output(model, columns->next ? model_output_with(model, true) : 0);
    columns->original = calloc(model->target_size, sizeof *columns->original);
    columns->seen = calloc(model->target_size, sizeof *columns->seen);
    return columns->original && columns->seen ? 0 : error_no_memory(error);
}

static void columns_close(void *self) {
    struct columns *columns = self;
    free(columns->original);
    free(columns->seen);
    free(columns);
}

static union value unaligned_value(const void *numbers, size_t k) {
    union value value;
    memcpy(&value, unaligned_at(numbers, k), sizeof value);
    return value;
}

/* Writes sin(2 pi k r) and cos(2 pi k r), where r is the elapsed part of the period. */
static union value *encode_cycle(const struct column *column, float value, union value *input) {
    double part = fmod((double)value, column->period) / column->period;
    for (size_t k = 1; k <= column->harmonics; k++) {
        double angle = TAU * (double)k * part;
        (input++)->real = (float)sin(angle);
        (input++)->real = (float)cos(angle);
    }
    return input;
}

static void encode(const struct columns *columns, const struct step *step) {
    union value *input = step->input;
    for (size_t k = 0; k < columns->input->column_count; k++) {
        const struct column *column = &columns->input->columns[k];
        if (column_is_cycle(column)) {
            input = encode_cycle(column, step->values[k].real, input);
            continue;
        }
        *input++ = step->values[k];
        if (column->mask)
            (input++)->real = isnan(unaligned_float(step->x, k)) ? 1.0F : 0.0F;
    }
}

/* Collects the targets in x, as received and as scaled. */
static void gather_targets(struct columns *columns, struct step *step) {
    for (size_t k = 0; k < columns->output->column_count; k++) {
        size_t column = columns->output->columns[k];
        columns->original[k] = unaligned_value(step->x, column);
        columns->seen[k] = step->values[column];
        if (columns->input->columns[column].hash) {
            columns->original[k].id &= ~SYMBOL_MINUS;
            columns->seen[k].id &= ~SYMBOL_MINUS;
        }
    }
    step->original = columns->original;
    step->seen = columns->seen;
}

static void columns_input(void *self, struct step *step) {
    struct columns *columns = self;
    if (columns->input->hash) {
        columns->seen->id = step->input->id & ~SYMBOL_MINUS;
        step->original = step->seen = columns->seen;
        return;
    }
    encode(columns, step);
    if (columns->next)
        gather_targets(columns, step);
}

const struct part_kind columns_part = {
    .name = "columns",
    .wanted = columns_wanted,
    .open = columns_open,
    .close = columns_close,
    .input = columns_input,
};
