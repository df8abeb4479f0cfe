/* An engine's results for a few examples, byte by byte: played in a separate process, since the
   tests' runtime (tests/hostcuda) reads its environment once. */
#ifndef RUNNEL_TESTS_PLAYED_H
#define RUNNEL_TESTS_PLAYED_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/engine.h"
#include "model/model.h"

struct played {
    const char *name;
    struct architecture model;
    enum optimizer_id optimizer;
    double pull;
    size_t window;  /* also of each update */
    size_t steps;   /* steps of each of the two slots */
    size_t at_once; /* steps of one plan; 0: 3; SIZE_MAX: all, with those of the runs */
    /* further runs of a window's steps: 1 is learned; 2 is not; the last step of 2 is scored
       late, before 3 begins another sequence; that of 3 before 4 continues the same one */
    size_t runs;

    /* Networks that learn together, each with its own start values, rate, clip and constants of
       the optimizer and norms; 0: one. */
    size_t members;
    bool together;    /* played by the engine's play_together; else one after the other */
    bool out_of_step; /* updates, measures and steps at different times */
    const struct architecture *other; /* model of every third member; NULL: all have the same */
};

/* All results, and what was learned and a slot after them: a file to be closed. `variables` are
   NAME, VALUE, ..., NULL of the environment. Fails the test if the process fails; its output is
   on stderr. */
FILE *played_results(const struct played *played, const char *const *variables);

/* Fails with `what` unless both files have the same bytes, and some. */
void played_same(FILE *a, FILE *b, const char *what);

/* The results in that scope of the CUDA engine, on a device of the tests' runtime, with threads and
   blocks in the order of the seed; and whether they equal others. */
FILE *played_in_scope(const struct played *played, const char *scope, const char *multiprocessors,
                      const char *seed);
void played_check(FILE *expected, const struct played *played, const char *scope,
                  const char *multiprocessors, const char *seed);

#endif
