#include "message.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/array.h"
#include "common/error.h"
#include "common/text.h"
#include "common/wire.h"

enum {
    NUMBER_SIZE = 32, /* size of a number that this file prints */
    TOKEN_SIZE = 512, /* size of a number in a message */
    PRODUCER_SIZE = sizeof "0123456789abcdef",
    MEANT_OTHERWISE = 2, /* the text is meant as an example, but has an error */
};

/* ---- Text ---- */

void message_text_free(struct message_text *text) {
    free(text->text);
    *text = (struct message_text){0};
}

static void put(struct message_text *to, const char *bytes, size_t size) {
    if (size == 0 || to->failed)
        return;
    to->failed = !array_reserve(&to->text, &to->capacity, to->size + size + 1, 1);
    if (to->failed)
        return;
    memcpy(to->text + to->size, bytes, size);
    to->size += size;
}

static void put_text(struct message_text *to, const char *text) {
    put(to, text, strlen(text));
}

static int put_piece(const char *bytes, size_t size, void *to) {
    put(to, bytes, size);
    return 0;
}

static void put_json(struct message_text *to, const json_t *value) {
    to->failed |=
        !value || json_dump_callback(value, put_piece, to, JSON_COMPACT | JSON_ENCODE_ANY);
}

static void __attribute__((format(printf, 2, 3)))
put_format(struct message_text *to, const char *format, ...) {
    char text[NUMBER_SIZE * 2];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    put(to, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

/* ---- Content ---- */

static int wrong(char why[MESSAGE_WHY_SIZE], const char *text) {
    snprintf(why, MESSAGE_WHY_SIZE, "%.*s", MESSAGE_WHY_SIZE - 1, text);
    return 0;
}

static bool is_between(char c) {
    return isspace((unsigned char)c) || c == ',' || c == ';';
}

/* Converts numbers between blanks, commas or semicolons to a JSON list. Returns 1 on success. "nan"
   is a missing value. */
static int put_numbers(struct message_text *to, const char *text, size_t size) {
    size_t count = 0;
    put_text(to, "[");
    for (size_t n = 0; n < size;) {
        char token[TOKEN_SIZE], *end;
        size_t length = 0;
        while (n < size && is_between(text[n]))
            n++;
        while (n < size && !is_between(text[n]) && length + 1 < sizeof token)
            token[length++] = text[n++];
        token[length] = '\0';
        if (length == 0)
            break;
        double number = strtod(token, &end);
        bool whole = end == token + length && (n == size || is_between(text[n]));
        if (!whole || isinf(number))
            return 0;
        put_text(to, count++ ? "," : "");
        if (isnan(number))
            put_text(to, "null");
        else
            put_format(to, "%.17g", number);
    }
    put_text(to, "]");
    return count > 0;
}

#define MEMBER_NAMES "stream, x, y, end, learn, time, note, label_of, label_epoch and numbers"

/* Whether the name is a member of an example (docs/reference/protocol.md). */
static bool is_member(const char *name) {
    static const char *const NAMES[] = {"stream", "x",        "y",          "end",      "learn",
                                        "epoch",  "time",     "sparse",     "sequence", "producer",
                                        "note",   "label_of", "label_epoch"};
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++)
        if (strcmp(NAMES[n], name) == 0)
            return true;
    return false;
}

/* Whether the object is an example, rather than the columns of its x. */
static bool is_example(json_t *value) {
    const char *name;
    json_t *member;
    if (!json_is_object(value) ||
        (!json_object_get(value, "x") && !json_object_get(value, "label_of")))
        return false;
    json_object_foreach(value, name, member) {
        if (!is_member(name))
            return false;
    }
    return true;
}

/* Checks an object that is meant as an example: the columns of an x have only numbers and texts.
   Returns 0 on an unknown member, see `why`. */
static int check_members(json_t *value, char why[MESSAGE_WHY_SIZE]) {
    const char *name, *unknown = NULL;
    json_t *member;
    bool known = false, lists = false;
    char quoted[TEXT_QUOTE_SIZE];
    json_object_foreach(value, name, member) {
        known |= is_member(name);
        lists |= json_is_array(member) || json_is_object(member);
        if (!unknown && !is_member(name))
            unknown = name;
    }
    if (!known || !lists)
        return 1;
    if (unknown)
        snprintf(why, MESSAGE_WHY_SIZE, "unknown member %s; an example has %s",
                 text_quote(quoted, unknown, strlen(unknown)), MEMBER_NAMES);
    else
        snprintf(why, MESSAGE_WHY_SIZE, "expected x or label_of");
    return 0;
}

/* Explains why the text is not JSON. */
static int wrong_text(const struct message *message, const json_error_t *reason,
                      char why[MESSAGE_WHY_SIZE]) {
    size_t blanks = 0;
    while (blanks < message->size && isspace((unsigned char)message->bytes[blanks]))
        blanks++;
    if (blanks == message->size)
        return wrong(why, "empty message");
    if (!wire_is_utf8(message->bytes, message->size))
        return wrong(why, "not UTF-8 text (binary, or another encoding)");
    snprintf(why, MESSAGE_WHY_SIZE, "expected numbers or JSON (column %d: %s)", reason->column,
             reason->text);
    return 0;
}

/* ---- Numbers ---- */

static void put_number(struct message_text *to, const struct message_number *number, bool sparse) {
    char producer[PRODUCER_SIZE];
    snprintf(producer, sizeof producer, "%llx", (unsigned long long)number->producer);
    put_text(to, ",\"producer\":\"");
    put_text(to, producer);
    put_format(to, "\",\"epoch\":%lu", (unsigned long)number->epoch);
    put_format(to, ",\"sequence\":%llu", (unsigned long long)number->sequence);
    put_text(to, sparse ? ",\"sparse\":true" : "");
}

static void set_number(json_t *value, const struct message_number *number, bool sparse) {
    char producer[PRODUCER_SIZE];
    snprintf(producer, sizeof producer, "%llx", (unsigned long long)number->producer);
    json_object_set_new(value, "producer", json_string(producer));
    json_object_set_new(value, "epoch", json_integer(number->epoch));
    json_object_set_new(value, "sequence", json_integer((json_int_t)number->sequence));
    if (sparse)
        json_object_set_new(value, "sparse", json_true());
}

int message_broker_number(void *context, const struct message *message, json_t *value,
                          const char *key, size_t size, struct message_number *number, bool *sparse,
                          struct error *error) {
    (void)context, (void)key, (void)size, (void)error;
    *number = *message->number;
    *sparse = true;
    if (value && json_object_get(value, "label_of") && !json_object_get(value, "label_epoch"))
        json_object_set_new(value, "label_epoch", json_integer(number->epoch));
    return 1;
}

/* ---- Examples ---- */

/* The parts of an example. */
struct making {
    struct message_text *to;
    const struct message *message;
    const char *forced;
    message_numbered *numbered;
    void *context;
};

static int wrong_key(struct error *error) {
    return error_set(
        error, EX_DATAERR,
        "the key is not UTF-8 text without NUL, and the message does not name its stream");
}

/* Adds the members that a whole example lacks. */
static int complete(const struct making *making, json_t *value, struct error *error) {
    const struct message *message = making->message;
    const json_t *named = json_object_get(value, "stream");
    const char *forced = making->forced;
    const char *key = named ? json_string_value(named) : forced ? forced : message->key;
    size_t size = named ? json_string_length(named) : forced ? strlen(forced) : message->key_size;
    struct message_number number;
    bool sparse = false;
    if (!key)
        return error_set(error, EX_DATAERR, "\"stream\" must be a text");
    if (!named && !wire_is_utf8(key, size))
        return wrong_key(error);
    int adds =
        making->numbered(making->context, message, value, key, size, &number, &sparse, error);
    if (adds < 0)
        return -1;
    if (!named)
        json_object_set_new(value, "stream", json_stringn(key, size));
    if (message->time != 0 && !json_object_get(value, "time"))
        json_object_set_new(value, "time", json_real(message->time));
    if (adds)
        set_number(value, &number, sparse);
    put_json(making->to, value);
    return 1;
}

/* Wraps an x (`value`, or plain numbers) into an example. Returns 0 if the message is not an x. */
static int wrap(const struct making *making, const json_t *value, struct error *error) {
    const struct message *message = making->message;
    const char *forced = making->forced, *key = forced ? forced : message->key;
    size_t size = forced ? strlen(forced) : message->key_size;
    struct message_text *to = making->to;
    struct message_number number;
    bool sparse = false;
    if (!wire_is_utf8(key, size))
        return wrong_key(error);
    int adds = making->numbered(making->context, message, NULL, key, size, &number, &sparse, error);
    if (adds < 0)
        return -1;
    json_t *name = json_stringn(key, size);
    put_text(to, "{\"stream\":");
    put_json(to, name);
    json_decref(name);
    if (message->time != 0)
        put_format(to, ",\"time\":%.6f", message->time);
    if (adds)
        put_number(to, &number, sparse);
    put_text(to, ",\"x\":");
    if (value)
        put(to, message->bytes, message->size);
    else if (!put_numbers(to, message->bytes, message->size))
        return 0;
    put_text(to, "}");
    return 1;
}

int message_example(struct message_text *text, const struct message *message, const char *forced,
                    message_numbered *numbered, void *context, char why[MESSAGE_WHY_SIZE],
                    struct error *error) {
    const struct making making = {text, message, forced, numbered, context};
    json_error_t reason;
    json_t *value = json_loadb(message->bytes, message->size,
                               JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &reason);
    text->size = 0;
    text->failed = false;
    if (value && (json_is_boolean(value) || json_is_null(value))) {
        json_decref(value);
        return wrong(why, "expected numbers or an example");
    }
    int status = is_example(value)           ? complete(&making, value, error)
                 : check_members(value, why) ? wrap(&making, value, error)
                                             : MEANT_OTHERWISE;
    bool json = value != NULL;
    json_decref(value);
    if (text->failed)
        return error_no_memory(error);
    if (status == 0 && !json)
        status = wrong_text(message, &reason, why);
    else if (status < 0 && error->status == EX_DATAERR)
        status = wrong(why, error->text);
    if (status >= 0 && status != 1)
        text_clean(why); /* it may quote the message, and becomes a dead letter's reason */
    return status == MEANT_OTHERWISE ? 0 : status;
}
