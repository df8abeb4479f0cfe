#include "activity.cuh"

/* ---- Norms of matrices ---- */

enum { NORM_PIECES = 64 }; /* blocks of a layer, at most */

static __device__ __forceinline__ double squares_of(const float *weights, size_t count) {
    double sum = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum += (double)weights[i] * (double)weights[i];
    return sum;
}

/* Padding is zero. The last block adds up the pieces, in order. Blocks: (pieces, layers). Bound by
   the bytes of the matrices. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    norms(const __grid_constant__ struct network n) {
    const struct network_layer &l = n.layers[blockIdx.y];
    double *sums = changes_of(n), sum = 0;
    sum = squares_of(parameters_of(n) + l.weight_ih, (size_t)l.rows * l.ld_ih);
    if (l.recurrent)
        sum += squares_of(parameters_of(n) + l.weight_hh, (size_t)l.rows * l.ld_hh);
    sum = block_sum(sum, (double *)shared_memory);
    if (threadIdx.x == 0)
        sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
    if (!block_is_last(&state_of(n)->ticket))
        return;
    sum = 0;
    for (uint32_t p = 0; p < gridDim.x && threadIdx.x < n.layer_count; p++)
        sum += sums[threadIdx.x * gridDim.x + p];
    __syncthreads();
    if (threadIdx.x < n.layer_count)
        sums[threadIdx.x] = sqrt(sum);
}

cudaError_t launch_norms(const struct network *n, uint32_t tiles, unsigned threads,
                         cudaStream_t stream) {
    uint32_t pieces = 2 * tiles / n->layer_count;
    struct launch l = {
        dim3(pieces < NORM_PIECES ? pieces : NORM_PIECES, n->layer_count, n->members), threads,
        SCRATCH * sizeof(float), stream};
    return launch_kernel(norms, &l, *n);
}

/* ---- Growth and plasticity ---- */

/* One block per layer. Rare. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    begin_activity(const __grid_constant__ struct network n) {
    if (*activity_of(n) > 0)
        return;
    if (threadIdx.x == 0)
        activity_head(n, blockIdx.x)[ACTIVITY_START] = activity_start(weights_norm(n, blockIdx.x));
}

cudaError_t launch_activity_begin(const struct network *n, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(n->layer_count, 1, n->members), threads, SCRATCH * sizeof(float),
                       stream};
    return launch_kernel(begin_activity, &l, *n);
}

/* One block. Bound by its launch. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    probe(const __grid_constant__ struct network n, uint32_t length) {
    struct update_result *result = queue_of(n)->updates + current_of(n)->update, grown = {};
    double loss = 0;
    if (!state_of(n)->applied)
        return;
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        loss += losses_of(n)[t];
    loss = block_sum(loss, (double *)shared_memory);
    if (threadIdx.x > 0)
        return;
    for (uint32_t k = 0; k < n.layer_count; k++)
        activity_add_growth(&grown, k,
                            activity_weights(activity_head(n, k), weights_norm(n, k)).growth);
    result->plasticity = activity_removed(state_of(n)->loss, loss);
    result->growth = grown.growth;
    result->layer = grown.layer;
}

cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream) {
    struct launch l = {dim3(1, 1, n->members), threads, SCRATCH * sizeof(float), stream};
    return launch_kernel(probe, &l, *n, length);
}
