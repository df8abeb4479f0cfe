/* The loss of one step and its slopes, for a whole block at once: elements and components are
   spread over the threads, sums are taken in double. Bound by its transcendental functions. */
#ifndef RUNNEL_CUDA_LOSS_CUH
#define RUNNEL_CUDA_LOSS_CUH

#include "losses.h"
#include "network.cuh"

/* A step's activations and target; slopes times `scale` go to d (K,), which may be NULL. */
struct loss_step {
    const float *a;       /* (K,) */
    const union value *y; /* (target_size,) */
    double scale;
    float *d;
};

static __device__ __forceinline__ double element(const struct network &n, const struct loss_step &s,
                                                 uint32_t k, double *slope, double *slope_logvar) {
    float logvar = n.loss == LOSS_GAUSSIAN ? s.a[n.target_size + k] : 0.0f;
    return loss_element((enum loss)n.loss, s.a[k], logvar, s.y[k].real, slope, slope_logvar);
}

/* squared, gaussian, bernoulli: mean over the observed numbers of the target. */
static __device__ __forceinline__ double elementwise(const struct network &n,
                                                     const struct loss_step &s, double *scratch) {
    double sums[2] = {0, 0}, slope = 0, slope_logvar = 0; /* observed, losses */
    for (uint32_t k = threadIdx.x; k < n.target_size; k += blockDim.x)
        if (loss_observed(s.y[k].real)) {
            sums[0] += 1;
            sums[1] += element(n, s, k, &slope, &slope_logvar);
        }
    block_sums(sums, scratch);
    double factor = s.scale / sums[0];
    for (uint32_t k = threadIdx.x; s.d && k < n.target_size; k += blockDim.x) {
        slope = slope_logvar = 0;
        if (loss_observed(s.y[k].real))
            element(n, s, k, &slope, &slope_logvar);
        s.d[k] = (float)(slope * factor);
        if (n.loss == LOSS_GAUSSIAN)
            s.d[n.target_size + k] = (float)(slope_logvar * factor);
    }
    return sums[1] / sums[0];
}

/* -log softmax(a)_y = log sum_k e^(a_k - m) + m - a_y with m = max a */
static __device__ __forceinline__ double softmax(const struct network &n, const struct loss_step &s,
                                                 double *scratch) {
    float most = s.a[0];
    for (uint32_t k = threadIdx.x; k < n.outputs; k += blockDim.x)
        most = s.a[k] > most || isnan(s.a[k]) ? s.a[k] : most;
    most = block_maximum(most, (float *)scratch);
    float sum = 0;
    for (uint32_t k = threadIdx.x; k < n.outputs; k += blockDim.x)
        sum += formula_exp(s.a[k] - most);
    double total = block_sum((double)sum, scratch);
    uint32_t class_id = s.y->id;
    float factor = (float)(s.scale / total);
    for (uint32_t k = threadIdx.x; s.d && k < n.outputs; k += blockDim.x)
        s.d[k] = formula_exp(s.a[k] - most) * factor - (k == class_id ? (float)s.scale : 0.0f);
    return log(total) + ((double)most - (double)s.a[class_id]);
}

static __device__ __forceinline__ struct loss_component
component(const struct network &n, const struct loss_step &s, uint32_t j) {
    return loss_mixture_component(s.a, n.components, j, s.y[LOSS_MIXTURE_Y1].real,
                                  s.y[LOSS_MIXTURE_Y2].real);
}

/* log sum_j e^value(j), in two passes. */
struct log_sum {
    double most, sum;
};

template <typename Value>
static __device__ __forceinline__ struct log_sum log_sum_exp(uint32_t count, Value value,
                                                             double *scratch) {
    double most = value(0), sum = 0;
    for (uint32_t j = threadIdx.x; j < count; j += blockDim.x) {
        double v = value(j);
        most = v > most || isnan(v) ? v : most;
    }
    most = block_maximum(most, scratch);
    for (uint32_t j = threadIdx.x; j < count; j += blockDim.x)
        sum += exp(value(j) - most);
    struct log_sum result = {most, block_sum(sum, scratch)};
    return result;
}

/* -log sum_j pi_j N_j, pi = softmax(logits): Graves (2013), eq. 26; slopes eq. 29, 33-35, with
   g_j = pi_j N_j / sum: d logit = pi_j - g_j, the others g_j times the component's. */
static __device__ __forceinline__ double
mixture_density(const struct network &n, const struct loss_step &s, double *scratch) {
    uint32_t m = n.components;
    auto logit = [&](uint32_t j) { return (double)s.a[loss_mixture_at(m, LOSS_MIXTURE_LOGIT, j)]; };
    auto joint = [&](uint32_t j) { return logit(j) + component(n, s, j).log_density; };
    struct log_sum weights = log_sum_exp(m, logit, scratch);
    struct log_sum shares = log_sum_exp(m, joint, scratch);
    for (uint32_t j = threadIdx.x; s.d && j < m; j += blockDim.x) {
        struct loss_component c = component(n, s, j);
        double weight = exp(logit(j) - weights.most) / weights.sum;
        double share = exp(logit(j) + c.log_density - shares.most) / shares.sum;
        double slopes[LOSS_MIXTURE_ROWS];
        loss_mixture_slopes(&c, weight, share, s.scale, slopes);
#pragma unroll
        for (uint32_t row = 0; row < LOSS_MIXTURE_ROWS; row++)
            s.d[loss_mixture_at(m, row, j)] = (float)slopes[row];
    }
    return weights.most + log(weights.sum) - shares.most - log(shares.sum);
}

/* The density of (y1, y2), if both are observed, and the end of stroke, if it is. */
static __device__ __forceinline__ double mixture(const struct network &n, const struct loss_step &s,
                                                 double *scratch) {
    bool point = loss_mixture_observed(s.y[LOSS_MIXTURE_Y1].real, s.y[LOSS_MIXTURE_Y2].real);
    float end = s.y[LOSS_MIXTURE_END].real;
    double loss = 0, slope = 0;
    for (uint32_t k = 1 + threadIdx.x; s.d && !point && k < n.outputs; k += blockDim.x)
        s.d[k] = 0;
    if (point)
        loss += mixture_density(n, s, scratch);
    if (loss_observed(end))
        loss += loss_bernoulli(s.a[0], end, &slope);
    if (s.d && threadIdx.x == 0)
        s.d[0] = (float)(slope * s.scale);
    return loss;
}

/* The loss, for every thread; all of a block's threads call it. */
static __device__ __forceinline__ double block_loss(const struct network &n,
                                                    const struct loss_step &s) {
    double *scratch = (double *)shared_memory;
    switch (n.loss) {
    case LOSS_SOFTMAX:
        return softmax(n, s, scratch);
    case LOSS_MIXTURE:
        return mixture(n, s, scratch);
    default:
        return elementwise(n, s, scratch);
    }
}

#endif
