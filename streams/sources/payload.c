#include "payload.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/text.h"
#include "feed_numbers.h"
#include "streams/feed_streams.h"

enum {
    TEXT_FIRST = 256,
    NUMBER_SIZE = 32, /* of a number that we write, */
    TOKEN_SIZE = 512, /* and of one that somebody has written */
    PRODUCER_SIZE = sizeof "0123456789abcdef",
};

struct payload {
    struct source *source;
    struct streams streams; /* that we number */
    struct stream other;    /* of the newest example that the broker has numbered */
    char *text;             /* the newest example: (size of capacity) */
    size_t size, capacity;
    bool failed; /* no memory for it */
};

int payload_open(struct payload **result, struct source *source, struct error *error) {
    struct payload *payload = *result = calloc(1, sizeof *payload);
    if (!payload)
        return error_no_memory(error);
    payload->source = source;
    payload->streams.numbers = 1; /* rows are not held here */
    return 0;
}

void payload_close(struct payload **payload) {
    if (!*payload)
        return;
    streams_close(&(*payload)->streams);
    free((*payload)->text);
    free(*payload);
    *payload = NULL;
}

/* ---- the text ---- */

static void put(struct payload *payload, const char *bytes, size_t size) {
    if (size == 0 || payload->failed)
        return;
    if (payload->size + size >= payload->capacity) {
        size_t capacity = 2 * (payload->size + size) + TEXT_FIRST;
        char *text = realloc(payload->text, capacity);
        payload->failed |= !text;
        if (!text)
            return;
        payload->text = text;
        payload->capacity = capacity;
    }
    memcpy(payload->text + payload->size, bytes, size);
    payload->size += size;
}

static void put_text(struct payload *payload, const char *text) {
    put(payload, text, strlen(text));
}

static int put_piece(const char *bytes, size_t size, void *payload) {
    put(payload, bytes, size);
    return 0;
}

static void put_json(struct payload *payload, const json_t *value) {
    payload->failed |=
        !value || json_dump_callback(value, put_piece, payload, JSON_COMPACT | JSON_ENCODE_ANY);
}

static void __attribute__((format(printf, 2, 3)))
put_format(struct payload *payload, const char *format, ...) {
    char text[NUMBER_SIZE * 2];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    put(payload, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

/* ---- what is in it ---- */

static int wrong(char why[PAYLOAD_WHY_SIZE], const char *text) {
    snprintf(why, PAYLOAD_WHY_SIZE, "%.*s", PAYLOAD_WHY_SIZE - 1, text);
    return 0;
}

static bool is_between(char c) {
    return isspace((unsigned char)c) || c == ',' || c == ';';
}

/* Numbers between blanks, commas or semicolons, as a list of JSON: 1. "nan" is a missing one. */
static int put_numbers(struct payload *payload, const char *text, size_t size) {
    size_t count = 0;
    put_text(payload, "[");
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
        put_text(payload, count++ ? "," : "");
        if (isnan(number))
            put_text(payload, "null");
        else
            put_format(payload, "%.17g", number);
    }
    put_text(payload, "]");
    return count > 0;
}

/* The members of an example, as docs/protocol.md has them. */
static bool is_member(const char *name) {
    static const char *const NAMES[] = {"stream",   "x",        "y",        "end",
                                        "learn",    "epoch",    "time",     "sparse",
                                        "sequence", "producer", "label_of", "label_epoch"};
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++)
        if (strcmp(NAMES[n], name) == 0)
            return true;
    return false;
}

/* Whether the object is an example, and not the columns of its x. */
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

/* ---- numbers ---- */

static void put_number(struct payload *payload, const struct feed_number *number, bool sparse) {
    char producer[PRODUCER_SIZE];
    snprintf(producer, sizeof producer, "%llx", (unsigned long long)number->producer);
    put_text(payload, ",\"producer\":\"");
    put_text(payload, producer);
    put_format(payload, "\",\"epoch\":%lu", (unsigned long)number->epoch);
    put_format(payload, ",\"sequence\":%llu", (unsigned long long)number->sequence);
    put_text(payload, sparse ? ",\"sparse\":true" : "");
}

