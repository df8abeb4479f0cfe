#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/example.h"
#include "common/hash.h"
#include "common/random.h"

size_t tensor_size(const struct tensor *tensor) {
    return tensor->columns ? tensor->rows * tensor->columns : tensor->rows;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static struct tensor *add(struct model *model, enum tensor_role role, size_t rows, size_t columns) {
    struct tensor *tensor = &model->tensors[model->tensor_count++];
    *tensor = (struct tensor){
        .role = role, .rows = rows, .columns = columns, .gates = 1, .offset = model->parameters};
    model->parameters += tensor_size(tensor);
    return tensor;
}

/* ---- Layers ---- */

static const struct layer *chain_layers(const struct model *model, const struct chain *chain) {
    switch (chain->kind) {
    case CHAIN_READER:
        return model->architecture.input.sequence.layers;
    case CHAIN_WRITER:
        return model_output(model, chain->output)->sequence.layers;
    case CHAIN_TOWER:
        return model_output(model, chain->output)->ranking.layers;
    case CHAIN_MODEL:
        break;
    }
    return model->architecture.layers;
}

size_t model_chain_of_layer(const struct model *model, size_t n) {
    size_t k = model->chain_count - 1;
    while (k > 0 && n < model->chains[k].first)
        k--;
    return k;
}

size_t model_chain_of_output(const struct model *model, size_t output) {
    const struct chain *chains = model->chains;
    size_t k = model->chain_count - 1;
    while (k > 0 && (chains[k].kind < CHAIN_WRITER || chains[k].output != output))
        k--;
    return k;
}

const struct layer *model_layer(const struct model *model, size_t n) {
    const struct chain *chain = &model->chains[model_chain_of_layer(model, n)];
    return chain_layers(model, chain) + (n - chain->first);
}

/* "output", or in a list "outputs.NAME", and the rest of the name. */
static void name_of_output(const struct model *model, size_t k, const char *rest,
                           char name[MODEL_TENSOR_NAME_SIZE]) {
    const char *own = model_output(model, k)->name;
    snprintf(name, MODEL_TENSOR_NAME_SIZE, "output%s%s.%s", *own ? "s." : "", own, rest);
}

/* The layer's number is that in its chain. */
static void name_in_chain(const struct model *model, const struct chain *chain, size_t n,
                          const char *rest, char name[MODEL_TENSOR_NAME_SIZE]) {
    enum { SIZE = 64 };
    char layer[SIZE];
    const char *tower = chain->kind == CHAIN_TOWER ? "candidates." : "";
    snprintf(layer, sizeof layer, "%slayers.%zu.%s", tower, n - chain->first, rest);
    if (chain->kind == CHAIN_MODEL || chain->kind == CHAIN_READER)
        snprintf(name, MODEL_TENSOR_NAME_SIZE, "%s%s", chain->kind == CHAIN_READER ? "input." : "",
                 layer);
    else
        name_of_output(model, chain->output, layer, name);
}

static struct tensor *add_to_layer(struct model *model, const struct chain *chain, size_t n,
                                   const char *name, enum tensor_role role, size_t gates,
                                   size_t columns) {
    struct tensor *tensor = add(model, role, gates * model_layer(model, n)->size, columns);
    tensor->layer = n;
    tensor->gates = gates;
    name_in_chain(model, chain, n, name, tensor->name);
    return tensor;
}

/* The shape of the numbers that the chain's first layer gets. */
static struct grid_shape chain_shape(const struct model *model, const struct chain *chain) {
    const struct input *input = &model->architecture.input;
    if (chain->kind == CHAIN_TOWER)
        return model_output(model, chain->output)->ranking.shape;
    if (chain->kind == CHAIN_READER || (chain->kind == CHAIN_MODEL && !input_is_message(input)))
        return input->shape;
    return (struct grid_shape){0};
}

struct grid_shape layer_derive(struct layer *layer, struct grid_shape from) {
    if (!cell_kind(layer->cell)->spatial)
        return (struct grid_shape){0};
    layer->size = layer->shape.channels;
    layer->shape.rows = (from.rows - layer->kernel) / layer->stride + 1;
    layer->shape.columns = (from.columns - layer->kernel) / layer->stride + 1;
    return layer->shape;
}

static void add_sums(struct model *model, const struct chain *chain, size_t n, size_t inputs) {
    const struct layer *layer = model_layer(model, n);
    const struct cell_kind *kind = cell_kind(layer->cell);
    size_t taps = layer_taps(layer);
    struct grid_shape patch = {model->input_shape[n].channels, layer->kernel, layer->kernel};
    if (kind->spatial)
        inputs = patch.channels * patch.rows * patch.columns;
    for (size_t k = 0; k < CELL_TENSORS_MAX && kind->tensors[k].name; k++) {
        const struct cell_tensor *tensor = &kind->tensors[k];
        const size_t columns[] = {[COLUMNS_NONE] = 0,
                                  [COLUMNS_INPUTS] = inputs * taps,
                                  [COLUMNS_UNITS] = layer->diagonal ? 0 : layer->size};
        if (tensor->unnormalized && layer_normalizes_sums(layer))
            continue;
        struct tensor *added =
            add_to_layer(model, chain, n, tensor->name, tensor->role,
                         tensor->of_unit ? 1 : kind->gates, columns[tensor->columns]);
        if (kind->spatial && added->columns)
            memcpy(added->dimensions, &patch, sizeof patch);
        if (taps > 1 && tensor->columns == COLUMNS_INPUTS)
            memcpy(added->dimensions, (size_t[]){inputs, taps}, 2 * sizeof inputs);
    }
}

/* Gains and biases of each place; those of columns' outputs are of all of it together. */
static void add_norms(struct model *model, const struct chain *chain, size_t n) {
    static const char *const names[] = {"gain", "bias"};
    const struct layer *layer = model_layer(model, n);
    const struct cell_kind *kind = cell_kind(layer->cell);
    bool output = layer_normalizes_output(layer);
    size_t places = output ? 1 : layer_normalizes_sums(layer) ? PLACES : 0;
    char name[sizeof "norm_ih.gain"];
    for (size_t k = 0; k < 2 * places; k++) {
        size_t place = k / 2, gates = place == PLACE_INNER ? 1 : kind->gates;
        enum tensor_role role = (k % 2 ? TENSOR_NORM_BIAS_IH : TENSOR_GAIN_IH) + place;
        const char *norm = output ? "norm" : kind->norms[place];
        snprintf(name, sizeof name, "%s.%s", norm ? norm : "", names[k % 2]);
        if (output)
            add_to_layer(model, chain, n, name, role, kind->outputs, 0)->gates = 1;
        else if (norm)
            add_to_layer(model, chain, n, name, role, gates, 0);
    }
}

/* Adds the chain's tensors and the sizes of its layers. */
static void add_layers(struct model *model, struct chain *chain) {
    struct grid_shape shape = chain_shape(model, chain);
    chain->width = chain->inputs;
    for (size_t n = chain->first; n < chain->first + chain->count; n++) {
        struct layer *layer = (struct layer *)model_layer(model, n);
        model->input_shape[n] = shape;
        shape = layer_derive(layer, shape);
        model->input_width[n] = chain->width;
        model->state_offset[n] = chain->state_size;
        chain->state_size += cell_kind(layer->cell)->states * layer->size;
        chain->state_size += layer_delay(layer) * chain->width;
        add_sums(model, chain, n, chain->width);
        add_norms(model, chain, n);
        chain->width = layer_width(layer);
    }
}

static void add_statistics(struct model *model, size_t n) {
    static const char *const names[] = {"running_mean", "running_var"};
    const struct layer *layer = model_layer(model, n);
    const struct cell_kind *kind = cell_kind(layer->cell);
    const struct norm_kind *norm = norm_kind(layer->norm);
    for (size_t k = 0; k < 2 * PLACES && norm->source == SOURCE_RUNNING; k++) {
        size_t place = k / 2, units = (place == PLACE_INNER ? 1 : kind->gates) * layer->size;
        enum tensor_role role = (k % 2 ? TENSOR_VAR_IH : TENSOR_MEAN_IH) + place;
        if (!kind->norms[place])
            continue;
        struct tensor *tensor =
            norm->by_age ? add(model, role, layer->norm_steps, units) : add(model, role, units, 0);
        tensor->layer = n;
        snprintf(tensor->name, sizeof tensor->name, "layers.%zu.%s.%s", n, kind->norms[place],
                 names[k % 2]);
    }
    if (norm->by_age)
        model->ages = larger(model->ages, layer->norm_steps);
}

/* ---- Outputs ---- */

static size_t outputs(const struct output *output) {
    const struct loss_part *part = loss_kind(output->loss)->parts;
    size_t count = 0;
    for (; part->extent != EXTENT_NONE; part++)
        count += loss_part_size(part, output->size, output->components);
    return count;
}

/* Steps that wait for their targets right after a step. */
static size_t open_steps(const struct output *output) {
    switch (output->target) {
    case TARGET_NEXT:
        return output_ahead(output, output->ahead.count ? output->ahead.count - 1 : 0);
    case TARGET_LATER:
        return output->patience + 1;
    default:
        return 1;
    }
}

static size_t target_size(const struct output *output) {
    const struct loss_kind *kind = loss_kind(output->loss);
    if (kind->class_id)
        return 1;
    return kind->size ? kind->size : output->size;
}

static struct tensor *add_to_output(struct model *model, size_t k, const char *name,
                                    enum tensor_role role, size_t rows, size_t columns) {
    struct tensor *tensor = add(model, role, rows, columns);
    tensor->layer = k;
    name_of_output(model, k, name, tensor->name);
    return tensor;
}

/* The last linear layer of an output with `width` inputs, and its path from the encoded input. */
static void add_linear(struct model *model, size_t k, size_t rows, size_t width) {
    add_to_output(model, k, "weight", TENSOR_OUTPUT_WEIGHT, rows, width);
    if (model->architecture.output.skip)
        add_to_output(model, k, "weight_skip", TENSOR_OUTPUT_SKIP, rows, model->encoded);
    add_to_output(model, k, "bias", TENSOR_OUTPUT_BIAS, rows, 0);
}

static void add_writer(struct model *model, size_t k, struct chain *chain) {
    const struct output *output = model_output(model, k);
    bool given = output->target == TARGET_GIVEN, classes = loss_kind(output->loss)->class_id;
    size_t numbers = classes ? output->size + 1 : outputs(output);
    chain->inputs = classes && output->sequence.embedding ? output->sequence.embedding
                    : given                               ? output->size
                                                          : model->chains[1].inputs;
    if (given && classes && output->sequence.embedding)
        add_to_output(model, k, "embedding.weight", TENSOR_ATOM_EMBEDDING, output->size,
                      chain->inputs);
    add_layers(model, chain);
    add_to_output(model, k, "start.weight", TENSOR_START_WEIGHT, chain->state_size,
                  model->chains[0].width);
    add_to_output(model, k, "start.bias", TENSOR_START_BIAS, chain->state_size, 0);
    add_to_output(model, k, "weight", TENSOR_WRITER_WEIGHT, numbers, chain->width);
    add_to_output(model, k, "bias", TENSOR_WRITER_BIAS, numbers, 0);
}

static void add_tower(struct model *model, size_t k, struct chain *chain) {
    const struct output *output = model_output(model, k);
    const struct ranking *ranking = &output->ranking;
    if (ranking->kind == INPUT_SYMBOL) {
        add_to_output(model, k, "candidates.embedding.weight", TENSOR_CANDIDATE_ROWS, ranking->size,
                      output->size);
        add_to_output(model, k, "candidates.bias", TENSOR_CANDIDATE_BIAS, ranking->size, 0);
        return;
    }
    chain->inputs = ranking->size;
    add_layers(model, chain);
    add_to_output(model, k, "candidates.weight", TENSOR_CANDIDATE_WEIGHT, output->size,
                  chain->width);
}

static void add_output(struct model *model, size_t k) {
    bool listed = model->architecture.other_count;
    struct chain *chain = &model->chains[model_chain_of_output(model, k)];
    if (chain->kind == CHAIN_WRITER) {
        add_writer(model, k, chain);
        return;
    }
    if (chain->kind == CHAIN_TOWER)
        add_tower(model, k, chain);
    add_linear(model, k, listed ? model->heads[k].scored : model->outputs, model->chains[0].width);
}

/* Heads follow each other in K. */
static void describe_heads(struct model *model) {
    const struct architecture *architecture = &model->architecture;
    size_t horizons = architecture->output.ahead.count ? architecture->output.ahead.count : 1;
    model->horizons = horizons + architecture->other_count;
    for (size_t h = 0; h < model->horizons; h++) {
        struct model_head *head = &model->heads[h];
        head->output = h < horizons ? 0 : h - horizons + 1;
        const struct output *output = model_output(model, head->output);
        size_t numbers = target_size(output);
        head->at = model->outputs;
        head->weight = architecture->other_count ? (float)output->weight : 1.0F;
        head->late = output_is_message(output) || output_ranks(output);
        head->scored = output_is_message(output) ? 0 : outputs(output);
        head->target_size = output_is_message(output) ? 1 + output->sequence.longest * numbers
                            : output_ranks(output)    ? output_candidate_size(output)
                                                      : numbers;
        if (h == 0 || !output_is_input(output)) {
            model->sent = head->output;
            model->y_size = output_ranks(output) ? head->target_size : numbers;
        }
        model->outputs += head->scored;
        model->late |= head->late;
        /* a ranking's SCORE results in 2 numbers */
        model->scored = larger(model->scored, head->late ? larger(head->scored, 2) : head->scored);
        model->target_size = larger(model->target_size, head->target_size);
        model->open = larger(model->open, open_steps(output));
    }
}

/* z and u for each column, and for each horizon v and, if targets are relative to it, the
   forecast of ar12. For each known column its values at the horizons, and its current one. */
static size_t forecast_features(struct model *model) {
    enum { OF_COLUMN = 2 };
    const struct architecture *architecture = &model->architecture;
    const struct output *output = &architecture->output;
    size_t horizons = output->ahead.count ? output->ahead.count : 1;
    size_t known = architecture->input.size - output->size;
    bool base = output->relative == RELATIVE_AR12;
    model->known = known / horizons;
    return (OF_COLUMN + horizons * (1 + base)) * output->size + known + model->known;
}

static void add_embedding(struct model *model, const char *column, size_t size, size_t width) {
    struct tensor *tensor = add(model, TENSOR_EMBEDDING, size, width);
    snprintf(tensor->name, sizeof tensor->name, "embedding.%s%sweight", column, *column ? "." : "");
}

/* One symbol. These functions return the width of the encoded input. */
static size_t add_symbol(struct model *model, const struct input *input) {
    model->features = 1;
    if (!input->embedding)
        return input->size;
    add_embedding(model, input->column_count ? input->columns[0].name : "", input->size,
                  input->embedding);
    return input->embedding;
}

static void add_numbers(struct model *model, size_t at, size_t width) {
    struct input_part *last = model->part_count ? &model->parts[model->part_count - 1] : NULL;
    if (last && !last->size)
        last->width += width;
    else
        model->parts[model->part_count++] =
            (struct input_part){model->features, at, width, 0, MODEL_NO_TENSOR};
}

static void add_part(struct model *model, const struct column *column, size_t at) {
    struct input_part part = {model->features, at, column_width(column), column->size,
                              MODEL_NO_TENSOR};
    if (column->kind != COLUMN_SYMBOL) {
        add_numbers(model, at, part.width);
        return;
    }
    if (column->embedding) {
        part.tensor = model->tensor_count;
        add_embedding(model, column->name, column->size, column->embedding);
        model->embeddings++;
    }
    model->parts[model->part_count++] = part;
}

static size_t add_columns(struct model *model, const struct input *input) {
    size_t width = 0;
    for (size_t k = 0; k < input->column_count; k++) {
        add_part(model, &input->columns[k], width);
        width += column_width(&input->columns[k]);
        model->features += column_features(&input->columns[k]);
    }
    return width;
}

/* One hashed symbol, whose row may count negatively: a part if it is embedded. */
static size_t add_hashed(struct model *model, const struct input *input) {
    const struct column column = {
        .kind = COLUMN_SYMBOL, .size = input->size, .embedding = input->embedding};
    if (!input->embedding)
        return add_symbol(model, input);
    add_part(model, &column, 0);
    model->features = 1;
    return input->embedding;
}

/* Features of an example's time, after all other inputs. */
static size_t add_time(struct model *model, size_t width) {
    unsigned time = model->architecture.input.time;
    for (unsigned feature = TIME_GAP; feature < TIME_FEATURES; feature++)
        if (time >> feature & 1)
            model->times += feature == TIME_GAP ? 1 : 2;
    if (model->times && model->part_count)
        add_numbers(model, width, model->times);
    if (model->part_count == 1 && !model->parts[0].size) /* only numbers */
        model->part_count = 0;
    model->features += model->times;
    return width + model->times;
}

static size_t add_input(struct model *model) {
    const struct input *input = &model->architecture.input;
    model->x_size = input->kind == INPUT_SYMBOL ? 1 : input->size;
    if (input->kind == INPUT_SYMBOL)
        return input->hash ? add_hashed(model, input) : add_symbol(model, input);
    if (input->scale == SCALE_FORECAST)
        return model->features = forecast_features(model);
    return input->column_count ? add_columns(model, input) : (model->features = input->size);
}

size_t model_most_rows(const struct model *model) {
    size_t x = model->architecture.input.sequence.longest;
    size_t y = model_output(model, model->sent)->sequence.longest;
    return larger(EXAMPLE_STEPS_MAX, larger(x, y));
}

static void describe_chain(struct model *model, enum chain_kind kind, size_t count, size_t output) {
    model->chains[model->chain_count++] =
        (struct chain){.kind = kind, .output = output, .first = model->layer_count, .count = count};
    model->layer_count += count;
}

static void describe_chains(struct model *model) {
    const struct architecture *architecture = &model->architecture;
    describe_chain(model, CHAIN_MODEL, architecture->layer_count, 0);
    if (input_is_message(&architecture->input))
        describe_chain(model, CHAIN_READER, architecture->input.sequence.layer_count, 0);
    for (size_t k = 0; k <= architecture->other_count; k++) {
        const struct output *output = model_output(model, k);
        if (output_is_message(output))
            describe_chain(model, CHAIN_WRITER, output->sequence.layer_count, k);
        else if (output_ranks(output))
            describe_chain(model, CHAIN_TOWER, output->ranking.layer_count, k);
    }
}

/* The tensors of what reads a message, whose atoms have that width. */
static void add_reader(struct model *model, size_t width) {
    const struct sequence *sequence = &model->architecture.input.sequence;
    const struct pool_kind *kind = pool_kind(sequence->pool);
    struct chain *chain = &model->chains[1];
    chain->inputs = width;
    add_layers(model, chain);
    for (size_t k = 0; k < POOL_TENSORS_MAX && kind->tensors[k].name; k++) {
        size_t columns = kind->tensors[k].matrix ? chain->width : 0;
        struct tensor *tensor = add(model, TENSOR_POOL + k, sequence->attention, columns);
        snprintf(tensor->name, sizeof tensor->name, "input.pool.%s", kind->tensors[k].name);
    }
    model->encoded = kind->vectors * chain->width;
    model->features = 1 + sequence->longest * model->features_atom;
}

void model_build(struct model *model, const struct architecture *architecture) {
    memset(model, 0, sizeof *model);
    model->architecture = *architecture;
    const struct output *output = &architecture->output;
    describe_chains(model);
    model->encoded = add_time(model, add_input(model));
    model->features_atom = model->features;
    if (input_is_message(&architecture->input))
        add_reader(model, model->encoded);
    struct chain *main = &model->chains[0];
    main->inputs = model->encoded;
    add_layers(model, main);
    model->state_size = main->state_size;
    describe_heads(model);
    if (!output->solved)
        for (size_t k = 0; k <= architecture->other_count; k++)
            add_output(model, k);
    model->learned_count = model->tensor_count;
    model->learned = model->parameters;
    if (output->solved)
        add_output(model, 0);
    model->solved = output->solved ? main->width + output->skip * model->encoded + 1 : 0;
    model->kept = model->solved ? model->solved - 1 : model->late ? main->width : 0;
    for (size_t n = 0; n < architecture->layer_count; n++)
        add_statistics(model, n);
    model->age_offset = model->state_size;
    model->state_size += model->ages > 0;
}

const struct tensor *model_find(const struct model *model, enum tensor_role role, size_t layer) {
    for (size_t n = 0; n < model->tensor_count; n++)
        if (model->tensors[n].role == role && model->tensors[n].layer == layer)
            return &model->tensors[n];
    return NULL;
}

const struct tensor *model_named(const struct model *model, const char *name) {
    for (size_t n = 0; n < model->tensor_count; n++)
        if (strcmp(model->tensors[n].name, name) == 0)
            return &model->tensors[n];
    return NULL;
}

/* The random state from the seed and the tensor's name: a tensor's values do not depend on the
   model's other tensors. */
static uint64_t start(uint64_t seed, const char *name) {
    return random_mix(random_mix(seed) ^ hash_bytes(HASH_BEGIN, name, strlen(name)));
}

/* Uniform in (-1, 1), symmetric about 0. */
static double uniform(uint64_t *random) {
    const double half_steps = 0x1p52;
    return ((double)(random_bits(random) >> 11) + 0.5 - half_steps) / half_steps;
}

/* Standard normal: Marsaglia's polar method; the second number of each pair is not used. */
static double normal(uint64_t *random) {
    for (;;) {
        double u = uniform(random), v = uniform(random), s = u * u + v * v;
        if (s < 1.0 && s > 0.0)
            return u * sqrt(-2.0 * log(s) / s);
    }
}

static double dot(const double *restrict a, const double *restrict b, size_t n) {
    enum { LANES = 8 }; /* independent sums for instruction-level parallelism */
    double sums[LANES] = {0};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[k + lane] * b[k + lane];
    double sum = 0.0;
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    for (; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* A random orthogonal matrix, uniformly distributed: modified Gram-Schmidt on normal rows, in
   double, whose rounding error (at most about 1e-10) vanishes in float. `work` is (size, size). */
static void fill_orthogonal(float *values /* (size, size) */, size_t size, double *work,
                            uint64_t *random) {
    for (size_t row = 0; row < size; row++) {
        double *restrict v = work + row * size;
        double length = 0.0;
        while (length == 0.0) {
            for (size_t k = 0; k < size; k++)
                v[k] = normal(random);
            for (size_t done = 0; done < row; done++) {
                const double *restrict q = work + done * size;
                double along = dot(q, v, size);
                for (size_t k = 0; k < size; k++)
                    v[k] -= along * q[k];
            }
            length = sqrt(dot(v, v, size));
        }
        for (size_t k = 0; k < size; k++) {
            v[k] /= length;
            values[row * size + k] = (float)v[k];
        }
    }
}

static void fill_uniform(float *values, size_t count, size_t fan_in, uint64_t *random) {
    double bound = 1.0 / sqrt((double)fan_in);
    for (size_t k = 0; k < count; k++)
        values[k] = (float)(bound * uniform(random));
}

static int initialize_recurrent(const struct tensor *tensor, uint64_t *random, float *values,
                                struct error *error) {
    size_t size = tensor->columns;
    if (!size) { /* diagonal */
        fill_uniform(values, tensor->rows, 1, random);
        return 0;
    }
    double *work = calloc(size, size * sizeof *work);
    if (!work)
        return error_set(error, EX_UNAVAILABLE,
                         "out of memory for the starting values of %s (%zu x %zu)", tensor->name,
                         tensor->rows, tensor->columns);
    for (size_t gate = 0; gate < tensor->gates; gate++)
        fill_orthogonal(values + gate * size * size, size, work, random);
    free(work);
    return 0;
}

static void fill(float *values, size_t count, float value) {
    for (size_t k = 0; k < count; k++)
        values[k] = value;
}

static void add_forget_bias(const struct layer *layer, float *values) {
    size_t gate = cell_kind(layer->cell)->forget_gate;
    for (size_t k = 0; gate > 0 && k < layer->size; k++)
        values[gate * layer->size + k] += layer->forget_bias;
}

/* One T a unit for all of its gates. */
static void start_memory(const struct layer *layer, uint64_t *random, float *values) {
    const struct cell_kind *kind = cell_kind(layer->cell);
    const double least = 0.01; /* of T - 1 */
    for (size_t k = 0; k < layer->size && layer->memory; k++) {
        double later = ((double)layer->memory - 1.0) * (1.0 + uniform(random)) / 2.0;
        for (size_t gate = 0; gate < kind->gates; gate++)
            if (kind->memory[gate])
                values[gate * layer->size + k] =
                    (float)(kind->memory[gate] * log(fmax(later, least)));
    }
}

/* Of an rtu: |lambda|^2 is uniform, and so is lambda in a ring of the complex plane. */
static void start_decay(const struct layer *layer, uint64_t *random, float *values) {
    double from = layer->radius.of[0] * layer->radius.of[0];
    double to = layer->radius.of[1] * layer->radius.of[1];
    for (size_t k = 0; k < layer->size; k++)
        values[k] = (float)log(-0.5 * log(from + (to - from) * (1.0 + uniform(random)) / 2.0));
}

static void start_phase(const struct layer *layer, uint64_t *random, float *values) {
    const double half_turn = 3.14159265358979323846;
    for (size_t k = 0; k < layer->size; k++)
        values[k] = (float)log(half_turn * (1.0 + uniform(random)));
}

int model_initialize(const struct model *model, const struct tensor *tensor, uint64_t seed,
                     float *values, struct error *error) {
    const struct layer *layer = model_layer(model, tensor->layer);
    size_t count = tensor_size(tensor);
    uint64_t random = start(seed, tensor->name);
    bool normalized = layer_normalizes_sums(layer);
    const struct cell_kind *kind = cell_kind(layer->cell);
    const struct tensor *weight = model_find(model, TENSOR_WEIGHT_IH, tensor->layer);
    bool linear = kind->spatial || (kind->states == 0 && !normalized);

    if (model->solved && tensor->role >= TENSOR_OUTPUT_WEIGHT && tensor->role <= TENSOR_OUTPUT_SKIP)
        return fill(values, count, 0.0F), 0;
    switch (tensor->role) {
    case TENSOR_WEIGHT_HH:
        return initialize_recurrent(tensor, &random, values, error);
    case TENSOR_BIAS_IH:
        fill_uniform(values, count, linear ? weight->columns : layer->size, &random);
        if (!normalized)
            add_forget_bias(layer, values);
        start_memory(layer, &random, values);
        break;
    case TENSOR_UNIT_0:
        start_decay(layer, &random, values);
        break;
    case TENSOR_UNIT_1:
        start_phase(layer, &random, values);
        break;
    case TENSOR_BIAS_HH:
        fill_uniform(values, count, layer->size, &random);
        break;
    case TENSOR_OUTPUT_BIAS:
    case TENSOR_START_BIAS:
    case TENSOR_WRITER_BIAS: /* of the weight before it */
        fill_uniform(values, count, model_find(model, tensor->role - 1, tensor->layer)->columns,
                     &random);
        break;
    case TENSOR_GAIN_IH:
    case TENSOR_GAIN_HH:
    case TENSOR_GAIN_INNER:
        fill(values, count, layer->gain);
        break;
    case TENSOR_NORM_BIAS_IH:
        fill(values, count, 0.0F);
        if (normalized)
            add_forget_bias(layer, values);
        break;
    case TENSOR_CANDIDATE_BIAS:
    case TENSOR_NORM_BIAS_HH:
    case TENSOR_NORM_BIAS_INNER:
        fill(values, count, 0.0F);
        break;
    default:
        if (tensor->role >= TENSOR_MEAN_IH)
            fill(values, count, tensor->role >= TENSOR_VAR_IH ? 1.0F : 0.0F);
        else
            fill_uniform(values, count, tensor->columns ? tensor->columns : tensor->rows, &random);
    }
    return 0;
}

size_t slot_record_size(const struct model *model, size_t window) {
    enum { LEARNED_MARK = 1 };
    size_t targets = model->horizons * (model->target_size + LEARNED_MARK);
    size_t position = model->state_size + model->features + targets;
    return model->state_size + model_places(model, window) * (model->outputs + model->kept) +
           model_ring(model, window) * position;
}
