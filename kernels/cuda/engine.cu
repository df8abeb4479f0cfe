/* The CUDA engine: opening, reading and writing. play.cu plays. */
#include "engine.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening and closing ---- */

static void cuda_close(struct engine **engine) {
    struct engine *e = *engine;
    if (!e)
        return;
    if (e->stream)
        cudaStreamSynchronize(e->stream);
    engine_release_buffers(e);
    engine_release(e);
    if (e->stream)
        cudaStreamDestroy(e->stream);
    free(e);
    *engine = NULL;
}

/* The bits do not depend on multiprocessors and scope. CUDA represents 13.0 as 13000. */
static void describe(struct engine *e) {
    enum { MAJOR = 1000, MINOR = 10 };
    const struct cuda_device *d = &e->device;
    snprintf(e->fingerprint, sizeof e->fingerprint,
             "cuda %s (%d.%d), CUDA %d.%d, driver %d.%d, runnel %s", d->name, d->capability_major,
             d->capability_minor, d->runtime / MAJOR, d->runtime % MAJOR / MINOR, d->driver / MAJOR,
             d->driver % MAJOR / MINOR, PACKAGE_VERSION);
    snprintf(e->description, sizeof e->description,
             "cuda %s (%d.%d, %d multiprocessors, scope %s%s", d->name, d->capability_major,
             d->capability_minor, d->multiprocessors, scope_name(e->scope),
             strrchr(e->fingerprint, ')'));
}

/* The configuration's scope. $RUNNEL_SCOPE overrides auto, for tests: the smallest scope whose
   shared memory has room for all parameters and moments. */
static int choose_scope(struct engine *e, struct error *error) {
    const struct cuda_device *d = &e->device;
    size_t kept = e->resident * sizeof(float), inbox = e->network.inbox_size * sizeof(float);
    size_t room = d->shared - block_bytes(e);
    bool clusters = inbox <= room && engine_has_clusters(e);
    const char *forced = getenv("RUNNEL_SCOPE");
    uint32_t scope = e->options.scope;
    if (scope == SCOPE_AUTO && forced)
        for (scope = SCOPE_GRID; scope && strcmp(forced, scope_name((enum scope)scope)) != 0;)
            scope--;
    e->scope = scope                                                 ? (enum scope)scope
               : kept <= room                                        ? SCOPE_BLOCK
               : clusters && kept <= CLUSTER_BLOCKS * (room - inbox) ? SCOPE_CLUSTER
                                                                     : SCOPE_GRID;
    if (e->scope != SCOPE_CLUSTER || clusters)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "device_scope: cluster requires compute capability %d.0 or newer and %zu KiB "
                     "of shared memory, but %s has %d.%d and %zu KiB; use device_scope: auto",
                     CLUSTER_CAPABILITY, (d->shared - room + inbox + KIB - 1) >> 10, d->name,
                     d->capability_major, d->capability_minor, d->shared >> 10);
}

static int cuda_open(struct engine **engine, const struct model *model,
                     const struct engine_options *options, const char *device,
                     struct error *error) {
    *engine = NULL;
    if (rule_kind(options->rule)->keeps != KEEPS_NOTHING)
        return error_set(error, EX_UNAVAILABLE,
                         "the CUDA engine supports only learning.rule: tbptt; use device: cpu");
    struct engine *e = (struct engine *)calloc(1, sizeof *e);
    if (!e)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CUDA engine");
    e->model = model;
    e->options = *options;
    e->way_out = cuda_way_out(device);
    if (cuda_probe(device, &e->device, error) || cuda_select(&e->device, error) ||
        cuda_check(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking), "opening a stream",
                   error) ||
        engine_allocate(e, error) || engine_prepare(e, error) || choose_scope(e, error) ||
        (options->longest && engine_reserve(e, options->longest, error)) ||
        cuda_check(cudaDeviceSynchronize(), "starting the GPU", error)) {
        cuda_close(&e);
        return -1;
    }
    describe(e);
    e->options.longest = NULL;
    *engine = e;
    return 0;
}

