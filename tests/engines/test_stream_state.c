/* A stream's state moves elsewhere and back: nothing is lost, with any configuration, and a
   rejected state has no effect. */
#include <float.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <math.h>
#include <sysexits.h>

#include "common/example.h"
#include "common/streams.h"
#include "learner/learner_state.h"
#include "moving_play.h"
#include "store/checkpoint_file.h"
#include "store/stream_state.h"
#include "under_test.h"

enum { SUMMED_FROM = 16 }; /* bytes before those of the checksum */

/* ---- Blobs ---- */

static struct stream_state *open_state(struct play *play) {
    struct stream_state *state;
    struct error error;
    if (stream_state_open(&state, play->config, play->learner, &error))
        fail_msg("%s", error.text);
    return state;
}

static struct bytes export_one(struct stream_state *state, const char *key, size_t size) {
    const unsigned char *bytes;
    struct bytes copy;
    assert_int_equal(stream_state_export(state, key, size, &bytes, &copy.size, NULL), 0);
    assert_true(copy.size <= stream_state_size(state));
    copy.bytes = malloc(copy.size + 1);
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, bytes, copy.size);
    return copy;
}

static size_t export_all(struct play *play, struct bytes blobs[STREAMS]) {
    const struct streams *streams = learner_streams_table(play->learner);
    struct stream_state *state = open_state(play);
    size_t count = 0, size;
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        const char *key = streams_key(streams, slot, &size);
        blobs[count++] = export_one(state, key, size);
    }
    stream_state_close(&state);
    return count;
}

static void adopt(struct play *play, const struct bytes *blob) {
    struct stream_state *state = open_state(play);
    struct error error;
    if (stream_state_adopt(state, blob->bytes, blob->size, &error))
        fail_msg("%s", error.text);
    stream_state_close(&state);
}

/* It is rejected with these words, and nothing has changed. */
static void assert_refused(struct play *play, const struct bytes *blob, const char *words) {
    struct bytes before = play_state(play);
    struct stream_state *state = open_state(play);
    struct error error;
    assert_int_equal(stream_state_adopt(state, blob->bytes, blob->size, &error), 1);
    assert_int_equal(error.status, EX_DATAERR);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" is not in: %s", words, error.text);
    stream_state_close(&state);
    play_assert_state(play, &before);
    free(before.bytes);
}

static void sum_again(struct bytes *blob) {
    uint32_t sum = libdeflate_crc32(0, blob->bytes + SUMMED_FROM, blob->size - SUMMED_FROM);
    memcpy(blob->bytes + SUMMED_FROM - sizeof sum, &sum, sizeof sum);
}

static void free_all(struct bytes *blobs, size_t count) {
    for (size_t n = 0; n < count; n++)
        free(blobs[n].bytes);
}

static void read_state(struct play *play, const struct bytes *state,
                       struct checkpoint_report *report) {
    FILE *file = tmpfile();
    char path[64];
    struct error error;
    assert_non_null(file);
    assert_int_equal(fwrite(state->bytes, 1, state->size, file), state->size);
    fflush(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    if (checkpoint_read(path, play->config, play->learner, report, &error))
        fail_msg("%s", error.text);
    fclose(file);
}

/* ---- Tests ---- */

/* All streams leave and return, in the order of their use, without a visible effect. */
static void nothing_is_lost(void **unused) {
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *stays = play_open(play_cases[n].text), *moves = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS], before;
        play_take(stays, 0, play_examples());
        play_take(moves, 0, play_examples());
        before = play_state(moves);
        size_t count = export_all(moves, blobs), size;
        assert_int_equal(count, 5);
        while (learner_streams(moves->learner)) {
            const struct streams *streams = learner_streams_table(moves->learner);
            const char *key = streams_key(streams, streams_oldest(streams), &size);
            assert_int_equal(learner_forget(moves->learner, key, size, NULL), 0);
        }
        play_take(moves, 0, 0);
        for (size_t k = 0; k < count; k++)
            adopt(moves, &blobs[k]);
        /* The pause since a stream's last example begins with the move. */
        if (!learner_watches(moves->learner))
            play_assert_state(moves, &before);
        play_take(stays, play_examples(), play_examples());
        play_take(moves, play_examples(), play_examples());
        free(before.bytes);
        before = play_state(stays);
        if (!learner_watches(moves->learner))
            play_assert_state(moves, &before);
        if (stays->hash != moves->hash)
            fail_msg("%s: what is said is not the same", play_cases[n].name);
        free(before.bytes);
        free_all(blobs, count);
        play_close(stays);
        play_close(moves);
    }
}

