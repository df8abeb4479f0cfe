#include "decode_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/word_hash.h"

/* ---- Values ----

   Converts x or y of an example's JSON to the numbers and words of binary frames: a number, a
   list, a list of lists, or columns by name. Only files of the decoder include this. */

/* The kind in a sentence: "a list". */
static const char *json_kind(const json_t *value) {
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return kinds[json_typeof(value)];
}

/* Make room for `size` bytes, keeping the content. -1: out of memory, and nothing has changed. */
static int numbers_reserve(struct numbers *numbers, size_t size) {
    if (size <= numbers->capacity)
        return 0;
    unsigned char *bytes = realloc(numbers->bytes, size);
    if (!bytes)
        return -1;
    numbers->bytes = bytes;
    numbers->capacity = size;
    return 0;
}

static bool whole_between(double value, double low, double high) {
    return value >= low && value <= high && value == floor(value);
}

/* Append a word in the format of the wire. */
static enum reject_reason add_word(struct numbers *words, const char *word, size_t size,
                                   char *why) {
    enum { AT_FIRST = 4096 };
    size_t needed = words->size + 1 + size;
    if (needed > WIRE_WORDS_MAX)
        return reject(REJECT_JSON, why, "the words have more than %d bytes", WIRE_WORDS_MAX);
    if (needed > words->capacity &&
        numbers_reserve(words, needed > AT_FIRST / 2 ? 2 * needed : (size_t)AT_FIRST))
        return reject(REJECT_JSON, why, "out of memory for the words");
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

/* Write a word, and its mark among the numbers. */
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

/* Whether null is allowed. For numbers this is checked later, with missing: hold. */
static bool may_be_missing(const struct shape *shape, size_t k) {
    return shape->null_allowed &&
           (!shape->columns || !shape_whole(shape, k) || shape->columns[k].hold);
}

/* Write the mark of a missing value: NaN, or no class. */
static void put_nothing(const struct shape *shape, size_t k, unsigned char *number) {
    const uint32_t none = WIRE_NO_CLASS;
    const float nan = NAN;
    memcpy(number, shape_whole(shape, k) ? (const void *)&none : &nan, NUMBER_SIZE);
}

/* Write number k of a step in the format of a binary frame. */
static enum reject_reason put_number(const struct shape *shape, size_t k, const json_t *value,
                                     unsigned char *number, struct numbers *words, char *why) {
    bool whole_number = shape_whole(shape, k);
    double real = json_number_value(value);
    char name[NUMBER_NAME_SIZE];
    if (json_is_null(value) && !may_be_missing(shape, k))
        return reject(shape->wrong_value, why, "%s has null, but a symbol cannot be missing",
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

/* Fill columns without a member as missing, if they may be missing. */
static enum reject_reason put_missing(const struct shape *shape, const bool *present,
                                      unsigned char *numbers, char *why) {
    for (size_t k = 0; k < shape->width; k++) {
        if (present[k])
            continue;
        if (!shape->columns[k].hold)
            return reject(shape->wrong_value, why,
                          "x has no column %s, which is required (only a real column with "
                          "missing: hold may be omitted)",
                          shape->columns[k].name);
        put_nothing(shape, k, numbers + k * NUMBER_SIZE);
    }
    return REJECT_NOT;
}

/* Words are sent in the order of the columns: sort those of members in another order. */
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
    bool present[COLUMNS_MAX] = {false}, ordered = true;
    size_t k = 0, count = 0, begin = words->size;
    const char *name;
    json_t *value;
    json_object_foreach(row, name, value) {
        size_t found = shape_column(shape, name, k);
        char quoted[TEXT_QUOTE_SIZE], names[SHAPE_NAMES_SIZE];
        if (found == shape->width)
            return reject(REJECT_JSON, why, "%s has an unknown column %s, expected %s", shape->name,
                          text_quote(quoted, name, strlen(name)), shape_names(shape, names));
        enum reject_reason reason =
            put_number(shape, found, value, numbers + found * NUMBER_SIZE, words, why);
        if (reason != REJECT_NOT)
            return reason;
        ordered &= found >= k;
        present[found] = true;
        count++;
        k = found;
    }
    if (!ordered) {
        words->size = begin;
        enum reject_reason reason = put_in_order(shape, row, numbers, words, why);
        if (reason != REJECT_NOT)
            return reason;
    }
    return count < shape->width ? put_missing(shape, present, numbers, why) : REJECT_NOT;
}

/* One step per object. */
static enum reject_reason put_rows(const struct shape *shape, const json_t *rows,
                                   unsigned char *numbers, struct numbers *words, char *why) {
    enum reject_reason reason = REJECT_NOT;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (reason == REJECT_NOT && !json_is_object(row))
            reason = reject(REJECT_JSON, why, "%s has %s, expected objects", shape->name,
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
                      "%s is an object, but this model has no names in model.%s.columns",
                      shape->name, shape->name[0] == 'x' ? "input" : "output");
    if (steps > shape_most(shape))
        return reject_rows(shape, steps, why);
    if (numbers_reserve(numbers, size))
        return reject(REJECT_JSON, why, "out of memory for %zu steps", steps);
    *frame = (struct frame){numbers->bytes, size};
    return json_is_array(value) ? put_rows(shape, value, numbers->bytes, words, why)
                                : put_row(shape, value, numbers->bytes, words, why);
}

/* ---- By position ---- */

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
            return reject(REJECT_JSON, why, "%s has %s, expected lists of numbers", shape->name,
                          json_kind(step));
        if (json_array_size(step) != shape->width)
            return reject(shape->wrong_size, why, "%s has %zu numbers at %s %zu, expected %zu",
                          shape->name, json_array_size(step), shape_row(shape), i, shape->width);
        enum reject_reason reason =
            put_list(shape, step, numbers + i * shape->width * NUMBER_SIZE, words, why);
        if (reason != REJECT_NOT)
            return reason;
    }
    return REJECT_NOT;
}

