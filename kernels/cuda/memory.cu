/* The layout of all memory on the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint32_t place_tensor(struct layout *block, const struct model *model, enum tensor_role role,
                             size_t layer) {
    const struct tensor *tensor = model_find(model, role, layer);
    if (!tensor)
        return 0;
    size_t ld = tensor->columns ? padded((uint32_t)tensor->columns) : tensor->rows;
    return place(block, tensor->columns ? tensor->rows * ld : ld);
}

static void place_embeddings(struct engine *e, struct layout *block) {
    const struct model *model = e->model;
    if (!e->network.encoding.count)
        e->network.embedding = place_tensor(block, model, TENSOR_EMBEDDING, 0);
    for (uint32_t k = 0; k < e->network.encoding.count; k++)
        if (e->parts[k].ld)
            e->parts[k].weight = place(block, (size_t)e->parts[k].size * e->parts[k].ld);
}

static void place_parameters(struct engine *e, struct layout *block) {
    const struct model *model = e->model;
    struct network *n = &e->network;
    place_embeddings(e, block);
    for (uint32_t k = 0; k < n->layer_count; k++) {
        struct network_layer *l = &n->layers[k];
        l->weight_ih = place_tensor(block, model, TENSOR_WEIGHT_IH, k);
        l->bias_ih = place_tensor(block, model, TENSOR_BIAS_IH, k);
        if (cell_kind((enum cell)l->cell)->parameters) {
            for (int p = 0; p < CELL_PARAMETERS_MAX; p++)
                l->own_parameters[p] =
                    place_tensor(block, model, (enum tensor_role)(TENSOR_UNIT_0 + p), k);
        } else {
            l->weight_hh = place_tensor(block, model, TENSOR_WEIGHT_HH, k);
            l->bias_hh = place_tensor(block, model, TENSOR_BIAS_HH, k);
        }
        for (int at = 0; at < PLACES; at++) {
            l->gain[at] = place_tensor(block, model, (enum tensor_role)(TENSOR_GAIN_IH + at), k);
            l->norm_bias[at] =
                place_tensor(block, model, (enum tensor_role)(TENSOR_NORM_BIAS_IH + at), k);
        }
    }
    n->output_weight = place(block, (size_t)n->outputs * n->ld_output);
    n->output_skip = n->skip_from ? n->output_weight + n->skip_from
                                  : place_tensor(block, model, TENSOR_OUTPUT_SKIP, 0);
    n->output_bias = place_tensor(block, model, TENSOR_OUTPUT_BIAS, 0);
}

const struct encoded_part *engine_input_part(const struct engine *e, const struct tensor *tensor) {
    for (size_t k = 0; k < e->model->part_count; k++)
        if (e->model->parts[k].tensor == (size_t)(tensor - e->model->tensors))
            return &e->parts[k];
    return NULL;
}

struct placed engine_placed(const struct engine *e, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct network_layer *l = &n->layers[tensor->layer];
    const struct encoded_part *part = engine_input_part(e, tensor);
    const uint32_t offsets[TENSOR_ROLES] = {
        part ? part->weight : n->embedding,
        l->weight_ih,
        l->weight_hh,
        l->bias_ih,
        l->bias_hh,
        l->gain[0],
        l->gain[1],
        l->gain[2],
        l->norm_bias[0],
        l->norm_bias[1],
        l->norm_bias[2],
        l->own_parameters[0],
        l->own_parameters[1],
        n->output_weight,
        n->output_bias,
        n->output_skip,
    };
    struct placed p;
    p.offset = offsets[tensor->role];
    p.ld = padded((uint32_t)(tensor->columns ? tensor->columns : tensor->rows));
    if (tensor->role == TENSOR_OUTPUT_WEIGHT)
        p.ld = n->ld_output;
    if (tensor->role == TENSOR_OUTPUT_SKIP)
        p.ld = n->ld_skip;
    return p;
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
        l->d_bias[at] = place(a, window * norm_width(*l, at));
        l->d_gain[at] = place(a, window * norm_width(*l, at));
    }
    l->pull = l->source == SOURCE_ROWS ? place(a, 2 * rows) : 0;
    l->input = kept_input ? place(a, window * l->ld_ih) : 0;
    l->before = place(a, window * (l->recurrent       ? l->ld_hh
                                   : kind->parameters ? kind->parameters * padded(units)
                                   : l->columns       ? padded(l->rows)
                                                      : 0));
    l->carry = place(a, 2 * (l->columns ? units * l->states : size * l->carries));
    l->ih.partial = place(a, l->input_gradient * window * l->ih.count * l->ld_ih);
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

/* ---- Budget of plans ---- */

