/* What a request asks for after the '?', and numbers and texts of an answer in JSON. */
#ifndef RUNNEL_WEB_QUERY_H
#define RUNNEL_WEB_QUERY_H

#include <stdbool.h>
#include <stdio.h>

#include <microhttpd.h>

/* NULL when there is no such argument. */
const char *query_text(struct MHD_Connection *connection, const char *name);

/* Leaves *value as it is when there is no such argument; false when it is no number in the range.
 */
bool query_number(struct MHD_Connection *connection, const char *name, double least, double most,
                  double *value);

/* The same for a whole number, such as that of a daemon. */
bool query_count(struct MHD_Connection *connection, const char *name, double least, double most,
                 size_t *value);

enum {
    QUERY_EXACT_DIGITS =
        17, /* of positions, which distinguish live messages from those in a series */
    QUERY_VALUE_DIGITS = 6,
};

/* What is not finite becomes null, for JSON cannot express it. */
void query_write_number(FILE *stream, double value, int digits);
void query_write_text(FILE *stream, const char *text);

#endif