/* Write x or y, a number, a list or a list of lists, into `numbers` and its frame. REJECT_NOT:
   `frame` points into `numbers`, and the words are appended to `words`. */
static enum reject_reason json_put_value(const struct shape *shape, json_t *value,
                                         struct numbers *numbers, struct numbers *words,
                                         struct frame *frame, char why[REJECT_WHY_SIZE]) {
    bool list = json_is_array(value);
    size_t count = list ? json_array_size(value) : 1;
    bool nested = list && count > 0 && json_is_array(json_array_get(value, 0));
    size_t width = shape->width;
    if (shape->refused && count > 0)
        return reject(REJECT_Y_GIVEN, why,
                      "y is not allowed: the target of this model is the next x");
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
    if (steps > shape_most(shape))
        return reject_rows(shape, steps, why);
    if (numbers_reserve(numbers, steps * width * NUMBER_SIZE))
        return reject(REJECT_JSON, why, "out of memory for %zu numbers", steps * width);
    *frame = (struct frame){numbers->bytes, count > 0 ? steps * width * NUMBER_SIZE : 0};
    if (nested)
        return put_steps(shape, value, numbers->bytes, words, why);
    return list ? put_list(shape, value, numbers->bytes, words, why)
                : put_number(shape, 0, value, numbers->bytes, words, why);
}

/* ---- Schema ----

   A client sends a schema (docs/reference/protocol.md) to declare its examples, and to learn early
   about errors. It is a message of one frame, and not an example. */

/* One of x and y, with its names in the schema. */
struct part {
    const char *dtype, *columns; /* names of its members */
    const char *what;            /* description of its columns */
    const struct shape *shape;   /* NULL: not sent */
};

