/* Rows of a table as JSON with column names: {"stream": .., "x": {"load": 0.7, "host": "web-3"},
   "y": "free"}. A cell with a number is sent as a number unless its column is one of words; all
   others are words. Missing cells are left out. */
#ifndef RUNNEL_FEED_NAMED_H
#define RUNNEL_FEED_NAMED_H

#include <jansson.h>
#include <stdbool.h>

#include "feed_columns.h"
#include "feed_rows.h"
#include "streams/feed.h"

struct named;

/* Converts a cell to JSON: a number, or a word if it is not one or `is_word`. */
json_t *named_value(const char *cell, bool is_word);

/* Columns of x and y (SIZE_MAX: none), and columns that contain only words. `columns` and `source`
   must outlive it. */
int named_open(struct named **named, struct source *source, const struct columns *columns,
               const struct selection *x, size_t y, const struct selection *words,
               struct error *error);
void named_close(struct named **named);

/* Converts a row to a step. Returns 1, valid until the next call; 0 if it is not an example, which
   is reported; -1 on an error. */
int named_step(struct named *named, const struct row *row, const char *key, double time,
               struct step *step, struct error *error);

#endif
