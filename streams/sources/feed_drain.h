/* Templates of log lines by the Drain algorithm (He, Zhu, Zheng and Lyu: Drain: An Online Log
   Parsing Approach with Fixed Depth Tree, ICWS 2017).

   A line is split at blanks into words, whose numbers become <N>. A tree of fixed depth finds a few
   candidate templates by the number of words and the first word. The line belongs to the candidate
   with the most words at the same places, if their share is at least 0.4; words that differ become
   <*> in the template. Otherwise, the line is a new template. At most 100 first words have a branch
   of their own; the others share one.

   IDs count from 0 in the order of appearance. A file keeps them: it gets a line for each new or
   changed template before the ID is used. The same file always leads to the same tree. */
#ifndef RUNNEL_FEED_DRAIN_H
#define RUNNEL_FEED_DRAIN_H

#include <stdint.h>

struct error;
struct drain;

enum {
    DRAIN_LINE_MAX = 8192, /* bytes of a line that are used; the rest is ignored */
    DRAIN_WORDS_MAX = 256, /* words of a line that are used */
};

/* Opens the templates. IDs are below `capacity` (at least 2); lines that fit none of the first
   `capacity` - 1 templates share the last ID. `path` is the file of templates, created if missing;
   or NULL. Fails with EX_NOINPUT, EX_CANTCREAT, EX_IOERR, EX_DATAERR (invalid file), EX_USAGE (too
   many templates) or EX_TEMPFAIL (another process uses the file). */
int drain_open(struct drain **drain, uint32_t capacity, const char *path, struct error *error);
void drain_close(struct drain **drain);

/* Finds the ID of a terminated line; a line without words has the shared ID. Unprintable characters
   count as blanks. Returns -1 if out of memory or if the file cannot be written. */
int drain_id(struct drain *drain, const char *line, uint32_t *id, struct error *error);

/* Returns the number of templates, and the text of one, terminated and valid until the next line;
   NULL for the shared ID. */
const char *drain_text(struct drain *drain, uint32_t id);

/* Copies a terminated line with <N> for each number: digits, hexadecimal words, and numbers joined
   by . , : or -, as in dates and addresses. */
enum { DRAIN_MASKED_SIZE = 3 * DRAIN_LINE_MAX };
void drain_mask(const char *line, char masked[DRAIN_MASKED_SIZE]);

#endif
