#include "decode.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/unaligned.h"
#include "common/wire.h"
#include "decode_json.h"
#include "model/model.h"

enum {
    JSON_NUMBER_SIZE = 32, /* more than anyone writes for one float64, with comma and brackets */
    JSON_NAME_SIZE = COLUMN_NAME_SIZE + 8, /* likewise of a column's name */
    FRAME_SPARE = 64 << 10, /* for the rest of a JSON example, however its members are spaced */
    JSON_WORDS = 6 * WIRE_WORDS_MAX, /* all of them, each byte written as \u0000 */
    SCAN_BLOCK = 8,                  /* numbers checked at once */
};

/* Which numbers of x or y are good. */
struct range {
    bool whole;        /* uint32 < size, else float32 in [low, high] */
    const char *loss;  /* that bounds them */
    uint32_t size;     /* of the alphabet, or classes */
    float low, high;   /* -FLT_MAX and FLT_MAX: all that are finite */
    bool null_allowed; /* also NaN, or WIRE_NO_CLASS */
    bool words;        /* also WIRE_WORD */
    bool minus;        /* also with SYMBOL_MINUS */
};

enum { HEADER_FRAME = EXAMPLE_FRAMES_MAX - 1, LABEL_FRAME = LABEL_FRAMES - 1 };

struct decoder {
    enum target target;
    bool many;  /* several steps need no header */
    bool words; /* symbols or classes may be words */
    struct shape x, y;
    struct range x_range, y_range;
    struct range *column_ranges; /* (x.width,); NULL: x_range is that of all numbers of x */
    struct json_example json;
};

/* Of a column that is number k of x. */
static struct range column_range(const struct column *column, bool unit, const char *loss) {
    bool symbol = column->kind == COLUMN_SYMBOL;
    return (struct range){.whole = symbol,
                          .loss = loss,
                          .size = (uint32_t)column->size,
                          .low = unit ? 0 : -FLT_MAX,
                          .high = unit ? 1 : FLT_MAX,
                          .null_allowed = !symbol && column->hold,
                          .words = column->vocabulary.capacity > 0,
                          .minus = column->hash > 0};
}

/* Columns of one range are checked as inputs without columns are. */
static bool same_range(const struct range *a, const struct range *b) {
    return !a->whole && !b->whole && a->low == b->low && a->high == b->high &&
           a->null_allowed == b->null_allowed;
}

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
        same &= same_range(&d->column_ranges[k], &d->column_ranges[0]);
    if (same) {
        d->x_range = d->column_ranges[0];
        free(d->column_ranges);
        d->column_ranges = NULL;
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
    bool symbol = input->kind == INPUT_SYMBOL, class = loss->class_id;
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
                          .whole = class,
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
                                false};
    d->y_range = (struct range){class,
                                loss->name,
                                (uint32_t)output->size,
                                unit ? 0 : -FLT_MAX,
                                unit ? 1 : FLT_MAX,
                                true,
                                output->vocabulary.capacity > 0,
                                false};
    if (!input->column_count || open_columns(d, &model->architecture) == 0)
        return 0;
    decoder_close(decoder);
    return error_set(error, EX_OSERR, "out of memory for decoding examples");
}

void decoder_close(struct decoder **decoder) {
    if (!*decoder)
        return;
    json_example_free(&(*decoder)->json);
    free((*decoder)->column_ranges);
    free(*decoder);
    *decoder = NULL;
}

static const char *type_name(const struct shape *shape) {
    if (shape_mixed(shape))
        return "numbers of 4 bytes";
    return shape->whole ? "uint32" : "float32";
}

const char *decoder_names(const struct decoder *decoder, char text[SCHEMA_NAMES_SIZE]) {
    const struct shape *x = &decoder->x;
    size_t used = 0;
    *text = 0;
    for (int kinds = 0; x->columns && kinds < 2; kinds++) {
        used += (size_t)snprintf(text + used, SCHEMA_NAMES_SIZE - used, ",\"%s\":[",
                                 kinds ? "kinds" : "names");
        for (size_t k = 0; k < x->width; k++)
            used +=
                (size_t)snprintf(text + used, SCHEMA_NAMES_SIZE - used, "%s\"%s\"", k ? "," : "",
                                 kinds ? column_kind_name(x->columns[k].kind) : x->columns[k].name);
        used += (size_t)snprintf(text + used, SCHEMA_NAMES_SIZE - used, "]");
    }
    return text;
}