static enum reject_reason check_type(const json_t *schema, const struct part *part, char *why) {
    const json_t *dtype = json_object_get(schema, part->dtype);
    const char *name = json_string_value(dtype);
    char quoted[TEXT_QUOTE_SIZE];
    if (!dtype || !part->shape)
        return REJECT_NOT;
    if (!name)
        return reject(REJECT_JSON, why, "the schema's \"%s\" must be a string", part->dtype);
    if (strcmp(name, shape_type(part->shape)) == 0)
        return REJECT_NOT;
    return reject(REJECT_SCHEMA, why, "the schema's %s is %s, expected %s", part->dtype,
                  text_quote(quoted, name, strlen(name)), shape_type(part->shape));
}

/* The name of a column: a string, or an object with one. */
static const char *column_name(const json_t *column) {
    return json_string_value(json_is_object(column) ? json_object_get(column, "name") : column);
}

/* Count the columns; -1: neither a list nor a count. */
static int count_columns(const json_t *columns, size_t *count) {
    const double most = 1e9;
    double number = json_number_value(columns);
    *count = json_is_array(columns) ? json_array_size(columns) : (size_t)number;
    if (!json_is_array(columns) &&
        !(json_is_number(columns) && number >= 0 && number <= most && number == (double)*count))
        return -1;
    const json_t *column;
    size_t i;
    json_array_foreach(columns, i, column) {
        if (!column_name(column))
            return -1;
    }
    return 0;
}

/* Check a column at its position: its name, and its kind if given. */
static enum reject_reason check_column(const json_t *column, size_t n, const struct column *own,
                                       char *why) {
    const char *name = column_name(column), *wanted = column_kind_name(own->kind);
    const json_t *kind = json_is_object(column) ? json_object_get(column, "kind") : NULL;
    char quoted[TEXT_QUOTE_SIZE];
    if (strcmp(name, own->name) != 0)
        return reject(REJECT_SCHEMA, why, "column %zu of the schema is %s, expected '%s'", n,
                      text_quote(quoted, name, strlen(name)), own->name);
    if (!kind)
        return REJECT_NOT;
    if (!json_is_string(kind))
        return reject(REJECT_JSON, why,
                      "the \"kind\" of the schema's column '%s' must be a "
                      "string",
                      own->name);
    if (strcmp(json_string_value(kind), wanted) == 0)
        return REJECT_NOT;
    return reject(REJECT_SCHEMA, why, "the schema's column '%s' has the kind %s, expected %s",
                  own->name, text_quote(quoted, json_string_value(kind), json_string_length(kind)),
                  wanted);
}

/* Check names and kinds if the model's columns have names. */
static enum reject_reason check_names(const json_t *columns, const struct shape *shape, char *why) {
    enum reject_reason reason = REJECT_NOT;
    for (size_t n = 0; shape->columns && n < json_array_size(columns) && reason == REJECT_NOT; n++)
        reason = check_column(json_array_get(columns, n), n, &shape->columns[n], why);
    return reason;
}

static enum reject_reason check_columns(const json_t *schema, const struct part *part, char *why) {
    const json_t *columns = json_object_get(schema, part->columns);
    size_t count, expected = part->shape ? part->shape->width : 0;
    char quoted[TEXT_QUOTE_SIZE];
    if (!columns)
        return REJECT_NOT;
    if (count_columns(columns, &count))
        return reject(REJECT_JSON, why, "the schema's \"%s\" must be a list of names or a count",
                      part->columns);
    if (count == expected)
        return part->shape ? check_names(columns, part->shape, why) : REJECT_NOT;
    if (!part->shape)
        return reject(REJECT_SCHEMA, why,
                      "the schema has %zu %s, expected 0: the target of this model is the next x",
                      count, part->what);
    if (!json_is_array(columns) || count < expected)
        return reject(REJECT_SCHEMA, why, "the schema has %zu %s, expected %zu", count, part->what,
                      expected);
    const char *first = column_name(json_array_get(columns, expected));
    return reject(REJECT_SCHEMA, why,
                  "the schema has %zu %s, expected %zu: %s is the first extra one", count,
                  part->what, expected, text_quote(quoted, first, strlen(first)));
}

/* Check the names of columns of an x, in any order: no name is unknown, and all required columns
   are present. */
