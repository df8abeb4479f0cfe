/* The layout of all memory on the device. */
#include <stdlib.h>

#include "engine.cuh"

enum { LINE = 32 }; /* floats: every array begins at a cache line */

static const double MIB = 1024.0 * 1024.0;

/* A block of floats under layout. */
struct layout {
    size_t size;
};

static uint32_t place(struct layout *layout, size_t numbers) {
    size_t offset = layout->size;
    layout->size += (numbers + LINE - 1) / LINE * LINE;
    return (uint32_t)offset; /* the limit is checked after the whole layout */
}

/* ---- Parameters ---- */

const struct encoded_part *engine_input_part(const struct engine *e, const struct tensor *tensor) {
    for (size_t k = 0; k < e->model->part_count; k++)
        if (e->model->parts[k].tensor == (size_t)(tensor - e->model->tensors))
            return &e->parts[k];
    return NULL;
}

struct placed engine_placed(const struct engine *e, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct encoded_part *part = engine_input_part(e, tensor);
    struct placed p;
    p.offset = part ? part->weight : n->layers[tensor->layer].tensors[tensor->role];
    p.ld = tensor->role == TENSOR_OUTPUT_WEIGHT ? n->ld_output
           : tensor->role == TENSOR_OUTPUT_SKIP
               ? n->ld_skip
               : padded((uint32_t)(tensor->columns ? tensor->columns : tensor->rows));
    return p;
}

static void place_parameters(struct engine *e, struct layout *block) {
    const struct model *model = e->model;
    struct network *n = &e->network;
    uint32_t *output = n->layers[0].tensors;
    for (size_t k = 0; k < model->tensor_count; k++) {
        const struct tensor *tensor = &model->tensors[k];
        struct encoded_part *part = (struct encoded_part *)engine_input_part(e, tensor);
        size_t rows = tensor->columns ? tensor->rows : 1;
        bool apart =
            tensor->role < TENSOR_MEAN_IH && !(tensor->role == TENSOR_OUTPUT_SKIP && n->skip_from);
        if (apart)
            *(part ? &part->weight : &n->layers[tensor->layer].tensors[tensor->role]) =
                place(block, rows * engine_placed(e, tensor).ld);
    }
    if (n->skip_from)
        output[TENSOR_OUTPUT_SKIP] = output[TENSOR_OUTPUT_WEIGHT] + n->skip_from;
    n->embedding = output[TENSOR_EMBEDDING];
    n->output_weight = output[TENSOR_OUTPUT_WEIGHT];
    n->output_bias = output[TENSOR_OUTPUT_BIAS];
    n->output_skip = output[TENSOR_OUTPUT_SKIP];
}

/* ---- Activations ---- */

/* kept_input: the layer's input is not a symbol, and is stored for the gradient of W_ih. */
static void place_layer(struct network *n, struct network_layer *l, bool kept_input,
                        struct layout *a) {
    size_t ring = n->ring, window = n->window, rows = l->rows, size = l->size;
    uint32_t units = l->size / l->outputs;
    const struct cell_kind *kind = cell_kind((enum cell)l->cell);
    l->sum_ih = place(a, ring * rows);
    l->sum_hh = place(a, (l->recurrent || l->columns) * ring * rows + l->columns * ring * size);
    l->gate = kind->gated ? place(a, ring * rows) : 0;
    l->inner_value = l->inner ? place(a, ring * size) : 0;
    l->squashed = l->finishes ? place(a, ring * size) : 0;
    l->hidden = place(a, ring * size);
    l->scales = place(a, ring * SCALE_NUMBERS);
    l->d_ih = place(a, window * padded(l->rows));
    l->d_hh = l->recurrent || l->columns ? place(a, window * padded(l->rows)) : 0;
    for (uint32_t at = 0; at < PLACES; at++) {
        l->d_bias[at] = place(a, window * padded(norm_width(*l, at)));
        l->d_gain[at] = place(a, window * padded(norm_width(*l, at)));
    }
    l->pull = l->source == SOURCE_ROWS ? place(a, 2 * rows) : 0;
    l->input = kept_input ? place(a, window * l->ld_ih) : 0;
    l->before = place(a, window * (l->recurrent       ? l->ld_hh
                                   : kind->parameters ? kind->parameters * padded(units)
                                   : l->columns       ? padded(l->rows)
                                                      : 0));
    l->carry = place(a, 2 * (l->columns ? units * l->states : size * l->carries));
    l->ih.partial =
        place(a, l->input_gradient * (l > n->layers ? 2 : window) * l->ih.count * l->ld_ih);
    l->hh.partial = place(a, (size_t)2 * l->hh.count * l->ld_hh);
}

/* Places the gradients of embedded inputs, and the symbols, for each step of the window. */
static void place_inputs(struct engine *e, struct layout *a) {
    struct network *n = &e->network;
    if (!e->network.encoding.count)
        n->d_embedding = place(a, (size_t)n->window * n->ld_embedding);
    n->ids = place(a, n->window);
    for (uint32_t k = 0; k < e->network.encoding.count; k++) {
        struct encoded_part *part = &e->parts[k];
        part->ids = part->ld ? place(a, n->window) : 0;
        part->d = part->ld ? place(a, (size_t)n->window * part->ld) : 0;
    }
}

