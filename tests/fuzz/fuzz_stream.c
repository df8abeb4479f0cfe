/* A stream's state as published by another daemon. The first byte selects one of a few learners,
   and the kind of the rest: edits of the valid blob of this learner (so that seeds stay valid when
   the format changes), or a whole blob. The checksum is corrected unless the byte has a flag. An
   adopted blob is a stream of this learner, which can export it, save and load it, and continue to
   learn it; a rejected one has no effect.

   An edit is a byte for its kind, two for the place and eight for the value. */
#include <libdeflate.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/example.h"
#include "fuzz.h"
#include "learner/learner.h"
#include "store/checkpoint_file.h"
#include "store/stream_state.h"

/* Bits of the first byte. */
enum { CHOICE_LEARNER = 15, CHOICE_WHOLE = 16, CHOICE_NO_REPAIR = 32, CHOICE_FULL = 64 };
enum edit { EDIT_BYTE, EDIT_WORD, EDIT_GROW, EDIT_CUT, EDIT_END, EDIT_ROW, EDITS };
enum {
    SUMMED_FROM = 16, /* bytes before those of the checksum, which is in the last four */
    EDITS_MAX = 16,
    GROWTH_MAX = 64, /* bytes of one edit */
    PLAN_STEPS = 16,
    EXAMPLES = 40,
    STREAMS = 3,                                     /* as learning.max_streams */
    NUMBERS = 3,                                     /* numbers in x and in y */
    ROWS_AT = SUMMED_FROM + 17 + 17 + 8 + 1 + 1 + 2, /* offset with a key of one byte */
};

#define LAYERS "  layers: [{cell: gru, size: 3}]\n"
#define LEARNING "learning: {window: 4, stride: 2, max_streams: 3}\n"
#define FORECAST                                                                                   \
    "preset: forecast\nlearning: {max_streams: 3}\nmodel:\n  input: {size: 1}\n"                   \
    "  layers: [{cell: gru, size: 3, norm: layer}]\n"
#define SYMBOLS                                                                                    \
    "preset: symbols\nmemory: 16384\nexperts: [orders, repeat, position]\n"                        \
    "model:\n  input: {size: 4}\n" LAYERS LEARNING
#define WATCH "anomaly: {enabled: true, memory: 12}\n"

/* One for each part of a stream. */
static const char *const texts[] = {
    "model:\n  input: {kind: real, size: 2, scale: standard, missing: hold}\n" LAYERS
    "  output: {loss: gaussian, size: 2, target: next}\n" LEARNING,
    "model:\n  input: {kind: real, size: 2, time: [gap, day]}\n" LAYERS
    "  output: {loss: squared, size: 2, target: next, ahead: [1, 3], relative: true}\n" LEARNING
    "statistics: {predictions: true}\n" WATCH,
    "model:\n  input: {kind: real, size: 3}\n  layers: [{cell: lstm, size: 2, norm: batch}]\n"
    "  output: {loss: squared, size: 2, target: given, relative: true, scale: standard}\n" LEARNING,
    "model:\n  input: {kind: real, size: 2}\n" LAYERS
    "  output: {loss: squared, size: 2, target: later, patience: 3, relative: true}\n" LEARNING
    "statistics: {predictions: true}\n",
    "model:\n  input: {kind: symbol, size: 4, embedding: 2}\n" LAYERS
    "  output: {loss: softmax, size: 4, target: next}\n" LEARNING WATCH,
    "model:\n  input: {kind: real, size: 2}\n" LAYERS
    "  output: {loss: squared, size: 2, target: next}\n"
    "learning: {rule: rtrl, stride: 3, max_streams: 3, optimizer: {kind: sgd, rate: 0.01}}\n",
    FORECAST WATCH,
    FORECAST "anomaly: {enabled: false}\nmembers: [{name: one}, {name: two, set: {seed: 3}}]\n",
    FORECAST "  output: {ahead: [1, 2]}\nanomaly: {memory: 12, share: [a, b]}\n",
    SYMBOLS "members: []\n",
    SYMBOLS "tables: own\nstatistics: {predictions: all}\n",
};

