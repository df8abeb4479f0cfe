#include "feed_columns.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "streams/feed.h"

enum { FOUND_MAX = 40, LISTED_SIZE = 512, NUMBER_SIZE = 24 };

static const char BLANKS[] = " \t";

/* Removes blanks from both ends, in place. */
static char *trim(char *text) {
    text += strspn(text, BLANKS);
    size_t size = strlen(text);
    while (size > 0 && strchr(BLANKS, text[size - 1]))
        size--;
    text[size] = '\0';
    return text;
}

int columns_open(struct columns *columns, const char *file, char **fields, size_t count,
                 bool header, struct error *error) {
    columns->file = file;
    columns->missing = columns->missing ? columns->missing : MISSING_WORDS;
    columns->names = calloc(count, sizeof *columns->names);
    columns->factors = malloc(count * sizeof *columns->factors);
    if (!columns->names || !columns->factors)
        return error_no_memory(error);
    columns->count = count;
    for (size_t i = 0; i < count; i++) {
        char number[NUMBER_SIZE];
        snprintf(number, sizeof number, "%zu", i + 1);
        columns->names[i] = strdup(header ? trim(fields[i]) : number);
        columns->factors[i] = 1;
        if (!columns->names[i])
            return error_no_memory(error);
    }
    return 0;
}

void columns_close(struct columns *columns) {
    for (size_t i = 0; i < columns->count; i++)
        free(columns->names[i]);
    free(columns->names);
    free(columns->factors);
    *columns = (struct columns){0};
}

static int no_column(const struct columns *columns, const char *option, const char *name,
                     struct error *error) {
    char listed[LISTED_SIZE] = "";
    size_t used = 0;
    for (size_t i = 0; i < columns->count && used < sizeof listed; i++)
        used += (size_t)snprintf(listed + used, sizeof listed - used, "%s%s", i ? ", " : "",
                                 columns->names[i]);
    return error_set(error, EX_USAGE, "%s: %s '%s'%s in %s; columns: %s%s", option,
                     strpbrk(name, "*?[") ? "no column matches" : "column", name,
                     strpbrk(name, "*?[") ? "" : " not found", columns->file, listed,
                     used < sizeof listed ? "" : " ...");
}

static bool is_number(const struct columns *columns, const char *text, char **end, size_t *index) {
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long number = strtoul(text, end, 10);
    *index = number - 1;
    return number >= 1 && number <= columns->count;
}

static bool find_name(const struct columns *columns, const char *name, size_t size, size_t *index) {
    for (*index = 0; *index < columns->count; ++*index)
        if (strlen(columns->names[*index]) == size &&
            strncmp(columns->names[*index], name, size) == 0)
            return true;
    return false;
}

static bool find(const struct columns *columns, const char *item, size_t *first, size_t *last) {
    char *end;
    const char *dots = strstr(item, "..");
    *last = 0;
    if (find_name(columns, item, strlen(item), first)) {
        *last = *first;
        return true;
    }
    if (dots && find_name(columns, item, (size_t)(dots - item), first) &&
        find_name(columns, dots + 2, strlen(dots + 2), last))
        return *last >= *first;
    if (!is_number(columns, item, &end, first))
        return false;
    *last = *first;
    if (*end == '-' && !is_number(columns, end + 1, &end, last))
        return false;
    return *end == '\0' && *last >= *first;
}

int columns_find(const struct columns *columns, const char *option, const char *name, size_t *index,
                 struct error *error) {
    size_t last;
    if (!find(columns, name, index, &last) || last != *index)
        return no_column(columns, option, name, error);
    return 0;
}

static bool is_selected(const struct selection *selection, size_t index) {
    for (size_t i = 0; i < selection->count; i++)
        if (selection->indices[i] == index)
            return true;
    return false;
}