static void place_activations(struct engine *e, struct layout *a) {
    struct network *n = &e->network;
    for (uint32_t k = 0; k < n->layer_count; k++)
        place_layer(n, &n->layers[k], k > 0 || !is_one_hot(*n), a);
    n->output = place(a, (size_t)n->ring * n->outputs);
    n->d_output = place(a, (size_t)n->window * padded(n->outputs));
    n->top = place(a, (size_t)n->window * n->ld_output);
    place_inputs(e, a);
    n->out.partial = place(a, (size_t)n->window * n->out.count * n->ld_output);
}

/* Returns the numbers of norms of units. */
static size_t place_units(struct network *n) {
    struct layout units = {0};
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        bool factors = cell_kind((enum cell)l->cell)->parameters > 0;
        l->units = place(&units, (size_t)3 * l->ages * (2 * l->rows + l->size) +
                                     (size_t)(factors * CELL_FACTORS_MAX * l->size / l->outputs));
    }
    return units.size;
}

/* Returns the numbers in a slot. */
static size_t place_slot(const struct engine *e, struct slot_layout *s) {
    const struct network *n = &e->network;
    struct layout slot = {0};
    s->state = padded((uint32_t)e->model->state_size);
    place(&slot, s->state);
    size_t places = model_places(e->model, e->options.window);
    s->output = place(&slot, places * n->outputs);
    s->before = place(&slot, (size_t)n->ring * s->state);
    s->input_row = n->input_real ? padded(n->input_size) : 1;
    s->input_row += e->network.encoding.count ? e->network.encoding.features : 0;
    s->input = place(&slot, (size_t)n->ring * s->input_row);
    s->target_size = n->target_size;
    s->target = place(&slot, (size_t)n->ring * n->horizons * s->target_size);
    s->learned = place(&slot, (size_t)n->ring * n->horizons);
    s->solved_row = e->model->solved ? (uint32_t)e->ls.stride : 0;
    s->solved = e->model->solved ? place(&slot, places * s->solved_row) : 0;
    s->size = (uint32_t)slot.size;
    return slot.size;
}

/* ---- Allocation ---- */

/* The most partial sums of a gradient's norm. */
static size_t partials_most(const struct network *n) {
    return (size_t)NORM_PIECES_MAX * n->tensor_count + n->tiles;
}

/* Bytes required on the device: the arena has parameters, slots, and all else but plans. */
struct need {
    size_t parameters, slots, arena, plans;
};

static int refuse(const struct engine *e, const struct need *need, struct error *error) {
    return error_set(
        error, EX_UNAVAILABLE,
        "the model needs %.1f MiB on %s, which has %.1f MiB free: %.1f for parameters and moments, "
        "%.1f for %zu streams, %.1f for the window and %.1f for plans; lower "
        "learning.max_streams or learning.window, or run fewer networks on it%s",
        (double)(need->arena + need->plans) / MIB, e->device.name,
        (double)e->device.free_memory / MIB, (double)need->parameters / MIB,
        (double)need->slots / MIB, e->options.slots,
        (double)(need->arena - need->parameters - need->slots) / MIB, (double)need->plans / MIB,
        e->way_out);
}

/* Shared memory for the widest layer may exceed the device's. */
static int check_shared(const struct engine *e, struct error *error) {
    size_t most = block_bytes(e);
    if (most <= e->device.shared)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "a layer of this model needs %zu KiB of a multiprocessor's shared memory, but "
                     "%s has %zu KiB; use a smaller widest layer%s",
                     (most + KIB - 1) >> 10, e->device.name, e->device.shared >> 10, e->way_out);
}

/* The parts of the block of a solved output. */
static void place_solution(struct engine *e, struct arena *arena) {
    const struct least_squares *ls = &e->ls;
    struct solving *s = &e->network.solved;
    if (!e->model->solved)
        return;
    s->p = place_doubles(arena, least_squares_size(ls) + 2 * ls->stride);
    s->weights = s->p + ls->inputs * ls->stride;
    s->t = s->weights + ls->outputs * ls->stride;
    s->product = s->p + least_squares_size(ls);
    s->diagonal = s->product + ls->stride;
    s->inputs = (uint32_t)ls->inputs;
    s->outputs = (uint32_t)ls->outputs;
    s->stride = (uint32_t)ls->stride;
    s->keep = ls->keep;
    s->prior = ls->prior;
}

