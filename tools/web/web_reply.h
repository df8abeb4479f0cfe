/* What is sent back: a status, a type and a body, with the headers that every reply has. */
#ifndef RUNNEL_WEB_REPLY_H
#define RUNNEL_WEB_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define REPLY_JSON "application/json"
#define REPLY_TEXT "text/plain; charset=utf-8"

enum { REPLY_EXTRA = 2 };
struct reply {
    unsigned status;  /* of HTTP */
    const char *type; /* static */
    const char *body; /* from malloc when `owned`, else static */
    size_t size;
    bool owned;
    const char *etag; /* with its quotes; NULL = none: then it is not cached */
    struct {
        const char *name, *value;
    } extra[REPLY_EXTRA]; /* further headers; a NULL ends them. Copied when it is sent */
};

/* A JSON object with one sentence. */
struct reply reply_error(unsigned status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Text that is written with stdio: begin, write to the stream, end. When out of memory the reply
   says so. */
struct reply_text {
    FILE *stream;
    char *text;
    size_t size;
};
bool reply_begin(struct reply_text *text);
struct reply reply_end(struct reply_text *text, const char *type);

/* Instead of a body, which is static: the client's copy is as new. */
void reply_unchanged(struct reply *reply);

/* Send it, and free its body. */
enum MHD_Result reply_send(struct MHD_Connection *connection, struct reply *reply);

/* Add the headers that every response has. */
void reply_headers(struct MHD_Response *response);

/* Bytes of replies that are under way, and how many there may be. */
size_t reply_pending(void);
enum { REPLY_PENDING_MAX = 24 << 20 };

/* ---- Query ----

   What a request asks for after the '?', and numbers and texts of an answer in JSON. */

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
