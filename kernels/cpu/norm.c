#include "norm.h"

#include <float.h>
#include <math.h>

#include "normalization.h"
#include "vector.h"

enum { CHAINS = 4 }; /* independent sums hide the latency of an addition */

INLINE float finish(vector *sum) {
    return vector_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* 1 / sqrt(var) if the squares of the deviations exceed the range of float: epsilon is negligible
   then. */
static float rstd_in_double(const float *a, const float *mask, float mean, size_t length,
                            size_t units) {
    double squares = 0;
    for (size_t i = 0; i < length; i++) {
        double d = (double)((a[i] - mean) * mask[i]);
        squares += d * d;
    }
    return (float)(1 / sqrt(squares / (double)units));
}

static float mean_of(const float *a, size_t length, size_t units) {
    vector sum[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        sum[k] = vector_broadcast(0.0f);
    size_t i = 0;
    for (; i + CHAINS * LANES <= length; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++)
            sum[k] += vector_load(a + i + k * LANES);
    for (; i < length; i += LANES)
        sum[0] += vector_load(a + i);
    return finish(sum) / (float)units;
}

struct norm_scale norm_measure(const float *a, const float *mask, size_t length, size_t units,
                               bool centred) {
    float mean = centred ? mean_of(a, length, units) : 0.0f;
    size_t i;
    vector middle = vector_broadcast(mean), squares[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        squares[k] = vector_broadcast(0.0f);
    for (i = 0; i + CHAINS * LANES <= length; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++) {
            vector d =
                (vector_load(a + i + k * LANES) - middle) * vector_load(mask + i + k * LANES);
            squares[k] += d * d;
        }
    for (; i < length; i += LANES) {
        vector d = (vector_load(a + i) - middle) * vector_load(mask + i);
        squares[0] += d * d;
    }
    float variance = finish(squares) / (float)units;
    float rstd = variance <= FLT_MAX ? normalization_rstd(variance)
                                     : rstd_in_double(a, mask, mean, length, units);
    return (struct norm_scale){mean, rstd};
}

/* One vector of the sums that backward needs first. */
INLINE void backward_sums(const float *d, const float *a, const float *gain,
                          struct norm_scale scale, size_t i, float *d_gain, float *d_bias,
                          vector *sum, vector *product) {
    vector di = vector_load(d + i);
    vector xi = (vector_load(a + i) - vector_broadcast(scale.mean)) * vector_broadcast(scale.rstd);
    vector dx = di * vector_load(gain + i);
    *sum += dx;
    *product += dx * xi;
    vector_store(d_gain + i, vector_load(d_gain + i) + di * xi);
    vector_store(d_bias + i, vector_load(d_bias + i) + di);
}

void normalize_backward(const float *d, const float *restrict a, const float *restrict gain,
                        struct norm_scale scale, const float *restrict mask, size_t length,
                        size_t units, bool centred, float *dz, float *restrict d_gain,
                        float *restrict d_bias) {
    vector sum[CHAINS], product[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        sum[k] = product[k] = vector_broadcast(0.0f);
    size_t i = 0;
    for (; i + CHAINS * LANES <= length; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++)
            backward_sums(d, a, gain, scale, i + k * LANES, d_gain, d_bias, &sum[k], &product[k]);
    for (; i < length; i += LANES)
        backward_sums(d, a, gain, scale, i, d_gain, d_bias, &sum[0], &product[0]);
    float mean = centred ? finish(sum) / (float)units : 0.0f,
          along = finish(product) / (float)units;
#pragma omp simd aligned(d, a, gain, mask, dz : 64)
    for (i = 0; i < length; i++) {
        float x = normalization_of_unit(a[i], scale.mean, scale.rstd);
        dz[i] = normalization_group_backward(d[i], gain[i], x, mean, along, scale.rstd) * mask[i];
    }
}

double sum_of_squares(const float *a, size_t n) {
    enum { BLOCK = 4096 }; /* summed in float; sums of blocks in double */
    double total = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t last = first + BLOCK < n ? first + BLOCK : n;
        vector sum = vector_broadcast(0.0f);
        for (size_t i = first; i < last; i += LANES)
            sum += vector_load(a + i) * vector_load(a + i);
        total += (double)vector_sum(sum);
    }
    return total;
}
