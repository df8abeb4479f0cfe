/* Valid messages, their decoded content, and the errors of invalid ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "example_messages.h"

static void good_messages_are_handed_on(void **state) {
    for (size_t n = 0; n < COUNT(good); n++) {
        const struct message *m = &good[n].message;
        struct example e;
        char why[REJECT_WHY_SIZE] = "";
        if (decode_message(*state, m, &e, why) != REJECT_NOT)
            fail_msg("message %zu: %s", n, why);
        assert_ptr_equal(e.key, m->frames[0].data);
        assert_int_equal(e.key_size, m->frames[0].size);
        assert_ptr_equal(e.x, m->frames[1].data);
        assert_int_equal(e.steps, good[n].steps);
        assert_ptr_equal(e.y, good[n].y ? m->frames[2].data : NULL);
        assert_int_equal(e.end, good[n].end);
        assert_int_equal(e.learn, !good[n].frozen);
        assert_int_equal(e.numbered, good[n].numbered);
        assert_int_equal(e.epoch, good[n].end ? 2 : 0);
        assert_int_equal(e.sequence, good[n].end ? 5 : 0);
        assert_true(e.time == (good[n].end ? 1.5 : 0.0));
    }
}

static void assert_rejected(struct bench *bench, const struct message *message, size_t n,
                            enum reject_reason reason, const char *sentence) {
    struct example e;
    char why[REJECT_WHY_SIZE] = "";
    enum reject_reason found = decode_message(bench, message, &e, why);
    if (found != reason || !strstr(why, sentence))
        fail_msg("message %zu: %s (%s), expected %s (%s)", n, reject_name(found), why,
                 reject_name(reason), sentence);
    assert_true(e.key_size <= WIRE_KEY_MAX);
    assert_null(e.x);
    assert_null(e.y);
    assert_int_equal(e.steps, 0);
}

static void bad_messages_are_rejected_with_a_reason(void **state) {
    for (size_t n = 0; n < COUNT(bad); n++)
        assert_rejected(*state, &bad[n].message, n, bad[n].reason, bad[n].sentence);
}

static const struct bad bad_json[] = {
#define JSON(model, text)                                                                          \
    { model, {TEXT(text)}, 1 }
    {JSON(MODEL_REAL, "{"), REJECT_JSON, "not JSON"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, NaN]}"), REJECT_JSON, "NaN"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 1e999]}"), REJECT_JSON, "not JSON"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3]} x"), REJECT_JSON, "not JSON"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"x\": [1, 2, 3]}"), REJECT_JSON, "duplicate"},
    {JSON(MODEL_REAL, "[1, 2, 3]"), REJECT_JSON, "a list, expected an object"},
    {JSON(MODEL_REAL, "{}"), REJECT_JSON, "missing \"x\""},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"lear\": false}"), REJECT_JSON, "unknown member 'lear'"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"\\u001b[2J\": 0}"), REJECT_JSON, "member '?[2J'"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"stream\": 7}"), REJECT_JSON, "expected a string"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"stream\": \"a\\u0000b\"}"), REJECT_JSON, "not JSON"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"stream\": \"\xFF\"}"), REJECT_JSON, "not JSON"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"end\": 1}"), REJECT_JSON, "true or false"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"learn\": null}"), REJECT_JSON, "true or false"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"time\": \"now\"}"), REJECT_JSON, "seconds"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"sequence\": 1.5}"), REJECT_JSON, "whole number"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"sequence\": -1}"), REJECT_JSON, "whole number"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"sequence\": 1e17}"), REJECT_JSON, "whole number"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"sequence\": 9007199254740993}"), REJECT_JSON,
     "\"sequence\" must be a whole number from 0 to 9007199254740991"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"producer\": 7}"), REJECT_JSON, "hexadecimal"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"producer\": \"\"}"), REJECT_JSON, "hexadecimal"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"producer\": \"0x1\"}"), REJECT_JSON, "hexadecimal"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"producer\": \"10000000000000000\"}"), REJECT_JSON,
     "hexad"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"epoch\": 4294967296}"), REJECT_JSON, "whole number"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"epoch\": true}"), REJECT_JSON, "whole number"},
    {JSON(MODEL_REAL, "{\"x\": \"1\"}"), REJECT_X_SIZE, "a list of 3"},
    {JSON(MODEL_REAL, "{\"x\": null}"), REJECT_X_SIZE, "a list of 3"},
    {JSON(MODEL_REAL, "{\"x\": 1}"), REJECT_X_SIZE, "a list of 3"},
    {JSON(MODEL_REAL, "{\"x\": []}"), REJECT_X_SIZE, "0 bytes"},
    {JSON(MODEL_REAL, "{\"x\": [[]]}"), REJECT_X_SIZE, "0 numbers at step 0"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2]}"), REJECT_X_SIZE, "2 numbers"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3, 4, 5, 6]}"), REJECT_X_SIZE, "6 numbers"},
    {JSON(MODEL_REAL, "{\"x\": [[1, 2, 3], [4, 5]]}"), REJECT_X_SIZE, "2 numbers at step 1"},
    {JSON(MODEL_REAL, "{\"x\": [[1, 2, 3], 4]}"), REJECT_JSON, "a number, expected lists"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, [3]]}"), REJECT_JSON, "a list, expected a number"},
    {JSON(MODEL_REAL, "{\"x\": [[[1, 2, 3]]]}"), REJECT_X_SIZE, "at step 0"},
    {JSON(MODEL_REAL, "{\"x\": [1, \"2\", 3]}"), REJECT_JSON, "a string, expected a number"},
    {JSON(MODEL_REAL, "{\"x\": [1, true, 3]}"), REJECT_JSON, "true, expected a number"},
    {JSON(MODEL_REAL, "{\"x\": [1, null, 3]}"), REJECT_X_VALUE, "missing: hold"},
    {JSON(MODEL_REAL, "{\"x\": [1, 1e39, 3]}"), REJECT_X_VALUE, "infinite"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"y\": [1]}"), REJECT_Y_SIZE, "1 numbers"},
    {JSON(MODEL_REAL, "{\"x\": [[1, 2, 3], [1, 2, 3]], \"y\": [1, 2]}"), REJECT_Y_SIZE, "2 steps"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"y\": [1, -1e39]}"), REJECT_Y_VALUE, "infinite"},
    {JSON(MODEL_REAL, "{\"x\": [1, 2, 3], \"y\": false}"), REJECT_Y_SIZE, "false"},
    {JSON(MODEL_HOLD, "{\"x\": [1, 2], \"y\": [1, 2]}"), REJECT_Y_GIVEN, "y is not allowed"},
    {JSON(MODEL_CHARACTERS, "{\"x\": 1.5}"), REJECT_X_VALUE, "whole"},
    {JSON(MODEL_CHARACTERS, "{\"x\": -1}"), REJECT_X_VALUE, "whole"},
    {JSON(MODEL_CHARACTERS, "{\"x\": 5}"), REJECT_X_VALUE, "expected 0..4"},
    {JSON(MODEL_CHARACTERS, "{\"x\": 4294967296}"), REJECT_X_VALUE, "whole"},
    {JSON(MODEL_CHARACTERS, "{\"x\": null}"), REJECT_X_VALUE, "cannot be missing"},
    {JSON(MODEL_CHARACTERS, "{\"x\": \"a\"}"), REJECT_JSON, "a string"},
    {JSON(MODEL_COLUMNS, "{\"x\": [1, 1.5, 2]}"), REJECT_X_VALUE, "whole"},
    {JSON(MODEL_COLUMNS, "{\"x\": [1, null, 2]}"), REJECT_X_VALUE, "cannot be missing"},
    {JSON(MODEL_COLUMNS, "{\"x\": [1, 5, 2]}"), REJECT_X_VALUE, "column host is 5"},
    {JSON(MODEL_COLUMNS, "{\"x\": [[1, 2, 3], [1, 2, null]]}"), REJECT_X_VALUE,
     "column hour is NaN at step 1"},
    {JSON(MODEL_COLUMNS, "{\"x\": [1, 2]}"), REJECT_X_SIZE, "2 numbers"},
    {JSON(MODEL_TAGS, "{\"x\": 1, \"y\": 3}"), REJECT_Y_VALUE, "3 at step 0"},
    {JSON(MODEL_TAGS, "{\"x\": [1, 2], \"y\": 1}"), REJECT_Y_SIZE, "2 steps"},
    {JSON(MODEL_BERNOULLI, "{\"x\": [1, 2], \"y\": [0, 2]}"), REJECT_Y_VALUE, "0..1"},
};

static void bad_json_is_rejected_with_a_reason(void **state) {
    for (size_t n = 0; n < COUNT(bad_json); n++)
        assert_rejected(*state, &bad_json[n].message, n, bad_json[n].reason, bad_json[n].sentence);
}

static void json_names_its_producer(void **state) {
    struct message message = {
        MODEL_REAL,
        {TEXT("{\"x\": [1, 2, 3], \"producer\": \"FEDCba9876543210\", \"sequence\": 7}")},
        1};
    struct example e;
    char why[REJECT_WHY_SIZE];
    assert_int_equal(decode_message(*state, &message, &e, why), REJECT_NOT);
    assert_true(e.numbered && e.producer == 0xFEDCBA9876543210 && e.sequence == 7);
}

static void assert_numbers_equal(const void *a, const void *b, size_t size) {
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_memory_equal(a, b, size);
}

static void json_and_binary_are_one_example(void **state) {
    struct bench *bench = *state;
    for (size_t n = 0; n < COUNT(pairs); n++) {
        const struct message *m = &pairs[n].message;
        struct message json = {m->model, {{pairs[n].json, strlen(pairs[n].json)}}, 1};
        struct example a, b;
        char why[REJECT_WHY_SIZE] = "";
        if (decode_message(bench, &json, &a, why) || decode_message(bench, m, &b, why))
            fail_msg("%s: %s", pairs[n].json, why);
        const struct model *model = &bench->models[m->model];
        assert_int_equal(a.key_size, b.key_size);
        assert_memory_equal(a.key, b.key, a.key_size);
        assert_int_equal(a.steps, b.steps);
        assert_numbers_equal(a.x, b.x, m->frames[1].size);
        assert_numbers_equal(a.y, b.y, 4 * example_targets(&a) * model->y_size);
        assert_int_equal(a.atoms, b.atoms);
        assert_int_equal(a.target_atoms, b.target_atoms);
        assert_int_equal(a.end, b.end);
        assert_int_equal(a.learn, b.learn);
        assert_int_equal(a.numbered, pairs[n].numbered);
        assert_int_equal(a.epoch, b.epoch);
        assert_int_equal(a.sequence, b.sequence);
        assert_true(a.time == b.time);
    }
}

static char *json_of_steps(size_t steps) {
    char *text = malloc(16 + 2 * steps);
    char *t = text + sprintf(text, "{\"x\": [");
    for (size_t n = 0; n < steps; n++)
        t += sprintf(t, "%d,", (int)(n % 5));
    strcpy(t - 1, "]}");
    return text;
}

static void json_of_many_steps_is_bounded(void **state) {
    for (size_t steps = EXAMPLE_STEPS_MAX; steps <= EXAMPLE_STEPS_MAX + 1; steps++) {
        char *text = json_of_steps(steps);
        struct message message = {MODEL_CHARACTERS, {{text, strlen(text)}}, 1};
        struct example e;
        char why[REJECT_WHY_SIZE];
        enum reject_reason reason = decode_message(*state, &message, &e, why);
        assert_int_equal(reason, steps > EXAMPLE_STEPS_MAX ? REJECT_X_SIZE : REJECT_NOT);
        if (reason == REJECT_NOT)
            for (size_t n = 0; n < steps; n++)
                assert_int_equal(((const uint32_t *)e.x)[n], n % 5);
        free(text);
    }
}

/* All numbers of a long x are checked, at any alignment of the frame. */
static void no_number_is_overlooked_at_any_alignment(void **state) {
    enum { STEPS = 67 };
    struct bench *bench = *state;
    unsigned char room[3 * 4 * STEPS + 8];
    for (size_t n = 0; n < 3 * STEPS; n++) {
        size_t offset = n % 8;
        float x[3 * STEPS] = {0};
        for (int wrong = 0; wrong < 2; wrong++) {
            x[n] = wrong ? INFINITY : -1.0F;
            memcpy(room + offset, x, sizeof x);
            struct message m = {MODEL_REAL, {TEXT("a"), {room + offset, sizeof x}}, 2};
            struct example e;
            char why[REJECT_WHY_SIZE];
            assert_int_equal(decode_message(bench, &m, &e, why),
                             wrong ? REJECT_X_VALUE : REJECT_NOT);
        }
    }
}

