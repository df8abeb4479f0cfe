/* What a fleet on a log reads as bytes: commands, snapshots and their pieces. */
#include "fleet_commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/fleet_rows.h"
#include "common/hash.h"

/* ---- Commands ---- */

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

/* ---- Snapshots ---- */

/* A machine in which there is something of everything. */
static void fill(void) {
    begin_rounds();
    struct fleet_learned some = learned(0, 1, 3);
    some.serial = 1;
    some.rows = some.streams = 2;
    some.whole = true;
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
        cmocka_unit_test_setup_teardown(commands_of_others, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(as_many_items_as_there_may_be, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_damaged_snapshot, machine_begin, machine_end),
        cmocka_unit_test_setup_teardown(a_forged_snapshot, machine_begin, machine_end),
        cmocka_unit_test(pieces_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
