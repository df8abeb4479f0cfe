#include "forward.cuh"

#include "cells.cuh"

enum {
    ROWS_AT_ONCE = 4,  /* rows of a product whose loads are in flight together */
    STEPS_AT_ONCE = 8, /* whose inputs are multiplied with a weight that is loaded once */
};

/* Bytes of W_ih from which a separate launch pays, which reads them once for several steps. */
static const size_t PROJECT_BYTES = 1 << 20;

/* Numbers of an x from which it is read in place, not copied into shared memory. */
enum { WIDE_INPUT = 8192 };

/* ---- A wave ---- */

/* Some rows of a product: out[row] = bias[row] + W[row] x, and the column of the skip path's
   weights that a one-hot symbol selects. x (ld,) is always in shared memory, behind the scratch,
   so that the compiler uses instructions for shared memory. */
struct product {
    const float *weight, *bias; /* (rows, ld), (rows,) or NULL */
    const float *chosen;        /* (rows, ld_chosen), of which the first column is used, or NULL */
    uint32_t ld, ld_chosen;
    float *out; /* (rows,) */
};

/* COUNT rows at once, from row `first` on, `step` apart; a warp's work. Rows at or beyond `end`
   are computed with the last row's weights, and not stored. Bound by the bytes of the weights. */
template <int COUNT>
static __device__ __forceinline__ void multiply_rows(const struct product &p, uint32_t first,
                                                     uint32_t step, uint32_t end) {
    const float4 *rows[COUNT];
    float4 sums[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        uint32_t row = first + k * step < end ? first + k * step : end - 1;
        rows[k] = (const float4 *)(p.weight + (size_t)row * p.ld);
        sums[k] = make_float4(0, 0, 0, 0);
    }
    const float4 *x = (const float4 *)(shared_memory + SCRATCH);
#pragma unroll 2
    for (uint32_t i = lane_index(); i < p.ld / QUAD; i += LANES) {
        float4 b = x[i];
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            add_products(&sums[k], rows[k][i], b);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        float sum = warp_sum(quad_sum(sums[k]));
        uint32_t row = first + k * step;
        if (lane_index() == 0 && row < end) {
            float out = p.bias ? sum + p.bias[row] : sum;
            p.out[row] = p.chosen ? out + p.chosen[(size_t)row * p.ld_chosen] : out;
        }
    }
}

static __device__ __forceinline__ void multiply(const struct product &p, uint32_t rows,
                                                uint32_t block, uint32_t blocks) {
    uint32_t each = (rows + blocks - 1) / blocks, warps = blockDim.x / LANES;
    uint32_t first = block * each, end = first + each < rows ? first + each : rows;
    uint32_t row = first + warp_index();
    for (; row < end && end - row > warps; row += ROWS_AT_ONCE * warps)
        multiply_rows<ROWS_AT_ONCE>(p, row, warps, end);
    if (row < end)
        multiply_rows<1>(p, row, warps, end);
}

/* W_ih x + b_ih with a one-hot x: a column. */
static __device__ __forceinline__ void copy_column(const struct product &p, uint32_t rows,
                                                   uint32_t column, uint32_t block,
                                                   uint32_t blocks) {
    for (uint32_t row = block * blockDim.x + threadIdx.x; row < rows; row += blocks * blockDim.x)
        p.out[row] = p.weight[(size_t)row * p.ld + column] + p.bias[row];
}

/* The steps of a wave. */
struct walk {
    float *slot;
    const float *state; /* (S,) before the first step */
    uint32_t first;     /* position of the first step */
    uint32_t outputs_from;
};

static __device__ __forceinline__ struct walk walk_of(const struct network &n, enum steps_of of) {
    const struct segment *s = current_of(n);
    struct walk w;
    w.slot = slot_of(n, s);
    w.first = of == STEPS_OF_RUN ? s->position : s->window;
    w.outputs_from = of == STEPS_OF_RUN ? 0 : s->length - s->closed;
    w.state = w.slot + n.slot.before + (size_t)w.first * n.slot.state;
    return w;
}

/* The x of layer 0 at step t; unused for a one-hot symbol. */
static __device__ __forceinline__ const float *input_of(const struct network &n,
                                                        const struct walk &w, uint32_t t) {
    return input_at(n, w.slot, ring_position(n, w.first, t));
}

