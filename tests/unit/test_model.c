/* The table of tensors against the documented names and shapes, and the starting values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "engine/engine.h"
#include "model/model.h"
#include "model/parameters.h"
#include "optimizers.h"

enum { INPUTS = 5, SIZE = 6, TARGETS = 3, SEED = 7 };

static struct architecture architecture_of(enum cell cell, bool norm) {
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers = {{.cell = cell, .size = SIZE, .norm = norm, .gain = 1.0F}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = TARGETS},
    };
    return architecture;
}

struct expected {
    const char *name;
    size_t rows, columns;
};

static void assert_table(const struct architecture *architecture, const struct expected *expected,
                         size_t count) {
    struct model model;
    model_build(&model, architecture);
    assert_int_equal(model.tensor_count, count);
    size_t offset = 0;
    for (size_t n = 0; n < count; n++) {
        const struct tensor *tensor = &model.tensors[n];
        assert_string_equal(tensor->name, expected[n].name);
        assert_int_equal(tensor->rows, expected[n].rows);
        assert_int_equal(tensor->columns, expected[n].columns);
        assert_int_equal(tensor->offset, offset);
        assert_ptr_equal(model_named(&model, expected[n].name), tensor);
        assert_ptr_equal(model_find(&model, tensor->role, tensor->layer), tensor);
        offset += expected[n].rows * (expected[n].columns ? expected[n].columns : 1);
    }
    assert_int_equal(model.parameters, offset);
    assert_null(model_named(&model, "layers.0.weight_xx"));
}

#define ASSERT_LAYER(cell, norm, ...)                                                              \
    do {                                                                                           \
        struct architecture architecture_ = architecture_of(cell, norm);                           \
        const struct expected expected_[] = {                                                      \
            __VA_ARGS__, {"output.weight", TARGETS, SIZE}, {"output.bias", TARGETS, 0}};           \
        assert_table(&architecture_, expected_, sizeof expected_ / sizeof *expected_);             \
    } while (0)

static void tensors_are_the_contracts(void **state) {
    ASSERT_LAYER(CELL_dense, true, {"layers.0.weight", 6, 5}, {"layers.0.bias", 6, 0},
                 {"layers.0.norm.gain", 6, 0}, {"layers.0.norm.bias", 6, 0});
    ASSERT_LAYER(CELL_dense, false, {"layers.0.weight", 6, 5}, {"layers.0.bias", 6, 0});
    ASSERT_LAYER(CELL_rnn, true, {"layers.0.weight_ih", 6, 5}, {"layers.0.weight_hh", 6, 6},
                 {"layers.0.bias_ih", 6, 0}, {"layers.0.norm.gain", 6, 0},
                 {"layers.0.norm.bias", 6, 0});
    ASSERT_LAYER(CELL_rnn, false, {"layers.0.weight_ih", 6, 5}, {"layers.0.weight_hh", 6, 6},
                 {"layers.0.bias_ih", 6, 0}, {"layers.0.bias_hh", 6, 0});
    ASSERT_LAYER(CELL_gru, true, {"layers.0.weight_ih", 18, 5}, {"layers.0.weight_hh", 18, 6},
                 {"layers.0.bias_ih", 18, 0}, {"layers.0.norm_ih.gain", 18, 0},
                 {"layers.0.norm_ih.bias", 18, 0}, {"layers.0.norm_hh.gain", 18, 0},
                 {"layers.0.norm_hh.bias", 18, 0});
    ASSERT_LAYER(CELL_gru, false, {"layers.0.weight_ih", 18, 5}, {"layers.0.weight_hh", 18, 6},
                 {"layers.0.bias_ih", 18, 0}, {"layers.0.bias_hh", 18, 0});
    ASSERT_LAYER(CELL_lstm, true, {"layers.0.weight_ih", 24, 5}, {"layers.0.weight_hh", 24, 6},
                 {"layers.0.bias_ih", 24, 0}, {"layers.0.norm_ih.gain", 24, 0},
                 {"layers.0.norm_ih.bias", 24, 0}, {"layers.0.norm_hh.gain", 24, 0},
                 {"layers.0.norm_hh.bias", 24, 0}, {"layers.0.norm_c.gain", 6, 0},
                 {"layers.0.norm_c.bias", 6, 0});
    ASSERT_LAYER(CELL_lstm, false, {"layers.0.weight_ih", 24, 5}, {"layers.0.weight_hh", 24, 6},
                 {"layers.0.bias_ih", 24, 0}, {"layers.0.bias_hh", 24, 0});
}

static void tensors_of_columns(void **state) {
    struct architecture lone = architecture_of(CELL_rtu, true);
    const struct expected rtu[] = {{"layers.0.weight_ih", 12, 5},  {"layers.0.bias_ih", 12, 0},
                                   {"layers.0.log_decay", 6, 0},   {"layers.0.log_phase", 6, 0},
                                   {"layers.0.norm.gain", 12, 0},  {"layers.0.norm.bias", 12, 0},
                                   {"output.weight", TARGETS, 12}, {"output.bias", TARGETS, 0}};
    assert_table(&lone, rtu, sizeof rtu / sizeof *rtu);
    lone = architecture_of(CELL_gru, true);
    lone.layers[0].diagonal = true;
    const struct expected gru[] = {{"layers.0.weight_ih", 18, 5}, {"layers.0.weight_hh", 18, 0},
                                   {"layers.0.bias_ih", 18, 0},   {"layers.0.bias_hh", 18, 0},
                                   {"layers.0.norm.gain", 6, 0},  {"layers.0.norm.bias", 6, 0},
                                   {"output.weight", TARGETS, 6}, {"output.bias", TARGETS, 0}};
    assert_table(&lone, gru, sizeof gru / sizeof *gru);
    ASSERT_LAYER(CELL_mingru, false, {"layers.0.weight_ih", 12, 5}, {"layers.0.bias_ih", 12, 0});
}

static void tensors_of_grids(void **state) {
    const struct architecture grids = {
        .input = {.kind = INPUT_REAL, .size = 60, .shape = {2, 5, 6}},
        .layers =
            {{.cell = CELL_conv, .norm = NORM_batch, .shape.channels = 4, .kernel = 3, .stride = 2},
             {.cell = CELL_dense, .size = 3}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    const struct expected table[] = {
        {"layers.0.weight", 4, 18},
        {"layers.0.bias", 4, 0},
        {"layers.0.norm.gain", 4, 0},
        {"layers.0.norm.bias", 4, 0},
        {"layers.1.weight", 3, 16},
        {"layers.1.bias", 3, 0},
        {"output.weight", 1, 3},
        {"output.bias", 1, 0},
        {"layers.0.norm.running_mean", 4, 0},
        {"layers.0.norm.running_var", 4, 0},
    };
    struct safetensors_entry entries[MODEL_TENSORS_MAX];
    struct model model;
    assert_table(&grids, table, sizeof table / sizeof *table);
    model_build(&model, &grids);
    parameters_entries(&model, entries);
    const uint64_t shape[] = {4, 2, 3, 3};
    assert_int_equal(entries[0].rank, 4);
    assert_memory_equal(entries[0].shape, shape, sizeof shape);
    assert_int_equal(entries[1].rank, 1);
}

static void layers_follow_one_another(void **state) {
    struct architecture architecture = {
        .input = {.kind = INPUT_SYMBOL, .size = 10, .embedding = 4},
        .layers = {{.cell = CELL_dense, .size = 3},
                   {.cell = CELL_lstm, .size = 2},
                   {.cell = CELL_gru, .size = 5},
                   {.cell = CELL_rnn, .size = 7}},
        .layer_count = 4,
        .output = {.loss = LOSS_mixture, .size = 3, .components = 2},
    };
    const struct expected expected[] = {
        {"embedding.weight", 10, 4},  {"layers.0.weight", 3, 4},     {"layers.0.bias", 3, 0},
        {"layers.1.weight_ih", 8, 3}, {"layers.1.weight_hh", 8, 2},  {"layers.1.bias_ih", 8, 0},
        {"layers.1.bias_hh", 8, 0},   {"layers.2.weight_ih", 15, 2}, {"layers.2.weight_hh", 15, 5},
        {"layers.2.bias_ih", 15, 0},  {"layers.2.bias_hh", 15, 0},   {"layers.3.weight_ih", 7, 5},
        {"layers.3.weight_hh", 7, 7}, {"layers.3.bias_ih", 7, 0},    {"layers.3.bias_hh", 7, 0},
        {"output.weight", 13, 7},     {"output.bias", 13, 0},
    };
    assert_table(&architecture, expected, sizeof expected / sizeof *expected);

    struct model model;
    model_build(&model, &architecture);
    const size_t widths[] = {4, 3, 2, 5}, offsets[] = {0, 0, 4, 9};
    for (size_t n = 0; n < 4; n++) {
        assert_int_equal(model.input_width[n], widths[n]);
        assert_int_equal(model.state_offset[n], offsets[n]);
    }
    assert_int_equal(model.state_size, 2 * 2 + 5 + 7);
    assert_int_equal(model.outputs, 13);
    assert_int_equal(model.target_size, 3);

    architecture.input.embedding = 0;
    model_build(&model, &architecture);
    assert_null(model_find(&model, TENSOR_EMBEDDING, 0));
    assert_int_equal(model.input_width[0], 10);
}

static void sixteen_layers_fit(void **state) {
    struct architecture architecture = {.input = {.kind = INPUT_SYMBOL, .size = 3, .embedding = 2},
                                        .layer_count = MODEL_LAYERS_MAX,
                                        .output = {.loss = LOSS_softmax, .size = 3}};
    for (size_t n = 0; n < MODEL_LAYERS_MAX; n++)
        architecture.layers[n] = (struct layer){.cell = CELL_lstm, .size = 2, .norm = NORM_layer};
    struct model model;
    model_build(&model, &architecture);
    assert_int_equal(model.tensor_count, 1 + 9 * MODEL_LAYERS_MAX + 2);
    assert_non_null(model_named(&model, "layers.15.norm_c.bias"));
}

static void outputs_follow_the_loss(void **state) {
    const struct {
        enum loss loss;
        size_t outputs, target_size;
    } cases[] = {{LOSS_squared, 3, 3},
                 {LOSS_gaussian, 6, 3},
                 {LOSS_softmax, 3, 1},
                 {LOSS_bernoulli, 3, 3},
                 {LOSS_mixture, 121, 3}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct architecture architecture = architecture_of(CELL_gru, true);
        architecture.output =
            (struct output){.loss = cases[n].loss, .size = TARGETS, .components = 20};
        struct model model;
        model_build(&model, &architecture);
        assert_int_equal(model.outputs, cases[n].outputs);
        assert_int_equal(model.target_size, cases[n].target_size);
        /* state and output; per position the state before, x, y and the mark */
        assert_int_equal(slot_record_size(&model, 4),
                         SIZE + cases[n].outputs + 5 * (SIZE + INPUTS + cases[n].target_size + 1));
    }
}

