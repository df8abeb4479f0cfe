/* A fleet is the same fleet whatever keeps it: random sequences of what daemons do, each played
   over a real Redis and over the machine that decides on a log (machine_link.h). After every step
   both must answer alike, and look alike. A lease is over when a test says so; none is waited for.
 */
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
#include "machine_link.h"
#include "redis_server.h"

enum {
    PARTITIONS = 5,
    SEEDS = 10,
    STEPS = 300,
    SKIPPED = 77,
    KEYS = 8,
    ROWS_SIZE = 16,
    TEXT_SIZE = 16384,
    WRONG = 1000, /* so many states there never are */
};

/* Two daemons have one name; the last but one only looks, and the last does not belong here. */
enum { ANNA, BERT, CARL, OTHER_ANNA, ZOE, EVE, ACTORS, PLAYERS = ZOE };
enum { REDIS, MACHINE, WORLDS };

#define SELF(its_name, its_id, its_digest)                                                         \
    {                                                                                              \
        .group = "g", .name = its_name, .id = its_id, .stream = "s", .digest = its_digest,         \
        .partitions = PARTITIONS, .every = 10, .lease = 3600                                       \
    }
static const struct fleet_self selves[ACTORS] = {
    [ANNA] = SELF("anna", "1", "d"), [BERT] = SELF("bert", "2", "d"),
    [CARL] = SELF("carl", "3", "d"), [OTHER_ANNA] = SELF("anna", "4", "d"),
    [ZOE] = SELF("zoe", "5", "d"),   [EVE] = SELF("eve", "6", "e"),
};

static struct machine_world *world;
static struct fleet_link *links[ACTORS][WORLDS];
static bool is_member[ACTORS];  /* and nobody else has its name since, and it has not left */
static bool has_joined[ACTORS]; /* somebody of its name has */
static uint64_t versions[WORLDS], seed, counter, newest_claim, last_serial[ACTORS];
static size_t step;
static const char *doing;

static size_t below(size_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % limit;
}

static bool one_in(size_t count) {
    return below(count) == 0;
}

/* ---- Comparing ---- */

