/* Common code of the tests of the host runtime. */
#ifndef RUNNEL_HOSTCUDA_TESTING_H
#define RUNNEL_HOSTCUDA_TESTING_H

#include "hostcuda.h"
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

/* Sets the environment of the next calls: NAME, VALUE (NULL: unset), and resets the runtime. */
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

/* The output of a process that runs `act` and ends by that signal. */
inline std::string last_words(void (*act)(), int expected) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGILL, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        act();
        _exit(0);
    }
    close(ends[1]);
    char text[1024];
    std::string words;
    for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) {
        words.append(text, (size_t)got);
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), expected);
    return words;
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
