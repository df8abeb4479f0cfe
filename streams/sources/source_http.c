/* JSON from an HTTP server: an object, a list of objects, or JSON lines. Each object is an example.
   In each stream, only examples with a later time than all previous ones are sent, so that repeated
   answers are learned once. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "feed_http.h"
#include "payload.h"
#include "streams/feed.h"
#include "streams/feed_streams.h"

#define INTERVAL_DEFAULT 15.0 /* seconds */
#define STAMP_EXACT 1e-5      /* seconds: numbers are printed with six decimals */

enum { WHY_SIZE = 256, ID_SIZE = 48 };

struct http_source {
    struct source source;
    struct http_options server;
    double interval; /* seconds */
    struct http *http;
    struct payload *payload;
    struct streams streams; /* held.time: the newest time that was sent */
    json_t *items;          /* items of the newest answer, NULL: none; index of the next item */
    size_t next;
    char *bytes;      /* bytes of the newest item */
    double due, time; /* clock_seconds of the next request; Unix time of the newest answer */
};

static void set_defaults(struct source *source) {
    struct http_source *http = (struct http_source *)source;
    http->server.timeout = HTTP_TIMEOUT;
    http->interval = INTERVAL_DEFAULT;
}

static const struct option_row OPTIONS[] = {
    {"interval", 0, "SECONDS", "seconds between requests (default 15)",
     OPTION_POSITIVE(struct http_source, interval, OPTION_SECONDS_MAX)},
    HTTP_OPTIONS(struct http_source),
    FIELD_OPTION(struct http_source),
    FIELD_OPTIONS(struct http_source),
    {"strict", 0, NULL,
     "end at an object that is not an example, that has unknown fields, or that the daemon rejects",
     OPTION_FLAG(struct http_source, source.strict)},
    OPTIONS_END,
};

static int open_http(struct source *source, char **operands, struct error *error) {
    struct http_source *http = (struct http_source *)source;
    http->streams.numbers = 1; /* rows are not held here */
    return payload_open(&http->payload, source, error) < 0
               ? -1
               : http_open(&http->http, operands[0], NULL, &http->server, error);
}

/* ---- Answers ---- */

static bool has_objects(const json_t *list) {
    for (size_t n = 0; n < json_array_size(list); n++)
        if (!json_is_object(json_array_get(list, n)))
            return false;
    return json_is_array(list);
}

/* Reads the values of the answer. Returns false with a reason in `why`. */
static bool read_items(struct http_source *http, const char *answer, size_t size,
                       char why[WHY_SIZE]) {
    json_decref(http->items);
    http->items = json_array();
    http->next = 0;
    for (size_t at = 0;;) {
        json_error_t reason;
        while (at < size && isspace((unsigned char)answer[at]))
            at++;
        if (at == size)
            break;
        json_t *value =
            json_loadb(answer + at, size - at,
                       JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &reason);
        if (!value) {
            json_array_clear(http->items);
            snprintf(why, WHY_SIZE, "the answer is not JSON (byte %zu: %.160s)",
                     at + (size_t)reason.position, reason.text);
            return false;
        }
        at += (size_t)reason.position;
        int status = has_objects(value) ? json_array_extend(http->items, value)
                                        : json_array_append(http->items, value);
        json_decref(value);
        if (status < 0) {
            json_array_clear(http->items);
            snprintf(why, WHY_SIZE, "out of memory");
            return false;
        }
    }
    return true;
}

/* Sends requests at their time, until an answer is JSON. */
static int ask(struct http_source *http, struct error *error) {
    char why[WHY_SIZE], *answer;
    size_t size;
    if (feed_wait(fmax(http->due - clock_seconds(), 0), error) < 0)
        return -1;
    http->due = clock_seconds() + http->interval;
    while (http_ask(http->http, &answer, &size, error) == 0) {
        http->time = clock_unix();
        if (read_items(http, answer, size, why)) {
            http_accept(http->http);
            return 0;
        }
        if (http_refuse(http->http, why, error) < 0)
            return -1;
    }
    return -1;
}

/* ---- Examples ---- */

/* Whether the example has no time of its own, or a later one than all before in its stream; -1: an
   error. */
static int is_later(struct http_source *http, const struct step *step, struct error *error) {
    json_t *example = json_loadb(step->json, step->json_size, 0, NULL);
    const char *key = json_string_value(json_object_get(example, "stream"));
    double time = json_number_value(json_object_get(example, "time"));
    struct held_stream *held = streams_find(&http->streams, key ? key : "", error);
    bool later = fabs(time - http->time) < STAMP_EXACT;
    if (held && !later) {
        later = !held->seen || time > held->held.time;
        held->held.time = later ? time : held->held.time;
        held->seen = true;
    }
    json_decref(example);
    return held ? later : -1;
}

/* Takes the next item. Returns 1, or 0 if it is not an example or was sent before. */
static int take(struct http_source *http, struct step *step, struct error *error) {
    char id[ID_SIZE];
    snprintf(id, sizeof id, "%zu of the answer", http->next + 1);
    free(http->bytes);
    http->bytes =
        json_dumps(json_array_get(http->items, http->next++), JSON_COMPACT | JSON_ENCODE_ANY);
    if (!http->bytes)
        return error_no_memory(error);
    const struct message message = {.id = id,
                                    .key = http->source.label,
                                    .key_size = strlen(http->source.label),
                                    .bytes = http->bytes,
                                    .size = strlen(http->bytes),
                                    .time = http->time};
    int status = payload_step(http->payload, &message, step, error);
    return status > 0 ? is_later(http, step, error) : status;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct http_source *http = (struct http_source *)source;
    int status = 0;
    while (status == 0) {
        while (http->next == json_array_size(http->items))
            if (ask(http, error) < 0)
                return -1;
        status = take(http, step, error);
    }
    return status;
}

static void close_http(struct source *source) {
    struct http_source *http = (struct http_source *)source;
    http_close(&http->http);
    payload_close(&http->payload);
    streams_close(&http->streams);
    json_decref(http->items);
    free(http->bytes);
}

const struct source_type source_http = {
    .command = {"http", "URL", "JSON from an HTTP server, requested periodically", .rows = OPTIONS},
    .notes = "The answer is an object, a list of objects or JSON lines; an object is an example as "
             "for runnel-feed mqtt. With --time-field, an object is sent only if its time is later "
             "than the previous times of its stream; otherwise, its time is that of the answer.",
    .live = true,
    .endless = true,
    .ready = true,
    .maps = true,
    .size = sizeof(struct http_source),
    .set_defaults = set_defaults,
    .open = open_http,
    .next = next,
    .close = close_http,
};
