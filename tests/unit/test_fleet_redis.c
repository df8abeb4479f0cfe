/* A fleet on a real Redis: members, views, claims, commits and averages. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "redis_server.h"

/* ---- Two daemons, anna and bert: two links in one process ---- */

static struct fleet_self bert;
static struct fleet_link *a, *b;

/* Setup and teardown of a test: an empty server; with begin_joined, both have joined. */
static int pair_begin(void **unused) {
    redis_do("FLUSHALL");
    a = fleet_redis_link(&anna);
    bert = anna;
    bert.name = "bert";
    bert.id = "2";
    b = fleet_redis_link(&bert);
    return 0;
}

static int pair_begin_joined(void **unused) {
    pair_begin(unused);
    good(a->ops->join(a, "{}", &error));
    good(b->ops->join(b, "{}", &error));
    return 0;
}

static int pair_end(void **unused) {
    a->ops->close(&a);
    b->ops->close(&b);
    return 0;
}

/* A whole view, to be freed. */
static struct fleet_view look(struct fleet_link *link) {
    struct fleet_view view = {0};
    good(link->ops->look(link, &view, &error));
    return view;
}

/* Claims `count` partitions from `first` on, by this daemon's view; returns how many it got. */
static size_t take(struct fleet_link *link, struct fleet_claim *claims, size_t first,
                   size_t count) {
    struct fleet_view view = look(link);
    size_t taken;
    for (size_t n = 0; n < count; n++)
        claims[n] =
            (struct fleet_claim){.partition = first + n, .claim = view.partitions[first + n].claim};
    good(link->ops->take(link, claims, count, &taken, &error));
    fleet_view_free(&view);
    return taken;
}

/* Stages one state; NULL deletes the stream. Counts it in `rows` of the commit. */
static void stage(struct fleet_link *link, struct fleet_commit *commit, const char *key,
                  const char *state) {
    const struct fleet_row row = {key, state, strlen(key), state ? strlen(state) : 0};
    good(link->ops->stage(link, commit, &row, 1, &error));
    commit->rows++;
}

static void commit(struct fleet_link *link, struct fleet_commit *one, bool release) {
    good(link->ops->commit(link, one, 1, release, &error));
}

enum { ROWS_MAX = 16, ROW_SIZE = 64 };

struct found {
    char rows[ROWS_MAX][ROW_SIZE];
    size_t count;
};

static int note(void *context, const struct fleet_row *row, struct error *none) {
    struct found *found = context;
    (void)none;
    assert_true(found->count < ROWS_MAX);
    snprintf(found->rows[found->count++], ROW_SIZE, "%.*s=%.*s ", (int)row->key_size,
             (const char *)row->key, (int)row->state_size, (const char *)row->state);
    return 0;
}

static int by_text(const void *one, const void *other) {
    return strcmp(one, other);
}

