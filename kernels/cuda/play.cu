/* Plays plans: one launch for all networks that are played together. */
#include <string.h>

#include "backward.cuh"
#include "engine.cuh"
#include "forward.cuh"
#include "inputs.cuh"
#include "keep.cuh"
#include "measure.cuh"
#include "optimizer.cuh"
#include "segment.cuh"
#include "solve.cuh"
#include "units.cuh"

/* One network of a launch. Its plan is in pinned memory at `from`, and is copied to `to`, since all
   blocks of its team read it. */
struct member {
    const struct network *network;
    const char *from;
    char *to;
    uint32_t bytes;
};

struct call {
    uint32_t scope, blocks; /* blocks of each team */
    uint32_t end;           /* of shared memory: floats */
    uint32_t count;
    struct member members[TOGETHER_MAX]; /* (count,) */
};

/* ---- The kernel ---- */

static __device__ void copy_words(void *to, const void *from, size_t bytes, uint32_t rank,
                                  uint32_t size) {
    for (size_t i = (size_t)rank * blockDim.x + threadIdx.x; i < bytes / sizeof(uint32_t);
         i += (size_t)size * blockDim.x)
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
}

/* The first strip whose middle is in the share of block `rank`, or of a later one. */
static __device__ uint32_t first_strip(const struct network &n, uint32_t rank) {
    const struct strip *s = n.strips;
    uint64_t all = s[n.strip_count].before;
    uint32_t low = 0, high = n.strip_count;
    while (low < high) {
        uint32_t k = (low + high) / 2;
        uint64_t twice = (uint64_t)s[k].before + s[k + 1].before;
        if (twice * n.team.size < 2 * all * rank)
            low = k + 1;
        else
            high = k;
    }
    return low;
}

/* The block's network, in shared memory. */
PHASE void enter(const struct call &call) {
    const struct member &m = call.members[blockIdx.x / call.blocks];
    uint32_t rank = blockIdx.x % call.blocks;
    struct network &n = block_network();
    copy_words(&n, m.network, sizeof n, 0, 1);
    copy_words(m.to, m.from, m.bytes, rank, call.blocks);
    __syncthreads();
    if (threadIdx.x == 0) {
        n.team.scope = call.scope;
        n.team.rank = rank;
        n.team.size = call.blocks;
        n.queue = (struct queue *)m.to;
        n.own = rank ? first_strip(n, rank) : 0;
        n.own_end = rank + 1 < call.blocks ? first_strip(n, rank + 1) : n.strip_count;
        n.held_end = 0;
        n.joins = has_join(n);
        n.original = m.network;
        n.chip = shared_memory + n.kept_at;
        n.chip_end = shared_memory + call.end;
        n.inbox = NULL;
        if (call.scope == SCOPE_CLUSTER) {
            n.inbox = n.chip;
            n.chip += n.inbox_size;
        }
    }
    __syncthreads();
}

/* The sums, hidden states and outputs of some steps. */
static __device__ void run_forward(enum steps_of of) {
    const struct network &n = block_network();
    if (n.encoding.count) {
        encode(of);
        team_sync();
    }
    forward(n, of);
}

static __device__ void run_refresh() {
    refresh();
    team_sync();
}

static __device__ void run_norms() {
    norms();
    team_sync();
    begin_norms();
    team_sync();
}

static __device__ void run_update() {
    const struct network &n = block_network();
    if (n.current->recompute) {
        run_forward(STEPS_OF_WINDOW);
    } else if (n.solved.inputs) {
        solved_outputs();
        team_sync();
    }
    window_loss();
    team_sync();
    output_backward();
    team_sync();
    if (n.out.count > 1) {
        join_output();
        team_sync();
    }
    backward(n);
    if (has_inputs_backward(n)) {
        inputs_backward();
        team_sync();
    }
    if (n.rows_norms) {
        make_pulls();
        team_sync();
    }
    gradient_norm();
    team_sync();
    optimize(n);
    if (n.decision.applies && n.running_norms) {
        absorb();
        team_sync();
    }
    if (n.decision.applies && has_refresh(n))
        run_refresh();
}

/* The update's losses again, after it. */
static __device__ void run_probe() {
    const struct network &n = block_network();
    run_forward(STEPS_OF_WINDOW);
    window_loss();
    run_norms();
    if (n.team.rank == 0)
        probe();
    team_sync();
}

