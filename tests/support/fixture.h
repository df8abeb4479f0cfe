/* An engine with a small random model, called directly: operations are gathered into a plan,
   whose numbers a test can read. An error of the engine fails the running test. */
#ifndef RUNNEL_TESTS_FIXTURE_H
#define RUNNEL_TESTS_FIXTURE_H

#include "engine/engine.h"
#include "model/model.h"

enum { FIXTURE_OPERATIONS = 256, FIXTURE_NUMBERS = 1 << 17, FIXTURES_TOGETHER = 80 };

struct fixture {
    struct model model;
    struct engine_options options;
    const struct engine_ops *ops;
    struct engine *engine;
    size_t inputs; /* numbers in x */
    uint64_t random;

    /* The plan under construction, and the results of the last fixture_play. */
    struct plan plan;
    struct operation operations[FIXTURE_OPERATIONS];
    union value x[FIXTURE_NUMBERS], y[FIXTURE_NUMBERS];
    double losses[FIXTURE_OPERATIONS];
    float scored[FIXTURE_NUMBERS], outputs[FIXTURE_NUMBERS];
    struct update_result updates[FIXTURE_OPERATIONS];
    struct layer_statistics measures[FIXTURE_OPERATIONS];
};

/* Whether a configuration may have these layers, and the engine under test plays them. */
bool fixture_takes(const struct architecture *architecture);

/* The engine under test (under_test.h) with random parameters: gains and running variances away
   from 1, biases and running means away from 0; the least squares of a solved output start with
   its random weights. If the architecture leaves them 0, norm_momentum is 1/4 and norm_steps 5. */
void fixture_open(struct fixture **fixture, const struct architecture *architecture,
                  const struct optimizer *optimizer, size_t window, size_t slots, uint64_t seed);
void fixture_open_with(struct fixture **fixture, const struct architecture *architecture,
                       const struct engine_options *options, uint64_t seed);
void fixture_close(struct fixture **fixture);

/* An optimizer with the defaults of its keys, and with its moments. */
struct optimizer fixture_optimizer(enum optimizer_id id, double rate);

/* Uniform in (-1, 1). */
double fixture_random(struct fixture *fixture);

/* Fills x (inputs,) or y (target_size,). Some numbers of real targets are not observed, but
   never all of one. */
void fixture_random_input(struct fixture *fixture, union value *x);
void fixture_random_target(struct fixture *fixture, union value *y);
void fixture_random_target_of(struct fixture *fixture, size_t head, union value *y);

void fixture_forget(struct fixture *fixture, size_t slot);
void fixture_step(struct fixture *fixture, size_t slot, size_t position, const union value *x);
void fixture_score(struct fixture *fixture, size_t slot, size_t position, const union value *y,
                   bool learn);
void fixture_score_horizon(struct fixture *fixture, size_t slot, size_t position, size_t horizon,
                           const union value *y);
void fixture_solve(struct fixture *fixture, size_t slot, const union value *y);
void fixture_update(struct fixture *fixture, size_t slot, size_t position, size_t length,
                    size_t closed, size_t terms, bool fresh);
void fixture_advance(struct fixture *fixture, size_t slot, size_t position, size_t closed,
                     bool fresh);
void fixture_measure(struct fixture *fixture, size_t slot);

/* Plays the gathered plan, and starts an empty one. */
void fixture_play(struct fixture *fixture, double rate, double clip);

/* The same for several, with an engine that plays them together; those with an empty plan are
   left out. */
void fixture_play_together(struct fixture *const *fixtures, size_t count, const double *rates,
                           const double *clips);

/* Copies one block of all tensors, (model.parameters,), out of or into the engine. */
void fixture_read(struct fixture *fixture, enum engine_block block, float *values);
void fixture_write(struct fixture *fixture, enum engine_block block, const float *values);

/* A copy in double, (count,), to be freed. */
double *doubles(const float *values, size_t count);

/* The norms of a and of a - b, both (count,). */
double norm(const double *a, size_t count);
double distance(const double *a, const double *b, size_t count);

#endif