enum { DEVICES_MAX = 64 };

/* Bytes budgeted for the plans of open engines and not allocated yet, by device. */
static int64_t budgeted[DEVICES_MAX];

static int64_t *budget_of(const struct engine *e) {
    return &budgeted[e->device.index % DEVICES_MAX];
}

void budget_taken(const struct engine *e, int64_t bytes) {
    __atomic_fetch_sub(budget_of(e), bytes, __ATOMIC_RELAXED);
}

/* Plans longer than announced may have allocated more. */
static size_t budget_left(const struct engine *e) {
    int64_t left = __atomic_load_n(budget_of(e), __ATOMIC_RELAXED);
    return left > 0 ? (size_t)left : 0;
}

/* ---- Allocation ---- */

/* The least squares of a solved output; two rows (stride,) follow them on the device. */
static void place_solution(struct engine *e) {
    struct solved *s = &e->network.solved;
    if (!e->model->solved)
        return;
    const struct least_squares *ls = &e->ls;
    e->ls = engine_solution(e->model);
    s->weights = ls->inputs * ls->stride;
    s->t = s->weights + ls->outputs * ls->stride;
    s->product = least_squares_size(ls);
    s->diagonal = s->product + ls->stride;
    s->inputs = (uint32_t)ls->inputs;
    s->outputs = (uint32_t)ls->outputs;
    s->stride = (uint32_t)ls->stride;
    s->keep = ls->keep;
    s->prior = ls->prior;
}

static size_t solution_numbers(const struct least_squares *ls) {
    return ls->inputs ? least_squares_size(ls) + 2 * ls->stride : 0;
}

/* The most partial sums of a gradient's norm. */
static size_t partials_most(const struct network *n) {
    return (size_t)NORM_PIECES_MAX * n->tensor_count + n->tiles;
}

/* Bytes required on the device. */
struct need {
    size_t block, activations, units, slots, solution, others;
    size_t plans, earlier; /* plans of this engine, and of those that were opened before */
    size_t encoded;        /* the table after the parameters, see inputs.cuh */
    int blocks;            /* of parameters, moments, gradient */
    bool gradient;
};

static size_t total(const struct need *need) {
    return need->blocks * need->block + need->encoded + need->activations + need->units +
           need->slots + need->solution + need->others + need->plans + need->earlier;
}

static int refuse(const struct engine *e, const struct need *need, struct error *error) {
    enum { EARLIER_SIZE = 96 };
    char earlier[EARLIER_SIZE] = "";
    if (need->earlier)
        snprintf(earlier, sizeof earlier, " (including %.1f for networks that were opened earlier)",
                 (double)need->earlier / MIB);
    return error_set(
        error, EX_UNAVAILABLE,
        "the model needs %.1f MiB on %s, which has %.1f MiB free: %.1f for parameters and moments, "
        "%.1f for %zu streams, %.1f for the window and %.1f for plans%s; lower "
        "learning.max_streams or learning.window%s%s",
        (double)total(need) / MIB, e->device.name, (double)e->device.free_memory / MIB,
        (double)(need->blocks * need->block) / MIB, (double)need->slots / MIB, e->options.slots,
        (double)(need->encoded + need->activations + need->units + need->solution + need->others) /
            MIB,
        (double)(need->plans + need->earlier) / MIB, earlier,
        need->earlier ? ", or run fewer networks on it" : "", e->way_out);
}

