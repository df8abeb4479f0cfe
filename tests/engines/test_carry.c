/* Streams that move to another daemon of a fleet: the list of changes since a journal entry
   always matches the changes of their blobs. */
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "common/example.h"
#include "learner/learner_state.h"
#include "moving_play.h"
#include "sockets/control.h"
#include "store/carry.h"
#include "store/checkpoint_file.h"
#include "store/journal.h"
#include "store/stream_state.h"
#include "under_test.h"

enum { ROUNDS = 60 };

/* The copies of streams elsewhere: by number of the key. */
struct kept {
    struct bytes blobs[STREAMS]; /* empty: no copy */
    uint64_t order[STREAMS];
    size_t visits;
};

static size_t number_of(const char *key, size_t key_size) {
    assert_int_equal(key_size, 2);
    return (size_t)(key[1] - '0');
}

static int drop(void *context, const char *key, size_t key_size, struct error *error) {
    struct kept *kept = context;
    size_t n = number_of(key, key_size);
    (void)error;
    free(kept->blobs[n].bytes);
    kept->blobs[n] = (struct bytes){0};
    return 0;
}

static int keep(void *context, const char *key, size_t key_size, const struct carry_blob *blob,
                struct error *error) {
    struct kept *kept = context;
    size_t n = number_of(key, key_size);
    drop(context, key, key_size, error);
    kept->visits++;
    kept->order[n] = blob->order;
    kept->blobs[n].size = blob->size;
    kept->blobs[n].bytes = malloc(blob->size);
    assert_non_null(kept->blobs[n].bytes);
    memcpy(kept->blobs[n].bytes, blob->bytes, blob->size);
    return 0;
}

static void drop_all(struct kept *kept) {
    for (size_t n = 0; n < STREAMS; n++)
        free(kept->blobs[n].bytes);
    *kept = (struct kept){0};
}

/* Requests the changes, or else all; sets the position of the next request. */
static int ask(struct play *play, uint64_t *since, struct kept *kept) {
    const struct carry_visitor visitor = {.context = kept, .visit = keep, .gone = drop};
    struct carry *carry;
    assert_int_equal(carry_open(&carry, play->config, play->learner, NULL, NULL), 0);
    kept->visits = 0;
    int result = carry_changed(carry, *since, &visitor, NULL);
    if (result == 1) {
        drop_all(kept);
        assert_int_equal(carry_each(carry, &visitor, NULL), 0);
    }
    *since = carry_position(carry);
    carry_settle(carry, *since);
    carry_close(&carry);
    return result;
}

/* The copies equal the streams, in the order of use. */
static void assert_kept(struct play *play, const struct kept *kept) {
    struct kept now = {0};
    uint64_t last = 0, since = 0;
    const struct streams *streams = learner_streams_table(play->learner);
    const struct carry_visitor visitor = {.context = &now, .visit = keep};
    struct carry *carry;
    assert_int_equal(carry_open(&carry, play->config, play->learner, NULL, NULL), 0);
    assert_int_equal(carry_each(carry, &visitor, NULL), 0);
    carry_close(&carry);
    for (size_t n = 0; n < STREAMS; n++) {
        assert_int_equal(now.blobs[n].size, kept->blobs[n].size);
        if (now.blobs[n].size)
            assert_memory_equal(now.blobs[n].bytes, kept->blobs[n].bytes, now.blobs[n].size);
    }
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        const char *key = streams_key(streams, slot, &since);
        uint64_t order = kept->order[number_of(key, since)];
        assert_true(order > last);
        last = order;
    }
    drop_all(&now);
}

static void reports_changes(void **unused) {
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *play = play_open(play_cases[n].text);
        struct kept kept = {0};
        uint64_t since = 0, taken = 0;
        size_t visits = 0;
        for (size_t round = 0; round < ROUNDS; round++) {
            size_t count = play_random(play, 12);
            play_take(play, taken, count);
            taken += count;
            assert_int_equal(ask(play, &since, &kept), 0);
            assert_true(kept.visits <= learner_streams(play->learner));
            visits += kept.visits;
            if (count == 0)
                assert_int_equal(kept.visits, 0);
            assert_kept(play, &kept);
        }
        assert_true(visits < ROUNDS * 5);
        drop_all(&kept);
        play_close(play);
    }
}