static void optimizers_keep_what_they_need(void **state) {
    assert_int_equal(optimizer_moments(&(struct optimizer){.kind = OPTIMIZER_sgd}), 0);
    assert_int_equal(optimizer_moments(&(struct optimizer){.kind = OPTIMIZER_sgd, .momentum = 0.9}),
                     1);
    assert_int_equal(optimizer_moments(&(struct optimizer){.kind = OPTIMIZER_rmsprop}), 1);
    for (enum optimizer_id id = OPTIMIZER_adam; id <= OPTIMIZER_adamw; id++) {
        struct optimizer o = {.kind = id};
        assert_int_equal(optimizer_moments(&o), 1);
        assert_true(optimizer_start(&o) == SIZE_MAX);
        o.pull = 0.03;
        assert_int_equal(optimizer_moments(&o), 2);
        assert_int_equal(optimizer_start(&o), 1);
        o.beta1 = 0.9;
        assert_int_equal(optimizer_moments(&o), 3);
        assert_int_equal(optimizer_start(&o), 2);
    }
    assert_int_equal(optimizer_moments(&(struct optimizer){.kind = OPTIMIZER_cocob}), 5);
}

/* Algorithm 2 of the paper, computed with Python in double, with starting value 0.5. */
static void cocob_is_algorithm_2(void **state) {
    enum { UPDATES = 8 };
    static const float gradients[UPDATES] = {0, 0.3F, -0.1F, 0.25F, 0.4F, 0.4F, -0.8F, 0.1F};
    static const double weights[UPDATES] = {0.5,          0.49,           0.493333333333,
                                            0.4849166667, 0.4783409375,   0.467471591797,
                                            0.494375,     0.4931201660156};
    static const double last[MOMENTS_MAX] = {0.5, 0.8, -0.55, 2.35, 0.0005625};
    const struct optimizer optimizer = {.kind = OPTIMIZER_cocob, .rate = RATE_AUTO, .alpha = 100};
    float weight = 0.5F, kept[MOMENTS_MAX] = {0}, *moments[MOMENTS_MAX];
    for (size_t n = 0; n < MOMENTS_MAX; n++)
        moments[n] = &kept[n];
    for (size_t t = 0; t < UPDATES; t++) {
        struct cocob_numbers numbers = cocob_prepare(&optimizer, RATE_AUTO, (double)t + 1);
        weight = cocob_step(&numbers, MOMENTS_MAX, weight, gradients[t], moments);
        assert_true(fabs((double)weight - weights[t]) < 2e-7);
    }
    for (size_t n = 0; n < MOMENTS_MAX; n++)
        assert_true(fabs((double)kept[n] - last[n]) < 1e-6);
}

