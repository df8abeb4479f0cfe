/* The interface of the module runnel-cuda.so. The program loads it on demand, so that a program
   built with CUDA starts on machines without driver and CUDA libraries. Plain C: its users need
   no CUDA header. The module has its own copy of the daemon's code that it uses. */
#ifndef RUNNEL_CUDA_MODULE_H
#define RUNNEL_CUDA_MODULE_H

#include <stddef.h>
#include <string.h>

#include "engine.h"

/* Increase it when this file or engine.h changes: a program rejects a module with another
   number. */
enum { CUDA_MODULE_INTERFACE = 11 };

/* The name under which the module exports its struct cuda_module. */
#define CUDA_MODULE_SYMBOL "runnel_cuda_module"

/* The last remedy in an error about `device`. With auto none is needed: the CPU is used instead. */
static inline const char *cuda_way_out(const char *device) {
    return strcmp(device, "auto") == 0 ? "" : ", or use device: cpu";
}

enum {
    CUDA_NAME_SIZE = 128,
    CLUSTER_BLOCKS = 8, /* of a cluster: the most that every device with clusters supports */
};

/* A usable device. */
struct cuda_device {
    int index;
    char name[CUDA_NAME_SIZE];
    int capability_major, capability_minor;
    int multiprocessors;
    size_t memory, free_memory; /* bytes; free_memory is 0 until the device is used */
    size_t shared;              /* bytes of shared memory per block */
    int driver, runtime;        /* versions in CUDA's form: 13000 = 13.0 */
};

/* Measured speeds of a device, in seconds, or bytes per second. */
struct cuda_figures {
    struct cuda_device device;
    double launch;                   /* of an empty kernel, until the host detects its end */
    double barriers[SCOPE_GRID + 1]; /* of the blocks of a scope; 0: not supported */
    double round_trip;               /* host -> pinned memory -> kernel -> pinned memory -> host */
    double copy;                     /* device memory to device memory, bytes read plus written */
    double cache_read;               /* reads of data in the L2 cache */
    size_t cache;                    /* bytes of the L2 cache */
    double multiply_add;             /* float operations per second, two per multiply-add */
};

struct cuda_module {
    int interface; /* CUDA_MODULE_INTERFACE */
    const struct engine_ops *engine;

    /* The device of "auto", "cuda" (both: the first) or "cuda:N". -1 (EX_UNAVAILABLE) if not
       found or if its driver is too old; the error does not have the name of the device. */
    int (*probe)(const char *device, struct cuda_device *found, struct error *error);

    /* Fills `figures` in about two seconds, for the benchmark. */
    int (*measure)(const char *device, struct cuda_figures *figures, struct error *error);
};

#endif
