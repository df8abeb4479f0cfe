/* The journal on a working disk. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <sys/syscall.h>

#include "faulty_disk.h"
#include "journal_testing.h"

enum { POLL_MS = 60000, NAP_US = 1000 };

static void round_trip(const struct journal_options *options) {
    struct journal *journal = open_with(options);
    assert_int_equal(journal_position(journal), 0);
    assert_int_equal(assert_entries(journal, 0), 0);
    append_entries(journal, 500);
    assert_sequences(journal, 500);
    assert_synced(journal);
    assert_int_equal(assert_entries(journal, 0), 500);
    append_entries(journal, 1);
    journal_close(&journal);
    assert_null(journal);

    journal = open_with(options);
    assert_int_equal(journal_position(journal), 501);
    assert_int_equal(journal_durable(journal), 501);
    assert_sequences(journal, 501);
    append_entries(journal, 5000);
    assert_synced(journal);
    assert_int_equal(assert_entries(journal, 0), 5501);
    assert_int_equal(assert_entries(journal, 400), 5101);
    assert_int_equal(assert_entries(journal, 5501), 0);
    journal_close(&journal);
}

static void returns_appended_entries(void **unused) {
    struct journal_options options = plain_options();
    struct stat file;
    round_trip(&options);
    assert_int_equal(stat(in_state(JOURNAL_NAME), &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
}

static void returns_entries_with_less_syncing(void **unused) {
    struct journal_options options = plain_options();
    options.sync = JOURNAL_NORMAL;
    round_trip(&options);
    remove_state(unused);
    make_state(unused);
    options.sync = JOURNAL_OFF;
    round_trip(&options);
    options.sync = JOURNAL_FULL;
    options.name = "renamed";
    struct journal *journal = open_with(&options);
    assert_int_equal(assert_entries(journal, 0), 5501);
    journal_close(&journal);
}

static void reports_durable_positions(void **unused) {
    struct journal *journal = open_plain();
    struct journal_figures figures;
    struct pollfd ready = {.fd = journal_descriptor(journal), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0);
    append_entries(journal, 3);
    while (journal_durable(journal) < 3) {
        assert_int_equal(poll(&ready, 1, POLL_MS), 1);
        assert_int_equal(journal_poll(journal, NULL), 0);
    }
    assert_synced(journal);
    assert_true(journal_has_room(journal));
    journal_figures(journal, &figures);
    assert_int_equal(figures.position, 3);
    assert_int_equal(figures.durable, 3);
    assert_int_equal(figures.oldest, 1);
    assert_int_equal(figures.entries, 3);
    assert_true(figures.waiting == 0);
    assert_true(figures.bytes > 0 && figures.free_bytes > 0);
    journal_close(&journal);
}

/* Appends more than the queue holds, in records that fill it unevenly, and one too large for it. */
static void waits_when_the_queue_is_full(void **unused) {
    enum { STEP = 1 << 20, COUNT = 80 };
    struct journal_options options = plain_options();
    options.input_bytes = STEP;
    options.sync = JOURNAL_OFF;
    struct journal *journal = open_with(&options);
    char *x = calloc(STEPS_MAX + 1, STEP);
    assert_non_null(x);
    struct example example = {.key = "k", .key_size = 1, .x = x, .learn = true};
    for (size_t n = 0; n < COUNT; n++) {
        example.steps = 1 + n % STEPS_MAX;
        x[0] = (char)n;
        assert_int_equal(journal_append_example(journal, &example), n + 1);
    }
    example.steps = STEPS_MAX + 1;
    assert_int_equal(journal_append_example(journal, &example), 0);
    assert_int_equal(journal_position(journal), COUNT);
    assert_synced(journal);
    journal_close(&journal);
    free(x);
}

static int first_byte_is_position(void *context, struct journal_entry *entry, struct error *error) {
    (void)error;
    ++*(int *)context;
    assert_int_equal(*(const char *)entry->example.x, (char)(entry->position - 1));
    return 0;
}

static void keeps_large_examples_in_order(void **unused) {
    struct journal_options options = plain_options();
    int count = 0;
    waits_when_the_queue_is_full(unused);
    options.input_bytes = 1 << 20;
    struct journal *journal = open_with(&options);
    assert_int_equal(journal_replay(journal, 0, first_byte_is_position, &count, NULL), 0);
    assert_int_equal(count, 80);
    journal_close(&journal);
}

/* ---- Pruning ---- */

