/* Functions for kernels: coordinates, barriers, warp collectives, atomics and intrinsics.
   Atomics on floats are missing on purpose: results must not depend on an order. */
#ifndef HOSTCUDA_DEVICE_FUNCTIONS_H
#define HOSTCUDA_DEVICE_FUNCTIONS_H

#include "device_types.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Those of the running thread; the runtime sets them at every switch. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

/* ---- The runtime's side (grid.cpp, warp.cpp) ---- */

enum hostcuda_collective {
    HOSTCUDA_SYNCWARP,
    HOSTCUDA_SHFL,
    HOSTCUDA_SHFL_UP,
    HOSTCUDA_SHFL_DOWN,
    HOSTCUDA_SHFL_XOR,
    HOSTCUDA_BALLOT,
};

/* Waits until every lane of `mask` has arrived with the same mask; returns the lane's result.
   `value` is the lane's own, `argument` the requested lane, distance or mask of lanes. */
uint64_t hostcuda_warp(hostcuda_collective what, unsigned mask, uint64_t value, unsigned argument,
                       unsigned width);
unsigned hostcuda_active(void);

/* Waits for the block; returns the number of its threads with `predicate`. */
unsigned hostcuda_block(int predicate);

/* The race detector's hooks (race.h): a fence, and an atomic on `size` bytes, called at `code`. */
void hostcuda_fence(void);
void hostcuda_atomic_access(const void *at, size_t size, const void *code);

/* Lets other threads run before this one continues. */
void hostcuda_yield(void);
void hostcuda_trap(const char *reason);
extern unsigned hostcuda_polls;

/* Reads that may wait for another thread's write yield now and then, so that a loop around them
   ends. */
inline void hostcuda_poll(void) {
    enum { PATIENCE = 4096 };
    if (++hostcuda_polls % PATIENCE == 0) {
        hostcuda_yield();
    }
}

/* ---- Barriers and fences ---- */

/* Keeps a barrier from being a kernel's last jump, so that reports name the kernel. */
#define HOSTCUDA_RETURN() __asm__ volatile("")

inline void __syncthreads(void) {
    hostcuda_block(0);
    HOSTCUDA_RETURN();
}
inline int __syncthreads_count(int predicate) {
    return (int)hostcuda_block(predicate);
}
inline int __syncthreads_or(int predicate) {
    return hostcuda_block(predicate) > 0;
}
inline int __syncthreads_and(int predicate) {
    return hostcuda_block(!predicate) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    hostcuda_warp(HOSTCUDA_SYNCWARP, mask, 0, 0, warpSize);
    HOSTCUDA_RETURN();
}
inline void __threadfence(void) {
    hostcuda_poll();
    hostcuda_fence();
}
inline void __threadfence_block(void) {
    hostcuda_poll();
}
inline void __threadfence_system(void) {
    hostcuda_poll();
    hostcuda_fence();
}
inline void __nanosleep(unsigned) {
    hostcuda_yield();
}
inline void __trap(void) {
    hostcuda_trap("__trap");
}
long long clock64(void); /* nanoseconds */

/* ---- Warp collectives ---- */

template <typename T>
inline T hostcuda_shuffle(hostcuda_collective what, unsigned mask, T value, unsigned argument,
                          unsigned width) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = hostcuda_warp(what, mask, bits, argument, width);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> inline T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize) {
    return hostcuda_shuffle(HOSTCUDA_SHFL, mask, value, (unsigned)lane, (unsigned)width);
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize) {
    return hostcuda_shuffle(HOSTCUDA_SHFL_UP, mask, value, by, (unsigned)width);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = warpSize) {
    return hostcuda_shuffle(HOSTCUDA_SHFL_DOWN, mask, value, by, (unsigned)width);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
    return hostcuda_shuffle(HOSTCUDA_SHFL_XOR, mask, value, (unsigned)lanes, (unsigned)width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return (unsigned)hostcuda_warp(HOSTCUDA_BALLOT, mask, predicate != 0, 0, warpSize);
}
inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}
inline unsigned __activemask(void) {
    return hostcuda_active();
}

/* ---- Atomics: one thread runs at a time, so plain reads and writes are atomic ---- */

template <typename T, typename Change>
__attribute__((noinline, no_sanitize("thread"))) inline T hostcuda_atomic(T *at, Change change) {
    hostcuda_poll();
    hostcuda_atomic_access(at, sizeof *at, __builtin_return_address(0));
    const T old = *at;
    *at = change(old);
    return old;
}

