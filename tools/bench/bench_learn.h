/* Learning in this process, with the daemon's learner and engine, without sockets. */
#ifndef RUNNEL_BENCH_LEARN_H
#define RUNNEL_BENCH_LEARN_H

#include <stdint.h>

#include "bench_data.h"

struct bench_learner;
struct config;
struct error;
struct latencies;

/* `plan`: number of examples in a plan. Data and config must outlive it. */
int bench_learner_open(struct bench_learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       const struct bench_data *data, size_t plan, struct error *error);
void bench_learner_close(struct bench_learner **learner);

/* Learns `count` examples, `together` (at most `plan`) of them in one plan. */
int bench_learner_run(struct bench_learner *learner, uint64_t count, size_t together,
                      struct error *error);

/* Learns for at least `seconds` and a whole number of updates, after a warm-up that is not
   timed. Returns the seconds per example. */
int bench_learner_time(struct bench_learner *learner, double seconds, size_t together,
                       double *example, struct error *error);

/* Learns one example at a time for at least `seconds`, and adds the seconds of each one. */
int bench_learner_latency(struct bench_learner *learner, double seconds,
                          struct latencies *latencies, struct error *error);

/* Writes all parameters to a safetensors file, like `runnel-ctl export`. */
int bench_learner_export(struct bench_learner *learner, const char *path, struct error *error);

/* Counts so far. */
struct bench_learned {
    uint64_t examples, updates, skipped;
    double loss; /* loss of the newest scored example */
};
struct bench_learned bench_learner_learned(const struct bench_learner *learner);

/* Number of computing threads. */
size_t bench_engine_threads(const struct bench_learner *learner);

/* The engine's description of itself, and the name of its instruction set. */
const char *bench_learner_device(const struct bench_learner *learner);
void bench_learner_instructions(const struct bench_learner *learner, char *name, size_t size);

/* ---- Time of the engine's parts ----

   Calls the CPU engine's forward, backward and optimizer in turn, on a separate network, as the
   engine does in an update. */

struct bench_split;

int bench_split_open(struct bench_split **split, const struct config *config,
                     const struct model *model, const struct bench_data *data,
                     const char *instructions, struct error *error);
void bench_split_close(struct bench_split **split);

/* Seconds for one example. */
struct split_times {
    double forward;  /* a step computed alone */
    double together; /* a step computed with all others up to the next update */
    double backward; /* including the window's recomputed forward pass if stride < window */
    double optimizer;
};

/* Measures for at least `seconds`, after a warm-up. */
void bench_split_time(struct bench_split *split, double seconds, struct split_times *times);

#endif
