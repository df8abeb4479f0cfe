/* Plays plans: cuts them into segments, uploads them at once, and enqueues segment by segment
   without waiting. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ensemble.cuh"

enum { ALIGNMENT = 256 }; /* bytes, of uploads and downloads */

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- Layout of the plans' numbers ---- */

/* The layout begins at `from`. A segment has at least one operation. */
static struct upload_layout lay_out_upload(const struct engine *e, const struct plan *plan,
                                           size_t from) {
    struct upload_layout l;
    l.segments = from;
    l.steps = l.segments + aligned(plan->count * sizeof(struct segment));
    l.scores = l.steps + aligned(plan->steps * sizeof(struct step_entry));
    l.inputs = l.scores + aligned(plan->scores * sizeof(struct score_entry));
    l.targets = l.inputs + aligned(plan->steps * e->model->features * sizeof(union value));
    l.size = l.targets + aligned(plan->rows * e->network.target_size * sizeof(union value));
    return l;
}

static struct download_layout lay_out_download(const struct engine *e, const struct plan *plan,
                                               size_t from) {
    const struct network *n = &e->network;
    struct download_layout l;
    l.losses = from;
    l.scored = l.losses + aligned(plan->scores * sizeof(double));
    l.outputs = l.scored + aligned(plan->scores * n->scored * sizeof(float));
    l.updates = l.outputs + aligned(plan->outputs ? plan->steps * n->outputs * sizeof(float) : 0);
    l.measures = l.updates + aligned(plan->updates * sizeof(struct update_result));
    l.size =
        l.measures + aligned(plan->measures * n->layer_count * sizeof(struct layer_statistics));
    return l;
}

/* Memory of a play. The queues of all engines come first, at a fixed address for graphs; shapes
   follow the upload, and stay on the host. */
struct sizes {
    size_t upload, shapes, download;
};

static struct sizes lay_out(struct ensemble *x) {
    struct sizes sizes = {aligned(x->count * sizeof(struct queue)), 0, 0};
    for (size_t m = 0; m < x->count; m++) {
        struct playing *p = &x->playing[m];
        if (!p->part)
            continue;
        p->up = lay_out_upload(x->engines[m], p->part->plan, sizes.upload);
        p->down = lay_out_download(x->engines[m], p->part->plan, sizes.download);
        sizes.upload = p->up.size;
        sizes.download = p->down.size;
        sizes.shapes += p->part->plan->count * sizeof(struct shape);
    }
    return sizes;
}

size_t engine_plan_bytes(const struct engine *e, const struct plan *plan) {
    return aligned(sizeof(struct queue)) + lay_out_upload(e, plan, 0).size +
           plan->count * sizeof(struct shape);
}

static void release_upload(struct ensemble *x) {
    if (x->upload.device) {
        cudaFree(x->upload.device);
        budget_taken(x->engines[0], -(int64_t)x->upload.capacity);
    }
    if (x->upload.host)
        cudaFreeHost(x->upload.host);
    x->upload = (struct upload){};
}

static void release_download(struct ensemble *x) {
    if (x->download.host)
        cudaFreeHost(x->download.host);
    x->download = (struct download){};
}

void ensemble_release_buffers(struct ensemble *x) {
    release_upload(x);
    release_download(x);
}

/* More than requested, so that longer plans seldom allocate again; at most the budget. */
static size_t room_for(const struct ensemble *x, size_t upload) {
    size_t budget = 0;
    for (size_t m = 0; m < x->count; m++)
        budget += x->engines[m]->plans;
    assert(budget == 0 || upload <= budget); /* engine_options.longest */
    size_t room = 2 * upload < budget ? 2 * upload : budget;
    return room > upload ? room : upload;
}

static cudaError_t take_upload(struct ensemble *x, size_t capacity) {
    cudaError_t status = cudaMalloc((void **)&x->upload.device, capacity);
    if (status)
        return status;
    x->upload.capacity = capacity;
    budget_taken(x->engines[0], (int64_t)capacity);
    status = cudaHostAlloc((void **)&x->upload.host, capacity, cudaHostAllocDefault);
    if (status)
        release_upload(x);
    return status;
}