#define HOSTCUDA_ATOMICS(T)                                                                        \
    inline T atomicAdd(T *at, T value) {                                                           \
        return hostcuda_atomic(at, [=](T old) { return (T)(old + value); });                       \
    }                                                                                              \
    inline T atomicMin(T *at, T value) {                                                           \
        return hostcuda_atomic(at, [=](T old) { return value < old ? value : old; });              \
    }                                                                                              \
    inline T atomicMax(T *at, T value) {                                                           \
        return hostcuda_atomic(at, [=](T old) { return value > old ? value : old; });              \
    }                                                                                              \
    inline T atomicAnd(T *at, T value) {                                                           \
        return hostcuda_atomic(at, [=](T old) { return old & value; });                            \
    }                                                                                              \
    inline T atomicOr(T *at, T value) {                                                            \
        return hostcuda_atomic(at, [=](T old) { return old | value; });                            \
    }                                                                                              \
    inline T atomicExch(T *at, T value) {                                                          \
        return hostcuda_atomic(at, [=](T) { return value; });                                      \
    }                                                                                              \
    inline T atomicCAS(T *at, T expected, T value) {                                               \
        return hostcuda_atomic(at, [=](T old) { return old == expected ? value : old; });          \
    }
HOSTCUDA_ATOMICS(int)
HOSTCUDA_ATOMICS(unsigned)
HOSTCUDA_ATOMICS(unsigned long long)
#undef HOSTCUDA_ATOMICS

inline int atomicSub(int *at, int value) {
    return hostcuda_atomic(at, [=](int old) { return old - value; });
}
inline unsigned atomicSub(unsigned *at, unsigned value) {
    return hostcuda_atomic(at, [=](unsigned old) { return old - value; });
}
inline unsigned atomicInc(unsigned *at, unsigned last) {
    return hostcuda_atomic(at, [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned *at, unsigned last) {
    return hostcuda_atomic(at, [=](unsigned old) { return !old || old > last ? last : old - 1; });
}
float atomicAdd(float *, float) = delete;
double atomicAdd(double *, double) = delete;

/* ---- Memory ---- */

#define HOSTCUDA_LOAD(name)                                                                        \
    template <typename T> inline T name(const T *at) {                                             \
        hostcuda_poll();                                                                           \
        return *at;                                                                                \
    }
HOSTCUDA_LOAD(__ldg)
HOSTCUDA_LOAD(__ldca)
HOSTCUDA_LOAD(__ldcg)
HOSTCUDA_LOAD(__ldcs)
HOSTCUDA_LOAD(__ldcv)
#undef HOSTCUDA_LOAD
#define HOSTCUDA_STORE(name)                                                                       \
    template <typename T> inline void name(T *at, T value) {                                       \
        *at = value;                                                                               \
    }
HOSTCUDA_STORE(__stwb)
HOSTCUDA_STORE(__stcg)
HOSTCUDA_STORE(__stcs)
HOSTCUDA_STORE(__stwt)
#undef HOSTCUDA_STORE

/* ---- Arithmetic ---- */

template <typename To, typename From> inline To hostcuda_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline unsigned __float_as_uint(float value) {
    return hostcuda_bits<unsigned>(value);
}
inline int __float_as_int(float value) {
    return hostcuda_bits<int>(value);
}
inline float __uint_as_float(unsigned bits) {
    return hostcuda_bits<float>(bits);
}
inline float __int_as_float(int bits) {
    return hostcuda_bits<float>(bits);
}
inline long long __double_as_longlong(double value) {
    return hostcuda_bits<long long>(value);
}
inline double __longlong_as_double(long long bits) {
    return hostcuda_bits<double>(bits);
}
inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}

#define HOSTCUDA_EXTREMES(T, A, B)                                                                 \
    inline T min(A a, B b) {                                                                       \
        return (T)a < (T)b ? (T)a : (T)b;                                                          \
    }                                                                                              \
    inline T max(A a, B b) {                                                                       \
        return (T)a > (T)b ? (T)a : (T)b;                                                          \
    }
HOSTCUDA_EXTREMES(int, int, int)
HOSTCUDA_EXTREMES(unsigned, unsigned, unsigned)
HOSTCUDA_EXTREMES(unsigned, int, unsigned)
HOSTCUDA_EXTREMES(unsigned, unsigned, int)
HOSTCUDA_EXTREMES(long, long, long)
HOSTCUDA_EXTREMES(unsigned long, unsigned long, unsigned long)
HOSTCUDA_EXTREMES(unsigned long, long, unsigned long)
HOSTCUDA_EXTREMES(unsigned long, unsigned long, long)
HOSTCUDA_EXTREMES(long long, long long, long long)
HOSTCUDA_EXTREMES(unsigned long long, unsigned long long, unsigned long long)
HOSTCUDA_EXTREMES(unsigned long long, long long, unsigned long long)
HOSTCUDA_EXTREMES(unsigned long long, unsigned long long, long long)
#undef HOSTCUDA_EXTREMES
#define HOSTCUDA_EXTREMES(T, A, B, minimum, maximum)                                               \
    inline T min(A a, B b) {                                                                       \
        return minimum(a, b);                                                                      \
    }                                                                                              \
    inline T max(A a, B b) {                                                                       \
        return maximum(a, b);                                                                      \
    }
HOSTCUDA_EXTREMES(float, float, float, fminf, fmaxf)
HOSTCUDA_EXTREMES(double, double, double, fmin, fmax)
HOSTCUDA_EXTREMES(double, float, double, fmin, fmax)
HOSTCUDA_EXTREMES(double, double, float, fmin, fmax)
#undef HOSTCUDA_EXTREMES

#endif