static enum reject_reason check_row(const json_t *names, const struct shape *x, char *why) {
    bool present[COLUMNS_MAX] = {false};
    char quoted[TEXT_QUOTE_SIZE], known[SHAPE_NAMES_SIZE];
    const json_t *name;
    size_t i;
    if (!names)
        return REJECT_NOT;
    if (!json_is_array(names))
        return reject(REJECT_JSON, why, "the schema's \"names\" must be a list of names");
    if (!x->columns)
        return reject(REJECT_SCHEMA, why,
                      "the schema has names, but this model has no model.input.columns");
    json_array_foreach(names, i, name) {
        if (!json_is_string(name))
            return reject(REJECT_JSON, why, "the schema's \"names\" must be a list of names");
        size_t k = shape_column(x, json_string_value(name), i);
        if (k == x->width)
            return reject(REJECT_SCHEMA, why, "the schema has an unknown column %s, expected %s",
                          text_quote(quoted, json_string_value(name), json_string_length(name)),
                          shape_names(x, known));
        present[k] = true;
    }
    for (size_t k = 0; k < x->width; k++)
        if (!present[k] && !x->columns[k].hold)
            return reject(REJECT_SCHEMA, why,
                          "the schema has no column %s, which is required (only a real column "
                          "with missing: hold may be omitted)",
                          x->columns[k].name);
    return REJECT_NOT;
}

/* REJECT_NOT: examples of this schema fit the model. REJECT_JSON: invalid schema. REJECT_SCHEMA:
   `why` names the first difference. `y` is NULL if the target is the next x. */
static enum reject_reason decode_schema(const json_t *schema, const struct shape *x,
                                        const struct shape *y, char why[REJECT_WHY_SIZE]) {
    const struct part parts[] = {{"dtype", "columns", "columns", x},
                                 {"target_dtype", "targets", "targets", y}};
    enum reject_reason reason = REJECT_NOT;
    if (!json_is_object(schema))
        return reject(REJECT_JSON, why, "\"schema\" must be an object");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && reason == REJECT_NOT; i++) {
        reason = check_type(schema, &parts[i], why);
        if (reason == REJECT_NOT)
            reason = check_columns(schema, &parts[i], why);
    }
    return reason == REJECT_NOT ? check_row(json_object_get(schema, "names"), x, why) : reason;
}

/* 2^53 - 1: whole numbers up to here are exact in JSON (RFC 8259, section 6). 2^53 itself may
   have been 2^53 + 1. */
static const double whole_max = 9007199254740991.0;

void json_example_free(struct json_example *example) {
    free(example->x.bytes);
    free(example->y.bytes);
    free(example->x_words.bytes);
    free(example->y_words.bytes);
    example->x = example->y = example->x_words = example->y_words = (struct numbers){0};
}

static enum reject_reason put_key(struct json_example *example, const json_t *value, char *why) {
    if (!json_is_string(value))
        return reject(REJECT_JSON, why, "\"stream\" is %s, expected a string", json_kind(value));
    size_t size = json_string_length(value);
    if (size > WIRE_KEY_MAX)
        return reject(REJECT_KEY, why, "the key has %zu bytes, expected at most %d", size,
                      WIRE_KEY_MAX);
    memcpy(example->key, json_string_value(value), size);
    example->frames[0] = (struct frame){example->key, size};
    return REJECT_NOT;
}

static enum reject_reason put_note(struct json_example *example, const json_t *value, char *why) {
    if (!json_is_string(value))
        return reject(REJECT_JSON, why, "\"note\" is %s, expected a string", json_kind(value));
    size_t size = json_string_length(value);
    if (size > WIRE_NOTE_MAX)
        return reject(REJECT_JSON, why, "the note has %zu bytes, expected at most %d", size,
                      WIRE_NOTE_MAX);
    memcpy(example->note, json_string_value(value), size);
    example->note_size = size;
    return REJECT_NOT;
}