/* Room for the plans. Graphs contain the address of the queues: they become invalid when these
   move. Nothing runs between plays. */
static int reserve(struct ensemble *x, size_t upload, size_t download, struct error *error) {
    cudaError_t status = cudaSuccess;
    if (upload > x->upload.capacity) {
        ensemble_forget_graphs(x);
        release_upload(x);
        status = take_upload(x, room_for(x, upload));
    }
    if (status == cudaSuccess && download > x->download.capacity) {
        release_download(x);
        status = cudaHostAlloc((void **)&x->download.host, 2 * download, cudaHostAllocMapped);
        x->download.capacity = status == cudaSuccess ? 2 * download : 0;
    }
    return cuda_check(status, "allocating memory for a plan", error);
}

/* ---- Upload and download ---- */

static void fill_queue(struct ensemble *x, size_t m, char *results) {
    const struct engine *e = x->engines[m];
    const struct playing *p = &x->playing[m];
    const struct plan *plan = p->part->plan;
    struct queue *q = (struct queue *)x->upload.host + m;
    const char *device = x->upload.device;
    q->rate = plan->rate;
    q->clip = plan->clip;
    q->optimizer = e->options.optimizer;
    for (uint32_t k = 0; k < e->network.layer_count; k++)
        q->momentum[k] = e->model->architecture.layers[k].norm_momentum;
    q->segments = (const struct segment *)(device + p->up.segments);
    q->steps = (const struct step_entry *)(device + p->up.steps);
    q->scores = (const struct score_entry *)(device + p->up.scores);
    q->inputs = (const union value *)(device + p->up.inputs);
    q->targets = (const union value *)(device + p->up.targets);
    q->losses = (double *)(results + p->down.losses);
    q->scored = (float *)(results + p->down.scored);
    q->outputs = (float *)(results + p->down.outputs);
    q->updates = (struct update_result *)(results + p->down.updates);
    q->measures = (struct layer_statistics *)(results + p->down.measures);
    if (plan->steps)
        memcpy(x->upload.host + p->up.inputs, plan->inputs,
               plan->steps * e->model->features * sizeof(union value));
    if (plan->rows)
        memcpy(x->upload.host + p->up.targets, plan->targets,
               plan->rows * e->network.target_size * sizeof(union value));
}

/* Returns the end of its shapes. */
static struct shape *cut(struct ensemble *x, size_t m, struct shape *shapes) {
    struct playing *p = &x->playing[m];
    p->cutter = (struct cutter){};
    p->cutter.e = x->engines[m];
    p->cutter.plan = p->part->plan;
    p->cutter.segments = (struct segment *)(x->upload.host + p->up.segments);
    p->cutter.steps = (struct step_entry *)(x->upload.host + p->up.steps);
    p->cutter.scores = (struct score_entry *)(x->upload.host + p->up.scores);
    p->cutter.shapes = shapes;
    engine_cut(&p->cutter);
    return shapes + p->part->plan->count;
}

static void fetch(void *to, const struct ensemble *x, size_t from, size_t bytes) {
    if (bytes)
        memcpy(to, x->download.host + from, bytes);
}

static void fetch_results(const struct ensemble *x, size_t m) {
    const struct network *n = &x->engines[m]->network;
    const struct playing *p = &x->playing[m];
    const struct plan *plan = p->part->plan;
    const struct results *results = p->part->results;
    const struct download_layout *l = &p->down;
    fetch(results->losses, x, l->losses, plan->scores * sizeof(double));
    fetch(results->scored, x, l->scored, plan->scores * n->scored * sizeof(float));
    if (plan->outputs)
        fetch(results->outputs, x, l->outputs, plan->steps * n->outputs * sizeof(float));
    fetch(results->updates, x, l->updates, plan->updates * sizeof(struct update_result));
    fetch(results->measures, x, l->measures,
          plan->measures * n->layer_count * sizeof(struct layer_statistics));
}

