#include "decode.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"
#include "common/unaligned.h"
#include "common/wire.h"
#include "decode_json.h"
#include "decode_numbers.h"
#include "model/model.h"

struct decoder {
    const struct model *model;
    bool later; /* targets are labels */
    bool many;  /* several steps do not need a header */
    bool words; /* symbols or classes may be words */
    struct shape x, y;
    struct range x_range, y_range;
    struct range *column_ranges; /* (x.width,); NULL: x_range is valid for all numbers of x */
    struct column *targets;      /* malloc'ed (y.width,), for named targets */
    struct json_example json;
};

enum {
    JSON_NUMBER_SIZE = 32, /* more than usual for one float64, with comma and brackets */
    JSON_NAME_SIZE = COLUMN_NAME_SIZE + 8, /* more than usual for a column's name */
    FRAME_SPARE = 64 << 10,          /* room for the rest of a JSON example, with any spacing */
    JSON_WORDS = 6 * WIRE_WORDS_MAX, /* all words, with each byte written as \u0000 */
};

/* The first loss of targets in x that requires them from 0 to 1; NULL: none. */
static const struct loss_kind *find_unit(const struct model *model) {
    for (size_t k = 0; k <= model->architecture.other_count; k++) {
        const struct loss_kind *loss = loss_kind(model_output(model, k)->loss);
        if (output_is_input(model_output(model, k)) && loss->unit_range)
            return loss;
    }
    return NULL;
}

