/* Members and partitions of a fleet on a log. test_fleet_same plays it against Redis. */
#include "fleet_commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { TEXT_SIZE = 64 };

/* ---- Members ---- */

static void a_fleet_that_has_never_been(void **unused) {
    (void)unused;
    struct fleet_view seen = view();
    assert_null(seen.stream);
    assert_int_equal(seen.daemon_count, 0);
    assert_int_equal(seen.partition_count, 0);
    fleet_view_free(&seen);
    assert_null(fleet_machine_kind(machine).stream);
    assert_int_equal(do_it("anna", FLEET_COMMAND_RENEW), FLEET_STRANGER);
    assert_int_equal(do_it("anna", FLEET_COMMAND_LEAVE), FLEET_STRANGER);
}

static void a_lease_is_over_in_the_logs_time(void **unused) {
    (void)unused;
    join("bert");
    join("anna");
    uint64_t before = renew("anna");
    now += LEASE - 1;
    assert_int_equal(renew("anna"), before);
    now += 1; /* a message with an earlier time does not turn it back */
    uint64_t after = renew("anna");
    assert_true(after > before);
    now -= LEASE;
    assert_int_equal(renew("anna"), after);
    struct fleet_view seen = view();
    assert_int_equal(seen.daemon_count, 2);
    assert_string_equal(seen.daemons[0].name, "anna");
    assert_true(seen.daemons[0].living);
    assert_true(seen.daemons[0].lease == LEASE / 1000.0);
    assert_false(seen.daemons[1].living);
    fleet_view_free(&seen);
    good(fleet_machine_view(machine, fleet_machine_time(machine) + LEASE, &seen, &error));
    assert_false(seen.daemons[0].living); /* whoever looks later sees more leases over */
    fleet_view_free(&seen);
    assert_true(renew("bert") > after);
    assert_int_equal(do_it("bert", FLEET_COMMAND_LEAVE), FLEET_DONE);
    seen = view();
    assert_int_equal(seen.daemon_count, 1);
    fleet_view_free(&seen);
    assert_int_equal(do_it("bert", FLEET_COMMAND_RENEW), FLEET_STRANGER);
}

/* What is renewed once a lease, or not even that, is lost whenever a machine is busy. */
static void a_lease_is_renewed_several_times(void **unused) {
    (void)unused;
    const double leases[] = {0.5, 1, 10, 86400};
    for (size_t n = 0; n < sizeof leases / sizeof *leases; n++)
        assert_true(fleet_renewal(leases[n]) > 0 && fleet_renewal(leases[n]) <= leases[n] / 4);
    assert_true(fleet_renewal(0.5) == 0.125);
    assert_true(fleet_renewal(10) == 0.2 && fleet_renewal(86400) == 0.2);
}

static enum fleet_verdict join_as(struct fleet_command command) {
    command.number = ++number;
    return apply(&command);
}

static void strangers_are_refused(void **unused) {
    struct fleet_command other = of("bert", FLEET_COMMAND_JOIN);
    (void)unused;
    join("anna");
    other.stream = "t";
    assert_int_equal(join_as(other), FLEET_STREAM);
    other = of("bert", FLEET_COMMAND_JOIN);
    other.partitions = PARTITIONS + 1;
    assert_int_equal(join_as(other), FLEET_PARTITIONS);
    other = of("bert", FLEET_COMMAND_JOIN);
    other.digest = "e";
    assert_int_equal(join_as(other), FLEET_DIGEST);
    other = of("bert", FLEET_COMMAND_JOIN);
    other.every = 11;
    assert_int_equal(join_as(other), FLEET_AVERAGE);
    struct fleet_kind kind = fleet_machine_kind(machine);
    assert_string_equal(kind.stream, "s");
    assert_string_equal(kind.digest, "d");
    assert_int_equal(kind.partitions, PARTITIONS);
    assert_int_equal(kind.every, 10);
    assert_int_equal(do_it("bert", FLEET_COMMAND_RENEW), FLEET_STRANGER);
}

static void a_name_has_another_daemon_once_the_first_is_gone(void **unused) {
    struct fleet_command other = of("anna", FLEET_COMMAND_JOIN);
    (void)unused;
    join("anna");
    uint64_t claim = take("anna", 1, 0);
    other.id = "other";
    assert_int_equal(join_as(other), FLEET_NAMESAKE);
    now += LEASE;
    assert_int_equal(join_as(other), FLEET_DONE);
    assert_true(ended(claim).is_over);
    assert_false(ended(claim).is_known);
    assert_int_equal(do_it("anna", FLEET_COMMAND_RENEW), FLEET_NAMESAKE);
}

