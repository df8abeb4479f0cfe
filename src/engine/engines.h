/* Finds the engine for the configuration's `device`. This is the only code that knows all engines.

   The CPU engine is part of the program. The CUDA engine is a module, runnel-cuda.so, loaded
   only if `device` may need it, so that the program starts on machines without CUDA
   (common/module.h). $RUNNEL_CUDA_MODULE overrides its path. */
#ifndef RUNNEL_ENGINES_H
#define RUNNEL_ENGINES_H

#include <stdbool.h>

#include "common/error.h"
#include "engine.h"

struct config;
struct cuda_module;

/* `device: auto` uses the CPU below this number of parameters, without looking for a GPU.
   Members count together, since a GPU plays them at the same time, divided by the threads that
   would share the work on the CPU. The number follows from floors, not from measurements: below it
   weights, gradient and moments (16 bytes per parameter with adam and beta1) fit into the second
   and third cache of a core, which then needs less time for an example than a GPU for a launch.
   LSTM 256 with 0.3 million is the smallest model for which the GPU must be faster. */
enum { ENGINES_AUTO_PARAMETERS = 300000 };

struct engines_choice {
    const struct engine_ops *ops;
    bool automatic;            /* the device was auto */
    char why[ERROR_TEXT_SIZE]; /* "auto: " and the reason; "" for another device */
};

/* The engine for `device`: auto, cpu, cuda or cuda:N. -1 (EX_UNAVAILABLE) if the GPU is not
   usable; auto then uses the CPU. With cuda or cuda:N the configuration may be NULL. */
int engines_choose(struct engines_choice *choice, const char *device, const struct config *config,
                   struct error *error);

/* After `choice` failed to open with `error`: whether it was auto's choice of a GPU; if so,
   `choice` is the CPU from now on. */
bool engines_fall_back(struct engines_choice *choice, const struct error *error);

/* The CUDA module, loaded on first use, to measure devices. NULL (EX_UNAVAILABLE) if it is not
   found or cannot be loaded. */
const struct cuda_module *engines_cuda(struct error *error);

#endif
