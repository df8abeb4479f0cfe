/* A table of texts for a terminal: each column is as wide as its texts, and columns that do not
   fit are hidden. */
#ifndef RUNNEL_GRID_H
#define RUNNEL_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GRID_TEXT_SIZE = 256 };

struct grid_column {
    char title[GRID_TEXT_SIZE];
    bool left;   /* alignment; else right */
    int rank;    /* columns of the highest rank are hidden first; 0: never */
    bool shrink; /* shortened in the middle if the table is too wide */
    int width;   /* width of the widest text, in characters */
    bool shown;
};

struct grid {
    struct grid_column *columns; /* (columns_max,) */
    size_t column_count, columns_max, row_count;
    char (*texts)[GRID_TEXT_SIZE]; /* (row_count, columns_max) */
};

/* Open a table with these titles, separated by tabs; a '-' before a title aligns its column to
   the left. It has room for `more` columns. -1: out of memory. */
int grid_open(struct grid *grid, size_t rows, size_t more, const char *titles);
void grid_close(struct grid *grid);

/* Add a column and return its number. There must be room. */
size_t grid_add(struct grid *grid, const char *title, bool left, int rank);

/* Set the texts of a row, from its first column on, separated by tabs. */
void grid_put(struct grid *grid, size_t row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text of a cell, initially empty; GRID_TEXT_SIZE bytes. */
char *grid_text(struct grid *grid, size_t row, size_t column);

/* Print titles and rows, each after `margin` blanks, at most `width` wide if possible. */
void grid_print(struct grid *grid, FILE *to, int margin, int width);

/* Number of characters of a UTF-8 text. */
int grid_length(const char *text);

/* Width of standard output if it is a terminal, else 80. */
int grid_width(void);

#endif