static enum reject_reason put_flag(struct wire_header *header, const char *name,
                                   const json_t *value, enum wire_flag flag, bool set, char *why) {
    if (!json_is_boolean(value))
        return reject(REJECT_JSON, why, "\"%s\" is %s, expected true or false", name,
                      json_kind(value));
    if (json_is_true(value) == set)
        header->flags |= (uint8_t)flag;
    return REJECT_NOT;
}

static enum reject_reason get_whole(const char *name, const json_t *value, double most,
                                    uint64_t *whole, char *why) {
    double real = json_number_value(value);
    if (!json_is_number(value) || !whole_between(real, 0, most))
        return reject(REJECT_JSON, why, "\"%s\" must be a whole number from 0 to %.0f", name, most);
    *whole = (uint64_t)real;
    return REJECT_NOT;
}

static enum reject_reason get_producer(const json_t *value, uint64_t *producer, char *why) {
    const char *text = json_string_value(value);
    if (!text || wire_producer_parse(text, producer))
        return reject(REJECT_JSON, why,
                      "\"producer\" must be a string of 1 to 16 hexadecimal "
                      "digits");
    return REJECT_NOT;
}

static enum reject_reason get_time(const json_t *value, double *seconds, char *why) {
    if (!json_is_number(value))
        return reject(REJECT_JSON, why, "\"time\" is %s, expected a number of seconds",
                      json_kind(value));
    *seconds = json_number_value(value);
    return REJECT_NOT;
}

static enum reject_reason put_member(struct json_example *example, struct wire_header *header,
                                     struct wire_label *of, const struct shape *x,
                                     const struct shape *y, const char *name, json_t *value,
                                     char *why) {
    if (!strcmp(name, "stream"))
        return put_key(example, value, why);
    if (!strcmp(name, "x"))
        return json_put_value(x, value, &example->x, &example->x_words, &example->frames[1], why);
    if (!strcmp(name, "y"))
        return json_is_null(value) ? REJECT_NOT
                                   : json_put_value(y, value, &example->y, &example->y_words,
                                                    &example->frames[2], why);
    if (!strcmp(name, "note"))
        return put_note(example, value, why);
    if (!strcmp(name, "end"))
        return put_flag(header, name, value, WIRE_END, true, why);
    if (!strcmp(name, "learn"))
        return put_flag(header, name, value, WIRE_DO_NOT_LEARN, false, why);
    if (!strcmp(name, "sparse"))
        return put_flag(header, name, value, WIRE_SPARSE, true, why);
    if (!strcmp(name, "result"))
        return put_flag(header, name, value, WIRE_RESULT, true, why);
    if (!strcmp(name, "quantiles"))
        return put_flag(header, name, value, WIRE_QUANTILES, true, why);
    if (!strcmp(name, "time"))
        return get_time(value, &header->time, why);
    if (!strcmp(name, "producer"))
        return get_producer(value, &header->producer, why);
    uint64_t whole = 0;
    if (!strcmp(name, "sequence")) {
        enum reject_reason reason = get_whole(name, value, whole_max, &whole, why);
        header->sequence = whole;
        example->numbered = reason == REJECT_NOT;
        return reason;
    }
    if (!strcmp(name, "epoch")) {
        enum reject_reason reason = get_whole(name, value, UINT32_MAX, &whole, why);
        header->epoch = (uint32_t)whole;
        return reason;
    }
    if (!strcmp(name, "label_of") || !strcmp(name, "label_epoch")) {
        bool epoch = !strcmp(name, "label_epoch");
        enum reject_reason reason =
            get_whole(name, value, epoch ? UINT32_MAX : whole_max, &whole, why);
        if (epoch)
            of->epoch = (uint32_t)whole;
        else
            of->sequence = whole;
        return reason;
    }
    char quoted[TEXT_QUOTE_SIZE];
    return reject(REJECT_JSON, why, "unknown member %s", text_quote(quoted, name, strlen(name)));
}