static void a_command_counts_once(void **unused) {
    struct fleet_command first, again;
    (void)unused;
    first = of("anna", FLEET_COMMAND_JOIN);
    assert_int_equal(apply(&first), FLEET_DONE);
    assert_int_equal(apply(&first), FLEET_REPEATED);
    join("bert");
    struct fleet_take some = {0, 0};
    again = of("anna", FLEET_COMMAND_TAKE);
    again.takes = &some;
    again.count = 1;
    assert_int_equal(apply(&again), FLEET_DONE);
    uint64_t claim = answer.results[0];
    assert_int_equal(commit("anna", learned(0, claim, 3), true), FLEET_COMMITTED);
    some.claim = claim;
    assert_int_equal(apply(&again), FLEET_REPEATED); /* else anna would have it again */
    assert_int_equal(take("bert", 0, claim), claim + 1);

    first = of("anna", FLEET_COMMAND_JOIN); /* started again: what was under way comes too late */
    again = of("anna", FLEET_COMMAND_LEAVE);
    first.run = "second";
    assert_int_equal(apply(&first), FLEET_DONE);
    assert_int_equal(apply(&again), FLEET_STALE);
    struct fleet_view seen = view();
    assert_true(seen.daemons[0].living);
    fleet_view_free(&seen);
}

static void what_is_said_of_a_daemon(void **unused) {
    struct fleet_command command = of("anna", FLEET_COMMAND_RENEW);
    (void)unused;
    join("anna");
    command.info = "{\"x\":\"\xC3\xA4 \\\"\"}";
    command.number = ++number;
    assert_int_equal(apply(&command), FLEET_DONE);
    renew("anna"); /* without: as before */
    struct fleet_view seen = view();
    assert_string_equal(seen.daemons[0].info, command.info);
    fleet_view_free(&seen);
}

static void drained_and_back(void **unused) {
    struct fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .target = "anna"};
    (void)unused;
    assert_int_equal(apply(&command), FLEET_ABSENT);
    join("anna");
    uint64_t before = fleet_machine_version(machine);
    assert_int_equal(apply(&command), FLEET_DONE);
    assert_true(fleet_machine_version(machine) > before);
    struct fleet_view seen = view();
    assert_true(seen.daemons[0].draining);
    fleet_view_free(&seen);
    command.kind = FLEET_COMMAND_REBALANCE;
    assert_int_equal(apply(&command), FLEET_DONE);
    seen = view();
    assert_false(seen.daemons[0].draining);
    fleet_view_free(&seen);
}

/* ---- Partitions ---- */

static void a_partition_is_one_daemons(void **unused) {
    (void)unused;
    join("anna");
    join("bert");
    uint64_t claim = take("anna", 2, 0);
    assert_int_equal(claim, 1);
    assert_int_equal(take("bert", 2, 0), 0);     /* not as it was seen, */
    assert_int_equal(take("bert", 2, claim), 0); /* and not free */
    assert_int_equal(take("bert", PARTITIONS, 0), 0);
    struct fleet_view seen = view();
    assert_int_equal(seen.partitions[2].owner, 0);
    assert_int_equal(seen.partitions[2].claim, claim);
    assert_int_equal(seen.partitions[3].owner, -1);
    fleet_view_free(&seen);
    now += LEASE;
    assert_int_equal(take("anna", 3, 0), 0); /* whose own lease is over takes nothing */
    renew("bert");
    assert_int_equal(take("bert", 2, claim + 1), 0); /* there was no such claim */
    assert_int_equal(take("bert", 2, claim), claim + 1);
    assert_true(ended(claim).is_over);
    assert_false(ended(claim + 1).is_over);
}

static struct fleet_learned with_states(struct fleet_learned learned, uint64_t serial,
                                        uint64_t rows, uint64_t streams, bool whole) {
    learned.serial = serial;
    learned.rows = rows;
    learned.streams = streams;
    learned.whole = whole;
    snprintf(learned.where, sizeof learned.where, "at %d", (int)serial);
    return learned;
}

