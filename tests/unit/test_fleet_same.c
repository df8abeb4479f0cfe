/* A fleet is the same fleet whatever keeps it: random sequences of what daemons do, each played
   over a real Redis and over the machine that decides on a log (machine_link.h). After every step
   both must answer alike, and look alike. A lease is over when a test says so; none is waited for.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet_worlds.h"
#include "redis_server.h"

enum {
    SEEDS = 10,
    STEPS = 300,
    CLAIMS_MAX = 4 * STEPS,
    SKIPPED = 77,
    WRONG = 1000, /* so many states there never are */
};

static bool is_member[ACTORS];     /* and nobody else has its name since, and it has not left */
static bool has_joined[ACTORS];    /* somebody of its name has */
static size_t claimed[CLAIMS_MAX]; /* which partition, by the claim */
static uint64_t seed, counter, newest_claim, last_serial[ACTORS];

static size_t below(size_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % limit;
}

static bool one_in(size_t count) {
    return below(count) == 0;
}

/* One that there has been, or the next. */
static uint64_t some_claim(void) {
    return CLAIM_FIRST + below((size_t)(newest_claim + 2 - CLAIM_FIRST));
}

/* ---- What daemons do ---- */

static const char *info(void) {
    static char text[ROWS_SIZE];
    snprintf(text, sizeof text, "{\"x\":%d}", (int)below(3));
    return text;
}

/* Who now has the name, or had it last, has lost it. */
static void join(size_t actor, const struct fleet_view *view) {
    (void)view;
    bool good;
    const char *said = info();
    both(good, actor, join, said, );
    for (size_t n = 0; good && n < ACTORS; n++)
        if (strcmp(selves[n].name, selves[actor].name) == 0) {
            is_member[n] = false;
            has_joined[n] = true;
        }
    is_member[actor] |= good;
}

static void renew(size_t actor, const struct fleet_view *view) {
    (void)view;
    uint64_t version[WORLDS];
    int result[WORLDS];
    struct error error[WORLDS];
    const char *said = info();
    for (int w = 0; w < WORLDS; w++)
        result[w] = links[actor][w]->ops->renew(links[actor][w], said, &version[w], &error[w]);
    if (!same_result(result, error))
        return;
    same_number("a member", version[REDIS] > 0, version[MACHINE] > 0);
    same_number("displaced", version[REDIS] == FLEET_DISPLACED,
                version[MACHINE] == FLEET_DISPLACED);
}

static void leave(size_t actor, const struct fleet_view *view) {
    (void)view;
    bool good;
    both(good, actor, leave, );
    is_member[actor] &= !good;
}

static void take(size_t actor, const struct fleet_view *view) {
    struct fleet_claim claims[WORLDS][PARTITIONS];
    size_t count = 0, taken[WORLDS];
    int result[WORLDS];
    struct error error[WORLDS];
    for (size_t p = 0; p < PARTITIONS && view->partition_count; p++)
        if (one_in(2))
            claims[REDIS][count++] = (struct fleet_claim){
                .partition = p, .claim = one_in(8) ? some_claim() : view->partitions[p].claim};
    memcpy(claims[MACHINE], claims[REDIS], sizeof claims[REDIS]);
    if (count == 0)
        return;
    for (int w = 0; w < WORLDS; w++)
        result[w] =
            links[actor][w]->ops->take(links[actor][w], claims[w], count, &taken[w], &error[w]);
    if (!same_result(result, error))
        return;
    same_number("taken", taken[REDIS], taken[MACHINE]);
    for (size_t n = 0; n < count; n++) {
        const struct fleet_claim *one = &claims[REDIS][n], *other = &claims[MACHINE][n];
        same_number("partition", one->partition, other->partition);
        if (one->partition == SIZE_MAX)
            continue;
        same_number("claim", one->claim, other->claim);
        same_number("committed", one->committed, other->committed);
        same_number("offset", one->offset.sequence, other->offset.sequence);
        same_number("learned", one->learned, other->learned);
        same_number("states", one->states, other->states);
        newest_claim = one->claim > newest_claim ? one->claim : newest_claim;
        assert_true(one->claim - CLAIM_FIRST < CLAIMS_MAX);
        claimed[one->claim - CLAIM_FIRST] = one->partition;
    }
}

/* Rows of random streams for a commit, staged in both worlds; how many states there are then. */
static void stage(size_t actor, struct fleet_commit *commit) {
    static char keys[KEYS][ROWS_SIZE], texts[KEYS][ROWS_SIZE];
    struct found before = states(commit->partition);
    struct fleet_row rows[KEYS];
    bool good;
    commit->serial = ++counter;
    commit->whole = before.count == 0 || one_in(3);
    commit->rows = 0;
    commit->streams = commit->whole ? 0 : before.count;
    for (size_t k = 0; k < KEYS; k++) {
        if (!one_in(3))
            continue;
        bool was_there = false, goes = !commit->whole && one_in(3);
        int size = snprintf(keys[k], ROWS_SIZE, "key%zu", k);
        for (size_t n = 0; n < before.count; n++)
            was_there |= strncmp(before.row[n], keys[k], (size_t)size) == 0;
        snprintf(texts[k], ROWS_SIZE, "%" PRIu64, counter);
        rows[commit->rows++] =
            (struct fleet_row){keys[k], texts[k], (size_t)size, goes ? 0 : strlen(texts[k])};
        commit->streams += commit->whole || (!was_there && !goes);
        commit->streams -= !commit->whole && was_there && goes;
    }
    both(good, actor, stage, commit->partition, commit->claim, commit->serial, rows,
         commit->rows, );
    assert_true(good);
}

