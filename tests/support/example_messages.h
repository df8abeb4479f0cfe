/* Valid and invalid messages, and examples in both forms. */
#ifndef RUNNEL_TEST_EXAMPLE_MESSAGES_H
#define RUNNEL_TEST_EXAMPLE_MESSAGES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "example_models.h"
#include "sockets/decode.h"

#define REALS(...)                                                                                 \
    { (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) }
#define WHOLES(...)                                                                                \
    { (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) }
#define ONE_BITS 0x3F800000 /* of a float32 in a row of columns */
#define NAN_BITS 0x7FC00000
#define INFINITE_BITS 0x7F800000
#define TEXT(literal)                                                                              \
    { literal, sizeof literal - 1 }
#define NONE                                                                                       \
    { "", 0 }
#define COUNT(array) (sizeof array / sizeof *array)

struct message {
    enum example_model model;
    struct frame frames[MESSAGE_FRAMES_MAX];
    size_t count;
};

struct bench {
    struct model models[EXAMPLE_MODELS];
    struct decoder *decoders[EXAMPLE_MODELS];
};

static int open_bench(void **state) {
    static struct bench bench;
    for (int m = 0; m < EXAMPLE_MODELS; m++) {
        example_model(&bench.models[m], (enum example_model)m);
        if (decoder_open(&bench.decoders[m], &bench.models[m], true, NULL))
            return -1;
    }
    *state = &bench;
    return 0;
}

static int close_bench(void **state) {
    struct bench *bench = *state;
    for (int m = 0; m < EXAMPLE_MODELS; m++)
        decoder_close(&bench->decoders[m]);
    return 0;
}

static enum reject_reason decode_message(struct bench *bench, const struct message *message,
                                         struct example *example, char *why) {
    return decode(bench->decoders[message->model], message->frames, message->count, example, why);
}

static const char end_header[] = "\1\1\0\0\2\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0\xF8\x3F";
static const char frozen_header[] = "\1\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
static const char eternal_header[] = "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xF0\x7F";
static const char long_key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                               "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                               "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                               "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const float too_many[3 * (EXAMPLE_STEPS_MAX + 1)];

static const struct good {
    struct message message;
    size_t steps;
    bool y, end, frozen, numbered;
} good[] = {
    {{MODEL_REAL, {NONE, REALS(1, 2, 3)}, 2}, 1, .y = false},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE}, 3}, 1, .y = false},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(4, NAN)}, 3}, 1, .y = true},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6), REALS(4, 5, NAN, NAN)}, 3}, 2, .y = true},
    {{MODEL_REAL, {{long_key, WIRE_KEY_MAX}, REALS(3.4e38F, -3.4e38F, 1e-45F)}, 2}, 1, .y = false},
    {{MODEL_REAL, {TEXT("\xE2\x82\xAC"), {too_many, 12 * EXAMPLE_STEPS_MAX}}, 2},
     EXAMPLE_STEPS_MAX,
     .y = false},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {end_header, 24}}, 4},
     1,
     .end = true,
     .numbered = true},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(1, 2), {frozen_header, 24}}, 4},
     1,
     .y = true,
     .frozen = true,
     .numbered = true},
    {{MODEL_HOLD, {TEXT("a"), REALS(NAN, 2)}, 2}, 1, .y = false},
    {{MODEL_HOLD, {TEXT("a"), REALS(1, 2), NONE}, 3}, 1, .y = false},
    {{MODEL_CHARACTERS, {TEXT("a"), WHOLES(0, 4, 2)}, 2}, 3, .y = false},
    {{MODEL_TAGS, {TEXT("a"), WHOLES(0, 4, 2), WHOLES(2, WIRE_NO_CLASS, 0)}, 3}, 3, .y = true},
    {{MODEL_BERNOULLI, {TEXT("a"), REALS(7, -7), REALS(0, 1)}, 3}, 1, .y = true},
    {{MODEL_BERNOULLI, {TEXT("a"), REALS(7, -7), REALS(-0.0F, NAN)}, 3}, 1, .y = true},
    {{MODEL_BERNOULLI_NEXT, {TEXT("a"), REALS(1, 0.5F)}, 2}, 1, .y = false},
    {{MODEL_BERNOULLI_NEXT, {TEXT("a"), REALS(NAN, 0)}, 2}, 1, .y = false},
    {{MODEL_COLUMNS, {TEXT("a"), WHOLES(ONE_BITS, 4, ONE_BITS)}, 2}, 1, .y = false},
    {{MODEL_COLUMNS, {TEXT("a"), WHOLES(NAN_BITS, 0, 0, ONE_BITS, 3, ONE_BITS)}, 2}, 2, .y = false},
    {{MODEL_STROKES, {TEXT("a"), REALS(1, 2, 3), REALS(-4, 5, 7.5F)}, 3}, 1, .y = true},
    {{MODEL_STROKES, {TEXT("a"), REALS(1, 2, 3), REALS(NAN, 5, 1)}, 3}, 1, .y = true},
};

