/* Messages that are read and written, several outputs, and rankings: their results, their errors,
   and the same values when printed and read again. */
#include "config_testing.h"

#define READER "sequence: {layers: [{cell: gru, size: 7}]}"
#define SYMBOL(rest) "kind: symbol, size: 9, embedding: 5, " rest
#define WRITER "sequence: {layers: [{cell: lstm, size: 6}]}"
#define CANDIDATES "loss: ranking, size: 5, negatives: 6"

/* Four lines; input in line 3, layers in line 4, output in line 5. */
#define TEXT(input, layers, output)                                                                \
    "name: a\nmodel:\n  input: {" input "}\n  layers: [" layers "]\n  output: {" output "}\n"
#define MESSAGE(reader, output) TEXT(SYMBOL(reader), "", output)
#define VECTORS(output) TEXT("kind: real, size: 3", "{cell: gru, size: 4}", output)
#define LIST(outputs)                                                                              \
    "name: a\nmodel:\n  input: {" SYMBOL(READER) "}\n  layers: []\n  outputs: [" outputs "]\n"
#define BOTH(more)                                                                                 \
    LIST("{name: next, loss: softmax, size: 9, target: next, " WRITER                              \
         "}, {name: before, loss: softmax, size: 9, target: previous, weight: 0.5, " WRITER        \
         "}" more)

static void test_reader(void **state) {
    struct config c =
        good(MESSAGE("sequence: {layers: [{cell: gru, size: 7}, {cell: "
                     "dense, size: 6, activation: tanh, norm: rms}], pool: attention}",
                     "loss: softmax, size: 4"),
             NULL);
    const struct sequence *s = &c.architecture.input.sequence;
    char text[MODEL_SUMMARY_SIZE];
    assert_int_equal(c.architecture.layer_count, 0);
    assert_int_equal(s->layer_count, 2);
    assert_int_equal(s->layers[0].cell, CELL_gru);
    assert_int_equal(s->layers[1].activation, ACTIVATION_tanh);
    assert_int_equal(s->layers[1].norm, NORM_rms);
    assert_true(s->layers[1].gain == 1);
    assert_int_equal(s->pool, POOL_attention);
    assert_int_equal(s->attention, 6);
    assert_int_equal(s->longest, 256);
    model_summary(&c.architecture, text);
    assert_string_equal(
        text, "symbol 9 embedded in 5 > gru 7 norm > dense 6 tanh rms norm > attention of "
              "a message > softmax 4, given");
}

static void test_writer(void **state) {
    struct config c = good(MESSAGE(READER, "loss: softmax, size: 9, target: next, " WRITER),
                           "model.input.sequence.longest=20");
    assert_int_equal(c.architecture.output.sequence.layer_count, 1);
    assert_int_equal(c.architecture.output.sequence.layers[0].cell, CELL_lstm);
    assert_int_equal(c.architecture.output.sequence.longest, 20);
    c = good(
        VECTORS("loss: softmax, size: 4, sequence: {layers: [{cell: gru, size: 6}], embedding: "
                "3, longest: 30}"),
        NULL);
    assert_int_equal(c.architecture.output.sequence.embedding, 3);
    assert_int_equal(c.architecture.output.sequence.longest, 30);
    assert_int_equal(
        good(MESSAGE("vocabulary: {capacity: 8}, " READER, "loss: softmax, target: same, " WRITER),
             "model.input.size=")
            .architecture.output.size,
        9);
}

static void test_outputs(void **state) {
    struct config c = good(BOTH(", {name: y-1, loss: gaussian, size: 2}"), NULL);
    const struct architecture *a = &c.architecture;
    assert_int_equal(a->other_count, 2);
    assert_string_equal(a->output.name, "next");
    assert_int_equal(a->output.target, TARGET_NEXT);
    assert_true(a->output.weight == 1 && a->others[0].weight == 0.5);
    assert_string_equal(a->others[0].name, "before");
    assert_int_equal(a->others[0].target, TARGET_PREVIOUS);
    assert_int_equal(a->others[0].sequence.layer_count, 1);
    assert_int_equal(a->others[1].target, TARGET_GIVEN);
    assert_int_equal(a->others[1].size, 2);
    assert_int_equal(
        good(VECTORS("loss: squared, size: 3, target: same"), NULL).architecture.output.target,
        TARGET_SAME);
    assert_string_equal(
        good(LIST("{name: one, loss: softmax, size: 4}"), NULL).architecture.output.name, "one");
}