static __device__ __forceinline__ uint32_t symbol_of(const struct network &n, const struct walk &w,
                                                     uint32_t t) {
    const float *x = w.slot + n.slot.input + ring_position(n, w.first, t);
    return ((const union value *)x)->id;
}

/* One row of W_ih of layer 0 times COUNT inputs from step `first` on; a warp's work. Each sum
   has the order of multiply_rows: bits must not depend on the grouping of steps. Inputs are read
   through the multiprocessor's cache, which is as fast as shared memory, without using it. */
template <uint32_t COUNT>
static __device__ __forceinline__ void project_row(const struct network &n, const struct walk &w,
                                                   uint32_t row, uint32_t first, uint32_t steps) {
    const struct network_layer &l = n.layers[0];
    const float4 *weight = (const float4 *)(parameters_of(n) + l.weight_ih + (size_t)row * l.ld_ih);
    const float4 *x[COUNT];
    float4 sums[COUNT];
#pragma unroll
    for (uint32_t k = 0; k < COUNT; k++) {
        x[k] = (const float4 *)input_of(n, w, first + k < steps ? first + k : steps - 1);
        sums[k] = make_float4(0, 0, 0, 0);
    }
    for (uint32_t i = lane_index(); i < l.ld_ih / QUAD; i += LANES) {
        float4 a = weight[i];
#pragma unroll
        for (uint32_t k = 0; k < COUNT; k++)
            add_products(&sums[k], a, x[k][i]);
    }
    float bias = parameters_of(n)[l.bias_ih + row];
#pragma unroll
    for (uint32_t k = 0; k < COUNT; k++) {
        float sum = warp_sum(quad_sum(sums[k]));
        if (lane_index() == 0 && first + k < steps)
            activations_of(
                n)[l.sum_ih + (size_t)ring_position(n, w.first, first + k) * l.rows + row] =
                sum + bias;
    }
}

/* Layer 0's sum of its inputs for all steps of a run. Bound by the bytes of W_ih. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX)
    project(const __grid_constant__ struct network n, uint32_t steps, enum steps_of of) {
    struct walk w = walk_of(n, of);
    uint32_t warps = gridDim.x * (blockDim.x / LANES);
    for (uint32_t row = blockIdx.x * (blockDim.x / LANES) + warp_index(); row < n.layers[0].rows;
         row += warps)
        if (steps < STEPS_AT_ONCE)
            for (uint32_t t = 0; t < steps; t++)
                project_row<1>(n, w, row, t, steps);
        else
            for (uint32_t first = 0; first < steps; first += STEPS_AT_ONCE)
                project_row<STEPS_AT_ONCE>(n, w, row, first, steps);
}

/* Whether a run's inputs are projected before its waves. */
static bool is_projected(const struct network *n, uint32_t steps) {
    const struct network_layer *l = &n->layers[0];
    bool pays =
        steps >= STEPS_AT_ONCE && (size_t)l->rows * l->ld_ih * sizeof(float) >= PROJECT_BYTES;
    return !is_one_hot(*n) && (pays || l->ld_ih > WIDE_INPUT);
}

/* The work of a block of a wave: compute x, and multiply some rows with it. Bits must not depend
   on the position of a step in its run, so every x is computed by the only call of `activate` in
   the kernel, and every row by the only call of `multiply`. */
struct task {
    struct product product;
    uint32_t rows, block, blocks;
    uint32_t layer, t;  /* the layer whose h is x, without `given` */
    const float *given; /* (given_count,), padded with zeros: an input, or the state before a run */
    uint32_t given_count;
    uint32_t skip_from; /* offset in x of layer 0's x for the skip path; 0: none */
    bool keep;          /* store the data of that h for backward */
    bool wanted;        /* compute the product */
};

