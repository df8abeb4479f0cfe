/* What daemons of a fleet tell each other through a real Redis: two links in one process. A lease
   is over when a test says so (end_lease); none is waited for. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include "common/error.h"
#include "fleet/fleet_redis.h"
#include "redis_server.h"

enum { PARTITIONS = 4, SKIPPED = 77, ROWS = 1000 };

static const struct fleet_self anna = {.group = "g",
                                       .name = "anna",
                                       .id = "1",
                                       .stream = "s",
                                       .digest = "d",
                                       .partitions = PARTITIONS,
                                       .lease = 3600};
static const struct fleet_self bert = {.group = "g",
                                       .name = "bert",
                                       .id = "2",
                                       .stream = "s",
                                       .digest = "d",
                                       .partitions = PARTITIONS,
                                       .lease = 3600};

static struct fleet_link *a, *b;
static struct error error;

#define good(call)                                                                                 \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s", error.text);                                                            \
    } while (0)

static int begin(void **unused) {
    (void)unused;
    redis_do("FLUSHALL");
    return fleet_redis_open(&a, &redis_url, &anna, &error) ||
           fleet_redis_open(&b, &redis_url, &bert, &error);
}

static int end(void **unused) {
    (void)unused;
    a->ops->close(&a);
    b->ops->close(&b);
    return 0;
}

static void join_both(void) {
    good(a->ops->join(a, "{}", &error));
    good(b->ops->join(b, "{}", &error));
}

static void end_lease(const char *name) {
    redis_do("ZADD runnel:{g}:leases 1 %s", name);
}

static uint64_t version(struct fleet_link *link) {
    struct fleet_view view;
    good(link->ops->look(link, &view, &error));
    uint64_t known = view.version;
    fleet_view_free(&view);
    return known;
}

/* Claims of `count` partitions from the first; how many it got. */
static size_t take(struct fleet_link *link, struct fleet_claim *claims, size_t first,
                   size_t count) {
    size_t taken;
    for (size_t n = 0; n < count; n++)
        claims[n] = (struct fleet_claim){.partition = first + n};
    good(link->ops->take(link, version(link), claims, count, &taken, &error));
    return taken;
}

static struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence) {
    return (struct fleet_commit){.partition = claim->partition,
                                 .claim = claim->claim,
                                 .offset = {.epoch = 7, .sequence = sequence},
                                 .learned = sequence};
}

static void stage(struct fleet_link *link, struct fleet_commit *commit, uint64_t serial,
                  const char *key, const char *state) {
    const struct fleet_row row = {key, state, strlen(key), strlen(state)};
    commit->serial = serial;
    commit->streams = 1;
    good(link->ops->stage(link, commit->partition, commit->claim, serial, &row, 1, &error));
}

struct found {
    size_t count;
    char key[64], state[64];
};

static int note(void *context, const struct fleet_row *row, struct error *none) {
    struct found *found = context;
    (void)none;
    found->count++;
    snprintf(found->key, sizeof found->key, "%.*s", (int)row->key_size, (const char *)row->key);
    snprintf(found->state, sizeof found->state, "%.*s", (int)row->state_size,
             (const char *)row->state);
    return 0;
}

static struct found states(struct fleet_link *link, size_t partition) {
    struct found found = {0};
    good(link->ops->states(link, partition, note, &found, &error));
    return found;
}

static struct fleet_ended ended(struct fleet_link *link, uint64_t claim) {
    struct fleet_ended one = {.claim = claim};
    good(link->ops->ended(link, &one, 1, &error));
    return one;
}

/* ---- Members ---- */

static void a_fleet_that_has_never_been(void **unused) {
    struct fleet_view view;
    (void)unused;
    good(a->ops->look(a, &view, &error));
    assert_null(view.stream);
    assert_int_equal(view.daemon_count, 0);
    assert_int_equal(view.partition_count, 0);
    fleet_view_free(&view);
}