/* A float64 vector has the bytes of two steps of float32. */
static const struct bad bad_without_header[] = {
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6)}, 2},
     REJECT_X_SIZE,
     "x has 24 bytes (float64?), expected 3 float32 (12 bytes); two steps require a header, or "
     "examples.steps: many"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6), REALS(1, 2, 3, 4)}, 3},
     REJECT_X_SIZE,
     "float64?"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6, 7, 8, 9)}, 2},
     REJECT_X_SIZE,
     "36 bytes (3 steps of 3 float32) and no header; several steps require a header"},
    {{MODEL_HOLD, {TEXT("a"), REALS(1, 2, 3, 4), NONE}, 3}, REJECT_X_SIZE, "float64?"},
    {{MODEL_CHARACTERS, {TEXT("a"), WHOLES(1, 0)}, 2},
     REJECT_X_SIZE,
     "8 bytes (int64?), expected 1 uint32"},
    {{MODEL_REAL, {TEXT("a"), TEXT("123456")}, 2},
     REJECT_X_SIZE,
     "x has 6 bytes (float16?), expected 3 float32 (12 bytes)"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), REALS(1, 2, 3, 4)}, 3},
     REJECT_Y_SIZE,
     "y has 16 bytes (float64?), expected 2 float32 (8 bytes)"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6), REALS(1, 2), {frozen_header, 24}}, 4},
     REJECT_Y_SIZE,
     "x has 24 bytes (float64?), expected 3 float32 (12 bytes) per step"},
};