/* ---- Reading and writing ---- */

enum direction { OUT, IN }; /* direction of a copy: from the engine, into it */

/* Copies use the engine's own stream, since the default stream is not ordered before it. They
   have ended on return. */
static int settle(struct engine *e, cudaError_t status, const char *what, struct error *error) {
    cudaError_t ended = cudaStreamSynchronize(e->stream);
    return cuda_check(status ? status : ended, what, error);
}

static int copy(struct engine *e, void *device, void *host, size_t bytes, enum direction direction,
                struct error *error) {
    cudaError_t status =
        direction == IN ? cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, e->stream)
                        : cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, e->stream);
    return settle(e, status, "copying between host and GPU", error);
}

/* Running statistics on the device, in the table's layout. */
static float *running_of(const struct engine *e, const struct tensor *tensor) {
    const struct network *n = &e->network;
    const struct network_layer *l = &n->layers[tensor->layer];
    bool var = tensor->role >= TENSOR_VAR_IH;
    uint32_t place = tensor->role - (var ? TENSOR_VAR_IH : TENSOR_MEAN_IH);
    return n->units + unit_numbers(*l, place) +
           (var ? (size_t)l->ages * units_width(*l, place) : 0);
}

/* One tensor, between its padded rows and the table's layout. */
static int copy_tensor(struct engine *e, enum engine_block block, size_t index, void *values,
                       enum direction direction, struct error *error) {
    const struct network *n = &e->network;
    const struct tensor *tensor = &e->model->tensors[index];
    if (tensor->role >= TENSOR_MEAN_IH && tensor->role <= TENSOR_VAR_INNER)
        return copy(e, running_of(e, tensor), values, tensor_size(tensor) * sizeof(float),
                    direction, error);
    struct placed placed = engine_placed(e, tensor);
    size_t moment = block - ENGINE_MOMENTS;
    float *at = block == ENGINE_PARAMETERS                         ? n->parameters
                : moment == optimizer_start(&e->options.optimizer) ? n->start
                                                                   : n->moments[moment];
    size_t columns = tensor->columns ? tensor->columns : tensor->rows;
    size_t rows = tensor->columns ? tensor->rows : 1, row = columns * sizeof(float);
    if (!at) { /* moments that this optimizer does not keep are zero */
        if (direction == OUT)
            memset(values, 0, rows * row);
        return 0;
    }
    at += placed.offset;
    size_t pitch = placed.ld * sizeof(float);
    cudaError_t status = direction == IN ? cudaMemcpy2DAsync(at, pitch, values, row, row, rows,
                                                             cudaMemcpyHostToDevice, e->stream)
                                         : cudaMemcpy2DAsync(values, row, at, pitch, row, rows,
                                                             cudaMemcpyDeviceToHost, e->stream);
    return settle(e, status, "copying parameters", error);
}

/* Copies `count` numbers between a slot and a record; returns the next place in the record. */
static float *copy_numbers(float *slot, float *record, size_t count, enum direction direction) {
    if (direction == OUT)
        memcpy(record, slot, count * sizeof(float));
    else
        memcpy(slot, record, count * sizeof(float));
    return record + count;
}

/* engine.h describes a slot's record. */
static int copy_slot(struct engine *e, size_t index, float *record, enum direction direction,
                     struct error *error) {
    const struct network *n = &e->network;
    const struct slot_layout *l = &n->slot;
    float *device = n->slots + index * l->size, *s = e->slot;
    size_t bytes = l->size * sizeof(float), state = e->model->state_size;
    if (copy(e, device, s, bytes, OUT, error)) /* numbers outside of the record stay unchanged */
        return -1;
    record = copy_numbers(s, record, state, direction);
    size_t places = model_places(e->model, e->options.window);
    for (size_t p = 0; p < places; p++)
        record = copy_numbers(s + l->output + p * n->outputs, record, n->outputs, direction);
    for (size_t p = 0; e->model->solved && p < places; p++)
        record = copy_numbers(s + l->solved + p * l->solved_row, record, e->model->solved - 1,
                              direction);
    for (size_t p = 0; p < n->ring; p++) {
        record = copy_numbers(s + l->before + p * l->state, record, state, direction);
        record = copy_numbers(s + l->input + p * l->input_row + (e->network.encoding.count > 0),
                              record, e->model->features, direction);
        record = copy_numbers(s + l->target + p * n->horizons * l->target_size, record,
                              n->horizons * l->target_size, direction);
        record = copy_numbers(s + l->learned + p * n->horizons, record, n->horizons, direction);
    }
    return direction == IN ? copy(e, device, s, bytes, IN, error) : 0;
}

