/* model.input.columns and model.output.columns: what they become, what is refused, and what their
   model looks like. */
#include "config_testing.h"

#define INPUT(input, output)                                                                       \
    "name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {" input "}\n  output: {" output  \
    ", target: next}\n"
#define MIXED                                                                                      \
    "columns: [{name: load, scale: standard, missing: hold, mask: true}, {name: host, kind: "      \
    "symbol, size: 6, embedding: 3}, {name: hour, kind: cycle, period: 24, harmonics: 2}, {name: " \
    "state, kind: symbol, size: 4}, {name: oil-temp}]"

static void test_mixed(void **state) {
    struct config c = good(INPUT(MIXED, "loss: squared"), NULL);
    const struct input *input = &c.architecture.input;
    const struct output *output = &c.architecture.output;
    static struct model model;
    char text[MODEL_SUMMARY_SIZE], columns[COLUMNS_TEXT_SIZE];
    assert_int_equal(input->kind, INPUT_REAL);
    assert_int_equal(input->size, 5);
    assert_int_equal(input->column_count, 5);
    assert_true(input->scale == SCALE_STANDARD && input->hold);
    assert_true(input->columns[0].standard && input->columns[0].hold && input->columns[0].mask);
    assert_false(input->columns[4].standard || input->columns[4].hold);
    assert_int_equal(output->size, 2);
    assert_int_equal(output->columns[0], 0);
    assert_int_equal(output->columns[1], 4);

    model_build(&model, &c.architecture);
    assert_int_equal(model.x_size, 5);
    assert_int_equal(model.features, 2 + 1 + 4 + 1 + 1);
    assert_int_equal(model.input_width[0], 2 + 3 + 4 + 4 + 1);
    assert_int_equal(model.part_count, 5);
    assert_string_equal(model.tensors[model.parts[1].tensor].name, "embedding.host.weight");
    const struct input_part parts[] = {{0, 0, 2, 0, MODEL_NO_TENSOR},
                                       {2, 2, 3, 6, model.parts[1].tensor},
                                       {3, 5, 4, 0, MODEL_NO_TENSOR},
                                       {7, 9, 4, 4, MODEL_NO_TENSOR},
                                       {8, 13, 1, 0, MODEL_NO_TENSOR}};
    assert_memory_equal(model.parts, parts, sizeof parts);
    model_summary(&c.architecture, text);
    assert_string_equal(text, "5 columns (2 real, 2 symbol, 1 cycle) (standard) > gru 4 norm > "
                              "squared 2 of 2 columns, next");
    assert_string_equal(columns_text(input->columns, 5, columns),
                        "load float32, host uint32, hour float32, state uint32, oil-temp float32");
}

/* Columns have from model.input what they do not say themselves. */
static void test_inherited(void **state) {
    struct config c = good(INPUT("scale: standard, memory: 100, limit: 9, missing: hold, columns: "
                                 "[{name: a}, {name: b, scale: none, missing: reject}, {name: c, "
                                 "memory: 7}]",
                                 "loss: gaussian, columns: [c, a]"),
                           NULL);
    const struct column *columns = c.architecture.input.columns;
    assert_true(columns[0].standard && columns[0].memory == 100 && columns[0].limit == 9);
    assert_true(columns[0].hold && !columns[1].hold && !columns[1].standard);
    assert_true(columns[2].memory == 7 && columns[2].limit == 9);
    assert_int_equal(c.architecture.output.columns[0], 2);
    assert_int_equal(c.architecture.output.columns[1], 0);
}

/* One symbol alone is what its short form is, but for its tensor's name. */
static void test_one_symbol(void **state) {
    static struct model model;
    struct config c = good(
        INPUT("columns: [{name: w, kind: symbol, size: 9, embedding: 4}]", "loss: softmax"), NULL);
    assert_int_equal(c.architecture.input.kind, INPUT_SYMBOL);
    assert_int_equal(c.architecture.output.size, 9);
    model_build(&model, &c.architecture);
    assert_true(model.part_count == 0 && model.features == 1 && model.input_width[0] == 4);
    assert_string_equal(model.tensors[0].name, "embedding.w.weight");
}

