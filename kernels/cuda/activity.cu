#include "activity.cuh"

/* One block per layer. Rare. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    begin_activity(const __grid_constant__ struct network n) {
    if (*activity_of(n) > 0)
        return;
    double norm = weights_norm(n, n.layers[blockIdx.x]);
    if (threadIdx.x == 0)
        activity_head(n, blockIdx.x)[ACTIVITY_START] = norm;
}

cudaError_t launch_activity_begin(const struct network *n, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(n->layer_count, 1, n->members), threads, SCRATCH * sizeof(float),
                       stream};
    return launch_kernel(begin_activity, &l, *n);
}

/* One block. Bound by the bytes of the matrices, of one in many updates. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    probe(const __grid_constant__ struct network n, uint32_t length) {
    struct update_result *result = queue_of(n)->updates + current_of(n)->update, grown = {};
    double loss = 0;
    if (!state_of(n)->applied)
        return;
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        loss += losses_of(n)[t];
    loss = block_sum(loss, (double *)shared_memory);
    for (uint32_t k = 0; k < n.layer_count; k++) {
        double norm = weights_norm(n, n.layers[k]);
        activity_add_growth(&grown, k, activity_weights(activity_head(n, k), norm).growth);
    }
    if (threadIdx.x > 0)
        return;
    result->plasticity = activity_removed(state_of(n)->loss, loss);
    result->growth = grown.growth;
    result->layer = grown.layer;
}

cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream) {
    struct launch l = {dim3(1, 1, n->members), threads, SCRATCH * sizeof(float), stream};
    return launch_kernel(probe, &l, *n, length);
}