/* Shared memory for the widest layer may exceed the device's. */
static int check_shared(const struct engine *e, struct error *error) {
    size_t most = block_bytes(e);
    if (most <= e->device.shared)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "a layer of this model needs %zu KiB of a multiprocessor's shared memory, but "
                     "%s has %zu KiB; use a smaller widest layer%s",
                     most >> 10, e->device.name, e->device.shared >> 10, e->way_out);
}

/* Offset of the next block in the arena, in grains. */
static uint32_t place_block(size_t *arena, size_t bytes) {
    size_t at = *arena;
    *arena += (bytes + GRAIN - 1) / GRAIN;
    return bytes ? (uint32_t)at : 0;
}

/* The network and its tables precede the blocks, so that no block begins at 0. Returns the arena's
   bytes. */
static size_t place_blocks(struct engine *e, const struct need *need) {
    struct network *n = &e->network;
    struct blocks *at = &n->at;
    size_t arena = 0, kept = optimizer_moments(&e->options.optimizer);
    bool pulled = e->options.optimizer.pull > 0;
    e->at_network = place_block(&arena, sizeof *n);
    e->at_tensors = place_block(&arena, n->tensor_count * sizeof *e->walked);
    e->at_parts = place_block(&arena, n->encoding.count * sizeof *e->parts);
    e->at_strips = place_block(&arena, (n->strip_count + 1) * sizeof *e->strips);
    at->state = place_block(&arena, sizeof(struct update_state));
    at->losses = place_block(&arena, n->window * sizeof(double));
    at->squares = place_block(&arena, partials_most(n) * sizeof(double));
    at->changes = place_block(&arena, 2 * (size_t)n->tiles * sizeof(double));
    at->norms = place_block(&arena, n->strip_count * sizeof(double));
    at->solution = place_block(&arena, need->solution);
    at->activity = place_block(&arena, engine_activity_size(e->model) * sizeof(double));
    at->parameters = place_block(&arena, need->block + need->encoded);
    for (size_t k = 0; k < kept - pulled; k++)
        at->moments[k] = place_block(&arena, need->block);
    at->start = place_block(&arena, pulled ? need->block : 0);
    at->gradient = place_block(&arena, need->gradient ? need->block : 0);
    at->activations = place_block(&arena, need->activations);
    at->units = place_block(&arena, need->units);
    at->slots = place_block(&arena, need->slots);
    return arena * GRAIN;
}

/* The device's pointers; NULL for a block that does not exist. */
static void point(struct engine *e) {
    struct network *n = &e->network;
    const struct blocks *at = &n->at;
    n->parameters = engine_floats(e, at->parameters);
    n->gradient = engine_floats(e, at->gradient);
    for (size_t k = 0; k < MOMENTS_MAX; k++)
        n->moments[k] = at->moments[k] ? engine_floats(e, at->moments[k]) : NULL;
    n->start = at->start ? engine_floats(e, at->start) : NULL;
    n->activations = engine_floats(e, at->activations);
    n->units = engine_floats(e, at->units);
    n->slots = engine_floats(e, at->slots);
    n->state = (struct update_state *)engine_at(e, at->state);
    n->losses = (double *)engine_at(e, at->losses);
    n->squares = (double *)engine_at(e, at->squares);
    n->changes = (double *)engine_at(e, at->changes);
    n->norms = (double *)engine_at(e, at->norms);
    n->activity = (double *)engine_at(e, at->activity);
    n->solution = (double *)engine_at(e, at->solution);
    n->tensors = (const struct walked *)engine_at(e, e->at_tensors);
    n->encoding.parts = (const struct encoded_part *)engine_at(e, e->at_parts);
    n->strips = (const struct strip *)engine_at(e, e->at_strips);
    n->team.arrived = &n->state->arrived;
}

