#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/threads.h"

#include "matrix.h"
#include "model/rule.h"
#include "network.h"

void *memory_reserve(size_t size) {
    void *memory = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void memory_release(void *memory, size_t size) {
    if (memory)
        munmap(memory, size ? size : 1);
}

/* Requests large pages: without them, reading a large model's weights misses the page tables at
   every other step. */
static void ask_for_large_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
    enum { LARGE_PAGE = 2 << 20 };
    uintptr_t first = ((uintptr_t)memory + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t end = ((uintptr_t)memory + size) / LARGE_PAGE * LARGE_PAGE;
    if (first < end)
        madvise((void *)first, end - first, MADV_HUGEPAGE); /* advice: a failure only costs time */
#else
    (void)memory, (void)size;
#endif
}

/* ---- The block of parameters ---- */

static bool is_matrix(const struct tensor *tensor) {
    return tensor->columns > 0;
}

static bool is_output(const struct tensor *tensor) {
    return tensor->role >= TENSOR_OUTPUT_WEIGHT && tensor->role <= TENSOR_OUTPUT_SKIP;
}

/* Several outputs are rows of one matrix, which has room when its first one is laid out. */
static bool has_room(const struct network *n, const struct tensor *tensor) {
    const struct tensor *first = n->model->tensors;
    while (first->role != tensor->role)
        first++;
    return is_output(tensor) && first != tensor;
}

/* A tensor whose rows are read one at a time: they are not padded. */
static bool is_plain(const struct tensor *tensor) {
    return tensor->role == TENSOR_EMBEDDING ||
           (tensor->role >= TENSOR_POOL && tensor->role <= TENSOR_CANDIDATE_BIAS);
}

/* Numbers of a tensor in the block, with the other outputs' of its role. Rows are padded gate by
   gate. */
static size_t block_size(const struct network *n, const struct tensor *tensor) {
    if (is_plain(tensor))
        return matrix_pad(tensor_size(tensor));
    size_t rows = tensor->gates * matrix_pad(tensor->rows / tensor->gates);
    if (is_output(tensor))
        rows = n->padded;
    return is_matrix(tensor) ? rows * tensor->columns : rows;
}

static bool is_running(const struct tensor *tensor) {
    return tensor->role >= TENSOR_MEAN_IH && tensor->role <= TENSOR_VAR_INNER;
}

static bool is_of_layer(const struct tensor *tensor) {
    return (tensor->role > TENSOR_EMBEDDING && tensor->role < TENSOR_POOL) || is_running(tensor);
}

/* The chain that has the layer, or that reads, or that writes or ranks an output. */
static struct network *chain_of(struct network *n, const struct tensor *tensor) {
    enum tensor_role role = tensor->role;
    size_t k = is_of_layer(tensor) ? model_chain_of_layer(n->model, tensor->layer)
               : role < TENSOR_POOL || role > TENSOR_WRITER_BIAS ? 0
               : role <= TENSOR_POOL_3                           ? 1
                                       : model_chain_of_output(n->model, tensor->layer);
    return n->chains[k];
}

static struct network_layer *layer_of(struct network *n, const struct tensor *tensor) {
    struct network *chain = chain_of(n, tensor);
    return &chain->layers[tensor->layer - chain->chain->first];
}

static size_t *block_offset(struct network *n, const struct tensor *tensor) {
    for (size_t k = 0; k < n->model->part_count; k++)
        if (n->model->parts[k].tensor == (size_t)(tensor - n->model->tensors))
            return &n->embeddings[k];
    return is_of_layer(tensor) ? &layer_of(n, tensor)->at[tensor->role]
                               : &chain_of(n, tensor)->at[tensor->role];
}

/* Extends the range. */
static void widen(struct range *range, size_t from, size_t size) {
    range->from = range->end && range->from < from ? range->from : from;
    range->end = range->end > from + size ? range->end : from + size;
}

/* Records the numbers of the block that are a layer's, and those for which a learning rule keeps
   data. */
static void note_range(struct network *n, const struct tensor *tensor, size_t from) {
    struct network_kept *kept = &n->kept;
    size_t size = block_size(n, tensor);
    bool matrix = is_matrix(tensor);
    if (rule_covers(n->model, kept->rule, tensor))
        widen(matrix ? &kept->matrices : &kept->vectors, from, size);
    if (!is_of_layer(tensor))
        return;
    struct network_layer *l = layer_of(n, tensor);
    widen(matrix ? &l->matrices : &l->vectors, from, size);
}

/* Matrices first, then vectors, then tensors that no optimizer learns. */
static void lay_out_block(struct network *n) {
    const struct model *model = n->model;
    for (int matrices = 1; matrices >= 0; matrices--) {
        if (!matrices)
            n->vectors = n->block;
        for (size_t i = 0; i < model->learned_count; i++) {
            const struct tensor *tensor = &model->tensors[i];
            if (is_matrix(tensor) != (bool)matrices || has_room(n, tensor))
                continue;
            *block_offset(n, tensor) = n->block;
            if (!is_output(tensor))
                note_range(n, tensor, n->block);
            n->block += block_size(n, tensor);
        }
    }
    n->trained = n->block;
    for (size_t i = model->learned_count; i < model->tensor_count; i++) {
        const struct tensor *tensor = &model->tensors[i];
        if (!is_output(tensor))
            continue;
        *block_offset(n, tensor) = n->block;
        n->block += block_size(n, tensor);
    }
}

/* The index of number (row, column) of a tensor in the block. */
static size_t block_index(const struct network *n, const struct tensor *tensor, size_t row,
                          size_t column) {
    size_t base = *block_offset((struct network *)n, tensor);
    if (is_plain(tensor))
        return base + row * (is_matrix(tensor) ? tensor->columns : 1) + column;
    size_t units = tensor->rows / tensor->gates, padded = matrix_pad(units);
    size_t place = row / units * padded + row % units, rows = tensor->gates * padded;
    if (is_output(tensor)) {
        place += n->model->heads[tensor->layer].at;
        rows = n->padded;
    }
    size_t taps = tensor->role == TENSOR_WEIGHT_IH && tensor->dimensions[0]
                      ? layer_of((struct network *)n, tensor)->taps
                      : 1;
    if (taps > 1) /* tap by tap */
        column = column % taps * (tensor->columns / taps) + column / taps;
    return is_matrix(tensor) ? base + matrix_index(rows, tensor->columns, place, column)
                             : base + place;
}

float *network_output(const struct network *n, size_t k, size_t i) {
    size_t size = n->width, columns = n->model->architecture.output.skip ? n->inputs : 0;
    if (i < size)
        return n->parameters + n->at[TENSOR_OUTPUT_WEIGHT] + matrix_index(n->padded, size, k, i);
    if (i < size + columns)
        return n->parameters + n->at[TENSOR_OUTPUT_SKIP] +
               matrix_index(n->padded, columns, k, i - size);
    return n->parameters + n->at[TENSOR_OUTPUT_BIAS] + k;
}

/* Number `index` of running statistics. */
static float *running(const struct network *n, const struct tensor *tensor, size_t index) {
    const struct network_layer *l = layer_of((struct network *)n, tensor);
    bool mean = tensor->role < TENSOR_VAR_IH;
    const struct unit_norm *u = &l->units[tensor->role - (mean ? TENSOR_MEAN_IH : TENSOR_VAR_IH)];
    size_t units = is_matrix(tensor) ? tensor->columns : tensor->rows, unit = index % units;
    size_t place = unit / l->size * l->padded + unit % l->size;
    return (mean ? u->mean : u->var) + index / units * u->width + place;
}

void network_copy(const struct network *n, float *block, const struct tensor *tensor, float *values,
                  bool read) {
    size_t columns = is_matrix(tensor) ? tensor->columns : 1;
    for (size_t i = 0, count = tensor_size(tensor); i < count; i++) {
        float *own = is_running(tensor) ? running(n, tensor, i)
                                        : &block[block_index(n, tensor, i / columns, i % columns)];
        memory_copy(own, values + i, sizeof *own, read);
    }
}

/* ---- All other arrays ---- */

static void describe_grid(struct network *n, size_t k) {
    const struct layer *layer = model_layer(n->model, n->chain->first + k);
    size_t positions = layer_positions(layer);
    n->layers[k].grid = (struct network_grid){.from = n->model->input_shape[n->chain->first + k],
                                              .to = layer->shape,
                                              .stride = layer->stride,
                                              .groups = layer->norm_groups};
    n->positions = positions > n->positions ? positions : n->positions;
}

static void describe_layer(struct network *n, size_t k) {
    const struct layer *layer = model_layer(n->model, n->chain->first + k);
    struct network_layer *l = &n->layers[k];
    l->cell = layer->cell;
    l->activation = layer->activation;
    l->kind = cell_kind(layer->cell);
    l->column = layer_is_columns(layer);
    l->diagonal = layer->diagonal;
    l->normal = layer_normalizes_output(layer);
    l->source = l->column ? SOURCE_NOTHING : norm_kind(layer->norm)->source;
    l->centred = !l->column && norm_kind(layer->norm)->centred;
    l->size = layer->size;
    l->padded = matrix_pad(layer->size);
    l->width = layer_width(layer);
    l->wide = matrix_pad(l->width);
    l->gates = l->kind->gates * layer_positions(layer);
    l->rows = l->gates * l->padded;
    l->taps = layer_taps(layer);
    l->dilation = layer->dilation ? layer->dilation : 1;
    l->delay = layer_delay(layer);
    l->residual = layer->residual;
    l->inputs = model_find(n->model, TENSOR_WEIGHT_IH, n->chain->first + k)->columns;
    l->state = n->state;
    n->state += l->kind->states * l->padded + matrix_pad(network_line(l));
    bool units = l->source == SOURCE_ROWS || l->source == SOURCE_RUNNING;
    l->ages = norm_kind(layer->norm)->by_age ? layer->norm_steps : units;
    l->momentum = layer->norm_momentum;
    describe_grid(n, k);
    size_t gate = 0;
    while (l->group_count < CELL_GROUPS_MAX && l->kind->group_gates[l->group_count]) {
        size_t gates = l->kind->group_gates[l->group_count];
        l->groups[l->group_count++] =
            (struct norm_group){gate * l->padded, gates * l->padded, gates * l->size};
        gate += gates;
    }
}

/* One pass over all arrays: counts their bytes if `memory` is NULL, else sets their addresses. */
struct arena {
    char *memory;
    size_t used;
};

static void *take(struct arena *arena, size_t count, size_t item) {
    enum { ALIGNMENT = 64 };
    void *result = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += (count * item + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return result;
}

static float *floats(struct arena *arena, size_t count) {
    return take(arena, count, sizeof(float));
}

static void hand_out_layer(struct arena *arena, struct network_layer *l, size_t ring) {
    const struct cell_kind *kind = l->kind;
    bool gathers = l->delay || l->residual;
    l->mask = floats(arena, l->rows);
    l->gathered = gathers ? floats(arena, ring * matrix_pad(l->inputs)) : NULL;
    l->summed_ih = floats(arena, ring * l->rows);
    l->summed_hh = floats(arena, kind->states && !kind->columns ? ring * l->rows : 0);
    l->gate = floats(arena, kind->gated ? ring * l->rows : 0);
    l->inner = floats(arena, kind->inner ? ring * l->padded : 0);
    l->squashed = floats(arena, kind->finishes ? ring * l->padded : 0);
    l->hidden = floats(arena, ring * l->padded);
    l->joined = floats(arena, l->normal ? ring * l->wide : 0);
    l->output = l->hidden;
    if (l->normal || l->width > l->size || l->residual)
        l->output = floats(arena, ring * l->wide);
    l->wide_mask = floats(arena, l->wide);
    l->factors = floats(arena, kind->parameters ? CELL_FACTORS_MAX * l->padded : 0);
    for (size_t place = 0; place < PLACES; place++) {
        struct unit_norm *u = &l->units[place];
        u->width = place == PLACE_INNER || kind->spatial ? l->padded : l->rows;
        size_t numbers = kind->norms[place] ? l->ages * u->width : 0;
        u->mean = floats(arena, numbers);
        u->var = floats(arena, numbers);
        u->rstd = floats(arena, numbers);
    }
    l->scales = take(arena, ring * NETWORK_NORMS, sizeof *l->scales);
    l->grid.offsets = take(arena, kind->spatial ? l->inputs : 0, sizeof *l->grid.offsets);
    l->grid.patches = floats(arena, kind->spatial ? ring * l->gates * l->inputs : 0);
    l->grid.mean = floats(arena, kind->spatial ? ring * l->padded : 0);
    l->grid.rstd = floats(arena, kind->spatial ? ring * l->padded : 0);
}

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t most_components(const struct model *model) {
    size_t count = 0;
    for (size_t k = 0; k <= model->architecture.other_count; k++)
        count = most(count, model_output(model, k)->components);
    return count;
}

/* The number and length of the rows that a rule keeps of each layer. */
static void lay_out_kept(struct network *n) {
    struct network_kept *kept = &n->kept;
    kept->layers = rule_layers(n->model, kept->rule);
    kept->rows = rule_rows(n->model, kept->rule);
    kept->row = kept->matrices.end - kept->matrices.from + kept->vectors.end - kept->vectors.from;
    size_t row = 0;
    for (size_t k = 0; k < kept->layers; k++) {
        n->layers[k].row = row;
        row += n->layers[k].kind->states * n->layers[k].size;
    }
}

static void hand_out_kept(struct arena *arena, struct network *n, size_t rows, size_t padded) {
    struct network_kept *kept = &n->kept;
    size_t states = 0, inputs = 0;
    enum rule_keeps keeps = rule_kind(kept->rule)->keeps;
    bool influence = keeps == KEEPS_INFLUENCE, trace = keeps == KEEPS_TRACE;
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        states = most(states, most(l->kind->states, 1) * l->size);
        inputs = most(inputs, l->inputs);
    }
    for (size_t i = 0; i < 2; i++)
        kept->rows_of[i] = floats(arena, influence ? states * kept->row : 0);
    kept->states = floats(arena, influence ? states * states : 0);
    kept->pack = floats(arena, influence ? most(states, inputs) * MATRIX_PANEL : 0);
    kept->state = floats(arena, influence ? n->state : 0);
    size_t each = trace ? kept->rows : 0; /* states of columns */
    kept->signal = floats(arena, each * n->window * padded);
    kept->decay = floats(arena, each * each * rows);
    float **of_rows[] = {&kept->ih, &kept->weight, &kept->hh, &kept->pull};
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        *of_rows[i] = floats(arena, each * rows);
    kept->inputs = floats(arena, influence ? states * inputs : trace ? inputs : 0);
    kept->gradient = floats(arena, keeps == KEEPS_NOTHING ? 0 : most(each, 1) * n->block);
    kept->d = floats(arena, keeps == KEEPS_NOTHING ? 0 : padded);
}

/* The largest matrix of the layers and the output. */
static size_t largest_matrix(const struct network *n) {
    size_t largest = n->padded * n->width,
           start = matrix_pad(n->chain->state_size) * n->model->chains[0].width;
    largest = most(largest, n->chain->kind == CHAIN_WRITER ? start : 0);
    for (size_t k = 0; k < n->layer_count; k++)
        largest = most(largest, n->layers[k].rows * most(n->layers[k].inputs, n->layers[k].size));
    return largest;
}

/* What only a chain beside the model's has. */
static void hand_out_chain(struct arena *arena, struct network *n) {
    bool beside = n->chain->kind != CHAIN_MODEL, reads = n->chain->kind == CHAIN_READER;
    size_t attention = n->model->architecture.input.sequence.attention;
    n->atoms = take(arena, beside ? n->ring : 0, sizeof *n->atoms);
    n->zeros = floats(arena, beside ? n->state : 0);
    n->added = floats(arena, n->adds ? largest_matrix(n) : 0);
    n->scores = floats(arena, n->bank.most ? n->ring : 0);
    n->bank.targets = take(arena, n->bank.most * n->bank.size, sizeof *n->bank.targets);
    n->bank.repeated = take(arena, n->bank.most, sizeof *n->bank.repeated);
    n->bank.others = take(arena, n->bank.most, sizeof *n->bank.others);
    n->pooled = floats(arena, reads ? (n->window + 1) * (attention + 1) : 0);
    if (n->chain->kind != CHAIN_WRITER)
        return;
    n->d_start = floats(arena, n->state);
    n->started = floats(arena, matrix_pad(n->chain->state_size));
    n->d_started = floats(arena, matrix_pad(n->chain->state_size));
    n->d_given = floats(arena, matrix_pad(n->model->chains[0].width));
}

/* The block, and what only its owner has. */
static void hand_out_block(struct arena *arena, struct network *n, size_t blocks) {
    n->parameters = floats(arena, n->block);
    n->gradient = floats(arena, n->block);
    for (size_t i = 0; i < MOMENTS_MAX; i++)
        n->moments[i] = i < blocks ? floats(arena, n->block) : NULL;
    n->changes = n->parts > 1 ? take(arena, network_blocks(n), sizeof *n->changes) : NULL;
    n->activity = take(arena, engine_activity_size(n->model), sizeof *n->activity);
}

static void hand_out(struct arena *arena, struct network *n, size_t blocks) {
    bool learned = n->form == FORM_EMBEDDED || n->form == FORM_ENCODED; /* gets a gradient */
    size_t rows = n->padded, padded = most(n->wide, learned ? matrix_pad(n->inputs) : 0);
    size_t panels = most(matrix_panels(rows), matrix_panels(matrix_pad(n->chain->state_size)));
    size_t patches = 0;
    size_t together = most(n->ring, n->window * n->positions);
    size_t gathered = 0, residual = 0;
    for (size_t k = 0; k < n->layer_count; k++) {
        hand_out_layer(arena, &n->layers[k], n->ring);
        rows = most(rows, n->layers[k].rows);
        /* 48 rows have more panels than 64 */
        panels = most(panels, matrix_panels(n->layers[k].rows));
        if (n->layers[k].kind->spatial) {
            panels = most(panels, matrix_panels(n->layers[k].padded));
            patches = most(patches, n->layers[k].gates * n->layers[k].inputs);
        }
        padded = most(padded, n->layers[k].wide);
        if (n->layers[k].delay || n->layers[k].residual)
            gathered = most(gathered, matrix_pad(n->layers[k].inputs));
        if (n->layers[k].residual)
            residual = most(residual, n->layers[k].wide);
    }
    if (n->chain->kind == CHAIN_MODEL)
        hand_out_block(arena, n, blocks);
    n->output = floats(arena, n->ring * n->padded);
    n->skipped = floats(arena, n->model->architecture.output.skip ? n->ring * n->padded : 0);
    n->ages = floats(arena, n->ring);
    n->encoded = floats(arena, n->form == FORM_ENCODED ? n->ring * n->inputs : 0);
    n->d_output = floats(arena, n->window * n->padded);
    n->d_ih = floats(arena, n->window * rows);
    n->d_hh = floats(arena, n->window * rows);
    n->d_hidden[0] = floats(arena, n->window * padded);
    n->d_hidden[1] = floats(arena, n->window * padded);
    n->d_gathered = floats(arena, n->window * gathered);
    n->d_residual = floats(arena, n->window * residual);
    n->d_state = floats(arena, padded);
    n->d_inner = floats(arena, padded);
    n->pack = floats(arena, n->parts * n->window * n->positions * MATRIX_PANEL);
    n->patches = floats(arena, patches);
    n->squares = take(arena, panels, sizeof *n->squares);
    n->loss_scratch = take(arena, 2 * most_components(n->model) + 1, sizeof(double));
    hand_out_kept(arena, n, rows, padded);
    hand_out_chain(arena, n);
    n->x = take(arena, together, sizeof *n->x);
    n->y = take(arena, together, sizeof *n->y);
}

static void fill_offsets(const struct network_grid *g, size_t kernel) {
    uint32_t *offset = g->offsets;
    for (size_t channel = 0; channel < g->from.channels; channel++)
        for (size_t row = 0; row < kernel; row++)
            for (size_t column = 0; column < kernel; column++)
                *offset++ = (uint32_t)((channel * g->from.rows + row) * g->from.columns + column);
}

static void fill_mask(struct network_layer *l) {
    for (size_t i = 0; i < l->rows; i++)
        l->mask[i] = i % l->padded < l->size ? 1.0f : 0.0f;
    for (size_t i = 0; i < l->width; i++)
        l->wide_mask[i] = 1.0f;
}

/* Multiply-adds. Threads do not share a network whose largest matrix has fewer than LARGE: a
   step's product would end before they meet. A part has at least LEAST, some 4 us. */
enum { LARGE = 1 << 18, LEAST = 1 << 16 };

static bool is_large(const struct model *model) {
    size_t largest = 0;
    for (size_t i = 0; i < model->learned_count; i++)
        if (is_matrix(&model->tensors[i]) && model->tensors[i].role != TENSOR_EMBEDDING)
            largest = most(largest, tensor_size(&model->tensors[i]));
    return largest >= LARGE;
}

/* $RUNNEL_SPLIT, for tests: shares any network, in parts of at least that many multiply-adds. */
static void share(struct network *n, struct threads *threads) {
    const char *wanted = getenv("RUNNEL_SPLIT");
    size_t least = wanted ? strtoul(wanted, NULL, 10) : 0;
    n->parts = 1;
    n->least = least ? least : LEAST;
    if (!least && !is_large(n->model))
        return;
    n->threads = threads;
    n->parts = threads_count(threads);
}

/* What the model's input is for a network that gets it. */
static enum network_form form_of(const struct model *model) {
    const struct input *input = &model->architecture.input;
    return model->part_count      ? FORM_ENCODED
           : input_is_real(input) ? FORM_NUMBERS
           : input->embedding     ? FORM_EMBEDDED
                                  : FORM_ONE_HOT;
}

/* Steps in the longest run of a chain: atoms, with a writer's end; or candidates. */
static size_t longest_run(const struct model *model, const struct chain *chain) {
    const struct output *output = model_output(model, chain->output);
    return chain->kind == CHAIN_READER   ? model->architecture.input.sequence.longest
           : chain->kind == CHAIN_WRITER ? output->sequence.longest + 1
                                         : output->ranking.negatives + 1;
}

static size_t outputs_of(const struct model *model, const struct chain *chain) {
    const struct tensor *weight = model_find(model, TENSOR_WRITER_WEIGHT, chain->output);
    return chain->kind == CHAIN_MODEL    ? model->outputs
           : chain->kind == CHAIN_WRITER ? weight->rows
           : chain->kind == CHAIN_TOWER  ? model_output(model, chain->output)->size
                                         : 0;
}

/* The sizes of a chain. */
static void describe(struct network *n, const struct model *model, const struct chain *chain) {
    bool beside = chain->kind != CHAIN_MODEL;
    n->model = model;
    n->chain = chain;
    n->layer_count = chain->count;
    n->inputs = chain->inputs;
    n->width = chain->width;
    n->form = chain->kind == CHAIN_TOWER ? FORM_NUMBERS : beside ? FORM_ENCODED : form_of(model);
    if (input_is_message(&model->architecture.input) && chain->kind <= CHAIN_READER)
        n->form = beside ? form_of(model) : FORM_ENCODED;
    n->adds = beside;
    n->held = SIZE_MAX;
    if (beside)
        n->window = n->ring = longest_run(model, chain);
    if (chain->kind == CHAIN_TOWER)
        n->bank.most = n->ring - 1;
    n->bank.size = output_candidate_size(model_output(model, chain->output));
    n->outputs = outputs_of(model, chain);
    n->padded = matrix_pad(n->outputs);
    n->positions = 1;
    for (size_t k = 0; k < n->layer_count; k++)
        describe_layer(n, k);
    n->wide = matrix_pad(n->width);
    n->ages_most = beside ? 0 : model->ages;
    n->age = n->state;
    n->state += n->ages_most ? MATRIX_PAD : 0;
}

/* Allocates the network's arrays. */
static int allocate(struct network *n, size_t blocks, struct error *error) {
    struct arena arena = {NULL, 0};
    hand_out(&arena, n, blocks);
    n->memory_size = arena.used;
    n->memory = memory_reserve(n->memory_size);
    if (!n->memory)
        return error_set(error, EX_UNAVAILABLE,
                         "out of memory for the network: %zu parameters and a window of %zu steps "
                         "need %zu MiB; use smaller model.layers or lower learning.window",
                         n->model->parameters, n->window, n->memory_size >> 20);
    ask_for_large_pages(n->memory, n->memory_size);
    arena = (struct arena){n->memory, 0};
    hand_out(&arena, n, blocks);
    for (size_t k = 0; k < n->layer_count; k++) {
        fill_mask(&n->layers[k]);
        if (n->layers[k].kind->spatial)
            fill_offsets(&n->layers[k].grid, model_layer(n->model, n->chain->first + k)->kernel);
    }
    return 0;
}

/* The chains beside the model's, which share its block. */
static int open_chains(struct network *n, struct error *error) {
    for (size_t k = 1; k < n->model->chain_count; k++) {
        struct network *chain = n->chains[k];
        chain->threads = n->threads;
        chain->parts = n->parts;
        chain->least = n->least;
        chain->at[TENSOR_EMBEDDING] = n->at[TENSOR_EMBEDDING];
        bool tower = chain->chain->kind == CHAIN_TOWER;
        chain->at[TENSOR_OUTPUT_WEIGHT] =
            chain->at[tower ? TENSOR_CANDIDATE_WEIGHT : TENSOR_WRITER_WEIGHT];
        chain->at[TENSOR_OUTPUT_BIAS] = chain->at[TENSOR_WRITER_BIAS];
        if (allocate(chain, 0, error))
            return -1;
        chain->parameters = n->parameters;
        chain->gradient = n->gradient;
        chain->activity = n->activity;
    }
    return 0;
}

int network_open(struct network *n, const struct model *model, enum rule rule, size_t window,
                 size_t blocks, struct threads *threads, struct error *error) {
    memset(n, 0, sizeof *n);
    n->kept.rule = rule;
    n->window = window;
    n->ring = model_ring(model, window);
    describe(n, model, &model->chains[0]);
    share(n, threads);
    n->chains[0] = n;
    for (size_t k = 1; k < model->chain_count; k++) {
        n->chains[k] = calloc(1, sizeof *n);
        if (!n->chains[k])
            return error_no_memory(error);
        describe(n->chains[k], model, &model->chains[k]);
    }
    lay_out_block(n);
    lay_out_kept(n);
    return allocate(n, blocks, error) || open_chains(n, error) ? -1 : 0;
}

void network_close(struct network *n) {
    for (size_t k = 1; k < MODEL_CHAINS_MAX; k++) {
        if (n->chains[k])
            network_close(n->chains[k]);
        free(n->chains[k]);
        n->chains[k] = NULL;
    }
    memory_release(n->memory, n->memory_size);
    n->memory = NULL;
}
