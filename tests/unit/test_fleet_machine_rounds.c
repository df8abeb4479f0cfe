/* Rounds of averages of a fleet on a log. */
#include "fleet_commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static void a_round_is_closed_when_all_are_there(void **unused) {
    char where[FLEET_WHERE_SIZE];
    (void)unused;
    begin_rounds();
    assert_int_equal(arrive("bert", 1), 1);
    assert_int_equal(state_of(1), FLEET_ROUND_OPEN);
    assert_false(fleet_machine_where(machine, 1, "bert", where));
    close_round("carl", 1); /* not yet */
    assert_int_equal(arrive("anna", 1), 1);
    is_closed(1, "anna\nbert\n");
    assert_true(fleet_machine_where(machine, 1, "bert", where));
    assert_string_equal(where, "bert's 1");
    assert_false(fleet_machine_where(machine, 1, "ber", where));
    assert_false(fleet_machine_where(machine, 1, "carl", where));
    assert_int_equal(arrive("anna", 1), 1); /* the answer was lost */
    assert_int_equal(arrive("anna", 2), 2);
    assert_int_equal(state_of(2), FLEET_ROUND_OPEN);
    assert_int_equal(state_of(3), FLEET_ROUND_OPEN);
    assert_int_equal(state_of(0), FLEET_ROUND_OPEN);
}

static void who_passes_is_not_waited_for(void **unused) {
    (void)unused;
    begin_rounds();
    struct fleet_command pass = of("bert", FLEET_COMMAND_PASS);
    pass.round = 2; /* it is not open */
    assert_int_equal(apply(&pass), FLEET_DONE);
    arrive("anna", 1);
    assert_int_equal(state_of(1), FLEET_ROUND_OPEN);
    pass.number = ++number;
    pass.round = 1;
    assert_int_equal(apply(&pass), FLEET_DONE);
    is_closed(1, "anna\n");
    arrive("anna", 2);
    assert_int_equal(state_of(2), FLEET_ROUND_OPEN); /* the next one waits for it again */
}

static void a_round_does_not_wait_for_ever(void **unused) {
    (void)unused;
    begin_rounds();
    arrive("anna", 1);
    now += LEASE / 2;
    renew("anna");
    renew("bert");
    renew("carl");
    close_round("anna", 1);
    assert_int_equal(state_of(1), FLEET_ROUND_OPEN);
    now += LEASE / 2;
    assert_int_equal(state_of(1), FLEET_ROUND_DUE);
    close_round("carl", 1);
    is_closed(1, "anna\n");
    assert_int_equal(arrive("bert", 1), 2);
    now += LEASE - 1;
    assert_int_equal(state_of(2), FLEET_ROUND_DUE); /* nobody waits for the dead */
    renew("bert");
    close_round("bert", 2);
    is_closed(2, "bert\n");
    now += 1;
    close_round("bert", 3); /* in which nobody is */
    assert_int_equal(state_of(3), FLEET_ROUND_OPEN);
}

static void rounds_of_long_ago_are_forgotten(void **unused) {
    enum { ROUNDS = 250, KEPT = 100 };
    (void)unused;
    join("anna");
    for (uint64_t n = 1; n <= ROUNDS; n++)
        assert_int_equal(arrive("anna", n), n);
    is_closed(ROUNDS, "anna\n");
    is_closed(ROUNDS - KEPT + 1, "anna\n");
    assert_int_equal(state_of(ROUNDS - KEPT), FLEET_ROUND_OPEN);
}

/* What it has ends; it is forgotten only once the round is over, too. */
static void who_leaves_in_the_middle(void **unused) {
    (void)unused;
    begin_rounds();
    assert_int_equal(commit("anna", learned(0, 1, 5), false), FLEET_COMMITTED);
    arrive("anna", 1);
    assert_int_equal(do_it("anna", FLEET_COMMAND_LEAVE), FLEET_DONE);
    assert_true(ended(1).is_known);
    assert_int_equal(ended(1).offset.sequence, 5);
    struct fleet_view seen = view();
    assert_int_equal(seen.daemon_count, 2);
    assert_int_equal(seen.partitions[0].owner, -1);
    assert_int_equal(seen.partitions[0].claim, 1);
    fleet_view_free(&seen);
    assert_int_equal(take("carl", 0, 1), 3);
    arrive("carl", 1);
    arrive("bert", 1);
    is_closed(1, "anna\nbert\ncarl\n");
    assert_int_equal(do_it("anna", FLEET_COMMAND_RENEW), FLEET_STRANGER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_round_is_closed_when_all_are_there, machine_begin,
                                        machine_end),
        cmocka_unit_test_setup_teardown(who_passes_is_not_waited_for, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_round_does_not_wait_for_ever, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(rounds_of_long_ago_are_forgotten, machine_begin,
                                        machine_end),
        cmocka_unit_test_setup_teardown(who_leaves_in_the_middle, machine_begin, machine_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
