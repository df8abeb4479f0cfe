/* What is kept of a stream goes elsewhere and comes back: nothing is lost on the way, whatever the
   configuration, and what cannot be adopted changes nothing. */
#include <inttypes.h>
#include <libdeflate.h>
#include <math.h>
#include <sysexits.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/stream_state.h"
#include "config_testing.h"
#include "learner/engines.h"
#include "learner/example.h"
#include "learner/streams.h"
#include "observed.h"
#include "under_test.h"

enum {
    MANY = 300,
    FEW_EXAMPLES = 60,
    STREAMS = 7,     /* keys; of them learning.max_streams have room */
    SUMMED_FROM = 16 /* bytes before what the checksum is of */
};

#define GRU "  layers: [{cell: gru, size: 5}]\n"
#define LEARNING                                                                                   \
    "learning: {window: 5, stride: 3, max_streams: 5, optimizer: {kind: adam, rate: 0.01}}\n"
#define FEW "learning: {max_streams: 5}\n"
#define WATCH "anomaly: {enabled: true, memory: 40}\n"

static const struct {
    const char *name, *text;
} cases[] = {
    {"next", "name: a\nmodel:\n  input: {kind: real, size: 2, scale: standard, missing: hold}\n" GRU
             "  output: {loss: gaussian, size: 2, target: next}\n" LEARNING},
    {"predictions", "name: a\nmodel:\n  input: {kind: real, size: 2, time: [gap, day]}\n" GRU
                    "  output: {loss: squared, size: 2, target: next, ahead: [1, 3], relative: "
                    "true}\n" LEARNING "statistics: {predictions: true}\n" WATCH},
    {"given", "name: a\nmodel:\n  input: {kind: real, size: 3}\n  layers: [{cell: lstm, size: 4, "
              "norm: batch}, {cell: dense, size: 4, activation: relu}]\n"
              "  output: {loss: squared, size: 2, target: given, relative: true, scale: "
              "standard}\n" LEARNING},
    {"later",
     "name: a\nmodel:\n  input: {kind: real, size: 2}\n" GRU
     "  output: {loss: squared, size: 2, target: later, patience: 6, relative: true}\n" LEARNING
     "statistics: {predictions: true}\n"},
    {"symbols", "name: a\nmodel:\n  input: {kind: symbol, size: 6, embedding: 3}\n" GRU
                "  output: {loss: softmax, size: 6, target: next}\n" LEARNING WATCH},
    {"rtrl", "name: a\nmodel:\n  input: {kind: real, size: 2}\n" GRU
             "  output: {loss: squared, size: 2, target: next}\n"
             "learning: {rule: rtrl, stride: 3, max_streams: 5, optimizer: {kind: sgd, rate: "
             "0.01}}\n"},
    {"members", "name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                "anomaly: {enabled: false}\nmembers: [{name: one}, {name: streams, set: "
                "{model.layers.0.size: 3, seed: 3}}]\n"},
    {"forecast", "name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW WATCH},
    {"shared", "name: a\npreset: forecast\nmodel: {input: {size: 1}, output: {ahead: [1, 4]}}\n" FEW
               "anomaly: {memory: 40, share: [s1, s2]}\n"},
};

/* ---- A learner ---- */

struct play {
    struct config *config;
    struct model model;
    struct learner *learner;
    uint64_t hash; /* of all that was observed */
    uint64_t forgotten;
    unsigned random; /* of the examples: all plays take the same */
    uint64_t label;  /* the next number that gets one */
};

static void note(struct play *play, const void *bytes, size_t size) {
    play->hash = 31 * play->hash + observed_hash(bytes, size);
}

static void on_learned(void *context, const struct learned *l) {
    struct play *play = context;
    note(play, &l->loss, sizeof l->loss);
    note(play, &l->examples, sizeof l->examples);
    if (l->outputs)
        note(play, l->outputs, l->output_steps * play->model.outputs * sizeof(float));
    if (l->forecasts)
        note(play, l->forecasts, l->output_steps * l->forecast_row * sizeof(double));
    if (l->anomaly && !learner_shared(play->learner)) /* others' memories, as they are now */
        note(play, &l->anomaly->score, sizeof l->anomaly->score);
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    struct play *play = context;
    note(play, key, key_size);
    play->forgotten++;
}

/* Elsewhere than on the CPU a run takes a hundred times as long: one case is enough to see that its
   slots go along, and what is above engines is the CPU's to show. */
static bool can_play(size_t which) {
    return under_test_is_cpu() || which == 0;
}

static uint64_t examples(void) {
    return under_test_is_cpu() ? MANY : FEW_EXAMPLES;
}

static struct play *open_play(const char *text) {
    struct play *play = calloc(1, sizeof *play);
    struct error error;
    assert_non_null(play);
    play->config = malloc(sizeof *play->config);
    assert_non_null(play->config);
    *play->config = good(text, NULL);
    snprintf(play->config->device, sizeof play->config->device, "%s", under_test_device());
    model_build(&play->model, &play->config->architecture);
    const struct learner_observer observer = {
        .context = play, .learned = on_learned, .forgotten = on_forgotten};
    if (learner_open(&play->learner, play->config, &play->model, under_test_ops(), 16, &observer,
                     &error))
        fail_msg("%s", error.text);
    learner_want_outputs(play->learner, true);
    play->random = 7;
    return play;
}

static void close_play(struct play *play) {
    learner_close(&play->learner);
    free(play->config);
    free(play);
}

static unsigned next_random(struct play *play, unsigned below) {
    play->random = play->random * 1103515245U + 12345U;
    return (play->random >> 16) % below;
}

enum { WIDTH = 3, STEPS = 2 };

static void take_label(struct play *play, struct example *example, float *y) {
    if (play->config->architecture.output.target != TARGET_LATER ||
        play->label + 3 > example->sequence)
        return;
    struct example label = *example;
    label.label = true;
    label.label_sequence = play->label;
    label.sequence = 1000 + play->label;
    label.y = y;
    play->label++;
    assert_int_equal(learner_take(play->learner, &label, NULL), 0);
}

static void take_one(struct play *play, uint64_t n) {
    const struct architecture *a = &play->config->architecture;
    char key[8];
    float x[STEPS * WIDTH], y[STEPS * WIDTH];
    uint32_t symbols[STEPS];
    struct example example = {.key = key, .steps = 1, .learn = next_random(play, 10) > 0};
    example.key_size = (size_t)snprintf(key, sizeof key, "s%u", next_random(play, STREAMS));
    example.end = next_random(play, 40) == 0;
    example.numbered = true;
    example.sequence = n;
    example.time = 1.7e9 + 60 * (double)n;
    if (a->output.target != TARGET_LATER)
        example.steps += next_random(play, STEPS);
    for (size_t k = 0; k < STEPS * WIDTH; k++) {
        x[k] = sinf(0.3F * (float)n) + 0.01F * (float)next_random(play, 100) + (float)k;
        y[k] = x[k] * 0.5F + 1;
        if (a->input.hold && next_random(play, 5) == 0)
            x[k] = NAN;
    }
    for (size_t t = 0; t < STEPS; t++)
        symbols[t] = next_random(play, (unsigned)a->input.size);
    example.x = a->input.kind == INPUT_SYMBOL ? (const void *)symbols : x;
    example.y = a->output.target == TARGET_GIVEN ? y : NULL;
    assert_int_equal(learner_take(play->learner, &example, NULL), 0);
    take_label(play, &example, y);
}

static void take(struct play *play, uint64_t first, uint64_t count) {
    for (uint64_t n = first; n < first + count; n++)
        take_one(play, n);
    assert_int_equal(learner_flush(play->learner, NULL), 0);
}

/* ---- All that a checkpoint has of it ---- */

struct bytes {
    unsigned char *bytes;
    size_t size;
};

static struct bytes state_of(struct play *play) {
    struct bytes read;
    struct error error;
    uint64_t size;
    FILE *file = tmpfile();
    assert_non_null(file);
    if (checkpoint_write(fileno(file), "state", play->config, play->learner, 0, &size, &error))
        fail_msg("%s", error.text);
    read.size = size;
    read.bytes = malloc(size);
    assert_non_null(read.bytes);
    rewind(file);
    assert_int_equal(fread(read.bytes, 1, size, file), size);
    fclose(file);
    return read;
}

static void assert_same_state(struct play *play, const struct bytes *before) {
    struct bytes now = state_of(play);
    assert_int_equal(now.size, before->size);
    assert_memory_equal(now.bytes, before->bytes, now.size);
    free(now.bytes);
}

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

/* It is refused with these words, and nothing has changed. */
static void assert_refused(struct play *play, const struct bytes *blob, const char *words) {
    struct bytes before = state_of(play);
    struct stream_state *state = open_state(play);
    struct error error;
    assert_int_equal(stream_state_adopt(state, blob->bytes, blob->size, &error), 1);
    assert_int_equal(error.status, EX_DATAERR);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" is not in: %s", words, error.text);
    stream_state_close(&state);
    assert_same_state(play, &before);
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

/* ---- Tests ---- */

/* All streams leave and come back, in the order of their use: it is as if nothing had been. */
static void nothing_is_lost(void **unused) {
    (void)unused;
    for (size_t n = 0; n < COUNT(cases); n++) {
        if (!can_play(n))
            continue;
        struct play *stays = open_play(cases[n].text), *moves = open_play(cases[n].text);
        struct bytes blobs[STREAMS], before;
        take(stays, 0, examples());
        take(moves, 0, examples());
        before = state_of(moves);
        size_t count = export_all(moves, blobs), size;
        assert_int_equal(count, 5);
        while (learner_streams(moves->learner)) {
            const struct streams *streams = learner_streams_table(moves->learner);
            const char *key = streams_key(streams, streams_oldest(streams), &size);
            assert_int_equal(learner_forget(moves->learner, key, size, NULL), 0);
        }
        take(moves, 0, 0);
        for (size_t k = 0; k < count; k++)
            adopt(moves, &blobs[k]);
        /* Of anomalies the pause since a stream was heard begins with the move. */
        if (!learner_watches(moves->learner))
            assert_same_state(moves, &before);
        take(stays, examples(), examples());
        take(moves, examples(), examples());
        free(before.bytes);
        before = state_of(stays);
        if (!learner_watches(moves->learner))
            assert_same_state(moves, &before);
        if (stays->hash != moves->hash)
            fail_msg("%s: what is said is not the same", cases[n].name);
        free(before.bytes);
        free_all(blobs, count);
        close_play(stays);
        close_play(moves);
    }
}

/* What a learner has of a stream is replaced; one without room forgets its oldest. */
static void takes_a_place(void **unused) {
    (void)unused;
    for (size_t n = 0; n < COUNT(cases); n++) {
        if (!can_play(n))
            continue;
        struct play *from = open_play(cases[n].text), *to = open_play(cases[n].text);
        struct bytes blobs[STREAMS];
        take(from, 0, examples());
        to->random = 99;
        take(to, 0, examples());
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
            if (!learner_watches(to->learner))
                assert_memory_equal(now[k].bytes, blobs[k].bytes, now[k].size);
        }
        take(to, examples(), 50);
        free_all(blobs, count);
        free_all(now, count);
        close_play(from);
        close_play(to);
    }
}

static void refuses_what_is_damaged(void **unused) {
    (void)unused;
    if (!under_test_is_cpu())
        skip();
    struct play *play = open_play(cases[1].text);
    struct bytes blobs[STREAMS];
    take(play, 0, examples());
    size_t count = export_all(play, blobs);
    struct bytes *blob = &blobs[2], part = *blob;
    for (size_t n = 0; n < blob->size; n += 1 + n / 40) {
        blob->bytes[n] ^= 0x10;
        assert_refused(play, blob,
                       n < 8    ? "is no state of a stream"
                       : n < 12 ? "format"
                                : "checksum");
        blob->bytes[n] ^= 0x10;
    }
    for (part.size = 0; part.size < blob->size; part.size += 1 + part.size / 20)
        assert_refused(play, &part, "stream");
    blob->bytes[blob->size++] = 0;
    assert_refused(play, blob, "checksum");
    free_all(blobs, count);
    close_play(play);
}

/* Its checksum fits, for somebody has computed it: whatever it says, it is adopted or it changes
   nothing. Also a stream that is not in memory, when there is no room. */
static void refuses_what_cannot_be(void **unused) {
    (void)unused;
    size_t refused = 0;
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < COUNT(cases); n++) {
        if (!can_play(n))
            continue;
        struct play *play = open_play(cases[n].text), *other = open_play(cases[n].text);
        struct bytes blobs[STREAMS];
        take(play, 0, examples());
        other->random = 5;
        take(other, 0, examples() / 2);
        size_t count = export_all(other, blobs);
        for (size_t k = 0; k < count; k++) {
            struct bytes *blob = &blobs[k];
            for (size_t tries = 0; tries < 40; tries++) {
                size_t at = SUMMED_FROM + next_random(play, (unsigned)(blob->size - SUMMED_FROM));
                unsigned char was = blob->bytes[at];
                blob->bytes[at] = tries % 2 ? 0xFF : (unsigned char)next_random(play, 256);
                sum_again(blob);
                struct bytes before = state_of(play);
                struct stream_state *state = open_state(play);
                struct error error;
                int status = stream_state_adopt(state, blob->bytes, blob->size, &error);
                stream_state_close(&state);
                assert_true(status >= 0);
                if (status)
                    assert_same_state(play, &before);
                refused += status == 1;
                free(before.bytes);
                blob->bytes[at] = was;
            }
        }
        take(play, examples(), 20);
        free_all(blobs, count);
        close_play(play);
        close_play(other);
    }
    assert_true(refused > 50);
}

static void refuses_another_configuration(void **unused) {
    (void)unused;
    struct play *from = open_play(cases[0].text), *to = open_play(cases[4].text);
    struct bytes blobs[STREAMS];
    take(from, 0, examples());
    take(to, 0, examples());
    size_t count = export_all(from, blobs);
    assert_refused(to, &blobs[0], "another configuration");
    free_all(blobs, count);
    close_play(from);
    close_play(to);
}

static void refuses_vocabularies(void **unused) {
    (void)unused;
    struct play *play =
        open_play("name: a\nmodel:\n  input: {kind: symbol, vocabulary: {capacity: 9}}\n" GRU
                  "  output: {loss: softmax, target: next}\n" LEARNING);
    struct stream_state *state;
    struct error error;
    assert_int_equal(stream_state_open(&state, play->config, play->learner, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "vocabulary"));
    close_play(play);
}

/* Memories of another size, or shared by other streams, begin anew; all else goes along. */
static void other_memories_begin_anew(void **unused) {
    (void)unused;
    if (!under_test_is_cpu())
        skip();
    struct play *from = open_play(cases[7].text), *to = open_play(cases[8].text);
    close_play(to);
    to = open_play("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                   "anomaly: {memory: 41}\n");
    struct play *none = open_play("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                                  "anomaly: {enabled: false}\n");
    struct bytes blobs[STREAMS];
    take(from, 0, examples());
    take(to, 0, examples());
    take(none, 0, examples());
    size_t count = export_all(from, blobs);
    adopt(to, &blobs[0]);
    adopt(none, &blobs[0]);
    take(to, examples(), examples());
    take(none, examples(), examples());
    free_all(blobs, count);
    close_play(from);
    close_play(to);
    close_play(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(takes_a_place),
        cmocka_unit_test(refuses_what_is_damaged),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(refuses_another_configuration),
        cmocka_unit_test(refuses_vocabularies),
        cmocka_unit_test(other_memories_begin_anew),
    };
    int failed = 0;
    void *unused = NULL;
    if (setup(&unused))
        return 1;
    under_test_above_engines();
    failed = under_test_run(tests);
    return teardown(&unused) || failed;
}
