/* What an engine gives for a few examples, byte by byte: played in a process of its own, since the
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
    size_t window; /* also of each update */
    size_t steps;  /* of each of the two slots */
    size_t runs; /* after them, of a window's steps: 1 is learned from; 2 is not; the last step of 2
                    is scored late, before 3 begins another sequence; and that of 3, before 4
                    goes on with the same one */

    /* Networks that learn side by side, each with start values, rate, clip and constants of the
       optimizer and of norms of its own; 0: one. */
    size_t members;
    bool together;                    /* by the engine's play_together; else one after the other */
    bool out_of_step;                 /* updates, measures and steps come at different times */
    const struct architecture *other; /* of every third member; NULL: all are the model's */
};

/* All results, and the parameters and a slot after them: a file to be closed. `variables` are
   NAME, VALUE, ..., NULL of the environment in which it is played. Fails the test when the process
   fails; what it said is on stderr. */
FILE *played_results(const struct played *played, const char *const *variables);

/* Fails with `what` unless both files have the same bytes, and some. */
void played_same(FILE *a, FILE *b, const char *what);

#endif