static int open_columns(struct decoder *d, const struct model *model,
                        const struct loss_kind *unit) {
    const struct input *input = &model->architecture.input;
    const struct output *output =
        model_output(model, unit ? model_output_with(model, true) : model->sent);
    const struct loss_kind *loss = unit ? unit : loss_kind(output->loss);
    bool same = true;
    d->x.columns = input->columns;
    for (size_t k = 0; k < input->column_count; k++)
        d->words |= input->columns[k].vocabulary.capacity > 0;
    if (!input_is_real(input))
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

/* Names of targets: for the schema with `next`, else for the numbers of y. A number or a class
   may be missing: it is not observed. */
static int open_targets(struct decoder *d, const struct architecture *architecture,
                        const struct output *output) {
    const struct input *input = &architecture->input;
    bool next = d->y.refused, all = next && !output->column_count;
    size_t count = all ? input->column_count : output->column_count;
    if (!count)
        return 0;
    d->targets = calloc(count, sizeof *d->targets);
    if (!d->targets)
        return -1;
    if (!next)
        d->y.columns = d->targets;
    for (size_t k = 0; k < count; k++) {
        d->targets[k] = (struct column){.kind = column_kind_of(d->y.whole),
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
    const struct output *output = model_output(model, model->sent);
    const struct loss_kind *loss = loss_kind(output->loss), *of_x = find_unit(model);
    bool symbol = !input_is_real(input), classes = output_has_classes(output);
    d->later = output_is_later(output);
    d->model = model;
    d->many = many;
    d->x = (struct shape){.name = "x",
                          .whole = symbol,
                          .width = model->x_size,
                          .longest = input_is_message(input) ? input->sequence.longest : 0,
                          .null_allowed = !symbol,
                          .words = input->vocabulary.capacity || input->hash,
                          .hash = input->hash,
                          .wrong_size = REJECT_X_SIZE,
                          .wrong_value = REJECT_X_VALUE};
    d->y = (struct shape){.name = "y",
                          .whole = classes,
                          .width = model->y_size,
                          .longest = output_is_message(output) ? output->sequence.longest : 0,
                          .null_allowed = !output_ranks(output) && !output_is_message(output),
                          .words = output->vocabulary.capacity > 0,
                          .refused = output_is_input(output),
                          .wrong_size = REJECT_Y_SIZE,
                          .wrong_value = REJECT_Y_VALUE};
    d->words = input->vocabulary.capacity || output->vocabulary.capacity;
    bool unit = loss->unit_range;
    d->x_range = (struct range){symbol,
                                of_x ? of_x->name : loss->name,
                                (uint32_t)input->size,
                                of_x ? 0 : -FLT_MAX,
                                of_x ? 1 : FLT_MAX,
                                !symbol && input->hold,
                                input->vocabulary.capacity > 0,
                                input->hash > 0};
    d->y_range = (struct range){classes,
                                loss->name,
                                (uint32_t)output_classes(output),
                                unit ? 0 : -FLT_MAX,
                                unit ? 1 : FLT_MAX,
                                d->y.null_allowed,
                                output->vocabulary.capacity > 0,
                                false};
    if (open_targets(d, &model->architecture, output) == 0 &&
        (!input->column_count || open_columns(d, model, of_x) == 0))
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
    const struct model *model = decoder->model;
    size_t others = model->architecture.other_count;
#define APPEND(...) text_append(text, SCHEMA_NAMES_SIZE, __VA_ARGS__)
    *text = 0;
    if (decoder->x.longest)
        APPEND(",\"sequence\":{\"longest\":%zu}", decoder->x.longest);
    if (decoder->y.longest && !decoder->y.refused)
        APPEND(",\"target_sequence\":{\"longest\":%zu}", decoder->y.longest);
    for (size_t k = 0; others && k <= others; k++)
        APPEND("%s\"%s\"%s", k ? "," : ",\"outputs\":[", model_output(model, k)->name,
               k == others ? "]" : "");
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        const struct column *columns = lists[n].columns;
        for (size_t k = 0; columns && k < lists[n].width; k++)
            APPEND("%s%s%s\"%s\"", k ? "," : ",\"", k ? "" : lists[n].name, k ? "" : "\":[",
                   lists[n].kinds ? column_kind_name(columns[k].kind) : columns[k].name);
        if (columns)
            APPEND("]");
    }
#undef APPEND
    return text;
}

void decoder_schema(const struct decoder *decoder, struct schema *schema) {
    const struct shape *x = &decoder->x, *y = &decoder->y;
    *schema = (struct schema){
        .dtype = shape_type(x),
        .columns = x->width,
        .target_dtype = y->refused ? NULL : shape_type(y),
        .targets = y->refused ? 0 : y->width,
        .target = target_name(model_output(decoder->model, decoder->model->sent)->target)};
}

size_t decoder_step_bytes(const struct decoder *decoder) {
    const struct shape *x = &decoder->x, *y = &decoder->y;
    return NUMBER_SIZE * ((x->longest ? x->longest : 1) * x->width +
                          (decoder->y.refused ? 0 : (y->longest ? y->longest : 1) * y->width));
}

size_t decoder_frame_max(const struct decoder *decoder) {
    size_t x = JSON_NUMBER_SIZE + (decoder->x.columns ? JSON_NAME_SIZE : 0);
    size_t y = JSON_NUMBER_SIZE + (decoder->y.columns ? JSON_NAME_SIZE : 0);
    return shape_most(&decoder->x) * decoder->x.width * x +
           shape_most(&decoder->y) * decoder->y.width * y + FRAME_SPARE +
           (decoder->words || decoder->x.words ? JSON_WORDS : 0);
}

enum { HEADER_FRAME = EXAMPLE_FRAMES_MAX - 1, LABEL_FRAME = LABEL_FRAMES - 1 };

static enum reject_reason take_key(struct example *example, const struct frame *frame, char *why) {
    if (frame->size > WIRE_KEY_MAX)
        return reject(REJECT_KEY, why, "the key has %zu bytes, expected at most %d", frame->size,
                      WIRE_KEY_MAX);
    if (!wire_is_utf8(frame->data, frame->size))
        return reject(REJECT_KEY, why, "the key must be UTF-8 without NUL");
    example->key = frame->data;
    example->key_size = frame->size;
    return REJECT_NOT;
}

/* The type in a sentence about the bytes of a frame. */
static const char *type_name(const struct shape *shape) {
    return shape_mixed(shape) ? "numbers of 4 bytes" : shape_type(shape);
}

/* The type of numbers with twice or half the expected bytes, such as numpy's default. NULL for
   other sizes. */
static const char *likely_type(const struct shape *shape, size_t found, size_t fitting) {
    if (found > 0 && found == 2 * fitting)
        return shape->whole ? "int64" : "float64";
    if (found > 0 && 2 * found == fitting)
        return shape->whole ? "uint16" : "float16";
    return NULL;
}

/* Reject several steps without the header that they need. */
static enum reject_reason reject_steps(const struct shape *shape, size_t size, size_t steps,
                                       char *why) {
    size_t step = shape->width * NUMBER_SIZE;
    const char *likely = likely_type(shape, size, step);
    if (likely)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes (%s?), expected %zu %s (%zu bytes); two steps require a "
                      "header, or examples.steps: many",
                      size, likely, shape->width, type_name(shape), step);
    return reject(REJECT_X_SIZE, why,
                  "x has %zu bytes (%zu steps of %zu %s) and no header; several steps require a "
                  "header, or examples.steps: many",
                  size, steps, shape->width, type_name(shape));
}

static enum reject_reason take_x(const struct decoder *decoder, struct example *example,
                                 const struct frame *frame, bool several, char *why) {
    const struct shape *shape = &decoder->x;
    size_t step = shape->width * NUMBER_SIZE, steps = frame->size / step;
    const char *likely = likely_type(shape, frame->size, step);
    char columns[COLUMNS_TEXT_SIZE];
    bool whole = shape->columns && frame->size % NUMBER_SIZE == 0; /* a column is missing */
    if (frame->size == 0 && shape->longest)
        return reject(REJECT_X_SIZE, why, "x is empty, expected 1 to %zu atoms", shape->longest);
    if (steps == 0 && likely && !whole)
        return reject(REJECT_X_SIZE, why, "x has %zu bytes (%s?), expected %zu %s (%zu bytes)",
                      frame->size, likely, shape->width, type_name(shape), step);
    if ((steps == 0 || frame->size % step != 0) && shape->columns)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes (%zu number%s), expected a multiple of %zu, for %zu "
                      "columns: %s",
                      frame->size, frame->size / NUMBER_SIZE,
                      frame->size / NUMBER_SIZE == 1 ? "" : "s", step, shape->width,
                      columns_text(shape->columns, shape->width, columns));
    if (steps == 0 || frame->size % step != 0)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes (%zu numbers), expected a multiple of %zu (%zu %s per "
                      "step)",
                      frame->size, frame->size / NUMBER_SIZE, step, shape->width, type_name(shape));
    if (steps > 1 && decoder->y.longest && !shape->longest)
        return reject(REJECT_X_SIZE, why, "x has %zu steps, expected 1: its y is a message", steps);
    if (steps > 1 && !several && !shape->longest)
        return reject_steps(shape, frame->size, steps, why);
    if (steps > shape_most(shape))
        return reject_rows(shape, steps, why);
    example->x = frame->data;
    example->atoms = shape->longest ? steps : 0;
    example->steps = shape->longest ? 1 : steps;
    return check_numbers(shape, &decoder->x_range, decoder->column_ranges, frame->data,
                         steps * shape->width, why);
}