void decoder_schema(const struct decoder *decoder, struct schema *schema) {
    const struct shape *x = &decoder->x, *y = &decoder->y;
    *schema = (struct schema){.dtype = shape_mixed(x) ? "mixed" : type_name(x),
                              .columns = x->width,
                              .target_dtype = y->refused ? NULL : type_name(y),
                              .targets = y->refused ? 0 : y->width,
                              .target = target_name(decoder->target)};
}

size_t decoder_step_bytes(const struct decoder *decoder) {
    return NUMBER_SIZE *
           (decoder->x.width + (decoder->target == TARGET_NEXT ? 0 : decoder->y.width));
}

size_t decoder_frame_max(const struct decoder *decoder) {
    size_t name = decoder->x.columns ? JSON_NAME_SIZE : 0;
    return EXAMPLE_STEPS_MAX * (decoder->x.width * (name + JSON_NUMBER_SIZE) +
                                decoder->y.width * JSON_NUMBER_SIZE) +
           FRAME_SPARE + (decoder->words || decoder->x.words ? JSON_WORDS : 0);
}

static bool whole_ok(uint32_t value, const struct range *range) {
    return value < range->size || (range->null_allowed && value == WIRE_NO_CLASS) ||
           (range->words && value == WIRE_WORD) ||
           (range->minus && (value & ~SYMBOL_MINUS) < range->size);
}

static bool real_ok(float value, const struct range *range) {
    return ((value >= range->low) & (value <= range->high)) |
           (range->null_allowed & (value != value));
}

static bool number_ok(const unsigned char *number, const struct range *range) {
    uint32_t whole;
    float real;
    memcpy(&whole, number, sizeof whole);
    memcpy(&real, number, sizeof real);
    return range->whole ? whole_ok(whole, range) : real_ok(real, range);
}

static bool reals_ok(const unsigned char *numbers, size_t count, const struct range *range) {
    const struct range r = *range;
    bool good = true;
    for (; count >= SCAN_BLOCK; count -= SCAN_BLOCK, numbers += SCAN_BLOCK * NUMBER_SIZE) {
        float block[SCAN_BLOCK];
        memcpy(block, numbers, sizeof block);
        int bad = 0;
        for (size_t i = 0; i < SCAN_BLOCK; i++)
            bad |= !real_ok(block[i], &r);
        good &= !bad;
    }
    for (; count > 0; count--, numbers += NUMBER_SIZE) {
        float real;
        memcpy(&real, numbers, sizeof real);
        good &= real_ok(real, &r);
    }
    return good;
}

static bool wholes_ok(const unsigned char *numbers, size_t count, const struct range *range) {
    bool good = true;
    for (; count > 0; count--, numbers += NUMBER_SIZE) {
        uint32_t whole;
        memcpy(&whole, numbers, sizeof whole);
        good &= whole_ok(whole, range);
    }
    return good;
}

/* Each column has a range of its own. */
static bool rows_ok(const unsigned char *numbers, size_t count, const struct range *ranges,
                    size_t width) {
    bool good = true;
    for (size_t i = 0, k = 0; i < count; i++, numbers += NUMBER_SIZE) {
        good &= number_ok(numbers, &ranges[k]);
        k = k + 1 < width ? k + 1 : 0;
    }
    return good;
}

/* The sentence about the first bad number of a frame that has one. `ranges`: one for each number of
   a step, or NULL: `range` is that of all. */