static const struct good good_of_one_step[] = {
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3)}, 2}, 1, .y = false},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3, 4, 5, 6), NONE, {frozen_header, 24}}, 4},
     2,
     .y = false},
    {{MODEL_REAL, {TEXT("{\"x\": [[1, 2, 3], [4, 5, 6]]}")}, 1}, 2, .y = false},
    {{MODEL_CHARACTERS, {TEXT("{\"x\": [1, 2, 3]}")}, 1}, 3, .y = false},
};

static void a_message_without_header_is_one_step(void **state) {
    struct bench one = *(struct bench *)*state;
    for (int m = 0; m < EXAMPLE_MODELS; m++)
        assert_int_equal(decoder_open(&one.decoders[m], &one.models[m], false, NULL), 0);
    for (size_t n = 0; n < COUNT(bad_without_header); n++)
        assert_rejected(&one, &bad_without_header[n].message, n, bad_without_header[n].reason,
                        bad_without_header[n].sentence);
    for (size_t n = 0; n < COUNT(good_of_one_step); n++) {
        struct example e;
        char why[REJECT_WHY_SIZE] = "";
        assert_int_equal(decode_message(&one, &good_of_one_step[n].message, &e, why), REJECT_NOT);
        assert_int_equal(e.steps, good_of_one_step[n].steps);
    }
    for (int m = 0; m < EXAMPLE_MODELS; m++)
        decoder_close(&one.decoders[m]);
}