static void set_number(json_t *value, const struct feed_number *number, bool sparse) {
    numbers_set_producer(value, number->producer);
    json_object_set_new(value, "epoch", json_integer(number->epoch));
    json_object_set_new(value, "sequence", json_integer((json_int_t)number->sequence));
    if (sparse)
        json_object_set_new(value, "sparse", json_true());
}

/* Whether numbers that it brings are such: the daemon must be able to say which example it means.
 */
static bool is_own(const json_t *value) {
    static const json_int_t most = ((json_int_t)1 << 53) - 1; /* exact in any reader of JSON */
    const json_t *sequence = json_object_get(value, "sequence");
    const json_t *epoch = json_object_get(value, "epoch");
    const json_t *producer = json_object_get(value, "producer");
    uint64_t number;
    return json_is_integer(sequence) && json_integer_value(sequence) >= 0 &&
           json_integer_value(sequence) <= most &&
           (!epoch || (json_is_integer(epoch) && json_integer_value(epoch) >= 0 &&
                       json_integer_value(epoch) <= UINT32_MAX)) &&
           (!producer || (json_is_string(producer) &&
                          wire_producer_parse(json_string_value(producer), &number) == 0));
}

/* Of an example or label without a sequence: whose number it gets. */
static int number_ours(struct payload *payload, struct held_stream *held, json_t *value,
                       struct feed_number *number, struct step *step, struct error *error) {
    const struct source *source = payload->source;
    bool label = value && json_object_get(value, "label_of");
    if (label && numbers_of_label(source, held, value, error) < 0)
        return -1;
    *number = (struct feed_number){source->producer, source->epoch, held->stream.sequence};
    if (label && held->seen) {
        number->producer = held->producer;
        number->epoch = held->epoch;
    } else if (!label) {
        numbers_taken(held, source->producer, source->epoch);
    }
    step->epoch = number->epoch;
    return 1;
}

/* Of one that has a sequence. */
static int number_own(struct payload *payload, struct held_stream *held, json_t *value,
                      struct step *step, struct error *error) {
    bool label = json_object_get(value, "label_of");
    if (!is_own(value))
        return error_set(error, EX_DATAERR, "its numbers are none (epoch, sequence, producer)");
    if ((label ? numbers_of_label(payload->source, held, value, error)
               : numbers_of_example(held, value, error)) < 0)
        return -1;
    held->stream.sequence = (uint64_t)json_integer_value(json_object_get(value, "sequence"));
    step->epoch = (uint32_t)json_integer_value(json_object_get(value, "epoch"));
    return 0;
}

/* The stream and the number of the example: the broker's, its own (in JSON), or ours. 1: `number`
   is to be added. 0: none is. -1: an error; of EX_DATAERR it is a bad message. */
static int number_step(struct payload *payload, const struct message *message, json_t *value,
                       const char *key, size_t size, struct feed_number *number, struct step *step,
                       struct error *error) {
    const struct source *source = payload->source;
    const json_t *own = value ? json_object_get(value, "sequence") : NULL;
    const char *bad = stream_name(&payload->other, key, size);
    if (bad)
        return error_set(error, EX_DATAERR, "its stream is no name: %s", bad);
    step->stream = &payload->other;
    if (message->number) {
        *number = *message->number;
        step->number = message->number;
        if (value && json_object_get(value, "label_of") && !json_object_get(value, "label_epoch"))
            json_object_set_new(value, "label_epoch", json_integer(number->epoch));
        return 1;
    }
    if (!source->numbers)
        return 0;
    struct held_stream *held = streams_find(&payload->streams, payload->other.key, error);
    if (!held)
        return -1;
    step->stream = &held->stream;
    step->own_number = own != NULL;
    return own ? number_own(payload, held, value, step, error)
               : number_ours(payload, held, value, number, step, error);
}

