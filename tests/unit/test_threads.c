/* The pool of threads: it plays every part of every piece once, with any number of sleeping
   threads; and the properties of its threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/error.h"
#include "common/threads.h"
#include "engine/engine_threads.h"

enum { PIECES = 300, THREADS = 4 };

struct counted {
    atomic_uint times[THREADS_PARTS_MAX];
    struct threads *threads; /* to run again within a part; or NULL */
    pthread_t caller;
    atomic_uint elsewhere; /* parts played by other threads than the caller */
};

static struct threads *opened(size_t count, const int *cpus) {
    struct threads *threads;
    struct error error;
    if (threads_open(&threads, count, cpus, &error))
        fail_msg("%s", error.text);
    return threads;
}

static void count(void *context, size_t part) {
    struct counted *c = context;
    atomic_fetch_add(&c->times[part], 1);
    if (!pthread_equal(pthread_self(), c->caller))
        atomic_fetch_add(&c->elsewhere, 1);
}

static void check_counts(struct counted *c, size_t parts, unsigned times) {
    for (size_t part = 0; part < THREADS_PARTS_MAX; part++)
        assert_int_equal(atomic_load(&c->times[part]), part < parts ? times : 0);
}

static void doze(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void test_each_part_is_played_once(void **state) {
    static const size_t counts[] = {1, 2, 3, 8, THREADS_MAX};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        struct threads *threads = opened(counts[n], NULL);
        assert_int_equal(threads_count(threads), counts[n]);
        static const size_t parts[] = {0, 1, 2, 5, 8, THREADS_PARTS_MAX};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            struct counted counted = {.caller = pthread_self()};
            for (int piece = 0; piece < PIECES; piece++)
                threads_run(threads, count, &counted, parts[k]);
            check_counts(&counted, parts[k], PIECES);
        }
        threads_close(&threads);
        assert_null(threads);
    }
}

/* The pause is long enough for all threads to sleep. */
static void test_those_who_sleep_are_woken(void **state) {
    enum { PAUSE = 300000, ROUNDS = 50 };
    struct threads *threads = opened(THREADS, NULL);
    struct counted counted = {.caller = pthread_self()};
    for (int n = 0; n < ROUNDS; n++) {
        threads_run(threads, count, &counted, THREADS);
        doze(PAUSE);
    }
    check_counts(&counted, THREADS, ROUNDS);
    threads_close(&threads);
}

/* Two parts that wait for each other are played at once. */
static void meet(void *context, size_t part) {
    (void)part;
    atomic_uint *there = context;
    atomic_fetch_add(there, 1);
    while (atomic_load(there) < THREADS)
        sched_yield();
}

static void test_parts_are_played_at_once(void **state) {
    struct threads *threads = opened(THREADS, NULL);
    atomic_uint there = 0;
    threads_run(threads, meet, &there, THREADS);
    assert_int_equal(atomic_load(&there), THREADS);
    threads_close(&threads);
}

static void ask_again(void *context, size_t part) {
    struct counted *c = context;
    struct counted inner = {.caller = pthread_self()};
    threads_run(c->threads, count, &inner, THREADS);
    check_counts(&inner, THREADS, 1);
    assert_int_equal(atomic_load(&inner.elsewhere), 0);
    atomic_fetch_add(&c->times[part], 1);
}

static void test_a_part_has_no_threads_of_its_own(void **state) {
    struct counted counted = {.threads = opened(THREADS, NULL)};
    threads_run(counted.threads, ask_again, &counted, THREADS);
    check_counts(&counted, THREADS, 1);
    threads_close(&counted.threads);
}

static void test_without_a_pool(void **state) {
    struct threads *none = NULL;
    struct counted counted = {.caller = pthread_self()};
    assert_int_equal(threads_count(none), 1);
    threads_run(none, count, &counted, THREADS);
    check_counts(&counted, THREADS, 1);
    assert_int_equal(atomic_load(&counted.elsewhere), 0);
    threads_close(&none);
}

/* Observations of the threads that meet. */
struct seen {
    atomic_uint there;
    pthread_t caller;
    sigset_t signals[THREADS];
    char names[THREADS][16];
    float products[THREADS];
    int cpus[THREADS]; /* number of CPUs that each may use */
};

