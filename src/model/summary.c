/* A description of an architecture in the words of the configuration. */
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "model.h"

const char *input_kind_name(enum input_kind kind) {
    static const char *const names[] = {"real", "symbol"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *input_scale_name(enum input_scale scale) {
    static const char *const names[] = {"none", "standard", "forecast"};
    return scale < sizeof names / sizeof *names ? names[scale] : NULL;
}

const char *target_name(enum target target) {
    static const char *const names[] = {"given", "next", "later", "previous", "same"};
    return target < sizeof names / sizeof *names ? names[target] : NULL;
}

const char *input_label(const struct input *input, size_t k, char name[COLUMN_NAME_SIZE]) {
    if (k < input->column_count)
        snprintf(name, COLUMN_NAME_SIZE, "%s", input->columns[k].name);
    else
        snprintf(name, COLUMN_NAME_SIZE, "x[%zu]", k);
    return name;
}

const char *model_column_names(const struct architecture *architecture, bool targets,
                               char text[MODEL_NAMES_SIZE]) {
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    bool next = output_is_input(output), some = targets && (output->column_count || !next);
    size_t count = some ? output->column_count : input->column_count;
    *text = 0;
    for (size_t k = 0; k < count; k++) {
        strcat(text, k ? ", " : "");
        strcat(text, some && !next ? architecture->target_names[k]
                                   : input->columns[some ? output->columns[k] : k].name);
    }
    return text;
}

#define APPEND(...) text_append(summary, MODEL_SUMMARY_SIZE, __VA_ARGS__)

/* "4 columns (2 real, 1 symbol, 1 cycle)" */
static void append_columns(char summary[MODEL_SUMMARY_SIZE], const struct input *input) {
    const char *before = "";
    size_t known = input->column_count;
    APPEND("%zu column%s (", input->column_count, input->column_count == 1 ? "" : "s");
    for (enum column_kind kind = 0; column_kind_name(kind); kind++) {
        size_t count = columns_of_kind(input->columns, input->column_count, kind);
        if (count)
            APPEND("%s%zu %s", before, count, column_kind_name(kind));
        before = count ? ", " : before;
        known -= count;
    }
    if (known)
        APPEND("%s%zu known", before, known);
    APPEND(")");
}

bool model_of_cpu(const struct architecture *architecture, char text[MODEL_LACKS_SIZE]) {
    const struct output *output = &architecture->output;
    const char *lacks = input_is_message(&architecture->input) ? "model.input.sequence"
                        : *output->name                        ? "model.outputs"
                        : output_is_message(output)            ? "model.output.sequence"
                        : output_ranks(output)                 ? "model.output.loss: ranking"
                        : output->target > TARGET_LATER        ? "model.output.target"
                                                               : NULL;
    snprintf(text, MODEL_LACKS_SIZE, "%s", lacks ? lacks : "");
    for (size_t n = 0; n < architecture->layer_count && !lacks; n++) {
        const struct layer *layer = &architecture->layers[n];
        const struct cell_kind *cell = cell_kind(layer->cell);
        const char *key = layer_delay(layer) ? "taps" : layer->residual ? "residual" : "cell: ";
        snprintf(text, MODEL_LACKS_SIZE, "model.layers.%zu.%s%s", n, key,
                 cell->spatial ? cell->kind.name : "");
        lacks = cell->spatial || layer_delay(layer) || layer->residual ? text : NULL;
    }
    return lacks;
}

static void append_layers(char summary[MODEL_SUMMARY_SIZE], const struct layer *layers,
                          size_t count) {
    for (const struct layer *layer = layers; layer < layers + count; layer++) {
        const struct cell_kind *cell = cell_kind(layer->cell);
        APPEND(" > %s%s %zu", layer->diagonal ? "diagonal " : "", cell->kind.name, layer->size);
        if (cell->spatial)
            APPEND(" of %zu x %zu / %zu", layer->kernel, layer->kernel, layer->stride);
        if (cell->function)
            APPEND(" %s", activation_kind(layer->activation)->kind.name);
        APPEND("%s", norm_kind(layer->norm)->summary);
        if (layer_delay(layer))
            APPEND(" of %zu taps over %zu steps", layer->taps, layer_delay(layer) + 1);
        APPEND("%s", layer->residual ? " residual" : "");
    }
}

/* " > softmax 4, given"; of a list " | next > gru 6 norm > softmax 9, next"; with candidates
   " > ranking 5 among 6 of (real 4 > dense 8 relu norm), given" */
static void append_output(char summary[MODEL_SUMMARY_SIZE], const struct input *input,
                          const struct output *output) {
    const struct ranking *ranking = &output->ranking;
    if (*output->name)
        APPEND(" | %s", output->name);
    append_layers(summary, output->sequence.layers, output->sequence.layer_count);
    APPEND(" > %s %zu", loss_kind(output->loss)->name, output->size);
    if (output_ranks(output)) {
        APPEND(" among %zu of (%s %zu", ranking->negatives, input_kind_name(ranking->kind),
               ranking->size);
        append_layers(summary, ranking->layers, ranking->layer_count);
        APPEND(")");
    }
    if (output->target == TARGET_NEXT && output->column_count &&
        output->column_count < input->column_count)
        APPEND(" of %zu columns", output->column_count);
    if (output->components)
        APPEND(" of %zu", output->components);
    if (output->scale != SCALE_NONE)
        APPEND(" (%s)", input_scale_name(output->scale));
    APPEND("%s%s, %s", output->solved ? " solved" : "",
           output->relative == RELATIVE_TRUE ? " relative" : "", target_name(output->target));
    bool one = output->ahead.count == 1 && output->ahead.steps[0] == 1;
    for (size_t n = 0; n < output->ahead.count && !one; n++)
        APPEND("%s%zu", n ? "+" : " ", output->ahead.steps[n]);
}

void model_summary(const struct architecture *architecture, char summary[MODEL_SUMMARY_SIZE]) {
    const struct input *input = &architecture->input;
    summary[0] = 0;
    if (input->column_count)
        append_columns(summary, input);
    else
        APPEND("%s %zu", input_kind_name(input->kind), input->size);
    if (input->kind == INPUT_SYMBOL && input->embedding && !input->column_count)
        APPEND(" embedded in %zu", input->embedding);
    if (input->scale != SCALE_NONE)
        APPEND(" (%s)", input_scale_name(input->scale));
    static const char *const times[] = {"gap", "day", "week", "year"};
    for (unsigned feature = TIME_GAP; feature < TIME_FEATURES; feature++)
        if (input->time >> feature & 1)
            APPEND(" + %s", times[feature]);
    if (input_is_message(input)) {
        append_layers(summary, input->sequence.layers, input->sequence.layer_count);
        APPEND(" > %s of a message", pool_kind(input->sequence.pool)->name);
    }
    append_layers(summary, architecture->layers, architecture->layer_count);
    if (!architecture->layer_count && !input_is_message(input))
        APPEND(" > experts");
    for (size_t k = 0; k <= architecture->other_count; k++)
        append_output(summary, input, architecture_output(architecture, k));
}