/* ---- examples ---- */

/* A whole example gets what it lacks. */
static int complete(struct payload *payload, const struct message *message, json_t *value,
                    struct step *step, struct error *error) {
    const json_t *named = json_object_get(value, "stream");
    const char *forced = payload->source->forced;
    const char *key = named ? json_string_value(named) : forced ? forced : message->key;
    size_t size = named ? json_string_length(named) : forced ? strlen(forced) : message->key_size;
    struct feed_number number;
    if (!key)
        return error_set(error, EX_DATAERR, "its \"stream\" is no text");
    int adds = number_step(payload, message, value, key, size, &number, step, error);
    if (adds < 0)
        return -1;
    if (!named)
        json_object_set_new(value, "stream", json_stringn(key, size));
    if (message->time != 0 && !json_object_get(value, "time"))
        json_object_set_new(value, "time", json_real(message->time));
    if (adds)
        set_number(value, &number, message->number != NULL);
    put_json(payload, value);
    return 1;
}

/* The message is an example's x: `value`, or numbers that are no JSON. 0: nor that. */
static int wrap(struct payload *payload, const struct message *message, json_t *value,
                struct step *step, struct error *error) {
    const char *forced = payload->source->forced;
    const char *key = forced ? forced : message->key;
    size_t size = forced ? strlen(forced) : message->key_size;
    struct feed_number number;
    int adds = number_step(payload, message, NULL, key, size, &number, step, error);
    if (adds < 0)
        return -1;
    json_t *name = json_stringn(key, size);
    put_text(payload, "{\"stream\":");
    put_json(payload, name);
    json_decref(name);
    if (message->time != 0)
        put_format(payload, ",\"time\":%.6f", message->time);
    if (adds)
        put_number(payload, &number, message->number != NULL);
    put_text(payload, ",\"x\":");
    if (value)
        put(payload, message->bytes, message->size);
    else if (!put_numbers(payload, message->bytes, message->size))
        return 0;
    put_text(payload, "}");
    return 1;
}

static bool is_x(const json_t *value) {
    return !json_is_boolean(value) && !json_is_null(value);
}

/* 1; 0: `why`; -1. */
static int make(struct payload *payload, const struct message *message, struct step *step,
                char why[PAYLOAD_WHY_SIZE], struct error *error) {
    json_error_t reason;
    json_t *value = json_loadb(message->bytes, message->size,
                               JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &reason);
    payload->size = 0;
    if (value && !is_x(value)) {
        json_decref(value);
        return wrong(why, "it is neither numbers nor an example");
    }
    int status = is_example(value) ? complete(payload, message, value, step, error)
                                   : wrap(payload, message, value, step, error);
    json_decref(value);
    if (payload->failed)
        return error_no_memory(error);
    if (status == 0)
        snprintf(why, PAYLOAD_WHY_SIZE, "it is neither numbers nor JSON (column %d: %s)",
                 reason.column, reason.text);
    if (status < 0 && error->status == EX_DATAERR)
        return wrong(why, error->text);
    return status;
}

/* It is no example. */
static int refuse(struct payload *payload, const struct message *message, char *why,
                  struct error *error) {
    struct source *source = payload->source;
    text_clean(why);
    if (source->strict)
        return error_set(error, EX_DATAERR,
                         "message %s is no example: %s; it is left to the broker (--strict)",
                         message->id, why);
    if (source->skipped++ == 0)
        feed_say("message %s is no example: %s. It is counted and acknowledged to the broker, and "
                 "so are others; --verbose says which, --strict ends with the first",
                 message->id, why);
    else
        feed_detail("message %s is no example: %s", message->id, why);
    return 0;
}

int payload_step(struct payload *payload, const struct message *message, struct step *step,
                 struct error *error) {
    char why[PAYLOAD_WHY_SIZE];
    int status = make(payload, message, step, why, error);
    if (status == 0)
        return refuse(payload, message, why, error);
    step->json = payload->text;
    step->json_size = payload->size;
    return status;
}