/* A rejected stream causes no change; an adopted one is a change, and so is the one that it
   displaces. */
static void reports_arrivals(void **unused) {
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        struct play *from = play_open(play_cases[n].text), *to = play_open(play_cases[n].text);
        struct kept kept = {0}, others = {0};
        uint64_t since = 0, never = 0;
        play_take(from, 0, 100);
        assert_int_equal(ask(from, &never, &others), 0);
        to->random = 3;
        for (size_t k = 0; k < STREAMS; k++) {
            struct bytes *blob = &others.blobs[k];
            struct carry *carry;
            if (!blob->size)
                continue;
            play_take(to, 10 * k, 5);
            assert_int_equal(ask(to, &since, &kept), 0);
            assert_int_equal(carry_open(&carry, to->config, to->learner, NULL, NULL), 0);
            blob->bytes[blob->size - 1] ^= 1;
            assert_int_equal(carry_adopt(carry, blob->bytes, blob->size, NULL), 1);
            assert_int_equal(ask(to, &since, &kept), 0);
            assert_int_equal(kept.visits, 0);
            blob->bytes[blob->size - 1] ^= 1;
            assert_int_equal(carry_adopt(carry, blob->bytes, blob->size, NULL), 0);
            learner_set_position(to->learner, ++to->position);
            carry_close(&carry);
            assert_int_equal(ask(to, &since, &kept), 0);
            assert_int_equal(kept.visits, 1);
            assert_kept(to, &kept);
        }
        drop_all(&kept);
        drop_all(&others);
        play_close(from);
        play_close(to);
    }
}

/* Commands, and unknown positions. */
static void reports_unknown_positions(void **unused) {
    if (!under_test_is_cpu())
        skip();
    struct play *play = play_open(play_cases[6].text);
    struct kept kept = {0};
    uint64_t since = 0, before;
    size_t size;
    play_take(play, 0, 50);
    assert_int_equal(ask(play, &since, &kept), 0);
    before = since;
    const char *key = streams_key(learner_streams_table(play->learner),
                                  streams_oldest(learner_streams_table(play->learner)), &size);
    assert_int_equal(learner_forget(play->learner, key, size, NULL), 0);
    learner_set_position(play->learner, ++play->position);
    assert_int_equal(ask(play, &since, &kept), 0);
    assert_kept(play, &kept);
    /* Earlier requests are acknowledged. */
    assert_int_equal(ask(play, &before, &kept), 1);
    assert_int_equal(learner_reset_member(play->learner, 0, NULL), 0);
    learner_set_position(play->learner, ++play->position);
    assert_int_equal(ask(play, &since, &kept), 1);
    assert_kept(play, &kept);
    assert_int_equal(ask(play, &since, &kept), 0);
    assert_int_equal(kept.visits, 0);
    learner_all_changed(play->learner);
    learner_set_position(play->learner, ++play->position);
    assert_int_equal(ask(play, &since, &kept), 1);
    assert_int_equal(learner_reset(play->learner, NULL), 0);
    learner_set_position(play->learner, ++play->position);
    assert_int_equal(ask(play, &since, &kept), 0);
    assert_kept(play, &kept);
    drop_all(&kept);
    play_close(play);
}

