#include "feed_rows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "feed_input.h"
#include "streams/feed.h"

struct rows {
    struct input *input;
    char delimiter;
    char **fields;
    size_t capacity;
};

enum { FIELDS_FIRST = 64 };

int rows_open(struct rows **result, const char *path, char delimiter, struct error *error) {
    struct rows *rows = calloc(1, sizeof *rows);
    *result = rows;
    if (!rows)
        return error_no_memory(error);
    rows->delimiter = delimiter;
    if (input_open(&rows->input, path, error) == 0)
        return 0;
    rows_close(result);
    return -1;
}

void rows_close(struct rows **pointer) {
    struct rows *rows = *pointer;
    if (!rows)
        return;
    input_close(&rows->input);
    free(rows->fields);
    free(rows);
    *pointer = NULL;
}

struct input *rows_input(const struct rows *rows) {
    return rows->input;
}

/* Whether a quoted field is still open at the end of the text. */
static bool is_open(const char *text, size_t size, char delimiter) {
    bool quoted = false, begins = true;
    if (!memchr(text, '"', size))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '"') {
            if (i + 1 < size && text[i + 1] == '"')
                i++;
            else
                quoted = false;
        } else if (!quoted) {
            quoted = begins && text[i] == '"';
            begins = text[i] == delimiter;
        }
    }
    return quoted;
}

static int append(struct rows *rows, struct row *row, char *field, struct error *error) {
    if (row->count == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : FIELDS_FIRST;
        char **grown = realloc(rows->fields, capacity * sizeof *grown);
        if (!grown)
            return error_no_memory(error);
        rows->fields = grown;
        rows->capacity = capacity;
    }
    rows->fields[row->count++] = field;
    return 0;
}

/* Removes the quotes of the field at `from`, in place; returns the text after it. */
static char *unquote(char *from) {
    char *to = from++;
    while (from[0] != '"' || from[1] == '"') {
        from += from[0] == '"';
        *to++ = *from++;
    }
    *to = '\0';
    return from + 1;
}

/* Splits the text, whose quotes are all closed, into fields. */
static int split(struct rows *rows, char *text, char *end, struct row *row, struct error *error) {
    *end = '\0';
    for (;;) {
        if (append(rows, row, text, error) < 0)
            return -1;
        char *next = *text == '"' ? unquote(text) : memchr(text, rows->delimiter, end - text);
        if (!next || next == end)
            break;
        if (*next != rows->delimiter) {
            row->wrong = "text between a closing quote and the delimiter";
            break;
        }
        *next = '\0';
        text = next + 1;
    }
    row->fields = rows->fields;
    return 0;
}

int rows_next(struct rows *rows, struct row *row, struct error *error) {
    char *text;
    size_t size;
    int status;
    *row = (struct row){0};
    do {
        status = input_line(rows->input, false, &text, &size, error);
        if (status <= 0)
            return status;
        row->line = input_line_number(rows->input);
        while (is_open(text, size, rows->delimiter)) {
            status = input_line(rows->input, true, &text, &size, error);
            if (status < 0)
                return -1;
            if (status == 0) {
                row->wrong = "missing closing quote of a field";
                return 1;
            }
        }
        size -= size > 0 && text[size - 1] == '\r';
    } while (size == 0);
    if (memchr(text, '\0', size)) {
        row->wrong = "the line contains a zero byte; is this a text file?";
        return 1;
    }
    return split(rows, text, text + size, row, error) < 0 ? -1 : 1;
}
