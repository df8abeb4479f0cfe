/* The output of a window's steps: its losses, and backward through its layer. */
#include "backward.cuh"
#include "cells.cuh"
#include "loss.cuh"
#include "transposed.cuh"

/* One block per step, and one for the optimizer's powers, which would delay all blocks later.
   Gradients are divided by the number of targets, since the loss is their mean. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    window_loss(const __grid_constant__ struct network n) {
    const struct segment *s = current_of(n);
    if (blockIdx.x == s->length) {
        const struct queue *q = queue_of(n);
        struct update_state *state = state_of(n);
        if (threadIdx.x == 0)
            state->numbers = optimizer_prepare(&q->optimizer, q->rate, state->updates + 1);
        return;
    }
    uint32_t t = blockIdx.x, position = ring_position(n, s->window, t);
    const float *slot = slot_of(n, s);
    float *d = activations_of(n) + n.d_output + (size_t)t * padded(n.outputs);
    double loss = 0;
    for (uint32_t h = 0; h < n.horizons; h++, d += n.scored) {
        size_t target = (size_t)position * n.horizons + h;
        if (t + s->closed >= s->length && slot[n.slot.learned + target] > 0) {
            struct loss_step step;
            step.a = activations_of(n) + n.output + (size_t)position * n.outputs + h * n.scored;
            step.y = (const union value *)(slot + n.slot.target) + target * n.slot.target_size;
            step.scale = (double)(1.0f / (float)s->terms);
            step.d = d;
            loss += block_loss(n, step) / (double)s->terms;
        } else {
            for (uint32_t k = threadIdx.x; k < n.scored; k += blockDim.x)
                d[k] = 0;
        }
    }
    if (threadIdx.x == 0)
        losses_of(n)[t] = loss;
}

/* Gradient of the topmost h of each step, and of an embedded input that the skip path reads;
   also stores the inputs of the output. Blocks: (steps, pieces). */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    output_backward(const __grid_constant__ struct network n) {
    const struct segment *s = current_of(n);
    uint32_t t = blockIdx.x, ld = n.ld_output;
    struct piece p = piece_of(n.split_output, n.outputs, blockIdx.y);
    float *d = shared_memory + SCRATCH, *sums = d + padded(n.split_output.chunk_rows);
    const float *d_output = activations_of(n) + n.d_output + (size_t)t * padded(n.outputs);
    for (uint32_t k = p.first + threadIdx.x; k < p.end; k += blockDim.x)
        d[k - p.first] = d_output[k];
    __syncthreads();
    size_t row = (size_t)t * n.split_output.chunks + p.chunk;
    multiply_transposed(parameters_of(n) + n.output_weight, ld, gradient_columns(n), p.first, p.end,
                        d, p.group, sums, activations_of(n) + n.split_output.partial + row * ld);
    if (blockIdx.y > 0)
        return;
    const struct network_layer &top = n.layers[n.layer_count - 1];
    uint32_t position = ring_position(n, s->window, t), end = n.skip_from ? n.skip_from : ld;
    const float *h = layer_at(n, top, position).hidden;
    const float *x = input_at(n, slot_of(n, s), position);
    float *kept = activations_of(n) + n.top + (size_t)t * ld;
    for (uint32_t i = threadIdx.x; i < ld; i += blockDim.x)
        kept[i] = i >= end ? x[i - end] : i < top.size ? h[i] : 0.0f;
}

/* ---- Launchers ---- */

size_t output_shared(const struct network *n, unsigned threads) {
    return (SCRATCH + padded(n->split_output.chunk_rows) + transposed_sums(threads)) *
           sizeof(float);
}

cudaError_t launch_loss(const struct network *n, uint32_t length, unsigned threads,
                        cudaStream_t stream) {
    struct launch l = {dim3(length + 1, 1, n->members), threads, SCRATCH * sizeof(float), stream};
    return launch_kernel(window_loss, &l, *n);
}

cudaError_t launch_output_backward(const struct network *n, uint32_t length, unsigned threads,
                                   cudaStream_t stream) {
    const struct split *out = &n->split_output;
    struct launch l = {dim3(length, out->chunks * out->groups, n->members), threads,
                       output_shared(n, threads), stream};
    return launch_kernel(output_backward, &l, *n);
}