static int copy_block(struct engine *e, enum engine_block block, size_t index, void *data,
                      enum direction direction, struct error *error) {
    switch (block) {
    case ENGINE_UPDATES:
        return copy(e, &e->network.state->updates, data, sizeof(uint64_t), direction, error);
    case ENGINE_SLOT:
        return copy_slot(e, index, (float *)data, direction, error);
    case ENGINE_ACTIVITY:
        return copy(e, e->network.activity, data, engine_activity_size(e->model) * sizeof(double),
                    direction, error);
    case ENGINE_SOLUTION:
        return copy(e, e->network.solved.p, data, least_squares_size(&e->ls) * sizeof(double),
                    direction, error);
    default:
        return copy_tensor(e, block, index, data, direction, error);
    }
}

/* Restarts the weights of the least squares from a tensor of the output. */
static int begin_weights(struct engine *e, const struct tensor *tensor, const float *values,
                         struct error *error) {
    const struct least_squares *ls = &e->ls;
    size_t columns = tensor->columns ? tensor->columns : 1, count = tensor_size(tensor);
    size_t first = tensor->role == TENSOR_OUTPUT_WEIGHT ? 0
                   : tensor->role == TENSOR_OUTPUT_SKIP ? ls->inputs - 1 - columns
                                                        : ls->inputs - 1;
    double *weights = (double *)malloc(count * sizeof *weights);
    if (!weights)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the readout's weights");
    for (size_t k = 0; k < count; k++)
        weights[k] = (double)values[k];
    size_t row = columns * sizeof *weights;
    cudaError_t status =
        cudaMemcpy2DAsync(e->network.solved.weights + first, ls->stride * sizeof *weights, weights,
                          row, row, ls->outputs, cudaMemcpyHostToDevice, e->stream);
    int copied = settle(e, status, "copying the readout's weights", error);
    free(weights);
    return copied;
}

static int cuda_read(struct engine *e, enum engine_block block, size_t index, void *data,
                     struct error *error) {
    return copy_block(e, block, index, data, OUT, error);
}

static int cuda_write(struct engine *e, enum engine_block block, size_t index, const void *data,
                      struct error *error) {
    e->stale = true;
    if (copy_block(e, block, index, (void *)data, IN, error))
        return -1;
    if (block != ENGINE_PARAMETERS || !e->model->solved)
        return 0;
    const struct tensor *tensor = &e->model->tensors[index];
    bool output = tensor->role >= TENSOR_OUTPUT_WEIGHT && tensor->role <= TENSOR_OUTPUT_SKIP;
    if (!output)
        return 0;
    return begin_weights(e, tensor, (const float *)data, error);
}

static const char *cuda_describe(const struct engine *e) {
    return e->description;
}

static const char *cuda_fingerprint(const struct engine *e) {
    return e->fingerprint;
}

/* ---- The module ---- */

static const struct engine_ops cuda_engine = {
    "cuda",     cuda_open,     engine_play,      engine_play_together, cuda_read,
    cuda_write, cuda_describe, cuda_fingerprint, cuda_close,
};

extern "C" __attribute__((visibility("default"))) const struct cuda_module runnel_cuda_module = {
    CUDA_MODULE_INTERFACE,
    &cuda_engine,
    cuda_probe,
    cuda_measure,
};
