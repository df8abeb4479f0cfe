/* Three hundred members of one fleet on a real Redis: the assignment when most of them join at once
   and when a third leaves; and the cost of calls, which must not grow with the fleet. Only commands
   and bytes count, not times. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_server.h"

enum {
    FEW = 3,
    MEMBERS = 300,
    GONE = 100,
    PARTS = 700,
    NOBODY = -1,
    LATE_ROUNDS = 5, /* in which some act on an earlier view */
    ROUNDS_MAX = 10,
    NAME_SIZE = 16,
};

struct member {
    char name[NAME_SIZE];
    struct fleet_self self;
    struct fleet_link *link;
    struct fleet_view view;
    bool is_there;
};

static struct member members[MEMBERS], guest;
static int holder[PARTS];          /* the owner, until it releases the partition */
static uint64_t claimed[PARTS];    /* the owner's claim */
static uint64_t position[PARTS];   /* of the last commit */
static size_t taken, released;     /* since the last check */
static uint64_t seed = 1, serials; /* serials of commits */

static bool one_in(size_t count) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % count == 0;
}

/* ---- Members ---- */

static void enter(struct member *member) {
    good(member->link->ops->join(member->link, "{\"examples\":1}", &error));
    member->is_there = true;
}

static void open_member(struct member *member, const char *kind, size_t n) {
    snprintf(member->name, sizeof member->name, "%s-%03zu", kind, n);
    member->self = anna;
    member->self.name = member->self.id = member->name;
    member->self.partitions = PARTS;
    member->link = fleet_redis_link(&member->self);
}

static void close_member(struct member *member) {
    fleet_view_free(&member->view);
    member->link->ops->close(&member->link);
}

static int begin(void **unused) {
    redis_do("FLUSHALL");
    for (size_t n = 0; n < MEMBERS; n++)
        open_member(&members[n], "daemon", n);
    open_member(&guest, "guest", 0);
    for (size_t p = 0; p < PARTS; p++)
        holder[p] = NOBODY;
    return 0;
}

static int end(void **unused) {
    for (size_t n = 0; n < MEMBERS; n++)
        close_member(&members[n]);
    close_member(&guest);
    return 0;
}

static uint64_t renew(struct member *member) {
    uint64_t version;
    good(member->link->ops->renew(member->link, "{\"examples\":2}", &version, &error));
    assert_true(version > 0);
    return version;
}

static void see(struct member *member) {
    good(member->link->ops->look(member->link, &member->view, &error));
}

/* ---- Partitions ---- */

static void claim_some(struct member *member, struct fleet_claim *claims, size_t count) {
    size_t got, counted = 0;
    good(member->link->ops->take(member->link, claims, count, &got, &error));
    for (size_t n = 0; n < count; n++) {
        size_t p = claims[n].partition;
        if (p == SIZE_MAX)
            continue;
        assert_true(holder[p] == NOBODY || !members[holder[p]].is_there);
        assert_int_equal(claims[n].offset.sequence, position[p]);
        holder[p] = (int)(member - members);
        claimed[p] = claims[n].claim;
        counted++;
    }
    assert_int_equal(got, counted);
    taken += got;
}

/* Each a bit further than before. */
static void commit_some(struct member *member, struct fleet_commit *commits, size_t count,
                        bool release) {
    for (size_t n = 0; n < count; n++) {
        size_t p = commits[n].partition;
        const struct fleet_claim claim = {
            .partition = p, .claim = claimed[p], .offset = {position[p] ? 7 : 0, position[p]}};
        position[p] += 1 + p % 7;
        commits[n] = learned(&claim, position[p]);
        commits[n].serial = ++serials;
    }
    good(member->link->ops->commit(member->link, commits, count, release, &error));
    for (size_t n = 0; n < count; n++) {
        assert_false(commits[n].refused || commits[n].incomplete);
        if (release)
            holder[commits[n].partition] = NOBODY;
    }
    released += release ? count : 0;
}

/* Computes the assignment of the living members, as src/cluster/fleet.c does. */
static void assign(const struct fleet_view *view, int *to) {
    static int number[MEMBERS + 1], names[MEMBERS + 1];
    static size_t room[2 * (MEMBERS + 1)];
    int owner[PARTS], count = 0;
    for (size_t d = 0; d < view->daemon_count; d++) {
        names[count] = (int)d;
        number[d] = view->daemons[d].living ? count++ : FLEET_NOBODY;
    }
    for (size_t p = 0; p < PARTS; p++)
        owner[p] = view->partitions[p].owner < 0 ? FLEET_NOBODY : number[view->partitions[p].owner];
    fleet_assign(PARTS, (size_t)count, owner, to, room);
    for (size_t p = 0; p < PARTS; p++)
        to[p] = to[p] == FLEET_NOBODY ? FLEET_NOBODY : names[to[p]];
}

