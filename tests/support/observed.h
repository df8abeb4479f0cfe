/* Stores the observations of an observer, so that two runs can be compared byte by byte. */
#ifndef RUNNEL_TESTS_OBSERVED_H
#define RUNNEL_TESTS_OBSERVED_H

#include "learner/learner.h"

struct observation {
    bool forgotten; /* a forgotten stream: only the key counts */
    bool truths;    /* it has predictions with their truths */
    char key[256];
    uint64_t examples, steps, received;
    size_t scored;
    double loss, squared_error;
    size_t observed, correct, updates, skipped;
    double gradient_norm, update_ratio;
    uint64_t scale;   /* hash of mean and deviation, 0 without */
    uint64_t outputs; /* hash of the outputs, 0 without */
    size_t output_steps;
    uint64_t measured; /* hash of the statistics, 0 without */
    size_t streams;
};

struct observations {
    struct observation *list; /* (capacity,), the caller's */
    size_t count, capacity;
    size_t inputs, outputs, layers; /* of the model */
    uint64_t measure_every;         /* 0 = never */
    uint64_t played;                /* number of the newest example; 0 = none yet */
};

/* An observer that appends to the list; an overflow fails the running test. */
struct learner_observer observations_observer(struct observations *observations);

/* FNV-1a. */
uint64_t observed_hash(const void *bytes, size_t size);

/* Fails the running test with the first observation that differs. */
void assert_same_observations(const struct observations *a, const struct observations *b);

#endif
