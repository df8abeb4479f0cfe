/* model.input.columns and model.output.columns: their results, their errors, and their models. */
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

/* Columns inherit missing keys from model.input. */
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

/* One symbol alone equals its short form, except the name of its tensor. */
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

/* Numbers alone need no parts. The preset forecasts real columns with names. */
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

/* Each variant is another network with another digest. */
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
    const char *override, *sentence;
} wrong[] = {
    {"model.input.columns=[]", "model.input.columns: expected a list of 1 to 256 columns, got 0"},
    {"model.input.columns=[{name: a, kind: reel}]",
     "model.input.columns.0.kind: expected real, symbol "
     "or cycle (kind of the column's values), got \"reel\" "
     "(did you mean \"real\"?)"},
    {"model.input.columns=[{name: a}, {name: a}]",
     "model.input.columns.1: duplicate name a (also column 0)"},
    {"model.input.columns=[{name: a b}]",
     "model.input.columns.0.name: expected 1 to 32 letters, digits, '-' and '_'"},
    {"model.input.columns=[{kind: symbol, size: 3}]",
     "model.input.columns.0: missing name of the column"},
    {"model.input.columns=[{name: h, kind: symbol}]",
     "model.input.columns.0: column h requires size with kind: symbol; expected a whole number "
     "from 1 to 1000000 (size of the alphabet)"},
    {"model.input.columns=[{name: h, kind: cycle}]",
     "model.input.columns.0: column h requires period with kind: cycle"},
    {"model.input.columns=[{name: h, embedding: 3}]",
     "model.input.columns.0: embedding is not supported with kind: real; it requires kind: symbol"},
    {"model.input.columns=[{name: h, kind: cycle, period: 3, mask: true}]",
     "model.input.columns.0: mask is not supported with kind: cycle; it requires kind: real"},
    {"model.input.columns=[{name: h, memory: 3}]",
     "model.input.columns.0: memory of column h requires scale: standard, got scale: none"},
    {"model.input.columns=[{name: h, colour: red}]",
     "model.input.columns.0: unknown key \"colour\"; expected name, kind, scale, "},
    {"model.input.columns=[{name: h, name: i}]", "model.input.columns.0.name: duplicate key"},
    {"model.input.columns=[{name: a, kind: symbol, size: 1000000}, {name: b}]",
     "model.input.columns: expected columns of at most 1000000 inputs together, got 1000001; use "
     "an embedding for symbols"},
    {"model.input.kind=real", "model.input.kind: cannot be combined with model.input.columns, "
                              "which defines the inputs; remove this key"},
    {"model.input.size=5", "model.input.size: cannot be combined with model.input.columns"},
    {"model.output.columns=[host]", "model.output.columns: the symbol host is not supported with "
                                    "loss: squared, which predicts numbers, not symbols"},
    {"model.output.columns=[load, load]", "model.output.columns: duplicate column load"},
    {"model.output.columns=[wind]",
     "model.output.columns: unknown column wind (not in model.input.columns)"},
    {"model.output.columns=[[a]]", "model.output.columns: expected a column name, got a list"},
    {"model.output.loss=softmax",
     "model.output.columns: missing; loss: softmax requires the name of the one symbol to predict"},
    {"model.output={loss: softmax, target: next, columns: [load]}",
     "model.output.columns: the real load is not supported with loss: softmax, which predicts one "
     "symbol"},
    {"model.output={loss: bernoulli, target: next}",
     "model.output.columns: column load must have scale: none with loss: bernoulli"},
    {"model.output={loss: mixture, components: 2, target: next, columns: [oil-temp]}",
     "model.output.columns: expected 3 columns with loss: mixture, got 1"},
    {"model.output={loss: squared, size: 3, target: next}",
     "model.output.size: expected 2 with target: next and these columns, got 3; remove this key"},
    {"model.output={loss: squared, size: 3, target: given, columns: [load]}",
     "model.output.size: expected 1, the number of names in model.output.columns, got 3; remove "
     "this key"},
    {"model.output={loss: squared, target: later, patience: 3, columns: [load, load]}",
     "model.output.columns: duplicate name load"},
    {"model.output={loss: softmax, size: 3, target: given, columns: [load, state]}",
     "model.output.columns: expected 1 names with loss: softmax, got 2"},
    {"model.input={scale: forecast, columns: [{name: a}, {name: b, kind: cycle, period: 3}]}",
     "model.input.columns.1: the cycle b is not supported with scale: forecast, which requires "
     "real columns"},
    {"model.input={scale: forecast, columns: [{name: a, mask: true}]}",
     "model.input.columns.0: mask of column a is not supported with scale: forecast, which scales "
     "every column itself; remove it"},
};

static void test_wrong(void **state) {
    static const char text[] = INPUT(MIXED, "loss: squared");
    for (size_t n = 0; n < COUNT(wrong); n++) {
        struct config config;
        struct error error = {0};
        int status = load(&config, text, strlen(text), wrong[n].override, &error);
        if (!wrong[n].sentence && status == 0)
            fail_msg("accepted: %s", wrong[n].override);
        if (wrong[n].sentence && !strstr(error.text, wrong[n].sentence))
            fail_msg("%s\n  got      %s\n  expected %s", wrong[n].override, error.text,
                     wrong[n].sentence);
    }
    struct error error = {0};
    struct config config;
    static const char plain[] = BASE;
    assert_int_equal(load(&config, plain, strlen(plain),
                          "model.output={loss: squared, size: 2, target: next, columns: [a]}",
                          &error),
                     -1);
    assert_non_null(strstr(error.text, "model.output.columns: requires model.input.columns"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),      cmocka_unit_test(test_inherited),
        cmocka_unit_test(test_one_symbol), cmocka_unit_test(test_numbers_alone),
        cmocka_unit_test(test_digests),    cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
