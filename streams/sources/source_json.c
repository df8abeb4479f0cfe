/* JSON lines, one example each: {"stream", "x", "y", "end", "learn", "producer", "epoch",
   "sequence", "time"}, of which only x is required; or a label without x: {"stream", "label_of",
   "label_epoch", "y", ..}. A line is sent unchanged after a check of its form. Lines get the stream
   of --stream and numbers only if they have none. Only the daemon can check the number of
   values. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_input.h"
#include "payload.h"
#include "streams/feed.h"
#include "streams/feed_streams.h"

enum { WHY_SIZE = MESSAGE_WHY_SIZE };
static const json_int_t SEQUENCE_MAX = ((json_int_t)1 << 53) - 1; /* exact in all JSON readers */

struct json {
    struct source source;
    struct streams streams;  /* streams that runnel-feed numbers */
    char *written;           /* the newest line with added members, or NULL */
    struct mapping *mapping; /* NULL: lines are examples */
};

static const struct option_row OPTIONS[] = {
    FIELD_OPTION(struct json),
    FIELD_OPTIONS(struct json),
    {"strict", 0, NULL,
     "lines with unknown fields are bad; end at the first line that the daemon rejects",
     OPTION_FLAG(struct json, source.strict)},
    OPTIONS_END,
};

static int open_json(struct source *source, char **operands, struct error *error) {
    struct json *json = (struct json *)source;
    if (input_open(&source->input, operands[0] ? operands[0] : "-", error) < 0)
        return -1;
    json->streams.numbers = 1; /* rows are not held here */
    if (fields_open(&json->mapping, source, error) < 0)
        return -1;
    source->once = input_is_pipe(source->input);
    return 0;
}

static bool is_value(const json_t *value) {
    return json_is_number(value) || json_is_null(value) || json_is_string(value);
}

/* Whether it has only numbers, words and nulls, or named columns, in lists of at most this
   depth. */
static bool is_numeric(json_t *value, int depth) {
    const char *name;
    json_t *member;
    if (is_value(value))
        return true;
    if (json_is_object(value)) {
        json_object_foreach(value, name, member) {
            if (!is_value(member))
                return false;
        }
        return true;
    }
    if (!json_is_array(value) || depth == 0)
        return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_numeric(json_array_get(value, i), depth - 1))
            return false;
    return true;
}

static bool is_of(const char *key, json_t *value) {
    enum { DEPTH = 2 }; /* [[..], ..]: steps of numbers */
    uint64_t producer;
    if (strcmp(key, "stream") == 0)
        return json_is_string(value) && json_string_length(value) <= WIRE_KEY_MAX;
    if (strcmp(key, "end") == 0 || strcmp(key, "learn") == 0 || strcmp(key, "sparse") == 0)
        return json_is_boolean(value);
    if (strcmp(key, "producer") == 0)
        return json_is_string(value) && !wire_producer_parse(json_string_value(value), &producer);
    bool epoch = strcmp(key, "epoch") == 0 || strcmp(key, "label_epoch") == 0;
    bool number = strcmp(key, "sequence") == 0 || strcmp(key, "label_of") == 0;
    json_int_t most = epoch ? UINT32_MAX : number ? SEQUENCE_MAX : -1;
    if (most > 0)
        return json_is_integer(value) && json_integer_value(value) >= 0 &&
               json_integer_value(value) <= most;
    if (strcmp(key, "note") == 0)
        return json_is_string(value) && json_string_length(value) <= WIRE_NOTE_MAX;
    if (strcmp(key, "time") == 0)
        return json_is_number(value);
    return is_numeric(value, DEPTH);
}