/* False: there is a reason to commit anew, with other states. */
static bool commit_both(size_t actor, const struct fleet_commit *wanted, size_t count,
                        bool release) {
    struct fleet_commit commits[WORLDS][PARTITIONS];
    int result[WORLDS];
    struct error error[WORLDS];
    bool complete = true;
    for (int w = 0; w < WORLDS; w++) {
        memcpy(commits[w], wanted, count * sizeof *wanted);
        result[w] =
            links[actor][w]->ops->commit(links[actor][w], commits[w], count, release, &error[w]);
    }
    if (!same_result(result, error))
        return false;
    for (size_t n = 0; n < count; n++) {
        same_number("refused", commits[REDIS][n].refused, commits[MACHINE][n].refused);
        same_number("incomplete", commits[REDIS][n].incomplete, commits[MACHINE][n].incomplete);
        complete &= !commits[REDIS][n].incomplete;
        states(commits[REDIS][n].partition);
    }
    return complete;
}

static void commit(size_t actor, const struct fleet_view *view) {
    struct fleet_commit commits[PARTITIONS];
    size_t count = 0;
    bool release = one_in(4);
    for (size_t p = 0; p < view->partition_count; p++) {
        const struct fleet_partition *known = &view->partitions[p];
        bool is_own =
            known->owner >= 0 && strcmp(view->daemons[known->owner].name, selves[actor].name) == 0;
        if (!(is_own ? one_in(2) : one_in(10)))
            continue;
        struct fleet_commit *one = &commits[count++];
        *one = (struct fleet_commit){.partition = p,
                                     .claim = one_in(12) ? some_claim() : known->claim,
                                     .offset = {3, ++counter},
                                     .base = known->offset,
                                     .learned = counter,
                                     .streams = known->states};
        if (!one_in(3))
            stage(actor, one);
        if (one_in(10))
            one->streams += WRONG;
    }
    if (count && commit_both(actor, commits, count, release) && one_in(3))
        commit_both(actor, commits, count, release); /* the answer was lost */
}

static void settle(size_t actor, const struct fleet_view *view) {
    (void)view;
    const uint64_t claim = some_claim();
    bool good;
    both(good, actor, settle, &claim, 1, );
    assert_true(good);
}

static void same_parameters(size_t actor, uint64_t round, char *names) {
    char *rest;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        char *bytes[WORLDS];
        size_t size[WORLDS];
        struct error error;
        for (int w = 0; w < WORLDS; w++)
            if (links[actor][w]->ops->parameters(links[actor][w], round, name, (void **)&bytes[w],
                                                 &size[w], &error))
                differ("%s", error.text);
        same_number("size", size[REDIS], size[MACHINE]);
        assert_memory_equal(bytes[REDIS], bytes[MACHINE], size[REDIS]);
        free(bytes[REDIS]);
        free(bytes[MACHINE]);
    }
}

static void ask_for_round(size_t actor, uint64_t round) {
    char *names[WORLDS];
    int result[WORLDS];
    struct error error[WORLDS];
    for (int w = 0; w < WORLDS; w++)
        result[w] = links[actor][w]->ops->round(links[actor][w], round, &names[w], &error[w]);
    assert_true(same_result(result, error));
    same_text((const char *const[WORLDS]){names[REDIS] ? names[REDIS] : "",
                                          names[MACHINE] ? names[MACHINE] : ""});
    if (names[REDIS])
        same_parameters(actor, round, names[REDIS]);
    free(names[REDIS]);
    free(names[MACHINE]);
}

/* Who arrives, or passes, asks for the round at once: over a log it may be closed by then. */
static void arrive(size_t actor, const struct fleet_view *view) {
    char text[ROWS_SIZE];
    uint64_t round[WORLDS];
    int result[WORLDS];
    struct error error[WORLDS];
    if (!one_in(5) || !last_serial[actor])
        last_serial[actor] = ++counter;
    snprintf(text, sizeof text, "of %" PRIu64, last_serial[actor]);
    for (int w = 0; w < WORLDS; w++)
        result[w] = links[actor][w]->ops->arrive(links[actor][w], last_serial[actor], text,
                                                 strlen(text), &round[w], &error[w]);
    if (same_result(result, error))
        same_number("round", round[REDIS], round[MACHINE]);
    ask_for_round(actor, view->round);
}