static float *initialized(const struct model *model, const char *name, uint64_t seed) {
    const struct tensor *tensor = model_named(model, name);
    assert_non_null(tensor);
    float *values = malloc(tensor_size(tensor) * sizeof *values);
    struct error error;
    assert_int_equal(model_initialize(model, tensor, seed, values, &error), 0);
    return values;
}

static void recurrent_weights_are_orthogonal_per_gate(void **state) {
    enum { WIDE = 37, GATES = 4 };
    struct architecture architecture = architecture_of(CELL_lstm, true);
    architecture.layers[0].size = WIDE;
    struct model model;
    model_build(&model, &architecture);
    float *values = initialized(&model, "layers.0.weight_hh", SEED);
    for (size_t gate = 0; gate < GATES; gate++) {
        const float *q = values + gate * WIDE * WIDE;
        for (size_t a = 0; a < WIDE; a++)
            for (size_t b = 0; b < WIDE; b++) {
                double product = 0.0;
                for (size_t k = 0; k < WIDE; k++)
                    product += (double)q[a * WIDE + k] * (double)q[b * WIDE + k];
                assert_true(fabs(product - (a == b)) < 1e-6);
            }
    }
    /* Each gate has its own matrix. */
    assert_memory_not_equal(values, values + WIDE * WIDE, WIDE * WIDE * sizeof *values);
    free(values);
}

