/* The learner's threads (learning.threads, learning.pin): members are played side by side on them,
   and a lone one uses them within its examples (struct engine_options). For learner*.c, and for
   runnel-bench, which plays an engine's parts by itself. */
#ifndef RUNNEL_ENGINE_THREADS_H
#define RUNNEL_ENGINE_THREADS_H

#include "engine.h"

struct config;
struct threads;

/* Threads for so many networks, where the configuration does not say how many: no more than `cpus`
   that the process may run on, and `quota`, the time of so many that its control group has
   (machine_cpus), less one for all that is not learning. At least one. */
size_t engine_threads_default(size_t networks, size_t cpus, double quota);

/* Those that the configuration asks for or, without a word of it, those of this machine. */
size_t engine_threads_count(const struct config *config);

/* Open the pool that the configuration asks for; NULL: the caller's thread alone. -1 (EX_CONFIG:
   CPUs that are not there; EX_OSERR). */
int engine_threads_open(struct threads **threads, const struct config *config,
                        const struct engine_ops *ops, struct error *error);

/* Play the parts, each on one thread unless the engine plays them together; `work`, parameters
   times steps of all of them, says whether threads pay. -1: as ops->play, with the error of the
   first of those that failed; all have ended. */
int engine_threads_play(struct threads *threads, const struct engine_ops *ops,
                        const struct engine_part *parts, size_t count, size_t work,
                        struct error *error);

#endif
