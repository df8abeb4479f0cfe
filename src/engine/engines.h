/* The engines, by the names of the configuration's `device`: the one place that knows them all.

   The CPU engine is part of the program. The CUDA engine is a module, runnel-cuda.so, which is
   loaded when `device` may need it, so that the program starts on machines without CUDA
   (common/module.h). $RUNNEL_CUDA_MODULE may name another file. */
#ifndef RUNNEL_ENGINES_H
#define RUNNEL_ENGINES_H

#include <stdbool.h>

#include "common/error.h"
#include "engine.h"

struct config;
struct cuda_module;

/* `device: auto` leaves smaller models to the CPU, without a look at the GPU. Of several members
   those of one shape count together, since a GPU plays them by the launches of one; of several
   shapes the average, since each has launches of its own; and the CPU has as many threads for them
   as the configuration says, each of which plays its share. This number
   follows from the floors alone yet, from no measurement: below it weights, gradient and moments,
   16 bytes a parameter with adam, lie in the second and third cache of a CPU core, which then needs
   fewer microseconds for a step than a GPU for the stages of its graph. LSTM 256 has 0.3 million
   and is the smallest where the GPU has to be ahead. */
enum { ENGINES_AUTO_PARAMETERS = 300000 };

struct engines_choice {
    const struct engine_ops *ops;
    bool automatic;            /* the device was auto */
    char why[ERROR_TEXT_SIZE]; /* "auto: " and what decided; "" for a device that was named */
};

/* The engine for `device`: auto, cpu, cuda or cuda:N. -1 (EX_UNAVAILABLE) with a sentence when a
   GPU was asked for by name and its engine cannot be had; auto is the CPU then. Of a device that is
   named the configuration may be NULL: it is not asked for. */
int engines_choose(struct engines_choice *choice, const char *device, const struct config *config,
                   struct error *error);

/* After `choice` could not be opened, for `error`: whether it was auto's choice of a GPU, and so is
   the CPU from now on. */
bool engines_fall_back(struct engines_choice *choice, const struct error *error);

/* The CUDA module, loaded when it was not yet; for who measures devices. NULL (EX_UNAVAILABLE) when
   there is none or it cannot be loaded. */
const struct cuda_module *engines_cuda(struct error *error);

#endif
