#include "journal_testing.h"

#include <dirent.h>

#include "common/wire.h"
#include "faulty_disk.h"

enum { STREAMS = 5, NAME_SIZE = 512, COMMAND_EVERY = 11, UNNUMBERED = 4 };

char state[sizeof "/dev/shm/test-journal-XXXXXX"];

const char *in_state(const char *name) {
    static char names[4][NAME_SIZE];
    static unsigned next;
    char *text = names[next++ % 4];
    snprintf(text, NAME_SIZE, "%s/%s", state, name);
    return text;
}

int make_state(void **unused) {
    (void)unused;
    faulty_disk(DISK_WELL, 0);
    /* The files are in memory: the tests check which writes and syncs there are, and many
       thousand real ones wait for other users of the disk. */
    strcpy(state, "/dev/shm/test-journal-XXXXXX");
    if (mkdtemp(state))
        return 0;
    strcpy(state, "/tmp/test-journal-XXXXXX");
    return mkdtemp(state) ? 0 : -1;
}

int remove_state(void **unused) {
    (void)unused;
    DIR *directory = opendir(state);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        unlink(in_state(entry->d_name));
    closedir(directory);
    return rmdir(state);
}

struct journal_options plain_options(void) {
    return (struct journal_options){
        .sync = JOURNAL_FULL,
        .keep = JOURNAL_KEEP_CHECKPOINT,
        .input_bytes = INPUTS * sizeof(float),
        .target_bytes = TARGETS * sizeof(float),
        .steps_max = STEPS_MAX,
        .name = "tests",
        .digest = "0123456789abcdef",
    };
}

struct journal *open_with(const struct journal_options *options) {
    struct journal *journal;
    struct error error;
    if (journal_open(&journal, state, options, &error))
        fail_msg("%s", error.text);
    return journal;
}

struct journal *open_plain(void) {
    const struct journal_options options = plain_options();
    return open_with(&options);
}

struct journal *open_after(uint64_t checkpoint) {
    struct journal_options options = plain_options();
    options.checkpoint = checkpoint;
    return open_with(&options);
}

/* ---- The entry of a position ---- */

struct made {
    struct example example;
    char key[WIRE_KEY_MAX];
    uint32_t x[STEPS_MAX * INPUTS], y[STEPS_MAX * TARGETS];
    char command[48]; /* "" = an example */
};

static size_t key_of(unsigned stream, char key[WIRE_KEY_MAX]) {
    static const size_t sizes[STREAMS] = {0, 1, 7, WIRE_KEY_MAX, 12};
    memset(key, 'a' + (int)stream, sizes[stream]);
    return sizes[stream];
}

static uint64_t producer_of(unsigned stream) {
    static const uint64_t producers[STREAMS] = {0, 1, UINT64_MAX, 0x9ABCDEF012345678, 0};
    return producers[stream];
}

static uint32_t mix(uint64_t number) {
    number = (number + 1) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(number >> 29);
}

static void make(uint64_t position, struct made *made) {
    static const uint32_t nan_bits = 0x7FC12345;
    unsigned stream = (unsigned)(position % STREAMS);
    memset(made, 0, sizeof *made);
    if (position % COMMAND_EVERY == 0) {
        snprintf(made->command, sizeof made->command, "{\"command\":\"set\",\"n\":%llu}",
                 (unsigned long long)position);
        return;
    }
    for (size_t n = 0; n < STEPS_MAX * INPUTS; n++)
        made->x[n] = mix(position * 64 + n);
    for (size_t n = 0; n < STEPS_MAX * TARGETS; n++)
        made->y[n] = n % 3 ? mix(position * 64 + 32 + n) : nan_bits;
    made->example = (struct example){
        .key = made->key,
        .key_size = key_of(stream, made->key),
        .steps = 1 + position % STEPS_MAX,
        .x = made->x,
        .y = position % 3 ? made->y : NULL,
        .end = position % 13 == 0,
        .learn = position % 17 != 0,
        .time = position % 2 ? (double)position / 4 : 0,
    };
    if (stream != UNNUMBERED) {
        made->example.numbered = true;
        made->example.producer = producer_of(stream);
        made->example.epoch = (uint32_t)(position / 1000);
        made->example.sequence = stream == 1 ? UINT64_MAX - 1000000 + position : position;
    }
}

void append_entries(struct journal *journal, int count) {
    for (struct made made; count > 0; count--) {
        uint64_t position = journal_position(journal) + 1;
        make(position, &made);
        uint64_t given = *made.command ? journal_append_command(journal, JOURNAL_SET, made.command)
                                       : journal_append_example(journal, &made.example);
        assert_int_equal(given, position);
        assert_int_equal(journal_position(journal), position);
    }
}

static void assert_example(const struct example *a, const struct example *b) {
    assert_int_equal(a->key_size, b->key_size);
    assert_memory_equal(a->key, b->key, b->key_size);
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->x, b->x, b->steps * INPUTS * sizeof(float));
    assert_int_equal(a->y != NULL, b->y != NULL);
    if (b->y)
        assert_memory_equal(a->y, b->y, b->steps * TARGETS * sizeof(float));
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->learn, b->learn);
    assert_int_equal(a->numbered, b->numbered);
    assert_int_equal(a->epoch, b->epoch);
    assert_true(a->sequence == b->sequence);
    assert_true(a->producer == b->producer);
    assert_true(a->time == b->time);
}

