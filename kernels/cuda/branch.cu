/* A segment's kernels, of all engines of an ensemble: in parallel branches. */
#include "backward.cuh"
#include "ensemble.cuh"
#include "forward.cuh"
#include "measure.cuh"
#include "optimizer.cuh"
#include "segment.cuh"
#include "units.cuh"

/* Members played by one launch, all with the first one's shape. */
struct branch {
    struct network network;
    const struct engine *first;
    cudaStream_t stream;
};

/* ---- A branch's kernels ---- */

static cudaError_t enqueue_forward(const struct branch *b, enum steps_of of, uint32_t steps) {
    const struct network *n = &b->network;
    const struct engine *e = b->first;
    cudaError_t status = launch_encode(n, &e->encoding, of, steps, e->threads, b->stream);
    return status ? status : launch_forward(n, of, steps, e->threads, b->stream);
}

static cudaError_t enqueue_update(const struct branch *b, const struct shape *shape) {
    const struct network *n = &b->network;
    const struct engine *e = b->first;
    uint32_t length = shape->length, partials = 0;
    cudaError_t status = cudaSuccess;
    if (shape->recompute)
        status = enqueue_forward(b, STEPS_OF_WINDOW, length);
    else if (e->model->solved)
        status = launch_outputs(n, length, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_loss(n, length, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_backward(n, length, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_inputs_backward(n, &e->encoding, length, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_pulls(n, length, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_gradient(n, &e->gradient, length, &partials, b->stream);
    if (status == cudaSuccess)
        status = launch_optimizer(n, &e->gradient, length, partials, b->stream);
    if (status == cudaSuccess)
        status = launch_absorb(n, e->threads, b->stream);
    if (status == cudaSuccess)
        status = launch_refresh(n, e->threads, b->stream);
    return status;
}

static cudaError_t enqueue_norms(const struct branch *b) {
    const struct engine *e = b->first;
    return launch_norms(&b->network, e->gradient.tiles, e->threads, b->stream);
}

/* The update's losses again, after it. */
static cudaError_t enqueue_probe(const struct branch *b, uint32_t length) {
    const struct network *n = &b->network;
    cudaError_t status = enqueue_forward(b, STEPS_OF_WINDOW, length);
    if (status == cudaSuccess)
        status = launch_loss(n, length, b->first->threads, b->stream);
    if (status == cudaSuccess)
        status = enqueue_norms(b);
    return status ? status : launch_probe(n, length, b->first->threads, b->stream);
}

static cudaError_t enqueue_branch(const struct branch *b, const struct shape *shape) {
    const struct network *n = &b->network;
    const struct engine *e = b->first;
    cudaError_t status = launch_begin(n, shape->steps, e->threads, b->stream);
    if (status == cudaSuccess && shape->lead_solve)
        status = launch_solve(n, &e->solution, SOLVE_BEFORE_RUN, b->stream);
    if (status == cudaSuccess && shape->steps > 0)
        status = enqueue_forward(b, STEPS_OF_RUN, shape->steps);
    if (status == cudaSuccess && shape->steps > 0)
        status = launch_finish(n, shape->steps, e->threads, b->stream);
    if (status == cudaSuccess && shape->length > 0)
        status = enqueue_update(b, shape);
    if (status == cudaSuccess && shape->probe)
        status = enqueue_probe(b, shape->length);
    if (status == cudaSuccess && shape->solve)
        status = launch_solve(n, &e->solution, SOLVE_AT_END, b->stream);
    if (status == cudaSuccess && shape->measure)
        status = enqueue_norms(b);
    if (status == cudaSuccess && shape->measure)
        status = launch_measure(n, e->threads, b->stream);
    return status;
}

/* Enqueues the longest segment, and an update whose gradient is not formed, without members:
   this prepares every kernel of the engine, with the block and shared memory of its launch. */
int engine_prepare(const struct engine *e, struct error *error) {
    const struct network *n = &e->network;
    const struct branch b = {*n, e, e->stream};
    struct shape all = {}, shorter = {};
    all.steps = n->window < RUN_MAX ? n->window : RUN_MAX;
    all.length = n->window;
    all.recompute = all.measure = all.probe = true;
    all.lead_solve = e->model->solved > 0;
    shorter.length = 1;
    cudaError_t status = enqueue_branch(&b, &all);
    if (status == cudaSuccess)
        status = enqueue_branch(&b, &shorter);
    return status ? prepare_failed(&e->device, status, e->way_out, error) : 0;
}

/* ---- Assignment to branches ---- */

static bool same(const struct shape *a, const struct shape *b) {
    return a->steps == b->steps && a->length == b->length && a->played == b->played &&
           a->recompute == b->recompute && a->measure == b->measure &&
           a->lead_solve == b->lead_solve && a->solve == b->solve && a->probe == b->probe;
}

bool same_shapes(const struct shape *a, const struct shape *b, size_t count) {
    for (size_t m = 0; m < count; m++)
        if (!same(&a[m], &b[m]))
            return false;
    return true;
}

/* The first engine of engine m's branch, possibly m itself. */
static size_t first_of(const struct ensemble *x, const struct shape *shapes, size_t m) {
    size_t first = x->equal[m];
    while (first < m && (x->equal[first] != x->equal[m] || !same(&shapes[first], &shapes[m])))
        first++;
    return first;
}

static void add_member(struct branch *b, const struct ensemble *x, size_t m) {
    struct network *n = &b->network;
    n->arenas[n->members] = x->engines[m]->arena;
    n->queue_of[n->members] = (uint8_t)m;
    n->members++;
}

/* Forward blocks of each of several members: in total as many as the multiprocessors can run
   with BLOCK_THREADS_MAX threads each, since each block computes its x. */
static void share_blocks(struct branch *b) {
    uint32_t processors = (uint32_t)b->first->device.multiprocessors;
    uint32_t most = processors * (BLOCK_THREADS_MAX / b->first->threads) / b->network.members;
    if (b->network.members > 1)
        share_forward(&b->network, b->first->threads, most < processors ? most : processors);
}

static void begin_branch(struct branch *b, const struct ensemble *x, size_t first) {
    b->first = x->engines[first];
    b->stream = b->first->stream;
    b->network = b->first->network;
    b->network.queues = (struct queue *)x->upload.device;
}

static void make_branch(struct branch *b, const struct ensemble *x, const struct shape *shapes,
                        size_t first) {
    begin_branch(b, x, first);
    for (size_t m = first; m < x->count; m++)
        if (first_of(x, shapes, m) == first)
            add_member(b, x, m);
    share_blocks(b);
}

/* ---- All branches ---- */

/* Whether something runs in parallel to the ensemble's own stream. */
static bool forks(const struct ensemble *x, const struct shape *shapes) {
    for (size_t m = 1; m < x->count; m++)
        if (shapes[m].played && first_of(x, shapes, m) > 0)
            return true;
    return false;
}

static cudaError_t enqueue_beside(struct ensemble *x, const struct branch *b,
                                  const struct shape *shape) {
    cudaError_t status = cudaStreamWaitEvent(b->stream, x->fork, 0);
    if (status == cudaSuccess)
        status = enqueue_branch(b, shape);
    if (status == cudaSuccess)
        status = cudaEventRecord(x->join, b->stream);
    return status ? status : cudaStreamWaitEvent(ensemble_stream(x), x->join, 0);
}

cudaError_t ensemble_enqueue(struct ensemble *x, const struct shape *shapes) {
    struct branch b;
    cudaError_t status = cudaSuccess;
    if (forks(x, shapes))
        status = cudaEventRecord(x->fork, ensemble_stream(x));
    for (size_t m = 0; m < x->count && status == cudaSuccess; m++) {
        if (!shapes[m].played || first_of(x, shapes, m) < m)
            continue;
        make_branch(&b, x, shapes, m);
        status = m == 0 ? enqueue_branch(&b, &shapes[m]) : enqueue_beside(x, &b, &shapes[m]);
    }
    return status;
}

size_t branch_nodes(const struct engine *e, const struct shape *shape) {
    size_t length = shape->length, layers = e->network.layer_count;
    return shape->steps + 2 * length + 3 * layers + 23 + (shape->probe ? length + layers + 5 : 0);
}

size_t ensemble_nodes(const struct ensemble *x, const struct shape *shapes) {
    size_t count = 0;
    for (size_t m = 0; m < x->count; m++) {
        const struct engine *e = x->engines[m];
        const struct shape *shape = &shapes[m];
        if (!shape->played)
            continue;
        if (gradient_is_formed(&e->gradient, shape->length))
            count += e->gradient.count; /* cuBLAS is called for each member */
        if (first_of(x, shapes, m) == m)
            count += branch_nodes(e, shape);
    }
    return count;
}

cudaError_t ensemble_refresh(struct ensemble *x, size_t member) {
    struct branch b;
    begin_branch(&b, x, member);
    add_member(&b, x, member);
    b.stream = ensemble_stream(x);
    cudaError_t status = launch_refresh(&b.network, b.first->threads, b.stream);
    return status ? status : enqueue_norms(&b);
}
