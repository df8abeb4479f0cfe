#include "feed_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/text.h"
#include "common/wire.h"
#include "feed_time.h"

enum { LISTED_SIZE = 512, PREFIX_SIZE = 256, NUMBER_SIZE = 32 };

struct fields {
    const struct source *source;
    const struct field_options *options;
    char **names; /* (options->columns.count,) of columns */
    struct time_reader time;
    bool ignored_said;
    char *text; /* of the newest message */
};

/* ---- options ---- */

static int wrong_path(const char *option, const char *path, const char *expected,
                      struct error *error) {
    return error_set(error, EX_USAGE, "--%s: found '%s', expected %s", option, path, expected);
}

/* Members between dots, none of them empty. */
static bool is_path(const char *path) {
    size_t size = strlen(path);
    return size > 0 && size < PREFIX_SIZE && path[0] != '.' && path[size - 1] != '.' &&
           !strstr(path, "..");
}

static const char *path_of(const char *field) {
    return strchr(field, '=') + 1;
}

static int add_column(struct fields *fields, size_t n, struct error *error) {
    const char *field = fields->options->columns.values[n], *equals = strchr(field, '=');
    if (!equals || equals == field || !is_path(equals + 1))
        return wrong_path("field", field, "COLUMN=PATH, as temperature=data.temperature", error);
    fields->names[n] = strndup(field, (size_t)(equals - field));
    if (!fields->names[n])
        return error_no_memory(error);
    for (size_t k = 0; k < n; k++)
        if (strcmp(fields->names[k], fields->names[n]) == 0)
            return error_set(error, EX_USAGE, "--field: column '%s' given twice", fields->names[n]);
    return 0;
}

int fields_open(struct fields **result, const struct source *source, struct error *error) {
    const struct field_options *options = &source->fields;
    *result = NULL;
    if (options->time_format && !options->time)
        return error_set(error, EX_USAGE, "--time-format: only with --time-field");
    if (options->columns.count == 0 && !options->key && !options->time)
        return 0;
    if (options->key && !is_path(options->key))
        return wrong_path("key-field", options->key, "a field of JSON, as device.name", error);
    if (options->time && !is_path(options->time))
        return wrong_path("time-field", options->time, "a field of JSON, as data.time", error);
    if (time_check(options->time_format, error) < 0)
        return -1;
    struct fields *fields = *result = calloc(1, sizeof *fields);
    if (!fields || !(fields->names = calloc(options->columns.count + 1, sizeof *fields->names)))
        return error_no_memory(error);
    fields->source = source;
    fields->options = options;
    fields->time = (struct time_reader){.name = options->time, .format = options->time_format};
    for (size_t n = 0; n < options->columns.count; n++)
        if (add_column(fields, n, error) < 0)
            return -1;
    return 0;
}

void fields_close(struct fields **pointer) {
    struct fields *fields = *pointer;
    if (!fields)
        return;
    for (size_t n = 0; fields->names && n < fields->options->columns.count; n++)
        free(fields->names[n]);
    free(fields->names);
    free(fields->text);
    free(fields);
    *pointer = NULL;
}

/* ---- paths ---- */

static json_t *find_element(const json_t *list, const char *number, size_t size) {
    char *end;
    unsigned long index = strtoul(number, &end, 10);
    return *number >= '0' && *number <= '9' && end == number + size ? json_array_get(list, index)
                                                                    : NULL;
}

/* What is at the path, or NULL. A name of a member may have dots itself. */
static json_t *find(const json_t *value, const char *path) {
    while (value) {
        size_t size = strcspn(path, ".");
        json_t *whole = json_object_get(value, path);
        if (!path[size] || whole)
            return json_is_array(value) ? find_element(value, path, size) : whole;
        char name[PREFIX_SIZE];
        snprintf(name, sizeof name, "%.*s", (int)size, path);
        value =
            json_is_array(value) ? find_element(value, path, size) : json_object_get(value, name);
        path += size + 1;
    }
    return NULL;
}