static const char words_header[] = "\1\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/* Messages in both forms, without a header: x and y have as many atoms. */
static const struct {
    const char *json;
    struct message message;
    size_t atoms, target_atoms;
} messages[] = {
    {"{\"x\": [1, 4, 0], \"y\": 2}", {MODEL_LINES, {NONE, WHOLES(1, 4, 0), WHOLES(2)}, 3}, 3, 0},
    {"{\"x\": 4}", {MODEL_LINES, {NONE, WHOLES(4)}, 2}, 1, 0},
    {"{\"x\": [[1, 2], [3, 4]], \"y\": [5, null]}",
     {MODEL_TRACES, {NONE, REALS(1, 2, 3, 4), REALS(5, NAN)}, 3},
     2,
     0},
    {"{\"x\": [1, 2]}", {MODEL_TRACES, {NONE, REALS(1, 2)}, 2}, 1, 0},
    {"{\"x\": [0.5, 1], \"y\": [4, 0]}",
     {MODEL_TITLE, {NONE, REALS(0.5F, 1), WHOLES(4, 0)}, 3},
     0,
     2},
    {"{\"x\": [\"a\", \"b\"], \"y\": [\"c\", \"a\", \"c\"]}",
     {MODEL_REPLY,
      {NONE,
       WHOLES(WIRE_WORD, WIRE_WORD),
       WHOLES(WIRE_WORD, WIRE_WORD, WIRE_WORD),
       {words_header, 24},
       TEXT("\1a\1b\1c\1a\1c")},
      5},
     2,
     3},
};

