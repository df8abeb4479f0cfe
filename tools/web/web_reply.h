/* Replies: a status, a type and a body, with the headers of every reply. */
#ifndef RUNNEL_WEB_REPLY_H
#define RUNNEL_WEB_REPLY_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define REPLY_JSON "application/json"
#define REPLY_TEXT "text/plain; charset=utf-8"

enum { REPLY_EXTRA = 2 };
struct reply {
    unsigned status;  /* HTTP status */
    const char *type; /* static */
    const char *body; /* from malloc if `owned`, else static */
    size_t size;
    bool owned;
    const char *etag; /* with quotes; NULL = none: the reply is not cached */
    struct {
        const char *name, *value;
    } extra[REPLY_EXTRA]; /* further headers, NULL-terminated; copied when the reply is sent */
};

/* A JSON object, which is freed, or one with an error message. */
struct reply reply_object(unsigned status, json_t *object);
struct reply reply_error(unsigned status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A text that is written with stdio: begin, write to the stream, end. When out of memory the reply
   reports it. */
struct reply_text {
    FILE *stream;
    char *text;
    size_t size;
};
bool reply_begin(struct reply_text *text);
struct reply reply_end(struct reply_text *text, const char *type);

/* Replaces a static body: the client's copy is current. */
void reply_unchanged(struct reply *reply);

/* Sends the reply and frees its body. */
enum MHD_Result reply_send(struct MHD_Connection *connection, struct reply *reply);

/* Adds the headers of every response. */
void reply_headers(struct MHD_Response *response);

/* Bytes of replies that are being sent, and their maximum. */
size_t reply_pending(void);
enum { REPLY_PENDING_MAX = 24 << 20 };

/* ---- Query ----

   Arguments of a request, and numbers and texts of a JSON answer. */

/* NULL without such an argument. */
const char *query_text(struct MHD_Connection *connection, const char *name);

/* Keeps *value without such an argument. Returns false if it is not a number in the range. */
bool query_number(struct MHD_Connection *connection, const char *name, double least, double most,
                  double *value);

/* The same for a whole number, such as that of a daemon. */
bool query_count(struct MHD_Connection *connection, const char *name, double least, double most,
                 size_t *value);

enum {
    QUERY_EXACT_DIGITS =
        17, /* digits of positions, which distinguish live messages from those in a series */
    QUERY_VALUE_DIGITS = 6,
};

/* Writes null for a number that is not finite, since JSON cannot express it. */
void query_write_number(FILE *stream, double value, int digits);
/* Writes a list of the double at this offset of rows of `row` bytes. */
void query_write_list(FILE *stream, const void *rows, size_t offset, size_t row, size_t count,
                      int digits);
void query_write_text(FILE *stream, const char *text);

/* Write a member of an object, with a comma before it. A text may be NULL. */
void member_write_text(FILE *stream, const char *name, const char *text);
void member_write_number(FILE *stream, const char *name, double value, int digits);
void member_write_count(FILE *stream, const char *name, uint64_t value);
void member_write_list(FILE *stream, const char *name, const void *rows, size_t offset, size_t row,
                       size_t count, int digits);

#endif
