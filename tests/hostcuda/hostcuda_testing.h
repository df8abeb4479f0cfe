/* What the tests of the host runtime share. */
#ifndef RUNNEL_HOSTCUDA_TESTING_H
#define RUNNEL_HOSTCUDA_TESTING_H

#include "hostcuda.h"
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

/* The environment that the next calls see: NAME, VALUE (NULL: unset). Everything before is gone. */
inline void with(const char *name, const char *value) {
    if (value) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
    cudaDeviceReset();
}

inline int fresh(void **) {
    for (const char *name :
         {"SEED", "DEVICES", "DRIVER", "MEMORY", "FAIL", "TRACE", "SMS", "CAPABILITY", "THREADS"}) {
        unsetenv((std::string("HOSTCUDA_") + name).c_str());
    }
    cudaDeviceReset();
    return 0;
}

inline bool reported(const char *text) {
    return hostcuda::reports().find(text) != std::string::npos;
}

#define assert_cuda(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")
#define assert_error(error, call) assert_string_equal(cudaGetErrorName(call), #error)

inline void *device_memory(size_t size) {
    void *memory;
    assert_cuda(cudaMalloc(&memory, size));
    return memory;
}

inline cudaLaunchConfig_t shape(unsigned blocks, unsigned threads, size_t shared) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    return config;
}

#endif