static const char *expected(const char *key) {
    static const char *const KNOWN[][2] = {{"stream", "a text of at most 255 bytes"},
                                           {"x", "numbers, words, named columns, or lists of them"},
                                           {"y", "numbers, words, or lists of them"},
                                           {"end", "true or false"},
                                           {"learn", "true or false"},
                                           {"sparse", "true or false"},
                                           {"epoch", "a whole number from 0 to 2^32 - 1"},
                                           {"sequence", "a whole number from 0 to 2^53 - 1"},
                                           {"label_of", "a whole number from 0 to 2^53 - 1"},
                                           {"label_epoch", "a whole number from 0 to 2^32 - 1"},
                                           {"producer", "1 to 16 hexadecimal digits, as a text"},
                                           {"time", "a number"},
                                           {"note", "a text of at most 1000 bytes"}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (strcmp(KNOWN[i][0], key) == 0)
            return KNOWN[i][1];
    return NULL;
}

/* Whether the value has the form of an example; otherwise sets `why`. */
static bool is_example(json_t *value, char why[WHY_SIZE]) {
    const char *key;
    json_t *member;
    if (!json_is_object(value)) {
        snprintf(why, WHY_SIZE, "expected an object {\"stream\": .., \"x\": ..}");
        return false;
    }
    json_object_foreach(value, key, member) {
        const char *wanted = expected(key);
        if (wanted && is_of(key, member))
            continue;
        if (wanted)
            snprintf(why, WHY_SIZE, "\"%s\": expected %s", key, wanted);
        else
            snprintf(why, WHY_SIZE, "unknown member \"%.40s\"; see --key-field and --field", key);
        return false;
    }
    member = json_object_get(value, "x");
    bool x = member && !json_is_null(member), label = json_object_get(value, "label_of");
    if (x && label)
        snprintf(why, WHY_SIZE, "a label (\"label_of\") must not have \"x\"");
    else if (!x && !label)
        snprintf(why, WHY_SIZE, "missing \"x\"");
    return x != label;
}

/* Gives an example without a number the next one of its stream; an example's own number continues
   the stream. A label gets the missing parts of its number. Returns 1 if something was added, 0, or
   -1 (EX_DATAERR: a bad line). */
static int number(struct json *json, json_t *value, struct step *step, struct error *error) {
    const struct source *source = &json->source;
    const char *key = json_string_value(json_object_get(value, "stream"));
    json_t *sequence = json_object_get(value, "sequence");
    bool label = json_object_get(value, "label_of");
    struct held_stream *held = streams_find(&json->streams, key ? key : "", error);
    if (!held || (label && numbers_of_label(source, held, value, error) < 0))
        return -1;
    bool named = json_object_get(value, "producer");
    bool adds = !named && source->producer && (!sequence || source->producer_given);
    if (adds)
        numbers_set_producer(value, source->producer);
    if (!sequence && !json_object_get(value, "epoch"))
        json_object_set_new(value, "epoch", json_integer(source->epoch));
    if (!label && numbers_of_example(held, value, error) < 0)
        return -1;
    if (sequence)
        held->stream.sequence = (uint64_t)json_integer_value(sequence);
    else
        json_object_set_new(value, "sequence", json_integer((json_int_t)held->stream.sequence));
    step->stream = &held->stream;
    step->epoch = (uint32_t)json_integer_value(json_object_get(value, "epoch"));
    step->own_number = sequence != NULL;
    return adds || !sequence || label;
}

/* Adds missing members to the example and sets the step. */
static int complete(struct json *json, json_t *value, struct step *step, struct error *error) {
    bool named = json->source.forced && !json_object_get(value, "stream");
    if (named)
        json_object_set_new(value, "stream", json_string(json->source.forced));
    int numbered = json->source.numbers ? number(json, value, step, error) : 0;
    if (numbered < 0 || (!named && !numbered && !json->mapping))
        return numbered;
    free(json->written);
    json->written = json_dumps(value, JSON_COMPACT);
    if (!json->written)
        return error_no_memory(error);
    step->json = json->written;
    step->json_size = strlen(json->written);
    return 0;
}

/* Reads a line. Returns 1, 0 with a reason in `why`, or -1 if out of memory. */
static int take(struct json *json, const char *line, size_t size, struct step *step,
                char why[WHY_SIZE], struct error *error) {
    json_error_t reason;
    json_t *value = json_loadb(line, size, JSON_REJECT_DUPLICATES, &reason);
    if (!value) {
        snprintf(why, WHY_SIZE, "column %d: %s", reason.column, reason.text);
        return 0;
    }
    int status = 1;
    if (json->mapping) {
        json_t *example = NULL;
        status = mapping_apply(json->mapping, value, &example, why, error);
        json_decref(value);
        value = example;
    }
    if (status > 0)
        status = is_example(value, why);
    step->json = line;
    step->json_size = size;
    if (status > 0 && complete(json, value, step, error) < 0)
        status = -1;
    json_decref(value);
    if (status < 0 && error->status == EX_DATAERR)
        return snprintf(why, WHY_SIZE, "%.*s", WHY_SIZE - 1, error->text), 0;
    return status;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct json *json = (struct json *)source;
    char *line, why[WHY_SIZE];
    size_t size;
    int status;
    while ((status = input_line(source->input, false, &line, &size, error)) > 0) {
        while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\r'))
            size--;
        if (size == 0)
            continue;
        int taken = take(json, line, size, step, why, error);
        if (taken)
            return taken;
        if (!source->skip_bad)
            return error_set(error, EX_DATAERR, "%s:%llu: %s", input_name(source->input),
                             (unsigned long long)input_line_number(source->input), why);
        source->skipped++;
        feed_detail("%s:%llu: skipped: %s", input_name(source->input),
                    (unsigned long long)input_line_number(source->input), why);
    }
    return status;
}

static int rewind_json(struct source *source, uint64_t pass, struct error *error) {
    (void)pass;
    return input_rewind(source->input, error);
}

static void close_json(struct source *source) {
    struct json *json = (struct json *)source;
    input_close(&source->input);
    streams_close(&json->streams);
    mapping_close(&json->mapping);
    free(json->written);
}

const struct source_type source_json = {
    .command = {"json", "[FILE]", "JSON lines, from standard input unless a file is given",
                .complete = COMPLETE_FILE, .rows = OPTIONS},
    .notes = "A line is one example: {\"stream\": \"a\", \"x\": [1, 2], \"y\": [3], \"end\": true, "
             "\"learn\": false}. Only x is required; null is a missing number. --stream names the "
             "stream of lines without one. For other JSON, see --field.",
    .ready = true,
    .maps = true,
    .size = sizeof(struct json),
    .open = open_json,
    .next = next,
    .rewind = rewind_json,
    .close = close_json,
};
