/* SOLVE: one step of the recursive least squares of the output (`readout: rls`), in double.
   forecast/least_squares.h has the equations and the layout of the block, which is the same in both
   engines. With phi = (h, x of the skip path, 1) of the newest step, all in double:

     P = (P - t t^T) grow      the previous step's term, subtracted only now
     r = P phi;  q = phi . r;  share = 1 / (keep + q)
     W_k += share e_k r        e_k = y_k - W_k . phi, within +-ENGINE_SOLUTION_MOST
     t = r sqrt(share);  grow = 1 / keep

   The output's weights are W, rounded. Every weight needs all of r, so there is a barrier between
   r, with a row of P by a warp (bound by P's bytes), and W, with an output by a block, which also
   computes q and P's trace (bound by latency). No sum depends on the device, and products use fma
   explicitly: P stays exactly symmetric, since t_i t_j is exact inside of fma. */
#ifndef RUNNEL_CUDA_SOLVE_CUH
#define RUNNEL_CUDA_SOLVE_CUH

#include <math.h>

#include "network.cuh"

enum { PAIR = 2 };

/* ---- r ---- */

/* Number i of phi. */
DEVICE double phi_of(const struct solving &s, float kept, uint32_t i) {
    return i + 1 < s.inputs ? (double)kept : i + 1 == s.inputs ? 1.0 : 0.0;
}

/* A row of P by a warp. */
DEVICE void take_row(const struct solving &s, const float *kept, uint32_t row) {
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

/* The slot's data of the step at a position of the ring. */
DEVICE const float *kept_of(const struct network &n, uint32_t position) {
    return slot_of(n) + n.slot.solved + (size_t)place_of(n, position) * n.slot.solved_row;
}

PHASE void take_covariance(uint32_t position) {
    const struct network &n = block_network();
    const float *kept = kept_of(n, position);
    const struct solving &s = n.solved;
    uint32_t each = blockDim.x / LANES;
    for (uint32_t row = n.team.rank * each + warp_index(); row < s.inputs;
         row += n.team.size * each)
        take_row(s, kept, row);
}

/* ---- W and t ---- */

/* Initial P; item k of (outputs + 1) has a share of its rows. */
static __device__ void begin_covariance(const struct solving &s, uint32_t k) {
    for (uint32_t row = k; row < s.inputs; row += s.outputs + 1)
        for (uint32_t i = threadIdx.x; i < s.stride; i += blockDim.x)
            s.p[(size_t)row * s.stride + i] = i == row ? 1 / s.prior : 0;
    if (k < s.outputs)
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
DEVICE float *weight_at(const struct network &n, uint32_t inputs, uint32_t k, uint32_t i) {
    uint32_t size = n.layers[n.layer_count - 1].size;
    if (i + 1 == inputs)
        return n.parameters + n.output_bias + k;
    return n.parameters + n.output_weight + (size_t)k * n.ld_output +
           (i < size ? i : n.skip_from + i - size);
}

/* y minus its prediction by the current weights; NaN if not observed. */
DEVICE double error_of(float y, double predicted) {
    double d = (double)y - predicted;
    return d > ENGINE_SOLUTION_MOST    ? ENGINE_SOLUTION_MOST
           : d < -ENGINE_SOLUTION_MOST ? -ENGINE_SOLUTION_MOST
                                       : d;
}

/* An output's weights, or t after the last one. */
DEVICE void take_output(const struct network &n, const struct solving &s, const float *kept,
                        const union value *y, uint32_t k) {
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
        begin_covariance(s, k);
        return;
    }
    double keep = sums[1] > LEAST_SQUARES_TRACE_MOST * (double)s.inputs ? 1 : s.keep;
    double share = 1 / (keep + q);
    if (k == s.outputs) {
        keep_taken(s, share, keep);
        return;
    }
    double error = error_of(y[k].real, sums[2]);
    if (isnan(error))
        return;
    for (uint32_t i = threadIdx.x; i < s.inputs; i += blockDim.x) {
        weights[i] = fma(error * share, s.product[i], weights[i]);
        *weight_at(n, s.inputs, k, i) = (float)weights[i];
    }
}

PHASE void take_weights(uint32_t position, uint32_t target) {
    const struct network &n = block_network();
    const float *kept = kept_of(n, position);
    const union value *y = n.queue->targets + (size_t)target * n.target_size;
    const struct solving &s = n.solved;
    for (uint32_t k = n.team.rank; k <= s.outputs; k += n.team.size)
        take_output(n, s, kept, y, k);
}

/* With the target of that row, and the data of the step at a position of the ring. */
DEVICE void solve(uint32_t row, uint32_t position) {
    take_covariance(position);
    team_sync();
    take_weights(position, row);
    team_sync();
}

#endif