/* An example requires x, a label the number of its example. */
static enum reject_reason check_members(struct json_example *example, const json_t *root,
                                        char *why) {
    bool x = json_object_get(root, "x"), of = json_object_get(root, "label_of");
    example->label = of;
    if (x && of)
        return reject(REJECT_JSON, why,
                      "\"x\" and \"label_of\" cannot be combined: a label has "
                      "no x");
    if (!of && json_object_get(root, "label_epoch"))
        return reject(REJECT_JSON, why, "\"label_epoch\" requires \"label_of\"");
    return x || of ? REJECT_NOT : reject(REJECT_JSON, why, "missing \"x\"");
}

/* The frame of words: those of x, then those of y. */
static enum reject_reason put_words(struct json_example *example, struct wire_header *header,
                                    char *why) {
    struct numbers *words = &example->x_words;
    const struct numbers *y = &example->y_words;
    size_t size = words->size + y->size;
    if (size == 0)
        return REJECT_NOT;
    if (size > WIRE_WORDS_MAX || numbers_reserve(words, size))
        return reject(REJECT_JSON, why, "the words have %zu bytes, expected at most %d", size,
                      WIRE_WORDS_MAX);
    if (y->size)
        memcpy(words->bytes + words->size, y->bytes, y->size);
    header->flags |= WIRE_WORDS;
    example->frames[example->count++] = (struct frame){words->bytes, size};
    return REJECT_NOT;
}

static enum reject_reason put_members(struct json_example *example, const struct shape *x,
                                      const struct shape *y, json_t *root, char *why) {
    if (!json_is_object(root))
        return reject(REJECT_JSON, why, "the JSON is %s, expected an object", json_kind(root));
    const json_t *schema = json_object_get(root, "schema");
    if (schema && json_object_size(root) == 1) {
        example->schema = true;
        return decode_schema(schema, x, y->refused ? NULL : y, why);
    }
    /* Key and numbers first, so that a rejection can name its example. */
    static const char *const first[] = {"stream", "producer", "epoch", "sequence"};
    enum reject_reason reason = REJECT_NOT;
    struct wire_header header = {0};
    struct wire_label of = {0};
    const char *name;
    json_t *value;
    for (size_t i = 0; i < sizeof first / sizeof *first && reason == REJECT_NOT; i++)
        if ((value = json_object_get(root, first[i])))
            reason = put_member(example, &header, &of, x, y, first[i], value, why);
    json_object_foreach(root, name, value) {
        if (reason == REJECT_NOT)
            reason = put_member(example, &header, &of, x, y, name, value, why);
    }
    if (reason == REJECT_NOT)
        reason = check_members(example, root, why);
    example->count = EXAMPLE_FRAMES_MAX;
    if (example->label) {
        header.flags |= WIRE_LABEL;
        wire_label_pack(&of, example->of);
        example->frames[example->count++] = (struct frame){example->of, sizeof example->of};
    }
    if (reason == REJECT_NOT)
        reason = put_words(example, &header, why);
    if (reason == REJECT_NOT && example->note_size) {
        header.flags |= WIRE_NOTE;
        example->frames[example->count++] = (struct frame){example->note, example->note_size};
    }
    size_t size = wire_header_pack(&header, example->header);
    example->frames[3] = (struct frame){example->header, size};
    return reason;
}

enum reject_reason decode_json(struct json_example *example, const struct shape *x,
                               const struct shape *y, const void *text, size_t size,
                               char why[REJECT_WHY_SIZE]) {
    for (size_t i = 0; i < MESSAGE_FRAMES_MAX; i++)
        example->frames[i] = (struct frame){"", 0};
    example->x_words.size = example->y_words.size = example->note_size = 0;
    example->numbered = example->schema = example->label = false;
    char quoted[TEXT_QUOTE_SIZE];
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!root)
        return reject(REJECT_JSON, why, "the single frame is not JSON: %s at column %d",
                      text_quote(quoted, error.text, strlen(error.text)), error.column);
    enum reject_reason reason = put_members(example, x, y, root, why);
    json_decref(root);
    return reason;
}
