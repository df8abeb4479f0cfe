/* The journal on failing disks, under killed processes, and with changed bytes. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "faulty_disk.h"
#include "journal_testing.h"

enum { IMAGE_MAX = 1 << 20, GROUP = 5 };
#ifdef RUNNEL_SANITIZERS
enum { FEWER = 7 }; /* tests only one in this many places to damage */
#else
enum { FEWER = 1 };
#endif

/* ---- Killed processes ---- */

/* Progress of the writer below, in memory shared with its parent, since the writer can end at any
   moment. */
struct reported {
    _Atomic uint64_t durable, pruned; /* pruned: the requested position */
};

static struct reported *shared_report(void) {
    static int file = -1;
    static struct reported *report;
    if (!report) {
        char name[] = "/tmp/test-journal-report-XXXXXX";
        file = mkstemp(name);
        assert_true(file >= 0);
        unlink(name);
        assert_int_equal(ftruncate(file, sizeof *report), 0);
        report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        assert_true(report != MAP_FAILED);
    }
    report->durable = report->pruned = 0;
    return report;
}

/* Runs in a child: appends in groups, syncs each, and prunes now and then. Returns only if it is
   not killed. */
static void write_groups(struct reported *report, int groups, enum disk_fault fault, int after) {
    struct journal_options options = plain_options();
    struct journal *journal;
    options.checkpoint = report->pruned;
    faulty_disk(fault, after);
    if (journal_open(&journal, state, &options, NULL))
        _exit(EXIT_FAILURE);
    report->durable = journal_durable(journal);
    for (int n = 0; n < groups; n++) {
        append_entries(journal, GROUP);
        if (journal_sync(journal, NULL))
            _exit(EXIT_FAILURE);
        report->durable = journal_durable(journal);
        if (n % 8 == 7) {
            report->pruned = journal_durable(journal) - GROUP;
            journal_prune(journal, report->pruned);
        }
    }
    journal_close(&journal);
    _exit(EXIT_SUCCESS);
}

/* Returns whether the child was killed; any other failure fails the test. */
static bool was_killed(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    return false;
}

/* All reported entries exist in order, and the streams agree. */
static void assert_recovers(const struct reported *report) {
    struct journal *journal = open_after(report->pruned);
    struct journal_figures figures;
    journal_figures(journal, &figures);
    assert_true(journal_position(journal) >= report->durable);
    assert_int_equal(assert_entries(journal, figures.oldest - 1), figures.entries);
    assert_sequences(journal, journal_position(journal));
    journal_close(&journal);
}

/* Kills the process before each of its writes and syncs in turn, each time with a new file. */
static void dies_at_every_write(enum disk_fault fault) {
    enum { GROUPS = 9 };
    struct reported *report = shared_report();
    bool killed = true;
    int after = 0;
    for (; killed; after++) {
        remove_state(NULL);
        make_state(NULL);
        report->durable = report->pruned = 0;
        pid_t child = fork();
        if (child == 0)
            write_groups(report, GROUPS, fault, after);
        killed = was_killed(child);
        assert_recovers(report);
    }
    assert_int_equal(report->durable, GROUPS * GROUP);
    assert_true(after > 2 * GROUPS);
}

static void survives_a_kill_at_every_write(void **unused) {
    dies_at_every_write(DISK_KILL);
}

static void survives_a_kill_within_every_write(void **unused) {
    dies_at_every_write(DISK_KILL_TORN);
}

/* Kills one journal many times, each time at a random moment. */
static void survives_kills_at_any_moment(void **unused) {
    enum { LIVES = 40, NAP_US = 700, GROUPS_MAX = 1000000 };
    struct reported *report = shared_report();
    for (int life = 0; life < LIVES; life++) {
        uint64_t before = report->durable;
        pid_t child = fork();
        if (child == 0)
            write_groups(report, GROUPS_MAX, DISK_WELL, 0);
        while (report->durable < before + (uint64_t)life * GROUP) {
            assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
            usleep(NAP_US);
        }
        usleep((useconds_t)(life % 7) * NAP_US);
        kill(child, SIGKILL);
        assert_true(was_killed(child));
        assert_recovers(report);
    }
}

/* Entries written but not synced before a kill still exist on the next start: they are synced
   before they are reported durable. */