static void are_published(size_t partition, const char *list) {
    char text[TEXT_SIZE * FLEET_PUBLICATIONS_MAX] = "";
    size_t count, size = 0;
    const struct fleet_publication *states = fleet_machine_states(machine, partition, &count);
    for (size_t n = 0; n < count; n++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s; ", states[n].where);
    assert_string_equal(text, list);
}

static void states_are_whole_or_added(void **unused) {
    (void)unused;
    join("anna");
    uint64_t claim = take("anna", 0, 0);
    struct fleet_learned next = learned(0, claim, 1);
    assert_int_equal(commit("anna", with_states(next, 1, 5, 5, true), false), FLEET_COMMITTED);
    assert_int_equal(commit("anna", with_states(next, 2, 2, 6, false), false), FLEET_COMMITTED);
    assert_int_equal(commit("anna", with_states(next, 2, 2, 6, false), false), FLEET_COMMITTED);
    are_published(0, "at 1; at 2; "); /* the answer was lost: once all the same */
    assert_int_equal(commit("anna", with_states(next, 3, 2, 9, false), false), FLEET_INCOMPLETE);
    assert_int_equal(commit("anna", with_states(next, 3, 2, 3, false), false), FLEET_INCOMPLETE);
    assert_int_equal(commit("anna", with_states(next, 3, 2, 3, true), false), FLEET_INCOMPLETE);
    next.streams = 6; /* the states as before */
    assert_int_equal(commit("anna", next, false), FLEET_COMMITTED);
    are_published(0, "at 1; at 2; ");
    assert_int_equal(commit("anna", with_states(next, 4, 0, 6, false), false), FLEET_COMMITTED);
    are_published(0, "at 1; at 2; ");
    assert_int_equal(commit("anna", with_states(next, 5, 4, 4, true), false), FLEET_COMMITTED);
    are_published(0, "at 5; ");
    for (uint64_t n = 6; n < 5 + FLEET_PUBLICATIONS_MAX; n++)
        assert_int_equal(commit("anna", with_states(next, n, 1, 4, false), false), FLEET_COMMITTED);
    assert_int_equal(commit("anna", with_states(next, 99, 1, 4, false), false), FLEET_INCOMPLETE);
    assert_int_equal(commit("anna", with_states(next, 99, 0, 0, true), true), FLEET_COMMITTED);
    are_published(0, "");
    struct fleet_claim one = {.partition = 0};
    assert_true(fleet_machine_claim(machine, &one));
    assert_true(one.committed);
    assert_int_equal(one.states, 0);
    one.partition = PARTITIONS;
    assert_false(fleet_machine_claim(machine, &one));
}

static void handed_over_in_order(void **unused) {
    struct fleet_claim claim = {.partition = 1};
    (void)unused;
    join("anna");
    join("bert");
    uint64_t mine = take("anna", 1, 0);
    for (int again = 0; again < 2; again++)
        assert_int_equal(commit("anna", learned(1, mine, 20), true), FLEET_COMMITTED);
    assert_int_equal(commit("anna", learned(1, mine, 21), true), FLEET_REFUSED);
    assert_int_equal(commit("anna", learned(1, mine, 20), false), FLEET_REFUSED);
    assert_int_equal(commit("anna", learned(PARTITIONS, mine, 20), false), FLEET_REFUSED);
    uint64_t theirs = take("bert", 1, mine);
    assert_true(theirs > mine);
    assert_true(fleet_machine_claim(machine, &claim));
    assert_int_equal(claim.claim, theirs);
    assert_int_equal(claim.offset.epoch, 7);
    assert_int_equal(claim.offset.sequence, 20);
    struct fleet_ended over = ended(mine);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 20);
    struct fleet_command settle = of("anna", FLEET_COMMAND_SETTLE);
    settle.settled = &mine;
    settle.count = 1;
    assert_int_equal(apply(&settle), FLEET_DONE);
    assert_false(ended(mine).is_over);
}

static void the_dead_one_is_refused(void **unused) {
    (void)unused;
    join("anna");
    uint64_t first = take("anna", 0, 0), second = take("anna", 1, 0);
    assert_int_equal(commit("anna", learned(0, first, 10), false), FLEET_COMMITTED);
    now += LEASE;
    join("bert");
    assert_true(take("bert", 0, first) > second);
    assert_int_equal(commit("anna", learned(0, first, 30), false), FLEET_REFUSED);
    assert_int_equal(commit("anna", learned(1, second, 30), false), FLEET_COMMITTED);
    assert_int_equal(commit("anna", learned(0, first, 30), true), FLEET_REFUSED);
    assert_int_equal(ended(first).offset.sequence, 10);
    assert_false(ended(second).is_over);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fleet_that_has_never_been, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_lease_is_over_in_the_logs_time, machine_begin,
                                        machine_end),
        cmocka_unit_test(a_lease_is_renewed_several_times),
        cmocka_unit_test_setup_teardown(strangers_are_refused, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_name_has_another_daemon_once_the_first_is_gone,
                                        machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_command_counts_once, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(what_is_said_of_a_daemon, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(drained_and_back, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_partition_is_one_daemons, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(states_are_whole_or_added, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(handed_over_in_order, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(the_dead_one_is_refused, machine_begin, machine_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
