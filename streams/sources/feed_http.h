/* An HTTP server that a source polls (libcurl). */
#ifndef RUNNEL_FEED_HTTP_H
#define RUNNEL_FEED_HTTP_H

#include <stddef.h>

struct error;
struct http;

#define HTTP_TIMEOUT 10.0 /* seconds, as in Prometheus */

struct http_options {
    double timeout;         /* seconds */
    const char *token_file; /* or NULL */
};

/* Rows of a source's options: `type` is its struct, with a struct http_options named `server`. */
#define HTTP_OPTIONS(type)                                                                         \
    {"token-file", 0, "FILE", "file with the bearer token for the server",                         \
     OPTION_FILE(type, server.token_file)},                                                        \
    {                                                                                              \
        "timeout", 0, "SECONDS", "seconds to wait for an answer (default 10)",                     \
            OPTION_POSITIVE(type, server.timeout, OPTION_SECONDS_MAX)                              \
    }

/* Prepares requests without sending one. `path` completes a URL without a path; NULL: "/". */
int http_open(struct http **http, const char *url, const char *path,
              const struct http_options *options, struct error *error);
void http_close(struct http **http);

/* Returns the URL without user and password. */
const char *http_name(const struct http *http);

/* Sends requests until there is an answer: terminated, `size` bytes, valid until the next call and
   writable. Returns -1 on an error; EX_NOPERM: access denied. */
int http_ask(struct http *http, char **answer, size_t *size, struct error *error);

/* Reports once that the answers cannot be used, for this reason, and waits as after a failure.
   Returns -1 on FEED_INTERRUPTED. */
int http_refuse(struct http *http, const char *why, struct error *error);

/* Reports that the answers can be used again, if they could not before. */
void http_accept(struct http *http);

#endif
