/* Templates of log lines by the Drain algorithm (He, Zhu, Zheng and Lyu: Drain: An Online Log
   Parsing Approach with Fixed Depth Tree, ICWS 2017).

   A line is cut at blanks into words, in which numbers become <N>. A tree of fixed depth leads by
   the count of the words and the first of them to a few templates; of these the line belongs to the
   one that has the most words at the same places, if that is a share of at least 0.4, and the words
   that differ become <*> in it; else the line is a new template. At most 100 first words have a
   branch of their own; others share one.

   Ids count from 0 in the order of appearance. A file keeps them: a line for each new template and
   each change, on the disk before the id is used. From the same file the same tree grows again. */
#ifndef RUNNEL_FEED_DRAIN_H
#define RUNNEL_FEED_DRAIN_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct drain;

enum {
    DRAIN_LINE_MAX = 8192, /* bytes of a line that count; what follows is left out */
    DRAIN_WORDS_MAX = 256, /* likewise words */
};

/* Ids are below `capacity` (at least 2): the last one is shared by all lines that fit no template
   once there are `capacity` - 1. `path`: the file of templates, made if it is missing; or NULL.
   Errors: EX_NOINPUT, EX_CANTCREAT, EX_IOERR, EX_DATAERR (what is in the file), EX_USAGE (it has
   more templates), EX_TEMPFAIL (another process uses it). */
int drain_open(struct drain **drain, uint32_t capacity, const char *path, struct error *error);
void drain_close(struct drain **drain);

/* The id of a terminated line; one without words has the shared id. What does not print is a blank.
   -1: no memory, or the file cannot be written. */
int drain_id(struct drain *drain, const char *line, uint32_t *id, struct error *error);

/* How many templates there are, and the text of one, which is terminated and valid until the next
   line; NULL of the shared id. */
const char *drain_text(struct drain *drain, uint32_t id);

/* Copy a terminated line with <N> for each number: digits wherever they stand, words of hexadecimal
   digits, and several of them with . , : or - between, as dates and addresses have. */
enum { DRAIN_MASKED_SIZE = 3 * DRAIN_LINE_MAX };
void drain_mask(const char *line, char masked[DRAIN_MASKED_SIZE]);

#endif
