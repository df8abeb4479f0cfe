/* What the targets of a daemon are called, out of its `status`, for lines in which predictions have
   one each. Messages are not trusted: a name of no such target is its number. */
#ifndef RUNNEL_WATCH_NAMES_H
#define RUNNEL_WATCH_NAMES_H

#include <stddef.h>

enum { NAME_SIZE = 132 /* bytes of a name as it is printed, with '\0' */ };

/* The name of a target (from 0), else its number, fit for a terminal and cut to at most `width`
   (and at least 3) bytes: beginning and end with '~' between, for names that are numbered differ
   there. `names`: `target_names` of a `status`, or NULL. Returns `name`. */
const char *names_target(char name[NAME_SIZE], const char *names, size_t target, int width);

/* The same as it is, `length` bytes that no '\0' ends; NULL: it has none. */
const char *names_find(const char *names, size_t target, size_t *length);

/* The bytes that the longest takes as it is printed, at most `most`; 0: they have none. */
int names_longest(const char *names, int most);

/* Any text, cut likewise. */
const char *names_cut(char name[NAME_SIZE], const char *text, int width);

#endif