static __device__ void play_segment() {
    const struct network &n = block_network();
    const struct segment *const &s = n.current;
    if (s->steps || s->forget || s->lead != NONE) {
        begin();
        team_sync();
    }
    if (s->lead_solve != NONE)
        solve(s->lead_solve, s->lead_solved);
    if (s->steps) {
        run_forward(STEPS_OF_RUN);
        finish();
        team_sync();
    }
    if (s->length)
        run_update();
    if (s->probe)
        run_probe();
    if (s->solve != NONE)
        solve(s->solve, s->solved);
    if (s->measure != NONE) {
        run_norms();
        measure();
        team_sync();
    }
}

static __device__ void next_segment(struct network &n) {
    __syncthreads();
    if (threadIdx.x == 0)
        n.current++;
    __syncthreads();
}

/* Blocks: the teams' one after another. */
static __global__ void __launch_bounds__(PLAY_THREADS, 1)
    play(const __grid_constant__ struct call call) {
    struct network &n = block_network();
    enter(call);
    team_sync();
    if (threadIdx.x == 0)
        n.current = n.queue->segments;
    __syncthreads();
    keep(CHIP_IN);
    if (n.queue->refresh) {
        run_refresh();
        run_norms();
    }
    for (; n.current < n.queue->segments + n.queue->count; next_segment(n))
        play_segment();
    keep(CHIP_OUT);
    team_sync();
    if (n.team.rank == 0 && threadIdx.x == 0) {
        __threadfence_system();
        *n.queue->done = 1;
    }
}

/* ---- Its shared memory ---- */

size_t engine_shared(const struct network *n) {
    size_t most = TILE_SHARED, forward = forward_shared(n), backward = backward_shared(n);
    most = forward > most ? forward : most;
    most = backward > most ? backward : most;
    return WORKSPACE + (most + QUAD - 1) / QUAD * QUAD;
}

int engine_prepare(const struct engine *e, struct error *error) {
    const struct cuda_device *d = &e->device;
    struct cudaFuncAttributes found = {};
    cudaError_t status = cudaFuncGetAttributes(&found, (const void *)play);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute((const void *)play,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)d->shared);
    cudaGetLastError();
    if (status != cudaSuccess)
        return error_set(
            error, EX_UNAVAILABLE,
            "cannot load kernel play on %s (compute capability %d.%d): %s (%s); rebuild "
            "with CUDA_ARCHITECTURES=\"%d%d\"%s",
            d->name, d->capability_major, d->capability_minor, cudaGetErrorString(status),
            cudaGetErrorName(status), d->capability_major, d->capability_minor, e->way_out);
    if (found.maxThreadsPerBlock < PLAY_THREADS)
        return error_set(error, EX_UNAVAILABLE,
                         "cannot run kernel play on %s: expected blocks of %u threads, got at most "
                         "%d%s",
                         d->name, PLAY_THREADS, found.maxThreadsPerBlock, e->way_out);
    return 0;
}

/* ---- Layout of a plan's numbers ---- */

/* The queue of a plan whose upload and download begin at these addresses. A segment has at least
   one operation. */
static struct queue lay_out(const struct engine *e, const struct plan *plan, struct arena *upload,
                            struct arena *download) {
    const struct network *n = &e->network;
    struct queue q = {};
    size_t steps = plan->steps, scores = plan->scores, outputs = plan->outputs ? steps : 0;
    place_block(upload, sizeof q);
    q.segments = (struct segment *)place_block(upload, plan->count * sizeof *q.segments);
    q.steps = (struct step_entry *)place_block(upload, steps * sizeof *q.steps);
    q.scores = (struct score_entry *)place_block(upload, scores * sizeof *q.scores);
    q.inputs = (union value *)place_floats(upload, steps * e->model->features);
    q.targets = (union value *)place_floats(upload, plan->rows * n->target_size);
    q.done = (uint32_t *)place_block(download, sizeof *q.done);
    q.losses = place_doubles(download, scores);
    q.scored = place_floats(download, scores * n->scored);
    q.outputs = place_floats(download, outputs * n->outputs);
    q.updates = (struct update_result *)place_block(download, plan->updates * sizeof *q.updates);
    q.measures = (char *)place_block(download, plan->measures * measured_size(*n));
    return q;
}

size_t engine_plan_bytes(const struct engine *e, const struct plan *plan) {
    struct arena upload = {}, download = {};
    lay_out(e, plan, &upload, &download);
    return upload.size;
}

static void release(struct buffer *b) {
    if (b->at)
        cudaFreeHost(b->at);
    *b = (struct buffer){};
}

static void release_upload(struct engine *e) {
    if (e->received)
        cudaFree(e->received);
    e->received = NULL;
    release(&e->upload);
}