/* From the checkpoint of any moment all goes on with the same bits; places that a stream has left
   can have other content. */
static void goes_on(void **unused) {
    enum { ROUNDS = 12, EACH = 20 };
    static struct checkpoint_report report;
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        struct play *stays = play_open(play_cases[n].text);
        play_take(stays, 0, play_examples());
        for (uint64_t k = 0; k < ROUNDS; k++) {
            struct play *starts = play_open(play_cases[n].text);
            struct bytes state = play_state(stays);
            read_state(starts, &state, &report);
            free(state.bytes);
            starts->random = stays->random;
            starts->position = stays->position;
            starts->label = stays->label;
            starts->hash = stays->hash;
            play_take(stays, play_examples() + k * EACH, EACH);
            play_take(starts, play_examples() + k * EACH, EACH);
            if (starts->hash != stays->hash)
                fail_msg("%s: other bits after a checkpoint", play_cases[n].name);
            state = play_state(stays);
            if (!k)
                play_assert_state(starts, &state);
            free(state.bytes);
            play_close(starts);
        }
        play_close(stays);
    }
}

/* A learner's own state of a stream is replaced; one without room forgets its oldest. */
static void takes_a_place(void **unused) {
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *from = play_open(play_cases[n].text), *to = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS];
        play_take(from, 0, play_examples());
        to->random = 99;
        play_take(to, 0, play_examples());
        size_t count = export_all(from, blobs);
        uint64_t forgotten = to->forgotten, counted = learner_counters(to->learner).forgotten;
        for (size_t k = 0; k < count; k++)
            adopt(to, &blobs[k]);
        assert_int_equal(learner_streams(to->learner), 5);
        assert_int_equal(learner_counters(to->learner).forgotten - counted,
                         to->forgotten - forgotten);
        struct bytes now[STREAMS];
        assert_int_equal(export_all(to, now), count);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(now[k].size, blobs[k].size);
            assert_memory_equal(now[k].bytes, blobs[k].bytes, now[k].size);
        }
        play_take(to, play_examples(), 50);
        free_all(blobs, count);
        free_all(now, count);
        play_close(from);
        play_close(to);
    }
}

static void refuses_what_is_damaged(void **unused) {
    if (!under_test_is_cpu())
        skip();
    struct play *play = play_open(play_cases[1].text);
    struct bytes blobs[STREAMS];
    play_take(play, 0, play_examples());
    size_t count = export_all(play, blobs);
    struct bytes *blob = &blobs[2], part = *blob;
    for (size_t n = 0; n < blob->size; n += 1 + n / 40) {
        blob->bytes[n] ^= 0x10;
        assert_refused(play, blob, n < 8 ? "not a stream state" : n < 12 ? "format" : "checksum");
        blob->bytes[n] ^= 0x10;
    }
    for (part.size = 0; part.size < blob->size; part.size += 1 + part.size / 20)
        assert_refused(play, &part, "stream");
    blob->bytes[blob->size++] = 0;
    assert_refused(play, blob, "checksum");
    free_all(blobs, count);
    play_close(play);
}

/* The checksum of a crafted state is valid: the state is adopted, or has no effect. Also for a
   stream that is not in memory, without room. */
