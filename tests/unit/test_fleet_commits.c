/* What the owner of a partition commits at a real Redis, with the states of its streams. */
#include "fleet_pair.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "redis_server.h"

enum { ROWS = 1000, KEY_SIZE = 16 };

/* So many keys of states are there, with what is staged. */
static void has_keys(size_t count) {
    redisReply *keys = redis_ask("KEYS runnel:{g}:states:*");
    assert_int_equal(keys->elements, count);
    freeReplyObject(keys);
}

/* A commit of so many examples, after which there are so many states; those of `rows`, "x=1 y=2 z",
   are staged for it: z is forgotten. */
static struct fleet_commit staged(const struct fleet_claim *claim, uint64_t sequence,
                                  uint64_t streams, const char *rows) {
    struct fleet_commit one = learned(claim, sequence);
    char text[KEY_SIZE], *rest;
    one.streams = streams;
    snprintf(text, sizeof text, "%s", rows);
    for (char *key = strtok_r(text, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        char *state = strchr(key, '=');
        if (state)
            *state++ = '\0';
        stage(a, &one, key, state);
    }
    return one;
}

static void handed_over_in_order(void **unused) {
    struct fleet_claim mine, theirs;
    (void)unused;
    take(a, &mine, 2, 1);
    struct fleet_commit one = staged(&mine, 10, 1, "x=ten");
    one.whole = true;
    commit(a, &one, false);
    assert_false(one.refused || one.incomplete);
    mine.offset = one.offset;
    one = staged(&mine, 20, 1, "x=twenty");
    assert_string_equal(states(b, 2), "x=ten "); /* what is staged does not count yet */
    for (int again = 0; again < 2; again++) {    /* the answer may be lost: the second says so */
        if (again) {                             /* it was staged again, too */
            one.rows = 0;
            stage(a, &one, "x", "twenty");
        }
        commit(a, &one, true);
        assert_false(one.refused || one.incomplete);
    }
    has_keys(1);
    assert_int_equal(take(b, &theirs, 2, 1), 1);
    assert_true(theirs.claim > mine.claim);
    assert_true(theirs.committed);
    assert_int_equal(theirs.offset.epoch, 7);
    assert_int_equal(theirs.offset.sequence, 20);
    assert_int_equal(theirs.learned, 20);
    assert_int_equal(theirs.states, 1);
    assert_string_equal(states(b, 2), "x=twenty ");

    struct fleet_ended over = ended(a, mine.partition, mine.claim);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 20);
    good(a->ops->settle(a, &mine.claim, 1, &error));
    assert_false(ended(a, mine.partition, mine.claim).is_over);
    assert_false(ended(b, theirs.partition, theirs.claim).is_over);
}

static void the_dead_one_is_refused(void **unused) {
    struct fleet_claim mine[2], theirs;
    struct fleet_commit late[2];
    (void)unused;
    take(a, mine, 0, 2);
    late[0] = learned(&mine[0], 10);
    commit(a, late, false);
    end_lease("anna");
    assert_int_equal(take(b, &theirs, 0, 1), 1);
    assert_int_equal(theirs.offset.sequence, 10);

    late[0] = staged(&mine[0], 30, 1, "x=late"); /* beyond what counts */
    late[1] = learned(&mine[1], 40);             /* still its own: nobody has taken it */
    good(a->ops->commit(a, late, 2, false, &error));
    assert_true(late[0].refused);
    assert_false(late[1].refused);
    assert_string_equal(states(b, 0), "");
    commit(a, late, true); /* nor in order */
    assert_true(late[0].refused);
    struct fleet_ended over = ended(a, 0, mine[0].claim);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 10);
    assert_false(ended(a, 1, mine[1].claim).is_over);
    has_keys(0); /* what it had staged is gone */
}

/* Streams change, come and are forgotten: only that is staged. */
static void states_are_laid_over_those_before(void **unused) {
    struct fleet_claim mine;
    (void)unused;
    take(a, &mine, 0, 1);
    struct fleet_commit one = staged(&mine, 10, 3, "x=1 y=1 z=1");
    one.whole = true;
    commit(a, &one, false);
    mine.offset = one.offset;
    one = staged(&mine, 20, 3, "y=2 x w=2");
    for (int again = 0; again < 2; again++) { /* the answer may be lost */
        commit(a, &one, false);
        assert_false(one.refused || one.incomplete);
        assert_string_equal(states(a, 0), "w=2 y=2 z=1 ");
    }
    has_keys(1);
    mine.offset = one.offset;
    one = staged(&mine, 30, 3, ""); /* states as before */
    one.serial = 0;
    commit(a, &one, false);
    assert_false(one.incomplete);
    assert_string_equal(states(a, 0), "w=2 y=2 z=1 ");
    one = learned(&mine, 40); /* all are forgotten */
    one.whole = true;
    commit(a, &one, true);
    assert_false(one.incomplete);
    assert_string_equal(states(a, 0), "");
    has_keys(0);
}