static int select_item(const struct columns *columns, const char *option, const char *item,
                       struct selection *selection, struct error *error) {
    size_t first, last;
    bool pattern = !find(columns, item, &first, &last), found = !pattern;
    if (pattern) {
        first = 0;
        last = columns->count - 1;
    }
    size_t room = selection->count + last - first + 1;
    size_t *grown = realloc(selection->indices, room * sizeof *grown);
    if (!grown)
        return error_no_memory(error);
    selection->indices = grown;
    for (size_t i = first; i <= last; i++) {
        bool matches = pattern && fnmatch(item, columns->names[i], 0) == 0;
        found |= matches;
        if (!pattern || (matches && !is_selected(selection, i)))
            grown[selection->count++] = i;
    }
    return found ? 0 : no_column(columns, option, item, error);
}

int columns_select(const struct columns *columns, const char *option, const char *list,
                   struct selection *selection, struct error *error) {
    char *copy = strdup(list), *rest = copy, *item;
    int status = copy ? 0 : error_no_memory(error);
    while (status == 0 && (item = strsep(&rest, ",")))
        status = select_item(columns, option, trim(item), selection, error);
    free(copy);
    return status;
}

static int parse_factor(const char *option, const char *text, double *factor, struct error *error) {
    char *end;
    *factor = strtod(text, &end);
    if (end != text && !*end && !isnan(*factor))
        return 0;
    return error_set(error, EX_USAGE, "%s: expected a number, got '%s'", option, text);
}

int columns_multiply(struct columns *columns, const char *option, const char *list,
                     struct error *error) {
    char *copy = strdup(list), *rest = copy, *item;
    int status = copy ? 0 : error_no_memory(error);
    while (status == 0 && (item = strsep(&rest, ","))) {
        char *equals = strrchr(item, '=');
        size_t index;
        if (!equals) {
            status =
                error_set(error, EX_USAGE, "%s: expected COLUMN=FACTOR, got '%s'", option, item);
            break;
        }
        *equals = '\0';
        status = columns_find(columns, option, trim(item), &index, error);
        if (status == 0)
            status = parse_factor(option, equals + 1, &columns->factors[index], error);
    }
    free(copy);
    return status;
}

bool cell_missing(const struct columns *columns, const char *cell) {
    cell += strspn(cell, BLANKS);
    size_t size = strlen(cell);
    while (size > 0 && strchr(BLANKS, cell[size - 1]))
        size--;
    for (const char *word = columns->missing; size > 0; word++) {
        size_t length = strcspn(word, ",");
        if (length == size && strncasecmp(cell, word, size) == 0)
            return true;
        word += length;
        if (!*word)
            return false;
    }
    return true;
}

static bool expected(const char *cell, const char *what, char why[CELL_WHY_SIZE]) {
    snprintf(why, CELL_WHY_SIZE, "expected %s, got '%.*s'", what, FOUND_MAX, cell);
    return false;
}

bool cell_real(const struct columns *columns, size_t column, const char *cell, float *value,
               char why[CELL_WHY_SIZE]) {
    char *end;
    *value = NAN;
    if (cell_missing(columns, cell))
        return true;
    cell += strspn(cell, BLANKS);
    double parsed = strtod(cell, &end) * columns->factors[column];
    bool number = end > cell && end[strspn(end, BLANKS)] == '\0' &&
                  strspn(cell, "+-.0123456789eE") >= (size_t)(end - cell);
    if (number && isfinite((float)parsed)) {
        *value = (float)parsed;
        return true;
    }
    return expected(cell, number ? "a number in the range of float32" : "a number", why);
}

bool cell_class(const struct columns *columns, const char *cell, uint32_t *value,
                char why[CELL_WHY_SIZE]) {
    char *end;
    cell += strspn(cell, BLANKS);
    *value = WIRE_NO_CLASS;
    if (cell_missing(columns, cell))
        return true;
    unsigned long long parsed = strtoull(cell, &end, 10);
    if (*cell < '0' || *cell > '9' || end[strspn(end, BLANKS)] || parsed >= WIRE_NO_CLASS)
        return expected(cell, "a class: a whole number from 0", why);
    *value = (uint32_t)parsed;
    return true;
}
