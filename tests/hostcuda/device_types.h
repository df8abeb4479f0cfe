/* CUDA's built-in vector types and C++ qualifiers, for the host's compiler. */
#ifndef HOSTCUDA_DEVICE_TYPES_H
#define HOSTCUDA_DEVICE_TYPES_H

#include <stddef.h>

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
/* The number of no-operations before a kernel's entry, which kernel.cpp counts. */
#define __launch_bounds__(threads, ...)                                                            \
    __attribute__((patchable_function_entry((threads) + 0, (threads) + 0)))
#define __cluster_dims__(...)
#ifndef __restrict__
#    define __restrict__ __restrict
#endif

/* Shared memory is dynamic: `extern __shared__ float shared_memory[];` is the one array of the
   running block (grid.cpp). */
#define __shared__

struct char4 {
    signed char x, y, z, w;
} __align__(4);
struct uchar4 {
    unsigned char x, y, z, w;
} __align__(4);
struct int2 {
    int x, y;
} __align__(8);
struct int3 {
    int x, y, z;
};
struct int4 {
    int x, y, z, w;
} __align__(16);
struct uint2 {
    unsigned x, y;
} __align__(8);
struct uint3 {
    unsigned x, y, z;
};
struct uint4 {
    unsigned x, y, z, w;
} __align__(16);
struct float2 {
    float x, y;
} __align__(8);
struct float3 {
    float x, y, z;
};
struct float4 {
    float x, y, z, w;
} __align__(16);
struct double2 {
    double x, y;
} __align__(16);
struct longlong2 {
    long long x, y;
} __align__(16);
struct ulonglong2 {
    unsigned long long x, y;
} __align__(16);

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {
    }
    constexpr operator uint3() const {
        return uint3{x, y, z};
    }
};

inline int2 make_int2(int x, int y) {
    return int2{x, y};
}
inline int3 make_int3(int x, int y, int z) {
    return int3{x, y, z};
}
inline int4 make_int4(int x, int y, int z, int w) {
    return int4{x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
    return uint2{x, y};
}
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
    return uint3{x, y, z};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}
inline float2 make_float2(float x, float y) {
    return float2{x, y};
}
inline float3 make_float3(float x, float y, float z) {
    return float3{x, y, z};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}
inline double2 make_double2(double x, double y) {
    return double2{x, y};
}
inline longlong2 make_longlong2(long long x, long long y) {
    return longlong2{x, y};
}
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) {
    return ulonglong2{x, y};
}

#endif
