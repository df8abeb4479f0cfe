#include "mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/moment.h"
#include "common/text.h"
#include "common/wire.h"

enum { LISTED_SIZE = 512, NUMBER_SIZE = 32 };

struct mapping {
    struct mapping_options options;
    char **names; /* (options.count,) column names */
    struct time_reader time;
    bool timed; /* a time has been read: a later message of another form is rejected */
    bool ignored_reported;
    char *text; /* memory of the newest message */
};

int mapping_open(struct mapping **result, const struct mapping_options *options,
                 struct error *error) {
    const char *wrong = mapping_check(options, error);
    *result = NULL;
    if (wrong)
        return error_prefix(error, "%s", wrong);
    if (options->count == 0 && !options->key && !options->time)
        return 0;
    struct mapping *mapping = *result = calloc(1, sizeof *mapping);
    if (!mapping || !(mapping->names = calloc(options->count + 1, sizeof *mapping->names)))
        return error_no_memory(error);
    mapping->options = *options;
    mapping->time = (struct time_reader){.format = options->format,
                                         .option = options->names->format,
                                         .name = options->time,
                                         .report = options->report};
    for (size_t n = 0; n < options->count; n++) {
        const char *field = options->fields[n];
        mapping->names[n] = strndup(field, mapping_column(field));
        if (!mapping->names[n])
            return error_no_memory(error);
    }
    return 0;
}

void mapping_close(struct mapping **pointer) {
    struct mapping *mapping = *pointer;
    if (!mapping)
        return;
    for (size_t n = 0; mapping->names && n < mapping->options.count; n++)
        free(mapping->names[n]);
    free(mapping->names);
    free(mapping->text);
    free(mapping);
    *pointer = NULL;
}

/* ---- Paths ---- */

static json_t *find_element(const json_t *list, const char *number, size_t size) {
    char *end;
    unsigned long index = strtoul(number, &end, 10);
    return *number >= '0' && *number <= '9' && end == number + size ? json_array_get(list, index)
                                                                    : NULL;
}

static const char *path_of(const char *field) {
    return strchr(field, '=') + 1;
}

/* Finds the value at a path, or returns NULL. A member name may contain dots. */
static json_t *find(const json_t *value, const char *path) {
    while (value) {
        size_t size = strcspn(path, ".");
        json_t *whole = json_object_get(value, path);
        if (!path[size] || whole)
            return json_is_array(value) ? find_element(value, path, size) : whole;
        char name[MAPPING_PATH_SIZE];
        snprintf(name, sizeof name, "%.*s", (int)size, path);
        value =
            json_is_array(value) ? find_element(value, path, size) : json_object_get(value, name);
        path += size + 1;
    }
    return NULL;
}

/* Whether an option names the path or, with `inside`, a path below it. */
static bool is_named(const struct mapping *mapping, const char *path, bool inside) {
    const struct mapping_options *options = &mapping->options;
    const char *others[] = {options->key, options->time};
    size_t size = strlen(path), count = options->count;
    for (size_t n = 0; n < count + 2; n++) {
        const char *named = n < count ? path_of(options->fields[n]) : others[n - count];
        if (named && strncmp(named, path, size) == 0 && named[size] == (inside ? '.' : '\0'))
            return true;
    }
    return false;
}

/* ---- Fields that no option names ---- */

struct ignored {
    char listed[LISTED_SIZE];
    size_t used, count;
};

static void list(struct ignored *ignored, const char *path) {
    char copy[MAPPING_PATH_SIZE];
    const char *comma = ignored->count++ ? ", " : "";
    text_copy(copy, sizeof copy, path);
    size_t more = strlen(comma) + strlen(copy);
    if (ignored->used + more + sizeof ", ..." > sizeof ignored->listed) {
        ignored->used = sizeof ignored->listed; /* the list ends here */
        return;
    }
    ignored->used += (size_t)snprintf(ignored->listed + ignored->used,
                                      sizeof ignored->listed - ignored->used, "%s%s", comma, copy);
}

static void find_ignored(const struct mapping *mapping, json_t *value, const char *prefix, bool all,
                         struct ignored *ignored);

