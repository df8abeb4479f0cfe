#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/wire.h"
#include "decode.h"
#include "decode_internal.h"

enum {
    JSON_NUMBER_SIZE = 32, /* more than anyone writes for one float64, with comma and brackets */
    JSON_NAME_SIZE = COLUMN_NAME_SIZE + 8, /* likewise of a column's name */
    FRAME_SPARE = 64 << 10, /* for the rest of a JSON example, however its members are spaced */
    JSON_WORDS = 6 * WIRE_WORDS_MAX, /* all of them, each byte written as \u0000 */
};

static int open_columns(struct decoder *d, const struct architecture *architecture) {
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    const struct loss_kind *loss = loss_kind(output->loss);
    bool unit = loss->unit_range && d->target == TARGET_NEXT, same = true;
    d->x.columns = input->columns;
    for (size_t k = 0; k < input->column_count; k++)
        d->words |= input->columns[k].vocabulary.capacity > 0;
    if (input->kind == INPUT_SYMBOL)
        return 0;
    d->column_ranges = calloc(input->column_count, sizeof *d->column_ranges);
    if (!d->column_ranges)
        return -1;
    for (size_t k = 0; k < input->column_count; k++)
        d->column_ranges[k] = column_range(&input->columns[k], false, loss->name);
    for (size_t k = 0; unit && k < output->column_count; k++)
        d->column_ranges[output->columns[k]] =
            column_range(&input->columns[output->columns[k]], true, loss->name);
    for (size_t k = 0; k < input->column_count; k++)
        same &= range_same(&d->column_ranges[k], &d->column_ranges[0]);
    if (same) {
        d->x_range = d->column_ranges[0];
        free(d->column_ranges);
        d->column_ranges = NULL;
    }
    return 0;
}

/* Names of targets; with `next` for the schema alone, else of what y has. A number, or a class, may
   be missing: it is not observed. */
static int open_targets(struct decoder *d, const struct architecture *architecture) {
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    bool next = d->target == TARGET_NEXT, all = next && !output->column_count;
    size_t count = all ? input->column_count : output->column_count;
    if (!count)
        return 0;
    d->targets = calloc(count, sizeof *d->targets);
    if (!d->targets)
        return -1;
    if (!next)
        d->y.columns = d->targets;
    for (size_t k = 0; k < count; k++) {
        d->targets[k] = (struct column){.kind = d->y.whole ? COLUMN_SYMBOL : COLUMN_REAL,
                                        .hold = true,
                                        .size = output->size,
                                        .vocabulary = output->vocabulary};
        strcpy(d->targets[k].name, next ? input->columns[all ? k : output->columns[k]].name
                                        : architecture->target_names[k]);
    }
    return 0;
}

int decoder_open(struct decoder **decoder, const struct model *model, bool many,
                 struct error *error) {
    struct decoder *d = calloc(1, sizeof *d);
    *decoder = d;
    if (!d)
        return error_set(error, EX_OSERR, "out of memory for decoding examples");
    const struct input *input = &model->architecture.input;
    const struct output *output = &model->architecture.output;
    const struct loss_kind *loss = loss_kind(output->loss);
    bool symbol = input->kind == INPUT_SYMBOL, classes = loss->class_id;
    d->target = output->target;
    d->many = many;
    bool next = d->target == TARGET_NEXT;
    d->x = (struct shape){.name = "x",
                          .whole = symbol,
                          .width = model->x_size,
                          .null_allowed = !symbol,
                          .words = input->vocabulary.capacity || input->hash,
                          .hash = input->hash,
                          .wrong_size = REJECT_X_SIZE,
                          .wrong_value = REJECT_X_VALUE};
    d->y = (struct shape){.name = "y",
                          .whole = classes,
                          .width = model->target_size,
                          .null_allowed = true,
                          .words = output->vocabulary.capacity > 0,
                          .refused = next,
                          .wrong_size = REJECT_Y_SIZE,
                          .wrong_value = REJECT_Y_VALUE};
    d->words = input->vocabulary.capacity || output->vocabulary.capacity;
    bool unit = loss->unit_range, next_unit = unit && next;
    d->x_range = (struct range){symbol,
                                loss->name,
                                (uint32_t)input->size,
                                next_unit ? 0 : -FLT_MAX,
                                next_unit ? 1 : FLT_MAX,
                                !symbol && input->hold,
                                input->vocabulary.capacity > 0,
                                input->hash > 0};
    d->y_range = (struct range){classes,
                                loss->name,
                                (uint32_t)output->size,
                                unit ? 0 : -FLT_MAX,
                                unit ? 1 : FLT_MAX,
                                true,
                                output->vocabulary.capacity > 0,
                                false};
    if (open_targets(d, &model->architecture) == 0 &&
        (!input->column_count || open_columns(d, &model->architecture) == 0))
        return 0;
    decoder_close(decoder);
    return error_set(error, EX_OSERR, "out of memory for decoding examples");
}

void decoder_close(struct decoder **decoder) {
    if (!*decoder)
        return;
    json_example_free(&(*decoder)->json);
    free((*decoder)->column_ranges);
    free((*decoder)->targets);
    free(*decoder);
    *decoder = NULL;
}

const char *decoder_names(const struct decoder *decoder, char text[SCHEMA_NAMES_SIZE]) {
    const struct {
        const char *name;
        const struct column *columns;
        size_t width;
        bool kinds;
    } lists[] = {{"names", decoder->x.columns, decoder->x.width, false},
                 {"kinds", decoder->x.columns, decoder->x.width, true},
                 {"target_names", decoder->targets, decoder->y.width, false}};
    size_t used = 0;
    *text = 0;
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        const struct column *columns = lists[n].columns;
        for (size_t k = 0; columns && k < lists[n].width; k++)
            used += (size_t)snprintf(text + used, SCHEMA_NAMES_SIZE - used, "%s%s%s\"%s\"",
                                     k ? "," : ",\"", k ? "" : lists[n].name, k ? "" : "\":[",
                                     lists[n].kinds ? column_kind_name(columns[k].kind)
                                                    : columns[k].name);
        if (columns)
            used += (size_t)snprintf(text + used, SCHEMA_NAMES_SIZE - used, "]");
    }
    return text;
}

void decoder_schema(const struct decoder *decoder, struct schema *schema) {
    const struct shape *x = &decoder->x, *y = &decoder->y;
    *schema = (struct schema){.dtype = shape_type(x),
                              .columns = x->width,
                              .target_dtype = y->refused ? NULL : shape_type(y),
                              .targets = y->refused ? 0 : y->width,
                              .target = target_name(decoder->target)};
}

size_t decoder_step_bytes(const struct decoder *decoder) {
    return NUMBER_SIZE *
           (decoder->x.width + (decoder->target == TARGET_NEXT ? 0 : decoder->y.width));
}

size_t decoder_frame_max(const struct decoder *decoder) {
    size_t x = JSON_NUMBER_SIZE + (decoder->x.columns ? JSON_NAME_SIZE : 0);
    size_t y = JSON_NUMBER_SIZE + (decoder->y.columns ? JSON_NAME_SIZE : 0);
    return EXAMPLE_STEPS_MAX * (decoder->x.width * x + decoder->y.width * y) + FRAME_SPARE +
           (decoder->words || decoder->x.words ? JSON_WORDS : 0);
}
