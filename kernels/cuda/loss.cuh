/* The loss of one step and its gradients, computed by a whole block: elements and components are
   distributed over the threads, sums are in double. Bound by its transcendental functions. */
#ifndef RUNNEL_CUDA_LOSS_CUH
#define RUNNEL_CUDA_LOSS_CUH

#include "losses.h"
#include "network.cuh"

/* A step's activations at one horizon and its target; d (K / horizons,) gets the gradients times
   `scale`, or is NULL. */
struct loss_step {
    const float *a;
    const union value *y; /* (target_size,) */
    double scale;
    float *d;
};

/* The mean over the observed numbers of the target. */
template <number_formula NUMBER>
DEVICE double numbers(const struct network &n, const struct loss_step &s, double *scratch) {
    uint32_t size = n.target_size, parts = n.scored / size;
    double sums[2] = {0, 0}, gradient[NUMBER_PARTS_MAX]; /* observed, losses */
    for (uint32_t k = threadIdx.x; k < size; k += blockDim.x)
        if (loss_observed(s.y[k].real)) {
            sums[0] += 1;
            sums[1] += NUMBER(s.a + k, size, s.y[k].real, gradient);
        }
    block_sums(sums, scratch);
    double factor = s.scale / sums[0];
    for (uint32_t k = threadIdx.x; s.d && k < size; k += blockDim.x) {
#pragma unroll
        for (uint32_t part = 0; part < NUMBER_PARTS_MAX; part++)
            gradient[part] = 0;
        if (loss_observed(s.y[k].real))
            NUMBER(s.a + k, size, s.y[k].real, gradient);
#pragma unroll
        for (uint32_t part = 0; part < NUMBER_PARTS_MAX; part++)
            if (part < parts)
                s.d[part * size + k] = (float)(gradient[part] * factor);
    }
    return sums[1] / sums[0];
}

template <term_formula TERM, class_formula CLASS>
DEVICE double classes(const struct network &n, const struct loss_step &s, double *scratch) {
    float most = s.a[0];
    for (uint32_t k = threadIdx.x; k < n.scored; k += blockDim.x)
        most = s.a[k] > most || isnan(s.a[k]) ? s.a[k] : most;
    most = block_maximum(most, (float *)scratch);
    float sum = 0;
    for (uint32_t k = threadIdx.x; k < n.scored; k += blockDim.x)
        sum += TERM(s.a[k], most);
    double total = block_sum((double)sum, scratch);
    uint32_t class_id = s.y->id;
    float factor = (float)(s.scale / total);
    for (uint32_t k = threadIdx.x; s.d && k < n.scored; k += blockDim.x)
        s.d[k] = TERM(s.a[k], most) * factor - (k == class_id ? (float)s.scale : 0.0f);
    return CLASS(total, most, s.a[class_id]);
}

/* log sum_j e^value(j), in two passes. */
struct log_sum {
    double most, sum;
};

template <typename Value>
DEVICE struct log_sum log_sum_exp(uint32_t count, Value value, double *scratch) {
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

/* -log sum_j pi_j N_j, pi = softmax(logits), over the components with activations a and
   gradients d. A component's share, pi_j N_j / sum, is its responsibility. Its gradients are
   pi_j - share for the logit, and share times its own gradient for the others. They are 0 for a
   component without responsibility, however far away it is. */
template <component_formula COMPONENT>
DEVICE double components(const struct network &n, const struct loss_step &s, const float *a,
                         float *d, uint32_t parts, double *scratch) {
    uint32_t count = n.components;
    auto logit = [&](uint32_t j) { return (double)a[j]; };
    auto joint = [&](uint32_t j) { return logit(j) + COMPONENT(a + j, count, s.y).log_density; };
    struct log_sum weights = log_sum_exp(count, logit, scratch);
    struct log_sum shares = log_sum_exp(count, joint, scratch);
    for (uint32_t j = threadIdx.x; d && j < count; j += blockDim.x) {
        struct loss_component c = COMPONENT(a + j, count, s.y);
        double weight = exp(logit(j) - weights.most) / weights.sum;
        double share = exp(logit(j) + c.log_density - shares.most) / shares.sum;
        double g = share * s.scale;
        d[j] = (float)((weight - share) * s.scale);
#pragma unroll
        for (uint32_t part = 1; part < COMPONENT_PARTS_MAX; part++)
            if (part < parts)
                d[part * count + j] = (float)(g == 0 ? 0 : g * c.gradient[part]);
    }
    return weights.most + log(weights.sum) - shares.most - log(shares.sum);
}

/* The components, if all of their numbers are observed, and each other observed number. */
template <component_formula COMPONENT, number_formula NUMBER>
DEVICE double components_and_numbers(const struct network &n, const struct loss_step &s,
                                     double *scratch) {
    uint32_t single = n.target_size - n.together;
    bool all = true;
    for (uint32_t k = 0; k < n.together; k++)
        all = all && loss_observed(s.y[k].real);
    double loss = 0;
    for (uint32_t k = single + threadIdx.x; s.d && !all && k < n.scored; k += blockDim.x)
        s.d[k] = 0;
    if (all)
        loss += components<COMPONENT>(n, s, s.a + single, s.d ? s.d + single : NULL,
                                      (n.scored - single) / n.components, scratch);
    for (uint32_t k = 0; k < single; k++) {
        float y = s.y[n.together + k].real;
        double gradient = 0;
        if (loss_observed(y))
            loss += NUMBER(s.a + k, 1, y, &gradient);
        if (s.d && threadIdx.x == 0)
            s.d[k] = (float)(gradient * s.scale);
    }
    return loss;
}

#define WALK_numbers(name) numbers<name##_number>(n, s, scratch)
#define WALK_classes(name) classes<name##_term, name##_loss>(n, s, scratch)
#define WALK_components(name) components_and_numbers<name##_component, name##_number>(n, s, scratch)
#define WALK_candidates(name) NAN

/* The loss, for every thread; all of a block's threads must call it. */
PHASE double block_loss(struct loss_step s) {
    const struct network &n = block_network();
    double *scratch = (double *)shared_memory;
    switch ((enum loss)n.loss) {
#define LOSS(name, walk)                                                                           \
case LOSS_##name:                                                                                  \
    return WALK_##walk(name);
#include "kinds.def"
    case LOSSES:
        break;
    }
    return NAN;
}

#endif
