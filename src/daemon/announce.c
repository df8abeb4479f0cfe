#include "announce.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "parts.h"

#define STATUS_INTERVAL (10 * NS_PER_SECOND)
#define ANNOUNCEMENT_INTERVAL NS_PER_SECOND

enum { EVENT_TEXT_SIZE = 1024 };

/* What has happened since it was last announced. */
struct notice {
    uint64_t count, announced; /* announced: when */
    size_t key_size;
    char key[WIRE_KEY_MAX]; /* the newest one's stream */
};

struct announcer {
    announce_fields *status;
    uint64_t status_due;
    struct notice notices[ANNOUNCE_KINDS];
};

int announce_open(struct daemon *daemon, announce_fields *status, struct error *error) {
    daemon->announcer = calloc(1, sizeof *daemon->announcer);
    if (!daemon->announcer)
        return error_no_memory(error);
    daemon->announcer->status = status;
    return 0;
}

void announce_close(struct daemon *daemon) {
    free(daemon->announcer);
    daemon->announcer = NULL;
}

/* ---- Events ---- */

/* The count that the event is about, in place of today's. */
static uint64_t take_count(json_t *details, const char *key, uint64_t now) {
    const json_t *own = json_object_get(details, key);
    uint64_t count = own ? (uint64_t)json_integer_value(own) : now;
    json_object_del(details, key);
    return count;
}

void announce_event(struct daemon *daemon, const char *kind, json_t *details, const char *format,
                    ...) {
    uint64_t examples = take_count(details, "examples", daemon_examples(daemon));
    uint64_t steps = take_count(details, "steps", daemon_steps(daemon));
    struct json_text *message = publish_begin(daemon->publish, TOPIC_EVENT, examples, steps);
    if (message) {
        char text[EVENT_TEXT_SIZE];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        json_text_string(message, "kind", kind, strlen(kind));
        json_text_string(message, "text", text, strlen(text));
        json_text_members(message, details);
        publish_send(daemon->publish, TOPIC_EVENT);
    }
    json_decref(details);
}

/* ---- Status ---- */

void announce_status(struct daemon *daemon) {
    daemon->announcer->status_due = clock_ns() + STATUS_INTERVAL;
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_STATUS, daemon_examples(daemon), daemon_steps(daemon));
    if (!message)
        return;
    daemon->announcer->status(daemon, message);
    publish_send(daemon->publish, TOPIC_STATUS);
}

void announce_status_soon(struct daemon *daemon) {
    daemon->announcer->status_due = clock_ns();
}

bool announce_status_is_due(const struct daemon *daemon) {
    return clock_ns() >= daemon->announcer->status_due;
}

/* ---- What is counted ---- */

void announce_count(struct daemon *daemon, enum announce_kind kind, uint64_t count, const char *key,
                    size_t key_size) {
    struct notice *notice = &daemon->announcer->notices[kind];
    notice->count += count;
    notice->key_size = key_size;
    memcpy(notice->key, key, key_size);
}

uint64_t announce_due(const struct daemon *daemon) {
    const struct announcer *announcer = daemon->announcer;
    uint64_t due = announcer->status_due;
    uint64_t rejected = ingest_announcement_due(daemon->ingest);
    uint64_t refused = security_announcement_due(daemon->security);
    due = rejected < due ? rejected : due;
    due = refused < due ? refused : due;
    for (size_t i = 0; i < ANNOUNCE_KINDS; i++) {
        uint64_t at = announcer->notices[i].announced + ANNOUNCEMENT_INTERVAL;
        due = announcer->notices[i].count > 0 && at < due ? at : due;
    }
    return due;
}

static json_t *begin_again(struct notice *notice, uint64_t now) {
    json_t *details = json_pack("{s:I, s:o}", "count", (json_int_t)notice->count, "stream",
                                json_of_text(notice->key, notice->key_size));
    notice->count = 0;
    notice->announced = now;
    return details;
}

static void announce_notice(struct daemon *daemon, enum announce_kind kind, uint64_t now) {
    struct notice *notice = &daemon->announcer->notices[kind];
    uint64_t count = notice->count;
    char stream[TEXT_QUOTE_SIZE];
    text_quote(stream, notice->key, notice->key_size);
    json_t *details = begin_again(notice, now);
    switch (kind) {
    case ANNOUNCE_SKIPPED:
        log_warning("%" PRIu64 " updates were skipped, the last one of stream %s: loss or gradient "
                    "was not finite; a lower learning.optimizer.rate or learning.clip helps",
                    count, stream);
        announce_event(daemon, "skipped_update", details,
                       "%" PRIu64 " updates were skipped, the last one of stream %s: loss or "
                       "gradient was not finite",
                       count, stream);
        break;
    case ANNOUNCE_FORGOTTEN:
        announce_event(daemon, "stream_forgotten", details,
                       "%" PRIu64 " streams made room for others, the last one %s: "
                       "learning.max_streams is %zu",
                       count, stream, daemon->config->learning.max_streams);
        break;
    case ANNOUNCE_GAP:
    case ANNOUNCE_KINDS:
        log_warning("%" PRIu64 " examples never came, the last ones of stream %s: its sequence "
                    "numbers have a gap",
                    count, stream);
        announce_event(daemon, "gap", details,
                       "%" PRIu64 " examples never came, the last ones of stream %s", count,
                       stream);
    }
}

static void announce_refusals(struct daemon *daemon, uint64_t until) {
    struct security_notice notice;
    while (security_announce(daemon->security, until, &notice)) {
        log_warning("%s", notice.text);
        json_t *details =
            json_pack("{s:I, s:s, s:s, s:s}", "count", (json_int_t)notice.count, "reason",
                      notice.reason, "socket", notice.socket, "address", notice.address);
        if (*notice.key)
            json_object_set_new(details, "key", json_string(notice.key));
        announce_event(daemon, "refused", details, "%s", notice.text);
    }
}

void announce_counted(struct daemon *daemon, bool all) {
    uint64_t now = clock_ns(), until = all ? UINT64_MAX : now;
    char text[INGEST_ANNOUNCEMENT_SIZE];
    while (ingest_announce(daemon->ingest, until, text, sizeof text)) {
        log_warning("%s", text);
        announce_event(daemon, "rejected", NULL, "%s", text);
    }
    announce_refusals(daemon, until);
    for (size_t i = 0; i < ANNOUNCE_KINDS; i++) {
        const struct notice *notice = &daemon->announcer->notices[i];
        if (notice->count > 0 && (all || now >= notice->announced + ANNOUNCEMENT_INTERVAL))
            announce_notice(daemon, (enum announce_kind)i, now);
    }
}
