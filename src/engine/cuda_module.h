/* What the module runnel-cuda.so gives to the program that loads it, so that a program built with
   CUDA starts on a machine that has neither driver nor CUDA's libraries. Plain C: who includes
   this needs no CUDA header. The module carries its own copy of what it needs of the daemon. */
#ifndef RUNNEL_CUDA_MODULE_H
#define RUNNEL_CUDA_MODULE_H

#include <stddef.h>
#include <string.h>

struct engine_ops;
struct error;

/* Grows whenever this file or engine.h changes: a program refuses a module of another number. */
enum { CUDA_MODULE_INTERFACE = 8 };

/* The name under which the module exports its struct cuda_module. */
#define CUDA_MODULE_SYMBOL "runnel_cuda_module"

/* The last way out in a sentence about what `device` names. A GPU that nobody has asked for needs
   none: the CPU takes its place. */
static inline const char *cuda_way_out(const char *device) {
    return strcmp(device, "auto") == 0 ? "" : ", or use device: cpu";
}

enum { CUDA_NAME_SIZE = 128 };

/* A device that can be used. */
struct cuda_device {
    int index;
    char name[CUDA_NAME_SIZE];
    int capability_major, capability_minor;
    int multiprocessors;
    size_t memory, free_memory; /* bytes; free_memory is 0 until the device is used */
    size_t shared;              /* bytes of shared memory that one block may have */
    int driver, runtime;        /* versions, as CUDA writes them: 13000 = 13.0 */
};

/* What everything on a device rests on, measured. Seconds, and bytes a second. */
struct cuda_figures {
    struct cuda_device device;
    double graph_launch; /* of a graph of one empty node, until the host sees its end */
    double node;         /* each further empty node of a chain in a graph */
    double grid_barrier; /* all multiprocessors, one block each: a cooperative grid's barrier */
    double cluster;      /* an exchange in a thread-block cluster; 0: the device has none */
    double round_trip;   /* host -> pinned memory -> kernel -> pinned memory -> host */
    double copy;         /* device memory to device memory, bytes read plus written */
    double cache_read;   /* reads of what lies in the L2 cache */
    size_t cache;        /* bytes of the L2 cache */
    double multiply_add; /* float operations a second, two a multiply-add */
};

struct cuda_module {
    int interface; /* CUDA_MODULE_INTERFACE */
    const struct engine_ops *engine;

    /* The device that "auto", "cuda" (both: the first) or "cuda:N" names. -1 (EX_UNAVAILABLE) with
       a sentence, without the name of the device, when there is none or its driver is too old. */
    int (*probe)(const char *device, struct cuda_device *found, struct error *error);

    /* Measure `figures` in about two seconds, for the benchmark. */
    int (*measure)(const char *device, struct cuda_figures *figures, struct error *error);
};

#endif
