#include "grid.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text.h"

enum { WIDTH_USUAL = 80, WIDTH_LEAST = 40, WIDTH_MOST = 160, SHRUNK_LEAST = 12, GAP = 2 };
enum { LINE_SIZE = 8 * GRID_TEXT_SIZE };

int grid_open(struct grid *grid, size_t rows, size_t more, const char *titles) {
    char line[LINE_SIZE], *rest = line, *title;
    *grid = (struct grid){.row_count = rows, .columns_max = 1 + more};
    snprintf(line, sizeof line, "%s", titles);
    for (const char *at = line; (at = strchr(at, '\t')); at++)
        grid->columns_max++;
    grid->columns = calloc(grid->columns_max, sizeof *grid->columns);
    grid->texts = calloc(rows * grid->columns_max + 1, sizeof *grid->texts);
    if (!grid->columns || !grid->texts) {
        grid_close(grid);
        return -1;
    }
    while ((title = strsep(&rest, "\t")))
        grid_add(grid, title + (*title == '-'), *title == '-', 0);
    return 0;
}

void grid_close(struct grid *grid) {
    free(grid->columns);
    free(grid->texts);
    grid->columns = NULL;
    grid->texts = NULL;
}

size_t grid_add(struct grid *grid, const char *title, bool left, int rank) {
    size_t place = grid->column_count++;
    assert(place < grid->columns_max);
    grid->columns[place] = (struct grid_column){.left = left, .rank = rank, .shown = true};
    text_copy(grid->columns[place].title, GRID_TEXT_SIZE, title);
    return place;
}

char *grid_text(struct grid *grid, size_t row, size_t column) {
    return grid->texts[row * grid->columns_max + column];
}

void grid_put(struct grid *grid, size_t row, const char *format, ...) {
    char line[LINE_SIZE], *rest = line, *text;
    TEXT_FORMAT(line, sizeof line, format);
    for (size_t column = 0; column < grid->column_count && (text = strsep(&rest, "\t")); column++)
        text_copy(grid_text(grid, row, column), GRID_TEXT_SIZE, text);
}

static bool is_continued(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

int grid_length(const char *text) {
    int length = 0;
    for (; *text; text++)
        length += !is_continued(*text);
    return length;
}

/* The byte index of a character. */
static size_t place_of(const char *text, int character) {
    size_t place = 0;
    for (; text[place]; place++)
        if (!is_continued(text[place]) && character-- == 0)
            break;
    return place;
}

/* Replace the middle of a text longer than `width` characters with "..". */
static void shorten(char *text, int width) {
    static const char DOTS[] = "..";
    int length = grid_length(text), dots = (int)strlen(DOTS);
    if (length <= width || width <= dots)
        return;
    int last = (width - dots) / 2;
    size_t from = place_of(text, length - last), to = place_of(text, width - dots - last);
    memmove(text + to + dots, text + from, strlen(text + from) + 1);
    memcpy(text + to, DOTS, (size_t)dots);
}

int grid_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
        return WIDTH_USUAL;
    return size.ws_col < WIDTH_LEAST  ? WIDTH_LEAST
           : size.ws_col > WIDTH_MOST ? WIDTH_MOST
                                      : size.ws_col;
}

static void measure(struct grid *grid, size_t column) {
    struct grid_column *c = &grid->columns[column];
    c->width = grid_length(c->title);
    for (size_t row = 0; row < grid->row_count; row++) {
        int length = grid_length(grid_text(grid, row, column));
        c->width = length > c->width ? length : c->width;
    }
}

static int whole_width(const struct grid *grid, int margin) {
    int width = margin - GAP;
    for (size_t i = 0; i < grid->column_count; i++)
        width += grid->columns[i].shown ? grid->columns[i].width + GAP : 0;
    return width;
}

/* Hide the column of the highest rank. False: all shown columns must stay. */
static bool hide_one(struct grid *grid) {
    struct grid_column *worst = NULL;
    for (size_t i = 0; i < grid->column_count; i++) {
        struct grid_column *c = &grid->columns[i];
        if (c->shown && c->rank && (!worst || c->rank > worst->rank))
            worst = c;
    }
    if (worst)
        worst->shown = false;
    return worst != NULL;
}

/* Shrink the columns that may shrink to the width, then hide columns. */
static void fit(struct grid *grid, int margin, int width) {
    for (size_t i = 0; i < grid->column_count; i++) {
        measure(grid, i);
        grid->columns[i].shown = i == 0 || grid->columns[i].width > 0;
    }
    do {
        for (size_t i = 0; i < grid->column_count; i++) {
            struct grid_column *c = &grid->columns[i];
            int over = whole_width(grid, margin) - width;
            if (!c->shrink || over <= 0)
                continue;
            int most = c->width > SHRUNK_LEAST ? c->width - SHRUNK_LEAST : 0;
            c->width -= over < most ? over : most;
        }
    } while (whole_width(grid, margin) > width && hide_one(grid));
}

static void print_text(const struct grid_column *column, const char *text, bool last, FILE *to) {
    char shown[GRID_TEXT_SIZE];
    snprintf(shown, sizeof shown, "%s", text);
    shorten(shown, column->width);
    int blanks = column->width - grid_length(shown);
    if (column->left)
        fprintf(to, "%s%*s", shown, last ? 0 : blanks, "");
    else
        fprintf(to, "%*s%s", blanks, "", shown);
}

/* Row -1 contains the titles. */
static void print_row(struct grid *grid, FILE *to, int margin, long row) {
    size_t last = grid->column_count;
    while (last && (!grid->columns[last - 1].shown ||
                    (row >= 0 && !*grid_text(grid, (size_t)row, last - 1))))
        last--;
    fprintf(to, "%*s", margin, "");
    for (size_t i = 0; i < last; i++) {
        const struct grid_column *c = &grid->columns[i];
        if (!c->shown)
            continue;
        print_text(c, row < 0 ? c->title : grid_text(grid, (size_t)row, i), i + 1 == last, to);
        fprintf(to, "%*s", i + 1 == last ? 0 : GAP, "");
    }
    fputc('\n', to);
}

void grid_print(struct grid *grid, FILE *to, int margin, int width) {
    fit(grid, margin, width);
    for (long row = -1; row < (long)grid->row_count; row++)
        print_row(grid, to, margin, row);
}