static void refuses_what_cannot_be(void **unused) {
    size_t refused = 0;
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *play = play_open(play_cases[n].text), *other = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS];
        play_take(play, 0, play_examples());
        other->random = 5;
        play_take(other, 0, play_examples() / 2);
        size_t count = export_all(other, blobs);
        for (size_t k = 0; k < count; k++) {
            struct bytes *blob = &blobs[k];
            for (size_t tries = 0; tries < 40; tries++) {
                size_t at = SUMMED_FROM + play_random(play, (unsigned)(blob->size - SUMMED_FROM));
                unsigned char was = blob->bytes[at];
                blob->bytes[at] = tries % 2 ? 0xFF : (unsigned char)play_random(play, 256);
                sum_again(blob);
                struct bytes before = play_state(play);
                struct stream_state *state = open_state(play);
                struct error error;
                int status = stream_state_adopt(state, blob->bytes, blob->size, &error);
                stream_state_close(&state);
                assert_true(status >= 0);
                if (status)
                    play_assert_state(play, &before);
                refused += status == 1;
                free(before.bytes);
                blob->bytes[at] = was;
            }
        }
        play_take(play, play_examples(), 20);
        free_all(blobs, count);
        play_close(play);
        play_close(other);
    }
    assert_true(refused > 50);
}

/* ---- Impossible numbers ---- */

struct row {
    const char *name;
    size_t name_size, at, size; /* bytes of the blob */
};

/* Returns the beginning of the next one. */
static size_t row_at(const struct bytes *blob, size_t at, struct row *row) {
    uint64_t size;
    row->name_size = blob->bytes[at];
    row->name = (const char *)blob->bytes + at + 1;
    at += 1 + row->name_size;
    memcpy(&size, blob->bytes + at, sizeof size);
    row->at = at + sizeof size;
    row->size = (size_t)size;
    return row->at + row->size;
}

static bool is_named(const struct row *row, const char *const *names) {
    for (; *names; names++) {
        size_t size = strlen(*names);
        if (row->name_size >= size && !memcmp(row->name + row->name_size - size, *names, size))
            return true;
    }
    return false;
}

static void assert_valid(struct play *play, const struct row *row, double number) {
    const struct streams *streams = learner_streams_table(play->learner);
    static float record[1 << 20];
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot))
        if (learner_check_stream(play->learner, slot, record, NULL))
            fail_msg("%g in %.*s is adopted, and later the stream cannot be read", number,
                     (int)row->name_size, row->name);
}

/* A checkpoint of it can be read. */
static void assert_readable(struct play *play, const char *text) {
    static struct checkpoint_report report;
    struct bytes state = play_state(play);
    struct play *other = play_open(text);
    read_state(other, &state, &report);
    free(state.bytes);
    play_close(other);
}

static size_t try_number(struct play *play, struct bytes *blob, const struct row *row, size_t at,
                         double number) {
    static const char *const floats[] = {"records",  "held",   "bases", "lasts",
                                         "contexts", "errors", NULL};
    const float single = (float)number;
    const bool small = is_named(row, floats);
    const size_t size = small ? sizeof single : sizeof number;
    unsigned char was[sizeof number], *to = blob->bytes + row->at + at / size * size;
    struct error error;
    memcpy(was, to, size);
    memcpy(to, small ? (const void *)&single : &number, size);
    sum_again(blob);
    struct stream_state *state = open_state(play);
    int status = stream_state_adopt(state, blob->bytes, blob->size, &error);
    assert_true(status == 0 || (status == 1 && error.status == EX_DATAERR));
    stream_state_close(&state);
    memcpy(to, was, size);
    if (status == 0) {
        play_take(play, play_examples(), 15);
        assert_valid(play, row, number);
    }
    return status == 1;
}

/* Tests every row with floats. An adopted state can be learned, saved and read again. */
static void huge_numbers_are_refused(void **unused) {
    enum { HEAD = SUMMED_FROM + 17 + 17 + 8, TRIES = 16 };
    static const char *const whole[] = {"windows", "open", NULL};
    static const double numbers[] = {1e308, -1e308, 1e200, -1e200, 1e120, INFINITY, NAN};
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        struct play *play = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS];
        size_t refused = 0;
        play_take(play, 0, play_examples());
        size_t count = export_all(play, blobs);
        struct bytes *blob = &blobs[count - 1];
        struct row row;
        for (size_t at = HEAD + 1 + blob->bytes[HEAD] + 2; at < blob->size;) {
            at = row_at(blob, at, &row);
            for (size_t k = 0; !is_named(&row, whole) && row.size && k < TRIES; k++)
                for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                    refused += try_number(play, blob, &row,
                                          play_random(play, (unsigned)row.size - 7), numbers[i]);
            assert_readable(play, play_cases[n].text);
        }
        assert_true(refused > 0);
        free_all(blobs, count);
        play_close(play);
    }
}

