/* One vector of the instruction set that this file is compiled for. Explicit vectors are used
   where a loop must keep its accumulators in registers (products with matrices, sums); the
   compiler vectorizes all other loops. */
#ifndef RUNNEL_CPU_VECTOR_H
#define RUNNEL_CPU_VECTOR_H

#include <stddef.h>

#if defined(__SSE__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
#    define LANES 16
#elif defined(__AVX2__)
#    define LANES 8
#else
#    define LANES 4
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Loads and stores are aligned: every array of the engine starts at a multiple of 64 bytes and
   is padded. */
INLINE vector vector_load(const float *p) {
    return *(const vector *)p;
}

INLINE void vector_store(float *p, vector v) {
    *(vector *)p = v;
}

INLINE vector vector_broadcast(float x) {
#if LANES == 16
    return (vector){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif LANES == 8
    return (vector){x, x, x, x, x, x, x, x};
#else
    return (vector){x, x, x, x};
#endif
}

/* Keeps a loaded vector in a register: the compiler would load it again for each product, and
   loads are the bottleneck of the loop. */
INLINE vector vector_hold(vector v) {
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

/* Sum of the lanes, by halves. */
INLINE float vector_sum(vector v) {
#if defined(__SSE__)
#    if LANES == 16
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v),
                                _mm256_castpd_ps(_mm512_extractf64x4_pd((__m512d)v, 1)));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#    elif LANES == 8
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#    else
    __m128 s = (__m128)v;
#    endif
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/* Sums of neighbours, of a and b in turn in every 128 bits: cheaper than an instruction hadd. */
#define PAIRS(type, a, b)                                                                          \
    _mm##type##_add_ps(_mm##type##_shuffle_ps(a, b, 0x88), _mm##type##_shuffle_ps(a, b, 0xdd))

/* sums[i] = sum of the lanes of v[i], for 8 vectors at once. Adds the halves of 16 lanes, then
   neighbours in every 128 bits, and last the two halves of 256 bits. */
INLINE void vector_sums8(const vector *v, float *sums) {
#if LANES == 16
    __m512 f[4];
    for (int i = 0; i < 4; i++) {
        __m512 a = (__m512)v[i], b = (__m512)v[i + 4];
        f[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    __m512 a = PAIRS(512, PAIRS(512, f[0], f[1]), PAIRS(512, f[2], f[3]));
    a = _mm512_add_ps(_mm512_shuffle_f32x4(a, a, 0x88), _mm512_shuffle_f32x4(a, a, 0xdd));
    _mm256_storeu_ps(sums, _mm512_castps512_ps256(a));
#elif LANES == 8
    __m256 f[8];
    for (int i = 0; i < 8; i++)
        f[i] = (__m256)v[i];
    __m256 a = PAIRS(256, PAIRS(256, f[0], f[1]), PAIRS(256, f[2], f[3]));
    __m256 b = PAIRS(256, PAIRS(256, f[4], f[5]), PAIRS(256, f[6], f[7]));
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    _mm256_storeu_ps(sums, _mm256_add_ps(low, high));
#else
    for (int i = 0; i < 8; i++)
        sums[i] = vector_sum(v[i]);
#endif
}

/* Of any length, and not aligned: a . b, and to += factor a. */
static inline float vector_dot(const float *a, const float *b, size_t size) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

static inline void vector_add(float *to, float factor, const float *a, size_t size) {
#pragma omp simd
    for (size_t i = 0; i < size; i++)
        to[i] += factor * a[i];
}

#endif