static void test_ranking(void **state) {
    struct config c =
        good(MESSAGE(READER, CANDIDATES ", score: order, objective: hinge, candidates: "
                                        "{kind: real, size: 4, layers: [{cell: dense, size: 8}]}"),
             NULL);
    const struct ranking *r = &c.architecture.output.ranking;
    assert_int_equal(r->score, RANKING_ORDER);
    assert_int_equal(r->objective, RANKING_HINGE);
    assert_true(r->margin == 0.05);
    assert_int_equal(r->negatives, 6);
    assert_int_equal(r->kind, INPUT_REAL);
    assert_int_equal(r->size, 4);
    assert_int_equal(r->layer_count, 1);
    c = good(TEXT("kind: symbol, size: 20", "{cell: gru, size: 7}", CANDIDATES ", target: next"),
             NULL);
    assert_int_equal(r->score, RANKING_DOT);
    assert_int_equal(r->objective, RANKING_SOFTMAX);
    assert_int_equal(r->kind, INPUT_SYMBOL);
    assert_int_equal(r->size, 20);
    char text[MODEL_SUMMARY_SIZE];
    c = good(BOTH(", {name: y, " CANDIDATES ", candidates: {kind: real, size: 4, layers: [{cell: "
                  "dense, size: 8}]}}"),
             NULL);
    model_summary(&c.architecture, text);
    assert_string_equal(text, "symbol 9 embedded in 5 > gru 7 norm > last of a message | next > "
                              "lstm 6 norm > softmax 9, next | before > lstm 6 norm > softmax 9, "
                              "previous | y > ranking 5 among 6 of (real 4 > dense 8 relu norm), "
                              "given");
    c = good(VECTORS(CANDIDATES ", score: cosine, candidates: {kind: real, size: 2}"), NULL);
    assert_true(r->temperature == 0.1);
}