/* Releases the surplus, or takes missing partitions. Returns false if nothing is to be done. */
static bool act(struct member *member) {
    const struct fleet_view *view = &member->view;
    static struct fleet_claim claims[PARTS];
    static struct fleet_commit commits[PARTS];
    const int mine = (int)(member - members), self = fleet_view_find(view, member->name);
    size_t coming = 0, leaving = 0;
    int to[PARTS];
    assign(view, to);
    for (size_t p = 0; p < PARTS; p++) {
        int owner = view->partitions[p].owner;
        bool is_free = owner < 0 || !view->daemons[owner].living;
        if (holder[p] == mine && to[p] != self)
            commits[leaving++].partition = p;
        else if (holder[p] != mine && to[p] == self && is_free)
            claims[coming++] =
                (struct fleet_claim){.partition = p, .claim = view->partitions[p].claim};
    }
    if (leaving)
        commit_some(member, commits, leaving, true);
    else if (coming)
        claim_some(member, claims, coming);
    return leaving || coming;
}

/* All act on a view from before the round, and some on an earlier one, until nobody has anything to
   do. */
static void settle(void) {
    bool busy = true;
    for (int round = 0; busy; round++) {
        busy = round < LATE_ROUNDS;
        assert_in_range(round, 0, ROUNDS_MAX);
        for (size_t n = 0; n < MEMBERS; n++) {
            struct member *member = &members[n];
            bool is_late = member->view.version && round < LATE_ROUNDS && one_in(4);
            if (member->is_there && !is_late && renew(member) != member->view.version)
                see(member);
        }
        for (size_t n = 0; n < MEMBERS; n++)
            if (members[n].is_there)
                busy |= act(&members[n]);
    }
}

/* Each partition belongs to one member, all have their share, and all know it. */
static void all_is_shared_out(size_t count) {
    static size_t has[MEMBERS];
    memset(has, 0, sizeof has);
    for (size_t p = 0; p < PARTS; p++) {
        assert_int_not_equal(holder[p], NOBODY);
        assert_true(members[holder[p]].is_there);
        has[holder[p]]++;
    }
    for (size_t n = 0; n < MEMBERS; n++) {
        if (!members[n].is_there)
            continue;
        assert_in_range(has[n], PARTS / count, PARTS / count + 1);
        for (size_t p = 0; p < PARTS; p++) {
            const struct fleet_partition *known = &members[n].view.partitions[p];
            assert_int_equal(known->claim, claimed[p]);
            assert_string_equal(members[n].view.daemons[known->owner].name,
                                members[holder[p]].name);
        }
    }
    taken = released = 0;
}

static void commit_all(void) {
    static struct fleet_commit commits[PARTS];
    for (size_t n = 0; n < MEMBERS; n++) {
        size_t count = 0;
        for (size_t p = 0; p < PARTS; p++)
            if (holder[p] == (int)n)
                commits[count++].partition = p;
        if (count)
            commit_some(&members[n], commits, count, false);
    }
}

/* ---- Costs ---- */

struct cost {
    uint64_t commands, bytes; /* commands, including those in scripts */
};

static uint64_t number_after(const char *text, const char *what) {
    const char *found = strstr(text, what);
    assert_non_null(found);
    return strtoull(found + strlen(what), NULL, 10);
}

/* Since the statistics of the server were reset. */
static struct cost spent(void) {
    redisReply *info = redis_ask("INFO all");
    struct cost cost = {.bytes = number_after(info->str, "total_net_input_bytes:") +
                                 number_after(info->str, "total_net_output_bytes:")};
    const char *at = info->str;
    while ((at = strstr(at, "\r\ncmdstat_"))) {
        cost.commands += number_after(at, "calls=");
        at++;
    }
    freeReplyObject(info);
    return cost;
}

static void renewal(void) {
    renew(&members[0]);
}

static void look_at_nothing_new(void) {
    see(&members[0]);
}

static void a_commit(void) {
    size_t p = 0;
    while (holder[p] != 0)
        p++;
    struct fleet_commit one = {.partition = p};
    commit_some(&members[0], &one, 1, false);
}

/* From the first to the first, which changes no share; the second sees it. */
static void a_partition_moves(void) {
    size_t p = 0;
    while (holder[p] != 0)
        p++;
    struct fleet_commit one = {.partition = p};
    struct fleet_claim again = {.partition = p, .claim = claimed[p]};
    commit_some(&members[0], &one, 1, true);
    claim_some(&members[0], &again, 1);
    see(&members[1]);
}

static void somebody_comes_and_goes(void) {
    enter(&guest);
    see(&members[0]);
    good(guest.link->ops->leave(guest.link, &error));
    see(&members[0]);
}

/* With its partitions. */
static void somebody_leaves_too_soon(void) {
    struct fleet_claim claim, again;
    size_t p = 0, got;
    while (holder[p] != 0)
        p++;
    struct fleet_commit one = {.partition = p};
    commit_some(&members[0], &one, 1, true);
    enter(&guest);
    claim = (struct fleet_claim){.partition = p, .claim = claimed[p]};
    good(guest.link->ops->take(guest.link, &claim, 1, &got, &error));
    assert_int_equal(got, 1);
    again = (struct fleet_claim){.partition = p, .claim = claim.claim};
    good(guest.link->ops->leave(guest.link, &error));
    claim_some(&members[0], &again, 1);
}

