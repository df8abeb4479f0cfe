/* A summary on the terminal, and the same as JSON. */
#ifndef RUNNEL_REPORT_TABLE_H
#define RUNNEL_REPORT_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "report_summary.h"

/* At most `width` columns wide where that can be had. -1: out of memory. */
int report_table(const struct summary *summary, FILE *to, int width);

/* A new reference; NULL: out of memory. */
json_t *report_json(const struct summary *summary);

/* The end of a difference whose test has that adjusted p: "**" below 0.01, "*" below 0.05. */
const char *report_mark(double p);

#endif
