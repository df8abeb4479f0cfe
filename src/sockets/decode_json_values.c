#include "decode_json_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/wire.h"
#include "common/word_hash.h"

const char *json_kind(const json_t *value) {
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return kinds[json_typeof(value)];
}

int numbers_reserve(struct numbers *numbers, size_t size) {
    if (size <= numbers->capacity)
        return 0;
    unsigned char *bytes = realloc(numbers->bytes, size);
    if (!bytes)
        return -1;
    numbers->bytes = bytes;
    numbers->capacity = size;
    return 0;
}

bool whole_between(double value, double low, double high) {
    return value >= low && value <= high && value == floor(value);
}

/* Append a word as it travels. */
static enum reject_reason add_word(struct numbers *words, const char *word, size_t size,
                                   char *why) {
    enum { AT_FIRST = 4096 };
    size_t needed = words->size + 1 + size;
    if (needed > WIRE_WORDS_MAX)
        return reject(REJECT_JSON, why, "its words have more than %d bytes", WIRE_WORDS_MAX);
    if (needed > words->capacity &&
        numbers_reserve(words, needed > AT_FIRST / 2 ? 2 * needed : (size_t)AT_FIRST))
        return reject(REJECT_JSON, why, "out of memory for its words");
    words->bytes[words->size] = (unsigned char)size;
    memcpy(words->bytes + words->size + 1, word, size);
    words->size = needed;
    return REJECT_NOT;
}

static enum reject_reason reject_kind(const struct shape *shape, size_t k, const json_t *value,
                                      const char *expected, char *why) {
    char name[NUMBER_NAME_SIZE];
    enum reject_reason reason = shape->columns || shape->words ? shape->wrong_value : REJECT_JSON;
    return reject(reason, why, "%s has %s, expected %s", shape_name(shape, k, name),
                  json_kind(value), expected);
}

/* Write a word: what stands in its place, and itself. */
static enum reject_reason put_word(const struct shape *shape, size_t k, const json_t *value,
                                   unsigned char *number, struct numbers *words, char *why) {
    const char *word = json_string_value(value);
    size_t size = json_string_length(value), hash = shape_hash(shape, k);
    char name[NUMBER_NAME_SIZE];
    uint32_t id = WIRE_WORD;
    if (!word)
        return reject_kind(shape, k, value, "a word in quotes", why);
    if (size > WIRE_WORD_MAX)
        return reject(shape->wrong_value, why, "%s has a word of %zu bytes, expected at most %d",
                      shape_name(shape, k, name), size, WIRE_WORD_MAX);
    if (hash)
        id = word_hash(word, size, hash);
    memcpy(number, &id, NUMBER_SIZE);
    return hash ? REJECT_NOT : add_word(words, word, size, why);
}

/* Whether a null is a number: numbers are checked later, when it is known whether they are held. */
static bool may_be_missing(const struct shape *shape, size_t k) {
    return shape->null_allowed &&
           (!shape->columns || !shape_whole(shape, k) || shape->columns[k].hold);
}

/* What stands for it: NaN, or no class. */
static void put_nothing(const struct shape *shape, size_t k, unsigned char *number) {
    const uint32_t none = WIRE_NO_CLASS;
    const float nan = NAN;
    memcpy(number, shape_whole(shape, k) ? (const void *)&none : &nan, NUMBER_SIZE);
}

/* Write number k of a step as in a binary frame. */
static enum reject_reason put_number(const struct shape *shape, size_t k, const json_t *value,
                                     unsigned char *number, struct numbers *words, char *why) {
    bool whole_number = shape_whole(shape, k);
    double real = json_number_value(value);
    char name[NUMBER_NAME_SIZE];
    if (json_is_null(value) && !may_be_missing(shape, k))
        return reject(shape->wrong_value, why, "%s has null, but a symbol can not be missing",
                      shape_name(shape, k, name));
    if (json_is_null(value)) {
        put_nothing(shape, k, number);
        return REJECT_NOT;
    }
    if (shape_words(shape, k))
        return put_word(shape, k, value, number, words, why);
    if (!json_is_number(value))
        return reject_kind(shape, k, value, "a number", why);
    if (whole_number && !whole_between(real, 0, UINT32_MAX))
        return reject(shape->wrong_value, why, "%s has %g, expected whole numbers from 0",
                      shape_name(shape, k, name), real);
    const uint32_t whole = whole_number ? (uint32_t)real : 0;
    const float single = (float)real;
    memcpy(number, whole_number ? (const void *)&whole : &single, NUMBER_SIZE);
    return REJECT_NOT;
}