static const struct bad bad_message_rows[] = {
    {JSON(MODEL_LINES, "{\"x\": [1, 2, 3, 4, 0]}"), REJECT_X_SIZE,
     "x has 5 atoms; model.input.sequence.longest is 4"},
    {{MODEL_LINES, {NONE, WHOLES(1, 2, 3, 4, 0)}, 2},
     REJECT_X_SIZE,
     "x has 5 atoms; model.input.sequence.longest is 4"},
    {JSON(MODEL_LINES, "{\"x\": []}"), REJECT_X_SIZE, "x is empty"},
    {JSON(MODEL_LINES, "{\"x\": [1, 5]}"), REJECT_X_VALUE, "x is 5 at atom 1, expected 0..4"},
    {JSON(MODEL_LINES, "{\"x\": [1, 2], \"y\": [1, 2]}"), REJECT_Y_SIZE, "y has 8 bytes"},
    {JSON(MODEL_TRACES, "{\"x\": [[1, 2], [3]]}"), REJECT_X_SIZE,
     "x has 1 numbers at atom 1, expected 2"},
    {JSON(MODEL_TRACES, "{\"x\": [[1, 2], [3, 4], [5, 6], [7, 8]]}"), REJECT_X_SIZE,
     "x has 4 atoms; model.input.sequence.longest is 3"},
    {JSON(MODEL_TITLE, "{\"x\": [1, 2], \"y\": [1, 2, 3, 4]}"), REJECT_Y_SIZE,
     "y has 4 atoms; model.output.sequence.longest is 3"},
    {JSON(MODEL_TITLE, "{\"x\": [1, 2], \"y\": [1, null]}"), REJECT_Y_VALUE,
     "y has null, but a symbol cannot be missing"},
    {{MODEL_TITLE, {NONE, REALS(1, 2), WHOLES(1, WIRE_NO_CLASS)}, 3}, REJECT_Y_VALUE, "at atom 1"},
    {{MODEL_TITLE, {NONE, REALS(1, 2), TEXT("12345")}, 3}, REJECT_Y_SIZE, "y has 5 bytes"},
    {JSON(MODEL_TITLE, "{\"x\": [[1, 2], [3, 4]], \"y\": [1]}"), REJECT_X_SIZE,
     "x has 2 steps, expected 1: its y is a message"},
};

static void a_message_is_one_step(void **state) {
    struct bench one = *(struct bench *)*state;
    for (int m = 0; m < EXAMPLE_MODELS; m++)
        assert_int_equal(decoder_open(&one.decoders[m], &one.models[m], false, NULL), 0);
    for (size_t n = 0; n < COUNT(messages); n++) {
        const struct message *m = &messages[n].message;
        struct message json = {m->model, {{messages[n].json, strlen(messages[n].json)}}, 1};
        struct example a, b;
        char why[REJECT_WHY_SIZE] = "";
        if (decode_message(&one, m, &b, why) || decode_check(one.decoders[m->model], &b, why) ||
            decode_message(&one, &json, &a, why))
            fail_msg("%s: %s", messages[n].json, why);
        assert_int_equal(a.steps, 1);
        assert_int_equal(b.steps, 1);
        assert_int_equal(a.atoms, messages[n].atoms);
        assert_int_equal(b.atoms, messages[n].atoms);
        assert_int_equal(a.target_atoms, messages[n].target_atoms);
        assert_int_equal(b.target_atoms, messages[n].target_atoms);
        assert_memory_equal(a.x, b.x, m->frames[1].size);
        assert_numbers_equal(a.y, b.y, m->frames[2].size);
        assert_int_equal(a.words_size, b.words_size);
        assert_memory_equal(a.words, b.words, b.words_size);
    }
    for (size_t n = 0; n < COUNT(bad_message_rows); n++)
        assert_rejected(&one, &bad_message_rows[n].message, n, bad_message_rows[n].reason,
                        bad_message_rows[n].sentence);
    for (int m = 0; m < EXAMPLE_MODELS; m++)
        decoder_close(&one.decoders[m]);
}

