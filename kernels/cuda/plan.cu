/* Playing a plan: it is cut into segments, uploaded at once, and enqueued segment by segment
   without a wait. */
#include <stdlib.h>
#include <string.h>

#include "backward.cuh"
#include "engine.cuh"
#include "forward.cuh"
#include "measure.cuh"
#include "optimizer.cuh"
#include "segment.cuh"
#include "units.cuh"

enum { ALIGNMENT = 256 }; /* bytes, of what is uploaded and downloaded */

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- where a plan's numbers lie ---- */

/* Offsets in bytes. */
struct upload_layout {
    size_t segments, steps, scores, inputs, targets, size;
};

struct download_layout {
    size_t losses, scored, outputs, updates, measures, size;
};

/* A segment holds at least one operation. */
static struct upload_layout lay_out_upload(const struct engine *e, const struct plan *plan) {
    struct upload_layout l;
    l.segments = aligned(sizeof(struct queue));
    l.steps = l.segments + aligned(plan->count * sizeof(struct segment));
    l.scores = l.steps + aligned(plan->steps * sizeof(struct step_entry));
    l.inputs = l.scores + aligned(plan->scores * sizeof(struct score_entry));
    l.targets = l.inputs + aligned(plan->steps * e->model->features * sizeof(union value));
    l.size = l.targets + aligned(plan->rows * e->network.target_size * sizeof(union value));
    return l;
}

static struct download_layout lay_out_download(const struct engine *e, const struct plan *plan) {
    const struct network *n = &e->network;
    struct download_layout l;
    l.losses = 0;
    l.scored = aligned(plan->scores * sizeof(double));
    l.outputs = l.scored + aligned(plan->scores * n->scored * sizeof(float));
    l.updates = l.outputs + aligned(plan->outputs ? plan->steps * n->outputs * sizeof(float) : 0);
    l.measures = l.updates + aligned(plan->updates * sizeof(struct update_result));
    l.size =
        l.measures + aligned(plan->measures * n->layer_count * sizeof(struct layer_statistics));
    return l;
}

static void release_upload(struct engine *e) {
    if (e->upload.device)
        cudaFree(e->upload.device);
    if (e->upload.host)
        cudaFreeHost(e->upload.host);
    e->upload = (struct upload){};
}

static void release_download(struct engine *e) {
    if (e->download.host)
        cudaFreeHost(e->download.host);
    e->download = (struct download){};
}

/* Room for the plan. Graphs know where the queue lies: when it moves they are of no use. Nothing is
   under way between plans. */
static int reserve(struct engine *e, size_t upload, size_t download, struct error *error) {
    cudaError_t status = cudaSuccess;
    if (upload > e->upload.capacity) {
        engine_forget_graphs(e);
        release_upload(e);
        size_t capacity = 2 * upload;
        status = cudaMalloc((void **)&e->upload.device, capacity);
        if (status == cudaSuccess)
            status = cudaHostAlloc((void **)&e->upload.host, capacity, cudaHostAllocDefault);
        e->upload.capacity = status == cudaSuccess ? capacity : 0;
        e->network.queue = (struct queue *)e->upload.device;
    }
    if (status == cudaSuccess && download > e->download.capacity) {
        release_download(e);
        status = cudaHostAlloc((void **)&e->download.host, 2 * download, cudaHostAllocMapped);
        e->download.capacity = status == cudaSuccess ? 2 * download : 0;
    }
    return cuda_check(status, "taking memory for a plan", error);
}

/* ---- a segment's kernels ---- */

static cudaError_t enqueue_forward(struct engine *e, enum steps_of of, uint32_t steps) {
    const struct network *n = &e->network;
    cudaError_t status = launch_encode(n, &e->encoding, of, steps, e->threads, e->stream);
    return status ? status : launch_forward(n, of, steps, e->threads, e->stream);
}