/* Invalid messages; the error contains `sentence`. */
static const struct bad {
    struct message message;
    enum reject_reason reason;
    const char *sentence;
} bad[] = {
    {{MODEL_REAL, {NONE}, 0}, REJECT_FRAMES, "0 frames"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {frozen_header, 24}, NONE}, 5},
     REJECT_FRAMES,
     "5 frames"},
    {{MODEL_REAL, {NONE}, 1}, REJECT_JSON, "not JSON"},
    {{MODEL_REAL, {REALS(1, 2, 3)}, 1}, REJECT_JSON, "not JSON"},
    {{MODEL_REAL, {{long_key, 256}, REALS(1, 2, 3)}, 2}, REJECT_KEY, "256 bytes"},
    {{MODEL_REAL, {TEXT("\xFF"), REALS(1, 2, 3)}, 2}, REJECT_KEY, "UTF-8"},
    {{MODEL_REAL, {TEXT("a\0b"), REALS(1, 2, 3)}, 2}, REJECT_KEY, "UTF-8"},
    {{MODEL_REAL, {TEXT("a"), NONE}, 2}, REJECT_X_SIZE, "0 bytes"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2)}, 2},
     REJECT_X_SIZE,
     "8 bytes (2 numbers), expected a multiple of 12 (3 float32 per step)"},
    {{MODEL_REAL, {TEXT("a"), TEXT("1234567890123")}, 2}, REJECT_X_SIZE, "13 bytes"},
    {{MODEL_CHARACTERS, {TEXT("a"), TEXT("12345")}, 2}, REJECT_X_SIZE, "1 uint32 per step"},
    {{MODEL_REAL, {TEXT("a"), {too_many, sizeof too_many}}, 2}, REJECT_X_SIZE, "4097 steps"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, NAN)}, 2}, REJECT_X_VALUE, "missing: hold"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, INFINITY, 5, 6)}, 2},
     REJECT_X_VALUE,
     "infinite at step 1"},
    {{MODEL_HOLD, {TEXT("a"), REALS(NAN, -INFINITY)}, 2}, REJECT_X_VALUE, "infinite at step 0"},
    {{MODEL_CHARACTERS, {TEXT("a"), WHOLES(1, 5)}, 2},
     REJECT_X_VALUE,
     "5 at step 1, expected 0..4"},
    {{MODEL_CHARACTERS, {TEXT("a"), WHOLES(WIRE_NO_CLASS)}, 2}, REJECT_X_VALUE, "expected 0..4"},
    {{MODEL_COLUMNS, {TEXT("a"), REALS(1, 2)}, 2},
     REJECT_X_SIZE,
     "8 bytes (2 numbers), expected a multiple of 12, for 3 columns: load float32, host uint32, "
     "hour "
     "float32"},
    {{MODEL_COLUMNS, {TEXT("a"), WHOLES(0, 5, 0)}, 2},
     REJECT_X_VALUE,
     "x's column host is 5 at step 0, expected 0..4"},
    {{MODEL_COLUMNS, {TEXT("a"), WHOLES(0, 0, 0, 0, 0, NAN_BITS)}, 2},
     REJECT_X_VALUE,
     "x's column hour is NaN at step 1, but that column does not have missing: hold"},
    {{MODEL_COLUMNS, {TEXT("a"), WHOLES(INFINITE_BITS, 0, 0)}, 2},
     REJECT_X_VALUE,
     "x's column load is infinite at step 0"},
    {{MODEL_BERNOULLI_NEXT, {TEXT("a"), REALS(1, 1.5F)}, 2}, REJECT_X_VALUE, "1.5 at step 0"},
    {{MODEL_BERNOULLI_NEXT, {TEXT("a"), REALS(-1e-30F, NAN)}, 2}, REJECT_X_VALUE, "expected 0..1"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(1)}, 3},
     REJECT_Y_SIZE,
     "y has 4 bytes (float16?), expected 2 float32 (8 bytes)"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(1, 2, 3, 4)}, 3},
     REJECT_Y_SIZE,
     "16 bytes (float64?), expected 2 float32 (8 bytes)"},
    {{MODEL_TAGS, {TEXT("a"), WHOLES(1, 2), WHOLES(1)}, 3},
     REJECT_Y_SIZE,
     "x has 8 bytes (int64?), expected 1 uint32 (4 bytes) per step"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(1, INFINITY)}, 3}, REJECT_Y_VALUE, "infinite"},
    {{MODEL_STROKES, {TEXT("a"), REALS(1, 2, 3), REALS(1, 2, -INFINITY)}, 3},
     REJECT_Y_VALUE,
     "infinite"},
    {{MODEL_TAGS, {TEXT("a"), WHOLES(1), WHOLES(3)}, 3}, REJECT_Y_VALUE, "3 at step 0"},
    {{MODEL_BERNOULLI, {TEXT("a"), REALS(1, 2), REALS(0, 1.0001F)}, 3}, REJECT_Y_VALUE, "0..1"},
    {{MODEL_BERNOULLI, {TEXT("a"), REALS(1, 2), REALS(-0.5F, 1)}, 3}, REJECT_Y_VALUE, "-0.5"},
    {{MODEL_HOLD, {TEXT("a"), REALS(1, 2), REALS(1, 2)}, 3}, REJECT_Y_GIVEN, "y is not allowed"},
    {{MODEL_CHARACTERS, {TEXT("a"), WHOLES(1), WHOLES(2)}, 3}, REJECT_Y_GIVEN, "y is not allowed"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, NONE}, 4}, REJECT_HEADER, "24 bytes"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {end_header, 23}}, 4},
     REJECT_HEADER,
     "24 bytes"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {long_key, 24}}, 4}, REJECT_HEADER, "version"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {eternal_header, 24}}, 4},
     REJECT_HEADER,
     "time is not finite"},
};