/* Layer k's sum of its inputs at step t. */
static __device__ __forceinline__ struct task
task_inputs(const struct network &n, const struct walk &w, uint32_t k, uint32_t t, uint32_t block) {
    const struct network_layer &l = n.layers[k];
    struct task task = {};
    task.product.weight = parameters_of(n) + l.weight_ih;
    task.product.bias = parameters_of(n) + l.bias_ih;
    task.product.ld = l.ld_ih;
    task.product.out = activations_of(n) + l.sum_ih + (size_t)ring_position(n, w.first, t) * l.rows;
    task.rows = l.rows;
    task.block = block;
    task.blocks = l.blocks_ih;
    task.wanted = true;
    task.keep = block == 0;
    task.layer = k ? k - 1 : 0;
    task.t = t;
    if (k == 0) {
        task.given = input_of(n, w, t);
        task.given_count = l.ld_ih;
    }
    return task;
}

/* Layer k's recurrent sum at step t. */
static __device__ __forceinline__ struct task task_recurrent(const struct network &n,
                                                             const struct walk &w, uint32_t k,
                                                             uint32_t t, uint32_t block) {
    const struct network_layer &l = n.layers[k];
    struct task task = {};
    task.product.weight = parameters_of(n) + l.weight_hh;
    task.product.bias = l.source == SOURCE_NOTHING ? parameters_of(n) + l.bias_hh : NULL;
    task.product.ld = l.ld_hh;
    task.product.out = activations_of(n) + l.sum_hh + (size_t)ring_position(n, w.first, t) * l.rows;
    task.rows = l.rows;
    task.block = block;
    task.blocks = l.blocks_hh;
    task.wanted = true;
    task.layer = k;
    task.t = t - 1;
    task.given = t ? NULL : w.state + l.state;
    task.given_count = l.size;
    return task;
}

/* The output at step t. If none is requested, one block still stores the data for backward. */
static __device__ __forceinline__ struct task
task_output(const struct network &n, const struct walk &w, uint32_t t, uint32_t block) {
    struct task task = {};
    task.product.weight = parameters_of(n) + n.output_weight;
    task.product.bias = parameters_of(n) + n.output_bias;
    task.product.ld = n.ld_output;
    task.product.out =
        activations_of(n) + n.output + (size_t)ring_position(n, w.first, t) * n.outputs;
    task.skip_from = n.skip_from;
    if (n.ld_skip && !n.skip_from) {
        task.product.chosen = parameters_of(n) + n.output_skip + symbol_of(n, w, t);
        task.product.ld_chosen = n.ld_skip;
    }
    task.rows = n.outputs;
    task.block = block;
    task.blocks = n.blocks_output;
    task.wanted = t >= w.outputs_from;
    task.keep = block == 0;
    task.layer = n.layer_count - 1;
    task.t = t;
    return task;
}

/* The skip path's part of x in shared memory. */
static __device__ __forceinline__ void join_input(const struct network &n, const struct walk &w,
                                                  const struct task &task, float *x) {
    if (!task.skip_from)
        return;
    const float *input = input_of(n, w, task.t);
    for (uint32_t i = task.skip_from + threadIdx.x; i < task.product.ld; i += blockDim.x)
        x[i] = input[i - task.skip_from];
    __syncthreads();
}

/* x in shared memory (product.ld,): the h of a layer, or `given`. */
template <bool COLUMNS>
static __device__ __forceinline__ void make_vector(const struct network &n, const struct walk &w,
                                                   const struct task &task) {
    float *x = shared_memory + SCRATCH;
    const struct network_layer &l = n.layers[task.layer];
    if (!task.given) {
        activate<COLUMNS>(n, l, w.first, task.t, w.state + l.state, task.keep, x, task.product.ld,
                          shared_memory);
        join_input(n, w, task, x);
        return;
    }
    for (uint32_t i = threadIdx.x; i < task.product.ld; i += blockDim.x)
        x[i] = i < task.given_count ? task.given[i] : 0.0f;
    __syncthreads();
}

template <bool COLUMNS>
static __device__ __forceinline__ void perform(const struct network &n, const struct walk &w,
                                               struct task &task) {
    if (!task.wanted && !task.keep)
        return;
    make_vector<COLUMNS>(n, w, task);
    if (task.wanted)
        multiply(task.product, task.rows, task.block, task.blocks);
}

/* Layer 0's sum with a one-hot symbol as x. */
static __device__ __forceinline__ void choose_column(const struct network &n, const struct walk &w,
                                                     struct task &task, uint32_t t) {
    copy_column(task.product, task.rows, symbol_of(n, w, t), task.block, task.blocks);
}

