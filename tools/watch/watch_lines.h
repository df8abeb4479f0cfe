/* Standard output as lines, held until lines_flush, which writes them at once. */
#ifndef RUNNEL_WATCH_LINES_H
#define RUNNEL_WATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines;

/* Open on standard output. -1 when out of memory. */
int lines_open(struct lines **lines);

/* Write what is held; closes nothing of standard output. */
void lines_close(struct lines **lines);

/* How many were added. */
unsigned long lines_count(const struct lines *lines);

/* Columns that a line may take: the terminal's, else LINES_PLAIN_COLUMNS. */
int lines_columns(const struct lines *lines);
enum { LINES_PLAIN_COLUMNS = 100 };

/* Whether the terminal shows UTF-8 (from the locale); plain output always may hold it. */
bool lines_are_utf8(const struct lines *lines);

/* Whether what is bad can be red: on a terminal that is not dumb, unless NO_COLOR is set. */
bool lines_are_coloured(const struct lines *lines);

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

#endif