static void members_see_each_other(void **unused) {
    struct fleet_view view;
    uint64_t before, after;
    (void)unused;
    join_both();
    good(a->ops->renew(a, "{\"x\":1}", &before, &error));
    good(a->ops->look(a, &view, &error));
    assert_int_equal(view.version, before);
    assert_string_equal(view.stream, "s");
    assert_string_equal(view.digest, "d");
    assert_int_equal(view.partition_count, PARTITIONS);
    assert_int_equal(view.daemon_count, 2);
    assert_int_equal(fleet_view_find(&view, "bert"), 1);
    assert_int_equal(fleet_view_find(&view, "carl"), -1);
    assert_string_equal(view.daemons[0].name, "anna");
    assert_string_equal(view.daemons[0].info, "{\"x\":1}");
    assert_true(view.daemons[0].living && view.daemons[1].living);
    assert_true(view.daemons[0].lease > 0 && view.daemons[0].lease <= 3600);
    assert_int_equal(view.partitions[0].owner, -1);
    fleet_view_free(&view);

    end_lease("bert"); /* who renews next notices */
    good(a->ops->renew(a, "{}", &after, &error));
    assert_true(after > before);
    good(a->ops->look(a, &view, &error));
    assert_false(view.daemons[1].living);
    fleet_view_free(&view);

    good(b->ops->renew(b, "{}", &before, &error)); /* it was only away */
    assert_true(before > after);
    good(b->ops->leave(b, &error));
    good(a->ops->look(a, &view, &error));
    assert_int_equal(view.daemon_count, 1);
    fleet_view_free(&view);
}

/* A daemon that does not belong to the fleet, and what it is told. */
static void is_refused(struct fleet_self self, const char *text) {
    struct fleet_link *link;
    good(fleet_redis_open(&link, &redis_url, &self, &error));
    assert_int_equal(link->ops->join(link, "{}", &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    if (!strstr(error.text, text))
        fail_msg("%s", error.text);
    link->ops->close(&link);
}

static void strangers_are_refused(void **unused) {
    struct fleet_self self = anna;
    (void)unused;
    join_both();
    self.id = "3";
    is_refused(self, "another daemon of the name anna");
    self = bert;
    self.stream = "other";
    is_refused(self, "learns the stream s, and not other");
    self = bert;
    self.partitions = 8;
    is_refused(self, "has 4 partitions, and not 8");
    self = bert;
    self.digest = "e";
    is_refused(self, "another configuration");
    self = bert;
    self.stream = "other";
    self.group = "h";
    struct fleet_link *link; /* of another group it is */
    good(fleet_redis_open(&link, &redis_url, &self, &error));
    good(link->ops->join(link, "{}", &error));
    link->ops->close(&link);
}

static void a_name_has_another_daemon_once_the_first_is_gone(void **unused) {
    struct fleet_self self = anna;
    struct fleet_link *link;
    struct fleet_claim claims[2];
    uint64_t known;
    (void)unused;
    join_both();
    assert_int_equal(take(a, claims, 0, 2), 2);
    end_lease("anna");
    self.id = "3";
    good(fleet_redis_open(&link, &redis_url, &self, &error));
    good(link->ops->join(link, "{}", &error));
    assert_true(ended(link, claims[0].claim).is_over); /* what the first had is nobody's */
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    link->ops->close(&link);
}

/* ---- Partitions ---- */

static void a_partition_is_one_daemons(void **unused) {
    struct fleet_claim mine[3], theirs[PARTITIONS];
    struct fleet_view view;
    size_t taken;
    (void)unused;
    join_both();
    uint64_t before = version(b);
    assert_int_equal(take(a, mine, 0, 3), 3);
    assert_true(mine[0].claim && mine[1].claim && mine[0].claim != mine[1].claim);
    assert_false(mine[0].committed);
    theirs[0] = (struct fleet_claim){.partition = 3};
    good(b->ops->take(b, before, theirs, 1, &taken, &error)); /* the fleet has changed since */
    assert_int_equal(taken, 0);
    assert_true(theirs[0].partition == SIZE_MAX);
    assert_int_equal(take(b, theirs, 0, PARTITIONS), 1);
    assert_true(theirs[0].partition == SIZE_MAX);
    assert_int_equal(theirs[3].partition, 3);
    good(a->ops->look(a, &view, &error));
    assert_int_equal(view.partitions[0].owner, 0);
    assert_int_equal(view.partitions[0].claim, mine[0].claim);
    assert_int_equal(view.partitions[3].owner, 1);
    fleet_view_free(&view);
}

static void handed_over_in_order(void **unused) {
    struct fleet_claim mine, theirs;
    (void)unused;
    join_both();
    take(a, &mine, 2, 1);
    struct fleet_commit commit = learned(&mine, 10);
    stage(a, &commit, 1, "x", "ten");
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_false(commit.refused);
    commit = learned(&mine, 20);
    stage(a, &commit, 2, "x", "twenty");
    assert_string_equal(states(b, 2).state, "ten"); /* what is staged does not count yet */
    for (int again = 0; again < 2; again++) {       /* the answer may be lost: the second says so */
        good(a->ops->commit(a, &commit, 1, true, &error));
        assert_false(commit.refused);
    }
    assert_int_equal(take(b, &theirs, 2, 1), 1);
    assert_true(theirs.claim > mine.claim);
    assert_true(theirs.committed);
    assert_int_equal(theirs.offset.epoch, 7);
    assert_int_equal(theirs.offset.sequence, 20);
    assert_int_equal(theirs.learned, 20);
    assert_int_equal(theirs.states, 1);
    struct found found = states(b, 2);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.key, "x");
    assert_string_equal(found.state, "twenty");

    struct fleet_ended over = ended(a, mine.claim);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 20);
    good(a->ops->settle(a, &mine.claim, 1, &error));
    assert_false(ended(a, mine.claim).is_over);
    assert_false(ended(b, theirs.claim).is_over);
    redisReply *keys = redis_ask("KEYS runnel:{g}:states:*");
    assert_int_equal(keys->elements, 1); /* those before are gone */
    freeReplyObject(keys);
}