/* COLUMNS: of a network with columns. Others do not pay for their registers. */
template <bool COLUMNS>
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX)
    wave(const __grid_constant__ struct network n, uint32_t number, uint32_t steps,
         enum steps_of of, bool projected) {
    uint32_t block = blockIdx.x, k = 0;
    while (k < n.layer_count && block >= n.layers[k].first_hh + n.layers[k].blocks_hh)
        k++;
    uint32_t t = number - k;
    if (t >= steps) /* true also before its first step, since t is unsigned */
        return;
    struct walk w = walk_of(n, of);
    struct task task;
    if (k == n.layer_count) {
        task = task_output(n, w, t, block - n.first_output);
    } else if (block >= n.layers[k].first_hh) {
        task = task_recurrent(n, w, k, t, block - n.layers[k].first_hh);
    } else {
        if (k == 0 && projected)
            return;
        task = task_inputs(n, w, k, t, block - n.layers[k].first_ih);
        if (k == 0 && is_one_hot(n)) {
            choose_column(n, w, task, t);
            return;
        }
    }
    perform<COLUMNS>(n, w, task);
}

/* Outputs of the learned steps from their stored h, since the output was solved again. Bits are
   those of a wave. Blocks: (steps, some). */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX)
    solved_outputs(const __grid_constant__ struct network n) {
    const struct network_layer &top = n.layers[n.layer_count - 1];
    struct walk w = walk_of(n, STEPS_OF_WINDOW);
    struct task task = task_output(n, w, blockIdx.x, blockIdx.y);
    if (!task.wanted)
        return;
    const float *h = layer_at(n, top, ring_position(n, w.first, task.t)).hidden;
    float *x = shared_memory + SCRATCH;
    for (uint32_t i = threadIdx.x; i < n.ld_output; i += blockDim.x)
        x[i] = i < top.size ? h[i] : 0.0f;
    __syncthreads();
    join_input(n, w, task, x);
    multiply(task.product, task.rows, task.block, task.blocks);
}

/* A vector (ld,), twice if its layer finishes. */
static size_t vector_floats(uint32_t ld, const struct network_layer *maker) {
    return (size_t)ld * (1 + maker->finishes);
}

static size_t wave_shared(const struct network *n) {
    size_t most = vector_floats(n->ld_output, &n->layers[n->layer_count - 1]);
    for (uint32_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        size_t h = l->recurrent ? vector_floats(l->ld_hh, l) : 0;
        size_t x = k                                           ? vector_floats(l->ld_ih, l - 1)
                   : l->ld_ih <= WIDE_INPUT && !is_one_hot(*n) ? l->ld_ih
                                                               : 0;
        most = h > most ? h : most;
        most = x > most ? x : most;
    }
    return (SCRATCH + most) * sizeof(float);
}

static size_t outputs_shared(const struct network *n) {
    return (SCRATCH + (size_t)n->ld_output) * sizeof(float);
}

size_t forward_shared(const struct network *n) {
    /* its vectors of the output are at least as long as those of outputs_shared */
    return wave_shared(n);
}

cudaError_t launch_forward(const struct network *n, enum steps_of of, uint32_t steps,
                           unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(n->blocks_forward, 1, n->members), threads, wave_shared(n), stream};
    bool projected = is_projected(n, steps);
    cudaError_t status = cudaSuccess;
    if (projected) {
        struct launch all = {dim3(n->blocks_forward, 1, n->members), threads, 0, stream};
        status = launch_kernel(project, &all, *n, steps, of);
    }
    for (uint32_t w = 0; w < steps + n->layer_count && !status; w++)
        status = n->columns ? launch_kernel(wave<true>, &l, *n, w, steps, of, projected)
                            : launch_kernel(wave<false>, &l, *n, w, steps, of, projected);
    return status;
}

cudaError_t launch_outputs(const struct network *n, uint32_t length, unsigned threads,
                           cudaStream_t stream) {
    struct launch l = {dim3(length, n->blocks_output, n->members), threads, outputs_shared(n),
                       stream};
    return launch_kernel(solved_outputs, &l, *n);
}
