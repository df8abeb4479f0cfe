#include "build-config.h"

#include "top_canvas.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

#include "common/text.h"

enum { TEXT_SIZE = 1024 };

#define RULE L'─'

int canvas_reset(struct canvas *c, int rows, int columns) {
    size_t count = (size_t)rows * (size_t)columns;
    if (rows != c->rows || columns != c->columns || !c->cells) {
        struct cell *cells = realloc(c->cells, (count ? count : 1) * sizeof *cells);
        if (!cells)
            return -1;
        c->cells = cells;
        c->rows = rows;
        c->columns = columns;
    }
    for (size_t i = 0; i < count; i++)
        c->cells[i] = (struct cell){L' ', STYLE_PLAIN};
    return 0;
}

void canvas_close(struct canvas *c) {
    free(c->cells);
    *c = (struct canvas){.cells = NULL};
}

struct area canvas_all(const struct canvas *c) {
    return (struct area){0, 0, c->rows, c->columns};
}

static int between(int low, int value, int high) {
    return value < low ? low : value > high ? high : value;
}

struct area area_rows(const struct area *area, int row, int rows) {
    int first = between(0, row, area->rows), count = between(0, rows, area->rows - first);
    return (struct area){area->top + first, area->left, count, area->columns};
}

struct area area_columns(const struct area *area, int column, int columns) {
    int first = between(0, column, area->columns);
    int count = between(0, columns, area->columns - first);
    return (struct area){area->top, area->left + first, area->rows, count};
}

static bool is_inside(const struct area *area, int row, int column) {
    return row >= 0 && row < area->rows && column >= 0 && column < area->columns;
}

void canvas_put(struct canvas *c, const struct area *area, int row, int column, enum style style,
                wchar_t character) {
    if (is_inside(area, row, column))
        c->cells[(area->top + row) * c->columns + area->left + column] =
            (struct cell){character, style};
}

/* The next character of the text, how many bytes and columns it takes; false at its end. */
static bool next_character(const char **text, wchar_t *character, int *width) {
    mbstate_t state = {0};
    size_t bytes = mbrtowc(character, *text, MB_LEN_MAX, &state);
    if (bytes == 0)
        return false;
    bool whole = bytes != (size_t)-1 && bytes != (size_t)-2;
    if (!whole)
        *character = L'?';
    *text += whole ? bytes : 1;
    *width = wcwidth(*character);
    if (*width < 0) {
        *character = L' ';
        *width = 1;
    }
    return true;
}

static int put_text(struct canvas *c, const struct area *area, int row, int column,
                    enum style style, const char *text) {
    wchar_t character;
    for (int width; next_character(&text, &character, &width); column += width) {
        if (width == 0 || column + width > area->columns)
            continue;
        canvas_put(c, area, row, column, style, character);
        if (width == 2)
            canvas_put(c, area, row, column + 1, style, 0);
    }
    return column;
}

int canvas_print(struct canvas *c, const struct area *area, int row, int column, enum style style,
                 const char *format, ...) {
    char text[TEXT_SIZE], clean[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return put_text(c, area, row, column, style, text_copy(clean, sizeof clean, text));
}

/* How many bytes of the text go into that many columns: up to a blank, unless there is none. */
static size_t line_bytes(const char *text, int columns) {
    const char *at = text, *blank = NULL;
    wchar_t character;
    int used = 0;
    while (*at) {
        const char *before = at;
        int width;
        next_character(&at, &character, &width);
        used += width;
        if (used > columns && before > text)
            return (size_t)((blank ? blank : before) - text);
        if (character == L' ' && before > text)
            blank = before;
    }
    return (size_t)(at - text);
}

int canvas_wrap(struct canvas *c, const struct area *area, int row, int column, enum style style,
                const char *text) {
    int rows = 0, room = area->columns - column;
    while (room > 0 && (*text || rows == 0)) {
        size_t bytes = line_bytes(text, room);
        if (c)
            canvas_print(c, area, row + rows, column, style, "%.*s", (int)bytes, text);
        rows++;
        text += bytes;
        text += *text == ' ';
    }
    return rows;
}

int canvas_width(const char *text) {
    wchar_t character;
    int columns = 0;
    for (int width; next_character(&text, &character, &width);)
        columns += width;
    return columns;
}

void canvas_print_right(struct canvas *c, const struct area *area, int row, enum style style,
                        const char *text) {
    int column = area->columns - canvas_width(text);
    canvas_print(c, area, row, column > 0 ? column : 0, style, "%s", text);
}

void canvas_fill(struct canvas *c, const struct area *area, int row, enum style style) {
    for (int column = 0; column < area->columns; column++)
        canvas_put(c, area, row, column, style, L' ');
}

void canvas_heading(struct canvas *c, const struct area *area, int row, const char *text) {
    for (int column = 0; column < area->columns; column++)
        canvas_put(c, area, row, column, STYLE_DIM, c->utf8 ? RULE : L'-');
    canvas_print(c, area, row, 1, STYLE_STRONG, " %s ", text);
}

void canvas_write(const struct canvas *c, FILE *file) {
    for (int row = 0; row < c->rows; row++) {
        const struct cell *cells = c->cells + row * c->columns;
        int used = c->columns;
        while (used > 0 && cells[used - 1].character == L' ')
            used--;
        for (int column = 0; column < used; column++)
            if (cells[column].character)
                fprintf(file, "%lc", (wint_t)cells[column].character);
        fputc('\n', file);
    }
}

const char *canvas_text(const struct canvas *c, const char *utf8, const char *ascii) {
    return c->utf8 ? utf8 : ascii;
}