/* Whether the path is named by an option, or with `inside` leads to one that is. */
static bool is_named(const struct fields *fields, const char *path, bool inside) {
    const struct field_options *options = fields->options;
    const char *others[] = {options->key, options->time};
    size_t size = strlen(path), count = options->columns.count;
    for (size_t n = 0; n < count + 2; n++) {
        const char *named = n < count ? path_of(options->columns.values[n]) : others[n - count];
        if (named && strncmp(named, path, size) == 0 && named[size] == (inside ? '.' : '\0'))
            return true;
    }
    return false;
}

/* ---- fields that nothing names ---- */

struct ignored {
    char listed[LISTED_SIZE];
    size_t used, count;
};

static void list(struct ignored *ignored, const char *path) {
    char copy[PREFIX_SIZE];
    const char *comma = ignored->count++ ? ", " : "";
    text_copy(copy, sizeof copy, path);
    size_t more = strlen(comma) + strlen(copy);
    if (ignored->used + more + sizeof ", ..." > sizeof ignored->listed) {
        ignored->used = sizeof ignored->listed; /* nothing after it */
        return;
    }
    ignored->used += (size_t)snprintf(ignored->listed + ignored->used,
                                      sizeof ignored->listed - ignored->used, "%s%s", comma, copy);
}

/* `all`: without --field the members of the object itself are columns. */
static void find_ignored(const struct fields *fields, json_t *value, const char *prefix, bool all,
                         struct ignored *ignored) {
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member) {
        char path[PREFIX_SIZE];
        int size = snprintf(path, sizeof path, "%s%s", prefix, name);
        if (size >= (int)sizeof path || is_named(fields, path, false) ||
            (all && !json_is_object(member) && !json_is_array(member)))
            continue;
        if (!is_named(fields, path, true)) {
            list(ignored, path);
        } else if (json_is_object(member) && size + 1 < (int)sizeof path) {
            path[size] = '.';
            path[size + 1] = '\0';
            find_ignored(fields, member, path, false, ignored);
        }
    }
}

/* 0: --strict allows none. */
static int check_ignored(struct fields *fields, json_t *value, char why[MESSAGE_WHY_SIZE]) {
    struct ignored ignored = {.used = 0};
    if (fields->ignored_said && !fields->source->strict)
        return 1;
    find_ignored(fields, value, "", fields->options->columns.count == 0, &ignored);
    if (ignored.count == 0)
        return 1;
    const char *more = ignored.used == sizeof ignored.listed ? ", ..." : "";
    if (fields->source->strict) {
        snprintf(why, MESSAGE_WHY_SIZE, "unknown field%s %.160s%s: no --field names %s",
                 text_s(ignored.count), ignored.listed, more, ignored.count == 1 ? "it" : "them");
        return 0;
    }
    feed_say("ignored field%s: %s%s (--field COLUMN=PATH sends a field, --strict refuses others)",
             text_s(ignored.count), ignored.listed, more);
    fields->ignored_said = true;
    return 1;
}

/* ---- examples ---- */

static int wrong(char why[MESSAGE_WHY_SIZE], const char *path, const char *what) {
    snprintf(why, MESSAGE_WHY_SIZE, "field '%.80s': %.160s", path, what);
    return 0;
}

/* A number or a text; a truth is 1 or 0. NULL: none of these. */
static json_t *value_of(json_t *value) {
    if (json_is_boolean(value))
        return json_integer(json_is_true(value));
    return json_is_array(value) || json_is_object(value) ? NULL : json_incref(value);
}

static int map_key(const struct fields *fields, const json_t *value, json_t *example,
                   char why[MESSAGE_WHY_SIZE]) {
    const char *path = fields->options->key;
    char number[NUMBER_SIZE];
    json_t *key = path ? find(value, path) : NULL;
    if (!path)
        return 1;
    if (!key)
        return wrong(why, path, "not found; it names the stream (--key-field)");
    if (json_is_string(key) && json_string_length(key) <= WIRE_KEY_MAX)
        return json_object_set(example, "stream", key) == 0;
    if (!json_is_integer(key))
        return wrong(why, path, "expected a text of at most 255 bytes, or a whole number");
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(key));
    return json_object_set_new(example, "stream", json_string(number)) == 0;
}