/* ---- Columns by name ---- */

/* What was not said is missing, where it may be. */
static enum reject_reason put_missing(const struct shape *shape, const bool *said,
                                      unsigned char *numbers, char *why) {
    for (size_t k = 0; k < shape->width; k++) {
        if (said[k])
            continue;
        if (!shape->columns[k].hold)
            return reject(shape->wrong_value, why,
                          "x has no column %s, which must be there (missing: hold lets a real one "
                          "be left out)",
                          shape->columns[k].name);
        put_nothing(shape, k, numbers + k * NUMBER_SIZE);
    }
    return REJECT_NOT;
}

/* Words travel in the order of the columns: where members have another, they are put into it. */
static enum reject_reason put_in_order(const struct shape *shape, json_t *row,
                                       unsigned char *numbers, struct numbers *words, char *why) {
    enum reject_reason reason = REJECT_NOT;
    for (size_t k = 0; k < shape->width && reason == REJECT_NOT; k++) {
        const json_t *value = json_object_get(row, shape->columns[k].name);
        if (value && shape_words(shape, k))
            reason = put_number(shape, k, value, numbers + k * NUMBER_SIZE, words, why);
    }
    return reason;
}

/* One step: {"load": 0.7, "host": "web-3"}. */
static enum reject_reason put_row(const struct shape *shape, json_t *row, unsigned char *numbers,
                                  struct numbers *words, char *why) {
    bool said[COLUMNS_MAX] = {false}, ordered = true;
    size_t k = 0, count = 0, begin = words->size;
    const char *name;
    json_t *value;
    json_object_foreach(row, name, value) {
        size_t found = shape_column(shape, name, k);
        char quoted[TEXT_QUOTE_SIZE], names[SHAPE_NAMES_SIZE];
        if (found == shape->width)
            return reject(REJECT_JSON, why, "%s has an unknown column %s; the columns are %s",
                          shape->name, text_quote(quoted, name, strlen(name)),
                          shape_names(shape, names));
        enum reject_reason reason =
            put_number(shape, found, value, numbers + found * NUMBER_SIZE, words, why);
        if (reason != REJECT_NOT)
            return reason;
        ordered &= found >= k;
        said[found] = true;
        count++;
        k = found;
    }
    if (!ordered) {
        words->size = begin;
        enum reject_reason reason = put_in_order(shape, row, numbers, words, why);
        if (reason != REJECT_NOT)
            return reason;
    }
    return count < shape->width ? put_missing(shape, said, numbers, why) : REJECT_NOT;
}

/* A step an object. */
static enum reject_reason put_rows(const struct shape *shape, const json_t *rows,
                                   unsigned char *numbers, struct numbers *words, char *why) {
    enum reject_reason reason = REJECT_NOT;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (reason == REJECT_NOT && !json_is_object(row))
            reason = reject(REJECT_JSON, why, "%s has %s, expected objects only", shape->name,
                            json_kind(row));
        if (reason == REJECT_NOT)
            reason = put_row(shape, row, numbers + i * shape->width * NUMBER_SIZE, words, why);
    }
    return reason;
}

