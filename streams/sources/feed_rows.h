/* Rows of a CSV file (RFC 4180). Quoted fields may contain delimiters, newlines and doubled quotes.
   Lines end with LF or CRLF; empty lines are ignored. */
#ifndef RUNNEL_FEED_ROWS_H
#define RUNNEL_FEED_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct rows;

int rows_open(struct rows **rows, const char *path, char delimiter, struct error *error);
void rows_close(struct rows **rows);

struct input *rows_input(const struct rows *rows);

/* Fields of the newest row, each terminated, valid until the next call and writable. */
struct row {
    char **fields;
    size_t count;
    uint64_t line;     /* line of the file where the row begins */
    const char *wrong; /* the error in its quotes, then without fields; or NULL */
};

/* Returns 1 and a row, 0 at the end, or -1 if the file cannot be read. */
int rows_next(struct rows *rows, struct row *row, struct error *error);

#endif