/* Values lie within +-bound, use most of that range, and have a mean near zero. */
static void assert_uniform(const struct model *model, const char *name, double bound) {
    const struct tensor *tensor = model_named(model, name);
    size_t count = tensor_size(tensor);
    float *values = initialized(model, name, SEED);
    double smallest = 1e9, largest = -1e9, sum = 0.0, squares = 0.0;
    for (size_t k = 0; k < count; k++) {
        double value = (double)values[k];
        smallest = fmin(smallest, value);
        largest = fmax(largest, value);
        sum += value;
        squares += value * value;
    }
    assert_true(largest <= bound * (1 + 1e-6) && smallest >= -bound * (1 + 1e-6));
    assert_true(largest > 0.9 * bound && smallest < -0.9 * bound);
    assert_true(fabs(sum / (double)count) < 0.2 * bound);
    assert_true(fabs(squares / (double)count / (bound * bound / 3) - 1.0) < 0.3);
    free(values);
}

static void starting_values_have_their_ranges(void **state) {
    struct architecture architecture = {
        .input = {.kind = INPUT_SYMBOL, .size = 50, .embedding = 9},
        .layers = {{.cell = CELL_dense, .size = 64, .gain = 1.0F},
                   {.cell = CELL_lstm, .size = 100, .norm = NORM_layer, .gain = 1.0F},
                   {.cell = CELL_dense, .size = 144, .norm = NORM_layer, .gain = 1.0F},
                   {.cell = CELL_gru, .size = 81, .gain = 1.0F}},
        .layer_count = 4,
        .output = {.loss = LOSS_squared, .size = 90},
    };
    struct model model;
    model_build(&model, &architecture);
    assert_uniform(&model, "embedding.weight", 1.0 / 3.0);
    assert_uniform(&model, "layers.0.weight", 1.0 / 3.0);
    assert_uniform(&model, "layers.0.bias", 1.0 / 3.0);
    assert_uniform(&model, "layers.1.weight_ih", 1.0 / 8.0);
    assert_uniform(&model, "layers.1.bias_ih", 1.0 / 10.0);
    assert_uniform(&model, "layers.2.weight", 1.0 / 10.0);
    assert_uniform(&model, "layers.2.bias", 1.0 / 12.0);
    assert_uniform(&model, "layers.3.weight_ih", 1.0 / 12.0);
    assert_uniform(&model, "layers.3.bias_ih", 1.0 / 9.0);
    assert_uniform(&model, "layers.3.bias_hh", 1.0 / 9.0);
    assert_uniform(&model, "output.weight", 1.0 / 9.0);
    assert_uniform(&model, "output.bias", 1.0 / 9.0);
}