static void pass(size_t actor, const struct fleet_view *view) {
    const uint64_t round = view->round - (view->round > 1 && one_in(4));
    bool good;
    both(good, actor, pass, round, );
    assert_true(good);
    ask_for_round(actor, view->round);
}

static void drain(size_t actor, const struct fleet_view *view) {
    (void)view;
    static const char *const names[] = {"anna", "bert", "carl", "nobody"};
    const char *name = names[below(sizeof names / sizeof *names)];
    bool good;
    both(good, actor, drain, name, );
    (void)good;
}

static void rebalance(size_t actor, const struct fleet_view *view) {
    (void)view;
    bool good;
    both(good, actor, rebalance, );
    assert_true(good);
}

static void end_lease(size_t actor, const struct fleet_view *view) {
    (void)actor;
    const char *name = view->daemons[below(view->daemon_count)].name;
    if (strcmp(name, selves[ZOE].name) == 0)
        return;
    redis_do("ZADD runnel:{g}:leases 1 %s", name);
    machine_end_lease(world, name);
}

static void round_is_old(size_t actor, const struct fleet_view *view) {
    (void)actor;
    if (view->arrived == 0)
        return;
    redis_do("HSET runnel:{g}:fleet since 1");
    machine_round_is_old(world);
}

static void some_round(size_t actor, const struct fleet_view *view) {
    ask_for_round(actor, 1 + below(view->round + 1));
}

static void snapshot(size_t actor, const struct fleet_view *view) {
    (void)actor, (void)view;
    machine_save_and_load(world);
}

/* ---- Playing ---- */

/* How often, of all. */
static const struct kind {
    size_t often;
    const char *name;
    void (*happens)(size_t actor, const struct fleet_view *view);
} kinds[] = {
    {30, "commit", commit},
    {20, "take", take},
    {8, "arrive", arrive},
    {3, "pass", pass},
    {5, "round", some_round},
    {4, "settle", settle},
    {3, "drain", drain},
    {2, "rebalance", rebalance},
    {7, "renew", renew},
    {2, "join", join},
    {2, "leave", leave},
    {8, "the end of a lease", end_lease},
    {3, "an old round", round_is_old},
    {3, "a snapshot", snapshot},
};

static const struct kind *choose(void) {
    const size_t count = sizeof kinds / sizeof *kinds;
    size_t all = 0, n = 0;
    for (n = 0; n < count; n++)
        all += kinds[n].often;
    size_t choice = below(all);
    for (n = 0; choice >= kinds[n].often; n++)
        choice -= kinds[n].often;
    return &kinds[n];
}

static void do_something(size_t actor, const struct fleet_view *view) {
    const struct kind *kind = choose();
    doing = kind->name;
    kind->happens(actor, view);
}

/* What a daemon asks for in vain after its copy has joined. */
static void do_as_copy(size_t actor, const struct fleet_view *view) {
    one_in(2) ? take(actor, view) : commit(actor, view);
}

/* Who is no member can join, and, unless it has left, renew in vain. */
static void do_as_stranger(size_t actor, const struct fleet_view *view) {
    bool name_is_had = false, is_copied = false;
    for (size_t n = 0; n < ACTORS; n++) {
        bool same = is_member[n] && strcmp(selves[n].name, selves[actor].name) == 0;
        name_is_had |= same;
        is_copied |= same && strcmp(selves[n].id, selves[actor].id) == 0;
    }
    doing = is_copied ? "a copy" : "a stranger";
    if (is_copied && one_in(2))
        do_as_copy(actor, view);
    else if ((name_is_had || !has_joined[actor]) && one_in(2))
        renew(actor, view);
    else
        join(actor, view);
}

static void play(void) {
    for (step = 0; step < STEPS; step++) {
        struct fleet_view view = worlds_look();
        size_t actor = below(PLAYERS);
        if (is_member[actor])
            do_something(actor, &view);
        else
            do_as_stranger(actor, &view);
        fleet_view_free(&view);
        view = worlds_look();
        fleet_view_free(&view);
        if (one_in(2))
            same_versions();
        if (one_in(8))
            same_claims(newest_claim, claimed);
    }
}

static void begin(uint64_t s) {
    for (size_t n = 0; n < ACTORS; n++) {
        is_member[n] = has_joined[n] = false;
        last_serial[n] = 0;
    }
    counter = 0;
    newest_claim = CLAIM_FIRST - 1;
    seed = s;
}

static void redis_and_the_machine_agree(void **unused) {
    (void)unused;
    for (uint64_t s = 1; s <= SEEDS; s++) {
        worlds_open();
        begin(s);
        doing = "the beginning";
        join(ZOE, NULL);
        join(EVE, NULL); /* in vain */
        assert_false(is_member[EVE]);
        play();
        worlds_close();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(redis_and_the_machine_agree)};
    if (!redis_is_there()) {
        puts("needs redis-server");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, redis_start, redis_stop);
}
