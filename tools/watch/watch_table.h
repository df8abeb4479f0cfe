/* Messages as lines of text: `loss` as a row of a table with repeated headers, `event` and notes as
   lines with a time, and lines for `state`, `prediction` and `status`. */
#ifndef RUNNEL_WATCH_TABLE_H
#define RUNNEL_WATCH_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/shared/watch_link.h"

struct lines;

/* ---- Lines ----

   Lines on standard output, held until lines_flush writes them at once. */

/* Returns -1 when out of memory. */
int lines_open(struct lines **lines);

/* Writes the held lines; does not close standard output. */
void lines_close(struct lines **lines);

enum { LINES_PLAIN_COLUMNS = 100 };

/* Call after the terminal has changed its size. */
void lines_resized(struct lines *lines);

/* Adds a line. The text must be clean (text_copy) and have no newline. Characters outside ASCII
   become '?' on a terminal without UTF-8. */
void lines_add(struct lines *lines, const char *text);

enum { LINES_HEADER_EVERY = 20 /* so that a terminal of 24 lines always shows one */ };

/* A table that is printed row by row. */
struct lines_table {
    const char *const *titles; /* (count,) */
    const int *widths;         /* (count,); negative: left-aligned */
    size_t count;
};

/* Adds a row of clean texts, then `rest`. Adds a header before it if the last one, at line *header
   (0 = none), is too far above. */
void lines_row(struct lines *lines, const struct lines_table *table, unsigned long *header,
               const char *const *texts, const char *rest);

/* Writes the held lines. Returns -1 with errno if standard output failed. EINTR is not an error:
   the rest stays held. */
int lines_flush(struct lines *lines);

/* The terminal columns of a clean text. */
int lines_width(const char *text);

enum {
    TABLE_COLUMNS_MAX = 64,
    TABLE_STATE_SIZE = 32,
    TABLE_SELF_SIZE = 600,
};

/* Initialize with zeros, then with table_choose if the user has chosen columns. */
struct table {
    bool chosen;                    /* whether the user has chosen the columns */
    int columns[TABLE_COLUMNS_MAX]; /* of the last printed row */
    int count;
    unsigned long header;         /* line number of the last header; 0 = none */
    unsigned long truth_header;   /* the same for predictions */
    char *names;                  /* target names of the newest `status`; NULL = none */
    char state[TABLE_STATE_SIZE]; /* last printed state of the daemon; "" = none */
    char self[TABLE_SELF_SIZE];   /* last printed name, device, parameters and model */
};

/* Chooses the columns from a comma-separated list, or "all". Returns NULL or the first unknown
   name. */
const char *table_choose(struct table *table, const char *list);

/* All column names, separated by ", "; static memory. */
const char *table_names(void);

/* Prints a message. Returns whether it printed a line: a `status` is printed only if it is the
   first, or if the daemon's state, name, device, parameters or model have changed. */
bool table_print(struct table *table, struct lines *lines, const struct message *message);

/* Call after a restart of the daemon: prints its first `status` again. */
void table_restart(struct table *table);

/* Takes the target names from a `status`. */
void table_read_names(struct table *table, const json_t *status);
void table_close(struct table *table);

/* Prints a sentence with the time of day. */
void table_note(struct lines *lines, const char *sentence);

/* ---- Truths ----

   Messages of the topic `prediction` as rows of a table: each truth with its forecast. */

/* Prints the forecast of the next value in the same columns; nothing without intervals. */
void truths_next(struct table *table, struct lines *lines, const json_t *body);

#endif
