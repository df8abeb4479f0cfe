#include "decode.h"

#include <math.h>

#include "common/unaligned.h"
#include "common/wire.h"
#include "decode_internal.h"

enum { HEADER_FRAME = EXAMPLE_FRAMES_MAX - 1, LABEL_FRAME = LABEL_FRAMES - 1 };

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

/* In a sentence about a frame's bytes. */
static const char *type_name(const struct shape *shape) {
    return shape_mixed(shape) ? "numbers of 4 bytes" : shape_type(shape);
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

static bool has_flag(const struct frame *frames, size_t count, enum wire_flag flag) {
    const unsigned char *header = count > HEADER_FRAME ? frames[HEADER_FRAME].data : NULL;
    return header && frames[HEADER_FRAME].size > 1 && header[1] & flag;
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

static enum reject_reason take_note(struct example *example, const struct frame *frame, char *why) {
    if (frame->size > WIRE_NOTE_MAX)
        return reject(REJECT_FRAMES, why, "its note has %zu bytes, expected at most %d",
                      frame->size, WIRE_NOTE_MAX);
    if (!wire_is_utf8(frame->data, frame->size))
        return reject(REJECT_FRAMES, why, "its note is not UTF-8 without NUL");
    example->note = frame->data;
    example->note_size = frame->size;
    return REJECT_NOT;
}

/* `binary`: as they came, not rewritten from JSON. */
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
                        words || note ? "it has %zu frames, and by its header not as many"
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

enum reject_reason decode_check(struct decoder *decoder, const struct example *example,
                                char why[REJECT_WHY_SIZE]) {
    const struct wire_label of = {example->label_epoch, example->label_sequence};
    const struct wire_header about = {
        .flags = (uint8_t)((example->end ? WIRE_END : 0) | (example->label ? WIRE_LABEL : 0) |
                           (example->words_size ? WIRE_WORDS : 0)),
        .time = example->time,
    };
    unsigned char header[WIRE_HEADER_SIZE_MAX], label[WIRE_LABEL_SIZE];
    size_t numbers = NUMBER_SIZE * example->steps, count = EXAMPLE_FRAMES_MAX;
    struct frame frames[MESSAGE_FRAMES_MAX] = {
        {example->key, example->key_size},
        {example->x, example->label ? 0 : numbers * decoder->x.width},
        {example->y, example->y ? numbers * decoder->y.width : 0},
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