/* Waits until the journal's thread has pruned up to the position. */
static void wait_for_oldest(struct journal *journal, uint64_t oldest,
                            struct journal_figures *figures) {
    for (int naps = 0; naps < POLL_MS; naps++) {
        journal_figures(journal, figures);
        if (figures->oldest >= oldest)
            return;
        usleep(NAP_US);
    }
    fail_msg("nothing was pruned");
}

static void stays_flat_when_pruned(void **unused) {
    enum { ROUNDS = 40, EARLY = 8, ENTRIES = 3000 };
    struct journal *journal = open_plain();
    struct journal_figures figures;
    uint64_t early = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        append_entries(journal, ENTRIES);
        assert_synced(journal);
        journal_prune(journal, journal_position(journal));
        wait_for_oldest(journal, journal_position(journal) + 1, &figures);
        assert_int_equal(figures.entries, 0);
        if (round <= EARLY)
            early = figures.bytes > early ? figures.bytes : early;
    }
    assert_true(figures.bytes < 2 * early);
    journal_close(&journal);
    journal = open_after(ROUNDS * ENTRIES);
    assert_int_equal(journal_position(journal), ROUNDS * ENTRIES);
    assert_sequences(journal, ROUNDS * ENTRIES);
    append_entries(journal, 10);
    assert_synced(journal);
    assert_int_equal(assert_entries(journal, ROUNDS * ENTRIES), 10);
    journal_close(&journal);
}

static void keeps_configured_sizes(void **unused) {
    enum { ROUNDS = 20, ENTRIES = 3000, MEBIBYTE = 1 << 20 };
    struct journal_options options = plain_options();
    struct journal_figures figures;
    options.keep = JOURNAL_KEEP_ALL;
    struct journal *journal = open_with(&options);
    for (int round = 0; round < ROUNDS; round++) {
        append_entries(journal, ENTRIES);
        journal_prune(journal, journal_position(journal));
    }
    assert_synced(journal);
    assert_int_equal(assert_entries(journal, 0), ROUNDS * ENTRIES);
    journal_close(&journal);

    options.keep = MEBIBYTE;
    journal = open_with(&options);
    journal_prune(journal, ROUNDS * ENTRIES);
    wait_for_oldest(journal, ROUNDS * ENTRIES / 2, &figures);
    journal_close(&journal);
    options.checkpoint = ROUNDS * ENTRIES;
    journal = open_with(&options);
    journal_figures(journal, &figures);
    assert_in_range(figures.entries, ENTRIES, ROUNDS * ENTRIES / 2);
    assert_int_equal(assert_entries(journal, figures.oldest - 1), figures.entries);
    journal_close(&journal);
}

/* While the journal is held, all entries in the figures can be read, even if it was dropping
   some. */
static void drops_nothing_while_it_is_held(void **unused) {
    enum { ROUNDS = 20, ENTRIES = 3000, MORE = 10 };
    struct journal *journal = open_plain();
    struct journal_figures figures;
    for (int round = 0; round < ROUNDS; round++) {
        append_entries(journal, ENTRIES);
        assert_synced(journal);
        journal_prune(journal, journal_position(journal));
        journal_hold(journal);
        journal_hold(journal);
        journal_figures(journal, &figures);
        uint64_t oldest = figures.oldest;
        append_entries(journal, MORE);
        assert_synced(journal);
        journal_let_go(journal);
        assert_int_equal(assert_entries(journal, oldest - 1),
                         journal_position(journal) + 1 - oldest);
        journal_figures(journal, &figures);
        assert_int_equal(figures.oldest, oldest);
        journal_let_go(journal);
        wait_for_oldest(journal, journal_position(journal) + 1 - MORE, &figures);
    }
    journal_close(&journal);
}

static uint64_t append_stream(struct journal *journal, int stream, uint64_t sequence) {
    static const float x[INPUTS];
    char key[16];
    const struct example example = {
        .key = key,
        .key_size = (size_t)snprintf(key, sizeof key, "%d", stream),
        .steps = 1,
        .x = x,
        .numbered = true,
        .sequence = sequence,
    };
    return journal_append_example(journal, &example);
}

