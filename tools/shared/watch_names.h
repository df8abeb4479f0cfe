/* Names of a daemon's targets from its `status`. Messages are not trusted: a target without a valid
   name has its number. */
#ifndef RUNNEL_WATCH_NAMES_H
#define RUNNEL_WATCH_NAMES_H

#include <stddef.h>

enum { NAME_SIZE = 132 /* bytes of a printed name, with '\0' */ };

/* The name of a target (from 0), or its number, without control characters and at most `width` (at
   least 3) bytes long. Keeps beginning and end of a long name with '~' between, since numbered
   names differ there. `names`: `target_names` of a `status`, or NULL. Returns `name`. */
const char *names_target(char name[NAME_SIZE], const char *names, size_t target, int width);

/* The unchanged name: `length` bytes without '\0'; NULL without a name. */
const char *names_find(const char *names, size_t target, size_t *length);

/* The bytes of the longest printed name, at most `most`; 0 without names. */
int names_longest(const char *names, int most);

/* Shortens any text in the same way. */
const char *names_cut(char name[NAME_SIZE], const char *text, int width);

#endif
