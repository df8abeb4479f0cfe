/* Learning in this process: the learner and the engine as the daemon has them, without sockets. */
#ifndef RUNNEL_BENCH_LEARN_H
#define RUNNEL_BENCH_LEARN_H

#include <stdint.h>

#include "bench_data.h"

struct bench_learner;
struct config;
struct error;
struct latencies;

/* `plan`: how many examples are taken before they are learned. Data and config must outlive it. */
int bench_learner_open(struct bench_learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       const struct bench_data *data, size_t plan, struct error *error);
void bench_learner_close(struct bench_learner **learner);

/* Learn `count` examples, `together` (at most `plan`) of them in one plan. */
int bench_learner_run(struct bench_learner *learner, uint64_t count, size_t together,
                      struct error *error);

/* Learn for at least `seconds` and a whole number of updates, after a warm-up that is not timed.
   The result is the seconds that an example took. */
int bench_learner_time(struct bench_learner *learner, double seconds, size_t together,
                       double *example, struct error *error);

/* Learn one example at a time for at least `seconds`, and add the seconds that each one took. */
int bench_learner_latency(struct bench_learner *learner, double seconds,
                          struct latencies *latencies, struct error *error);

/* Write all parameters into a safetensors file, as `runnel-ctl export` does. */
int bench_learner_export(struct bench_learner *learner, const char *path, struct error *error);

/* What was learned so far. */
struct bench_learned {
    uint64_t examples, updates, skipped;
    double loss; /* of the newest example that was scored */
};
struct bench_learned bench_learner_learned(const struct bench_learner *learner);

/* Threads that compute. */
size_t bench_engine_threads(const struct bench_learner *learner);

/* What the engine says of itself, and of that the name of the instruction set it has chosen. */
const char *bench_learner_device(const struct bench_learner *learner);
void bench_learner_instructions(const struct bench_learner *learner, char *name, size_t size);

/* ---- Where the time goes ----

   The CPU engine's forward, backward and optimizer, called one after the other on a network of its
   own, in the way in which the engine plays an update. */

struct bench_split;

int bench_split_open(struct bench_split **split, const struct config *config,
                     const struct model *model, const struct bench_data *data,
                     const char *instructions, struct error *error);
void bench_split_close(struct bench_split **split);

/* Seconds for one example. */
struct split_times {
    double forward;  /* a step computed alone */
    double together; /* a step computed with all others up to the next update */
    double backward; /* with the window's forward pass recomputed where stride < window */
    double optimizer;
};

/* Measure for at least `seconds`, after a warm-up. */
void bench_split_time(struct bench_split *split, double seconds, struct split_times *times);

#endif