/* The count of streams proves that none is missing; else nothing is changed. */
static void what_is_missing_is_not_committed(void **unused) {
    struct fleet_claim mine, theirs;
    (void)unused;
    take(a, &mine, 0, 1);
    struct fleet_commit one = staged(&mine, 10, 2, "x=1 y=1");
    one.whole = true;
    commit(a, &one, false);
    mine.offset = one.offset;
    one = staged(&mine, 20, 3, "x=2");
    commit(a, &one, false);
    assert_true(one.incomplete);
    one = staged(&mine, 21, 3, "");
    one.serial = 0;
    commit(a, &one, true); /* nor is it released */
    assert_true(one.incomplete);
    assert_string_equal(states(a, 0), "x=1 y=1 ");
    has_keys(1);
    one = staged(&mine, 22, 3, "x=2 y=2 z=2");
    one.whole = true;
    commit(a, &one, true);
    assert_false(one.incomplete);
    take(b, &theirs, 0, 1);
    assert_string_equal(states(b, 0), "x=2 y=2 z=2 ");
}

/* A server that has lost the commit before: as many streams, and one of them is older. */
static void what_is_lost_is_not_built_upon(void **unused) {
    struct fleet_claim mine;
    (void)unused;
    take(a, &mine, 0, 1);
    struct fleet_commit one = staged(&mine, 10, 2, "x=1 y=1");
    one.whole = true;
    commit(a, &one, false);
    mine.offset.sequence = 20; /* of which the server knows nothing; x was changed */
    for (int release = 0; release < 2; release++) {
        one = staged(&mine, 30, 2, "y=3");
        commit(a, &one, release);
        assert_true(one.incomplete);
        assert_string_equal(states(a, 0), "x=1 y=1 ");
        has_keys(1);
    }
    one = staged(&mine, 30, 2, "x=2 y=3");
    one.whole = true;
    commit(a, &one, true);
    assert_false(one.refused || one.incomplete);
    assert_string_equal(states(b, 0), "x=2 y=3 ");
}

static void states_that_are_gone_are_not_committed(void **unused) {
    struct fleet_claim mine;
    (void)unused;
    take(a, &mine, 0, 1);
    struct fleet_commit one = staged(&mine, 10, 1, "x=ten");
    one.whole = true;
    redis_do("DEL runnel:{g}:states:0:%llu:10", (unsigned long long)mine.claim);
    assert_int_equal(a->ops->commit(a, &one, 1, false, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    one.rows = 0;
    stage(a, &one, "x", "ten");
    commit(a, &one, false);
    assert_string_equal(states(a, 0), "x=ten ");
    redisReply *left = redis_ask("TTL runnel:{g}:states:0");
    assert_int_equal(left->integer, -1); /* they stay */
    freeReplyObject(left);
    redis_do("DEL runnel:{g}:states:0");   /* as a server does that runs out of memory */
    assert_string_equal(states(a, 0), ""); /* who takes the partition begins them anew */
}

/* Some partitions are good, and others' states are not: each for itself. */
static void partitions_are_committed_each_for_itself(void **unused) {
    struct fleet_claim mine[3];
    struct fleet_commit all[3];
    (void)unused;
    take(a, mine, 0, 3);
    for (size_t n = 0; n < 3; n++)
        all[n] = learned(&mine[n], 10);
    all[1].streams = 1;
    all[2].claim = 999;
    good(a->ops->commit(a, all, 3, false, &error));
    assert_false(all[0].refused || all[0].incomplete);
    assert_true(all[1].incomplete && !all[1].refused);
    assert_true(all[2].refused && !all[2].incomplete);
    struct fleet_view view = look(a);
    assert_true(view.partitions[0].committed);
    assert_false(view.partitions[1].committed || view.partitions[2].committed);
    fleet_view_free(&view);
}

static int count(void *context, const struct fleet_row *row, struct error *none) {
    size_t *counted = context;
    (void)none;
    assert_int_equal(row->state_size, ROWS * KEY_SIZE);
    ++*counted;
    return 0;
}

static void many_states(void **unused) {
    static char keys[ROWS][KEY_SIZE];
    struct fleet_row rows[ROWS];
    struct fleet_claim mine;
    (void)unused;
    take(a, &mine, 0, 1);
    for (size_t n = 0; n < ROWS; n++) {
        snprintf(keys[n], KEY_SIZE, "stream-%zu", n);
        rows[n] = (struct fleet_row){keys[n], keys, strlen(keys[n]), sizeof keys};
    }
    for (int whole = 1; whole >= 0; whole--) {
        size_t counted = 0;
        struct fleet_commit one = learned(&mine, 10 + (uint64_t)whole);
        mine.offset = one.offset;
        good(a->ops->stage(a, &one, rows, ROWS, &error));
        one.rows = one.streams = ROWS;
        one.whole = whole;
        commit(a, &one, false);
        assert_false(one.incomplete);
        good(b->ops->states(b, 0, count, &counted, &error));
        assert_int_equal(counted, ROWS);
        has_keys(1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        joined(handed_over_in_order),
        joined(the_dead_one_is_refused),
        joined(states_are_laid_over_those_before),
        joined(what_is_missing_is_not_committed),
        joined(what_is_lost_is_not_built_upon),
        joined(states_that_are_gone_are_not_committed),
        joined(partitions_are_committed_each_for_itself),
        joined(many_states),
    };
    return PAIR_RUN(tests);
}
