/* The fleet on a log, without a log: commands go through their bytes, and now and then the machine
   goes through a snapshot, which must change nothing. test_fleet_same plays it against Redis. */
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
#include "common/hash.h"
#include "fleet/fleet_machine.h"
#include "fleet/fleet_pieces.h"

enum { PARTITIONS = 4, LEASE = 1000, TEXT_SIZE = 64 };

static struct fleet_machine *machine;
static struct fleet_answer answer;
static struct error error;
static uint64_t now, position;

#define good(call)                                                                                 \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s", error.text);                                                            \
    } while (0)

static int begin(void **unused) {
    (void)unused;
    now = LEASE;
    position = 0;
    machine = fleet_machine_open(&error);
    return machine ? 0 : -1;
}

static int end(void **unused) {
    (void)unused;
    fleet_machine_close(&machine);
    return 0;
}

/* The machine from a snapshot of it, which has the same snapshot. */
static void save_and_load(void) {
    size_t size, again;
    uint64_t where;
    void *bytes = fleet_machine_save(machine, ++position, &size, &error);
    assert_non_null(bytes);
    fleet_machine_close(&machine);
    machine = fleet_machine_load(bytes, size, &where, &error);
    if (!machine)
        fail_msg("%s", error.text);
    assert_int_equal(where, position);
    void *copy = fleet_machine_save(machine, position, &again, &error);
    assert_int_equal(again, size);
    assert_memory_equal(copy, bytes, size);
    free(copy);
    free(bytes);
}

static enum fleet_verdict apply(const struct fleet_command *command) {
    struct fleet_command read;
    size_t size;
    char *bytes = fleet_command_encode(command, &size);
    save_and_load();
    good(fleet_command_decode(bytes, size, &read, &error));
    good(fleet_machine_apply(machine, now, &read, &answer, &error));
    fleet_command_free(&read);
    free(bytes);
    return answer.verdict;
}

/* ---- Commands of a daemon, whose id and run are called as it is ---- */

static uint64_t number;

static struct fleet_command of(const char *name, enum fleet_command_kind kind) {
    return (struct fleet_command){.kind = kind,
                                  .name = name,
                                  .id = name,
                                  .run = name,
                                  .number = ++number,
                                  .lease = LEASE,
                                  .stream = "s",
                                  .digest = "d",
                                  .partitions = PARTITIONS,
                                  .every = 10};
}

static enum fleet_verdict do_it(const char *name, enum fleet_command_kind kind) {
    const struct fleet_command command = of(name, kind);
    return apply(&command);
}

static void join(const char *name) {
    assert_int_equal(do_it(name, FLEET_COMMAND_JOIN), FLEET_DONE);
}

static uint64_t renew(const char *name) {
    assert_int_equal(do_it(name, FLEET_COMMAND_RENEW), FLEET_DONE);
    return answer.number;
}

/* The new claim, or 0; `seen`: the one before. */
static uint64_t take(const char *name, size_t partition, uint64_t seen) {
    struct fleet_command command = of(name, FLEET_COMMAND_TAKE);
    struct fleet_take take = {partition, seen};
    command.takes = &take;
    command.count = 1;
    assert_int_equal(apply(&command), FLEET_DONE);
    return answer.results[0];
}

static struct fleet_learned learned(size_t partition, uint64_t claim, uint64_t sequence) {
    return (struct fleet_learned){
        .partition = partition, .claim = claim, .offset = {7, sequence}, .learned = sequence};
}

static enum fleet_result commit(const char *name, struct fleet_learned learned, bool release) {
    struct fleet_command command = of(name, FLEET_COMMAND_COMMIT);
    command.commits = &learned;
    command.count = 1;
    command.release = release;
    assert_int_equal(apply(&command), FLEET_DONE);
    return (enum fleet_result)answer.results[0];
}

static struct fleet_ended ended(uint64_t claim) {
    struct fleet_ended one = {.claim = claim};
    fleet_machine_ended(machine, &one);
    return one;
}

static struct fleet_view view(void) {
    struct fleet_view seen;
    good(fleet_machine_view(machine, 0, &seen, &error));
    return seen;
}

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

/* ---- Rounds ---- */

