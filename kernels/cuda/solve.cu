/* With phi = (h, x of the skip path, 1) of the newest step, all in double:

     P = (P - t t^T) grow      the previous step's term, subtracted only now
     r = P phi;  q = phi . r;  share = 1 / (keep + q)
     W_k += share e_k r        e_k = y_k - W_k . phi, within +-ENGINE_SOLUTION_MOST
     t = r sqrt(share);  grow = 1 / keep

   The output's weights are W, rounded. Every weight needs all of r, so two kernels run one after
   the other in the segment's graph, like the waves of a run:

   - `take_covariance`: each warp has a row of P, which it reads and writes once, in whole lines;
     the row's product with phi is its number of r (P is symmetric). All rows run at once:
     (inputs)^2 doubles over all multiprocessors. Bound by P's bytes, or by latency for a small
     readout: with 68 inputs (GRU 64, one column) P is 39 KB, and stays in L2.
   - `take_weights`: each block has an output. It computes q, P's trace and its own e, of (inputs,)
     numbers each, which is cheaper than a third kernel. One further block stores t for the next
     step. Bound by latency, and by the bytes of W with many outputs.

   Nothing depends on the device: a row's sum is one warp's, a block's has BLOCK_THREADS, and
   sums of products use fma explicitly. So all GPUs and the tests' runtime have the same bits. P
   stays exactly symmetric, since t_i t_j is exact inside of fma. */
#include "solve.cuh"

#include <math.h>

enum {
    ROW_THREADS = 128, /* four rows */
    BLOCK_THREADS = 256,
    PAIR = 2,
};

/* Offsets of each part in the block, which begins with P, for the kernels' arguments. */
struct solved {
    size_t weights, t, product, diagonal;
    uint32_t inputs, outputs, stride;
    double keep, prior;
};

/* The same for one member. */
struct solving {
    double *p;                  /* (inputs, stride) */
    double *weights;            /* (outputs, stride) */
    double *t;                  /* (stride,), followed by grow */
    double *product, *diagonal; /* (stride,) r, and P's diagonal */
    uint32_t inputs, outputs, stride;
    double keep, prior;
};

static __device__ __forceinline__ struct solving solving_of(const struct network &n,
                                                            const struct solved &of) {
    struct solving s;
    s.p = block_of<double>(n, n.at.solution);
    s.weights = s.p + of.weights;
    s.t = s.p + of.t;
    s.product = s.p + of.product;
    s.diagonal = s.p + of.diagonal;
    s.inputs = of.inputs;
    s.outputs = of.outputs;
    s.stride = of.stride;
    s.keep = of.keep;
    s.prior = of.prior;
    return s;
}

/* ---- r ---- */

/* The slot's data of the step. */
static __device__ __forceinline__ const float *kept_of(const struct network &n, enum solve_of of) {
    uint32_t position = of == SOLVE_BEFORE_RUN ? current_of(n)->lead_solved : current_of(n)->solved;
    return slot_of(n, current_of(n)) + n.slot.solved +
           (size_t)place_of(n, position) * n.slot.solved_row;
}

/* Number i of phi. */
static __device__ __forceinline__ double phi_of(const struct solving &s, float kept, uint32_t i) {
    return i + 1 < s.inputs ? (double)kept : i + 1 == s.inputs ? 1.0 : 0.0;
}

static __global__ void __launch_bounds__(ROW_THREADS)
    take_covariance(const __grid_constant__ struct network n,
                    const __grid_constant__ struct solved solved, enum solve_of of) {
    const struct solving s = solving_of(n, solved);
    uint32_t row = blockIdx.x * (ROW_THREADS / LANES) + warp_index();
    if (row >= s.inputs)
        return;
    const float *kept = kept_of(n, of);
    double *p = s.p + (size_t)row * s.stride, of_row = -s.t[row], grow = s.t[s.stride];
    double2 sum = make_double2(0, 0);
#pragma unroll 2
    for (uint32_t i = PAIR * lane_index(); i < s.stride; i += PAIR * LANES) {
        double2 a = *(const double2 *)(p + i), t = *(const double2 *)(s.t + i);
        float2 x = *(const float2 *)(kept + i);
        a.x = fma(of_row, t.x, a.x) * grow;
        a.y = fma(of_row, t.y, a.y) * grow;
        *(double2 *)(p + i) = a;
        sum.x = fma(a.x, phi_of(s, x.x, i), sum.x);
        sum.y = fma(a.y, phi_of(s, x.y, i + 1), sum.y);
        if (i == row)
            s.diagonal[row] = a.x;
        if (i + 1 == row)
            s.diagonal[row] = a.y;
    }
    double r = warp_sum(sum.x + sum.y);
    if (lane_index() == 0)
        s.product[row] = r;
}

/* ---- W and t ---- */