/* Reject a y that does not fit x. If y has one target and x two steps, x is probably of a type
   of twice the size. */
static enum reject_reason reject_y(const struct decoder *decoder, const struct example *example,
                                   size_t found, size_t fitting, bool binary, char *why) {
    const struct shape *y = &decoder->y, *x = &decoder->x;
    const char *likely = binary ? likely_type(y, found, fitting) : NULL;
    size_t x_step = x->width * NUMBER_SIZE;
    if (likely && found < fitting && example->steps == 2)
        return reject(REJECT_Y_SIZE, why,
                      "y has %zu bytes, one target, but x has %zu bytes (%s?), expected %zu %s "
                      "(%zu bytes) per step",
                      found, 2 * x_step, likely_type(x, 2, 1), x->width, type_name(x), x_step);
    if (likely)
        return reject(REJECT_Y_SIZE, why, "y has %zu bytes (%s?), expected %zu %s (%zu bytes)",
                      found, likely, example->steps * y->width, type_name(y), fitting);
    return reject(REJECT_Y_SIZE, why,
                  "y has %zu bytes (%zu numbers), expected none or %zu (%zu steps of %zu %s)",
                  found, found / NUMBER_SIZE, fitting, example->steps, y->width, type_name(y));
}

static enum reject_reason take_y(const struct decoder *decoder, struct example *example,
                                 const struct frame *frame, bool binary, char *why) {
    if (frame->size == 0)
        return REJECT_NOT;
    if (decoder->y.refused)
        return reject(REJECT_Y_GIVEN, why,
                      "y is not allowed: the target of this model is the next x");
    if (decoder->later && !example->label)
        return reject(REJECT_Y_GIVEN, why,
                      "y is not allowed: the targets of this model are labels; send y as a label");
    const struct shape *shape = &decoder->y;
    size_t step = shape->width * NUMBER_SIZE, atoms = frame->size / step;
    size_t rows = shape->longest ? atoms : example->steps;
    if (frame->size != rows * step || !rows)
        return reject_y(decoder, example, frame->size, rows * step, binary, why);
    if (rows > shape_most(shape))
        return reject_rows(shape, rows, why);
    example->y = frame->data;
    example->target_atoms = shape->longest ? rows : 0;
    return check_numbers(shape, &decoder->y_range, NULL, frame->data, rows * shape->width, why);
}