static uint64_t arrive(const char *name, uint64_t serial) {
    struct fleet_command command = of(name, FLEET_COMMAND_ARRIVE);
    command.serial = serial;
    snprintf(command.where, sizeof command.where, "%s's %d", name, (int)serial);
    assert_int_equal(apply(&command), FLEET_DONE);
    return answer.number;
}

static void is_closed(uint64_t round, const char *names) {
    const char *found;
    enum fleet_round_state state = fleet_machine_round(machine, round, LEASE, now, &found);
    assert_int_equal(state, FLEET_ROUND_CLOSED);
    assert_string_equal(found, names);
}

static enum fleet_round_state state_of(uint64_t round) {
    const char *found;
    enum fleet_round_state state = fleet_machine_round(machine, round, LEASE, now, &found);
    assert_true(state == FLEET_ROUND_CLOSED || !found);
    return state;
}

static void close_round(const char *name, uint64_t round) {
    struct fleet_command command = of(name, FLEET_COMMAND_ROUND);
    command.round = round;
    assert_int_equal(apply(&command), FLEET_DONE);
}

static void begin_rounds(void) {
    join("anna");
    join("bert");
    join("carl"); /* has nothing: nobody waits for it */
    take("anna", 0, 0);
    take("bert", 1, 0);
}

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

/* ---- Bytes ---- */

static int decode(const char *text) {
    struct fleet_command command;
    int result = fleet_command_decode(text, strlen(text), &command, &error);
    if (result == 0)
        fleet_command_free(&command);
    return result;
}

#define MEMBER "\"v\":1,\"name\":\"a\",\"id\":\"i\",\"run\":\"r\",\"number\":1,"

static void commands_of_others(void **unused) {
    static const char *const none[] = {
        "",
        "x",
        "[]",
        "{}",
        "1",
        "{\"v\":1}",
        "{\"v\":0,\"do\":\"rebalance\"}",
        "{\"v\":1,\"do\":\"dance\"}",
        "{\"v\":1,\"do\":\"drain\"}",
        "{\"v\":1,\"do\":\"drain\",\"target\":\"a\\nb\"}",
        "{\"v\":1,\"do\":\"drain\",\"target\":\"\"}",
        "{\"v\":1,\"do\":\"leave\"}",
        "{" MEMBER "\"do\":\"take\"}",
        "{" MEMBER "\"do\":\"take\",\"takes\":[[65536,0]]}",
        "{" MEMBER "\"do\":\"take\",\"takes\":[[1]]}",
        "{" MEMBER "\"do\":\"take\",\"takes\":[1]}",
        "{" MEMBER "\"do\":\"settle\",\"settled\":[-1]}",
        "{" MEMBER "\"do\":\"settle\",\"settled\":[9223372036854775808]}",
        "{" MEMBER
        "\"do\":\"commit\",\"release\":true,\"commits\":[[1,1,4294967296,0,0,0,0,0,0,\"\"]]}",
        "{" MEMBER "\"do\":\"commit\",\"commits\":[]}",
        "{" MEMBER "\"do\":\"renew\",\"lease\":1,\"info\":7}"};
    static const char *const some[] = {
        "{\"v\":1,\"do\":\"rebalance\",\"later\":[1,{}]}",
        "{" MEMBER "\"do\":\"take\",\"takes\":[[1,2,\"later\"]]}",
        "{" MEMBER
        "\"do\":\"commit\",\"release\":true,\"commits\":[[1,1,4294967295,0,0,0,0,0,1,\"w\"]]}",
        "{" MEMBER "\"do\":\"renew\",\"lease\":1}"};
    (void)unused;
    for (size_t n = 0; n < sizeof none / sizeof *none; n++) {
        assert_int_equal(decode(none[n]), 1);
        assert_int_equal(error.status, EX_DATAERR);
        assert_non_null(strstr(error.text, "no command of a fleet"));
    }
    for (size_t n = 0; n < sizeof some / sizeof *some; n++)
        good(decode(some[n]));
    assert_int_equal(decode("{\"v\":2,\"do\":\"dance\"}"), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "later version"));
}