/* Numbers alone need no parts; the preset forecasts real columns that have names. */
static void test_numbers_alone(void **state) {
    static struct model model;
    struct config c = good(INPUT("columns: [{name: a, mask: true, missing: hold}, {name: b, kind: "
                                 "cycle, period: 7}]",
                                 "loss: squared, columns: [b]"),
                           NULL);
    model_build(&model, &c.architecture);
    assert_true(model.part_count == 0 && model.features == 4 && model.input_width[0] == 4);
    c = good("name: a\npreset: forecast\nmodel: {input: {columns: [{name: a}, {name: b}]}}\n",
             NULL);
    assert_true(c.architecture.input.scale == SCALE_FORECAST && c.architecture.input.size == 2);
    assert_true(c.architecture.output.size == 2 && c.architecture.output.column_count == 0);
}

/* Each is another network; the digest says so. */
static void test_digests(void **state) {
    static const char *const others[] = {
        "model.input.columns=[{name: a}, {name: c}]",
        "model.input.columns=[{name: b}, {name: a}]",
        "model.input.columns=[{name: a}, {name: b, mask: true}]",
        "model.input.columns=[{name: a}, {name: b, missing: hold}]",
        "model.input.columns=[{name: a}, {name: b, scale: standard}]",
        "model.input.columns=[{name: a}, {name: b, scale: standard, memory: 9}]",
        "model.input.columns=[{name: a}, {name: b, scale: standard, limit: 9}]",
        "model.input.columns=[{name: a}, {name: b, kind: cycle, period: 3}]",
        "model.input.columns=[{name: a}, {name: b, kind: cycle, period: 3, harmonics: 2}]",
        "model.input.columns=[{name: a}, {name: b, kind: symbol, size: 3}]",
        "model.input.columns=[{name: a}, {name: b, kind: symbol, size: 3, embedding: 1}]",
        "model.output.columns=[b, a]",
        "model.output.columns=[a]",
    };
    static const char text[] = INPUT("columns: [{name: a}, {name: b}]", "loss: squared");
    char seen[COUNT(others)][CONFIG_DIGEST_SIZE];
    struct config c = good(text, NULL), same = good(text, "model.output.columns=[a, b]");
    assert_string_equal(c.compatible, same.compatible);
    for (size_t n = 0; n < COUNT(others); n++) {
        same = good(text, others[n]);
        memcpy(seen[n], same.compatible, CONFIG_DIGEST_SIZE);
        assert_string_not_equal(seen[n], c.compatible);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[n], seen[m]);
    }
}