static enum reject_reason reject_number(const struct shape *shape, const struct range *range,
                                        const struct range *ranges, const unsigned char *numbers,
                                        char *why) {
    char name[NUMBER_NAME_SIZE];
    size_t i = 0;
    while (number_ok(numbers + i * NUMBER_SIZE, ranges ? &ranges[i % shape->width] : range))
        i++;
    range = ranges ? &ranges[i % shape->width] : range;
    shape_name(shape, i % shape->width, name);
    uint32_t whole;
    float real;
    memcpy(&whole, numbers + i * NUMBER_SIZE, sizeof whole);
    memcpy(&real, numbers + i * NUMBER_SIZE, sizeof real);
    size_t step = i / shape->width;
    if (range->whole)
        return reject(shape->wrong_value, why, "%s is %u at step %zu, expected 0..%u", name, whole,
                      step, range->size - 1);
    if (isnan(real))
        return reject(shape->wrong_value, why,
                      "%s has a NaN at step %zu, but %s is not 'missing: hold'", name, step,
                      shape->columns ? "that column" : "the model's input");
    if (isinf(real))
        return reject(shape->wrong_value, why, "%s is infinite at step %zu", name, step);
    return reject(shape->wrong_value, why, "%s is %g at step %zu, expected 0..1 (%s)", name,
                  (double)real, step, range->loss);
}

static enum reject_reason check_numbers(const struct shape *shape, const struct range *range,
                                        const struct range *ranges, const void *numbers,
                                        size_t count, char *why) {
    bool good = ranges         ? rows_ok(numbers, count, ranges, shape->width)
                : range->whole ? wholes_ok(numbers, count, range)
                               : reals_ok(numbers, count, range);
    return good ? REJECT_NOT : reject_number(shape, range, ranges, numbers, why);
}

static enum reject_reason take_key(struct example *example, const struct frame *frame, char *why) {
    if (frame->size > WIRE_KEY_MAX)
        return reject(REJECT_KEY, why, "the key has %zu bytes, expected at most %d", frame->size,
                      WIRE_KEY_MAX);
    if (!wire_is_utf8(frame->data, frame->size))
        return reject(REJECT_KEY, why, "the key is not UTF-8 without NUL");
    example->key = frame->data;
    example->key_size = frame->size;
    return REJECT_NOT;
}

/* The type that a frame's numbers probably have when it has twice or half the bytes that fit: the
   default of numpy, for one. NULL when it has another number of them. */
static const char *likely_type(const struct shape *shape, size_t found, size_t fitting) {
    if (found > 0 && found == 2 * fitting)
        return shape->whole ? "int64" : "float64";
    if (found > 0 && 2 * found == fitting)
        return shape->whole ? "uint16" : "float16";
    return NULL;
}

/* Several steps without a header, where one is needed. */
static enum reject_reason reject_steps(const struct shape *shape, size_t size, size_t steps,
                                       char *why) {
    size_t step = shape->width * NUMBER_SIZE;
    const char *likely = likely_type(shape, size, step);
    if (likely)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes: %s? %zu %s are expected (%zu bytes); two steps need a "
                      "header, or examples.steps: many",
                      size, likely, shape->width, type_name(shape), step);
    return reject(REJECT_X_SIZE, why,
                  "x has %zu bytes (%zu steps of %zu %s) and no header: several steps need one, or "
                  "examples.steps: many",
                  size, steps, shape->width, type_name(shape));
}

static enum reject_reason take_x(const struct decoder *decoder, struct example *example,
                                 const struct frame *frame, bool several, char *why) {
    const struct shape *shape = &decoder->x;
    size_t step = shape->width * NUMBER_SIZE, steps = frame->size / step;
    const char *likely = likely_type(shape, frame->size, step);
    char columns[COLUMNS_TEXT_SIZE];
    if (steps == 0 && likely)
        return reject(REJECT_X_SIZE, why, "x has %zu bytes: %s? %zu %s are expected (%zu bytes)",
                      frame->size, likely, shape->width, type_name(shape), step);
    if ((steps == 0 || frame->size % step != 0) && shape->columns)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes (%zu numbers), expected a multiple of %zu, %zu columns: %s",
                      frame->size, frame->size / NUMBER_SIZE, step, shape->width,
                      columns_text(shape->columns, shape->width, columns));
    if (steps == 0 || frame->size % step != 0)
        return reject(REJECT_X_SIZE, why,
                      "x has %zu bytes (%zu numbers), expected a multiple of %zu (%zu %s a step)",
                      frame->size, frame->size / NUMBER_SIZE, step, shape->width, type_name(shape));
    if (steps > 1 && !several)
        return reject_steps(shape, frame->size, steps, why);
    if (steps > EXAMPLE_STEPS_MAX)
        return reject(REJECT_X_SIZE, why, "x has %zu steps, expected at most %d", steps,
                      EXAMPLE_STEPS_MAX);
    example->x = frame->data;
    example->steps = steps;
    return check_numbers(shape, &decoder->x_range, decoder->column_ranges, frame->data,
                         steps * shape->width, why);
}