static void the_dead_one_is_refused(void **unused) {
    struct fleet_claim mine[2], theirs;
    struct fleet_commit late[2];
    (void)unused;
    join_both();
    take(a, mine, 0, 2);
    late[0] = learned(&mine[0], 10);
    good(a->ops->commit(a, late, 1, false, &error));
    end_lease("anna");
    assert_int_equal(take(b, &theirs, 0, 1), 1);
    assert_int_equal(theirs.offset.sequence, 10);

    late[0] = learned(&mine[0], 30); /* beyond what counts */
    stage(a, &late[0], 1, "x", "late");
    late[1] = learned(&mine[1], 40); /* still its own: nobody has taken it */
    good(a->ops->commit(a, late, 2, false, &error));
    assert_true(late[0].refused);
    assert_false(late[1].refused);
    assert_int_equal(states(b, 0).count, 0);
    good(a->ops->commit(a, late, 1, true, &error)); /* nor in order */
    assert_true(late[0].refused);
    struct fleet_ended over = ended(a, mine[0].claim);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 10);
    assert_false(ended(a, mine[1].claim).is_over);
    redisReply *keys = redis_ask("KEYS runnel:{g}:states:*");
    assert_int_equal(keys->elements, 0); /* what it had staged is gone */
    freeReplyObject(keys);
}

static void dead_before_anything_was_committed(void **unused) {
    struct fleet_claim mine, theirs;
    (void)unused;
    join_both();
    take(a, &mine, 1, 1);
    end_lease("anna");
    take(b, &theirs, 1, 1);
    assert_false(theirs.committed);
    struct fleet_ended over = ended(a, mine.claim);
    assert_true(over.is_over);
    assert_false(over.is_known);
}

