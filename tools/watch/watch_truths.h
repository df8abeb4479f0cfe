/* Messages of the topic `prediction` as rows of a table: each truth beside what was said of it. */
#ifndef RUNNEL_WATCH_TRUTHS_H
#define RUNNEL_WATCH_TRUTHS_H

#include <stddef.h>

#include <jansson.h>

#include "watch_lines.h"
#include "watch_table.h"

/* A row for each column of each truth that a message brought; `when` it was learned (Unix time)
   stands where the data have no time. Returns how many rows there were. */
size_t truths_print(struct table *table, struct lines *lines, const json_t *body, double when);

/* What a message says of the value that comes next, in the columns of those that have come: nothing
   where it says no intervals. */
void truths_next(struct table *table, struct lines *lines, const json_t *body);

#endif