enum { LEARNERS = sizeof texts / sizeof *texts };

static struct side {
    struct config config;
    struct model model;
    unsigned char *good; /* the blob of stream "a" */
    size_t good_size;
    unsigned char *before[2]; /* (before_size[n],) a receiver's checkpoint: new, and with streams */
    size_t before_size[2];
} * sides[LEARNERS];

/* ---- Learners ---- */

static void take(struct learner *learner, const struct example *example) {
    struct error error = {0};
    REQUIRE(!learner_take(learner, example, &error), "%s", error.text);
}

/* Examples of streams, the first of them "a". */
static void learn(struct learner *learner, const struct side *side, uint64_t first, char key) {
    const struct architecture *a = &side->model.architecture;
    for (uint64_t n = first; n < first + EXAMPLES; n++) {
        const char name = (char)(key + n % (STREAMS - 1));
        union value x[NUMBERS], y[NUMBERS];
        for (size_t k = 0; k < NUMBERS; k++) {
            x[k].real = a->input.hold && n % 7 == 0 ? NAN : (float)(n * (k + 1) % 11);
            y[k].real = (float)(n % 5) / 2;
            if (a->input.kind == INPUT_SYMBOL)
                x[k].id = (uint32_t)(n % 4);
        }
        struct example example = {.key = &name,
                                  .key_size = 1,
                                  .steps = 1,
                                  .x = x,
                                  .y = a->output.target == TARGET_GIVEN ? y : NULL,
                                  .learn = n % 6 > 0,
                                  .numbered = true,
                                  .sequence = n,
                                  .time = 1.7e9 + 60 * (double)n};
        take(learner, &example);
        if (a->output.target != TARGET_LATER || n < first + STREAMS)
            continue;
        example.label = true;
        example.label_sequence = n - (STREAMS - 1);
        example.sequence = 1000 + n;
        example.y = y;
        take(learner, &example);
    }
    struct error error = {0};
    REQUIRE(!learner_flush(learner, &error), "%s", error.text);
}

static unsigned char *save(struct learner *learner, const struct side *side, size_t *size) {
    struct error error = {0};
    uint64_t reported = 0;
    const char *path = fuzz_file(FUZZ_FIRST, "", 0);
    REQUIRE(!checkpoint_write(fuzz_descriptor(FUZZ_FIRST), path, &side->config, learner, 0,
                              &reported, &error),
            "%s", error.text);
    return fuzz_contents(FUZZ_FIRST, size);
}

static struct learner *load(const struct side *side, const void *bytes, size_t size) {
    static struct checkpoint_report report;
    struct learner *learner = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    struct error error = {0};
    REQUIRE(!checkpoint_read(fuzz_file(FUZZ_GIVEN, bytes, size), &side->config, learner, &report,
                             &error),
            "%s", error.text);
    return learner;
}

static struct stream_state *open_state(const struct side *side, struct learner *learner) {
    struct stream_state *state;
    struct error error = {0};
    REQUIRE(!stream_state_open(&state, &side->config, learner, &error), "%s", error.text);
    return state;
}

/* A copy, to be freed. */
static unsigned char *export_one(const struct side *side, struct learner *learner, const char *key,
                                 size_t key_size, size_t *size) {
    struct stream_state *state = open_state(side, learner);
    struct error error = {0};
    const unsigned char *bytes;
    REQUIRE(!stream_state_export(state, key, key_size, &bytes, size, &error), "%s", error.text);
    REQUIRE(*size <= stream_state_size(state), "a blob of %zu bytes", *size);
    unsigned char *copy = malloc(*size);
    REQUIRE(copy, "no memory");
    memcpy(copy, bytes, *size);
    stream_state_close(&state);
    return copy;
}

/* ---- Valid blobs ---- */