/* An error after the name of the file, or of an override. */
static const struct {
    const char *text, *override, *sentence;
} wrong[] = {
#define ALONE "found with model.input.sequence; it is allowed only where an x is one vector"
#define READ(reader, place, sentence)                                                              \
    { MESSAGE(reader, "loss: softmax, size: 4"), NULL, place " model.input.sequence." sentence }
#define SET(set, sentence)                                                                         \
    { MESSAGE(READER, "loss: softmax, size: 4"), set, "--set " sentence }
#define KEYS "cell, size, ..."
    READ("sequence: {layers: [{cell: gru, siez: 7}]}", ":3:80:",
         "layers.0.siez: unknown key (did you mean \"model.input.sequence.layers.0.size\"?); "
         "expected in model.input.sequence.layers.0: " KEYS),
    READ("sequence: {layers: [{cell: gru}]}", ":3:68:",
         "layers.0.size: missing; expected a whole number from 1 to 65536 (units of the layer)"),
    READ("sequence: {layers: [{cell: gru, size: 4, norm: batch}]}",
         ":3:67:", "layers.0.norm: expected none, layer or rms, got batch"),
    READ("sequence: {layers: [{cell: mingru, size: 4, norm: rms}]}",
         ":3:67:", "layers.0.norm: expected layer or none with mingru, got rms"),
    READ("sequence: {layers: [{cell: gru, size: 4, radius: [0.5, 0.6]}]}",
         ":3:97:", "layers.0.radius: requires cell: rtu, got cell: gru"),
    READ("sequence: {layers: [{cell: dense, size: 4, residual: true}]}",
         ":3:67:", "layers.0.residual: expected as many inputs as units, got 5 and 4"),
    {TEXT("kind: real, size: 1000000, sequence: {layers: [{cell: gru, size: 7}], longest: 65536}",
          "", "loss: softmax, size: 4"),
     NULL, ":3:3: model: expected at most 2147483647 numbers in a message, got 65536000001"},
    {TEXT("kind: real, size: 3, sequence: {}", "{cell: gru, size: 4}", "loss: softmax, size: 2"),
     NULL, ":3:42: model.input.sequence.layers: missing; expected a list of 1 to 4 layers"},
    READ("sequence: {layers: []}", ":3:67:", "layers: expected a list of 1 to 4 layers, got 0"),
    {TEXT("kind: real, size: 3, sequence: {longest: 4}", "{cell: gru, size: 4}",
          "loss: squared, size: 2"),
     NULL, ":3:42: model.input.sequence.layers: missing; expected a list of 1 to 4 layers"},
    SET("model.input.sequence.pool=sum",
        "model.input.sequence.pool: expected last, mean, max or "
        "attention (method that makes one vector of a message), got \"sum\""),
    SET("model.input.sequence.attention=3",
        "model.input.sequence.attention: requires pool: attention, got pool: last"),
    {MESSAGE("hash: 0", "loss: softmax, size: 4"), NULL,
     ":4:11: model.layers: expected a list of 1 to 16 layers, or with model.input.sequence 0 to "
     "16, got 0"},
    SET("preset=symbols", "preset: " ALONE),
    {TEXT("columns: [{name: a}], " READER, "", "loss: softmax, size: 4"), NULL,
     ":3:20: model.input.columns: " ALONE},
    SET("model.input.time=[gap]", "model.input.time: " ALONE),
    SET("model.output.skip=true", "model.output.skip: " ALONE),
    SET("learning.rule=rtrl", "learning.rule: expected tbptt with model.input.sequence, got rtrl: "
                              "a message is read whole"),
    SET("device=cuda", "device: expected cpu with model.input.sequence, got cuda"),
    {VECTORS("loss: squared, size: 1") "statistics: {vectors: true}\n", "device=cuda:1",
     "--set device: expected cpu with statistics.vectors, got cuda:1"},
    SET("anomaly={enabled: true, shape: true}",
        "anomaly={enabled: true, shape: true}: anomaly.shape: " ALONE),
    {TEXT("kind: real, size: 2, scale: standard, " READER, "", "loss: softmax, size: 4"), NULL,
     ":3:39: model.input.scale: " ALONE},
    {TEXT("kind: real, size: 2, missing: hold, " READER, "", "loss: softmax, size: 4"), NULL,
     ":3:41: model.input.missing: " ALONE},
    {TEXT("kind: symbol, hash: 9, " READER, "", "loss: softmax, size: 4"), NULL,
     ":3:31: model.input.hash: " ALONE},
    SET("model.output.target=next",
        "model.output.target: found next with model.input.sequence; it is allowed only with "
        "model.output.sequence: an x is a message"),
/* Messages that are written. */
#define WRITTEN "found with model.output.sequence; it is allowed only where a target is one vector"
    {VECTORS("loss: mixture, components: 2, " WRITER), NULL,
     ":5:18: model.output.loss: expected squared, gaussian, softmax or bernoulli with sequence, "
     "got mixture"},
    {VECTORS("loss: squared, size: 3, target: next, " WRITER), NULL,
     ":5:44: model.output.target: found next with model.output.sequence; it is allowed only with "
     "model.input.sequence"},
    {VECTORS("loss: squared, size: 3, target: later, " WRITER), NULL,
     ":5:44: model.output.target: expected given, next, previous or same with "
     "model.output.sequence, got later"},
    {VECTORS("loss: squared, size: 3, relative: true, " WRITER), NULL,
     ":5:46: model.output.relative: " WRITTEN},
    {VECTORS("loss: squared, size: 3, scale: standard, " WRITER), NULL,
     ":5:43: model.output.scale: " WRITTEN},
    {VECTORS("loss: squared, size: 3, sequence: {layers: [{cell: gru, size: 2}], embedding: 4}"),
     NULL,
     ":5:90: model.output.sequence.embedding: found with loss: squared; it is allowed only with "
     "classes"},
    {MESSAGE(READER, "loss: softmax, size: 9, target: next, ahead: 2, " WRITER), NULL,
     ":5:57: model.output.ahead: " WRITTEN},
    {MESSAGE(READER, "loss: softmax, size: 8, target: next, " WRITER), NULL,
     ":5:33: model.output.size: expected model.input.size (9) with target: next, got 8"},
    {MESSAGE(READER, "loss: squared, size: 9, target: same, " WRITER), NULL,
     ":5:18: model.output.loss: expected softmax with target: same and symbol inputs, got squared"},
    /* Outputs. */
    {BOTH(""), "model.output.loss=softmax",
     "model.output: found beside model.outputs; remove one of them"},
    {BOTH(", {name: next, loss: softmax, size: 4}"), NULL,
     "model.outputs.2.name: duplicate name next (also outputs.0)"},
    {LIST("{name: a, loss: softmax, size: 4}, {name: b, loss: softmax, size: 4}"), NULL,
     "model.outputs.1.target: expected next, previous or same beside outputs.0, got given: a "
     "message has one y"},
    {LIST("{loss: softmax, size: 4}"), NULL,
     ":5:13: model.outputs.0.name: missing; expected a name of the output"},
    {LIST("{name: a, loss: softmax, size: 4}, {name: B, loss: softmax, size: 4}"), NULL,
     ":5:55: model.outputs.1.name: expected 1 to 16 of a-z, 0-9, '_' and '-' (name of an output of "
     "`model.outputs`), got \"B\""},
    {LIST("{name: a, loss: softmax, size: 4, ahead: 3}"), NULL,
     ":5:54: model.outputs.0.ahead: requires target: next, got target: given"},
    {BOTH(", {name: c, loss: squared, size: 2, skip: true}"), NULL, "model.outputs.2.skip: ..."},
    {LIST("{name: a, loss: squared, size: 4, readout: rls}"), NULL, "model.outputs.0.readout: ..."},
    {LIST("{name: a, loss: squared, size: 4, target: later}"), NULL,
     ":5:55: model.outputs.0.target: expected given, next, previous or same with model.outputs, "
     "got later"},
    {LIST("{name: a, loss: softmax, size: 4, sequence: {layers: [{cell: gru, size: 0}]}}"), NULL,
     "model.outputs.0.sequence.layers.0.size: expected a whole number from 1 to 65536 (units of "
     "the "
     "layer), got \"0\""},
    {LIST("{name: a, loss: softmax, size: 4, sequence: {layers: [{cell: gru, size: 1, z: 1}]}}"),
     NULL,
     "model.outputs.0.sequence.layers.0.z: unknown key; expected in "
     "model.outputs.0.sequence.layers.0: " KEYS},
    {VECTORS("name: a, loss: squared, size: 3"), NULL,
     ":5:18: model.output.name: found with a lone output; it is allowed only in "
     "model.outputs"},
    {LIST("{name: a, loss: softmax, vocabulary: {capacity: 4}}"), NULL,
     ":5:61: model.outputs.0.vocabulary.capacity: found with model.outputs; it is allowed only for "
     "a lone output"},
    {VECTORS("loss: softmax, vocabulary: {capacity: 4, forget: lru}, " WRITER), NULL,
     "model.output.vocabulary.capacity: " WRITTEN},
    {VECTORS("loss: squared, size: 3, target: same, relative: true"), NULL,
     ":5:60: model.output.relative: found with target: previous or same; it is allowed only with "
     "other targets"},
    /* Rankings. */
    {VECTORS(CANDIDATES ", target: same, candidates: {kind: real, size: 3}"), NULL,
     "model.output.target: expected given or next with loss: ranking, got same"},
    {VECTORS(CANDIDATES ", score: order, candidates: {kind: symbol, size: 3}"), NULL,
     "model.output.score: expected dot with candidates of symbols, got order"},
    {VECTORS(CANDIDATES ", candidates: {kind: real, size: 3, layers: [{cell: gru, size: 3}]}"),
     NULL,
     "model.output.candidates.layers.0.cell: expected dense or conv, got gru: a candidate has "
     "no past"},
    {VECTORS(CANDIDATES ", candidates: {kind: real, size: 3, layers: [{cell: dense, size: 3, taps: "
                        "2}]}"),
     NULL, "model.output.candidates.layers.0.taps: expected 1, got 2: a candidate has no past"},
    {VECTORS(CANDIDATES ", candidates: {kind: real, size: 3, shape: [1, 2, 2]}"), NULL,
     "model.output.candidates.shape: found [1, 2, 2], 4 numbers; model.output.candidates.size is "
     "3"},
    {VECTORS(CANDIDATES
             ", candidates: {kind: real, size: 4, shape: [1, 2, 2], layers: [{cell: conv, "
             "channels: 2, kernel: 3}]}"),
     NULL, "model.output.candidates.layers.0.kernel: expected at most 2 for 2 x 2, got 3"},
    {VECTORS("loss: squared, size: 3, " WRITER "}\nlearning: {rule: rtrl"), NULL,
     "learning.rule: expected tbptt with model.output.sequence, got rtrl"},
    {VECTORS(CANDIDATES), NULL,
     "model.output.candidates.kind: missing; expected real or symbol (kind of a target)"},
    {VECTORS(CANDIDATES ", target: next, candidates: {kind: real, size: 4}"), NULL,
     "model.output.candidates: expected the input's real 3 with target: next, got real 4"},
    {VECTORS("loss: ranking, size: 5, candidates: {kind: real, size: 3}"), NULL,
     "model.output.negatives: missing; expected a whole number from 1 to 4096 (last targets of "
     "all "
     "streams that a target is ranked among)"},
    {VECTORS("loss: squared, size: 3, negatives: 4"), NULL,
     ":5:47: model.output.negatives: requires loss: ranking, got loss: squared"},
};

