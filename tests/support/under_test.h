/* The engine of a test: the CPU engine with each of its instruction sets in turn, widest first,
   then the CUDA engine of the module in $RUNNEL_CUDA_MODULE, if set. `make check` sets the one
   that runs on the CPU (tests/hostcuda); users with a GPU set the real one. */
#ifndef RUNNEL_TESTS_UNDER_TEST_H
#define RUNNEL_TESTS_UNDER_TEST_H

#include <stdbool.h>

#include "engine/engine.h"

/* Selects the next engine of machine and build, the first at the first call: its name; NULL
   after the last. Before the first call it is the users' CPU engine. */
const char *under_test_next(void);

/* The current engine, and the `device` to open it with. Fails the running test if it cannot be
   loaded. */
const struct engine_ops *under_test_ops(void);
const char *under_test_device(void);
bool under_test_is_cpu(void);

/* Uses that device from here on, such as "cuda:1". */
void under_test_use(const char *device);

/* Skips the CUDA engine in a build with sanitizers, where it takes minutes: for tests of code
   above engines. */
void under_test_above_engines(void);

/* Whether a case of a test's matrix is played: all in a normal build; in a build with sanitizers
   about a third, always the same, with only the widest instruction set. */
bool under_test_plays(void);

/* Runs a group of cmocka tests once per engine; returns the number of failures, or 1 without an
   engine. */
#define under_test_run(tests)                                                                      \
    ({                                                                                             \
        int failed_ = 0, engines_ = 0;                                                             \
        for (const char *name_; (name_ = under_test_next()); engines_++)                           \
            failed_ += cmocka_run_group_tests_name(name_, tests, NULL, NULL);                      \
        engines_ ? failed_ : 1;                                                                    \
    })

#endif