static void the_schema_names_the_longest_message(void **state) {
    const struct bench *bench = *state;
    char text[SCHEMA_NAMES_SIZE];
    struct schema schema;
    assert_string_equal(decoder_names(bench->decoders[MODEL_REAL], text), "");
    assert_string_equal(decoder_names(bench->decoders[MODEL_TRACES], text),
                        ",\"sequence\":{\"longest\":3}");
    assert_string_equal(decoder_names(bench->decoders[MODEL_REPLY], text),
                        ",\"sequence\":{\"longest\":4},\"target_sequence\":{\"longest\":3}");
    decoder_schema(bench->decoders[MODEL_TRACES], &schema);
    assert_int_equal(schema.columns, 2);
    decoder_schema(bench->decoders[MODEL_TITLE], &schema);
    assert_int_equal(schema.targets, 1);
}

#define SCHEMA(model, members) JSON(model, "{\"schema\": {" members "}}")
static const struct bad bad_schemas[] = {
    {SCHEMA(MODEL_REAL, "\"dtype\": \"float64\""), REJECT_SCHEMA,
     "dtype is 'float64', expected float32"},
    {SCHEMA(MODEL_REAL, "\"columns\": 4"), REJECT_SCHEMA, "has 4 columns, expected 3"},
    {SCHEMA(MODEL_REAL, "\"columns\": [\"a\", \"b\"]"), REJECT_SCHEMA, "has 2 columns"},
    {SCHEMA(MODEL_REAL, "\"columns\": [\"a\", \"b\", \"c\", {\"name\": \"time\"}, \"e\"]"),
     REJECT_SCHEMA, "has 5 columns, expected 3: 'time' is the first extra one"},
    {SCHEMA(MODEL_REAL, "\"columns\": 3, \"targets\": [\"y\"]"), REJECT_SCHEMA,
     "has 1 targets, expected 2"},
    {SCHEMA(MODEL_HOLD, "\"targets\": 2"), REJECT_SCHEMA, "2 targets, expected 0"},
    {SCHEMA(MODEL_CHARACTERS, "\"dtype\": \"int64\""), REJECT_SCHEMA, "expected uint32"},
    {SCHEMA(MODEL_TAGS, "\"target_dtype\": \"float32\""), REJECT_SCHEMA, "target_dtype is"},
    {SCHEMA(MODEL_REAL, "\"dtype\": 32"), REJECT_JSON, "\"dtype\" must be a string"},
    {SCHEMA(MODEL_REAL, "\"columns\": 2.5"), REJECT_JSON, "must be a list of names or a count"},
    {SCHEMA(MODEL_REAL, "\"columns\": [1, 2, 3]"), REJECT_JSON, "must be a list of names"},
    {SCHEMA(MODEL_REAL, "\"columns\": -1"), REJECT_JSON, "must be a list of names"},
    {SCHEMA(MODEL_REAL, "\"columns\": [{\"kind\": \"a\"}]"), REJECT_JSON,
     "must be a list of names"},
    {JSON(MODEL_REAL, "{\"schema\": 7}"), REJECT_JSON, "must be an object"},
    {JSON(MODEL_REAL, "{\"schema\": {}, \"x\": [1, 2, 3]}"), REJECT_JSON,
     "unknown member 'schema'"},
};

static const struct message good_schemas[] = {
    SCHEMA(MODEL_REAL, ""),
    SCHEMA(MODEL_REAL, "\"dtype\": \"float32\", \"columns\": 3, \"targets\": 2"),
    SCHEMA(MODEL_REAL, "\"columns\": [\"a\", \"b\", {\"name\": \"c\", \"kind\": \"count\"}]"),
    SCHEMA(MODEL_HOLD, "\"columns\": [\"a\", \"b\"], \"targets\": [], \"units\": \"kW\""),
    SCHEMA(MODEL_TAGS, "\"dtype\": \"uint32\", \"targets\": 1, \"target_dtype\": \"uint32\""),
};