/* Symbols of a message that has no atoms: the engine reads the first one in any case. */
static void refuses_symbols_without_a_count(void **unused) {
    enum { HEAD = SUMMED_FROM + 17 + 17 + 8 };
    static const char *const records[] = {"records", NULL};
    if (!under_test_is_cpu())
        skip();
    struct play *play = play_open(play_cases[PLAY_CASES - 1].text);
    const struct model *model = &play->model;
    size_t ring = model_ring(model, 5), places = model->open == 1 ? 1 : ring;
    size_t first = model->state_size + places * (model->outputs + model->kept), count;
    const uint32_t atoms[] = {0, UINT32_MAX};
    struct bytes blobs[STREAMS];
    struct row row = {0};
    play_take(play, 0, play_examples());
    count = export_all(play, blobs);
    for (size_t at = HEAD + 1 + blobs->bytes[HEAD] + 2; !is_named(&row, records);)
        at = row_at(blobs, at, &row);
    memcpy(blobs->bytes + row.at + (first + model->state_size) * sizeof *atoms, atoms,
           sizeof atoms);
    sum_again(blobs);
    assert_refused(play, blobs, "records");
    free_all(blobs, count);
    play_close(play);
}

/* The state stays valid for any input in float. */
static void extreme_values_are_kept(void **unused) {
    static const float extremes[] = {FLT_MAX, -FLT_MAX, 0, 1e-45F, 1, 1e30F, FLT_MAX, 3, FLT_MIN};
    enum { EXTREMES = sizeof extremes / sizeof *extremes, STEPS = 900 };
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        struct play *play = play_open(play_cases[n].text);
        const struct row row = {.name = play_cases[n].name, .name_size = strlen(row.name)};
        if (play->config->architecture.input.kind != INPUT_REAL) {
            play_close(play);
            continue;
        }
        for (size_t t = 0; t < STEPS; t++) {
            /* Some constant for long, then wild; some always. */
            float x[3], y[3];
            bool wild = t % 200 > 150;
            for (size_t k = 0; k < 3; k++) {
                x[k] = wild || k == 1 ? extremes[(t * (k + 1)) % EXTREMES] : 1e-3F;
                y[k] = extremes[(t + k) % EXTREMES];
            }
            const struct example example = {
                .key = t % 3 ? "a" : "b",
                .key_size = 1,
                .steps = 1,
                .learn = true,
                .x = x,
                .y = play->config->architecture.output.target == TARGET_GIVEN ? y : NULL,
                .time = 1.7e9 + (double)t};
            assert_int_equal(learner_take(play->learner, &example, NULL), 0);
            assert_int_equal(learner_flush(play->learner, NULL), 0);
            assert_valid(play, &row, (double)t);
        }
        assert_readable(play, play_cases[n].text);
        play_close(play);
    }
}

static double *mixture_of(struct learner *learner, uint32_t slot) {
    enum { ROWS_MAX = 64 };
    struct state_place rows[ROWS_MAX], *row = rows;
    assert_in_range(learner_rows(learner, rows), 1, ROWS_MAX);
    while (strcmp(row->row->name, "streams.mixture") != 0)
        row++;
    row->slot = slot;
    return row->row->at(row, 0);
}

/* A stream's state is not valid, and a rejected adoption has displaced it: the stream is
   forgotten, and all others are unchanged. */