static void a_look_at_a_round(void) {
    char *names;
    good(members[0].link->ops->round(members[0].link, 1, &names, &error));
    assert_null(names);
}

static const struct {
    const char *name;
    void (*happens)(void);
} asked[] = {
    {"a renewal", renewal},
    {"a look at nothing new", look_at_nothing_new},
    {"a commit", a_commit},
    {"a partition that moves", a_partition_moves},
    {"a member that comes and goes", somebody_comes_and_goes},
    {"a member that leaves too soon", somebody_leaves_too_soon},
    {"a look at a round", a_look_at_a_round},
};
enum {
    ASKED = sizeof asked / sizeof *asked,
    TIMES = 20,
    BYTES_OF_DIGITS = 100,
    BYTES_OF_A_CHANGE = 100,
    COMMANDS_MAX = PARTS / 8,
};

static void measure(struct cost cost[ASKED]) {
    for (size_t n = 0; n < FEW; n++)
        see(&members[n]);
    for (size_t n = 0; n < ASKED; n++) {
        asked[n].happens(); /* the first call loads scripts */
        see(&members[0]);
        see(&members[1]);
        redis_do("CONFIG RESETSTAT");
        for (int times = 0; times < TIMES; times++)
            asked[n].happens();
        cost[n] = spent();
    }
    for (size_t n = 0; n < FEW; n++)
        see(&members[n]);
}

/* The same number of commands, and the same bytes except for longer numbers; none for each
   partition. */
static void costs_the_same(const struct cost few[ASKED], const struct cost many[ASKED]) {
    for (size_t n = 0; n < ASKED; n++)
        if (many[n].commands > TIMES * COMMANDS_MAX || few[n].commands != many[n].commands ||
            many[n].bytes > few[n].bytes + TIMES * BYTES_OF_DIGITS)
            fail_msg("%s, %d times: %" PRIu64 " commands and %" PRIu64 " bytes of %d members, and "
                     "%" PRIu64 " and %" PRIu64 " of %d",
                     asked[n].name, TIMES, few[n].commands, few[n].bytes, FEW, many[n].commands,
                     many[n].bytes, MEMBERS);
}

/* ---- Test ---- */

/* Every other one leaves, the rest just stop. Returns their claims. */
static size_t a_third_is_gone(struct fleet_ended gone[PARTS]) {
    size_t lost = 0;
    for (size_t n = 0; n < MEMBERS; n += MEMBERS / GONE) {
        members[n].is_there = false;
        for (size_t p = 0; p < PARTS; p++)
            if (holder[p] == (int)n) {
                gone[lost].partition = p;
                gone[lost].claim = claimed[p];
                gone[lost++].offset.sequence = position[p];
            }
        if (n % 2)
            good(members[n].link->ops->leave(members[n].link, &error));
        else
            end_lease(members[n].name);
    }
    return lost;
}

/* Checks the ends of their claims. */
static void all_have_ended(const struct fleet_ended *gone, size_t count) {
    for (size_t n = 0; n < count; n++) {
        struct fleet_ended one = ended(members[1].link, gone[n].partition, gone[n].claim);
        assert_true(one.is_over && one.is_known);
        assert_int_equal(one.offset.sequence, gone[n].offset.sequence);
    }
}

static void many_come_and_many_go(void **unused) {
    static struct fleet_ended gone[PARTS];
    static const float parameters[] = {1, 2};
    struct cost few[ASKED], many[ASKED];
    uint64_t round;
    for (size_t n = 0; n < FEW; n++)
        enter(&members[n]);
    settle();
    assert_int_equal(taken, PARTS);
    all_is_shared_out(FEW);
    commit_all();
    good(members[0].link->ops->arrive(members[0].link, 1, parameters, sizeof parameters, &round,
                                      &error));
    measure(few);

    for (size_t n = FEW; n < MEMBERS; n++)
        enter(&members[n]);
    taken = released = 0;
    settle();
    /* The surplus of the few members has moved to the others, and nothing else has moved. */
    assert_in_range(released, PARTS - FEW * (PARTS / MEMBERS + 1), PARTS - FEW * (PARTS / MEMBERS));
    assert_int_equal(taken, released);
    all_is_shared_out(MEMBERS);
    commit_all();
    measure(many);
    costs_the_same(few, many);

    taken = released = 0;
    size_t lost = a_third_is_gone(gone);
    redis_do("CONFIG RESETSTAT");
    settle();
    const struct cost cost = spent();
    assert_int_equal(released, 0); /* the remaining members keep their partitions */
    assert_int_equal(taken, lost);
    all_is_shared_out(MEMBERS - GONE);
    all_have_ended(gone, lost);
    /* Each reads only the changes, not the whole fleet each time. */
    const uint64_t changes = GONE + 2 * lost, left = MEMBERS - GONE;
    assert_in_range(cost.bytes, left, left * changes * BYTES_OF_A_CHANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_come_and_many_go, begin, end),
    };
    return REDIS_RUN(tests);
}
