/* Rows of a table as JSON with names of columns: {"stream": .., "x": {"load": 0.7, "host":
   "web-3"}, "y": "free"}. A cell that is a number is sent as one, unless its column is one of
   words; every other is a word; what is missing is left out. */
#ifndef RUNNEL_FEED_NAMED_H
#define RUNNEL_FEED_NAMED_H

#include <jansson.h>
#include <stdbool.h>

#include "feed_columns.h"
#include "feed_rows.h"
#include "streams/feed.h"

struct named;

/* A cell as JSON: a number, unless it is none or `is_word`. */
json_t *named_value(const char *cell, bool is_word);

/* Columns of x, of y (SIZE_MAX: none), and those whose cells are always words. `columns` and
   `source` must outlive it. */
int named_open(struct named **named, struct source *source, const struct columns *columns,
               const struct selection *x, size_t y, const struct selection *words,
               struct error *error);
void named_close(struct named **named);

/* The row as a step: 1, valid until the next call. 0: it is no example, which has been said. -1: an
   error. */
int named_step(struct named *named, const struct row *row, const char *key, double time,
               struct step *step, struct error *error);

#endif