static int map_time(struct fields *fields, const json_t *value, json_t *example,
                    char why[MESSAGE_WHY_SIZE], struct error *error) {
    const char *path = fields->options->time;
    char number[NUMBER_SIZE], what[TIME_WHY_SIZE];
    const json_t *time = path ? find(value, path) : NULL;
    double seconds;
    if (!path)
        return 1;
    if (!time)
        return wrong(why, path, "not found; it is the time (--time-field)");
    if (json_is_integer(time))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(time));
    else if (json_is_real(time))
        snprintf(number, sizeof number, "%.17g", json_real_value(time));
    else if (!json_is_string(time))
        return wrong(why, path, "expected a number or a text");
    if (time_read(&fields->time, json_is_string(time) ? json_string_value(time) : number, &seconds,
                  what))
        return json_object_set_new(example, "time", json_real(seconds)) == 0;
    if (fields->time.unclear)
        return error_set(error, EX_USAGE, "field '%s': %s", path, what);
    return wrong(why, path, what);
}

/* Columns that --field names; one that is not found is missing. */
static int map_columns(const struct fields *fields, const json_t *value, json_t *x,
                       char why[MESSAGE_WHY_SIZE]) {
    const struct option_list *columns = &fields->options->columns;
    for (size_t n = 0; n < columns->count; n++) {
        const char *path = path_of(columns->values[n]);
        json_t *found = find(value, path), *one = found ? value_of(found) : NULL;
        if (found && !one)
            return wrong(why, path, "expected a number or a text");
        if (one)
            json_object_set_new(x, fields->names[n], one);
    }
    return 1;
}

static int map_members(const struct fields *fields, json_t *value, json_t *x) {
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member) {
        json_t *one = is_named(fields, name, false) ? NULL : value_of(member);
        if (one)
            json_object_set_new(x, name, one);
    }
    return 1;
}

int fields_map(struct fields *fields, json_t *value, json_t **example, char why[MESSAGE_WHY_SIZE],
               struct error *error) {
    if (!json_is_object(value))
        return snprintf(why, MESSAGE_WHY_SIZE, "expected an object of JSON (--field)"), 0;
    json_t *made = json_object(), *x = json_object();
    int status = check_ignored(fields, value, why);
    if (status > 0)
        status = map_key(fields, value, made, why);
    if (status > 0)
        status = map_time(fields, value, made, why, error);
    if (status > 0)
        status = fields->options->columns.count ? map_columns(fields, value, x, why)
                                                : map_members(fields, value, x);
    if (status > 0 && json_object_size(x) == 0) {
        snprintf(why, MESSAGE_WHY_SIZE, "it has none of the fields of x");
        status = 0;
    }
    json_object_set_new(made, "x", x);
    if (status > 0)
        *example = made;
    else
        json_decref(made);
    return status;
}

int fields_message(struct fields *fields, struct message *message, char why[MESSAGE_WHY_SIZE],
                   struct error *error) {
    json_error_t reason;
    json_t *example = NULL,
           *value = json_loadb(message->bytes, message->size, JSON_REJECT_DUPLICATES, &reason);
    if (!value) {
        snprintf(why, MESSAGE_WHY_SIZE, "expected an object of JSON (column %d: %.160s)",
                 reason.column, reason.text);
        return 0;
    }
    int status = fields_map(fields, value, &example, why, error);
    json_decref(value);
    if (status <= 0)
        return status;
    free(fields->text);
    fields->text = json_dumps(example, JSON_COMPACT);
    json_decref(example);
    if (!fields->text)
        return error_no_memory(error);
    message->bytes = fields->text;
    message->size = strlen(fields->text);
    return 1;
}