static void test_errors(void **state) {
    for (size_t n = 0; n < COUNT(wrong); n++) {
        struct config config;
        struct error error = {0};
        const char *text = wrong[n].text, *sentence = wrong[n].sentence;
        if (load(&config, text, strlen(text), wrong[n].override, &error) == 0)
            fail_msg("accepted: %s%s", text, wrong[n].override ? wrong[n].override : "");
        char whole[ERROR_TEXT_SIZE];
        size_t size = strlen(sentence), dots = strlen("...");
        bool open = size >= dots && !strcmp(sentence + size - dots, "...");
        snprintf(whole, sizeof whole, "%.*s", (int)(open ? size - dots : size), sentence);
        const char *found = strstr(error.text, whole);
        if (!found || (!open && strlen(found) != strlen(whole)))
            fail_msg("\n%s\ninstead of\n%s", error.text, sentence);
    }
}

/* Each difference that affects learning is in the digest. */
static void test_digests(void **state) {
    static const char *const texts[] = {
        MESSAGE(READER, "loss: softmax, size: 4"),
        MESSAGE("sequence: {layers: [{cell: gru, size: 8}]}", "loss: softmax, size: 4"),
        MESSAGE("sequence: {layers: [{cell: gru, size: 7, gain: 2}]}", "loss: softmax, size: 4"),
        MESSAGE("sequence: {layers: [{cell: gru, size: 7}], pool: mean}", "loss: softmax, size: 4"),
        MESSAGE("sequence: {layers: [{cell: gru, size: 7}], pool: attention, attention: 3}",
                "loss: softmax, size: 4"),
        MESSAGE("sequence: {layers: [{cell: gru, size: 7}], pool: attention, attention: 4}",
                "loss: softmax, size: 4"),
        MESSAGE(READER, "loss: softmax, size: 4, " WRITER),
        MESSAGE(READER, "loss: softmax, size: 9, target: next, " WRITER),
        MESSAGE(READER, "loss: softmax, size: 9, target: same, " WRITER),
        BOTH(""),
        BOTH(", {name: c, loss: squared, size: 2}"),
        BOTH(", {name: d, loss: squared, size: 2}"),
        BOTH(", {name: c, loss: squared, size: 2, weight: 2}"),
        BOTH(", {name: c, " CANDIDATES ", candidates: {kind: real, size: 2}}"),
        BOTH(", {name: c, " CANDIDATES ", score: cosine, candidates: {kind: real, size: 2}}"),
        VECTORS(CANDIDATES ", candidates: {kind: real, size: 3}"),
        VECTORS(CANDIDATES ", objective: hinge, candidates: {kind: real, size: 3}"),
        VECTORS(CANDIDATES ", candidates: {kind: real, size: 3, layers: [{cell: dense, size: 2}]}"),
    };
    char seen[COUNT(texts)][CONFIG_DIGEST_SIZE];
    for (size_t n = 0; n < COUNT(texts); n++) {
        memcpy(seen[n], good(texts[n], NULL).compatible, CONFIG_DIGEST_SIZE);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[n], seen[m]);
    }
    assert_string_equal(good(texts[0], "model.input.sequence.pool=last").compatible, seen[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader),  cmocka_unit_test(test_writer),
        cmocka_unit_test(test_outputs), cmocka_unit_test(test_ranking),
        cmocka_unit_test(test_errors),  cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