static cudaError_t copy_table(struct engine *e, uint32_t at, const void *table, size_t bytes) {
    if (!bytes)
        return cudaSuccess;
    return cudaMemcpy(engine_at(e, at), table, bytes, cudaMemcpyHostToDevice);
}

static cudaError_t copy_tables(struct engine *e) {
    const struct network *n = &e->network;
    cudaError_t status = copy_table(e, e->at_network, n, sizeof *n);
    if (status == cudaSuccess)
        status = copy_table(e, e->at_tensors, e->walked, n->tensor_count * sizeof *e->walked);
    if (status == cudaSuccess)
        status = copy_table(e, e->at_parts, e->parts, n->encoding.count * sizeof *e->parts);
    if (status == cudaSuccess)
        status = copy_table(e, e->at_strips, e->strips, (n->strip_count + 1) * sizeof *e->strips);
    return status;
}

static int take_arena(struct engine *e, const struct need *need, struct error *error) {
    size_t bytes = place_blocks(e, need);
    cudaError_t status = cudaMalloc((void **)&e->arena, bytes);
    if (status == cudaSuccess)
        status = cudaMemset(e->arena, 0, bytes);
    if (cuda_check(status, "allocating memory on the GPU", error))
        return -1;
    point(e);
    return cuda_check(copy_tables(e), "copying to the GPU", error);
}

int engine_allocate(struct engine *e, struct error *error) {
    struct network *n = &e->network;
    struct layout block = {0}, activations = {0};
    engine_describe_network(e);
    place_solution(e);
    if (engine_cut_strips(e, error))
        return -1;
    place_parameters(e, &block);
    size_t tensors = block.size;
    if (e->network.encoding.count)
        n->embedding = place(&block, (size_t)n->ring * n->ld_embedding);
    place_activations(e, &activations);
    size_t units = place_units(n), slot = place_slot(e, &n->slot);
    engine_walk(e);
    e->shared = engine_shared(n);
    n->counts.parameters = (uint32_t)block.size;
    n->counts.moments = (uint32_t)tensors;
    n->counts.activations = (uint32_t)activations.size;
    n->counts.units = (uint32_t)units;
    e->resident = block.size * (1 + optimizer_moments(&e->options.optimizer));
    struct need need = {};
    need.block = tensors * sizeof(float);
    need.encoded = (block.size - tensors) * sizeof(float);
    need.activations = activations.size * sizeof(float);
    need.units = units * sizeof(float);
    need.slots = e->options.slots * slot * sizeof(float);
    need.solution = solution_numbers(&e->ls) * sizeof(double);
    need.gradient = n->window >= FORM_STEPS;
    need.plans = e->options.longest ? engine_plan_bytes(e, e->options.longest) : 0;
    need.earlier = budget_left(e);
    need.others = ((size_t)n->window + partials_most(n) + 2 * (size_t)n->tiles +
                   engine_activity_size(e->model)) *
                  sizeof(double);
    need.blocks = 1 + (int)optimizer_moments(&e->options.optimizer) + need.gradient;
    if (total(&need) > e->device.free_memory)
        return refuse(e, &need, error);
    if (block.size > UINT32_MAX || activations.size > UINT32_MAX || units > UINT32_MAX ||
        slot > UINT32_MAX)
        return error_set(error, EX_UNAVAILABLE,
                         "the model has more than %u numbers in its parameters, its window or one "
                         "stream, the limit of the CUDA engine; lower learning.window%s",
                         UINT32_MAX, e->way_out);
    if (check_shared(e, error) || take_arena(e, &need, error))
        return -1;
    e->plans = need.plans;
    budget_taken(e, -(int64_t)e->plans);
    e->slot = (float *)malloc(n->slot.size * sizeof(float));
    if (!e->slot)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CUDA engine");
    return 0;
}

void engine_release(struct engine *e) {
    budget_taken(e, (int64_t)e->plans);
    e->plans = 0;
    if (e->arena)
        cudaFree(e->arena);
    e->arena = NULL;
    free(e->slot);
    free(e->strips);
    e->slot = NULL;
    e->strips = NULL;
}