static enum reject_reason take_header(struct example *example, const struct frame *frame,
                                      char *why) {
    struct wire_header header;
    const char *wrong = wire_header_unpack(&header, frame->data, frame->size);
    if (!wrong && !isfinite(header.time))
        wrong = "the header's time is not finite";
    if (wrong)
        return reject(REJECT_HEADER, why, "%s", wrong);
    example->end = header.flags & WIRE_END;
    example->learn = !(header.flags & WIRE_DO_NOT_LEARN);
    example->result = header.flags & WIRE_RESULT;
    example->quantiles = header.flags & WIRE_QUANTILES;
    example->sparse = header.flags & WIRE_SPARSE;
    example->numbered = true;
    example->epoch = header.epoch;
    example->sequence = header.sequence;
    example->producer = header.producer;
    example->time = header.time;
    return REJECT_NOT;
}

static bool has_flag(const struct frame *frames, size_t count, enum wire_flag flag) {
    const unsigned char *header = count > HEADER_FRAME ? frames[HEADER_FRAME].data : NULL;
    return header && frames[HEADER_FRAME].size >= WIRE_HEADER_SIZE && header[1] & flag;
}

/* A label has as many steps as targets. */
static enum reject_reason take_label(const struct decoder *decoder, struct example *example,
                                     const struct frame *frames, size_t count, char *why) {
    const struct shape *shape = &decoder->y;
    size_t step = shape->width * NUMBER_SIZE, steps = frames[2].size / step;
    struct wire_label label;
    if (!decoder->later)
        return reject(REJECT_Y_GIVEN, why,
                      "labels are not allowed: the target of this model is "
                      "%s",
                      decoder->y.refused ? "the next x" : "in the example");
    if (frames[1].size > 0)
        return reject(REJECT_X_SIZE, why, "a label must not have x, got %zu bytes", frames[1].size);
    if (steps == 0 || frames[2].size % step != 0 || steps > EXAMPLE_STEPS_MAX)
        return reject(REJECT_Y_SIZE, why,
                      "y has %zu bytes (%zu numbers), expected a multiple of %zu (%zu %s per "
                      "step) for at most %d steps",
                      frames[2].size, frames[2].size / NUMBER_SIZE, step, shape->width,
                      type_name(shape), EXAMPLE_STEPS_MAX);
    if (count < LABEL_FRAMES)
        return reject(REJECT_FRAMES, why,
                      "the label has %zu frames, expected at least 5: the fifth identifies the "
                      "example",
                      count);
    const char *wrong =
        wire_label_unpack(&label, frames[LABEL_FRAME].data, frames[LABEL_FRAME].size);
    if (wrong)
        return reject(REJECT_HEADER, why, "%s", wrong);
    example->label = true;
    example->label_epoch = label.epoch;
    example->label_sequence = label.sequence;
    example->x = "";
    example->steps = steps;
    return REJECT_NOT;
}