static cudaError_t enqueue_update(struct engine *e, const struct shape *shape) {
    const struct network *n = &e->network;
    uint32_t length = shape->length, partials = 0;
    cudaError_t status = cudaSuccess;
    if (shape->recompute)
        status = enqueue_forward(e, STEPS_OF_WINDOW, length);
    else if (e->model->solved)
        status = launch_outputs(n, length, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_loss(n, &e->options.optimizer, length, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_backward(n, length, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_inputs_backward(n, &e->encoding, length, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_pulls(n, length, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_gradient(n, &e->gradient, length, &partials, e->stream);
    if (status == cudaSuccess)
        status = launch_optimizer(n, &e->gradient, length, partials, e->stream);
    if (status == cudaSuccess)
        status = launch_absorb(n, e->threads, e->stream);
    if (status == cudaSuccess)
        status = launch_refresh(n, e->threads, e->stream);
    return status;
}

cudaError_t engine_enqueue(struct engine *e, const struct shape *shape) {
    const struct network *n = &e->network;
    cudaError_t status = launch_begin(n, shape->steps, e->threads, e->stream);
    if (status == cudaSuccess && shape->lead_solve)
        status = launch_solve(n, &e->solution, SOLVE_BEFORE_RUN, e->stream);
    if (status == cudaSuccess && shape->steps > 0)
        status = enqueue_forward(e, STEPS_OF_RUN, shape->steps);
    if (status == cudaSuccess && shape->steps > 0)
        status = launch_finish(n, shape->steps, e->threads, e->stream);
    if (status == cudaSuccess && shape->length > 0)
        status = enqueue_update(e, shape);
    if (status == cudaSuccess && shape->solve)
        status = launch_solve(n, &e->solution, SOLVE_AT_END, e->stream);
    if (status == cudaSuccess && shape->measure)
        status = launch_measure(n, e->threads, e->stream);
    return status;
}

/* ---- the whole ---- */

static void fill_queue(struct engine *e, const struct plan *plan, const struct upload_layout *up,
                       const struct download_layout *down, char *results) {
    struct queue *q = (struct queue *)e->upload.host;
    const char *device = e->upload.device;
    memset(q, 0, sizeof *q);
    q->rate = plan->rate;
    q->clip = plan->clip;
    q->segments = (const struct segment *)(device + up->segments);
    q->steps = (const struct step_entry *)(device + up->steps);
    q->scores = (const struct score_entry *)(device + up->scores);
    q->inputs = (const union value *)(device + up->inputs);
    q->targets = (const union value *)(device + up->targets);
    q->losses = (double *)(results + down->losses);
    q->scored = (float *)(results + down->scored);
    q->outputs = (float *)(results + down->outputs);
    q->updates = (struct update_result *)(results + down->updates);
    q->measures = (struct layer_statistics *)(results + down->measures);
    if (plan->steps)
        memcpy(e->upload.host + up->inputs, plan->inputs,
               plan->steps * e->model->features * sizeof(union value));
    if (plan->rows)
        memcpy(e->upload.host + up->targets, plan->targets,
               plan->rows * e->network.target_size * sizeof(union value));
}

static void fetch(void *to, const struct engine *e, size_t from, size_t bytes) {
    if (bytes)
        memcpy(to, e->download.host + from, bytes);
}

static void fetch_results(const struct engine *e, const struct plan *plan,
                          const struct download_layout *l, const struct results *results) {
    const struct network *n = &e->network;
    fetch(results->losses, e, l->losses, plan->scores * sizeof(double));
    fetch(results->scored, e, l->scored, plan->scores * n->scored * sizeof(float));
    if (plan->outputs)
        fetch(results->outputs, e, l->outputs, plan->steps * n->outputs * sizeof(float));
    fetch(results->updates, e, l->updates, plan->updates * sizeof(struct update_result));
    fetch(results->measures, e, l->measures,
          plan->measures * n->layer_count * sizeof(struct layer_statistics));
}

static cudaError_t run(struct engine *e, const struct cutter *c, size_t upload) {
    cudaError_t status = cudaMemcpyAsync(e->upload.device, e->upload.host, upload,
                                         cudaMemcpyHostToDevice, e->stream);
    if (e->stale && status == cudaSuccess)
        status = launch_refresh(&e->network, e->threads, e->stream);
    e->stale = false;
    for (uint32_t k = 0; k < c->count && status == cudaSuccess; k++)
        status = engine_replay(e, &c->shapes[k]);
    cudaError_t ended = cudaStreamSynchronize(e->stream);
    return status ? status : ended;
}

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error) {
    struct upload_layout up = lay_out_upload(e, plan);
    struct download_layout down = lay_out_download(e, plan);
    size_t shapes = up.size; /* follow what is uploaded */
    char *device_results = NULL;
    if (reserve(e, up.size + plan->count * sizeof(struct shape), down.size + ALIGNMENT, error) ||
        cuda_check(cudaHostGetDevicePointer((void **)&device_results, e->download.host, 0),
                   "mapping memory for a plan", error))
        return -1;
    fill_queue(e, plan, &up, &down, device_results);
    struct cutter c = {};
    c.e = e;
    c.plan = plan;
    c.segments = (struct segment *)(e->upload.host + up.segments);
    c.steps = (struct step_entry *)(e->upload.host + up.steps);
    c.scores = (struct score_entry *)(e->upload.host + up.scores);
    c.shapes = (struct shape *)(e->upload.host + shapes);
    engine_cut(&c);
    if (cuda_check(run(e, &c, up.size), "learning on the GPU", error))
        return -1;
    fetch_results(e, plan, &down, results);
    return 0;
}

int engine_play_together(const struct engine_part *parts, size_t count, struct error *error) {
    for (size_t k = 0; k < count; k++)
        if (engine_play(parts[k].engine, parts[k].plan, parts[k].results, error))
            return -1;
    return 0;
}

void engine_release_plan(struct engine *e) {
    engine_forget_graphs(e);
    release_upload(e);
    release_download(e);
}