static void forgets_what_it_cannot_restore(void **unused) {
    if (!under_test_is_cpu())
        skip();
    struct play *play = play_open(play_cases[7].text);
    struct bytes blobs[STREAMS];
    const char *key, *lost;
    size_t key_size, lost_size;
    play_take(play, 0, play_examples());
    size_t count = export_all(play, blobs);
    struct stream_state *state = open_state(play);
    struct bytes *blob = &blobs[1];
    struct error error;
    assert_int_equal(stream_state_look(state, blob->bytes, blob->size, &key, &key_size, &error), 0);
    uint32_t slot = streams_find(learner_streams_table(play->learner), key, key_size);
    float *record = malloc(learner_record_size(play->learner, 0) * sizeof *record);
    assert_non_null(record);
    assert_int_equal(learner_check_stream(play->learner, slot, record, &error), 0);
    *mixture_of(play->learner, slot) = NAN;
    assert_int_equal(learner_check_stream(play->learner, slot, record, &error), 1);
    free(record);
    memset(blob->bytes + blob->size - 8, 0xFF, 8);
    sum_again(blob);
    assert_int_equal(stream_state_adopt(state, blob->bytes, blob->size, &error), 1);
    assert_int_equal(error.status, EX_DATAERR);
    assert_true(stream_state_lost(state, &lost, &lost_size));
    assert_int_equal(lost_size, key_size);
    assert_memory_equal(lost, key, key_size);
    assert_false(learner_has_stream(play->learner, key, key_size));
    assert_int_equal(learner_streams(play->learner), count - 1);
    assert_int_equal(stream_state_adopt(state, blobs[2].bytes, blobs[2].size, &error), 0);
    assert_false(stream_state_lost(state, &lost, &lost_size));
    stream_state_close(&state);
    play_take(play, play_examples(), 50);
    assert_readable(play, play_cases[7].text);
    free_all(blobs, count);
    play_close(play);
}

static void refuses_another_configuration(void **unused) {
    struct play *from = play_open(play_cases[0].text), *to = play_open(play_cases[4].text);
    struct bytes blobs[STREAMS];
    play_take(from, 0, play_examples());
    play_take(to, 0, play_examples());
    size_t count = export_all(from, blobs);
    assert_refused(to, &blobs[0], "another configuration");
    free_all(blobs, count);
    play_close(from);
    play_close(to);
}

static void refuses_vocabularies(void **unused) {
    struct play *play =
        play_open("name: a\nmodel:\n  input: {kind: symbol, vocabulary: {capacity: 9}}\n" GRU
                  "  output: {loss: softmax, target: next}\n" LEARNING);
    struct stream_state *state;
    struct error error;
    assert_int_equal(stream_state_open(&state, play->config, play->learner, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "vocabulary"));
    play_close(play);
}

/* Memories of another size, or shared by other streams, start again; all other state is kept. */
static void other_memories_begin_anew(void **unused) {
    if (!under_test_is_cpu())
        skip();
    struct play *from = play_open(play_cases[7].text), *to = play_open(play_cases[8].text);
    play_close(to);
    to = play_open("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                   "anomaly: {memory: 41}\n");
    struct play *none = play_open("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                                  "anomaly: {enabled: false}\n");
    struct bytes blobs[STREAMS];
    play_take(from, 0, play_examples());
    play_take(to, 0, play_examples());
    play_take(none, 0, play_examples());
    size_t count = export_all(from, blobs);
    adopt(to, &blobs[0]);
    adopt(none, &blobs[0]);
    play_take(to, play_examples(), play_examples());
    play_take(none, play_examples(), play_examples());
    free_all(blobs, count);
    play_close(from);
    play_close(to);
    play_close(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(takes_a_place),
        cmocka_unit_test(refuses_what_is_damaged),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(huge_numbers_are_refused),
        cmocka_unit_test(refuses_symbols_without_a_count),
        cmocka_unit_test(extreme_values_are_kept),
        cmocka_unit_test(forgets_what_it_cannot_restore),
        cmocka_unit_test(refuses_another_configuration),
        cmocka_unit_test(refuses_vocabularies),
        cmocka_unit_test(other_memories_begin_anew),
    };
    if (play_setup())
        return 1;
    under_test_above_engines();
    int failed = under_test_run(tests);
    return play_teardown() || failed;
}