/* The sentence about a y that does not fit x. One target for two steps: x is twice as long, rather
   than y half as long. */
static enum reject_reason reject_y(const struct decoder *decoder, const struct example *example,
                                   size_t found, size_t fitting, bool binary, char *why) {
    const struct shape *y = &decoder->y, *x = &decoder->x;
    const char *likely = binary ? likely_type(y, found, fitting) : NULL;
    size_t x_step = x->width * NUMBER_SIZE;
    if (likely && found < fitting && example->steps == 2)
        return reject(REJECT_Y_SIZE, why,
                      "y has %zu bytes, one target, but x has %zu bytes: %s? %zu %s are expected "
                      "(%zu bytes) a step",
                      found, 2 * x_step, likely_type(x, 2, 1), x->width, type_name(x), x_step);
    if (likely)
        return reject(REJECT_Y_SIZE, why, "y has %zu bytes: %s? %zu %s are expected (%zu bytes)",
                      found, likely, example->steps * y->width, type_name(y), fitting);
    return reject(REJECT_Y_SIZE, why,
                  "y has %zu bytes (%zu numbers), expected none or %zu (%zu steps of %zu %s)",
                  found, found / NUMBER_SIZE, fitting, example->steps, y->width, type_name(y));
}

static enum reject_reason take_y(const struct decoder *decoder, struct example *example,
                                 const struct frame *frame, bool binary, char *why) {
    if (frame->size == 0)
        return REJECT_NOT;
    if (decoder->target == TARGET_NEXT)
        return reject(REJECT_Y_GIVEN, why,
                      "it has a y, but this model's target is the next x; send no y");
    if (decoder->target == TARGET_LATER && !example->label)
        return reject(REJECT_Y_GIVEN, why,
                      "it has a y, but this model's targets come later; send y as a label");
    const struct shape *shape = &decoder->y;
    size_t size = example->steps * shape->width * NUMBER_SIZE;
    if (frame->size != size)
        return reject_y(decoder, example, frame->size, size, binary, why);
    example->y = frame->data;
    return check_numbers(shape, &decoder->y_range, NULL, frame->data, example->steps * shape->width,
                         why);
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
    example->sparse = header.flags & WIRE_SPARSE;
    example->numbered = true;
    example->epoch = header.epoch;
    example->sequence = header.sequence;
    example->producer = header.producer;
    example->time = header.time;
    return REJECT_NOT;
}

static bool is_label(const struct frame *frames, size_t count) {
    const unsigned char *header = count > HEADER_FRAME ? frames[HEADER_FRAME].data : NULL;
    return header && frames[HEADER_FRAME].size > 1 && header[1] & WIRE_LABEL;
}