/* The same example in both forms. JSON with flags but without "sequence" is not numbered. */
static const struct {
    const char *json;
    struct message message;
    bool numbered;
} pairs[] = {
    {"{\"x\": [1, 2.5, -3e-2]}", {MODEL_REAL, {NONE, REALS(1, 2.5F, -3e-2F)}, 2}, false},
    {"{\"stream\": \"b\\u00fcro\", \"x\": [[1, 2, 3], [4, 5, 6]], \"y\": [[1, null], [null, 2]]}",
     {MODEL_REAL, {TEXT("b\xC3\xBCro"), REALS(1, 2, 3, 4, 5, 6), REALS(1, NAN, NAN, 2)}, 3},
     false},
    {"{\"x\": [1, 2, 3], \"y\": null, \"end\": false, \"learn\": true}",
     {MODEL_REAL, {NONE, REALS(1, 2, 3)}, 2},
     false},
    {"{\"x\": [1, 2, 3], \"y\": [], \"learn\": false}",
     {MODEL_REAL, {NONE, REALS(1, 2, 3), NONE, {frozen_header, 24}}, 4},
     false},
    {"{\"time\": 1.5, \"sequence\": 5, \"epoch\": 2, \"end\": true, \"x\": [1, 2, 3], \"stream\": "
     "\"a\"}",
     {MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {end_header, 24}}, 4},
     true},
    {"{\"x\": [[1, 4, 1], [1, 0, 1]]}",
     {MODEL_COLUMNS, {NONE, WHOLES(ONE_BITS, 4, ONE_BITS, ONE_BITS, 0, ONE_BITS)}, 2},
     false},
    {"{\"x\": 7}", {MODEL_SENSOR, {NONE, REALS(7)}, 2}, false},
    {"{\"x\": [7], \"y\": 8}", {MODEL_SENSOR, {NONE, REALS(7), REALS(8)}, 3}, false},
    {"{\"x\": [7, 8], \"y\": [1, null]}",
     {MODEL_SENSOR, {NONE, REALS(7, 8), REALS(1, NAN)}, 3},
     false},
    {"{\"x\": [[7], [8]], \"y\": [[1], [2]]}",
     {MODEL_SENSOR, {NONE, REALS(7, 8), REALS(1, 2)}, 3},
     false},
    {"{\"x\": 10000000000000000000000}", {MODEL_SENSOR, {NONE, REALS(1e22F)}, 2}, false},
    {"{\"x\": 0.1}", {MODEL_SENSOR, {NONE, REALS(0.1F)}, 2}, false},
    {"{\"x\": [null, 2]}", {MODEL_HOLD, {NONE, REALS(NAN, 2)}, 2}, false},
    {"{\"x\": [[null, 2], [3, null]]}", {MODEL_HOLD, {NONE, REALS(NAN, 2, 3, NAN)}, 2}, false},
    {"{\"x\": [0, 4.0, 2]}", {MODEL_CHARACTERS, {NONE, WHOLES(0, 4, 2)}, 2}, false},
    {"{\"x\": 3, \"y\": 2}", {MODEL_TAGS, {NONE, WHOLES(3), WHOLES(2)}, 3}, false},
    {"{\"x\": [3, 1], \"y\": [null, 0]}",
     {MODEL_TAGS, {NONE, WHOLES(3, 1), WHOLES(WIRE_NO_CLASS, 0)}, 3},
     false},
};

#endif
