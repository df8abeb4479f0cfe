/* Where the time goes: the CPU engine's forward, backward and optimizer, called one after the other
   on a network of its own, in the way in which the engine plays an update. */
#ifndef RUNNEL_BENCH_SPLIT_H
#define RUNNEL_BENCH_SPLIT_H

#include "bench_data.h"

struct bench_split;
struct config;
struct error;

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
