/* Rows of a CSV file (RFC 4180): fields between delimiters, quoted ones with delimiters, newlines
   and doubled quotes inside. Lines end with LF or CRLF; empty lines count for nothing. */
#ifndef RUNNEL_FEED_ROWS_H
#define RUNNEL_FEED_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct rows;

int rows_open(struct rows **rows, const char *path, char delimiter, struct error *error);
void rows_close(struct rows **rows);

struct input *rows_input(const struct rows *rows);

/* The fields of the newest row, each terminated, until the next call. They may be written to. */
struct row {
    char **fields;
    size_t count;
    uint64_t line;     /* of the file, where the row begins */
    const char *wrong; /* what is wrong with its quotes: then there are no fields; or NULL */
};

/* 1: a row. 0: the end. -1: the file cannot be read. */
int rows_next(struct rows *rows, struct row *row, struct error *error);

#endif
