/* An engine without arithmetic, for tests of the learner: every result is a hash of all inputs that
   the contract allows, so that two runs with equal results have done the same in the same order.

   It implements src/engine/engine.h and checks its conditions: a window marked as fresh has the
   latest STEPs with the current parameters, a SCORE follows its STEP, the terms of an UPDATE are
   the kept targets, positions and rows are in range. */
#ifndef RUNNEL_TESTS_HASH_ENGINE_H
#define RUNNEL_TESTS_HASH_ENGINE_H

#include "engine/engine.h"

extern const struct engine_ops hash_engine;

/* State of the last opened engine: its parameters' hash, its number of UPDATEs, and of fresh
   ones. */
uint64_t hash_engine_parameters(void);
struct hash_engine_counts {
    size_t updates, fresh;
} hash_engine_counts(void);

/* The hash functions, for comparison with a model of the protocol. */
uint64_t hash_mix(uint64_t a, uint64_t b);
uint64_t hash_values(const union value *values, size_t count); /* all NaN are equal */
uint64_t hash_state(uint64_t parameters, uint64_t state, uint64_t x);
uint64_t hash_output(uint64_t parameters, uint64_t state); /* state after the step */
float hash_output_number(uint64_t output, size_t k);       /* in [-2, 2) */
double hash_loss(uint64_t output, uint64_t y);             /* in [0, 1) */

/* An UPDATE's chain over the window: begin with the parameters, step through its states, add
   each kept target, and finish with rate and clip. */
uint64_t hash_term(uint64_t chain, uint64_t output, uint64_t y);
uint64_t hash_gradient(uint64_t chain, uint64_t last_state, size_t terms, double rate, double clip);
struct update_result hash_update(uint64_t gradient); /* every fifth is not finite */
uint64_t hash_updated(uint64_t gradient);            /* the parameters after it was applied */

#endif
