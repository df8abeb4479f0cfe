/* Compiles the loops of src/forecast and src/anomaly for several instruction sets. They add in
   the same order for every set, and products are never fused with sums (-ffp-contract=off): all
   sets give the same bits. */
#ifndef RUNNEL_VECTORS_H
#define RUNNEL_VECTORS_H

#include <stddef.h>

enum { VECTOR_LANES = 8 }; /* rows are padded to this */

#define VECTOR_BODY static inline __attribute__((always_inline))

/* A function that calls `name`_body with the same arguments, also compiled for AVX2 where
   available. */
#if defined(__x86_64__)
#    define VECTOR_CLONES(name, parameters, arguments)                                             \
        static __attribute__((target("avx2"))) void name##_avx2 parameters {                       \
            name##_body arguments;                                                                 \
        }                                                                                          \
        static void name##_baseline parameters {                                                   \
            name##_body arguments;                                                                 \
        }                                                                                          \
        static void name parameters {                                                              \
            if (__builtin_cpu_supports("avx2"))                                                    \
                name##_avx2 arguments;                                                             \
            else                                                                                   \
                name##_baseline arguments;                                                         \
        }
#else
#    define VECTOR_CLONES(name, parameters, arguments)                                             \
        static void name parameters {                                                              \
            name##_body arguments;                                                                 \
        }
#endif

static inline size_t vector_pad(size_t n) {
    return (n + VECTOR_LANES - 1) / VECTOR_LANES * VECTOR_LANES;
}

#endif