/* With `used`, no option needs to name the member. A path that does not fit cannot be named. */
static void check_member(const struct mapping *mapping, json_t *member, const char *prefix,
                         const char *name, bool used, struct ignored *ignored) {
    char path[MAPPING_PATH_SIZE];
    int size = snprintf(path, sizeof path, "%s%s", prefix, name);
    bool fits = size < (int)sizeof path;
    if (fits && size + 1 < (int)sizeof path && is_named(mapping, path, true)) {
        path[size] = '.';
        path[size + 1] = '\0';
        find_ignored(mapping, member, path, false, ignored);
    } else if (!used && !(fits && is_named(mapping, path, false))) {
        list(ignored, path);
    }
}

/* With `all` (no --field), the members of the object are columns. List elements are not fields, but
   may contain some if an option's path leads into them. */
static void find_ignored(const struct mapping *mapping, json_t *value, const char *prefix, bool all,
                         struct ignored *ignored) {
    const char *name;
    char number[NUMBER_SIZE];
    json_t *member;
    size_t n;
    json_object_foreach(value, name, member)
        check_member(mapping, member, prefix, name,
                     all && !json_is_object(member) && !json_is_array(member), ignored);
    json_array_foreach(value, n, member) {
        snprintf(number, sizeof number, "%zu", n);
        check_member(mapping, member, prefix, number, true, ignored);
    }
}

/* Returns 0 if --strict rejects a field. */
static int check_ignored(struct mapping *mapping, json_t *value, char why[MESSAGE_WHY_SIZE]) {
    struct ignored ignored = {.used = 0};
    if (mapping->ignored_reported && !mapping->options.strict)
        return 1;
    find_ignored(mapping, value, "", mapping->options.count == 0, &ignored);
    if (ignored.count == 0)
        return 1;
    const char *more = ignored.used == sizeof ignored.listed ? ", ..." : "";
    if (mapping->options.strict) {
        snprintf(why, MESSAGE_WHY_SIZE, "unknown field%s %.160s%s: no %s names %s",
                 text_s(ignored.count), ignored.listed, more, mapping->options.names->field,
                 ignored.count == 1 ? "it" : "them");
        return 0;
    }
    mapping->options.report(
        "ignored field%s: %s%s (%s COLUMN=PATH sends a field, %s rejects unknown fields)",
        text_s(ignored.count), ignored.listed, more, mapping->options.names->field,
        mapping->options.names->strict);
    mapping->ignored_reported = true;
    return 1;
}

/* ---- Examples ---- */

static int __attribute__((format(printf, 3, 4)))
wrong(char why[MESSAGE_WHY_SIZE], const char *path, const char *format, ...) {
    char what[TIME_WHY_SIZE];
    TEXT_FORMAT(what, sizeof what, format);
    snprintf(why, MESSAGE_WHY_SIZE, "field '%.40s': %s", path, what);
    return 0;
}

/* Adds the value, which the object then owns. Returns 1. */
static int put(json_t *object, const char *name, json_t *value, struct error *error) {
    return json_object_set_new(object, name, value) == 0 ? 1 : error_no_memory(error);
}

/* Converts a value to a number or text; true is 1, false is 0. Returns NULL for other types. */
static json_t *value_of(json_t *value) {
    if (json_is_boolean(value))
        return json_integer(json_is_true(value));
    return json_is_array(value) || json_is_object(value) ? NULL : json_incref(value);
}

static int map_key(const struct mapping *mapping, const json_t *value, json_t *example,
                   char why[MESSAGE_WHY_SIZE], struct error *error) {
    const char *path = mapping->options.key;
    char number[NUMBER_SIZE];
    json_t *key = path ? find(value, path) : NULL;
    if (!path)
        return 1;
    if (!key)
        return wrong(why, path, "stream name not found (%s)", mapping->options.names->key);
    if (json_is_string(key) && json_string_length(key) <= WIRE_KEY_MAX)
        return put(example, "stream", json_incref(key), error);
    if (!json_is_integer(key))
        return wrong(why, path, "expected a text of at most 255 bytes or a whole number");
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(key));
    return put(example, "stream", json_string(number), error);
}

