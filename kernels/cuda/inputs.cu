#include "inputs.cuh"

#include "formulas.h"

/* ---- Forward ---- */

static __device__ __forceinline__ float sign_of(union value symbol) {
    return symbol.id & SYMBOL_MINUS ? -1.0f : 1.0f;
}

static __device__ __forceinline__ uint32_t id_of(union value symbol) {
    return symbol.id & ~SYMBOL_MINUS;
}

/* The row of input of the current segment's slot: its place in the table, then x. */
static __device__ __forceinline__ union value *row_of(const struct network &n, uint32_t position) {
    float *rows = slot_of(n, current_of(n)) + n.slot.input;
    return (union value *)(rows + (size_t)position * n.slot.input_row);
}

/* Plain numbers, one-hot, or a row of an embedding; also stores x. Blocks: (steps, parts). Bound
   by latency, and by the bytes of wide alphabets. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    encode(const __grid_constant__ struct network n, const __grid_constant__ struct encoding e,
           enum steps_of of) {
    const struct segment *s = current_of(n);
    const struct encoded_part p = e.parts[blockIdx.y];
    bool run = of == STEPS_OF_RUN;
    uint32_t t = blockIdx.x, position = ring_position(n, run ? s->position : s->window, t);
    union value *row = row_of(n, position), *kept = row + 1 + p.from;
    const union value *x = kept;
    if (run)
        x = queue_of(n)->inputs + (size_t)queue_of(n)->steps[s->first + t].input * e.features +
            p.from;
    float *encoded = parameters_of(n) + n.embedding + (size_t)position * n.ld_embedding + p.at;
    if (blockIdx.y == 0 && threadIdx.x == 0)
        row->id = position;
    for (uint32_t i = threadIdx.x; i < p.width && !p.size; i += blockDim.x)
        kept[i].real = encoded[i] = formula_bounded(x[i].real);
    if (!p.size)
        return;
    const union value symbol = *x;
    const float *weight = parameters_of(n) + p.weight + (size_t)id_of(symbol) * p.ld;
    float sign = sign_of(symbol);
    for (uint32_t i = threadIdx.x; i < p.width; i += blockDim.x)
        encoded[i] = p.ld ? sign * weight[i] : i == id_of(symbol) ? sign : 0.0f;
    if (run && threadIdx.x == 0)
        *kept = symbol;
}

cudaError_t launch_encode(const struct network *n, const struct encoding *encoding,
                          enum steps_of of, uint32_t steps, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(steps, encoding->count, n->members), threads, 0, stream};
    return encoding->count ? launch_kernel(encode, &l, *n, *encoding, of) : cudaSuccess;
}

/* ---- Backward ---- */

/* Gradient of number i of the encoded input of step t. */
static __device__ __forceinline__ float input_gradient(const struct network &n, uint32_t t,
                                                       uint32_t i) {
    float d = joined(n, n.layers[0].split_ih, n.layers[0].ld_ih, t, i);
    if (n.skip_from)
        d += joined(n, n.split_output, n.ld_output, t, n.skip_from + i);
    return d;
}

/* One block per step. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    embedding_backward(const __grid_constant__ struct network n) {
    uint32_t t = blockIdx.x;
    float *d = activations_of(n) + n.d_embedding + (size_t)t * n.ld_embedding;
    for (uint32_t i = threadIdx.x; i < n.ld_embedding; i += blockDim.x)
        d[i] = i < n.embedding_size ? input_gradient(n, t, i) : 0.0f;
}

/* A negated row has the negated gradient. Blocks: (steps, parts). */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    parts_backward(const __grid_constant__ struct network n,
                   const __grid_constant__ struct encoding e) {
    const struct encoded_part p = e.parts[blockIdx.y];
    if (!p.ld)
        return;
    uint32_t t = blockIdx.x;
    const union value symbol = row_of(n, ring_position(n, current_of(n)->window, t))[1 + p.from];
    float *d = activations_of(n) + p.d + (size_t)t * p.ld, sign = sign_of(symbol);
    if (threadIdx.x == 0)
        ((uint32_t *)(activations_of(n) + p.ids))[t] = id_of(symbol);
    for (uint32_t i = threadIdx.x; i < p.ld; i += blockDim.x)
        d[i] = i < p.width ? sign * input_gradient(n, t, p.at + i) : 0.0f;
}

cudaError_t launch_inputs_backward(const struct network *n, const struct encoding *encoding,
                                   uint32_t length, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(length, 1, n->members), threads, 0, stream};
    if (encoding->count == 0)
        return n->embedding_size ? launch_kernel(embedding_backward, &l, *n) : cudaSuccess;
    l.grid.y = encoding->count;
    return encoding->learned ? launch_kernel(parts_backward, &l, *n, *encoding) : cudaSuccess;
}