static void states_that_are_gone_are_not_committed(void **unused) {
    struct fleet_claim mine;
    (void)unused;
    join_both();
    take(a, &mine, 0, 1);
    struct fleet_commit commit = learned(&mine, 10);
    stage(a, &commit, 1, "x", "ten");
    redis_do("DEL runnel:{g}:states:0:%llu:1", (unsigned long long)mine.claim);
    assert_int_equal(a->ops->commit(a, &commit, 1, false, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    stage(a, &commit, 1, "x", "ten");
    good(a->ops->commit(a, &commit, 1, false, &error));
    commit = learned(&mine, 11); /* states as before */
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_string_equal(states(a, 0).state, "ten");
    redisReply *left = redis_ask("TTL runnel:{g}:states:0:%llu:1", (unsigned long long)mine.claim);
    assert_int_equal(left->integer, -1); /* they stay */
    freeReplyObject(left);
}

static void many_states(void **unused) {
    static char keys[ROWS][16];
    struct fleet_row rows[ROWS];
    struct fleet_claim mine;
    (void)unused;
    join_both();
    take(a, &mine, 0, 1);
    for (size_t n = 0; n < ROWS; n++) {
        snprintf(keys[n], sizeof keys[n], "stream-%zu", n);
        rows[n] = (struct fleet_row){keys[n], keys, strlen(keys[n]), sizeof keys};
    }
    struct fleet_commit commit = learned(&mine, 10);
    commit.serial = 1;
    commit.streams = ROWS;
    good(a->ops->stage(a, 0, mine.claim, 1, rows, ROWS, &error));
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_int_equal(states(b, 0).count, ROWS);
}

/* ---- People ---- */

static void drained_and_back(void **unused) {
    struct fleet_view view;
    (void)unused;
    join_both();
    uint64_t before = version(a);
    good(b->ops->drain(b, "anna", &error));
    good(b->ops->look(b, &view, &error));
    assert_true(view.daemons[0].draining && !view.daemons[1].draining);
    assert_true(view.version > before);
    fleet_view_free(&view);
    good(b->ops->rebalance(b, &error));
    good(b->ops->look(b, &view, &error));
    assert_false(view.daemons[0].draining);
    fleet_view_free(&view);
    assert_int_equal(b->ops->drain(b, "carl", &error), -1);
    assert_int_equal(error.status, EX_USAGE);
    assert_non_null(strstr(error.text, "no daemon carl"));
}

/* ---- Rounds ---- */

static void is_given(struct fleet_link *link, uint64_t round, const char *name, const char *text) {
    void *bytes;
    size_t size;
    good(link->ops->parameters(link, round, name, &bytes, &size, &error));
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void a_round_is_closed_when_all_are_there(void **unused) {
    struct fleet_claim mine, theirs;
    uint64_t round;
    char *names;
    (void)unused;
    join_both();
    take(a, &mine, 0, 1);
    take(b, &theirs, 1, 1);
    good(b->ops->arrive(b, 0, "of b", 4, &round, &error));
    assert_int_equal(round, 1);
    good(b->ops->round(b, 1, &names, &error));
    assert_null(names);
    good(a->ops->arrive(a, 0, "of a", 4, &round, &error));
    assert_int_equal(round, 1);
    good(b->ops->round(b, 1, &names, &error));
    assert_string_equal(names, "anna\nbert\n");
    free(names);
    good(a->ops->arrive(a, 0, "of a", 4, &round, &error)); /* the answer was lost */
    assert_int_equal(round, 1);
    good(a->ops->round(a, 1, &names, &error));
    assert_string_equal(names, "anna\nbert\n");
    free(names);
    is_given(a, 1, "bert", "of b");
    is_given(b, 1, "anna", "of a");
    good(a->ops->arrive(a, 1, "a 2", 3, &round, &error));
    assert_int_equal(round, 2);
    assert_int_equal(a->ops->parameters(a, 2, "bert", (void **)&names, &(size_t){0}, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
}

static void a_round_does_not_wait_for_ever(void **unused) {
    struct fleet_claim mine, theirs;
    uint64_t round;
    char *names;
    (void)unused;
    join_both();
    take(a, &mine, 0, 1);
    take(b, &theirs, 1, 1);
    good(a->ops->arrive(a, 0, "of a", 4, &round, &error));
    good(a->ops->round(a, 1, &names, &error));
    assert_null(names);
    redis_do("HSET runnel:{g}:fleet since 1");
    good(a->ops->round(a, 1, &names, &error));
    assert_string_equal(names, "anna\n");
    free(names);
    good(b->ops->arrive(b, 0, "late", 4, &round, &error));
    assert_int_equal(round, 2); /* it is in the next one */
    end_lease("anna");
    good(b->ops->round(b, 2, &names, &error)); /* nobody waits for the dead */
    assert_string_equal(names, "bert\n");
    free(names);
}

/* ---- The server ---- */

static void a_server_that_was_away(void **unused) {
    uint64_t known;
    (void)unused;
    join_both();
    redis_end();
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    redis_start_anew(); /* it knows no script any more */
    good(a->ops->join(a, "{}", &error));
    good(a->ops->renew(a, "{}", &known, &error));
    redis_do("SCRIPT FLUSH");
    good(a->ops->renew(a, "{}", &known, &error));
}

static void something_else_has_the_key(void **unused) {
    (void)unused;
    redis_do("SET runnel:{g}:fleet text");
    assert_int_equal(a->ops->join(a, "{}", &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fleet_that_has_never_been, begin, end),
        cmocka_unit_test_setup_teardown(members_see_each_other, begin, end),
        cmocka_unit_test_setup_teardown(strangers_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_name_has_another_daemon_once_the_first_is_gone, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_partition_is_one_daemons, begin, end),
        cmocka_unit_test_setup_teardown(handed_over_in_order, begin, end),
        cmocka_unit_test_setup_teardown(the_dead_one_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(dead_before_anything_was_committed, begin, end),
        cmocka_unit_test_setup_teardown(states_that_are_gone_are_not_committed, begin, end),
        cmocka_unit_test_setup_teardown(many_states, begin, end),
        cmocka_unit_test_setup_teardown(drained_and_back, begin, end),
        cmocka_unit_test_setup_teardown(a_round_is_closed_when_all_are_there, begin, end),
        cmocka_unit_test_setup_teardown(a_round_does_not_wait_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(a_server_that_was_away, begin, end),
        cmocka_unit_test_setup_teardown(something_else_has_the_key, begin, end),
    };
    if (!redis_is_there()) {
        puts("needs redis-server");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, redis_start, redis_stop);
}