static void as_many_items_as_there_may_be(void **unused) {
    enum { ROOM = 1000 * 1000 };
    struct fleet_command command = of("anna", FLEET_COMMAND_COMMIT), read;
    struct fleet_learned *commits = calloc(FLEET_ITEMS_MAX, sizeof *commits);
    size_t size;
    (void)unused;
    for (size_t n = 0; n < FLEET_ITEMS_MAX; n++) {
        commits[n] = (struct fleet_learned){.partition = FLEET_PARTITIONS_MAX - 1,
                                            .claim = INT64_MAX,
                                            .offset = {UINT32_MAX, INT64_MAX},
                                            .learned = INT64_MAX,
                                            .streams = INT64_MAX,
                                            .serial = INT64_MAX,
                                            .rows = INT64_MAX,
                                            .whole = true};
        memset(commits[n].where, 'w', FLEET_WHERE_SIZE - 1);
    }
    command.commits = commits;
    command.count = FLEET_ITEMS_MAX;
    char *bytes = fleet_command_encode(&command, &size);
    assert_in_range(size, 1, ROOM); /* what brokers take as one message */
    good(fleet_command_decode(bytes, size, &read, &error));
    assert_memory_equal(read.commits, commits, FLEET_ITEMS_MAX * sizeof *commits);
    fleet_command_free(&read);
    free(bytes);
    free(commits);
}

/* A machine in which there is something of everything. */
static void fill(void) {
    begin_rounds();
    struct fleet_learned some = with_states(learned(0, 1, 3), 1, 2, 2, true);
    assert_int_equal(commit("anna", some, false), FLEET_COMMITTED);
    assert_int_equal(commit("bert", learned(1, 2, 3), true), FLEET_COMMITTED);
    arrive("anna", 1);
    take("bert", 1, 2);
    arrive("anna", 2);
}

static void a_damaged_snapshot(void **unused) {
    size_t size;
    uint64_t where;
    (void)unused;
    fill();
    unsigned char *bytes = fleet_machine_save(machine, 7, &size, &error);
    for (size_t n = 0; n < size; n++) {
        bytes[n] ^= 0x40;
        assert_null(fleet_machine_load(bytes, size, &where, &error));
        assert_true(error.status == EX_DATAERR);
        assert_non_null(strstr(error.text, "snapshot of the fleet"));
        bytes[n] ^= 0x40;
        assert_null(fleet_machine_load(bytes, n, &where, &error));
    }
    free(bytes);
}

/* The hash at the end, for bytes that are no damage but somebody's intention. */
static void sign(unsigned char *bytes, size_t size) {
    uint64_t hash = hash_bytes(HASH_BEGIN, bytes, size - sizeof hash);
    for (size_t n = 0; n < sizeof hash; n++)
        bytes[size - sizeof hash + n] = (unsigned char)(hash >> 8 * n);
}

/* It is refused, or is a machine that goes on. */
static void is_refused_or_good(const unsigned char *bytes, size_t size) {
    uint64_t where;
    struct fleet_machine *loaded = fleet_machine_load(bytes, size, &where, &error);
    if (!loaded) {
        assert_true(error.status == EX_DATAERR || error.status == EX_UNAVAILABLE);
        return;
    }
    fleet_machine_close(&machine);
    machine = loaded;
    struct fleet_take take = {0, 1};
    struct fleet_learned learned = {.partition = 1, .claim = 3, .serial = 8, .rows = 1};
    for (int kind = FLEET_COMMAND_JOIN; kind < FLEET_COMMAND_KINDS; kind++) {
        struct fleet_command command = of("bert", (enum fleet_command_kind)kind);
        command.takes = &take;
        command.commits = &learned;
        command.settled = &take.claim;
        command.count = 1;
        command.target = "anna";
        command.round = 2;
        apply(&command);
    }
    do_it("anna", FLEET_COMMAND_LEAVE);
    state_of(1);
    struct fleet_view seen = view();
    fleet_view_free(&seen);
}

