#include "moving_play.h"

#include <math.h>
#include <stdio.h>

#include "common/example.h"
#include "config_testing.h"
#include "engine/engines.h"
#include "learner/learner_state.h"
#include "observed.h"
#include "parts/anomalies.h"
#include "store/checkpoint_file.h"
#include "under_test.h"

enum {
    MANY = 300,
    FEW_EXAMPLES = 60,
};

const struct play_case play_cases[PLAY_CASES] = {
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
    {"columns", "name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: rtu, size: 3}, "
                "{cell: mingru, size: 4, norm: none}, {cell: lstm, size: 3, recurrent: diagonal}]\n"
                "  output: {loss: squared, size: 2, target: next}\n"
                "learning: {rule: snap1, stride: 3, max_streams: 5, optimizer: {kind: sgd, rate: "
                "0.01}}\n"},
    {"taps", "name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: dense, size: 4, "
             "taps: 3}, {cell: dense, size: 4, taps: 2, dilation: 7, residual: true}]\n"
             "  output: {loss: squared, size: 2, target: next}\n" LEARNING},
    {"outputs",
     "name: a\nmodel:\n  input: {kind: real, size: 2, scale: standard, missing: hold}\n" GRU
     "  outputs:\n  - {name: sent, loss: squared, size: 3, target: given}\n"
     "  - {name: next, loss: gaussian, size: 2, target: next}\n"
     "  - {name: before, loss: squared, size: 2, target: previous, weight: 0.5}\n"
     "learning: {window: 5, stride: 1, max_streams: 5, optimizer: {kind: adam, rate: 0.01}}\n"},
    {"messages",
     "name: a\nmodel:\n  input: {kind: symbol, size: 6, embedding: 3, sequence: {layers: "
     "[{cell: gru, size: 4}], pool: attention, longest: 5}}\n" GRU "  outputs:\n"
     "  - {name: next, loss: softmax, size: 6, target: next, sequence: {layers: [{cell: "
     "gru, size: 4}]}}\n"
     "  - {name: before, loss: softmax, size: 6, target: previous, sequence: {layers: "
     "[{cell: dense, size: 4, taps: 3}, {cell: lstm, size: 4}]}}\n"
     "  - {name: ranked, loss: ranking, size: 4, score: cosine, negatives: 5, "
     "candidates: {kind: real, size: 3, layers: [{cell: dense, size: 4}]}}\n" LEARNING},
};

int play_setup(void) {
    void *unused = NULL;
    return setup(&unused);
}

int play_teardown(void) {
    void *unused = NULL;
    return teardown(&unused);
}

/* ---- A learner ---- */

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
    if (l->anomaly &&
        !anomalies_shared(learner_host(play->learner))) /* the current shared memories */
        note(play, &l->anomaly->score, sizeof l->anomaly->score);
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    struct play *play = context;
    note(play, key, key_size);
    play->forgotten++;
}

bool play_can(size_t which) {
    return under_test_is_cpu() || which == 0;
}

uint64_t play_examples(void) {
    return under_test_is_cpu() ? MANY : FEW_EXAMPLES;
}

struct play *play_open(const char *text) {
    struct play *play = calloc(1, sizeof *play);
    struct error error;
    assert_non_null(play);
    play->config = malloc(sizeof *play->config);
    assert_non_null(play->config);
    *play->config = good(text, NULL);
    play->config->fleet.lease = 10; /* it is asked for changes */
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

void play_close(struct play *play) {
    learner_close(&play->learner);
    free(play->config);
    free(play);
}

unsigned play_random(struct play *play, unsigned below) {
    play->random = play->random * 1103515245U + 12345U;
    return (play->random >> 16) % below;
}

enum { WIDTH = 3, STEPS = 2, ATOMS = 5 };

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
    learner_set_position(play->learner, ++play->position);
}

static void take_one(struct play *play, uint64_t n) {
    const struct architecture *a = &play->config->architecture;
    char key[8];
    float x[STEPS * WIDTH], y[STEPS * WIDTH];
    uint32_t symbols[ATOMS];
    struct example example = {.key = key, .steps = 1, .learn = play_random(play, 10) > 0};
    example.key_size = (size_t)snprintf(key, sizeof key, "s%u", play_random(play, STREAMS));
    example.end = play_random(play, 40) == 0;
    example.numbered = true;
    example.sequence = n;
    example.time = 1.7e9 + 60 * (double)n;
    if (a->output.target != TARGET_LATER)
        example.steps += play_random(play, STEPS);
    for (size_t k = 0; k < STEPS * WIDTH; k++) {
        x[k] = sinf(0.3F * (float)n) + 0.01F * (float)play_random(play, 100) + (float)k;
        y[k] = x[k] * 0.5F + 1;
        if (a->input.hold && play_random(play, 5) == 0)
            x[k] = NAN;
    }
    if (input_is_message(&a->input)) {
        example.steps = 1;
        example.atoms = 1 + play_random(play, ATOMS);
    }
    for (size_t t = 0; t < (example.atoms ? example.atoms : STEPS); t++)
        symbols[t] = play_random(play, (unsigned)a->input.size);
    example.x = a->input.kind == INPUT_SYMBOL ? (const void *)symbols : x;
    bool sent = model_has_output(&play->model, false) && a->output.target != TARGET_LATER;
    if (example.atoms && n % 29 == 0)
        y[0] = 3e38F;
    example.y = sent && !(example.atoms && n / 40 % 2) ? y : NULL; /* some have none for long */
    assert_int_equal(learner_take(play->learner, &example, NULL), 0);
    learner_set_position(play->learner, ++play->position);
    take_label(play, &example, y);
}

void play_take(struct play *play, uint64_t first, uint64_t count) {
    for (uint64_t n = first; n < first + count; n++)
        take_one(play, n);
    assert_int_equal(learner_flush(play->learner, NULL), 0);
}

/* ---- The content of its checkpoint ---- */

struct bytes play_state(struct play *play) {
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

void play_assert_state(struct play *play, const struct bytes *before) {
    struct bytes now = play_state(play);
    assert_int_equal(now.size, before->size);
    assert_memory_equal(now.bytes, before->bytes, now.size);
    free(now.bytes);
}