static int assert_entry(void *context, struct journal_entry *entry, struct error *error) {
    (void)error;
    uint64_t *next = context;
    struct made made;
    make(*next, &made);
    assert_int_equal(entry->position, *next);
    assert_true(entry->time > 1e9);
    if (*made.command) {
        assert_non_null(entry->command);
        assert_string_equal(entry->command, made.command);
    } else {
        assert_null(entry->command);
        assert_example(&entry->example, &made.example);
    }
    ++*next;
    return 0;
}

int assert_entries(struct journal *journal, uint64_t after) {
    struct error error;
    uint64_t next = after + 1;
    if (journal_replay(journal, after, assert_entry, &next, &error))
        fail_msg("%s", error.text);
    return (int)(next - 1 - after);
}

static bool is_blob(sqlite3_stmt *row, int column, const void *bytes, size_t size) {
    return sqlite3_column_type(row, column) == SQLITE_BLOB &&
           (size_t)sqlite3_column_bytes(row, column) == size &&
           (!size || !memcmp(sqlite3_column_blob(row, column), bytes, size));
}

static bool is_null(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL;
}

enum {
    POSITION,
    TIME,
    KIND,
    STREAM,
    EPOCH,
    SEQUENCE,
    STAMP,
    FLAGS,
    STEPS,
    X,
    Y,
    COMMAND,
    PRODUCER
};

static void assert_example_row(sqlite3_stmt *row, const struct example *e) {
    assert_true(is_null(row, COMMAND));
    assert_true(is_blob(row, STREAM, e->key, e->key_size));
    assert_true(is_blob(row, X, e->x, e->steps * INPUTS * sizeof(float)));
    assert_true(e->y ? is_blob(row, Y, e->y, e->steps * TARGETS * sizeof(float)) : is_null(row, Y));
    assert_int_equal(sqlite3_column_int64(row, FLAGS),
                     (e->end ? WIRE_END : 0) | (e->learn ? 0 : WIRE_DO_NOT_LEARN));
    assert_int_equal(sqlite3_column_int64(row, STEPS), e->steps);
    assert_int_equal(is_null(row, EPOCH), !e->numbered);
    assert_int_equal(is_null(row, SEQUENCE), !e->numbered);
    assert_int_equal(is_null(row, PRODUCER), !e->numbered);
    assert_true((uint64_t)sqlite3_column_int64(row, PRODUCER) == e->producer);
    assert_int_equal(sqlite3_column_int64(row, EPOCH), e->epoch);
    assert_true((uint64_t)sqlite3_column_int64(row, SEQUENCE) == e->sequence);
    assert_int_equal(is_null(row, STAMP), e->time == 0);
    assert_true(sqlite3_column_double(row, STAMP) == e->time);
}

sqlite3_stmt *query(const char *sql) {
    sqlite3 *file;
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_open_v2(in_state(JOURNAL_NAME), &file, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(file, sql, -1, &row, NULL), SQLITE_OK);
    return row;
}

void end_query(sqlite3_stmt *row) {
    sqlite3 *file = sqlite3_db_handle(row);
    sqlite3_finalize(row);
    assert_int_equal(sqlite3_close(file), SQLITE_OK);
}

int assert_rows(void) {
    sqlite3_stmt *row = query("SELECT * FROM entries ORDER BY position");
    int count = 0;
    while (sqlite3_step(row) == SQLITE_ROW) {
        struct made made;
        make((uint64_t)++count, &made);
        assert_int_equal(sqlite3_column_int64(row, POSITION), count);
        assert_true(sqlite3_column_double(row, TIME) > 1e9);
        assert_int_equal(sqlite3_column_int64(row, KIND),
                         *made.command ? JOURNAL_SET : JOURNAL_EXAMPLE);
        if (!*made.command) {
            assert_example_row(row, &made.example);
            continue;
        }
        assert_string_equal((const char *)sqlite3_column_text(row, COMMAND), made.command);
        for (int column = STREAM; column < COMMAND; column++)
            assert_true(is_null(row, column));
    }
    end_query(row);
    return count;
}

void assert_sequences(struct journal *journal, uint64_t position) {
    struct made made;
    char key[WIRE_KEY_MAX];
    uint64_t sequence, found;
    uint32_t epoch;
    for (unsigned stream = 0; stream < STREAMS; stream++) {
        uint64_t last = position;
        while (last > 0 && (last % STREAMS != stream || last % COMMAND_EVERY == 0))
            last--;
        size_t size = key_of(stream, key);
        int status =
            journal_last(journal, key, size, producer_of(stream), &epoch, &sequence, &found, NULL);
        if (last == 0 || stream == UNNUMBERED) {
            assert_int_equal(status, 0);
            continue;
        }
        make(last, &made);
        assert_int_equal(status, 1);
        assert_int_equal(found, last);
        assert_int_equal(epoch, made.example.epoch);
        assert_true(sequence == made.example.sequence);
    }
}

void assert_synced(struct journal *journal) {
    struct error error;
    if (journal_sync(journal, &error))
        fail_msg("%s", error.text);
    assert_int_equal(journal_durable(journal), journal_position(journal));
}