/* x as an object, or a list of them. */
static enum reject_reason put_named(const struct shape *shape, json_t *value,
                                    struct numbers *numbers, struct numbers *words,
                                    struct frame *frame, char *why) {
    size_t steps = json_is_array(value) ? json_array_size(value) : 1;
    size_t size = steps * shape->width * NUMBER_SIZE;
    if (!shape->columns)
        return reject(REJECT_JSON, why,
                      "%s is an object, but this model has no model.%s.columns, whose names it "
                      "would have",
                      shape->name, shape->name[0] == 'x' ? "input" : "output");
    if (steps > EXAMPLE_STEPS_MAX)
        return reject(shape->wrong_size, why, "%s has %zu steps, expected at most %d", shape->name,
                      steps, EXAMPLE_STEPS_MAX);
    if (numbers_reserve(numbers, size))
        return reject(REJECT_JSON, why, "out of memory for its %zu steps", steps);
    *frame = (struct frame){numbers->bytes, size};
    return json_is_array(value) ? put_rows(shape, value, numbers->bytes, words, why)
                                : put_row(shape, value, numbers->bytes, words, why);
}

/* ---- By place ---- */

static enum reject_reason put_list(const struct shape *shape, const json_t *list,
                                   unsigned char *numbers, struct numbers *words, char *why) {
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) {
        enum reject_reason reason =
            put_number(shape, i % shape->width, value, numbers + i * NUMBER_SIZE, words, why);
        if (reason != REJECT_NOT)
            return reason;
    }
    return REJECT_NOT;
}

static enum reject_reason put_steps(const struct shape *shape, const json_t *steps,
                                    unsigned char *numbers, struct numbers *words, char *why) {
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step) {
        if (!json_is_array(step))
            return reject(REJECT_JSON, why, "%s has %s, expected lists of numbers only",
                          shape->name, json_kind(step));
        if (json_array_size(step) != shape->width)
            return reject(shape->wrong_size, why, "%s has %zu numbers at step %zu, expected %zu",
                          shape->name, json_array_size(step), i, shape->width);
        enum reject_reason reason =
            put_list(shape, step, numbers + i * shape->width * NUMBER_SIZE, words, why);
        if (reason != REJECT_NOT)
            return reason;
    }
    return REJECT_NOT;
}

/* Write x or y into `numbers` and its frame: a number, a list, or a list of lists. */
enum reject_reason json_put_value(const struct shape *shape, json_t *value, struct numbers *numbers,
                                  struct numbers *words, struct frame *frame,
                                  char why[REJECT_WHY_SIZE]) {
    bool list = json_is_array(value);
    size_t count = list ? json_array_size(value) : 1;
    bool nested = list && count > 0 && json_is_array(json_array_get(value, 0));
    size_t width = shape->width;
    if (shape->refused && count > 0)
        return reject(REJECT_Y_GIVEN, why,
                      "it has a y, but this model's target is the next x; send no y");
    if (json_is_object(value) || (list && json_is_object(json_array_get(value, 0))))
        return put_named(shape, value, numbers, words, frame, why);
    if (!list && width != 1)
        return reject(shape->wrong_size, why, "%s is %s, expected a list of %zu numbers",
                      shape->name, json_kind(value), width);
    if (list && !nested && width != 1 && count != width && count > 0)
        return reject(shape->wrong_size, why,
                      "%s has %zu numbers, expected %zu, or a list of such lists", shape->name,
                      count, width);
    size_t steps = nested || width == 1 ? count : 1;
    if (steps > EXAMPLE_STEPS_MAX)
        return reject(shape->wrong_size, why, "%s has %zu steps, expected at most %d", shape->name,
                      steps, EXAMPLE_STEPS_MAX);
    if (numbers_reserve(numbers, steps * width * NUMBER_SIZE))
        return reject(REJECT_JSON, why, "out of memory for its %zu numbers", steps * width);
    *frame = (struct frame){numbers->bytes, count > 0 ? steps * width * NUMBER_SIZE : 0};
    if (nested)
        return put_steps(shape, value, numbers->bytes, words, why);
    return list ? put_list(shape, value, numbers->bytes, words, why)
                : put_number(shape, 0, value, numbers->bytes, words, why);
}
