/* Lines of JSON, one example each, handed on as they are once they are known to be examples in
   form: {"stream", "x", "y", "end", "learn", "epoch", "sequence", "time"}, of which x is needed.
   What only the daemon can know (how many numbers it expects) is the daemon's to check. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed.h"
#include "feed_input.h"

enum { WHY_SIZE = 256 };

static const struct option OPTIONS[] = {{0}};

struct json {
    struct source source;
    struct input *input;
    char *named; /* the newest line with --stream's name in it, or NULL */
};

static struct source *create(void) {
    struct json *json = calloc(1, sizeof *json);
    return json ? &json->source : NULL;
}

static int option(struct source *source, int code, const char *value, struct feed_error *error) {
    (void)source, (void)code, (void)value, (void)error;
    return 0;
}

static int open_json(struct source *source, char **operands, int count, struct feed_error *error) {
    struct json *json = (struct json *)source;
    if (source_operands(source, count, 0, 1, error) < 0 ||
        input_open(&json->input, count ? operands[0] : "-", error) < 0)
        return -1;
    source->x = (struct shape){VALUE_REAL, 0};
    source->label = "json";
    source->once = input_is_pipe(json->input);
    return 0;
}

/* Numbers and nulls, in lists down to `depth`. */
static bool is_numeric(const json_t *value, int depth) {
    if (json_is_number(value) || json_is_null(value))
        return true;
    if (!json_is_array(value) || depth == 0)
        return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_numeric(json_array_get(value, i), depth - 1))
            return false;
    return true;
}

static bool is_of(const char *key, const json_t *value) {
    enum { DEPTH = 2 }; /* [[..], ..]: steps of numbers */
    if (strcmp(key, "stream") == 0)
        return json_is_string(value) && json_string_length(value) <= WIRE_KEY_MAX;
    if (strcmp(key, "end") == 0 || strcmp(key, "learn") == 0)
        return json_is_boolean(value);
    if (strcmp(key, "epoch") == 0 || strcmp(key, "sequence") == 0)
        return json_is_integer(value) && json_integer_value(value) >= 0;
    if (strcmp(key, "time") == 0)
        return json_is_number(value);
    return is_numeric(value, DEPTH);
}

static const char *expected(const char *key) {
    static const char *const KNOWN[][2] = {{"stream", "a text of at most 255 bytes"},
                                           {"x", "numbers, or lists of them"},
                                           {"y", "numbers, or lists of them"},
                                           {"end", "true or false"},
                                           {"learn", "true or false"},
                                           {"epoch", "a whole number from 0"},
                                           {"sequence", "a whole number from 0"},
                                           {"time", "a number"}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (strcmp(KNOWN[i][0], key) == 0)
            return KNOWN[i][1];
    return NULL;
}

/* Whether the value is an example in form; else `why` says what is wrong. */
static bool is_example(json_t *value, char why[WHY_SIZE]) {
    const char *key;
    json_t *member;
    if (!json_is_object(value)) {
        snprintf(why, WHY_SIZE, "found no object, expected {\"stream\": .., \"x\": ..}");
        return false;
    }
    json_object_foreach(value, key, member) {
        const char *wanted = expected(key);
        if (wanted && is_of(key, member))
            continue;
        if (wanted)
            snprintf(why, WHY_SIZE, "\"%s\": expected %s", key, wanted);
        else
            snprintf(why, WHY_SIZE, "\"%.40s\" is no member of an example", key);
        return false;
    }
    member = json_object_get(value, "x");
    if (member && !json_is_null(member))
        return true;
    snprintf(why, WHY_SIZE, "there is no \"x\"");
    return false;
}

/* Read the line into the step. False: `why` says what is wrong with it. */
static bool take(struct json *json, const char *line, size_t size, struct step *step,
                 char why[WHY_SIZE]) {
    json_error_t reason;
    json_t *value = json_loadb(line, size, JSON_REJECT_DUPLICATES, &reason);
    if (!value) {
        snprintf(why, WHY_SIZE, "column %d: %s", reason.column, reason.text);
        return false;
    }
    bool good = is_example(value, why);
    step->json = line;
    step->json_size = size;
    if (good && json->source.forced && !json_object_get(value, "stream")) {
        free(json->named);
        json_object_set_new(value, "stream", json_string(json->source.forced));
        json->named = json_dumps(value, JSON_COMPACT);
        good = json->named != NULL;
        step->json = json->named;
        step->json_size = good ? strlen(json->named) : 0;
        if (!good)
            snprintf(why, WHY_SIZE, "it cannot be written again with --stream's name");
    }
    json_decref(value);
    return good;
}

static int next(struct source *source, struct step *step, struct feed_error *error) {
    struct json *json = (struct json *)source;
    char *line, why[WHY_SIZE];
    size_t size;
    int status;
    while ((status = input_line(json->input, false, &line, &size, error)) > 0) {
        while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\r'))
            size--;
        if (size == 0)
            continue;
        if (take(json, line, size, step, why))
            return 1;
        if (!source->skip_bad)
            return feed_fail(error, EX_DATAERR, "%s:%llu: %s", input_name(json->input),
                             (unsigned long long)input_line_number(json->input), why);
        source->skipped++;
        feed_detail("%s:%llu: skipped: %s", input_name(json->input),
                    (unsigned long long)input_line_number(json->input), why);
    }
    return status;
}

static int rewind_json(struct source *source, uint64_t pass, struct feed_error *error) {
    struct json *json = (struct json *)source;
    (void)pass;
    return input_rewind(json->input, error);
}

static double done(const struct source *source) {
    const struct json *json = (const struct json *)source;
    return input_done(json->input);
}

static void close_json(struct source **source) {
    struct json *json = (struct json *)*source;
    input_close(&json->input);
    free(json->named);
    free(json);
    *source = NULL;
}

const struct source_type source_json = {
    .name = "json",
    .operands = "[FILE]",
    .summary = "lines of JSON, from standard input unless a file is named",
    .help =
        "  A line is one example: {\"stream\": \"a\", \"x\": [1, 2], \"y\": [3], \"end\": true,\n"
        "  \"learn\": false}; x alone is needed, null is a missing number. --stream names the\n"
        "  stream of lines that name none.\n",
    .options = OPTIONS,
    .create = create,
    .option = option,
    .open = open_json,
    .next = next,
    .rewind = rewind_json,
    .done = done,
    .close = close_json,
};