/* Initial P; blocks share its rows. */
static __device__ void begin_covariance(const struct solving &s) {
    for (uint32_t row = blockIdx.x; row < s.inputs; row += gridDim.x)
        for (uint32_t i = threadIdx.x; i < s.stride; i += blockDim.x)
            s.p[(size_t)row * s.stride + i] = i == row ? 1 / s.prior : 0;
    if (blockIdx.x < s.outputs)
        return;
    for (uint32_t i = threadIdx.x; i < s.stride; i += blockDim.x)
        s.t[i] = 0;
    if (threadIdx.x == 0)
        s.t[s.stride] = 1;
}

static __device__ void keep_taken(const struct solving &s, double share, double keep) {
    double root = sqrt(share);
    for (uint32_t i = threadIdx.x; i < s.inputs; i += blockDim.x)
        s.t[i] = s.product[i] * root;
    if (threadIdx.x == 0)
        s.t[s.stride] = 1 / keep;
}

/* Weight i of output k in the output layer's product. */
static __device__ __forceinline__ float *weight_at(const struct network &n, uint32_t inputs,
                                                   uint32_t k, uint32_t i) {
    uint32_t size = n.layers[n.layer_count - 1].size;
    if (i + 1 == inputs)
        return parameters_of(n) + n.output_bias + k;
    return parameters_of(n) + n.output_weight + (size_t)k * n.ld_output +
           (i < size ? i : n.skip_from + i - size);
}

/* y minus its prediction by the current weights; NaN if not observed. */
static __device__ __forceinline__ double error_of(const struct network &n, enum solve_of of,
                                                  uint32_t k, double predicted) {
    uint32_t row = of == SOLVE_BEFORE_RUN ? current_of(n)->lead_solve : current_of(n)->solve;
    double d = (double)queue_of(n)->targets[(size_t)row * n.target_size + k].real - predicted;
    return d > ENGINE_SOLUTION_MOST    ? ENGINE_SOLUTION_MOST
           : d < -ENGINE_SOLUTION_MOST ? -ENGINE_SOLUTION_MOST
                                       : d;
}

/* Blocks: one per output, and one for t. */
static __global__ void __launch_bounds__(BLOCK_THREADS)
    take_weights(const __grid_constant__ struct network n,
                 const __grid_constant__ struct solved solved, enum solve_of of) {
    const struct solving s = solving_of(n, solved);
    uint32_t k = blockIdx.x;
    const float *kept = kept_of(n, of);
    double *weights = s.weights + (size_t)k * s.stride; /* of an output */
    double sums[3] = {0, 0, 0};                         /* q, trace, prediction */
    for (uint32_t i = threadIdx.x; i < s.inputs; i += blockDim.x) {
        double phi = phi_of(s, kept[i], i);
        sums[0] = fma(phi, s.product[i], sums[0]);
        sums[1] += s.diagonal[i];
        if (k < s.outputs)
            sums[2] = fma(phi, weights[i], sums[2]);
    }
    block_sums(sums, (double *)shared_memory);
    double q = sums[0];
    if (!(q >= 0 && q < LEAST_SQUARES_Q_MOST)) {
        begin_covariance(s);
        return;
    }
    double keep = sums[1] > LEAST_SQUARES_TRACE_MOST * (double)s.inputs ? 1 : s.keep;
    double share = 1 / (keep + q);
    if (k == s.outputs) {
        keep_taken(s, share, keep);
        return;
    }
    double error = error_of(n, of, k, sums[2]);
    if (isnan(error))
        return;
    for (uint32_t i = threadIdx.x; i < s.inputs; i += blockDim.x) {
        weights[i] = fma(error * share, s.product[i], weights[i]);
        *weight_at(n, s.inputs, k, i) = (float)weights[i];
    }
}

/* ---- The launcher ---- */

struct solution solution_of(const struct model *model) {
    struct solution solution = {};
    if (model->solved)
        solution.ls = engine_solution(model);
    return solution;
}

size_t solution_numbers(const struct solution *solution) {
    const struct least_squares *ls = &solution->ls;
    return ls->inputs ? least_squares_size(ls) + 2 * ls->stride : 0;
}

static struct solved solved_of(const struct solution *solution) {
    const struct least_squares *ls = &solution->ls;
    struct solved s;
    s.weights = ls->inputs * ls->stride;
    s.t = s.weights + ls->outputs * ls->stride;
    s.product = least_squares_size(ls);
    s.diagonal = s.product + ls->stride;
    s.inputs = (uint32_t)ls->inputs;
    s.outputs = (uint32_t)ls->outputs;
    s.stride = (uint32_t)ls->stride;
    s.keep = ls->keep;
    s.prior = ls->prior;
    return s;
}

cudaError_t launch_solve(const struct network *n, const struct solution *solution, enum solve_of of,
                         cudaStream_t stream) {
    const uint32_t rows = ROW_THREADS / LANES;
    struct solved s = solved_of(solution);
    struct launch l = {dim3((s.inputs + rows - 1) / rows, 1, n->members), ROW_THREADS, 0, stream};
    cudaError_t status = launch_kernel(take_covariance, &l, *n, s, of);
    if (status)
        return status;
    struct launch all = {dim3(s.outputs + 1, 1, n->members), BLOCK_THREADS, SCRATCH * sizeof(float),
                         stream};
    return launch_kernel(take_weights, &all, *n, s, of);
}
