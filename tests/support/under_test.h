/* The engine that a test opens: the CPU engine with each of its instruction sets in turn, widest
   first, then the CUDA engine of the module that $RUNNEL_CUDA_MODULE names, when it names one.
   `make check` names the one that plays on the CPU (tests/hostcuda); somebody with a GPU names the
   real one. */
#ifndef RUNNEL_TESTS_UNDER_TEST_H
#define RUNNEL_TESTS_UNDER_TEST_H

#include <stdbool.h>

#include "engine/engine.h"

/* Select the next engine that machine and build have, the first at the first call: its name; NULL
   after the last. Before the first call it is the CPU engine as users have it. */
const char *under_test_next(void);

/* The engine at hand, and the `device` to open it with. Fails the running test when it cannot be
   loaded. */
const struct engine_ops *under_test_ops(void);
const char *under_test_device(void);
bool under_test_is_cpu(void);

/* From here on that device, such as "cuda:1". */
void under_test_use(const char *device);

/* For tests of what stands above engines: leave the CUDA engine out where it would take minutes and
   show nothing that the tests of engines do not, which is in a build with sanitizers. */
void under_test_above_engines(void);

/* Whether a case of a test's matrix is played: all of them as shipped, and about a third, the same
   in each run, in a build with sanitizers, which also has only the widest instruction set. */
bool under_test_plays(void);

/* Run a group of cmocka tests once per engine; returns how many failed, and 1 when none could be
   had. */
#define under_test_run(tests)                                                                      \
    ({                                                                                             \
        int failed_ = 0, engines_ = 0;                                                             \
        for (const char *name_; (name_ = under_test_next()); engines_++)                           \
            failed_ += cmocka_run_group_tests_name(name_, tests, NULL, NULL);                      \
        engines_ ? failed_ : 1;                                                                    \
    })

#endif
