#include "mapping_options.h"

#include <string.h>
#include <sysexits.h>

#include "error.h"
#include "moment.h"
#include "wire.h"

/* Members separated by dots; a member must not be empty. */
static bool is_path(const char *path) {
    size_t size = strlen(path);
    return size > 0 && size < MAPPING_PATH_SIZE && path[0] != '.' && path[size - 1] != '.' &&
           !strstr(path, "..");
}

size_t mapping_column(const char *field) {
    const char *equals = strchr(field, '=');
    return equals && is_path(equals + 1) ? (size_t)(equals - field) : 0;
}

static int check_field(const struct mapping_options *options, size_t n, struct error *error) {
    const char *field = options->fields[n];
    size_t size = mapping_column(field);
    if (size == 0 || !wire_is_utf8(field, strlen(field)))
        return error_set(error, EX_USAGE,
                         "expected COLUMN=PATH, as in temperature=data.temperature, got '%s'",
                         field);
    for (size_t k = 0; k < n; k++)
        if (strncmp(options->fields[k], field, size + 1) == 0)
            return error_set(error, EX_USAGE, "duplicate column '%.*s'", (int)size, field);
    return 0;
}

const char *mapping_check(const struct mapping_options *options, struct error *error) {
    const struct mapping_names *names = options->names;
    for (size_t n = 0; n < options->count; n++)
        if (check_field(options, n, error) < 0)
            return names->field;
    const char *const paths[][2] = {{options->key, names->key}, {options->time, names->time}};
    for (size_t n = 0; n < sizeof paths / sizeof *paths; n++)
        if (paths[n][0] && !is_path(paths[n][0])) {
            error_set(error, EX_USAGE, "expected a JSON field, as in data.name, got '%s'",
                      paths[n][0]);
            return paths[n][1];
        }
    if (options->format && !options->time)
        error_set(error, EX_USAGE, "requires %s", names->time);
    else if (time_check(options->format, error) == 0)
        return NULL;
    return names->format;
}
