/* The learner's threads (learning.threads, learning.pin): members are played side by side on them,
   and a lone one uses them within its examples (struct engine_options). For learner*.c, and for
   runnel-bench, which plays an engine's parts by itself. */
#ifndef RUNNEL_LEARNER_THREADS_H
#define RUNNEL_LEARNER_THREADS_H

#include "engine.h"

struct config;
struct threads;

/* Open the pool that the configuration asks for; NULL: the caller's thread alone. -1 (EX_CONFIG:
   CPUs that are not there; EX_OSERR). */
int learner_threads_open(struct threads **threads, const struct config *config,
                         const struct engine_ops *ops, struct error *error);

/* Play the parts, each on one thread unless the engine plays them together; `work`, parameters
   times steps of all of them, says whether threads pay. -1: as ops->play, with the error of the
   first of those that failed; all have ended. */
int learner_threads_play(struct threads *threads, const struct engine_ops *ops,
                         const struct engine_part *parts, size_t count, size_t work,
                         struct error *error);

#endif
