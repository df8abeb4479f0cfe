/* Random streams for tests of the learner: a configuration, its model, and examples with every
   mark and gap of the protocol. They depend only on the seed. */
#ifndef RUNNEL_TESTS_WORKLOAD_H
#define RUNNEL_TESTS_WORKLOAD_H

#include "common/example.h"
#include "config/config.h"
#include "engine/engine.h"
#include "model/model.h"

struct workload_options {
    struct architecture architecture;
    size_t window, stride, max_streams;
    struct optimizer optimizer;
    size_t examples;
    size_t keys;   /* different stream keys */
    size_t steps;  /* T is uniform in 1..steps */
    double end;    /* share of examples that end their sequence */
    double frozen; /* share that is not learned */
    /* share of examples without y, of y rows without a target, and of NaN among the numbers of
       targets and, with hold, of inputs */
    double missing;
    uint64_t seed;
};

struct workload {
    struct config config;
    struct model model;
    struct example *examples;
    size_t count;
    size_t x_size;                  /* numbers in one step's x */
    size_t label_room, label_steps; /* bytes from x to y, and the most steps of one */
    char *bytes;                    /* holds keys, x and y; x and y are at odd addresses */
};

/* Fails the running test if out of memory. */
struct workload *workload_open(const struct workload_options *options);
void workload_close(struct workload **workload);

#endif