static int map_time(struct mapping *mapping, const json_t *value, json_t *example,
                    char why[MESSAGE_WHY_SIZE], struct error *error) {
    const char *path = mapping->options.time;
    char number[NUMBER_SIZE], what[TIME_WHY_SIZE];
    const json_t *time = path ? find(value, path) : NULL;
    double seconds;
    if (!path)
        return 1;
    if (!time)
        return wrong(why, path, "time not found (%s)", mapping->options.names->time);
    if (json_is_integer(time))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(time));
    else if (json_is_real(time))
        snprintf(number, sizeof number, "%.17g", json_real_value(time));
    else if (!json_is_string(time))
        return wrong(why, path, "expected a number or a text");
    bool good = time_read(&mapping->time, json_is_string(time) ? json_string_value(time) : number,
                          &seconds, what);
    mapping->timed |= good;
    if (good)
        return put(example, "time", json_real(seconds), error);
    if (mapping->time.unclear && !mapping->timed)
        return error_set(error, EX_USAGE, "field '%s': %s", path, what);
    return wrong(why, path, "%s", what);
}

/* Fills the columns that --field names. A field that is not found is a missing value. */
static int map_columns(const struct mapping *mapping, const json_t *value, json_t *x,
                       char why[MESSAGE_WHY_SIZE], struct error *error) {
    for (size_t n = 0; n < mapping->options.count; n++) {
        const char *path = path_of(mapping->options.fields[n]);
        json_t *found = find(value, path), *one = found ? value_of(found) : NULL;
        if (found && !one)
            return wrong(why, path, "expected a number or a text");
        if (one && put(x, mapping->names[n], one, error) < 0)
            return -1;
    }
    return 1;
}

static int map_members(const struct mapping *mapping, json_t *value, json_t *x,
                       struct error *error) {
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member) {
        json_t *one = is_named(mapping, name, false) ? NULL : value_of(member);
        if (one && put(x, name, one, error) < 0)
            return -1;
    }
    return 1;
}

int mapping_apply(struct mapping *mapping, json_t *value, json_t **example,
                  char why[MESSAGE_WHY_SIZE], struct error *error) {
    if (!json_is_object(value))
        return snprintf(why, MESSAGE_WHY_SIZE, "expected a JSON object (%s)",
                        mapping->options.names->field),
               0;
    json_t *made = json_object(), *x = json_object();
    int status = made && x ? check_ignored(mapping, value, why) : error_no_memory(error);
    if (status > 0)
        status = map_key(mapping, value, made, why, error);
    if (status > 0)
        status = map_time(mapping, value, made, why, error);
    if (status > 0)
        status = mapping->options.count ? map_columns(mapping, value, x, why, error)
                                        : map_members(mapping, value, x, error);
    if (status > 0 && json_object_size(x) == 0) {
        snprintf(why, MESSAGE_WHY_SIZE, "found no field for x");
        status = 0;
    }
    if (json_object_set_new(made, "x", x) < 0 && status >= 0)
        status = error_no_memory(error);
    if (status == 0)
        text_clean(why); /* it may quote the message, and becomes a dead letter's reason */
    if (status > 0)
        *example = made;
    else
        json_decref(made);
    return status;
}

int mapping_message(struct mapping *mapping, struct message *message, char why[MESSAGE_WHY_SIZE],
                    struct error *error) {
    json_error_t reason;
    json_t *example = NULL,
           *value = json_loadb(message->bytes, message->size, JSON_REJECT_DUPLICATES, &reason);
    if (!value) {
        snprintf(why, MESSAGE_WHY_SIZE, "expected a JSON object (column %d: %.160s)", reason.column,
                 reason.text);
        text_clean(why);
        return 0;
    }
    int status = mapping_apply(mapping, value, &example, why, error);
    json_decref(value);
    if (status <= 0)
        return status;
    free(mapping->text);
    mapping->text = json_dumps(example, JSON_COMPACT);
    json_decref(example);
    if (!mapping->text)
        return error_no_memory(error);
    message->bytes = mapping->text;
    message->size = strlen(mapping->text);
    return 1;
}