/* "key=state " for all committed states, by key. */
static const char *states(struct fleet_link *link, size_t partition) {
    static char text[ROWS_MAX * ROW_SIZE + 1];
    struct found found = {.count = 0};
    size_t size = 0;
    good(link->ops->states(link, partition, note, &found, &error));
    qsort(found.rows, found.count, ROW_SIZE, by_text);
    *text = '\0';
    for (size_t n = 0; n < found.count; n++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", found.rows[n]);
    return text;
}

#define joined(name) cmocka_unit_test_setup_teardown(name, pair_begin_joined, pair_end)

/* ---- Members ---- */

static void a_fleet_that_has_never_been(void **unused) {
    good(b->ops->rebalance(b, &error));
    struct fleet_view view = look(a);
    assert_null(view.stream);
    assert_int_equal(view.daemon_count, 0);
    assert_int_equal(view.partition_count, 0);
    fleet_view_free(&view);
}

static void members_see_each_other(void **unused) {
    uint64_t before, after;
    good(a->ops->renew(a, "{\"x\":1}", &before, &error));
    struct fleet_view view = look(a);
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

    end_lease("bert"); /* the next to renew notices it */
    good(a->ops->renew(a, "{}", &after, &error));
    assert_true(after > before);
    good(a->ops->look(a, &view, &error));
    assert_false(view.daemons[1].living);

    good(b->ops->renew(b, "{}", &before, &error)); /* it was only away */
    assert_true(before > after);
    good(b->ops->leave(b, &error));
    good(a->ops->look(a, &view, &error));
    assert_int_equal(view.daemon_count, 1);
    fleet_view_free(&view);
}

/* A daemon that cannot join, and its error. */
static void is_refused(struct fleet_self self, int status, const char *text) {
    struct fleet_link *link = fleet_redis_link(&self);
    assert_int_equal(link->ops->join(link, "{}", &error), -1);
    assert_int_equal(error.status, status);
    if (!strstr(error.text, text))
        fail_msg("%s", error.text);
    link->ops->close(&link);
}

static void strangers_are_refused(void **unused) {
    struct fleet_self self = anna;
    self.id = "3";
    is_refused(self, EX_CONFIG, "another daemon with the name anna");
    self = bert;
    self.stream = "other";
    is_refused(self, EX_CONFIG, "learns the stream s, not other");
    self = bert;
    self.partitions = 8;
    is_refused(self, EX_CONFIG, "has 4 partitions, not 8");
    self = bert;
    self.digest = "e";
    is_refused(self, EX_CONFIG, "another configuration (digest d, this daemon's e)");
    self = bert;
    self.every = 50;
    is_refused(self, EX_CONFIG, "fleet.average.every 100, not 50");
    self = bert;
    self.stream = "other";
    self.group = "h"; /* it belongs to another group */
    struct fleet_link *link = fleet_redis_link(&self);
    good(link->ops->join(link, "{}", &error));
    link->ops->close(&link);
}

static void groups_of_long_names_are_two(void **unused) {
    char one[FLEET_GROUP_MAX + 1], other[FLEET_GROUP_MAX + 1];
    struct fleet_self self = anna;
    memset(one, 'x', sizeof one);
    one[FLEET_GROUP_MAX] = '\0';
    memcpy(other, one, sizeof one);
    other[FLEET_GROUP_MAX - 1] = 'y';
    for (int n = 0; n < 2; n++) {
        self.group = n ? other : one;
        self.digest = n ? "e" : "d";
        struct fleet_link *link = fleet_redis_link(&self);
        good(link->ops->join(link, "{}", &error));
        link->ops->close(&link);
    }
}

static void a_name_has_another_daemon_once_the_first_is_gone(void **unused) {
    struct fleet_self self = anna;
    struct fleet_claim claims[2];
    uint64_t known;
    assert_int_equal(take(a, claims, 0, 2), 2);
    end_lease("anna");
    self.id = "3";
    struct fleet_link *link = fleet_redis_link(&self);
    good(link->ops->join(link, "{}", &error));
    /* the first daemon's claims have no owner */
    assert_true(ended(link, 0, claims[0].claim).is_over);
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    link->ops->close(&link);
}

/* ---- Partitions ---- */

static void a_partition_is_one_daemons(void **unused) {
    struct fleet_claim mine[3], theirs[PARTITIONS];
    assert_int_equal(take(a, mine, 0, 3), 3);
    assert_true(mine[0].claim && mine[1].claim && mine[0].claim != mine[1].claim);
    assert_false(mine[0].committed);
    assert_int_equal(take(b, theirs, 0, PARTITIONS), 1);
    assert_true(theirs[0].partition == SIZE_MAX);
    assert_int_equal(theirs[3].partition, 3);
    struct fleet_view view = look(a);
    assert_int_equal(view.partitions[0].owner, 0);
    assert_int_equal(view.partitions[0].claim, mine[0].claim);
    assert_int_equal(view.partitions[3].owner, 1);
    fleet_view_free(&view);
}

/* An older claim of a partition is too late only for that partition. */
static void a_take_names_what_it_has_seen(void **unused) {
    struct fleet_claim mine, theirs[2] = {{.partition = 0}, {.partition = 1}};
    size_t taken;
    assert_int_equal(take(a, &mine, 0, 1), 1);
    struct fleet_commit nothing = learned(&mine, 1);
    commit(a, &nothing, true); /* it has no owner again */
    good(b->ops->take(b, theirs, 2, &taken, &error));
    assert_int_equal(taken, 1);
    assert_true(theirs[0].partition == SIZE_MAX);
    assert_int_equal(theirs[1].partition, 1);
    theirs[0] = (struct fleet_claim){.partition = 0, .claim = mine.claim};
    good(b->ops->take(b, theirs, 1, &taken, &error));
    assert_int_equal(taken, 1);
    assert_int_equal(theirs[0].offset.sequence, 1);
}

static void dead_before_anything_was_committed(void **unused) {
    struct fleet_claim mine, theirs;
    take(a, &mine, 1, 1);
    end_lease("anna");
    take(b, &theirs, 1, 1);
    assert_false(theirs.committed);
    struct fleet_ended over = ended(a, mine.partition, mine.claim);
    assert_true(over.is_over);
    assert_false(over.is_known);
}

/* A daemon that leaves owns nothing any more, though it could not release it. */
static void leaving_ends_claims(void **unused) {
    struct fleet_claim mine, theirs;
    take(a, &mine, 2, 1);
    struct fleet_commit one = learned(&mine, 10);
    commit(a, &one, false);
    struct fleet_view view = look(b);
    good(a->ops->leave(a, &error));
    good(b->ops->look(b, &view, &error));
    assert_int_equal(view.partitions[2].owner, -1);
    fleet_view_free(&view);
    assert_int_equal(ended(a, mine.partition, mine.claim).offset.sequence, 10);
    good(a->ops->join(a, "{}", &error));
    assert_int_equal(take(b, &theirs, 2, 1), 1);
}

/* ---- Looking ---- */

static void is_same(const struct fleet_view *one, const struct fleet_view *other) {
    assert_int_equal(one->version, other->version);
    assert_int_equal(one->daemon_count, other->daemon_count);
    assert_int_equal(one->partition_count, other->partition_count);
    for (size_t d = 0; d < one->daemon_count; d++) {
        assert_string_equal(one->daemons[d].name, other->daemons[d].name);
        assert_int_equal(one->daemons[d].living, other->daemons[d].living);
        assert_int_equal(one->daemons[d].draining, other->daemons[d].draining);
    }
    for (size_t p = 0; p < one->partition_count; p++) {
        assert_int_equal(one->partitions[p].owner, other->partitions[p].owner);
        assert_int_equal(one->partitions[p].claim, other->partitions[p].claim);
    }
}

/* Members before and after the first by name, drains and claims: the changes lead to the same view
   as a whole look. */
static void what_has_changed_is_all_that_is_needed(void **unused) {
    struct fleet_view known = {0};
    struct fleet_self self = anna;
    struct fleet_claim claims[PARTITIONS];
    for (int n = 0; n < 12; n++) {
        uint64_t version;
        if (n == 1)
            take(b, claims, 0, 3);
        if (n == 2) {
            self.name = "adam";
            struct fleet_link *adam = fleet_redis_link(&self);
            good(adam->ops->join(adam, "{}", &error));
            take(adam, claims, 3, 1);
            adam->ops->close(&adam);
        }
        if (n == 3)
            good(a->ops->drain(a, "bert", &error));
        if (n == 4) {
            end_lease("adam");
            good(a->ops->renew(a, "{}", &version, &error));
        }
        if (n == 5)
            assert_int_equal(take(a, claims, 3, 1), 1);
        if (n == 6)
            good(b->ops->leave(b, &error));
        if (n == 7)
            good(a->ops->rebalance(a, &error));
        if (n == 8)
            good(b->ops->join(b, "{}", &error));
        if (n == 9)
            take(b, claims, 0, 2);
        struct fleet_view all = look(b);
        good(a->ops->look(a, &known, &error));
        is_same(&known, &all);
        fleet_view_free(&all);
    }
    fleet_view_free(&known);
}

static void is_known_no_more(struct fleet_link *link) {
    uint64_t version;
    assert_int_equal(link->ops->renew(link, "{}", &version, &error),
                     -1); /* the connection is lost */
    assert_int_equal(error.status, EX_TEMPFAIL);
    good(link->ops->renew(link, "{}", &version, &error));
    assert_int_equal(version, 0);
    good(link->ops->join(link, "{}", &error));
}

/* The remaining time of a lease stays, even if the server's clock goes back an hour. */
static void a_clock_that_goes_back(void **unused) {
    uint64_t version;
    good(a->ops->renew(a, "{}", &version, &error));
    redisReply *time = redis_ask("HGET runnel:{g}:fleet time");
    assert_int_equal(time->type, REDIS_REPLY_STRING);
    const unsigned long long later = strtoull(time->str, NULL, 10) + 3600 * 1000;
    freeReplyObject(time);
    redis_do("HSET runnel:{g}:fleet time %llu", later);
    redis_do("ZADD runnel:{g}:leases %llu bert", later - 1);
    good(a->ops->renew(a, "{}", &version, &error));
    struct fleet_view view = look(a);
    assert_true(view.daemons[0].living);
    assert_false(view.daemons[1].living);
    fleet_view_free(&view);
}

/* Claims that the server has lost: former owners and others ask for them; a number names one claim
   of one partition, and unknown members join again. */
static void a_claim_that_was_lost_is_no_others(void **unused) {
    struct fleet_claim lost, mine, next;
    uint64_t version;
    size_t taken;
    assert_int_equal(take(a, &lost, 0, 1), 1);
    redis_do("FLUSHALL");
    next = (struct fleet_claim){.partition = 1};
    assert_int_equal(a->ops->take(a, &next, 1, &taken, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    struct fleet_commit late = learned(&lost, 10);
    assert_int_equal(a->ops->commit(a, &late, 1, false, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    good(a->ops->renew(a, "{}", &version, &error));
    assert_int_equal(version, 0);

    good(b->ops->join(b, "{}", &error));
    assert_int_equal(take(b, &mine, 0, 1), 1);
    assert_true(mine.claim > lost.claim);
    late = learned(&mine, 5);
    commit(b, &late, true);
    assert_int_equal(take(b, &mine, 0, 1), 1);
    late = learned(&mine, 9);
    commit(b, &late, false);
    struct fleet_ended one = ended(a, 0, lost.claim);
    assert_true(one.is_lost && !one.is_over &&
                !one.is_known); /* the first of them had begun again */
    assert_false(ended(b, 0, mine.claim).is_lost);
    one = ended(a, 0, mine.claim - 1);
    assert_true(one.is_lost && one.is_known);
    assert_int_equal(one.offset.sequence, 5);

    redis_do("HSET runnel:{g}:ended %llu %s", (unsigned long long)lost.claim, "7 20 3");
    assert_true(ended(a, 0, lost.claim).is_lost);
    assert_int_equal(ended(a, 3, lost.claim).offset.sequence, 20);
}

/* A version with the same number on another server is a new view. */
static void a_server_that_lost_something_is_looked_at_anew(void **unused) {
    struct fleet_view known = look(a);
    struct fleet_claim claims[2];
    take(a, claims, 0, 2);
    good(a->ops->look(a, &known, &error));
    redis_end();
    redis_start_anew();
    is_known_no_more(b);
    is_known_no_more(a);
    take(b, claims, 2, 2);
    good(a->ops->look(a, &known, &error));
    assert_int_equal(known.partitions[0].owner, -1);
    assert_int_equal(known.partitions[2].owner, 1);
    fleet_view_free(&known);
}

/* ---- Commands of runnel-fleet ---- */

static void drained_and_back(void **unused) {
    struct fleet_view view = look(a);
    uint64_t before = view.version;
    good(b->ops->drain(b, "anna", &error));
    good(b->ops->look(b, &view, &error));
    assert_true(view.daemons[0].draining && !view.daemons[1].draining);
    assert_true(view.version > before);
    good(b->ops->rebalance(b, &error));
    good(b->ops->look(b, &view, &error));
    assert_false(view.daemons[0].draining);
    fleet_view_free(&view);
    assert_int_equal(b->ops->drain(b, "carl", &error), -1);
    assert_int_equal(error.status, EX_USAGE);
    assert_non_null(strstr(error.text, "daemon not found: carl"));
}

/* ---- The server ---- */

static void a_server_that_was_away(void **unused) {
    uint64_t known;
    redis_end();
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    assert_int_equal(a->ops->renew(a, "{}", &known, &error), -1);
    assert_int_equal(error.status, EX_TEMPFAIL);
    redis_start_anew(); /* it has lost its scripts */
    good(a->ops->join(a, "{}", &error));
    good(a->ops->renew(a, "{}", &known, &error));
    redis_do("SCRIPT FLUSH");
    good(a->ops->renew(a, "{}", &known, &error));
}

static void something_else_has_the_key(void **unused) {
    redis_do("SET runnel:{g}:fleet text");
    is_refused(anna, EX_UNAVAILABLE, "keys runnel:{g}: are not a fleet");
}

/* Damaged or missing data of a fleet is an error for everybody. */
/* Numbers that no script has written. */
static void damaged_numbers(void) {
    static const char *const offsets[] = {"-1 2 3 4", "4294967296 2 3 4",          "1 -2 3 4",
                                          "1 2 3",    "1 9223372036854775808 3 4", "1 2 3 4x",
                                          "1 2 3  4", "1 2 18446744073709551616 4"};
    static const char *const owners[] = {"-1 anna", "x anna", "1", "9223372036854775808 anna"};
    struct fleet_view view = {0};
    for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++) {
        redis_do("HSET runnel:{g}:offsets 0 %s", offsets[n]);
        assert_int_equal(a->ops->look(a, &view, &error), -1);
        assert_int_equal(error.status, EX_UNAVAILABLE);
    }
    redis_do("DEL runnel:{g}:offsets");
    for (size_t n = 0; n < sizeof owners / sizeof *owners; n++) {
        redis_do("HSET runnel:{g}:owners 0 %s", owners[n]);
        assert_int_equal(a->ops->look(a, &view, &error), -1);
    }
    redis_do("HSET runnel:{g}:owners 0 %s", "1 anna");
    good(a->ops->look(a, &view, &error));
    fleet_view_free(&view);
}

static void damage_is_reported(void **unused) {
    static const char *const fields[] = {"partitions", "stream", "every",
                                         "digest",     "round",  "version"};
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        struct fleet_view view = {0};
        bool is_number = n >= 4; /* it only has to be a number */
        redis_do("FLUSHALL");
        good(a->ops->join(a, "{}", &error));
        if (is_number)
            redis_do("HSET runnel:{g}:fleet %s x", fields[n]);
        else
            redis_do("HDEL runnel:{g}:fleet %s", fields[n]);
        is_refused(bert, EX_UNAVAILABLE, "keys runnel:{g}: are not a fleet");
        if (!strcmp(fields[n], "every")) /* a look does not need it */
            continue;
        assert_int_equal(a->ops->look(a, &view, &error), -1);
        assert_int_equal(error.status, EX_UNAVAILABLE);
    }
    redis_do("FLUSHALL");
    good(a->ops->join(a, "{}", &error));
    redis_do("HSET runnel:{g}:fleet partitions 0");
    is_refused(bert, EX_CONFIG, "has 0 partitions, not 4");
    struct fleet_view view = {0};
    assert_int_equal(a->ops->look(a, &view, &error), -1);
    redis_do("HSET runnel:{g}:fleet partitions 4");
    damaged_numbers();
    redis_do("HSET runnel:{g}:owners 0 nonsense");
    struct fleet_claim claim = {.partition = 0};
    size_t taken;
    assert_int_equal(a->ops->take(a, &claim, 1, &taken, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "are not a fleet"));
}

/* A fleet of the older version, in which carl owned partition 1 of 4. */
static void make_a_fleet_of_before(const char *lease) {
    redis_do("FLUSHALL");
    redis_do("HSET runnel:{g}:fleet stream s partitions 4 digest d round 3 version 9 claim 5");
    redis_do("HSET runnel:{g}:ids carl 8");
    redis_do("HSET runnel:{g}:daemons carl {}");
    redis_do("ZADD runnel:{g}:leases %s carl", lease);
    redis_do("HSET runnel:{g}:owners 1 %s", "5 carl");
    redis_do("HSET runnel:{g}:offsets 1 %s", "7 20 20 2 77 5");
    redis_do("HSET runnel:{g}:states:1:5:77 x one y two");
}

/* Once all its daemons have ended, it continues. */
static void a_fleet_of_before_goes_on(void **unused) {
    struct fleet_claim mine;
    make_a_fleet_of_before("99999999999999");
    is_refused(anna, EX_CONFIG, "daemons of an older version");
    make_a_fleet_of_before("1");
    good(a->ops->join(a, "{}", &error));
    struct fleet_view view = look(a);
    assert_int_equal(view.daemon_count, 1);
    assert_string_equal(view.digest, "d");
    assert_int_equal(view.round, 3);
    fleet_view_free(&view);
    assert_int_equal(ended(a, 1, 5).offset.sequence, 20);
    assert_int_equal(take(a, &mine, 1, 1), 1);
    assert_true(mine.claim > 5);
    assert_int_equal(mine.offset.sequence, 20);
    assert_int_equal(mine.states, 2);
    assert_string_equal(states(a, 1), "x=one y=two ");
}

/* ---- Commits of partitions, with the states of their streams ---- */

enum { ROWS = 1000, KEY_SIZE = 16 };

/* There are so many keys of states, including staged ones. */
static void has_keys(size_t count) {
    redisReply *keys = redis_ask("KEYS runnel:{g}:states:*");
    assert_int_equal(keys->elements, count);
    freeReplyObject(keys);
}

/* A commit of so many examples and states; stages those of `rows`, "x=1 y=2 z", where z is
   deleted. */
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
    take(a, &mine, 2, 1);
    struct fleet_commit one = staged(&mine, 10, 1, "x=ten");
    one.whole = true;
    commit(a, &one, false);
    assert_false(one.refused || one.incomplete);
    mine.offset = one.offset;
    one = staged(&mine, 20, 1, "x=twenty");
    assert_string_equal(states(b, 2), "x=ten "); /* staged states do not count yet */
    /* the answer may be lost: the second call has the same result */
    for (int again = 0; again < 2; again++) {
        if (again) { /* it was staged again, too */
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
    take(a, mine, 0, 2);
    late[0] = learned(&mine[0], 10);
    commit(a, late, false);
    end_lease("anna");
    assert_int_equal(take(b, &theirs, 0, 1), 1);
    assert_int_equal(theirs.offset.sequence, 10);

    late[0] = staged(&mine[0], 30, 1, "x=late"); /* beyond the commit */
    late[1] = learned(&mine[1], 40);             /* still its own: nobody has taken it */
    good(a->ops->commit(a, late, 2, false, &error));
    assert_true(late[0].refused);
    assert_false(late[1].refused);
    assert_string_equal(states(b, 0), "");
    commit(a, late, true); /* a regular release neither */
    assert_true(late[0].refused);
    struct fleet_ended over = ended(a, 0, mine[0].claim);
    assert_true(over.is_over && over.is_known);
    assert_int_equal(over.offset.sequence, 10);
    assert_false(ended(a, 1, mine[1].claim).is_over);
    has_keys(0); /* its staged states are gone */
}

/* Streams change, appear and are deleted: only they are staged. */
static void states_are_laid_over_those_before(void **unused) {
    struct fleet_claim mine;
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
    one = learned(&mine, 40); /* all are deleted */
    one.whole = true;
    commit(a, &one, true);
    assert_false(one.incomplete);
    assert_string_equal(states(a, 0), "");
    has_keys(0);
}

/* The number of streams proves that none is missing; otherwise nothing changes. */
static void what_is_missing_is_not_committed(void **unused) {
    struct fleet_claim mine, theirs;
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

/* A server that has lost the previous commit has as many streams, but one of them is older. */
static void what_is_lost_is_not_built_upon(void **unused) {
    struct fleet_claim mine;
    take(a, &mine, 0, 1);
    struct fleet_commit one = staged(&mine, 10, 2, "x=1 y=1");
    one.whole = true;
    commit(a, &one, false);
    mine.offset.sequence = 20; /* unknown to the server; x was changed */
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
    redis_do("DEL runnel:{g}:states:0");   /* as a server does that is out of memory */
    assert_string_equal(states(a, 0), ""); /* the next owner starts them from scratch */
}

/* Some partitions are complete and others are not: each is committed on its own. */
static void partitions_are_committed_each_for_itself(void **unused) {
    struct fleet_claim mine[3];
    struct fleet_commit all[3];
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

/* ---- Rounds of averages ---- */

/* Both have a partition. */
static int begin_round(void **unused) {
    struct fleet_claim claim;
    pair_begin_joined(unused);
    take(a, &claim, 0, 1);
    take(b, &claim, 1, 1);
    return 0;
}

/* Returns its round. */
static uint64_t arrive(struct fleet_link *link, uint64_t serial, const char *text) {
    uint64_t round;
    good(link->ops->arrive(link, serial, text, strlen(text), &round, &error));
    return round;
}

/* Checks the members of a round, "" while it is open. */
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

/* A restarted daemon does not know its earlier rounds: it is in the open one. */
static void a_round_that_is_over_does_not_come_again(void **unused) {
    arrive(a, 1, "of a");
    arrive(b, 1, "of b");
    is_round(a, 1, "anna\nbert\n");
    assert_int_equal(arrive(a, 100, "new"), 2);
    is_given(b, 2, "anna", "new");
}

static void a_round_does_not_wait_for_ever(void **unused) {
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
    good(a->ops->pass(a, 1, &error));
    assert_int_equal(arrive(b, 1, "of b"), 1);
    is_round(b, 1, "bert\n");
    assert_int_equal(arrive(b, 2, "of b"), 2); /* that was for one round */
    good(a->ops->pass(a, 1, &error));          /* and is over now */
    is_round(b, 2, "");
    good(a->ops->pass(a, 2, &error));
    assert_int_equal(arrive(a, 1, "of a"), 2); /* it can arrive all the same */
    is_round(b, 2, "anna\nbert\n");
}

/* Rounds do not wait for members without partitions, even after changes. */
static void who_has_nothing_is_not_waited_for(void **unused) {
    struct fleet_view view = look(a);
    struct fleet_claim theirs = {.partition = 1, .claim = view.partitions[1].claim}, both[2];
    struct fleet_commit one = learned(&theirs, 1);
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

#define alone(name) cmocka_unit_test_setup_teardown(name, pair_begin, pair_end)
#define in_round(name) cmocka_unit_test_setup_teardown(name, begin_round, pair_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        alone(a_fleet_that_has_never_been),
        joined(members_see_each_other),
        joined(strangers_are_refused),
        alone(groups_of_long_names_are_two),
        joined(a_name_has_another_daemon_once_the_first_is_gone),
        joined(a_partition_is_one_daemons),
        joined(a_take_names_what_it_has_seen),
        joined(dead_before_anything_was_committed),
        joined(leaving_ends_claims),
        joined(what_has_changed_is_all_that_is_needed),
        joined(a_clock_that_goes_back),
        joined(a_claim_that_was_lost_is_no_others),
        joined(a_server_that_lost_something_is_looked_at_anew),
        joined(drained_and_back),
        joined(a_server_that_was_away),
        alone(something_else_has_the_key),
        alone(damage_is_reported),
        alone(a_fleet_of_before_goes_on),
        joined(handed_over_in_order),
        joined(the_dead_one_is_refused),
        joined(states_are_laid_over_those_before),
        joined(what_is_missing_is_not_committed),
        joined(what_is_lost_is_not_built_upon),
        joined(states_that_are_gone_are_not_committed),
        joined(partitions_are_committed_each_for_itself),
        joined(many_states),
        in_round(a_round_is_closed_when_all_are_there),
        in_round(a_round_that_is_over_does_not_come_again),
        in_round(a_round_does_not_wait_for_ever),
        in_round(who_passes_is_not_waited_for),
        in_round(who_has_nothing_is_not_waited_for),
    };
    return REDIS_RUN(tests);
}