static void schemas_are_checked_and_no_examples(void **state) {
    for (size_t n = 0; n < COUNT(bad_schemas); n++)
        assert_rejected(*state, &bad_schemas[n].message, n, bad_schemas[n].reason,
                        bad_schemas[n].sentence);
    for (size_t n = 0; n < COUNT(good_schemas); n++) {
        struct example e;
        char why[REJECT_WHY_SIZE] = "";
        if (decode_message(*state, &good_schemas[n], &e, why) != REJECT_NOT)
            fail_msg("schema %zu: %s", n, why);
        assert_int_equal(e.steps, 0);
        assert_null(e.x);
    }
}

static const char note_header[] = "\1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
static const char words_note_header[] = "\1\x60\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
static char long_note[WIRE_NOTE_MAX + 1];
#define NOTED(...)                                                                                 \
    { MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {note_header, 24}, __VA_ARGS__}, 5 }

static const struct message good_notes[] = {
    NOTED(TEXT("caf\xC3\xA9 \x1B[1m")),
    NOTED({long_note, WIRE_NOTE_MAX}),
    NOTED(NONE),
    {MODEL_REAL, {TEXT("{\"x\": [1, 2, 3], \"note\": \"caf\\u00e9 \\u001b[1m\"}")}, 1},
    {MODEL_WORDS,
     {TEXT("a"),
      WHOLES(ONE_BITS, WIRE_WORD, 3),
      NONE,
      {words_note_header, 24},
      TEXT("\1b"),
      TEXT("caf\xC3\xA9 \x1B[1m")},
     6},
};

static const struct bad bad_notes[] = {
    {NOTED({long_note, WIRE_NOTE_MAX + 1}), REJECT_FRAMES, "the note has 1001 bytes"},
    {NOTED(TEXT("\xFF")), REJECT_FRAMES, "the note must be UTF-8"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {note_header, 24}}, 4},
     REJECT_FRAMES,
     "the message has 4 frames, expected 5 according to its header"},
    {{MODEL_REAL, {TEXT("a"), REALS(1, 2, 3), NONE, {frozen_header, 24}, TEXT("note")}, 5},
     REJECT_FRAMES,
     "the message has 5 frames, expected 4 according to its header"},
    {{MODEL_REAL, {TEXT("{\"x\": [1, 2, 3], \"note\": 7}")}, 1}, REJECT_JSON, "expected a string"},
};

static void a_note_is_handed_on(void **state) {
    memset(long_note, 'n', sizeof long_note);
    for (size_t n = 0; n < COUNT(good_notes); n++) {
        struct example e;
        char why[REJECT_WHY_SIZE] = "";
        if (decode_message(*state, &good_notes[n], &e, why) != REJECT_NOT)
            fail_msg("note %zu: %s", n, why);
        size_t size = n == 1 ? WIRE_NOTE_MAX : n == 2 ? 0 : 10;
        assert_int_equal(e.note_size, size);
        assert_memory_equal(e.note, n == 1 ? long_note : "caf\xC3\xA9 \x1B[1m", size);
        assert_int_equal(e.steps, 1);
    }
    for (size_t n = 0; n < COUNT(bad_notes); n++)
        assert_rejected(*state, &bad_notes[n].message, n, bad_notes[n].reason,
                        bad_notes[n].sentence);
}

static void frame_limit_leaves_room_for_the_largest_example(void **state) {
    struct bench *bench = *state;
    size_t most = decoder_frame_max(bench->decoders[MODEL_REAL]);
    /* Python writes a float64 as up to 24 characters, then ", ", and "[" "], " around a step. */
    assert_true(most >= EXAMPLE_STEPS_MAX * ((3 + 2) * 26 + 2 * 4) + 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_messages_are_handed_on),
        cmocka_unit_test(bad_messages_are_rejected_with_a_reason),
        cmocka_unit_test(json_names_its_producer),
        cmocka_unit_test(bad_json_is_rejected_with_a_reason),
        cmocka_unit_test(json_and_binary_are_one_example),
        cmocka_unit_test(json_of_many_steps_is_bounded),
        cmocka_unit_test(no_number_is_overlooked_at_any_alignment),
        cmocka_unit_test(a_message_without_header_is_one_step),
        cmocka_unit_test(a_message_is_one_step),
        cmocka_unit_test(the_schema_names_the_longest_message),
        cmocka_unit_test(schemas_are_checked_and_no_examples),
        cmocka_unit_test(a_note_is_handed_on),
        cmocka_unit_test(frame_limit_leaves_room_for_the_largest_example),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
