/* The attentive reader of Hermann et al. (2015), with the last output as its question:
     m_t = tanh(W_k h_t + W_q h_T + b)   e_t = v . m_t   s = softmax(e)   x = [sum_t s_t h_t ; h_T]
   The tensors are W_k and W_q (A, H), b and v (A,). The scratch keeps s_t and m_t. */
#ifndef RUNNEL_POOLS_ATTENTION_H
#define RUNNEL_POOLS_ATTENTION_H

#include "pools.h"

KIND_CONSTANT struct pool_kind attention_kind = {
    .name = "attention",
    .what = "a mean of all outputs with weights that depend on the last one, and the last one",
    .vectors = 2,
    .attends = true,
    .tensors = {{"weight_key", true}, {"weight_query", true}, {"bias", false}, {"score", false}},
};

#ifdef ISA
static inline void attention_pool(const struct pool_run *r, float *x) {
    const float *last = r->h + (r->count - 1) * r->stride;
    size_t attention = r->attention, size = r->size;
    float *share = r->scratch, *m = r->scratch + r->count + 1, *query = m + r->count * attention;
    float most = -INFINITY, sum = 0;
    for (size_t k = 0; k < attention; k++)
        query[k] = vector_dot(r->tensors[1] + k * size, last, size) + r->tensors[2][k];
    for (size_t t = 0; t < r->count; t++) {
        float *own = m + t * attention;
        for (size_t k = 0; k < attention; k++)
            own[k] =
                tanhf(vector_dot(r->tensors[0] + k * size, r->h + t * r->stride, size) + query[k]);
        share[t] = vector_dot(r->tensors[3], own, attention);
        most = share[t] > most ? share[t] : most;
    }
    for (size_t t = 0; t < r->count; t++)
        sum += share[t] = expf(share[t] - most);
    memset(x, 0, size * sizeof *x);
    memcpy(x + size, last, size * sizeof *x);
    for (size_t t = 0; t < r->count; t++) {
        share[t] /= sum;
        vector_add(x, share[t], r->h + t * r->stride, size);
    }
}

static inline void attention_pool_backward(const struct pool_run *r, const float *d) {
    const float *last = r->h + (r->count - 1) * r->stride, *shares = r->scratch;
    size_t attention = r->attention, size = r->size;
    float *m = r->scratch + r->count + 1, *all = m + r->count * attention, mean = 0;
    memset(all, 0, attention * sizeof *all);
    for (size_t t = 0; t < r->count; t++)
        mean += shares[t] * vector_dot(d, r->h + t * r->stride, size);
    for (size_t t = 0; t < r->count; t++) {
        const float *h = r->h + t * r->stride;
        float *own = m + t * attention, *dh = r->dh + t * r->stride;
        float de = shares[t] * (vector_dot(d, h, size) - mean);
        vector_add(r->gradients[3], de, own, attention);
        vector_add(dh, shares[t], d, size);
        for (size_t k = 0; k < attention; k++) {
            float g = de * r->tensors[3][k] * (1 - own[k] * own[k]);
            all[k] += g;
            vector_add(r->gradients[0] + k * size, g, h, size);
            vector_add(dh, g, r->tensors[0] + k * size, size);
        }
    }
    float *dh = r->dh + (r->count - 1) * r->stride;
    vector_add(dh, 1, d + size, size);
    for (size_t k = 0; k < attention; k++) {
        r->gradients[2][k] += all[k];
        vector_add(r->gradients[1] + k * size, all[k], last, size);
        vector_add(dh, all[k], r->tensors[1] + k * size, size);
    }
}
#endif

#endif