/* ---- The whole play ---- */

static cudaError_t refresh_stale(struct ensemble *x) {
    cudaError_t status = cudaSuccess;
    for (size_t m = 0; m < x->count && status == cudaSuccess; m++) {
        if (!x->playing[m].part || !x->engines[m]->stale)
            continue;
        status = ensemble_refresh(x, m);
        x->engines[m]->stale = false;
    }
    return status;
}

/* The shapes of all engines' segments number k; false: no more. */
static bool take_shapes(const struct ensemble *x, uint32_t k, struct shape *shapes) {
    bool any = false;
    for (size_t m = 0; m < x->count; m++) {
        const struct cutter *c = &x->playing[m].cutter;
        bool played = x->playing[m].part && k < c->count;
        shapes[m] = played ? c->shapes[k] : (struct shape){};
        any |= played;
    }
    return any;
}

static cudaError_t run(struct ensemble *x, size_t upload) {
    struct shape shapes[TOGETHER_MAX];
    cudaError_t status = cudaMemcpyAsync(x->upload.device, x->upload.host, upload,
                                         cudaMemcpyHostToDevice, ensemble_stream(x));
    if (status == cudaSuccess)
        status = refresh_stale(x);
    for (uint32_t k = 0; status == cudaSuccess && take_shapes(x, k, shapes); k++)
        status = ensemble_replay(x, shapes);
    cudaError_t ended = cudaStreamSynchronize(ensemble_stream(x));
    return status ? status : ended;
}

static int play(struct ensemble *x, struct error *error) {
    struct sizes sizes = lay_out(x);
    char *results = NULL;
    if (reserve(x, sizes.upload + sizes.shapes, sizes.download + ALIGNMENT, error) ||
        cuda_check(cudaHostGetDevicePointer((void **)&results, x->download.host, 0),
                   "mapping memory for a plan", error))
        return -1;
    struct shape *shapes = (struct shape *)(x->upload.host + sizes.upload);
    memset(x->upload.host, 0, x->count * sizeof(struct queue));
    for (size_t m = 0; m < x->count; m++)
        if (x->playing[m].part) {
            fill_queue(x, m, results);
            shapes = cut(x, m, shapes);
        }
    if (cuda_check(run(x, sizes.upload), "learning on the GPU", error))
        return -1;
    for (size_t m = 0; m < x->count; m++)
        if (x->playing[m].part)
            fetch_results(x, m);
    return 0;
}

static const struct engine_part *part_of(const struct engine_part *parts, size_t count,
                                         const struct engine *e) {
    for (size_t k = 0; k < count; k++)
        if (parts[k].engine == e)
            return &parts[k];
    return NULL;
}

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error) {
    const struct engine_part part = {e, plan, results};
    return engine_play_together(&part, 1, error);
}

/* Plays at most TOGETHER_MAX plans, or one after another if memory lacks. Another thread may
   have opened the engines, and each thread has its own current device. */
static int play_some(const struct engine_part *parts, size_t count, struct error *error) {
    if (cuda_check(cudaSetDevice(parts[0].engine->device.index), "selecting the GPU", error))
        return -1;
    struct ensemble *x = ensemble_of(parts, count);
    if (!x && count == 1)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CUDA engine");
    for (size_t k = 0; !x && k < count; k++)
        if (play_some(&parts[k], 1, error))
            return -1;
    for (size_t m = 0; x && m < x->count; m++)
        x->playing[m].part = part_of(parts, count, x->engines[m]);
    return x ? play(x, error) : 0;
}

int engine_play_together(const struct engine_part *parts, size_t count, struct error *error) {
    for (size_t some; count > 0; parts += some, count -= some) {
        some = count < TOGETHER_MAX ? count : TOGETHER_MAX;
        if (play_some(parts, some, error))
            return -1;
    }
    return 0;
}
