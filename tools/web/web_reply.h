/* What is sent back: a status, a type and a body, with the headers that every reply has. */
#ifndef RUNNEL_WEB_REPLY_H
#define RUNNEL_WEB_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <microhttpd.h>

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

#endif
