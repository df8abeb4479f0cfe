/* The rules of a valid example: a second implementation, independent of decode.c. */
#ifndef RUNNEL_TEST_EXAMPLE_RULES_H
#define RUNNEL_TEST_EXAMPLE_RULES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/wire.h"
#include "model/model.h"
#include "sockets/decode.h"

/* Whether number k of x (with `y` of a target) is valid, by its bits. */
static inline bool rule_of_number(const struct model *model, bool y, size_t k, uint32_t bits) {
    const struct architecture *a = &model->architecture;
    const struct column *column =
        a->input.column_count && !y ? &a->input.columns[k % a->input.column_count] : NULL;
    if (column && column->kind == COLUMN_SYMBOL)
        return (column->hash ? bits & INT32_MAX : bits) < column->size ||
               (column->vocabulary.capacity && bits == WIRE_WORD);
    bool message = y && output_is_message(&a->output);
    if ((y ? a->output.vocabulary.capacity : a->input.vocabulary.capacity) && bits == WIRE_WORD)
        return true;
    if (y ? a->output.loss == LOSS_softmax : a->input.kind == INPUT_SYMBOL)
        return bits < (y ? a->output.size : a->input.size) ||
               (y && !message && bits == WIRE_NO_CLASS);
    bool infinite = (bits & 0x7FFFFFFF) == 0x7F800000, nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    if (nan)
        return y ? !message : (column ? column->hold : a->input.hold);
    float value;
    memcpy(&value, &bits, sizeof value);
    bool unit = a->output.loss == LOSS_bernoulli && (y || a->output.target == TARGET_NEXT);
    return !infinite && !(unit && (value < 0 || value > 1));
}

static inline bool rule_of_numbers(const struct model *model, bool y, const void *numbers,
                                   size_t count) {
    for (size_t n = 0; n < count; n++) {
        uint32_t bits;
        memcpy(&bits, (const char *)numbers + sizeof bits * n, sizeof bits);
        if (!rule_of_number(model, y, n, bits))
            return false;
    }
    return true;
}

/* Count the numbers that are words, and the words. */
static inline size_t count_word_numbers(const struct model *model, bool y, const void *numbers,
                                        size_t count) {
    const struct input *input = &model->architecture.input;
    size_t words = 0;
    for (size_t n = 0; n < count; n++) {
        const struct column *column =
            !y && input->column_count ? &input->columns[n % input->column_count] : NULL;
        bool may = y ? model->architecture.output.vocabulary.capacity > 0
                     : (column ? column->vocabulary.capacity : input->vocabulary.capacity) > 0;
        uint32_t bits;
        memcpy(&bits, (const char *)numbers + sizeof bits * n, sizeof bits);
        words += may && bits == WIRE_WORD;
    }
    return words;
}
static inline size_t count_words(const struct example *e) {
    size_t words = 0, at = 0;
    for (; at < e->words_size; at += 1 + (unsigned char)e->words[at])
        words++;
    return at == e->words_size ? words : SIZE_MAX;
}

/* Numbers in one step of x and of y. */
static inline size_t rule_of_x_width(const struct model *model) {
    const struct input *input = &model->architecture.input;
    return input->kind == INPUT_SYMBOL ? 1 : input->size;
}
static inline size_t rule_of_y_width(const struct model *model) {
    const struct output *output = &model->architecture.output;
    return output->loss == LOSS_softmax ? 1 : output->size;
}

/* The rule that the example breaks, or NULL. `frames` are those of its message. */
static inline const char *broken_rule(const struct model *model, const struct frame *frames,
                                      size_t count, const struct example *e) {
    const struct sequence *read = &model->architecture.input.sequence;
    const struct sequence *written = &model->architecture.output.sequence;
    size_t xs = read->longest ? e->atoms : e->steps,
           ys = written->longest ? e->target_atoms : e->steps;
    size_t x_size = sizeof(float) * xs * rule_of_x_width(model);
    size_t y_size = sizeof(float) * ys * rule_of_y_width(model);
    if (count == 1 && e->steps == 0 && !e->x) /* a schema that fits */
        return NULL;
    bool note = count > EXAMPLE_FRAMES_MAX && frames[3].size > 1 &&
                ((const unsigned char *)frames[3].data)[1] & WIRE_NOTE;
    if (count < 1 || count > EXAMPLE_FRAMES_MAX + (e->words_size > 0) + (size_t)note)
        return "that many frames";
    if (e->note_size > WIRE_NOTE_MAX || !wire_is_utf8(e->note, e->note_size) ||
        (count > 1 && note != (e->note == frames[count - 1].data)))
        return "its note";
    if (e->key_size > WIRE_KEY_MAX || !wire_is_utf8(e->key, e->key_size))
        return "its key";
    if (e->steps < 1 || e->steps > EXAMPLE_STEPS_MAX)
        return "its steps";
    if ((read->longest && (e->steps != 1 || e->atoms < 1 || e->atoms > read->longest)) ||
        (!read->longest && e->atoms))
        return "the atoms of x";
    if ((written->longest && e->y &&
         (e->steps != 1 || e->target_atoms < 1 || e->target_atoms > written->longest)) ||
        (!written->longest && e->target_atoms))
        return "the atoms of y";
    if (model->architecture.output.target == TARGET_NEXT && e->y)
        return "a y where the target is the next x";
    if (!isfinite(e->time))
        return "its time";
    if (!rule_of_numbers(model, false, e->x, x_size / sizeof(float)))
        return "a number of x";
    if (e->y && !rule_of_numbers(model, true, e->y, y_size / sizeof(float)))
        return "a number of y";
    size_t words = count_word_numbers(model, false, e->x, x_size / sizeof(float));
    if (e->y)
        words += count_word_numbers(model, true, e->y, y_size / sizeof(float));
    if (count_words(e) != words)
        return "its words";
    if (count > 1 && frames[1].size != x_size)
        return "the size of x";
    if (count > 1 && (e->y != NULL) != (count > 2 && frames[2].size > 0))
        return "a y from nowhere";
    if (count > 1 && e->y && frames[2].size != y_size)
        return "the size of y";
    if (count == EXAMPLE_FRAMES_MAX &&
        frames[3].size != (*(const char *)frames[3].data == WIRE_VERSION ? WIRE_HEADER_SIZE
                                                                         : WIRE_HEADER_SIZE_MAX))
        return "its header";
    return NULL;
}

#endif
