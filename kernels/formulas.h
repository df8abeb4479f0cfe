/* Per-element arithmetic, written once for every engine: elementary functions, gates and their
   derivatives. Plain functions of floats without branches, so that loops over them vectorize.
   With a CUDA compiler each FORMULA, here and in the other headers of this folder, is a function
   of host and device. */
#ifndef RUNNEL_FORMULAS_H
#define RUNNEL_FORMULAS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef FORMULA
#    ifdef __CUDACC__
#        define FORMULA static __host__ __device__ __forceinline__
#    else
#        define FORMULA static inline __attribute__((always_inline))
#    endif
#endif

/* e^x for x in [-87, 88], constant beyond; NaN stays NaN. Relative error below 2e-7. x = n ln 2
   + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7. */
FORMULA float formula_exp(float x) {
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + to_integer;
    int32_t exponent;
    memcpy(&exponent, &shifted, sizeof exponent);
    float n = shifted - to_integer;
    float r = x - n * 0.693145752f; /* ln 2 in two parts, the first exact in n's products */
    r = r - n * 1.42860677e-6f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t scale_bits = (int32_t)(((uint32_t)exponent << 23) + 0x3f800000u);
    float scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    return p * scale;
}

/* 1 / (1 + e^-x) */
FORMULA float formula_sigmoid(float x) {
    return 1.0f / (1.0f + formula_exp(-x));
}

/* (1 - e^-2|x|) / (1 + e^-2|x|) with x's sign; below 0.4, where that would cancel, its Taylor
   polynomial of degree 11. Relative error below 4e-7. */
FORMULA float formula_tanh(float x) {
    float magnitude = x < 0.0f ? -x : x;
    float t = formula_exp(-2.0f * magnitude);
    float far = (1.0f - t) / (1.0f + t);
    float q = x * x;
    float p = -8.86323553e-3f;
    p = p * q + 2.18694885e-2f;
    p = p * q - 5.39682540e-2f;
    p = p * q + 1.33333333e-1f;
    p = p * q - 3.33333333e-1f;
    float near = x + x * (q * p);
    far = x < 0.0f ? -far : far;
    return magnitude < 0.4f ? near : far;
}

/* Limits inputs, so that no sum of products overflows: a wild number must not leave a stream
   with a state that is not a number. NaN stays NaN. */
#define FORMULA_INPUT_MOST 1e30f

FORMULA float formula_bounded(float x) {
    return x > FORMULA_INPUT_MOST    ? FORMULA_INPUT_MOST
           : x < -FORMULA_INPUT_MOST ? -FORMULA_INPUT_MOST
                                     : x;
}

/* Limits numbers that are kept from step to step, and replaces NaN by 0: states without bounds of
   their own, and data of learning rules. A wild step must not stay in a stream. */
#define FORMULA_KEPT_MOST 1e15f

FORMULA float formula_finite(float x) {
    x = x > FORMULA_KEPT_MOST ? FORMULA_KEPT_MOST : x;
    x = x < -FORMULA_KEPT_MOST ? -FORMULA_KEPT_MOST : x;
    return x == x ? x : 0.0f;
}

/* Derivatives, given the function's value. */
FORMULA float formula_sigmoid_gradient(float value) {
    return value * (1.0f - value);
}

FORMULA float formula_tanh_gradient(float value) {
    return 1.0f - value * value;
}

#endif
