/* A table of texts on a terminal: columns as wide as what is in them, and no more of them than fit.
 */
#ifndef RUNNEL_GRID_H
#define RUNNEL_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GRID_TEXT_SIZE = 256 };

struct grid_column {
    char title[GRID_TEXT_SIZE];
    bool left;   /* aligned; else right */
    int rank;    /* where not all fit, those of the highest go first; 0: never */
    bool shrink; /* shortened in the middle where it alone makes the table too wide */
    int width;   /* of the widest text, in characters */
    bool shown;
};

struct grid {
    struct grid_column *columns; /* (columns_max,) */
    size_t column_count, columns_max, row_count;
    char (*texts)[GRID_TEXT_SIZE]; /* (row_count, columns_max) */
};

/* With columns of these titles, a tab between them; '-' before one aligns it to the left; and room
   for so many more. -1: out of memory. */
int grid_open(struct grid *grid, size_t rows, size_t more, const char *titles);
void grid_close(struct grid *grid);

/* Its number. There must be room. */
size_t grid_add(struct grid *grid, const char *title, bool left, int rank);

/* The texts of a row, from its first column on, with a tab between them. */
void grid_put(struct grid *grid, size_t row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Empty at first; GRID_TEXT_SIZE bytes. */
char *grid_text(struct grid *grid, size_t row, size_t column);

/* Titles and rows, `margin` blanks before each, at most `width` wide where that can be had. */
void grid_print(struct grid *grid, FILE *to, int margin, int width);

/* Characters of a text of UTF-8. */
int grid_length(const char *text);

/* Of a text that is longer than `width` characters the beginning and the end with ".." between. */
void grid_shorten(char *text, int width);

/* Of standard output: of a terminal, else 80. */
int grid_width(void);

#endif
