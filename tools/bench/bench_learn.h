/* Learning in this process, with the daemon's learner and engine, without sockets. */
#ifndef RUNNEL_BENCH_LEARN_H
#define RUNNEL_BENCH_LEARN_H

#include <stdint.h>

#include "bench_data.h"
#include "bench_series.h"

struct bench_learner;
struct config;
struct error;

/* `plan`: number of examples in a plan. Data and config must outlive it. */
int bench_learner_open(struct bench_learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       const struct bench_data *data, size_t plan, struct error *error);
void bench_learner_close(struct bench_learner **learner);

/* Learns `count` examples, `together` (at most `plan`) of them in one plan. */
int bench_learner_run(struct bench_learner *learner, uint64_t count, size_t together,
                      struct error *error);

/* Learns for at least `seconds`, after a warm-up that is not timed, in cycles: the fewest examples
   that make whole plans and whole updates. Adds the us per example of each cycle. */
int bench_learner_time(struct bench_learner *learner, double seconds, size_t together,
                       struct series *us, struct error *error);

/* Learns one example at a time for at least `seconds`, and adds the seconds of each one. */
int bench_learner_latency(struct bench_learner *learner, double seconds, struct series *latencies,
                          struct error *error);

/* Writes all parameters to a safetensors file, like `runnel-ctl export`. */
int bench_learner_export(struct bench_learner *learner, const char *path, struct error *error);

/* Counts so far. */
struct bench_learned {
    uint64_t examples, updates, skipped;
    double loss;         /* loss of the newest scored example */
    bool wall;           /* cycles are timed by the wall clock, see struct stopwatch */
    double seconds, ran; /* of bench_learner_time, and those in which the thread ran */
};
struct bench_learned bench_learner_learned(const struct bench_learner *learner);

/* Number of computing threads. */
size_t bench_engine_threads(const struct bench_learner *learner);

/* The engine's description of itself, and its instruction set or scope. */
const char *bench_learner_device(const struct bench_learner *learner);
void bench_learner_instructions(const struct bench_learner *learner, char *name, size_t size);
enum scope bench_learner_scope(const struct bench_learner *learner);

/* ---- Time of the engine's parts ----

   Calls the CPU engine's forward, backward and optimizer in turn, on a separate network, as the
   engine does in an update. */

struct bench_split;

int bench_split_open(struct bench_split **split, const struct config *config,
                     const struct model *model, const struct bench_data *data,
                     const char *instructions, struct error *error);
void bench_split_close(struct bench_split **split);

/* us per example. */
struct split_series {
    struct series *forward;  /* a step computed alone */
    struct series *together; /* a step computed with all others up to the next update */
    struct series *backward; /* including the window's recomputed forward pass if stride < window */
    struct series *optimizer;
};

/* Measures for at least `seconds`. */
void bench_split_time(struct bench_split *split, double seconds, const struct split_series *us);

#endif