/* ---- Words ---- */

static const struct frame no_words = {"", 0};

/* The number of cells that are words. */
static size_t count_cells(const struct shape *shape, const void *numbers, size_t steps) {
    size_t count = 0;
    for (size_t k = 0; numbers && k < shape->width; k++)
        for (size_t t = 0; shape_words(shape, k) && t < steps; t++)
            count += unaligned_id(numbers, t * shape->width + k) == WIRE_WORD;
    return count;
}

/* Check that each cell that is a word has a word. */
static enum reject_reason take_words(const struct decoder *decoder, struct example *example,
                                     const struct frame *frame, char *why) {
    size_t cells = count_cells(&decoder->y, example->y, example_targets(example)), count = 0;
    const unsigned char *byte = frame->data, *end = byte + frame->size;
    cells += count_cells(&decoder->x, example->x, example_inputs(example));
    if (frame->size > WIRE_WORDS_MAX)
        return reject(REJECT_FRAMES, why, "the words have %zu bytes, expected at most %d",
                      frame->size, WIRE_WORDS_MAX);
    for (; byte < end; byte += 1 + *byte, count++)
        if (*byte >= end - byte || !wire_is_utf8(byte + 1, *byte))
            return reject(REJECT_FRAMES, why, "word %zu is incomplete or not UTF-8", count);
    if (count != cells)
        return reject(REJECT_FRAMES, why,
                      "the message has %zu words, expected %zu, one for "
                      "each symbol that is a word",
                      count, cells);
    example->words = frame->data;
    example->words_size = frame->size;
    return REJECT_NOT;
}

static enum reject_reason take_note(struct example *example, const struct frame *frame, char *why) {
    if (frame->size > WIRE_NOTE_MAX)
        return reject(REJECT_FRAMES, why, "the note has %zu bytes, expected at most %d",
                      frame->size, WIRE_NOTE_MAX);
    if (!wire_is_utf8(frame->data, frame->size))
        return reject(REJECT_FRAMES, why, "the note must be UTF-8 without NUL");
    example->note = frame->data;
    example->note_size = frame->size;
    return REJECT_NOT;
}

/* `binary`: the frames are as received, not converted from JSON. */
static enum reject_reason check(struct decoder *decoder, const struct frame *frames, size_t count,
                                bool binary, struct example *example, char *why) {
    bool several = count >= EXAMPLE_FRAMES_MAX || decoder->many,
         label = has_flag(frames, count, WIRE_LABEL);
    bool words = decoder->words && has_flag(frames, count, WIRE_WORDS);
    bool note = has_flag(frames, count, WIRE_NOTE);
    size_t most = EXAMPLE_FRAMES_MAX + label + words + note;
    enum reject_reason reason = take_key(example, &frames[0], why);
    if (reason == REJECT_NOT && (count > most || ((words || note) && count < most)))
        reason = reject(REJECT_FRAMES, why,
                        "the message has %zu frames, expected %zu according "
                        "to its header",
                        count, most);
    if (reason == REJECT_NOT && label)
        reason = take_label(decoder, example, frames, count, why);
    else if (reason == REJECT_NOT)
        reason = take_x(decoder, example, &frames[1], several, why);
    if (reason == REJECT_NOT && count > 2)
        reason = take_y(decoder, example, &frames[2], binary, why);
    if (reason == REJECT_NOT && count > 3)
        reason = take_header(example, &frames[3], why);
    if (reason == REJECT_NOT && decoder->words)
        reason = take_words(decoder, example, words ? &frames[most - note - 1] : &no_words, why);
    if (reason == REJECT_NOT && note)
        reason = take_note(example, &frames[most - 1], why);
    return reason;
}