static void a_forged_snapshot(void **unused) {
    static const unsigned char changes[] = {0x01, 0x02, 0x40, 0x7F, 0x80, 0xFF};
    size_t size;
    uint64_t where;
    (void)unused;
    fill();
    unsigned char *bytes = fleet_machine_save(machine, 7, &size, &error);
    for (size_t n = 0; n < size - sizeof(uint64_t); n++)
        for (size_t c = 0; c < sizeof changes; c++) {
            bytes[n] ^= changes[c];
            sign(bytes, size);
            is_refused_or_good(bytes, size);
            bytes[n] ^= changes[c];
        }
    for (size_t shorter = sizeof(uint64_t); shorter < size; shorter++) {
        unsigned char *copy = malloc(shorter);
        memcpy(copy, bytes, shorter);
        sign(copy, shorter);
        is_refused_or_good(copy, shorter);
        free(copy);
    }
    *strchr((char *)bytes, '1') = '2';
    sign(bytes, size);
    assert_null(fleet_machine_load(bytes, size, &where, &error));
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "later version"));
    free(bytes);
}

/* ---- Pieces ---- */

static void pieces_in_any_order(void **unused) {
    enum { SIZE = 2 * FLEET_PIECE_BYTES + 5, PIECES = 3 };
    static const size_t order[] = {2, 0, 2, 1};
    unsigned char *bytes = malloc(SIZE), *message = malloc(FLEET_PIECE_HEAD + FLEET_PIECE_BYTES);
    struct fleet_pieces pieces = {.bytes = NULL};
    (void)unused;
    for (size_t n = 0; n < SIZE; n++)
        bytes[n] = (unsigned char)(n * 7 + n / 1000);
    assert_int_equal(fleet_piece_count(SIZE), PIECES);
    for (size_t n = 0; n < sizeof order / sizeof *order; n++)
        for (uint64_t at = 1; at <= 2; at++) { /* two snapshots at once */
            size_t size = fleet_piece_write(message, bytes, SIZE, at, order[n]);
            assert_in_range(size, 1, FLEET_PIECE_HEAD + FLEET_PIECE_BYTES);
            assert_true(fleet_piece_is(message, size));
            assert_int_equal(fleet_pieces_add(&pieces, message, size - 1), 0); /* cut off */
            assert_int_equal(fleet_pieces_add(&pieces, message, size), order[n] == 1);
        }
    assert_int_equal(pieces.size, SIZE);
    assert_memory_equal(pieces.bytes, bytes, SIZE);
    for (uint64_t at = 10; at < 20; at++) { /* those that never become whole do not stay */
        size_t size = fleet_piece_write(message, bytes, SIZE, at, 0);
        assert_int_equal(fleet_pieces_add(&pieces, message, size), 0);
    }
    size_t size = fleet_piece_write(message, bytes, 1, 30, 0);
    assert_int_equal(fleet_pieces_add(&pieces, message, size), 1);
    assert_int_equal(pieces.size, 1);
    assert_false(fleet_piece_is("{\"v\":1}", strlen("{\"v\":1}")));
    fleet_pieces_free(&pieces);
    free(message);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fleet_that_has_never_been, begin, end),
        cmocka_unit_test_setup_teardown(a_lease_is_over_in_the_logs_time, begin, end),
        cmocka_unit_test_setup_teardown(strangers_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_name_has_another_daemon_once_the_first_is_gone, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_command_counts_once, begin, end),
        cmocka_unit_test_setup_teardown(what_is_said_of_a_daemon, begin, end),
        cmocka_unit_test_setup_teardown(drained_and_back, begin, end),
        cmocka_unit_test_setup_teardown(a_partition_is_one_daemons, begin, end),
        cmocka_unit_test_setup_teardown(states_are_whole_or_added, begin, end),
        cmocka_unit_test_setup_teardown(handed_over_in_order, begin, end),
        cmocka_unit_test_setup_teardown(the_dead_one_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_round_is_closed_when_all_are_there, begin, end),
        cmocka_unit_test_setup_teardown(who_passes_is_not_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(a_round_does_not_wait_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(rounds_of_long_ago_are_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(who_leaves_in_the_middle, begin, end),
        cmocka_unit_test_setup_teardown(commands_of_others, begin, end),
        cmocka_unit_test_setup_teardown(as_many_items_as_there_may_be, begin, end),
        cmocka_unit_test_setup_teardown(a_damaged_snapshot, begin, end),
        cmocka_unit_test_setup_teardown(a_forged_snapshot, begin, end),
        cmocka_unit_test(pieces_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