#define differ(...)                                                                                \
    do {                                                                                           \
        print_error("step %zu, %s: ", step, doing);                                                \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static void same_text(const char *const text[WORLDS]) {
    if (strcmp(text[REDIS], text[MACHINE]) != 0)
        differ("Redis:\n%s\nthe machine:\n%s", text[REDIS], text[MACHINE]);
}

static void same_number(const char *what, uint64_t redis, uint64_t machine) {
    if (redis != machine)
        differ("%s: Redis %" PRIu64 ", the machine %" PRIu64, what, redis, machine);
}

/* What both answered: whether it went well is given back. */
static bool same_result(const int result[WORLDS], const struct error error[WORLDS]) {
    if (result[REDIS] != result[MACHINE] ||
        (result[REDIS] && error[REDIS].status != error[MACHINE].status))
        differ("Redis: %d, %s; the machine: %d, %s", result[REDIS],
               result[REDIS] ? error[REDIS].text : "", result[MACHINE],
               result[MACHINE] ? error[MACHINE].text : "");
    return result[REDIS] == 0;
}

/* Call an operation in both worlds. */
#define both(good, actor, operation, ...)                                                          \
    do {                                                                                           \
        int result[WORLDS];                                                                        \
        struct error error[WORLDS];                                                                \
        for (int w = 0; w < WORLDS; w++)                                                           \
            result[w] = links[actor][w]->ops->operation(links[actor][w], __VA_ARGS__ & error[w]);  \
        good = same_result(result, error);                                                         \
    } while (0)

static void write_view(const struct fleet_view *view, char text[TEXT_SIZE]) {
    size_t size = (size_t)snprintf(text, TEXT_SIZE, "%s %s round %" PRIu64 ", %zu arrived\n",
                                   view->stream ? view->stream : "-",
                                   view->digest ? view->digest : "-", view->round, view->arrived);
    for (size_t n = 0; n < view->daemon_count; n++) {
        const struct fleet_daemon *daemon = &view->daemons[n];
        size += (size_t)snprintf(text + size, TEXT_SIZE - size, "%s%s%s %s\n", daemon->name,
                                 daemon->living ? " lives" : "",
                                 daemon->draining ? " is drained" : "", daemon->info);
    }
    for (size_t n = 0; n < view->partition_count; n++) {
        const struct fleet_partition *p = &view->partitions[n];
        size += (size_t)snprintf(text + size, TEXT_SIZE - size,
                                 "%zu: %d claim %" PRIu64 ", %d %" PRIu32 "-%" PRIu64 " %" PRIu64
                                 " examples, %" PRIu64 " states\n",
                                 n, p->owner, p->claim, p->committed, p->offset.epoch,
                                 p->offset.sequence, p->learned, p->states);
    }
}

/* What both see, the machine's; to be freed. */
static struct fleet_view look(void) {
    static char text[WORLDS][TEXT_SIZE];
    struct fleet_view view[WORLDS] = {{0}, {0}};
    struct error error;
    for (int w = 0; w < WORLDS; w++) {
        if (links[ZOE][w]->ops->look(links[ZOE][w], &view[w], &error))
            differ("%s", error.text);
        write_view(&view[w], text[w]);
    }
    same_text((const char *const[WORLDS]){text[REDIS], text[MACHINE]});
    fleet_view_free(&view[REDIS]);
    return view[MACHINE];
}

/* Whether the version has changed since the last time, once leases that are over have been seen. */
static void same_versions(void) {
    struct error error;
    bool changed[WORLDS];
    for (int w = 0; w < WORLDS; w++) {
        uint64_t version;
        if (links[ZOE][w]->ops->renew(links[ZOE][w], "{}", &version, &error))
            differ("%s", error.text);
        changed[w] = version != versions[w];
        versions[w] = version;
    }
    same_number("the version has changed", changed[REDIS], changed[MACHINE]);
}

struct found {
    size_t count;
    char row[KEYS + 1][2 * ROWS_SIZE];
};

static int note(void *context, const struct fleet_row *row, struct error *none) {
    struct found *found = context;
    (void)none;
    assert_true(found->count < KEYS);
    snprintf(found->row[found->count++], sizeof *found->row, "%.*s=%.*s", (int)row->key_size,
             (const char *)row->key, (int)row->state_size, (const char *)row->state);
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

static struct found states(size_t partition) {
    struct found found[WORLDS] = {{0}, {0}};
    struct error error;
    for (int w = 0; w < WORLDS; w++) {
        if (links[ZOE][w]->ops->states(links[ZOE][w], partition, note, &found[w], &error))
            differ("%s", error.text);
        qsort(found[w].row, found[w].count, sizeof *found[w].row, by_text);
    }
    same_number("states", found[REDIS].count, found[MACHINE].count);
    for (size_t n = 0; n < found[REDIS].count; n++)
        same_text((const char *const[WORLDS]){found[REDIS].row[n], found[MACHINE].row[n]});
    return found[MACHINE];
}

static void same_claims(void) {
    for (uint64_t claim = 1; claim <= newest_claim; claim++) {
        struct fleet_ended ended[WORLDS] = {{.claim = claim}, {.claim = claim}};
        struct error error;
        for (int w = 0; w < WORLDS; w++)
            if (links[ZOE][w]->ops->ended(links[ZOE][w], &ended[w], 1, &error))
                differ("%s", error.text);
        same_number("over", ended[REDIS].is_over, ended[MACHINE].is_over);
        same_number("known", ended[REDIS].is_known, ended[MACHINE].is_known);
        if (ended[REDIS].is_known)
            same_number("ended at", ended[REDIS].offset.sequence, ended[MACHINE].offset.sequence);
    }
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
    if (same_result(result, error))
        same_number("a member", version[REDIS] > 0, version[MACHINE] > 0);
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
                .partition = p,
                .claim = one_in(8) ? below(newest_claim + 1) : view->partitions[p].claim};
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
                                     .claim = one_in(12) ? 1 + below(newest_claim + 1) : known->claim,
                                     .offset = {3, ++counter},
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
    const uint64_t claim = 1 + below(newest_claim + 1);
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

/* Who is no member can join, and, unless it has left, renew in vain. */
static void do_as_stranger(size_t actor, const struct fleet_view *view) {
    bool name_is_had = false;
    for (size_t n = 0; n < ACTORS; n++)
        name_is_had |= is_member[n] && strcmp(selves[n].name, selves[actor].name) == 0;
    doing = "a stranger";
    if ((name_is_had || !has_joined[actor]) && one_in(2))
        renew(actor, view);
    else
        join(actor, view);
}

static void play(void) {
    for (step = 0; step < STEPS; step++) {
        struct fleet_view view = look();
        size_t actor = below(PLAYERS);
        if (is_member[actor])
            do_something(actor, &view);
        else
            do_as_stranger(actor, &view);
        fleet_view_free(&view);
        view = look();
        fleet_view_free(&view);
        if (one_in(2))
            same_versions();
        if (one_in(8))
            same_claims();
    }
}

static void open_all(void) {
    struct error error;
    redis_do("FLUSHALL");
    assert_int_equal(machine_world_open(&world), 0);
    for (size_t n = 0; n < ACTORS; n++) {
        if (fleet_redis_open(&links[n][REDIS], &redis_url, &selves[n], &error) ||
            machine_link_open(&links[n][MACHINE], world, &selves[n]))
            fail_msg("%s", error.text);
        is_member[n] = has_joined[n] = false;
        last_serial[n] = 0;
    }
    counter = newest_claim = versions[REDIS] = versions[MACHINE] = 0;
}

static void close_all(void) {
    for (size_t n = 0; n < ACTORS; n++)
        for (int w = 0; w < WORLDS; w++)
            links[n][w]->ops->close(&links[n][w]);
    machine_world_close(&world);
}

static void redis_and_the_machine_agree(void **unused) {
    (void)unused;
    for (uint64_t s = 1; s <= SEEDS; s++) {
        open_all();
        seed = s;
        doing = "the beginning";
        join(ZOE, NULL);
        join(EVE, NULL); /* in vain */
        assert_false(is_member[EVE]);
        play();
        close_all();
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