/* A resumed learner reports changes after its checkpoint. */
static void reports_after_a_start(void **unused) {
    if (!under_test_is_cpu())
        skip();
    char path[] = "/tmp/carry-XXXXXX";
    for (size_t n = 0; n < PLAY_CASES; n++) {
        struct play *play = play_open(play_cases[n].text);
        struct play *resumed = play_open(play_cases[n].text);
        struct kept kept = {0};
        struct checkpoint_report report;
        struct error error;
        uint64_t since = 0, early;
        play_take(play, 0, 40);
        assert_int_equal(ask(play, &since, &kept), 0);
        struct bytes state = play_state(play);
        strcpy(path + sizeof path - 7, "XXXXXX");
        int file = mkstemp(path);
        assert_true(file >= 0 && write(file, state.bytes, state.size) == (ssize_t)state.size);
        close(file);
        if (checkpoint_read(path, resumed->config, resumed->learner, &report, &error))
            fail_msg("%s", error.text);
        unlink(path);
        free(state.bytes);
        resumed->random = play->random;
        resumed->label = play->label;
        resumed->position = play->position;
        early = since - 1;
        play_take(resumed, 40, 3);
        assert_int_equal(ask(resumed, &since, &kept), 0);
        assert_in_range(kept.visits, 1, 3);
        assert_kept(resumed, &kept);
        assert_int_equal(ask(resumed, &early, &kept), 1);
        drop_all(&kept);
        play_close(play);
        play_close(resumed);
    }
}

/* ---- Forgotten streams ---- */

enum { LONG = 250, FORGOTTEN = 100 };

struct found {
    size_t commands, streams;
};

static int look(void *context, struct journal_entry *entry, struct error *error) {
    struct found *found = context;
    (void)error;
    assert_non_null(entry->command);
    assert_in_range(strlen(entry->command), 1, CONTROL_REQUEST_MAX);
    json_t *command = json_loads(entry->command, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(command, "command")), "forget");
    found->commands++;
    found->streams += json_array_size(json_object_get(command, "streams"));
    json_decref(command);
    return 0;
}

/* Each command fits a control socket, even if each byte of a key is six bytes of JSON. */
static void forgets_in_requests(void **unused) {
    char directory[] = "/tmp/carry-XXXXXX", key[LONG + 1], command[64];
    struct play *play = play_open("name: a\nmodel:\n  input: {kind: real, size: 1}\n" GRU
                                  "  output: {loss: squared, size: 1, target: next}\n"
                                  "learning: {max_streams: 100}\n");
    const struct journal_options options = {.sync = JOURNAL_OFF,
                                            .keep = JOURNAL_KEEP_ALL,
                                            .input_bytes = sizeof(float),
                                            .target_bytes = sizeof(float),
                                            .steps_max = 1,
                                            .name = "a",
                                            .digest = "a"};
    const struct carry_visitor all = {.context = NULL};
    struct journal *journal;
    struct carry *carry;
    struct found found = {0, 0};
    struct error error;
    const float x = 1;
    assert_non_null(mkdtemp(directory));
    if (journal_open(&journal, directory, &options, &error))
        fail_msg("%s", error.text);
    for (size_t n = 0; n < FORGOTTEN; n++) {
        memset(key, 1, LONG);
        snprintf(key + LONG - 2, 3, "%02zu", n);
        const struct example example = {
            .key = key, .key_size = LONG, .steps = 1, .x = &x, .learn = true};
        assert_int_equal(learner_take(play->learner, &example, NULL), 0);
    }
    assert_int_equal(carry_open(&carry, play->config, play->learner, journal, NULL), 0);
    assert_int_equal(carry_forget(carry, &all, NULL), 0);
    carry_close(&carry);
    assert_int_equal(learner_streams(play->learner), 0);
    assert_int_equal(journal_sync(journal, NULL), 0);
    if (journal_replay(journal, 0, look, &found, &error))
        fail_msg("%s", error.text);
    assert_int_equal(found.streams, FORGOTTEN);
    assert_in_range(found.commands, 2, FORGOTTEN / 5);
    journal_close(&journal);
    play_close(play);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_changes),           cmocka_unit_test(reports_arrivals),
        cmocka_unit_test(reports_unknown_positions), cmocka_unit_test(reports_after_a_start),
        cmocka_unit_test(forgets_in_requests),
    };
    if (play_setup())
        return 1;
    under_test_above_engines();
    int failed = under_test_run(tests);
    return play_teardown() || failed;
}
