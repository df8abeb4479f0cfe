/* Groups engines that are played together: see ensemble.cuh. */
#include "ensemble.cuh"

#include <stdlib.h>
#include <string.h>

extern "C" {
#include "common/log.h"
}

/* ---- Networks of equal shape ---- */

static bool same_solution(const struct least_squares *a, const struct least_squares *b) {
    return a->inputs == b->inputs && a->outputs == b->outputs && a->stride == b->stride &&
           a->keep == b->keep && a->prior == b->prior;
}

static bool same_gradient(const struct engine *a, const struct engine *b) {
    const struct gradient_plan *of_a = &a->gradient, *of_b = &b->gradient;
    return of_a->count == of_b->count && of_a->tiles == of_b->tiles &&
           of_a->numbers == of_b->numbers && of_a->pulls == of_b->pulls &&
           !of_a->blas == !of_b->blas &&
           memcmp(a->walked, b->walked, of_a->count * sizeof *a->walked) == 0;
}

static bool same_encoding(const struct engine *a, const struct engine *b) {
    const struct encoding *of_a = &a->encoding, *of_b = &b->encoding;
    return of_a->count == of_b->count && of_a->features == of_b->features &&
           of_a->learned == of_b->learned &&
           memcmp(a->parts, b->parts, of_a->count * sizeof *a->parts) == 0;
}

/* Whether one launch can play both: all their arguments are equal. Engines are allocated zeroed,
   so that bytes between fields are equal, too. */
static bool is_equal(const struct engine *a, const struct engine *b) {
    return a->device.index == b->device.index && a->threads == b->threads &&
           memcmp(&a->network, &b->network, sizeof a->network) == 0 && same_gradient(a, b) &&
           same_encoding(a, b) && same_solution(&a->solution.ls, &b->solution.ls) &&
           !a->model->solved == !b->model->solved;
}

/* ---- Forming ---- */

static void release(struct ensemble *x) {
    if (x->fork)
        cudaEventDestroy(x->fork);
    if (x->join)
        cudaEventDestroy(x->join);
    free(x->shapes);
    free(x);
}

void ensemble_dissolve(struct ensemble *x) {
    if (!x)
        return;
    ensemble_forget_graphs(x);
    ensemble_release_buffers(x);
    for (size_t m = 0; m < x->count; m++)
        x->engines[m]->ensemble = NULL;
    release(x);
}

static cudaError_t open_events(struct ensemble *x) {
    if (x->count == 1)
        return cudaSuccess;
    cudaError_t status = cudaEventCreateWithFlags(&x->fork, cudaEventDisableTiming);
    return status ? status : cudaEventCreateWithFlags(&x->join, cudaEventDisableTiming);
}

/* Engines are then played one after another, with the same bits. */
static void report_apart(size_t count, cudaError_t status) {
    static bool reported;
    cudaGetLastError();
    if (count == 1 || __atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        return;
    log_warning(
        "cannot run %zu networks in parallel on the GPU: CUDA error: %s (%s); they run one after "
        "another: same results, but an example takes up to %zu times as long; free GPU memory",
        count, cudaGetErrorString(status), cudaGetErrorName(status), count);
}

/* An ensemble of `count` engines, still unknown. */
static struct ensemble *open_empty(size_t count) {
    struct ensemble *x = (struct ensemble *)calloc(1, sizeof *x);
    cudaError_t status = cudaErrorMemoryAllocation;
    if (x) {
        x->count = count;
        x->shapes = (struct shape *)calloc(GRAPHS_MAX * count, sizeof *x->shapes);
        status = x->shapes ? open_events(x) : status;
    }
    if (status == cudaSuccess)
        return x;
    report_apart(count, status);
    if (x)
        release(x);
    return NULL;
}

static void fill(struct ensemble *x, struct engine *const *engines) {
    for (size_t k = 0; k < GRAPHS_MAX; k++)
        x->graphs[k].shapes = x->shapes + k * x->count;
    for (size_t m = 0; m < x->count; m++) {
        size_t first = 0;
        while (first < m && !is_equal(engines[first], engines[m]))
            first++;
        x->engines[m] = engines[m];
        x->equal[m] = (uint8_t)first;
        engines[m]->ensemble = x;
    }
}

static bool contains(struct engine *const *engines, size_t count, const struct engine *e) {
    for (size_t m = 0; m < count; m++)
        if (engines[m] == e)
            return true;
    return false;
}

/* Engines that were played together before are likely to be played together again. */
static size_t gather(struct engine **engines, const struct engine_part *parts, size_t count) {
    for (size_t k = 0; k < count; k++)
        engines[k] = parts[k].engine;
    size_t all = count;
    for (size_t k = 0; k < count; k++) {
        const struct ensemble *before = parts[k].engine->ensemble;
        for (size_t m = 0; before && m < before->count && all < TOGETHER_MAX; m++)
            if (!contains(engines, all, before->engines[m]))
                engines[all++] = before->engines[m];
    }
    return all;
}

struct ensemble *ensemble_of(const struct engine_part *parts, size_t count) {
    struct ensemble *x = parts[0].engine->ensemble;
    bool whole = x != NULL;
    for (size_t k = 1; k < count; k++)
        whole = whole && parts[k].engine->ensemble == x;
    if (whole)
        return x;
    struct engine *engines[TOGETHER_MAX];
    size_t all = gather(engines, parts, count);
    if (!(x = open_empty(all))) /* they stay in their ensembles, with their graphs */
        return NULL;
    for (size_t k = 0; k < count; k++)
        ensemble_dissolve(parts[k].engine->ensemble);
    fill(x, engines);
    return x;
}