static void configure(struct side *side, const char *model) {
    enum { TEXT_SIZE = 1024 };
    char text[TEXT_SIZE];
    struct error error = {0};
    setenv("HOME", "/home/user", 1);
    snprintf(text, sizeof text, "name: fuzz\n%s", model);
    REQUIRE(!config_load(&side->config, fuzz_file(FUZZ_GIVEN, text, strlen(text)), NULL, 0, &error),
            "%s", error.text);
    snprintf(side->config.device, sizeof side->config.device, "cpu");
    model_build(&side->model, &side->config.architecture);
}

static struct side *side_of(size_t which) {
    if (sides[which])
        return sides[which];
    struct side *side = sides[which] = calloc(1, sizeof *side);
    struct error error = {0};
    REQUIRE(side, "no memory");
    configure(side, texts[which]);
    struct learner *learner = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    REQUIRE(!learner_start(learner, &error), "%s", error.text);
    side->before[0] = save(learner, side, &side->before_size[0]);
    learn(learner, side, 0, 'a');
    side->good = export_one(side, learner, "a", 1, &side->good_size);
    learn(learner, side, EXAMPLES, 'x');
    side->before[1] = save(learner, side, &side->before_size[1]);
    learner_close(&learner);
    return side;
}

/* ---- The blob under test ---- */

struct blob {
    unsigned char *bytes;
    size_t size;
};

/* Overwrites bytes. */
static void put(struct blob *blob, size_t at, const void *bytes, size_t size) {
    if (at < blob->size)
        memcpy(blob->bytes + at, bytes, size < blob->size - at ? size : blob->size - at);
}

/* Inserts or removes bytes. */
static void grow(struct blob *blob, size_t at, size_t size) {
    memmove(blob->bytes + at + size, blob->bytes + at, blob->size - at);
    memset(blob->bytes + at, 0, size);
    blob->size += size;
}

static void cut(struct blob *blob, size_t at, size_t size) {
    size = size < blob->size - at ? size : blob->size - at;
    memmove(blob->bytes + at, blob->bytes + at + size, blob->size - at - size);
    blob->size -= size;
}

/* The offset of the row's bytes, from its size on; 0: not found. */
static size_t find_row(const struct blob *blob, uint64_t row) {
    size_t at = ROWS_AT;
    for (uint64_t size;; row--) {
        if (at >= blob->size || blob->size - at < 1 + (size_t)blob->bytes[at] + sizeof size)
            return 0;
        at += 1 + (size_t)blob->bytes[at];
        if (row == 0)
            return at;
        memcpy(&size, blob->bytes + at, sizeof size);
        at += sizeof size;
        if (size > blob->size - at)
            return 0;
        at += (size_t)size;
    }
}

/* Adds or removes bytes of a row, with a correct size. */
static void change_row(struct blob *blob, uint64_t place, uint64_t value) {
    enum { KINDS = 32, BY = 4 };
    size_t at = find_row(blob, place % KINDS),
           change = (size_t)(value / 2 % (GROWTH_MAX / BY)) * BY;
    uint64_t size;
    if (!at)
        return;
    memcpy(&size, blob->bytes + at, sizeof size);
    if (size > blob->size - at - sizeof size)
        return;
    if (value % 2) {
        grow(blob, at + sizeof size, change);
        size += change;
    } else {
        change = change < size ? change : (size_t)size;
        cut(blob, at + sizeof size, change);
        size -= change;
    }
    put(blob, at, &size, sizeof size);
}

static void edit(struct blob *blob, enum edit kind, uint64_t place, uint64_t value) {
    size_t at = blob->size ? place % blob->size : 0;
    switch (kind) {
    case EDIT_BYTE:
        put(blob, at, &value, 1);
        break;
    case EDIT_WORD:
        put(blob, at, &value, sizeof value);
        break;
    case EDIT_GROW:
        grow(blob, at, value % GROWTH_MAX);
        break;
    case EDIT_CUT:
        cut(blob, at, value % GROWTH_MAX);
        break;
    case EDIT_ROW:
        change_row(blob, place, value);
        break;
    default:
        blob->size = at;
    }
}

