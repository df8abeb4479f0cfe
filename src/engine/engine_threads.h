/* The learner's threads (learning.threads, learning.pin). They play members in parallel, or
   share the work of a single network (struct engine_options). Used by learner*.c, and by
   runnel-bench, which plays an engine's parts separately. */
#ifndef RUNNEL_ENGINE_THREADS_H
#define RUNNEL_ENGINE_THREADS_H

#include "engine.h"

struct config;
struct threads;

/* Default number of threads for `networks` networks: at most the `cpus` of the process and the
   `quota` of its control group (machine_cpus), less one for all other work. At least one. */
size_t engine_threads_default(size_t networks, size_t cpus, double quota);

/* The configured number of threads, or the default on this machine. */
size_t engine_threads_count(const struct config *config);

/* Opens the configured thread pool; NULL: only the caller's thread. -1: EX_CONFIG (CPUs not
   found) or EX_OSERR. */
int engine_threads_open(struct threads **threads, const struct config *config,
                        const struct engine_ops *ops, struct error *error);

/* Plays the parts, each on one thread unless the engine plays them together. `work` (parameters
   times steps of all parts) decides whether threads pay. -1: as ops->play, with the error of the
   first part that failed; all have ended. */
int engine_threads_play(struct threads *threads, const struct engine_ops *ops,
                        const struct engine_part *parts, size_t count, size_t work,
                        struct error *error);

#endif
