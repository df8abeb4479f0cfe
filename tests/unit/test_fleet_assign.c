/* Assignment of partitions: equal shares with the fewest moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/fleet_link.h"
#include "common/error.h"

enum { PARTITIONS_MAX = 40, DAEMONS_MAX = 9, CASES = 20000 };

static uint64_t seed = 1;

static size_t below(size_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % limit;
}

static void count(size_t partitions, const int *to, size_t has[DAEMONS_MAX]) {
    memset(has, 0, DAEMONS_MAX * sizeof *has);
    for (size_t p = 0; p < partitions; p++)
        if (to[p] != FLEET_NOBODY)
            has[to[p]]++;
}

/* Partitions above the share of their daemon must move; some daemons may have one more. */
static size_t moves_needed(size_t partitions, size_t daemons, const size_t *has) {
    size_t least = partitions / daemons, more = partitions % daemons, needed = 0;
    for (size_t d = 0; d < daemons; d++)
        if (has[d] > least) {
            bool one_more = more > 0;
            more -= one_more;
            needed += has[d] - least - one_more;
        }
    return needed;
}

static void check(size_t partitions, size_t daemons, const int *owner) {
    int to[PARTITIONS_MAX];
    size_t room[2 * DAEMONS_MAX], had[DAEMONS_MAX], has[DAEMONS_MAX], moved = 0;
    fleet_assign(partitions, daemons, owner, to, room);
    count(partitions, owner, had);
    count(partitions, to, has);
    for (size_t p = 0; p < partitions; p++) {
        assert_in_range(to[p], 0, daemons - 1);
        moved += owner[p] != FLEET_NOBODY && owner[p] != to[p];
    }
    for (size_t d = 0; d < daemons; d++)
        assert_in_range(has[d], partitions / daemons, (partitions + daemons - 1) / daemons);
    assert_int_equal(moved, moves_needed(partitions, daemons, had));
}

static void fair_with_few_moves(void **state) {
    for (size_t n = 0; n < CASES; n++) {
        int owner[PARTITIONS_MAX];
        size_t partitions = 1 + below(PARTITIONS_MAX), daemons = 1 + below(DAEMONS_MAX);
        for (size_t p = 0; p < partitions; p++)
            owner[p] = (int)below(daemons + 1) - 1;
        check(partitions, daemons, owner);
    }
}

/* While only some daemons have released their surplus, all still compute the same assignment, and
   nobody takes another's partitions. */
static void the_same_end_on_the_way(void **state) {
    for (size_t n = 0; n < CASES; n++) {
        int owner[PARTITIONS_MAX], end[PARTITIONS_MAX], to[PARTITIONS_MAX];
        size_t room[2 * DAEMONS_MAX];
        size_t partitions = 1 + below(PARTITIONS_MAX), daemons = 1 + below(DAEMONS_MAX);
        for (size_t p = 0; p < partitions; p++)
            owner[p] = (int)below(daemons + 1) - 1;
        for (size_t step = 0; step < 3 * partitions; step++) {
            size_t p = below(partitions);
            fleet_assign(partitions, daemons, owner, to, room);
            if (owner[p] == FLEET_NOBODY)
                owner[p] = to[p];
            else if (owner[p] != to[p])
                owner[p] = FLEET_NOBODY;
        }
        bool changed = true;
        for (size_t rounds = 0; changed; rounds++) {
            changed = false;
            assert_in_range(rounds, 0, 3);
            fleet_assign(partitions, daemons, owner, to, room);
            for (size_t p = 0; p < partitions; p++)
                if (owner[p] != to[p]) {
                    owner[p] = owner[p] == FLEET_NOBODY ? to[p] : FLEET_NOBODY;
                    changed = true;
                }
        }
        fleet_assign(partitions, daemons, owner, end, room);
        check(partitions, daemons, owner);
        assert_memory_equal(end, owner, partitions * sizeof *end);
    }
}

static void nobody(void **state) {
    int owner[] = {FLEET_NOBODY, FLEET_NOBODY};
    size_t room[1];
    fleet_assign(2, 0, owner, owner, room);
    assert_int_equal(owner[0], FLEET_NOBODY);
    assert_int_equal(owner[1], FLEET_NOBODY);
}

static void known(void **state) {
    int alone[] = {0, 0, 0, 0}, joined[] = {0, 0, 1, 1}, to[4];
    size_t room[2 * 2];
    fleet_assign(4, 2, alone, to, room);
    assert_memory_equal(to, joined, sizeof to);
    fleet_assign(4, 2, joined, joined, room);
    assert_memory_equal(to, joined, sizeof to);
}

/* 0 is drained, 1 is dead: their partitions go to the others. */
static void those_who_take_part(void **state) {
    struct fleet_daemon daemons[] = {
        {.living = true, .draining = true}, {.living = false}, {.living = true}, {.living = true}};
    struct fleet_partition partitions[6] = {{.owner = 0}, {.owner = 0},  {.owner = 1},
                                            {.owner = 3}, {.owner = -1}, {.owner = 3}};
    struct fleet_view view = {
        .daemon_count = 4, .daemons = daemons, .partition_count = 6, .partitions = partitions};
    struct error error;
    size_t has[4] = {0};
    assert_int_equal(fleet_assign_view(&view, &error), 0);
    for (size_t p = 0; p < 6; p++)
        has[partitions[p].to == 3 ? 3 : 2] += partitions[p].to >= 2;
    assert_int_equal(has[2], 3);
    assert_int_equal(has[3], 3);
    assert_true(partitions[3].to == 3 && partitions[5].to == 3);
    daemons[2].draining = true;
    daemons[3].living = false;
    assert_int_equal(fleet_assign_view(&view, &error), 0);
    for (size_t p = 0; p < 6; p++)
        assert_int_equal(partitions[p].to, partitions[p].owner); /* nobody can take them */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),
        cmocka_unit_test(nobody),
        cmocka_unit_test(those_who_take_part),
        cmocka_unit_test(fair_with_few_moves),
        cmocka_unit_test(the_same_end_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