static enum reject_reason check_json(struct decoder *decoder, const struct frame *frame,
                                     struct example *example, char *why) {
    struct json_example *json = &decoder->json;
    enum reject_reason reason =
        decode_json(json, &decoder->x, &decoder->y, frame->data, frame->size, why);
    if (reason != REJECT_NOT) {
        example->key = json->frames[0].data;
        example->key_size = json->frames[0].size;
        return reason;
    }
    if (json->schema)
        return REJECT_NOT;
    reason = check(decoder, json->frames, json->count, false, example, why);
    example->numbered = example->numbered && json->numbered;
    return reason;
}

enum reject_reason decode(struct decoder *decoder, const struct frame *frames, size_t count,
                          struct example *example, char why[REJECT_WHY_SIZE]) {
    *example = (struct example){.key = "", .learn = true};
    enum reject_reason reason;
    if (count == 1)
        reason = check_json(decoder, &frames[0], example, why);
    else if (count >= 2 &&
             count <= (size_t)LABEL_FRAMES + decoder->words + has_flag(frames, count, WIRE_NOTE))
        reason = check(decoder, frames, count, true, example, why);
    else
        reason = reject(REJECT_FRAMES, why,
                        "the message has %zu frames, expected 1 of JSON, 2 to %d, or one more "
                        "for each of label, words and note",
                        count, EXAMPLE_FRAMES_MAX);
    if (reason == REJECT_NOT)
        return reason;
    const struct frame *last = count == 1 ? decoder->json.frames : frames;
    struct wire_header header = {0};
    if (count == 1 || (count >= EXAMPLE_FRAMES_MAX && count <= MESSAGE_FRAMES_MAX))
        wire_header_unpack(&header, last[HEADER_FRAME].data, last[HEADER_FRAME].size);
    *example = (struct example){.key = example->key,
                                .key_size = example->key_size,
                                .epoch = header.epoch,
                                .sequence = header.sequence,
                                .producer = header.producer};
    return reason;
}

enum reject_reason decode_check(struct decoder *decoder, const struct example *example,
                                char why[REJECT_WHY_SIZE]) {
    const struct wire_label of = {example->label_epoch, example->label_sequence};
    const struct wire_header about = {
        .flags = (uint8_t)((example->end ? WIRE_END : 0) | (example->label ? WIRE_LABEL : 0) |
                           (example->words_size ? WIRE_WORDS : 0)),
        .time = example->time,
    };
    unsigned char header[WIRE_HEADER_SIZE_MAX], label[WIRE_LABEL_SIZE];
    size_t count = EXAMPLE_FRAMES_MAX;
    struct frame frames[MESSAGE_FRAMES_MAX] = {
        {example->key, example->key_size},
        {example->x, NUMBER_SIZE * example_inputs(example) * decoder->x.width},
        {example->y, NUMBER_SIZE * example_targets(example) * decoder->y.width},
        {header, wire_header_pack(&about, header)},
    };
    if (example->label) {
        wire_label_pack(&of, label);
        frames[count++] = (struct frame){label, sizeof label};
    }
    if (example->words_size)
        frames[count++] = (struct frame){example->words, example->words_size};
    struct example same;
    return decode(decoder, frames, count, &same, why);
}