void engine_release_buffers(struct engine *e) {
    release_upload(e);
    release(&e->download);
}

static cudaError_t take(struct buffer *b, size_t capacity) {
    cudaError_t status = cudaHostAlloc((void **)&b->at, capacity, cudaHostAllocMapped);
    b->capacity = status == cudaSuccess ? capacity : 0;
    return status;
}

/* Nothing runs between plays. */
int engine_reserve(struct engine *e, const struct plan *plan, struct error *error) {
    cudaError_t status = cudaSuccess;
    struct arena upload = {}, download = {};
    lay_out(e, plan, &upload, &download);
    if (upload.size > e->upload.capacity) {
        release_upload(e);
        status = take(&e->upload, upload.size);
        if (status == cudaSuccess)
            status = cudaMalloc((void **)&e->received, upload.size);
    }
    if (status == cudaSuccess && download.size > e->download.capacity) {
        release(&e->download);
        status = take(&e->download, download.size);
    }
    return cuda_check(status, "allocating memory for a plan", error);
}

/* ---- Upload and download ---- */

static void copy_bytes(void *to, const void *from, size_t bytes) {
    if (bytes)
        memcpy(to, from, bytes);
}

static void fill_queue(struct engine *e, const struct plan *plan) {
    struct arena upload = {e->upload.at}, received = {e->received}, unused = {},
                 download = {e->download.at};
    struct queue host = lay_out(e, plan, &upload, &unused),
                 device = lay_out(e, plan, &received, &download);
    struct cutter cutter = {e, plan, host.segments, host.steps, host.scores};
    engine_cut(&cutter);
    device.count = cutter.count;
    device.refresh = e->stale;
    device.keep = plan->steps + cutter.learned >= KEEP_STEPS;
    device.rate = plan->rate;
    device.clip = plan->clip;
    device.optimizer = e->options.optimizer;
    for (uint32_t k = 0; k < e->network.layer_count; k++)
        device.momentum[k] = e->model->architecture.layers[k].norm_momentum;
    *device.done = 0;
    *(struct queue *)e->upload.at = device;
    copy_bytes(host.inputs, plan->inputs, plan->steps * e->model->features * sizeof(union value));
    copy_bytes(host.targets, plan->targets,
               plan->rows * e->network.target_size * sizeof(union value));
    e->uploaded = upload.size;
    e->stale = e->launched = false;
}

static void fetch_results(const struct engine_part *part) {
    const struct engine *e = part->engine;
    const struct network *n = &e->network;
    const struct plan *plan = part->plan;
    const struct results *to = part->results;
    struct arena unused = {}, download = {e->download.at};
    struct queue from = lay_out(e, plan, &unused, &download);
    copy_bytes(to->losses, from.losses, plan->scores * sizeof(double));
    copy_bytes(to->scored, from.scored, plan->scores * n->scored * sizeof(float));
    if (plan->outputs)
        copy_bytes(to->outputs, from.outputs, plan->steps * n->outputs * sizeof(float));
    copy_bytes(to->updates, from.updates, plan->updates * sizeof(struct update_result));
    for (size_t k = 0; k < plan->measures; k++)
        read_measure(*n, from.measures + k * measured_size(*n), to->measures + k * n->layer_count);
}

/* ---- The launch ---- */

enum { POLLS = 64 }; /* of the flag, for each query of the stream */

/* Blocks of each team. More blocks than tiles would have no work. */
static uint32_t team_blocks(const struct engine *e, uint32_t count, uint32_t tiles) {
    uint32_t most = (uint32_t)e->device.multiprocessors / count;
    if (e->scope == SCOPE_BLOCK)
        return 1;
    if (e->scope == SCOPE_CLUSTER)
        return CLUSTER_BLOCKS;
    return most < tiles ? most : tiles;
}

/* An earlier launch on the engine's own stream may still count at its barrier. */
static cudaError_t add_member(struct call *call, struct engine *e, cudaStream_t stream) {
    struct member *m = &call->members[call->count++];
    m->network = e->on_device;
    m->from = e->upload.at;
    m->to = e->received;
    m->bytes = (uint32_t)e->uploaded;
    e->played_on = stream;
    uint32_t used = (uint32_t)(block_bytes(e) / sizeof(float));
    if (((const struct queue *)e->upload.at)->keep)
        used = (uint32_t)(e->device.shared / sizeof(float));
    if (used > call->end)
        call->end = used;
    return e->stream == stream ? cudaSuccess : cudaStreamSynchronize(e->stream);
}