static void syncs_what_a_killed_process_left(void **unused) {
    enum { HEADER = 1 }; /* of the log, synced earlier */
    const struct journal_options options = plain_options();
    struct reported *report = shared_report();
    struct journal *journal = open_plain();
    struct error error;
    journal_close(&journal);
    pid_t child = fork();
    if (child == 0) {
        journal = open_plain();
        faulty_disk(DISK_KILL_SYNC, HEADER);
        append_entries(journal, GROUP);
        journal_sync(journal, NULL);
        report->durable = journal_durable(journal);
        _exit(EXIT_SUCCESS);
    }
    assert_true(was_killed(child));
    assert_int_equal(report->durable, 0);
    faulty_disk(DISK_SYNC, 0);
    assert_int_equal(journal_open(&journal, state, &options, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    faulty_disk(DISK_WELL, 0);
    journal = open_plain();
    assert_int_equal(journal_durable(journal), GROUP);
    assert_int_equal(assert_entries(journal, 0), GROUP);
    journal_close(&journal);
}

/* ---- A failing disk ---- */

/* A checkpoint waits for journal_sync, and must not contain more than a loss of power leaves. */
static void syncs_a_lax_journal_when_asked(void **unused) {
    struct journal_options options = plain_options();
    struct error error = {0};
    options.sync = JOURNAL_NORMAL;
    struct journal *journal = open_with(&options);
    append_entries(journal, GROUP);
    assert_synced(journal);
    faulty_disk(DISK_SYNC, 0);
    append_entries(journal, GROUP);
    assert_int_equal(journal_sync(journal, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
    faulty_disk(DISK_WELL, 0);
    assert_int_equal(journal_poll(journal, &error), -1);
    journal_close(&journal);
}

/* The setting of sync decides whether a loss of power explains a journal that ends before its mark,
   so a change is on disk before anything else is written. */
static void syncs_a_change_of_syncing(void **unused) {
    enum { HEADER = 1 }; /* of the log, synced earlier */
    static const enum journal_sync changes[] = {JOURNAL_NORMAL, JOURNAL_OFF, JOURNAL_FULL};
    struct journal_options options = plain_options();
    struct error error = {0};
    struct journal *journal = open_with(&options);
    append_entries(journal, GROUP);
    journal_close(&journal);
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++) {
        options.sync = changes[n];
        faulty_disk(DISK_SYNC, changes[n] == JOURNAL_OFF ? 0 : HEADER);
        assert_int_equal(journal_open(&journal, state, &options, &error), -1);
        assert_int_equal(error.status, EX_IOERR);
        assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
        faulty_disk(DISK_WELL, 0);
        journal = open_with(&options);
        journal_close(&journal);
    }
}

static void fails(enum disk_fault fault, int after, const char *why) {
    struct journal *journal = open_plain();
    struct error error = {0};
    append_entries(journal, GROUP);
    assert_synced(journal);
    uint64_t durable = journal_durable(journal);
    faulty_disk(fault, after);
    for (int n = 0; n <= after && !journal_poll(journal, &error); n++) {
        append_entries(journal, GROUP);
        if (!journal_sync(journal, &error))
            durable = journal_position(journal);
    }
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
    assert_non_null(strstr(error.text, why));
    assert_true(journal_durable(journal) >= durable);
    durable = journal_durable(journal);
    assert_true(durable < journal_position(journal) || after > 0);

    /* Appending does not block, and nothing becomes durable when the disk works again. */
    faulty_disk(DISK_WELL, 0);
    append_entries(journal, GROUP);
    assert_true(journal_has_room(journal));
    assert_int_equal(journal_sync(journal, &error), -1);
    assert_int_equal(journal_poll(journal, &error), -1);
    assert_int_equal(journal_durable(journal), durable);
    journal_close(&journal);
    assert_recovers(&(struct reported){.durable = durable});
}

static void reports_a_disk_failure(void **unused) {
    static const int many = 200; /* enough for moving the log to the file */
    const struct {
        enum disk_fault fault;
        const char *why;
    } faults[] = {
        {DISK_FULL, "the disk is full"},
        {DISK_SHORT, "the disk is full"},
        {DISK_BROKEN, "disk I/O error"},
        {DISK_SYNC, "disk I/O error"},
    };
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++)
        for (int after = 0; after < many; after += after < 8 ? 1 : 37) {
            fails(faults[n].fault, after, faults[n].why);
            remove_state(unused);
            make_state(unused);
        }
}

static void reports_a_failed_creation(void **unused) {
    const struct journal_options options = plain_options();
    struct journal *journal;
    struct error error;
    for (int after = 0; after < 3; after++) {
        faulty_disk(DISK_FULL, after);
        assert_int_equal(journal_open(&journal, state, &options, &error), -1);
        assert_int_equal(error.status, EX_IOERR);
        assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
        assert_null(journal);
        faulty_disk(DISK_WELL, 0);
        assert_int_equal(access(in_state(JOURNAL_NAME), F_OK), -1);
    }
    journal = open_plain();
    journal_close(&journal);
}

/* ---- Changed bytes ---- */

struct image {
    size_t size;
    unsigned char bytes[IMAGE_MAX];
};

static void take_image(struct image *image, const char *name) {
    FILE *file = fopen(in_state(name), "rb");
    assert_non_null(file);
    image->size = fread(image->bytes, 1, IMAGE_MAX, file);
    assert_in_range(image->size, 1, IMAGE_MAX - 1);
    fclose(file);
}

static void put_image(const struct image *image, const char *name, size_t size) {
    FILE *file = fopen(in_state(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(image->bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int count_entries(void *count, struct journal_entry *entry, struct error *error) {
    (void)entry;
    (void)error;
    ++*(uint64_t *)count;
    return 0;
}

static bool was_torn; /* state of the journal that refused_or_right opened last */

/* Either the journal is refused with an error that names it, or it has everything up to a position
   of at least `least`. Returns whether it was refused. Without the mark, which would refuse
   more. */
static bool refused_or_right(uint64_t least) {
    struct journal_options options = plain_options();
    options.accept_short = true;
    struct journal *journal;
    struct error error;
    uint64_t count = 0;
    bool opened = journal_open(&journal, state, &options, &error) == 0;
    was_torn = opened && journal_found(journal).torn;
    bool refused = !opened || journal_replay(journal, 0, count_entries, &count, &error) != 0;
    if (refused) {
        assert_true(error.status == EX_IOERR || error.status == EX_CONFIG);
        assert_non_null(strstr(error.text, in_state(JOURNAL_NAME)));
    } else {
        assert_int_equal(count, journal_position(journal));
        assert_true(count >= least);
        assert_int_equal(assert_entries(journal, 0), count);
        assert_sequences(journal, count);
    }
    journal_close(&journal);
    return refused;
}

static void put_back(const struct image *file, size_t file_size, const struct image *log,
                     size_t log_size) {
    unlink(in_state(JOURNAL_NAME "-shm"));
    unlink(in_state(JOURNAL_NAME "-wal"));
    put_image(file, JOURNAL_NAME, file_size);
    if (log)
        put_image(log, JOURNAL_NAME "-wal", log_size);
}

static void never_takes_changed_bytes(void **unused) {
    enum { ENTRIES = 300, STRIDE = 61, CUT = 509, PAGE = 4096 };
    static struct image file;
    struct journal *journal = open_plain();
    append_entries(journal, ENTRIES);
    journal_close(&journal);
    take_image(&file, JOURNAL_NAME);
    int refused = 0, tried = 0;
    for (size_t at = 0; at < file.size; at += FEWER * STRIDE, tried++) {
        unsigned char bit = (unsigned char)(1 << at % 8);
        file.bytes[at] ^= bit;
        put_back(&file, file.size, NULL, 0);
        file.bytes[at] ^= bit;
        refused += refused_or_right(ENTRIES);
    }
    assert_true(refused > tried / 2);
    for (size_t size = 0; size < file.size; size += size + PAGE < file.size ? CUT : 1) {
        put_back(&file, size, NULL, 0);
        assert_true(refused_or_right(ENTRIES));
    }
}

/* Returns the durable position of a file and its log left by a killed process. */
static uint64_t leave_log(struct image *file, struct image *log, int groups) {
    struct reported *report = shared_report();
    pid_t child = fork();
    if (child == 0) {
        struct journal *journal = open_plain();
        for (int n = 0; n < groups; n++) {
            append_entries(journal, GROUP);
            assert_synced(journal);
        }
        report->durable = journal_durable(journal);
        kill(getpid(), SIGKILL);
    }
    assert_true(was_killed(child));
    take_image(file, JOURNAL_NAME);
    take_image(log, JOURNAL_NAME "-wal");
    return report->durable;
}

/* A transaction has at most a group of entries. Bytes missing at the end of the last one look like
   a loss of power; any other change is detected. */
static void cuts_a_torn_tail_and_nothing_else(void **unused) {
    enum { GROUPS = 8, FRAME = 24 + 4096, STRIDE = 131 };
    static struct image file, log;
    uint64_t durable = leave_log(&file, &log, GROUPS);
    assert_true(log.size > GROUPS * FRAME);
    for (size_t cut = 1; cut <= FRAME; cut += FEWER) {
        put_back(&file, file.size, &log, log.size - cut);
        assert_false(refused_or_right(durable - GROUP));
        assert_true(was_torn);
    }
    int refused = 0, tried = 0;
    for (size_t at = 0; at < log.size; at += FEWER * STRIDE, tried++) {
        unsigned char bit = (unsigned char)(1 << at % 8);
        log.bytes[at] ^= bit;
        put_back(&file, file.size, &log, log.size);
        log.bytes[at] ^= bit;
        refused += refused_or_right(durable - GROUP);
    }
    assert_true(refused > tried / 2);
    put_back(&file, file.size, &log, log.size);
    assert_false(refused_or_right(durable) || was_torn);
    put_back(&file, file.size, &log, log.size - FRAME);
    unlink(in_state(JOURNAL_MARK_NAME)); /* the mark reveals that the transaction was durable */
    durable = leave_log(&file, &log, 1); /* cuts it off, and is killed again */
    assert_false(refused_or_right(durable) || was_torn);
}

/* The view is for other programs. */
static void refuses_a_changed_view(void **unused) {
    static const char epoch[] = "$[8]";
    static struct image file;
    struct journal *journal = open_plain();
    append_entries(journal, GROUP);
    journal_close(&journal);
    take_image(&file, JOURNAL_NAME);
    unsigned char *found = memmem(file.bytes, file.size, epoch, strlen(epoch));
    assert_non_null(found);
    found[2] = '9';
    put_back(&file, file.size, NULL, 0);
    assert_true(refused_or_right(GROUP));
    found[2] = '8';
    put_back(&file, file.size, NULL, 0);
    assert_false(refused_or_right(GROUP));
}

static void refuses_a_log_without_its_file(void **unused) {
    static struct image file, log;
    leave_log(&file, &log, 3);
    unlink(in_state(JOURNAL_NAME));
    assert_true(refused_or_right(0));
    put_image(&log, JOURNAL_NAME "-wal", 0); /* readers leave an empty log: no entry is missing */
    assert_false(refused_or_right(0));
    unlink(in_state(JOURNAL_NAME));
    put_back(&file, 0, &log, log.size);
    assert_true(refused_or_right(0));
    put_back(&file, file.size, &log, log.size);
    assert_false(refused_or_right(3 * GROUP));
}

static void refuses_other_files(void **unused) {
    static const struct image text = {6, "hello\n"};
    put_image(&text, JOURNAL_NAME, text.size);
    assert_true(refused_or_right(0));
    unlink(in_state(JOURNAL_NAME));
    sqlite3 *file;
    assert_int_equal(sqlite3_open(in_state(JOURNAL_NAME), &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, "CREATE TABLE entries (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
    assert_true(refused_or_right(0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_state, remove_state)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(survives_a_kill_at_every_write),
        TEST(survives_a_kill_within_every_write),
        TEST(survives_kills_at_any_moment),
        TEST(syncs_what_a_killed_process_left),
        TEST(syncs_a_lax_journal_when_asked),
        TEST(syncs_a_change_of_syncing),
        TEST(reports_a_disk_failure),
        TEST(reports_a_failed_creation),
        TEST(never_takes_changed_bytes),
        TEST(cuts_a_torn_tail_and_nothing_else),
        TEST(refuses_a_changed_view),
        TEST(refuses_a_log_without_its_file),
        TEST(refuses_other_files),
    };
    faulty_disk_install();
    /* A journal has some MiB of tables, and thousands are opened here: this saves zeroing fresh
       pages. */
    mallopt(M_MMAP_THRESHOLD, 1 << 17);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