static void columns_start_with_their_memory(void **state) {
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 9},
        .layers = {{.cell = CELL_rtu, .size = 200, .radius = {2, {0.5, 0.9}}},
                   {.cell = CELL_gru, .size = 100, .diagonal = true, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 200, .diagonal = true, .memory = 50},
                   {.cell = CELL_mingru, .size = 200, .memory = 50}},
        .layer_count = 4,
        .output = {.loss = LOSS_squared, .size = 2},
    };
    struct model model;
    model_build(&model, &architecture);
    assert_uniform(&model, "layers.1.weight_ih", 1.0 / sqrt(400)); /* two outputs a unit */
    assert_uniform(&model, "layers.1.weight_hh", 1.0);
    assert_uniform(&model, "layers.1.bias_hh", 1.0 / 10.0);
    float *decay = initialized(&model, "layers.0.log_decay", SEED);
    float *phase = initialized(&model, "layers.0.log_phase", SEED);
    float *lstm = initialized(&model, "layers.2.bias_ih", SEED);
    float *mingru = initialized(&model, "layers.3.bias_ih", SEED);
    double squares = 0, turns = 0, steps = 0;
    for (size_t k = 0; k < 200; k++) {
        double r = exp(-exp((double)decay[k])), after = exp(-(double)mingru[k]);
        assert_true(r >= 0.5 && r <= 0.9);
        squares += r * r / 200;
        turns += exp((double)phase[k]) / 200;
        assert_true(lstm[k] == -lstm[200 + k]); /* input and forget gate */
        assert_true(after > 0 && after <= 49.001);
        steps += after / 200;
    }
    assert_true(fabs(squares - (0.25 + 0.81) / 2) < 0.04);
    assert_true(fabs(turns - 3.1416) < 0.4 && fabs(steps - 24.5) < 3);
    free(decay);
    free(phase);
    free(lstm);
    free(mingru);
}

