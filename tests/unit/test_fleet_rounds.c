/* Rounds of averages at a real Redis: who is in them, and when they are closed. */
#include "fleet_pair.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "redis_server.h"

/* Both have a partition. */
static int begin(void **unused) {
    struct fleet_claim claim;
    pair_begin_joined(unused);
    take(a, &claim, 0, 1);
    take(b, &claim, 1, 1);
    return 0;
}

/* Its round. */
static uint64_t arrive(struct fleet_link *link, uint64_t serial, const char *text) {
    uint64_t round;
    good(link->ops->arrive(link, serial, text, strlen(text), &round, &error));
    return round;
}

/* Who is in it, "" while it is open. */
static void is_round(struct fleet_link *link, uint64_t round, const char *expected) {
    char *names;
    good(link->ops->round(link, round, &names, &error));
    assert_string_equal(names ? names : "", expected);
    free(names);
}

static void is_given(struct fleet_link *link, uint64_t round, const char *name, const char *text) {
    void *bytes;
    size_t size;
    good(link->ops->parameters(link, round, name, &bytes, &size, &error));
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void a_round_is_closed_when_all_are_there(void **unused) {
    void *bytes;
    size_t size;
    (void)unused;
    assert_int_equal(arrive(b, 1, "of b"), 1);
    is_round(b, 1, "");
    assert_int_equal(arrive(a, 1, "of a"), 1);
    is_round(b, 1, "anna\nbert\n");
    assert_int_equal(arrive(a, 1, "of a"), 1); /* the answer was lost */
    is_round(a, 1, "anna\nbert\n");
    is_given(a, 1, "bert", "of b");
    is_given(b, 1, "anna", "of a");
    assert_int_equal(arrive(a, 2, "a 2"), 2);
    assert_int_equal(a->ops->parameters(a, 2, "bert", &bytes, &size, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
}

/* A daemon that was started again has forgotten in which rounds it was: it is in the open one. */
static void a_round_that_is_over_does_not_come_again(void **unused) {
    (void)unused;
    arrive(a, 1, "of a");
    arrive(b, 1, "of b");
    is_round(a, 1, "anna\nbert\n");
    assert_int_equal(arrive(a, 100, "new"), 2);
    is_given(b, 2, "anna", "new");
}

static void a_round_does_not_wait_for_ever(void **unused) {
    (void)unused;
    arrive(a, 1, "of a");
    is_round(a, 1, "");
    redis_do("HSET runnel:{g}:fleet since 1");
    is_round(a, 1, "anna\n");
    assert_int_equal(arrive(b, 1, "late"), 2); /* it is in the next one */
    is_round(b, 2, "");
    end_lease("anna");
    is_round(b, 2, "bert\n"); /* nobody waits for the dead */
}

static void who_passes_is_not_waited_for(void **unused) {
    (void)unused;
    good(a->ops->pass(a, 1, &error));
    assert_int_equal(arrive(b, 1, "of b"), 1);
    is_round(b, 1, "bert\n");
    assert_int_equal(arrive(b, 2, "of b"), 2); /* that was for one round */
    good(a->ops->pass(a, 1, &error));          /* and is over now */
    is_round(b, 2, "");
    good(a->ops->pass(a, 2, &error));
    assert_int_equal(arrive(a, 1, "of a"), 2); /* but it can come all the same */
    is_round(b, 2, "anna\nbert\n");
}

/* Who has no partition is not waited for, whoever gives and takes. */
static void who_has_nothing_is_not_waited_for(void **unused) {
    struct fleet_view view = look(a);
    struct fleet_claim theirs = {.partition = 1, .claim = view.partitions[1].claim}, both[2];
    struct fleet_commit one = learned(&theirs, 1);
    (void)unused;
    fleet_view_free(&view);
    arrive(a, 1, "of a");
    is_round(a, 1, "");
    commit(b, &one, true);
    is_round(a, 1, "anna\n");
    arrive(a, 2, "of a");
    take(b, both, 1, 2);
    is_round(a, 2, "");
    good(b->ops->leave(b, &error));
    is_round(a, 2, "anna\n");
    good(b->ops->join(b, "{}", &error));
    take(b, both, 1, 2);
    arrive(a, 3, "of a");
    end_lease("bert");
    struct fleet_claim mine;
    take(a, &mine, 1, 1);
    is_round(a, 3, "anna\n");
    uint64_t version;
    good(b->ops->renew(b, "{}", &version, &error)); /* it still has one of two */
    arrive(a, 4, "of a");
    is_round(a, 4, "");
}

#define test(name) cmocka_unit_test_setup_teardown(name, begin, pair_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_round_is_closed_when_all_are_there), test(a_round_that_is_over_does_not_come_again),
        test(a_round_does_not_wait_for_ever),       test(who_passes_is_not_waited_for),
        test(who_has_nothing_is_not_waited_for),
    };
    return PAIR_RUN(tests);
}
