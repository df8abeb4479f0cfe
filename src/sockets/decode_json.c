#include "decode_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "decode_schema.h"

/* 2^53 - 1: up to here JSON's whole numbers are exact (RFC 8259, section 6). 2^53 itself may have
   been 2^53 + 1. */
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
        return reject(REJECT_JSON, why, "its note has %zu bytes, expected at most %d", size,
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
        return reject(REJECT_JSON, why, "\"%s\" is no whole number from 0 to %.0f", name, most);
    *whole = (uint64_t)real;
    return REJECT_NOT;
}

static enum reject_reason get_producer(const json_t *value, uint64_t *producer, char *why) {
    const char *text = json_string_value(value);
    if (!text || wire_producer_parse(text, producer))
        return reject(REJECT_JSON, why, "\"producer\" is no text of 1 to 16 hexadecimal digits");
    return REJECT_NOT;
}

static enum reject_reason get_time(const json_t *value, double *seconds, char *why) {
    if (!json_is_number(value))
        return reject(REJECT_JSON, why, "\"time\" is %s, expected seconds", json_kind(value));
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
    return reject(REJECT_JSON, why, "it has an unknown member %s",
                  text_quote(quoted, name, strlen(name)));
}

/* An example has x, a label says what it is of. */
static enum reject_reason check_members(struct json_example *example, const json_t *root,
                                        char *why) {
    bool x = json_object_get(root, "x"), of = json_object_get(root, "label_of");
    example->label = of;
    if (x && of)
        return reject(REJECT_JSON, why, "it has \"x\" and \"label_of\": a label has no x");
    if (!of && json_object_get(root, "label_epoch"))
        return reject(REJECT_JSON, why, "it has \"label_epoch\", but no \"label_of\"");
    return x || of ? REJECT_NOT : reject(REJECT_JSON, why, "it has no \"x\"");
}

/* The frame of words: those of x, then of y. */
static enum reject_reason put_words(struct json_example *example, struct wire_header *header,
                                    char *why) {
    struct numbers *words = &example->x_words;
    const struct numbers *y = &example->y_words;
    size_t size = words->size + y->size;
    if (size == 0)
        return REJECT_NOT;
    if (size > WIRE_WORDS_MAX || numbers_reserve(words, size))
        return reject(REJECT_JSON, why, "its words have %zu bytes, expected at most %d", size,
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
        return reject(REJECT_JSON, why, "it is %s, expected an object", json_kind(root));
    const json_t *schema = json_object_get(root, "schema");
    if (schema && json_object_size(root) == 1) {
        example->schema = true;
        return decode_schema(schema, x, y->refused ? NULL : y, why);
    }
    /* Key and numbers first, so that whatever is wrong can be said of its example. */
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
        return reject(REJECT_JSON, why, "its one frame is not JSON: %s at column %d",
                      text_quote(quoted, error.text, strlen(error.text)), error.column);
    enum reject_reason reason = put_members(example, x, y, root, why);
    json_decref(root);
    return reason;
}