static struct blob given(const struct side *side, unsigned choice, struct fuzz_input input) {
    bool whole = choice & CHOICE_WHOLE;
    size_t size = whole ? input.size : side->good_size;
    struct blob blob = {malloc(size + EDITS_MAX * GROWTH_MAX + 1), size};
    REQUIRE(blob.bytes, "no memory");
    if (size)
        memcpy(blob.bytes, whole ? input.bytes : side->good, size);
    for (size_t n = 0; !whole && n < EDITS_MAX && input.size > 0; n++) {
        enum edit kind = (enum edit)(fuzz_byte(&input) % EDITS);
        uint64_t place = fuzz_pair(&input);
        edit(&blob, kind, place, fuzz_word(&input));
    }
    if (blob.size >= SUMMED_FROM && !(choice & CHOICE_NO_REPAIR)) {
        uint32_t sum = libdeflate_crc32(0, blob.bytes + SUMMED_FROM, blob.size - SUMMED_FROM);
        memcpy(blob.bytes + SUMMED_FROM - sizeof sum, &sum, sizeof sum);
    }
    struct fuzz_input all = {blob.bytes, blob.size};
    struct blob exact = {fuzz_block(&all, &blob.size), blob.size};
    exact.size = blob.size;
    free(blob.bytes);
    return exact;
}

/* ---- Invariants ---- */

/* The state is a learner's, and the stream is exported as it was adopted. */
static void require_good(struct learner *learner, const struct side *side,
                         const struct blob *blob) {
    struct stream_state *state = open_state(side, learner);
    struct error error = {0};
    const char *key;
    size_t key_size, size, again, saved_size, saved_again;
    REQUIRE(!stream_state_look(state, blob->bytes, blob->size, &key, &key_size, &error), "%s",
            error.text);
    stream_state_close(&state);
    unsigned char *mine = export_one(side, learner, key, key_size, &size);
    unsigned char *saved = save(learner, side, &saved_size);
    struct learner *other = load(side, saved, saved_size);
    unsigned char *same = save(other, side, &saved_again);
    REQUIRE(saved_size == saved_again && !memcmp(saved, same, saved_size),
            "what was adopted is loaded as another state");
    state = open_state(side, other);
    REQUIRE(!stream_state_adopt(state, mine, size, &error), "its own blob is refused: %s",
            error.text);
    stream_state_close(&state);
    unsigned char *theirs = export_one(side, other, key, key_size, &again);
    REQUIRE(size == again && !memcmp(mine, theirs, size), "a stream came as another one");
    learner_close(&other);
    free(mine);
    free(saved);
    free(same);
    free(theirs);
}

static void require_same(struct learner *learner, const struct side *side, bool full) {
    size_t size;
    unsigned char *now = save(learner, side, &size);
    REQUIRE(size == side->before_size[full] && !memcmp(now, side->before[full], size),
            "what was refused has changed something");
    free(now);
}

bool fuzz_stream(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    unsigned choice = fuzz_byte(&input);
    bool full = choice & CHOICE_FULL, untouched = !(choice & CHOICE_WHOLE) && input.size == 0;
    const struct side *side = side_of((choice & CHOICE_LEARNER) % LEARNERS);
    struct learner *learner = load(side, side->before[full], side->before_size[full]);
    struct stream_state *state = open_state(side, learner);
    struct blob blob = given(side, choice, input);
    struct error error = {0};
    int status = stream_state_adopt(state, blob.bytes, blob.size, &error);
    stream_state_close(&state);
    REQUIRE(status >= 0, "a failure: %s", error.text);
    if (status == 0) {
        require_good(learner, side, &blob);
        learn(learner, side, 2 * EXAMPLES, 'a');
    } else {
        REQUIRE(!untouched, "a good blob is refused: %s", error.text);
        fuzz_require_sentence(error.text);
        require_same(learner, side, full);
    }
    learner_close(&learner);
    free(blob.bytes);
    return status == 0;
}