/* Each of more streams than memory can hold is found at every moment. */
static void remembers_every_stream(void **unused) {
    enum { STREAMS = JOURNAL_KEYS + 2000, CHECK_EVERY = 500 };
    struct journal_options options = plain_options();
    uint64_t sequence, position;
    uint32_t epoch;
    char key[16];
    struct journal *journal = open_with(&options);
    for (int n = 0; n < 2 * STREAMS; n++) {
        int stream = n % STREAMS;
        size_t size = (size_t)snprintf(key, sizeof key, "%d", stream);
        bool second = n >= STREAMS;
        if (n % CHECK_EVERY == 0 || n < STREAMS / 100) {
            int known = journal_last(journal, key, size, 0, &epoch, &sequence, &position, NULL);
            assert_int_equal(known, second);
        }
        append_stream(journal, stream, (uint64_t)n);
        assert_int_equal(journal_last(journal, key, size, 0, &epoch, &sequence, &position, NULL),
                         1);
        assert_int_equal(sequence, n);
        assert_int_equal(position, n + 1);
    }
    options.checkpoint = journal_position(journal);
    journal_prune(journal, options.checkpoint);
    journal_close(&journal);
    journal = open_with(&options);
    for (int stream = 0; stream < STREAMS; stream += CHECK_EVERY) {
        size_t size = (size_t)snprintf(key, sizeof key, "%d", stream);
        assert_int_equal(journal_last(journal, key, size, 0, &epoch, &sequence, &position, NULL),
                         1);
        assert_int_equal(sequence, stream + STREAMS);
    }
    journal_close(&journal);
}

/* ---- Removed files ---- */

/* In place of the function of the C library: fails as with an old seccomp filter. */
static _Atomic bool statx_denied;

int statx(int directory, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict file) {
    if (!statx_denied)
        return (int)syscall(SYS_statx, directory, path, flags, mask, file);
    errno = EPERM;
    return -1;
}

/* The files are the same ones, by either call. */
static void works_without_statx(void **unused) {
    struct journal *journal = open_plain();
    append_entries(journal, 10);
    assert_synced(journal);
    statx_denied = true;
    append_entries(journal, 10);
    assert_synced(journal);
    assert_false(journal_is_removed(journal));
    assert_int_equal(unlink(in_state(JOURNAL_NAME)), 0);
    assert_true(journal_is_removed(journal));
    journal_close(&journal);
    remove_state(unused);
    make_state(unused);
    journal = open_plain();
    append_entries(journal, 10);
    assert_synced(journal);
    journal_close(&journal);
    statx_denied = false;
}

/* The open file has all entries: it is written again with those in the queue. */
static void is_written_again_when_removed(void **unused) {
    static const char *const names[] = {JOURNAL_NAME, JOURNAL_NAME "-wal"};
    enum { BEFORE = 100, AFTER = 50 };
    struct error error;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct journal *journal = open_plain();
        append_entries(journal, BEFORE);
        assert_synced(journal);
        assert_false(journal_is_removed(journal));
        assert_int_equal(journal_save(journal, &error), -1);
        assert_int_equal(unlink(in_state(names[n])), 0);
        assert_true(journal_is_removed(journal));
        append_entries(journal, AFTER);
        assert_int_equal(journal_sync(journal, &error), -1);
        assert_non_null(strstr(error.text, "removed while the daemon ran"));
        if (journal_save(journal, &error))
            fail_msg("%s", error.text);
        journal_close(&journal);
        journal = open_plain();
        uint64_t count = journal_position(journal);
        assert_in_range(count, BEFORE, BEFORE + AFTER);
        assert_int_equal(assert_entries(journal, 0), count);
        assert_sequences(journal, count);
        journal_close(&journal);
        remove_state(unused);
        make_state(unused);
    }
}