/* First the parameters with their moments and gradient, then the slots. */
static void place_blocks(struct engine *e, struct arena *arena, struct need *need) {
    struct network *n = &e->network;
    size_t moments = optimizer_moments(&e->options.optimizer);
    bool pulled = e->options.optimizer.pull > 0;
    n->parameters = place_floats(arena, n->counts.parameters);
    for (size_t k = 0; k < moments - pulled; k++)
        n->moments[k] = place_floats(arena, n->counts.moments);
    n->start = place_floats(arena, pulled * (size_t)n->counts.moments);
    n->gradient = place_floats(arena, (n->window >= FORM_STEPS) * (size_t)n->counts.moments);
    need->parameters = arena->size;
    n->slots = place_floats(arena, e->options.slots * n->slot.size);
    need->slots = arena->size - need->parameters;
    n->activations = place_floats(arena, n->counts.activations);
    n->units = place_floats(arena, n->counts.units);
    n->losses = place_doubles(arena, n->window);
    n->squares = place_doubles(arena, partials_most(n));
    n->changes = place_doubles(arena, 2 * (size_t)n->tiles);
    n->norms = place_doubles(arena, n->strip_count);
    n->activity = place_doubles(arena, engine_activity_size(e->model));
    place_solution(e, arena);
    n->state = (struct update_state *)place_block(arena, sizeof *n->state);
    n->team.arrived = &n->state->arrived;
    n->tensors = (struct walked *)place_block(arena, n->tensor_count * sizeof *e->walked);
    n->encoding.parts =
        (struct encoded_part *)place_block(arena, n->encoding.count * sizeof *e->parts);
    n->strips = (struct strip *)place_block(arena, (n->strip_count + 1) * sizeof *e->strips);
    e->on_device = (struct network *)place_block(arena, sizeof *n);
}

static void copy_table(cudaError_t *status, const void *on_device, const void *table,
                       size_t bytes) {
    if (*status == cudaSuccess && bytes)
        *status = cudaMemcpy((void *)on_device, table, bytes, cudaMemcpyHostToDevice);
}

static cudaError_t copy_tables(const struct engine *e) {
    const struct network *n = &e->network;
    cudaError_t status = cudaSuccess;
    copy_table(&status, e->on_device, n, sizeof *n);
    copy_table(&status, n->tensors, e->walked, n->tensor_count * sizeof *e->walked);
    copy_table(&status, n->encoding.parts, e->parts, n->encoding.count * sizeof *e->parts);
    copy_table(&status, n->strips, e->strips, (n->strip_count + 1) * sizeof *e->strips);
    return status;
}

static int take_arena(struct engine *e, struct need *need, struct error *error) {
    struct arena arena = {};
    cudaError_t status = cudaMalloc((void **)&e->arena, need->arena);
    if (status == cudaSuccess)
        status = cudaMemset(e->arena, 0, need->arena);
    if (cuda_check(status, "allocating memory on the GPU", error))
        return -1;
    arena.start = e->arena;
    place_blocks(e, &arena, need);
    return cuda_check(copy_tables(e), "copying to the GPU", error);
}

/* Lays out the numbers of each block; -1: too many for their offsets. */
static int lay_out(struct engine *e, struct error *error) {
    struct network *n = &e->network;
    struct layout block = {0}, activations = {0};
    engine_describe_network(e);
    if (e->model->solved)
        e->ls = engine_solution(e->model);
    if (engine_cut_strips(e, error))
        return -1;
    place_parameters(e, &block);
    size_t tensors = block.size;
    if (n->encoding.count)
        n->embedding = place(&block, (size_t)n->ring * n->ld_embedding);
    place_activations(e, &activations);
    size_t units = place_units(n), slot = place_slot(e, &n->slot);
    n->counts.parameters = (uint32_t)block.size;
    n->counts.moments = (uint32_t)tensors;
    n->counts.activations = (uint32_t)activations.size;
    n->counts.units = (uint32_t)units;
    if (block.size > UINT32_MAX || activations.size > UINT32_MAX || units > UINT32_MAX ||
        slot > UINT32_MAX)
        return error_set(error, EX_UNAVAILABLE,
                         "the model has more than %u numbers in its parameters, its window or one "
                         "stream, the limit of the CUDA engine; lower learning.window%s",
                         UINT32_MAX, e->way_out);
    engine_walk(e);
    e->shared = engine_shared(n);
    n->kept_at = (uint32_t)e->shared;
    e->resident = block.size * (1 + optimizer_moments(&e->options.optimizer));
    return 0;
}

int engine_allocate(struct engine *e, struct error *error) {
    struct arena measured = {};
    struct need need = {};
    if (lay_out(e, error))
        return -1;
    place_blocks(e, &measured, &need);
    need.arena = measured.size;
    need.plans = e->options.longest ? engine_plan_bytes(e, e->options.longest) : 0;
    if (need.arena + need.plans > e->device.free_memory)
        return refuse(e, &need, error);
    if (check_shared(e, error) || take_arena(e, &need, error))
        return -1;
    e->slot = (float *)malloc(e->network.slot.size * sizeof(float));
    if (!e->slot)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CUDA engine");
    return 0;
}

void engine_release(struct engine *e) {
    if (e->arena)
        cudaFree(e->arena);
    free(e->slot);
    free(e->strips);
}
