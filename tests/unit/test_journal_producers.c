/* The journal's sequences: separate for each producer, with checksums of the newest examples,
   limited in number and age, and migrated from files without producers. */
#include <stdbool.h>

#include "common/clock.h"
#include "faulty_disk.h"
#include "journal_testing.h"
#include "store/journal_store.h"

static const float plain_x[INPUTS] = {1, 2, 3};

static struct example numbered(uint64_t producer, uint64_t sequence) {
    return (struct example){.key = "k",
                            .key_size = 1,
                            .steps = 1,
                            .x = plain_x,
                            .learn = true,
                            .numbered = true,
                            .producer = producer,
                            .epoch = 7,
                            .sequence = sequence};
}

/* Returns the producer's newest number, or -1. */
static int64_t newest(struct journal *journal, uint64_t producer) {
    uint64_t sequence, position;
    uint32_t epoch;
    struct error error;
    int known = journal_last(journal, "k", 1, producer, &epoch, &sequence, &position, &error);
    if (known < 0)
        fail_msg("%s", error.text);
    return known ? (int64_t)sequence : -1;
}

static struct journal_options remembering(void) {
    struct journal_options options = plain_options();
    options.remember = true;
    return options;
}

static void numbers_each_producer_apart(void **unused) {
    struct journal *journal = open_plain();
    struct example first = numbered(0, 5), second = numbered(UINT64_MAX, 1);
    /* The pair of a key and a producer differs from a longer key. */
    struct example longer = numbered(0, 9);
    longer.key = "k\1\0\0\0\0\0\0\0";
    longer.key_size = 9;
    journal_append_example(journal, &first);
    journal_append_example(journal, &second);
    journal_append_example(journal, &longer);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(newest(journal, 0), 5);
        assert_int_equal(newest(journal, UINT64_MAX), 1);
        assert_int_equal(newest(journal, 1), -1);
        journal_close(&journal);
        journal = open_plain();
    }
    journal_close(&journal);
}

static void assert_recognized(struct journal *journal) {
    static const float other_x[INPUTS] = {1, 2, 4}, y[TARGETS] = {1, 2};
    struct example e = numbered(3, 1);
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_SAME);
    e.time = 1.5;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_SAME);
    e.x = other_x;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_OTHER);
    e = numbered(3, 1);
    e.y = y;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_OTHER);
    e = numbered(3, 1);
    e.end = true;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_OTHER);
    e = numbered(3, 1);
    e.learn = false;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_OTHER);
    e = numbered(4, 1);
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_UNKNOWN);
    e = numbered(3, 2);
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_UNKNOWN);
    e = numbered(3, 1);
    e.epoch++;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_UNKNOWN);
    e = numbered(3, 1);
    e.key_size = 0;
    assert_int_equal(journal_seen(journal, &e), JOURNAL_SEEN_UNKNOWN);
}

static void recognizes_what_it_has(void **unused) {
    const struct journal_options options = remembering();
    struct journal *journal = open_with(&options);
    struct example example = numbered(3, 1);
    example.time = 1e9;
    journal_append_example(journal, &example);
    assert_recognized(journal);
    append_entries(journal, 2000);
    journal_close(&journal);
    journal = open_with(&options);
    assert_recognized(journal);
    journal_close(&journal);
    journal = open_plain();
    assert_int_equal(journal_seen(journal, &example), JOURNAL_SEEN_UNKNOWN);
    journal_close(&journal);
}

/* The newest numbers of 1,000 streams all stay known when 5,000 others follow. More than eight of
   these 6,000 share a row once in 10^12 runs. */
static void remembers_everyone_in_a_crowd(void **unused) {
    enum { WATCHED = 1000, OTHERS = 5000 };
    const struct journal_options options = remembering();
    struct journal *journal = open_with(&options);
    for (uint64_t producer = 1; producer <= WATCHED + OTHERS; producer++) {
        struct example example = numbered(producer, 1);
        journal_append_example(journal, &example);
    }
    for (int round = 0; round < 2; round++) {
        for (uint64_t producer = 1; producer <= WATCHED; producer++) {
            struct example example = numbered(producer, 1);
            assert_int_equal(journal_seen(journal, &example), JOURNAL_SEEN_SAME);
        }
        journal_close(&journal);
        journal = open_with(&options);
    }
    journal_close(&journal);
}

/* ---- Expiry ---- */

static uint64_t producers(struct journal *journal) {
    struct journal_figures figures;
    assert_synced(journal);
    journal_figures(journal, &figures);
    return figures.producers;
}

