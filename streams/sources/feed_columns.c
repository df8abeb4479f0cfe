#include "feed_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "streams/feed.h"

enum { FOUND_MAX = 40, LISTED_SIZE = 512, NUMBER_SIZE = 24 };

static const char BLANKS[] = " \t";

/* Take blanks off both ends, in place. */
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
    return error_set(error, EX_USAGE, "%s: there is no column '%s' in %s; it has %zu: %s%s", option,
                     name, columns->file, columns->count, listed,
                     used < sizeof listed ? "" : " ...");
}

static bool is_number(const struct columns *columns, const char *text, char **end, size_t *index) {
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long number = strtoul(text, end, 10);
    *index = number - 1;
    return number >= 1 && number <= columns->count;
}

/* The columns first..last that an item names. */
static bool find(const struct columns *columns, const char *item, size_t *first, size_t *last) {
    char *end;
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->names[i], item) == 0) {
            *first = *last = i;
            return true;
        }
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

int columns_select(const struct columns *columns, const char *option, const char *list,
                   struct selection *selection, struct error *error) {
    char *copy = strdup(list), *rest = copy, *item;
    int status = copy ? 0 : error_no_memory(error);
    while (status == 0 && (item = strsep(&rest, ","))) {
        size_t first, last;
        item = trim(item);
        if (!find(columns, item, &first, &last)) {
            status = no_column(columns, option, item, error);
            break;
        }
        size_t *grown =
            realloc(selection->indices, (selection->count + last - first + 1) * sizeof *grown);
        if (!grown) {
            status = error_no_memory(error);
            break;
        }
        selection->indices = grown;
        while (first <= last)
            grown[selection->count++] = first++;
    }
    free(copy);
    return status;
}

static int parse_factor(const char *option, const char *text, double *factor, struct error *error) {
    char *end;
    *factor = strtod(text, &end);
    if (end != text && !*end && !isnan(*factor))
        return 0;
    return error_set(error, EX_USAGE, "%s: found '%s', expected a number", option, text);
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
                error_set(error, EX_USAGE, "%s: found '%s', expected COLUMN=FACTOR", option, item);
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

/* Nothing, nan or NA, with or without blanks around it. */
static bool is_missing(const char *cell) {
    cell += strspn(cell, BLANKS);
    size_t size = strcspn(cell, BLANKS);
    if (cell[size + strspn(cell + size, BLANKS)])
        return false;
    return size == 0 || (size == 3 && strncasecmp(cell, "nan", size) == 0) ||
           (size == 2 && strncmp(cell, "NA", size) == 0);
}

static bool expected(const char *cell, const char *what, char why[CELL_WHY_SIZE]) {
    snprintf(why, CELL_WHY_SIZE, "found '%.*s', expected %s", FOUND_MAX, cell, what);
    return false;
}

bool cell_real(const char *cell, double factor, float *value, char why[CELL_WHY_SIZE]) {
    char *end;
    cell += strspn(cell, BLANKS);
    double parsed = strtod(cell, &end);
    bool number = end > cell && end[strspn(end, BLANKS)] == '\0';
    *value = (float)(parsed * factor);
    if (number && isfinite(*value))
        return true;
    *value = NAN;
    if (is_missing(cell))
        return true;
    return expected(cell, number ? "a number that fits 32 bits" : "a number", why);
}

bool cell_class(const char *cell, uint32_t *value, char why[CELL_WHY_SIZE]) {
    char *end;
    cell += strspn(cell, BLANKS);
    *value = WIRE_NO_CLASS;
    if (is_missing(cell))
        return true;
    unsigned long long parsed = strtoull(cell, &end, 10);
    if (*cell < '0' || *cell > '9' || end[strspn(end, BLANKS)] || parsed >= WIRE_NO_CLASS)
        return expected(cell, "a class: a whole number from 0", why);
    *value = (uint32_t)parsed;
    return true;
}
