/* A server that a source asks over HTTP, again and again (libcurl). */
#ifndef RUNNEL_FEED_HTTP_H
#define RUNNEL_FEED_HTTP_H

#include <stddef.h>

struct error;
struct http;

#define HTTP_TIMEOUT 10.0 /* seconds, Prometheus's own */

struct http_options {
    double timeout;         /* seconds */
    const char *token_file; /* or NULL */
};

/* Rows of a source's options: `type` is its struct, with a struct http_options named `server`. */
#define HTTP_OPTIONS(type)                                                                         \
    {"token-file", 0, "FILE", "the file with the bearer token that the server wants",              \
     OPTION_FILE(type, server.token_file)},                                                        \
    {                                                                                              \
        "timeout", 0, "SECONDS", "wait so long for an answer (default 10)",                        \
            OPTION_POSITIVE(type, server.timeout, OPTION_SECONDS_MAX)                              \
    }

/* `path` is that of a URL that has none; NULL: "/". Nothing is asked yet. */
int http_open(struct http **http, const char *url, const char *path,
              const struct http_options *options, struct error *error);
void http_close(struct http **http);

/* The URL without user and password. */
const char *http_name(const struct http *http);

/* Ask until there is an answer, which is then the newest: terminated, `size` bytes, valid until the
   next call and free to be written to. -1: an error; of EX_NOPERM the server refuses us. */
int http_ask(struct http *http, char **answer, size_t *size, struct error *error);

/* What it answered cannot be used, for that reason: reported once, until an answer can be used.
   Waits as after no answer. -1: FEED_INTERRUPTED. */
int http_refuse(struct http *http, const char *why, struct error *error);

/* The answer was used: reported if none could be before. */
void http_accept(struct http *http);

#endif
