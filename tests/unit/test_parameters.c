/* A model's starting values from a file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "model/parameters.h"
#include "model/safetensors.h"
#include "temporary_file.h"

static void build(struct model *model) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_rnn, .size = 3, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    model_build(model, &architecture);
}

/* The model's tensors counting upwards from 0, with entries changed before they are written. */
static void store_parameters(struct safetensors_entry *entries, size_t count, float first) {
    struct error error;
    struct safetensors_writer *writer;
    struct safetensors_memory memory = {0};
    assert_int_equal(
        safetensors_start(&writer, entries, count, NULL, 0, safetensors_to_memory, &memory, &error),
        0);
    uint64_t bytes = 0;
    for (size_t n = 0; n < count; n++)
        bytes += entries[n].size;
    for (size_t k = 0; k < bytes / sizeof(float); k++) {
        float value = k ? (float)k : first;
        assert_int_equal(safetensors_put(writer, &value, sizeof value, &error), 0);
    }
    assert_int_equal(safetensors_finish(&writer, &error), 0);
    store(memory.bytes, memory.size);
    free(memory.bytes);
}

static void starting_values_are_read_by_name(void **state) {
    struct model model;
    build(&model);
    struct safetensors_entry entries[MODEL_TENSORS_MAX], reversed[MODEL_TENSORS_MAX];
    parameters_entries(&model, entries);
    for (size_t n = 0; n < model.tensor_count; n++)
        reversed[model.tensor_count - 1 - n] = entries[n];
    store_parameters(reversed, model.tensor_count, 0.0F);

    float *values = calloc(model.parameters, sizeof *values);
    struct error error;
    assert_int_equal(parameters_load(&model, "", path, values, &error), 0);
    float next = 0.0F;
    for (size_t n = model.tensor_count; n-- > 0;)
        for (size_t k = 0; k < tensor_size(&model.tensors[n]); k++)
            assert_true(values[model.tensors[n].offset + k] == next++);
    free(values);
}

static void assert_not_loaded(const struct model *model, const char *why) {
    float *values = calloc(model->parameters, sizeof *values);
    struct error error;
    assert_int_equal(parameters_load(model, "", path, values, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    if (!strstr(error.text, path) || !strstr(error.text, why))
        fail_msg("'%s' should name the file and contain '%s'", error.text, why);
    free(values);
}

static void tensors_that_do_not_fit_are_named(void **state) {
    struct model model;
    build(&model);
    struct safetensors_entry entries[MODEL_TENSORS_MAX];

    parameters_entries(&model, entries);
    store_parameters(entries, model.tensor_count - 1, 0.0F);
    assert_not_loaded(&model, "missing tensor output.bias");

    parameters_entries(&model, entries);
    entries[model.tensor_count] = (struct safetensors_entry){.name = "layers.0.weight"};
    store_parameters(entries, model.tensor_count + 1, 0.0F);
    assert_not_loaded(&model, "unknown tensor layers.0.weight");

    parameters_entries(&model, entries);
    entries[0].shape[0] = 2;
    entries[0].shape[1] = 3;
    store_parameters(entries, model.tensor_count, 0.0F);
    assert_not_loaded(&model, "tensor layers.0.weight_ih: expected shape (3, 2), got (2, 3)");

    parameters_entries(&model, entries);
    entries[2].rank = 2;
    entries[2].shape[1] = 1;
    store_parameters(entries, model.tensor_count, 0.0F);
    assert_not_loaded(&model, "tensor layers.0.bias_ih: expected shape (3,), got (3, 1)");

    parameters_entries(&model, entries);
    entries[1].type = SAFETENSORS_F64;
    store_parameters(entries, model.tensor_count, 0.0F);
    assert_not_loaded(&model, "tensor layers.0.weight_hh: expected F32, got F64");

    parameters_entries(&model, entries);
    store_parameters(entries, model.tensor_count, NAN);
    assert_not_loaded(&model, "number 0 of tensor layers.0.weight_ih is not finite");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_values_are_read_by_name),
        cmocka_unit_test(tensors_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