/* As many steps as there are targets. */
static enum reject_reason take_label(const struct decoder *decoder, struct example *example,
                                     const struct frame *frames, size_t count, char *why) {
    const struct shape *shape = &decoder->y;
    size_t step = shape->width * NUMBER_SIZE, steps = frames[2].size / step;
    struct wire_label label;
    if (decoder->target != TARGET_LATER)
        return reject(REJECT_Y_GIVEN, why, "it is a label, but this model's target is %s",
                      decoder->target == TARGET_NEXT ? "the next x" : "in the example");
    if (frames[1].size > 0)
        return reject(REJECT_X_SIZE, why, "x has %zu bytes, but a label has no x", frames[1].size);
    if (steps == 0 || frames[2].size % step != 0 || steps > EXAMPLE_STEPS_MAX)
        return reject(REJECT_Y_SIZE, why,
                      "y has %zu bytes (%zu numbers), expected a multiple of %zu (%zu %s a step) "
                      "for at most %d steps",
                      frames[2].size, frames[2].size / NUMBER_SIZE, step, shape->width,
                      type_name(shape), EXAMPLE_STEPS_MAX);
    if (count < LABEL_FRAMES)
        return reject(REJECT_FRAMES, why,
                      "it has %zu frames, but a label needs a fifth, which says of which example",
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

/* Whether the header says that the last frame has words. */
static bool has_words(const struct frame *frames, size_t count) {
    const unsigned char *header = count > HEADER_FRAME ? frames[HEADER_FRAME].data : NULL;
    return header && frames[HEADER_FRAME].size > 1 && header[1] & WIRE_WORDS;
}

/* Cells that are words. */
static size_t count_cells(const struct shape *shape, const void *numbers, size_t steps) {
    size_t count = 0;
    for (size_t k = 0; numbers && k < shape->width; k++)
        for (size_t t = 0; shape_words(shape, k) && t < steps; t++)
            count += unaligned_id(numbers, t * shape->width + k) == WIRE_WORD;
    return count;
}

/* As many words as cells that are words. */
static enum reject_reason take_words(const struct decoder *decoder, struct example *example,
                                     const struct frame *frame, char *why) {
    size_t cells = count_cells(&decoder->y, example->y, example->steps), count = 0;
    const unsigned char *byte = frame->data, *end = byte + frame->size;
    cells += example->label ? 0 : count_cells(&decoder->x, example->x, example->steps);
    if (frame->size > WIRE_WORDS_MAX)
        return reject(REJECT_FRAMES, why, "its words have %zu bytes, expected at most %d",
                      frame->size, WIRE_WORDS_MAX);
    for (; byte < end; byte += 1 + *byte, count++)
        if (*byte >= end - byte || !wire_is_utf8(byte + 1, *byte))
            return reject(REJECT_FRAMES, why, "word %zu of its words is cut off, or not UTF-8",
                          count);
    if (count != cells)
        return reject(REJECT_FRAMES, why, "it has %zu words for %zu symbols that are words", count,
                      cells);
    example->words = frame->data;
    example->words_size = frame->size;
    return REJECT_NOT;
}

/* `binary`: as they came, not rewritten from JSON. */
static enum reject_reason check(struct decoder *decoder, const struct frame *frames, size_t count,
                                bool binary, struct example *example, char *why) {
    bool several = count >= EXAMPLE_FRAMES_MAX || decoder->many, label = is_label(frames, count);
    bool words = decoder->words && has_words(frames, count);
    size_t most = EXAMPLE_FRAMES_MAX + label + words;
    enum reject_reason reason = take_key(example, &frames[0], why);
    if (reason == REJECT_NOT && (count > most || (words && count < most)))
        reason = reject(REJECT_FRAMES, why,
                        words ? "it has %zu frames, and by its header not as many"
                              : "it has %zu frames, but only a label has a fifth",
                        count);
    if (reason == REJECT_NOT && label)
        reason = take_label(decoder, example, frames, count, why);
    else if (reason == REJECT_NOT)
        reason = take_x(decoder, example, &frames[1], several, why);
    if (reason == REJECT_NOT && count > 2)
        reason = take_y(decoder, example, &frames[2], binary, why);
    if (reason == REJECT_NOT && count > 3)
        reason = take_header(example, &frames[3], why);
    if (reason == REJECT_NOT && decoder->words)
        reason = take_words(decoder, example, words ? &frames[most - 1] : &no_words, why);
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
    else if (count >= 2 && count <= (size_t)LABEL_FRAMES + decoder->words)
        reason = check(decoder, frames, count, true, example, why);
    else
        reason = reject(REJECT_FRAMES, why,
                        "it has %zu frames, expected 2 to %d, %d of a label, or 1 of JSON", count,
                        EXAMPLE_FRAMES_MAX, LABEL_FRAMES);
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