static void look(void *context, size_t part) {
    struct seen *seen = context;
    volatile float tiny = 1e-38F, less = 0.1F;
    cpu_set_t cpus;
    meet(&seen->there, part);
    if (pthread_equal(pthread_self(), seen->caller))
        return;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->signals[part]);
    pthread_getname_np(pthread_self(), seen->names[part], sizeof seen->names[part]);
    seen->products[part] = tiny * less;
    pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    seen->cpus[part] = CPU_COUNT(&cpus);
}

static void test_a_thread_of_the_pool(void **state) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    static const char name[] = "runnel-learn-";
    struct threads *threads = opened(THREADS, NULL);
    struct seen seen = {.caller = pthread_self()};
    size_t others = 0;
    threads_run(threads, look, &seen, THREADS);
    for (size_t part = 0; part < THREADS; part++) {
        if (!*seen.names[part])
            continue;
        others++;
        assert_memory_equal(seen.names[part], name, strlen(name));
        assert_true(seen.products[part] == 0.0F);
        for (size_t n = 0; n < sizeof signals / sizeof *signals; n++)
            assert_true(sigismember(&seen.signals[part], signals[n]));
    }
    assert_int_equal(others, THREADS - 1);
    threads_close(&threads);
}

/* Each thread has one CPU, the caller too; new threads can be unpinned. All may share one CPU. */
static void test_pinned(void **state) {
    int cpus[THREADS_CPUS_MAX], pins[THREADS];
    size_t available = threads_cpus(cpus);
    cpu_set_t own;
    for (size_t n = 0; n < THREADS; n++)
        pins[n] = cpus[n % available];
    struct threads *threads = opened(THREADS, pins);
    struct seen seen = {.caller = pthread_self()};
    threads_pin_caller(threads);
    threads_run(threads, look, &seen, THREADS);
    for (size_t part = 0; part < THREADS; part++)
        if (*seen.names[part])
            assert_int_equal(seen.cpus[part], 1);
    pthread_getaffinity_np(pthread_self(), sizeof own, &own);
    assert_int_equal(CPU_COUNT(&own), 1);
    assert_true(CPU_ISSET(cpus[0], &own));
    threads_unpin();
    pthread_getaffinity_np(pthread_self(), sizeof own, &own);
    assert_int_equal(CPU_COUNT(&own), available);
    threads_close(&threads);
}

static void test_a_cpu_that_is_not_there(void **state) {
    struct threads *threads;
    struct error error;
    const int nowhere[] = {THREADS_CPUS_MAX - 1, 0};
    cpu_set_t cpus;
    pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    if (CPU_ISSET(nowhere[0], &cpus))
        skip();
    assert_int_equal(threads_open(&threads, 2, nowhere, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "CPU 1023 is not available"));
    assert_null(threads);
}

/* The parts cover all pieces, as equally as possible. */
static void test_shares(void **state) {
    for (size_t pieces = 0; pieces < 30; pieces++)
        for (size_t parts = 1; parts < 10; parts++) {
            assert_int_equal(threads_share(pieces, 0, parts), 0);
            assert_int_equal(threads_share(pieces, parts, parts), pieces);
            for (size_t part = 0; part < parts; part++)
                assert_in_range(threads_share(pieces, part + 1, parts) -
                                    threads_share(pieces, part, parts),
                                pieces / parts, (pieces + parts - 1) / parts);
        }
}

static void test_how_many_there_are(void **state) {
    static const struct {
        size_t networks, cpus;
        double quota;
        size_t threads;
    } cases[] = {{4, 8, INFINITY, 4}, {4, 4, INFINITY, 3}, {4, 1, INFINITY, 1},
                 {0, 8, INFINITY, 1}, {64, 256, 3.9, 2},   {64, 256, 1.5, 1},
                 {64, 256, 0.2, 1},   {64, 4, 100, 3},     {64, 256, 256, 64}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        assert_int_equal(engine_threads_default(cases[n].networks, cases[n].cpus, cases[n].quota),
                         cases[n].threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_is_played_once),
        cmocka_unit_test(test_those_who_sleep_are_woken),
        cmocka_unit_test(test_parts_are_played_at_once),
        cmocka_unit_test(test_a_part_has_no_threads_of_its_own),
        cmocka_unit_test(test_without_a_pool),
        cmocka_unit_test(test_a_thread_of_the_pool),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_a_cpu_that_is_not_there),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_how_many_there_are),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