static void drops_the_longest_idle(void **unused) {
    enum { KEEP = 300, COUNT = 1500 };
    struct journal_options options = plain_options();
    options.producers_keep = KEEP;
    struct journal *journal = open_with(&options);
    for (uint64_t n = 1; n <= COUNT; n++) {
        struct example example = numbered(n, n), often = numbered(0, n);
        journal_append_example(journal, &example);
        journal_append_example(journal, &often);
    }
    assert_int_equal(producers(journal), KEEP);
    assert_int_equal(journal_expired(journal), COUNT + 1 - KEEP);
    journal_close(&journal);
    journal = open_with(&options);
    assert_int_equal(producers(journal), KEEP);
    assert_int_equal(newest(journal, 0), COUNT);
    assert_int_equal(newest(journal, COUNT), COUNT);
    assert_int_equal(newest(journal, COUNT - KEEP + 2), COUNT - KEEP + 2);
    assert_int_equal(newest(journal, COUNT - KEEP + 1), -1);
    assert_int_equal(newest(journal, 1), -1);
    struct example again = numbered(1, 8);
    journal_append_example(journal, &again);
    assert_int_equal(producers(journal), KEEP);
    assert_int_equal(newest(journal, 1), 8);
    journal_close(&journal);
}

static void execute(const char *sql) {
    sqlite3 *file;
    char *why = NULL;
    assert_int_equal(sqlite3_open(in_state(JOURNAL_NAME), &file), SQLITE_OK);
    if (sqlite3_exec(file, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(file);
}

/* Sets the time of the producer's last entry, at position 1, without any later one. */
static void set_time(uint64_t producer, int64_t time) {
    char sql[256];
    const struct journal_record record = {.key = "k",
                                          .key_size = 1,
                                          .producer = producer,
                                          .epoch = 7,
                                          .sequence = 1,
                                          .position = producer,
                                          .time = (double)time};
    snprintf(sql, sizeof sql, "UPDATE streams SET time = %lld, crc = %u WHERE producer = %lld",
             (long long)time, journal_stream_checksum(&record, JOURNAL_FORMAT),
             (long long)producer);
    execute(sql);
}

static void drops_what_is_too_old(void **unused) {
    enum { DAY = 86400 };
    struct journal_options options = plain_options();
    struct journal *journal = open_with(&options);
    for (uint64_t n = 1; n <= 3; n++) {
        struct example example = numbered(n, 1);
        journal_append_example(journal, &example);
    }
    journal_close(&journal);
    set_time(1, (int64_t)clock_unix() - 3 * DAY);
    set_time(2, (int64_t)clock_unix() - DAY);
    options.producers_days = 2;
    journal = open_with(&options);
    struct example example = numbered(3, 2);
    journal_append_example(journal, &example);
    assert_int_equal(producers(journal), 2);
    assert_int_equal(journal_expired(journal), 1);
    journal_close(&journal);
    journal = open_with(&options);
    assert_int_equal(newest(journal, 1), -1);
    assert_int_equal(newest(journal, 2), 1);
    journal_close(&journal);
}

/* The entries are very old by the system's clock, which was wrong then or is wrong now. */
static void drops_nothing_for_a_clock_that_jumps(void **unused) {
    enum { DAY = 86400, PRODUCERS = 3 };
    struct journal_options options = plain_options();
    options.producers_days = 2;
    struct journal *journal = open_with(&options);
    for (uint64_t n = 1; n <= PRODUCERS; n++) {
        struct example example = numbered(n, 1);
        journal_append_example(journal, &example);
    }
    journal_close(&journal);
    for (uint64_t n = 1; n <= PRODUCERS; n++)
        set_time(n, (int64_t)clock_unix() - 10000 * DAY);
    for (uint64_t round = 2; round <= 3; round++) {
        journal = open_with(&options);
        struct example example = numbered(PRODUCERS, round);
        journal_append_example(journal, &example);
        assert_int_equal(producers(journal), PRODUCERS);
        assert_int_equal(journal_expired(journal), 0);
        assert_int_equal(newest(journal, 1), 1);
        journal_close(&journal);
    }
}

/* ---- Forgetting ---- */

static struct example first_of(const char *key) {
    struct example example = numbered(1, 1);
    example.key = key;
    example.key_size = strlen(key);
    return example;
}

/* The journal's thread is busy with other transactions, one after another. */
static void forgets_while_it_prunes(void **unused) {
    enum { STREAMS = 50, ENTRIES = 40000, KEY_SIZE = 16 };
    struct error error;
    char key[KEY_SIZE];
    struct journal *journal = open_plain();
    append_entries(journal, ENTRIES);
    uint64_t prunable = journal_position(journal);
    for (int n = 0; n < STREAMS; n++) {
        snprintf(key, sizeof key, "forgotten %d", n);
        struct example example = first_of(key);
        journal_append_example(journal, &example);
    }
    uint64_t before = producers(journal);
    journal_prune(journal, prunable);
    for (int n = 0; n < STREAMS; n++) {
        snprintf(key, sizeof key, "forgotten %d", n);
        assert_true(journal_forget(journal, "{}", key, strlen(key), &error) > 0);
        assert_int_equal(journal_has_stream(journal, key, strlen(key), &error), 0);
    }
    assert_int_equal(producers(journal), before - STREAMS);
    journal_close(&journal);
}

/* ---- Format 2 ---- */

/* Turns the file into one of a version before producers, with the first `count` entries: its table
   of streams, its format number and another view. */
static void make_format_2(int count) {
    struct journal *journal = open_plain();
    for (int n = 1; n <= count; n++) {
        struct example example = numbered(0, (uint64_t)n);
        journal_append_example(journal, &example);
    }
    journal_close(&journal);
    const struct journal_record record = {.key = "k",
                                          .key_size = 1,
                                          .epoch = 7,
                                          .sequence = (uint64_t)count,
                                          .position = (uint64_t)count};
    char sql[1024];
    snprintf(sql, sizeof sql,
             "DROP TABLE streams; DROP VIEW entries; CREATE VIEW entries AS SELECT 1;"
             "CREATE TABLE streams (key BLOB PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER "
             "NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;"
             "INSERT INTO streams VALUES (CAST('k' AS BLOB), 7, %d, %d, %u);"
             "DROP INDEX blocks_with_commands; ALTER TABLE blocks DROP COLUMN kinds;"
             "PRAGMA user_version = %d;",
             count, count, journal_stream_checksum(&record, JOURNAL_FORMAT_OLDEST),
             JOURNAL_FORMAT_OLDEST);
    execute(sql);
}

static int64_t number_of(const char *sql) {
    sqlite3_stmt *row = query(sql);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(row, 0);
    end_query(row);
    return value;
}

static int count_entry(void *context, struct journal_entry *entry, struct error *error) {
    (void)error;
    assert_int_equal(entry->example.sequence, ++*(uint64_t *)context);
    assert_int_equal(entry->example.producer, 0);
    return 0;
}

static void assert_taken_over(int count) {
    const struct journal_options options = remembering();
    struct journal *journal = open_with(&options);
    struct example again = numbered(0, 1);
    uint64_t entries = 0;
    assert_int_equal(newest(journal, 0), count);
    assert_int_equal(journal_seen(journal, &again), JOURNAL_SEEN_SAME);
    assert_int_equal(journal_replay(journal, 0, count_entry, &entries, NULL), 0);
    assert_int_equal(entries, count);
    journal_close(&journal);
    assert_int_equal(number_of("PRAGMA user_version"), JOURNAL_FORMAT);
    assert_int_equal(number_of("SELECT count(*) FROM streams WHERE producer = 0"), 1);
    assert_int_equal(number_of("SELECT count(*) FROM entries WHERE producer = 0"), count);
}

static void takes_over_format_2(void **unused) {
    enum { COUNT = 100 };
    make_format_2(COUNT);
    assert_taken_over(COUNT);
}

static const char *const texts[JOURNAL_KINDS] = {
    [JOURNAL_COMMAND] = "{\"command\":\"dance\",\"set\":\"{\\\"command\\\":\\\"set\\\"\"}",
    [JOURNAL_RESET] = "{\"command\":\"reset\"}",
    [JOURNAL_SET] = "{\"command\":\"set\",\"key\":\"learning.clip\",\"value\":\"1\"}",
    [JOURNAL_FORGET] = "{\"command\":\"forget\",\"streams\":[\"a\"]}",
    [JOURNAL_ADOPT] =
        "{\"command\":\"adopt\",\"stream\":\"a\",\"part\":1,\"parts\":1,\"blob\":\"\"}",
    [JOURNAL_IMPORT] = "{\"command\":\"import\",\"file\":\"parameters.5.safetensors\"}",
    [JOURNAL_SKIP] = "{\"command\":\"skip\",\"partition\":\"redis:a\"}",
    [JOURNAL_PARTITION] = "{\"command\":\"partition\",\"name\":\"redis:a\"}",
    [JOURNAL_FEEDBACK] = "{\"command\":\"normal\",\"stream\":\"a\"}",
    [JOURNAL_ROLLBACK] = "{\"command\":\"rollback\",\"to\":3}",
    [JOURNAL_SILENCE] = "{\"command\":\"silence\",\"stream\":\"a\",\"seconds\":60}",
};

/* Writes rounds of one example and one command of each kind in format 3. */
static void make_format_3(int rounds) {
    struct journal *journal = open_plain();
    for (int n = 1; n <= rounds; n++) {
        struct example example = numbered(0, (uint64_t)n);
        journal_append_example(journal, &example);
        for (int kind = JOURNAL_COMMAND; kind < JOURNAL_KINDS; kind++)
            journal_append_command(journal, JOURNAL_COMMAND, texts[kind]);
    }
    journal_close(&journal);
    execute("DROP VIEW entries; CREATE VIEW entries AS SELECT 1; DROP INDEX blocks_with_commands;"
            "ALTER TABLE blocks DROP COLUMN kinds; PRAGMA user_version = 3;");
}

static int check_kind(void *context, struct journal_entry *entry, struct error *error) {
    (void)context, (void)error;
    enum journal_kind kind = (entry->position - 1) % (JOURNAL_KINDS - 1) + JOURNAL_EXAMPLE;
    assert_int_equal(entry->kind, kind);
    if (kind == JOURNAL_EXAMPLE)
        assert_null(entry->command);
    else
        assert_string_equal(entry->command, texts[kind]);
    return 0;
}

/* Each command gets its kind by its text, and blocks the kinds of their commands; other blocks stay
   unchanged. */
static void sets_kinds_of_commands_of_format_3(void **unused) {
    enum { ROUNDS = 100, EXAMPLES = 50 };
    make_format_3(ROUNDS);
    struct journal *journal = open_plain();
    assert_int_equal(journal_replay(journal, 0, check_kind, NULL, NULL), 0);
    for (int n = 1; n <= EXAMPLES; n++) {
        struct example example = numbered(0, (uint64_t)(ROUNDS + n));
        journal_append_example(journal, &example);
    }
    assert_int_equal(journal_sync(journal, NULL), 0);
    for (enum journal_kind kind = JOURNAL_COMMAND; kind < JOURNAL_KINDS; kind++)
        assert_int_equal(journal_has_kind(journal, 0, kind, NULL), 1);
    uint64_t last = (uint64_t)ROUNDS * (JOURNAL_KINDS - 1);
    assert_int_equal(journal_has_kind(journal, last, JOURNAL_ROLLBACK, NULL), 0);
    journal_close(&journal);
    assert_int_equal(number_of("PRAGMA user_version"), JOURNAL_FORMAT);
    assert_int_equal(number_of("SELECT count(*) FROM entries WHERE kind = 11"), ROUNDS);
    assert_int_equal(number_of("SELECT count(*) FROM entries WHERE kind = 1"), ROUNDS + EXAMPLES);
    journal = open_plain(); /* the checksums are right */
    journal_close(&journal);
}

/* A damaged block stays unchanged, so that a replay reports it. */
static void keeps_damage_of_format_3(void **unused) {
    struct error error;
    make_format_3(100);
    execute("UPDATE blocks SET crc = crc + 1 WHERE last = (SELECT min(last) FROM blocks)");
    struct journal *journal = open_plain();
    assert_int_equal(journal_replay(journal, 0, check_kind, NULL, &error), -1);
    assert_non_null(strstr(error.text, "invalid block"));
    journal_close(&journal);
}

/* A block whose `kinds` differ from those of its entries is damaged. */
static void compares_kinds(void **unused) {
    struct error error;
    struct journal *journal = open_plain();
    struct example example = numbered(0, 1);
    journal_append_example(journal, &example);
    journal_close(&journal);
    execute("UPDATE blocks SET kinds = 2 + (1 << 11)");
    journal = open_plain();
    assert_int_equal(journal_replay(journal, 0, check_kind, NULL, &error), -1);
    assert_non_null(strstr(error.text, "invalid block"));
    journal_close(&journal);
}

/* Kills the migration before and within each of its writes and syncs. */
static void survives_kills_meanwhile(void **unused) {
    enum { COUNT = 20, WRITES_MIN = 10 };
    static const enum disk_fault faults[] = {DISK_KILL, DISK_KILL_TORN};
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++) {
        bool killed = true;
        int after = 0;
        for (; killed; after++) {
            remove_state(unused);
            make_state(unused);
            make_format_2(COUNT);
            pid_t child = fork();
            if (child == 0) {
                const struct journal_options options = plain_options();
                struct journal *journal;
                faulty_disk(faults[n], after);
                int status = journal_open(&journal, state, &options, NULL);
                journal_close(&journal);
                _exit(status ? EXIT_FAILURE : EXIT_SUCCESS);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            killed = WIFSIGNALED(status);
            assert_true(killed || WEXITSTATUS(status) == EXIT_SUCCESS);
            assert_taken_over(COUNT);
        }
        assert_true(after > WRITES_MIN);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_state, remove_state)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(numbers_each_producer_apart),
        TEST(recognizes_what_it_has),
        TEST(remembers_everyone_in_a_crowd),
        TEST(drops_the_longest_idle),
        TEST(drops_what_is_too_old),
        TEST(drops_nothing_for_a_clock_that_jumps),
        TEST(forgets_while_it_prunes),
        TEST(takes_over_format_2),
        TEST(sets_kinds_of_commands_of_format_3),
        TEST(keeps_damage_of_format_3),
        TEST(compares_kinds),
        TEST(survives_kills_meanwhile),
    };
    faulty_disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