static cudaLaunchConfig_t configure(cudaLaunchAttribute *attribute, enum scope scope,
                                    uint32_t blocks, size_t shared) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(PLAY_THREADS);
    config.dynamicSmemBytes = shared;
    config.attrs = attribute;
    config.numAttrs = scope != SCOPE_BLOCK;
    *attribute = {};
    if (scope == SCOPE_CLUSTER) {
        attribute->id = cudaLaunchAttributeClusterDimension;
        attribute->val.clusterDim = {CLUSTER_BLOCKS, 1, 1};
    } else {
        attribute->id = cudaLaunchAttributeCooperative;
        attribute->val.cooperative = 1;
    }
    return config;
}

static cudaError_t launch(const struct call *call, cudaStream_t stream) {
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = configure(&attribute, (enum scope)call->scope,
                                          call->count * call->blocks, call->end * sizeof(float));
    config.stream = stream;
    return cudaLaunchKernelEx(&config, play, *call);
}

bool engine_has_clusters(const struct engine *e) {
    struct cudaFuncAttributes found = {};
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config =
        configure(&attribute, SCOPE_CLUSTER, CLUSTER_BLOCKS, e->device.shared);
    int clusters = 0;
    bool has =
        e->device.capability_major >= CLUSTER_CAPABILITY &&
        cudaFuncGetAttributes(&found, (const void *)play) == cudaSuccess &&
        found.ptxVersion >= 10 * CLUSTER_CAPABILITY &&
        cudaOccupancyMaxActiveClusters(&clusters, (const void *)play, &config) == cudaSuccess &&
        clusters > 0;
    cudaGetLastError();
    return has;
}

/* Launches the first part that is not played yet, and all others of its scope that fit in. */
static cudaError_t launch_some(const struct engine_part *parts, size_t count) {
    struct call call = {};
    struct engine *first = NULL;
    cudaError_t status = cudaSuccess;
    uint32_t most = TOGETHER_MAX, tiles = 0;
    for (size_t k = 0; k < count && call.count < most && !status; k++) {
        struct engine *e = parts[k].engine;
        if (e->launched || (first && first->scope != e->scope))
            continue;
        if (!first && e->scope == SCOPE_GRID && (uint32_t)e->device.multiprocessors < most)
            most = (uint32_t)e->device.multiprocessors;
        first = first ? first : e;
        tiles = e->network.tiles > tiles ? e->network.tiles : tiles;
        e->launched = true;
        status = add_member(&call, e, first->stream);
    }
    call.scope = first->scope;
    call.blocks = team_blocks(first, call.count, tiles);
    return status ? status : launch(&call, first->stream);
}

static bool all_launched(const struct engine_part *parts, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!parts[k].engine->launched)
            return false;
    return true;
}

/* Polls the flag that the team sets last, which shows the end sooner than the stream does. Later
   work on the engine's own stream waits for that end; if another's was used, the host does. */
static cudaError_t wait_for(const struct engine *e) {
    const uint32_t *done = (const uint32_t *)e->download.at;
    cudaError_t status = cudaErrorNotReady;
    for (uint32_t polls = 0;
         status == cudaErrorNotReady && !__atomic_load_n(done, __ATOMIC_ACQUIRE); polls++)
        if (polls % POLLS == 0)
            status = cudaStreamQuery(e->played_on);
    if (e->played_on != e->stream)
        return cudaStreamSynchronize(e->played_on);
    if (status == cudaErrorNotReady) /* the flag came first */
        status = cudaStreamQuery(e->played_on);
    return status == cudaErrorNotReady ? cudaSuccess : status;
}

/* Another thread may have opened the engines, and each thread has its own current device. */
int engine_play_together(const struct engine_part *parts, size_t count, struct error *error) {
    cudaError_t status = cudaSuccess;
    if (cuda_check(cudaSetDevice(parts[0].engine->device.index), "selecting the GPU", error))
        return -1;
    for (size_t k = 0; k < count; k++)
        if (engine_reserve(parts[k].engine, parts[k].plan, error))
            return -1;
    for (size_t k = 0; k < count; k++)
        fill_queue(parts[k].engine, parts[k].plan);
    while (!status && !all_launched(parts, count))
        status = launch_some(parts, count);
    for (size_t k = 0; k < count && !status; k++)
        status = wait_for(parts[k].engine);
    if (cuda_check(status, "learning on the GPU", error))
        return -1;
    for (size_t k = 0; k < count; k++)
        fetch_results(&parts[k]);
    return 0;
}

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error) {
    const struct engine_part part = {e, plan, results};
    return engine_play_together(&part, 1, error);
}