/* A file with the same name is not overwritten. */
static void leaves_a_file_of_its_name(void **unused) {
    struct journal *journal = open_plain();
    struct error error;
    append_entries(journal, 10);
    assert_synced(journal);
    assert_int_equal(unlink(in_state(JOURNAL_NAME)), 0);
    FILE *file = fopen(in_state(JOURNAL_NAME), "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(journal_look(journal, &error), -1);
    assert_non_null(strstr(error.text, "replaced while the daemon ran"));
    assert_false(journal_is_removed(journal));
    assert_int_equal(journal_save(journal, &error), -1);
    journal_close(&journal);
    struct stat status;
    assert_int_equal(stat(in_state(JOURNAL_NAME), &status), 0);
    assert_int_equal(status.st_size, 0);
}

/* ---- With checkpoints, configurations and other programs ---- */

static void refuses_another_checkpoint(void **unused) {
    struct journal *journal = open_plain();
    struct error error;
    append_entries(journal, 100);
    assert_synced(journal);
    assert_int_equal(journal_replay(journal, 101, NULL, NULL, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, "entries 1 to 100"));
    assert_int_equal(journal_skip_to(journal, 1000, &error), 0);
    assert_int_equal(journal_position(journal), 1000);
    assert_int_equal(journal_replay(journal, 999, NULL, NULL, &error), -1);
    assert_sequences(journal, 100);
    append_entries(journal, 20);
    journal_close(&journal);
    journal = open_after(1000);
    assert_int_equal(assert_entries(journal, 1000), 20);
    journal_close(&journal);
    struct journal_options options = plain_options();
    options.checkpoint = 999; /* a file that ends before the checkpoint is not written to */
    assert_int_equal(journal_open(&journal, state, &options, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, "entries 1001 to 1020"));
    assert_non_null(strstr(error.text, "ends with entry 999"));
}

static void assert_short(const struct journal_options *options, const char *expected) {
    struct journal *journal;
    struct error error;
    assert_int_equal(journal_open(&journal, state, options, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, expected));
}

static void write_mark(const char *text) {
    FILE *file = fopen(in_state(JOURNAL_MARK_NAME), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void refuses_an_end_that_is_missing(void **unused) {
    struct journal_options options = plain_options();
    options.checkpoint = 50;
    struct journal *journal = open_with(&options);
    assert_true(journal_found(journal).is_new);
    assert_int_equal(journal_position(journal), 50);
    append_entries(journal, 50);
    journal_close(&journal);
    options.checkpoint = 101;
    assert_short(&options, "before the checkpoint's entry 101");
    options.checkpoint = 100;
    journal = open_with(&options);
    assert_int_equal(journal_found(journal).marked, 100);
    journal_close(&journal);
    for (const char *const *text =
             (const char *const[]){"", "00000000000000000200 00000000\n", "x", NULL};
         *text; text++) {
        write_mark(*text); /* an unfinished mark is ignored */
        journal = open_with(&options);
        assert_int_equal(journal_found(journal).marked, 0);
        journal_close(&journal);
    }
    write_mark("00000000000000000107 8fa9ffff\n"); /* a wrong checksum */
    journal = open_with(&options);
    assert_int_equal(journal_found(journal).marked, 0);
    journal_close(&journal);
}

/* Kills a start before each of its writes and syncs, while it begins a new file after the earlier
   one was moved away. The next start accepts the result. */
static void begins_again_after_any_kill(void **unused) {
    enum { COUNT = 20, WRITES_MIN = 5 };
    const struct journal_options options = plain_options();
    bool killed = true;
    int after = 0;
    for (; killed; after++) {
        remove_state(unused);
        make_state(unused);
        struct journal *journal = open_plain();
        append_entries(journal, COUNT);
        journal_close(&journal);
        assert_int_equal(unlink(in_state(JOURNAL_NAME)), 0);
        pid_t child = fork();
        if (child == 0) {
            faulty_disk(DISK_KILL, after);
            int failed = journal_open(&journal, state, &options, NULL);
            journal_close(&journal);
            _exit(failed ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        killed = WIFSIGNALED(status);
        assert_true(killed || WEXITSTATUS(status) == EXIT_SUCCESS);
        journal = open_plain();
        assert_int_equal(journal_position(journal), 0);
        journal_close(&journal);
    }
    assert_true(after > WRITES_MIN);
}

static int refuse_third(void *context, struct journal_entry *entry, struct error *error) {
    ++*(int *)context;
    return entry->position == 3 ? error_set(error, EX_SOFTWARE, "enough") : 0;
}

static int accept(void *context, struct journal_entry *entry, struct error *error) {
    return (void)context, (void)entry, (void)error, 0;
}

/* Where x or y is a message it has all rows of an entry, which is one step, and at least one. */
static void refuses_steps_of_messages(void **unused) {
    for (size_t n = 0; n < 4; n++) {
        struct journal_options options = plain_options();
        struct error error;
        float numbers[2 * (INPUTS + TARGETS)] = {0};
        bool steps = n % 2, y = n / 2;
        const struct example example = {
            .key = "a", .key_size = 1, .steps = 1 + steps, .x = numbers, .y = y ? numbers : NULL};
        options.input_bytes = steps || y ? options.input_bytes : 0; /* an x without atoms */
        struct journal *journal = open_with(&options);
        journal_append_example(journal, &example);
        assert_synced(journal);
        journal_close(&journal);
        options = plain_options();
        options.messages = !y;
        options.target_messages = y;
        journal = open_with(&options);
        assert_int_equal(journal_replay(journal, 0, accept, NULL, &error), !steps && y ? 0 : -1);
        journal_close(&journal);
        remove_state(unused);
        make_state(unused);
    }
}

static void stops_at_an_error_of_the_visit(void **unused) {
    struct journal *journal = open_plain();
    struct error error;
    int count = 0;
    append_entries(journal, 10);
    assert_synced(journal);
    assert_int_equal(journal_replay(journal, 0, refuse_third, &count, &error), -1);
    assert_int_equal(count, 3);
    assert_string_equal(error.text, "enough");
    assert_int_equal(assert_entries(journal, 0), 10);
    journal_close(&journal);
}

static void refuses_another_configuration(void **unused) {
    struct journal_options options = plain_options();
    struct journal *journal = open_with(&options);
    struct error error;
    append_entries(journal, 10);
    journal_close(&journal);
    options.digest = "fedcba9876543210";
    options.name = "other";
    assert_int_equal(journal_open(&journal, state, &options, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
    assert_non_null(strstr(error.text, "tests, digest 0123456789abcdef"));
    assert_null(journal);
    journal = open_plain();
    assert_int_equal(assert_entries(journal, 0), 10);
    journal_close(&journal);
}

static void belongs_to_nobody_when_empty(void **unused) {
    struct journal_options options = plain_options();
    struct journal *journal = open_with(&options);
    struct error error;
    journal_close(&journal);
    options.digest = "fedcba9876543210";
    journal = open_with(&options);
    append_entries(journal, 1);
    journal_close(&journal);
    options.digest = plain_options().digest;
    assert_int_equal(journal_open(&journal, state, &options, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "digest fedcba9876543210"));
}

static int64_t number_of(const char *sql) {
    sqlite3_stmt *row = query(sql);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(row, 0);
    end_query(row);
    return value;
}

/* The queries of docs/reference/journal.md. */
static void can_be_read_meanwhile(void **unused) {
    struct journal *journal = open_plain();
    append_entries(journal, 100);
    assert_synced(journal);
    assert_int_equal(number_of("SELECT count(*) FROM entries WHERE kind > 1"), 9);
    assert_int_equal(number_of("SELECT sequence FROM streams WHERE key = CAST('ccccccc' AS BLOB)"),
                     97);
    assert_int_equal(number_of("SELECT newest - oldest + 1 FROM journal"), 100);
    append_entries(journal, 10);
    assert_synced(journal);
    assert_int_equal(number_of("SELECT max(position) FROM entries"), 110);
    append_entries(journal, 1890);
    assert_synced(journal);
    assert_int_equal(assert_rows(), 2000);
    journal_close(&journal);
}

/* A producer's time is stored with all bits, and converted to a number for other programs. */
static void stores_times(void **unused) {
    static const double times[] = {1795300610.787104, -3.5, 1e-3, 4e18, 1e34, 0.1, -1e20};
    static const float x[INPUTS];
    enum { COUNT = sizeof times / sizeof *times };
    struct journal *journal = open_plain();
    struct example example = {.key = "k", .key_size = 1, .steps = 1, .x = x};
    for (size_t n = 0; n < COUNT; n++) {
        example.time = times[n];
        journal_append_example(journal, &example);
    }
    assert_synced(journal);
    sqlite3_stmt *row = query("SELECT stamp FROM entries");
    for (size_t n = 0; n < COUNT; n++) {
        assert_int_equal(sqlite3_step(row), SQLITE_ROW);
        assert_true(sqlite3_column_double(row, 0) == times[n]);
    }
    end_query(row);
    journal_close(&journal);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_state, remove_state)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(returns_appended_entries),
        TEST(returns_entries_with_less_syncing),
        TEST(reports_durable_positions),
        TEST(keeps_large_examples_in_order),
        TEST(stays_flat_when_pruned),
        TEST(keeps_configured_sizes),
        TEST(works_without_statx),
        TEST(is_written_again_when_removed),
        TEST(leaves_a_file_of_its_name),
        TEST(remembers_every_stream),
        TEST(refuses_another_checkpoint),
        TEST(refuses_an_end_that_is_missing),
        TEST(begins_again_after_any_kill),
        TEST(stops_at_an_error_of_the_visit),
        TEST(refuses_steps_of_messages),
        TEST(refuses_another_configuration),
        TEST(belongs_to_nobody_when_empty),
        TEST(can_be_read_meanwhile),
        TEST(stores_times),
        TEST(drops_nothing_while_it_is_held),
    };
    faulty_disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