static void assert_constant(const struct model *model, const char *name, float value) {
    float *values = initialized(model, name, SEED);
    for (size_t k = 0; k < tensor_size(model_named(model, name)); k++)
        assert_true(values[k] == value);
    free(values);
}

static void gains_and_forget_bias_start_as_configured(void **state) {
    struct architecture architecture = architecture_of(CELL_lstm, true);
    architecture.layers[0].gain = 0.5F;
    architecture.layers[0].forget_bias = 2.0F;
    struct model model;
    model_build(&model, &architecture);
    assert_constant(&model, "layers.0.norm_ih.gain", 0.5F);
    assert_constant(&model, "layers.0.norm_hh.gain", 0.5F);
    assert_constant(&model, "layers.0.norm_c.gain", 0.5F);
    assert_constant(&model, "layers.0.norm_hh.bias", 0.0F);
    assert_constant(&model, "layers.0.norm_c.bias", 0.0F);
    float *shift = initialized(&model, "layers.0.norm_ih.bias", SEED);
    for (size_t k = 0; k < 4 * SIZE; k++)
        assert_true(shift[k] == (k / SIZE == 1 ? 2.0F : 0.0F));
    free(shift);
    float *with = initialized(&model, "layers.0.bias_ih", SEED);

    architecture.layers[0].norm = NORM_none;
    model_build(&model, &architecture);
    float *without = initialized(&model, "layers.0.bias_ih", SEED);
    for (size_t k = 0; k < 4 * SIZE; k++)
        assert_true(without[k] == with[k] + (k / SIZE == 1 ? 2.0F : 0.0F));
    free(with);
    free(without);
}

static void values_follow_seed_and_name_alone(void **state) {
    struct architecture architecture = architecture_of(CELL_gru, false);
    struct model model, deeper;
    model_build(&model, &architecture);
    architecture.layers[1] = architecture.layers[0];
    architecture.layer_count = 2;
    architecture.output.size = 9;
    model_build(&deeper, &architecture);

    for (size_t n = 0; n < model.tensor_count; n++) {
        const char *name = model.tensors[n].name;
        if (strncmp(name, "layers.0.", 9) != 0)
            continue;
        size_t bytes = tensor_size(&model.tensors[n]) * sizeof(float);
        float *first = initialized(&model, name, SEED);
        float *again = initialized(&deeper, name, SEED);
        float *other = initialized(&model, name, SEED + 1);
        assert_memory_equal(first, again, bytes);
        assert_memory_not_equal(first, other, bytes);
        free(first);
        free(again);
        free(other);
    }
    float *ih = initialized(&model, "layers.0.bias_ih", SEED);
    float *hh = initialized(&model, "layers.0.bias_hh", SEED);
    assert_memory_not_equal(ih, hh, 3 * SIZE * sizeof(float));
    free(ih);
    free(hh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_the_contracts),
        cmocka_unit_test(tensors_of_columns),
        cmocka_unit_test(tensors_of_grids),
        cmocka_unit_test(layers_follow_one_another),
        cmocka_unit_test(sixteen_layers_fit),
        cmocka_unit_test(outputs_follow_the_loss),
        cmocka_unit_test(optimizers_keep_what_they_need),
        cmocka_unit_test(cocob_is_algorithm_2),
        cmocka_unit_test(recurrent_weights_are_orthogonal_per_gate),
        cmocka_unit_test(starting_values_have_their_ranges),
        cmocka_unit_test(columns_start_with_their_memory),
        cmocka_unit_test(gains_and_forget_bias_start_as_configured),
        cmocka_unit_test(values_follow_seed_and_name_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