static const struct {
    const char *override, *says;
} wrong[] = {
    {"model.input.columns=[]",
     "model.input.columns: found a list of 0; allowed is a list of 1 to 256 columns"},
    {"model.input.columns=[{name: a, kind: reel}]",
     "model.input.columns.0.kind: found \"reel\" (did you mean \"real\"?); allowed is real, symbol "
     "or cycle (what its values are)"},
    {"model.input.columns=[{name: a}, {name: a}]",
     "model.input.columns.1: found the name a, which column 0 has too; allowed is another one"},
    {"model.input.columns=[{name: a b}]",
     "model.input.columns.0.name: found \"a b\"; allowed are 1 "
     "to 32 letters, digits, '-' and '_'"},
    {"model.input.columns=[{kind: symbol, size: 3}]",
     "model.input.columns.0: found a column without a name"},
    {"model.input.columns=[{name: h, kind: symbol}]",
     "model.input.columns.0: found the column h without size; kind: symbol needs it: a whole "
     "number "
     "from 1 to 1000000 (size of the alphabet)"},
    {"model.input.columns=[{name: h, kind: cycle}]",
     "model.input.columns.0: found the column h without period; kind: cycle needs it"},
    {"model.input.columns=[{name: h, embedding: 3}]",
     "model.input.columns.0: found embedding with kind: real; it is allowed only with kind: "
     "symbol"},
    {"model.input.columns=[{name: h, kind: cycle, period: 3, mask: true}]",
     "model.input.columns.0: found mask with kind: cycle; it is allowed only with kind: real"},
    {"model.input.columns=[{name: h, memory: 3}]",
     "model.input.columns.0: found memory of the column h with scale: none; it is allowed only "
     "with "
     "scale: standard"},
    {"model.input.columns=[{name: h, colour: red}]",
     "model.input.columns.0: found the key \"colour\"; allowed of a column are name, kind, "
     "scale, "},
    {"model.input.columns=[{name: h, name: i}]", "model.input.columns.0.name: found twice"},
    {"model.input.columns=[{name: a, kind: symbol, size: 1000000}, {name: b}]",
     "model.input.columns: found columns that make 1000001 inputs; allowed are at most 1000000: "
     "give symbols an embedding"},
    {"model.input.kind=real", "model.input.kind: found beside model.input.columns, which says what "
                              "an input is; leave it out"},
    {"model.input.size=5", "model.input.size: found beside model.input.columns"},
    {"model.output.columns=[host]", "model.output.columns: found the symbol host with loss: "
                                    "squared, which predicts numbers, not symbols"},
    {"model.output.columns=[load, load]", "model.output.columns: found load twice"},
    {"model.output.columns=[wind]", "model.output.columns: found wind, which no column of "
                                    "model.input.columns is called"},
    {"model.output.columns=[[a]]", "model.output.columns: found a list; allowed is the name of a "
                                   "column"},
    {"model.output.loss=softmax", "model.output.columns: missing; needed with loss: softmax is the "
                                  "one symbol that is predicted"},
    {"model.output={loss: softmax, target: next, columns: [load]}",
     "model.output.columns: found the real load with loss: softmax, which predicts one symbol"},
    {"model.output={loss: bernoulli, target: next}",
     "model.output.columns: found load, which is scaled; allowed with loss: bernoulli is scale: "
     "none"},
    {"model.output={loss: mixture, components: 2, target: next, columns: [oil-temp]}",
     "model.output.columns: found 1 columns; allowed with loss: mixture is 3"},
    {"model.output={loss: squared, size: 3, target: next}",
     "model.output.size: found 3; with target: next and columns it is 2: leave it out"},
    {"model.output={loss: squared, size: 3, target: given, columns: [load]}",
     "model.output.size: found 3 beside 1 names in model.output.columns: leave it out"},
    {"model.output={loss: squared, target: later, patience: 3, columns: [load, load]}",
     "model.output.columns: found load twice; once is allowed"},
    {"model.output={loss: softmax, size: 3, target: given, columns: [load, state]}",
     "model.output.columns: found 2 names; allowed with loss: softmax is 1"},
    {"model.input={scale: forecast, columns: [{name: a}, {name: b, kind: cycle, period: 3}]}",
     "model.input.columns.1: found the cycle b; allowed with scale: forecast are real columns "
     "alone"},
    {"model.input={scale: forecast, columns: [{name: a, mask: true}]}",
     "model.input.columns.0: found mask of the column a; with scale: forecast every column is in "
     "units of its own: leave it out"},
};

static void test_wrong(void **state) {
    static const char text[] = INPUT(MIXED, "loss: squared");
    for (size_t n = 0; n < COUNT(wrong); n++) {
        struct config config;
        struct error error = {0};
        int status = load(&config, text, strlen(text), wrong[n].override, &error);
        if (!wrong[n].says && status == 0)
            fail_msg("accepted: %s", wrong[n].override);
        if (wrong[n].says && !strstr(error.text, wrong[n].says))
            fail_msg("%s\n  says   %s\n  wanted %s", wrong[n].override, error.text, wrong[n].says);
    }
    struct error error = {0};
    struct config config;
    static const char plain[] = BASE;
    assert_int_equal(load(&config, plain, strlen(plain),
                          "model.output={loss: squared, size: 2, target: next, columns: [a]}",
                          &error),
                     -1);
    assert_non_null(strstr(error.text, "model.output.columns: found without model.input.columns"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),      cmocka_unit_test(test_inherited),
        cmocka_unit_test(test_one_symbol), cmocka_unit_test(test_numbers_alone),
        cmocka_unit_test(test_digests),    cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
