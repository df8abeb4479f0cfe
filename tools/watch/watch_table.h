/* Messages as lines for people: `loss` as a row of a table whose header comes again and again,
   `event` and notes as lines with their time, `state`, `prediction` and `status` as they fit. */
#ifndef RUNNEL_WATCH_TABLE_H
#define RUNNEL_WATCH_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/shared/watch_link.h"

struct lines;

/* ---- Lines ----

   Standard output as lines, held until lines_flush, which writes them at once. */

/* Open on standard output. -1 when out of memory. */
int lines_open(struct lines **lines);

/* Write what is held; closes nothing of standard output. */
void lines_close(struct lines **lines);

enum { LINES_PLAIN_COLUMNS = 100 };

/* The terminal has changed its size. */
void lines_resized(struct lines *lines);

/* Add one. The text must be clean (text_copy) and have no newline. What is not ASCII becomes '?' on
   a terminal that does not show UTF-8. */
void lines_add(struct lines *lines, const char *text);

enum { LINES_HEADER_EVERY = 20 /* so that a terminal of 24 always shows one */ };

/* A table whose rows come one by one. */
struct lines_table {
    const char *const *titles; /* (count,) */
    const int *widths;         /* (count,); below 0: to the left */
    size_t count;
};

/* Add a row of clean texts, then `rest`; before it a header, where the last one, of the line
 *header (0 = none), is far above. */
void lines_row(struct lines *lines, const struct lines_table *table, unsigned long *header,
               const char *const *texts, const char *rest);

/* Write what has been added. -1 when standard output takes no more; errno says why. EINTR is not an
   error: what was not written stays held. */
int lines_flush(struct lines *lines);

/* The columns that a clean text takes. */
int lines_width(const char *text);

enum {
    TABLE_COLUMNS_MAX = 48,
    TABLE_STATE_SIZE = 32,
    TABLE_SELF_SIZE = 600,
};

/* Fill with zeros, then with table_choose if the user has chosen. */
struct table {
    bool chosen;                    /* the columns are the user's */
    int columns[TABLE_COLUMNS_MAX]; /* of the row printed last */
    int count;
    unsigned long header;         /* lines when the header was printed; 0 = never */
    unsigned long truth_header;   /* likewise that of predictions */
    char *names;                  /* of targets, as the newest `status` has them; NULL = none */
    char state[TABLE_STATE_SIZE]; /* of the daemon, as printed last; "" = none was */
    char self[TABLE_SELF_SIZE];   /* its name, device, parameters and model, likewise */
};

/* Take the columns from a list of names with commas between them, or "all". Returns NULL, or the
   name that is no column's. */
const char *table_choose(struct table *table, const char *list);

/* The names that table_choose takes, with ", " between them; from static memory. */
const char *table_names(void);

/* Print one message. Returns whether it was worth a line: a `status` is only when it is the first
   one, or the daemon's state, name, device, parameters or model have changed. */
bool table_print(struct table *table, struct lines *lines, const struct message *message);

/* The daemon is another one: its first `status` is printed again. */
void table_restart(struct table *table);

/* What a `status` says of how targets are called. */
void table_names_take(struct table *table, const json_t *status);
void table_close(struct table *table);

/* Print a sentence with the time of day. */
void table_note(struct lines *lines, const char *sentence);

/* ---- Truths ----

   Messages of the topic `prediction` as rows of a table: each truth beside what was said of it. */

/* What a message says of the value that comes next, in the columns of those that have come: nothing
   where it says no intervals. */
void truths_next(struct table *table, struct lines *lines, const json_t *body);

#endif
