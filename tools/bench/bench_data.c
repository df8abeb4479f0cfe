#include "bench_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"

enum { DATA_EXAMPLES = 1024, DATA_BYTES = 1 << 20, DATA_EXAMPLES_MIN = 64 };

static const double TAU = 6.283185307179586;

/* Whole periods fit into the data, so that it can be repeated. */
static double signal(const struct bench_data *data, size_t step, size_t unit, uint64_t *state) {
    double periods = 1 + (double)(unit * 5 % 31);
    double phase = TAU * periods * (double)step / (double)data->count + (double)unit;
    return sin(phase) + 0.2 * (random_uniform(state, 0, 1) - 0.5);
}

enum { MESSAGE_ATOMS = 16 }; /* at most */

/* Mostly the symbol after the previous one. */
static uint32_t walk(uint32_t before, size_t alphabet, uint64_t *state) {
    if (random_uniform(state, 0, 1) < 0.2)
        return (uint32_t)(random_uniform(state, 0, 1) * (double)alphabet);
    return (uint32_t)((before + 1) % alphabet);
}

/* Whether number `unit` of a target is a probability. */
static bool is_probability(enum loss loss, size_t unit) {
    const struct loss_kind *kind = loss_kind(loss);
    return kind->unit_range || (kind->together > 0 && unit >= kind->together);
}

static void fill_reals(struct bench_data *data, union value *rows, size_t width, bool target,
                       enum loss loss, uint64_t *state) {
    for (size_t step = 0; step < data->count; step++)
        for (size_t unit = 0; unit < width; unit++) {
            double value = signal(data, step, unit, state);
            if (target && is_probability(loss, unit))
                value = value > 0;
            rows[step * width + unit].real = (float)value;
        }
}

static void fill_ids(struct bench_data *data, union value *rows, size_t alphabet, uint64_t *state) {
    uint32_t id = 0;
    for (size_t step = 0; step < data->count; step++)
        rows[step].id = id = walk(id, alphabet, state);
}

/* Columns: times for a cycle, ids for a symbol; numbers are already set. */
static void fill_columns(struct bench_data *data, const struct input *input, uint64_t *state) {
    for (size_t k = 0; k < input->column_count; k++) {
        const struct column *column = &input->columns[k];
        uint32_t id = 0;
        for (size_t step = 0; step < data->count; step++) {
            union value *value = &data->x[step * data->inputs + k];
            if (column_is_symbol(column))
                value->id = id = walk(id, column->size, state);
            else if (column_is_cycle(column))
                value->real = (float)fmod((double)step, column->period);
        }
    }
}

/* An engine's x of columns: numbers, and symbols of each alphabet. */
static int fill_rows(struct bench_data *data, const struct model *model, uint64_t *state) {
    data->features = model->features;
    data->rows = calloc(data->count, model->features * sizeof *data->rows);
    if (!data->rows)
        return -1;
    fill_reals(data, data->rows, model->features, false, model->architecture.output.loss, state);
    for (size_t n = 0; n < model->part_count; n++) {
        const struct input_part *part = &model->parts[n];
        uint32_t id = 0;
        for (size_t step = 0; part->size && step < data->count; step++)
            data->rows[step * model->features + part->from].id = id = walk(id, part->size, state);
    }
    return 0;
}

int bench_data_open(struct bench_data *data, const struct model *model, uint64_t seed) {
    const struct input *input = &model->architecture.input;
    const struct output *output = &model->architecture.output;
    bool next = output_is_next(output), class_id = loss_kind(output->loss)->class_id;
    data->inputs = model->x_size;
    data->targets = class_id ? 1 : output->size;
    size_t fitting = DATA_BYTES / (sizeof(union value) * (data->inputs + data->targets));
    data->count = fitting > DATA_EXAMPLES ? DATA_EXAMPLES : fitting;
    if (data->count < DATA_EXAMPLES_MIN)
        data->count = DATA_EXAMPLES_MIN;
    size_t numbers = data->count * data->inputs, more = model->features + model->outputs;
    data->x = calloc(numbers + more, sizeof *data->x);
    data->y = calloc(data->count, data->targets * sizeof *data->y);
    data->rows = NULL;
    bool columns = input->column_count && input_is_real(input);
    if (!data->x || !data->y || ((columns || model->times) && fill_rows(data, model, &seed))) {
        bench_data_close(data);
        return -1;
    }
    if (input_is_real(input))
        fill_reals(data, data->x, data->inputs, next && !class_id, output->loss, &seed);
    else
        fill_ids(data, data->x, input->size, &seed);
    if (columns)
        fill_columns(data, input, &seed);
    for (size_t n = 0; n < more; n++)
        data->x[numbers + n] = data->x[n % numbers];
    if (class_id)
        fill_ids(data, data->y, output->size, &seed);
    else
        fill_reals(data, data->y, data->targets, true, output->loss, &seed);
    return 0;
}

void bench_data_close(struct bench_data *data) {
    free(data->x);
    free(data->y);
    free(data->rows);
    data->x = data->y = data->rows = NULL;
}

struct example bench_data_example(const struct bench_data *data,
                                  const struct architecture *architecture, const char *key,
                                  uint64_t index) {
    const struct input *input = &architecture->input;
    size_t row = (size_t)(index % data->count),
           longest = input_is_message(input) ? input->sequence.longest : 0;
    bool given = !output_is_input(&architecture->output);
    return (struct example){
        .key = key,
        .key_size = strlen(key),
        .steps = 1,
        .atoms = longest < MESSAGE_ATOMS ? longest : MESSAGE_ATOMS,
        .target_atoms = given && output_is_message(&architecture->output),
        .x = data->x + row * data->inputs,
        .y = given ? data->y + row * data->targets : NULL,
        .learn = true,
    };
}
