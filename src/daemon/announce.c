#include "announce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/example.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "parts.h"
#include "parts/range.h"

#define STATUS_INTERVAL (10 * NS_PER_SECOND)
#define ANNOUNCEMENT_INTERVAL NS_PER_SECOND

enum {
    EVENT_TEXT_SIZE = 1024,
    NOTICE_SIZE = TEXT_QUOTE_SIZE + 128,
    ROOM = 16, /* events per ANNOUNCEMENT_INTERVAL */
};

/* Incidents since the last announcement. */
struct notice {
    uint64_t count;
    uint64_t announced; /* time of the last announcement */
    double time;        /* data time of the newest one, 0 = unknown */
    size_t key_size;
    char key[WIRE_KEY_MAX];    /* the newest one's stream */
    struct out_of_scale found; /* the newest number out of scale */
};

struct announcer {
    announce_fields *status;
    uint64_t status_due;
    struct notice notices[ANNOUNCE_KINDS];
    uint64_t room_begun; /* start of the interval */
    size_t room_used;
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

/* Returns the count of the event, or the current count. */
static uint64_t extract_count(json_t *details, const char *key, uint64_t now) {
    const json_t *own = json_object_get(details, key);
    uint64_t count = own ? (uint64_t)json_integer_value(own) : now;
    json_object_del(details, key);
    return count;
}

/* Returns the time of the event, or the current time. */
static double extract_time(json_t *details) {
    const json_t *own = json_object_get(details, "time");
    double time = own ? json_number_value(own) : clock_unix();
    json_object_del(details, "time");
    return time;
}

void announce_event(struct daemon *daemon, const char *kind, json_t *details, const char *format,
                    ...) {
    uint64_t examples = extract_count(details, "examples", daemon_examples(daemon));
    uint64_t steps = extract_count(details, "steps", daemon_steps(daemon));
    struct json_text *message =
        publish_begin_at(daemon->publish, TOPIC_EVENT, examples, steps, extract_time(details));
    if (message) {
        char text[EVENT_TEXT_SIZE];
        TEXT_FORMAT(text, sizeof text, format);
        json_text_string(message, "kind", kind, strlen(kind));
        json_text_string(message, "text", text, strlen(text));
        json_text_members(message, details);
        publish_send(daemon->publish, TOPIC_EVENT);
    }
    json_decref(details);
}

void announce_logged(struct daemon *daemon, void (*log)(const char *format, ...), const char *kind,
                     json_t *details, const char *format, ...) {
    char text[2 * EVENT_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    log("%s", text);
    announce_event(daemon, kind, details, "%s", text);
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

/* ---- Counted incidents ---- */

void announce_count(struct daemon *daemon, enum announce_kind kind, uint64_t count, const char *key,
                    size_t key_size, double time) {
    struct notice *notice = &daemon->announcer->notices[kind];
    notice->count += count;
    notice->time = time;
    notice->key_size = key_size;
    memcpy(notice->key, key, key_size);
}

bool announce_has_room(struct daemon *daemon) {
    struct announcer *announcer = daemon->announcer;
    uint64_t now = clock_ns();
    if (now >= announcer->room_begun + ANNOUNCEMENT_INTERVAL) {
        announcer->room_begun = now;
        announcer->room_used = 0;
    }
    if (announcer->room_used == ROOM)
        return false;
    announcer->room_used++;
    return true;
}

void announce_out_of_scale(struct daemon *daemon, const struct out_of_scale *found,
                           const struct example *example) {
    daemon->announcer->notices[ANNOUNCE_OUT_OF_SCALE].found = *found;
    announce_count(daemon, ANNOUNCE_OUT_OF_SCALE, found->count, example->key, example->key_size,
                   example->time);
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
    if (notice->time > 0)
        json_object_set_new(details, "data_time", json_real(notice->time));
    notice->count = 0;
    notice->announced = now;
    return details;
}

/* "1 update was skipped, of stream 'a'" */
static void write_notice(char text[NOTICE_SIZE], enum announce_kind kind,
                         const struct notice *notice) {
    static const struct {
        const char *one, *many;
    } TEXTS[ANNOUNCE_KINDS] = {
        [ANNOUNCE_SKIPPED] = {"update was skipped, of stream",
                              "updates were skipped, the last one of stream"},
        [ANNOUNCE_FORGOTTEN] = {"stream was forgotten to make room:",
                                "streams were forgotten to make room, the last one"},
        [ANNOUNCE_GAP] = {"example is missing, of stream",
                          "examples are missing, the last ones of stream"},
        [ANNOUNCE_OUT_OF_SCALE] = {"input is out of scale, of stream",
                                   "inputs are out of scale, the last one of stream"},
        [ANNOUNCE_SILENT] = {"more alarm: silent, of stream",
                             "more alarms: silent, the last one of stream"},
        [ANNOUNCE_STUCK] = {"more alarm: stuck, of stream",
                            "more alarms: stuck, the last one of stream"},
    };
    char stream[TEXT_QUOTE_SIZE];
    text_quote(stream, notice->key, notice->key_size);
    snprintf(text, NOTICE_SIZE, "%" PRIu64 " %s %s", notice->count,
             notice->count == 1 ? TEXTS[kind].one : TEXTS[kind].many, stream);
}

static void announce_scale(struct daemon *daemon, const struct out_of_scale *found,
                           const char *text, json_t *details) {
    char detail[NOTICE_SIZE], name[COLUMN_NAME_SIZE];
    snprintf(
        detail, sizeof detail,
        "%s is %g, more than %d times as large as any earlier value (%g); check its type and unit",
        input_label(&daemon->model.architecture.input, found->column, name), found->value,
        INPUT_RANGE_FACTOR, found->largest);
    log_warning("%s: %s", text, detail);
    json_object_update_new(details,
                           json_pack("{s:I, s:f, s:f}", "column", (json_int_t)found->column,
                                     "value", found->value, "largest", found->largest));
    announce_event(daemon, "input_scale", details, "%s: %s", text, detail);
}

/* Has the members that alarms.c sends, and a count. */
static void announce_alarms(struct daemon *daemon, const char *reason, const char *text,
                            json_t *details) {
    if (!json_object_get(details, "data_time"))
        json_object_set_new(details, "data_time", json_null());
    json_object_update_new(details, json_pack("{s:I, s:s, s:n, s:n, s:[]}", "example",
                                              (json_int_t)daemon_examples(daemon), "reason", reason,
                                              "score", "threshold", "columns"));
    announce_event(daemon, "anomaly", details, "%s", text);
}

static void announce_notice(struct daemon *daemon, enum announce_kind kind, uint64_t now) {
    struct notice *notice = &daemon->announcer->notices[kind];
    char text[NOTICE_SIZE];
    write_notice(text, kind, notice);
    json_t *details = begin_again(notice, now);
    switch (kind) {
    case ANNOUNCE_SKIPPED:
        log_warning("%s: loss or gradient was not finite; lower %slearning.clip", text,
                    daemon->config->learning.optimizer.rate == RATE_AUTO
                        ? ""
                        : "learning.optimizer.rate or ");
        announce_event(daemon, "skipped_update", details, "%s: loss or gradient was not finite",
                       text);
        break;
    case ANNOUNCE_FORGOTTEN:
        announce_event(daemon, "stream_forgotten", details, "%s: learning.max_streams is %zu", text,
                       daemon->config->learning.max_streams);
        break;
    case ANNOUNCE_OUT_OF_SCALE:
        announce_scale(daemon, &notice->found, text, details);
        break;
    case ANNOUNCE_SILENT:
        announce_alarms(daemon, "silent", text, details);
        break;
    case ANNOUNCE_STUCK:
        announce_alarms(daemon, "stuck", text, details);
        break;
    case ANNOUNCE_GAP:
    case ANNOUNCE_KINDS:
        log_warning("%s: its sequence numbers have a gap", text);
        announce_event(daemon, "gap", details, "%s", text);
    }
}

static void announce_refusals(struct daemon *daemon, uint64_t until) {
    struct security_notice notice;
    while (security_announce(daemon->security, until, &notice)) {
        json_t *details =
            json_pack("{s:I, s:s, s:s, s:s}", "count", (json_int_t)notice.count, "reason",
                      notice.reason, "socket", notice.socket, "address", notice.address);
        if (*notice.key)
            json_object_set_new(details, "key", json_string(notice.key));
        announce_logged(daemon, log_warning, "refused", details, "%s", notice.text);
    }
}

void announce_counted(struct daemon *daemon, bool all) {
    uint64_t now = clock_ns(), until = all ? UINT64_MAX : now;
    char text[INGEST_ANNOUNCEMENT_SIZE];
    while (ingest_announce(daemon->ingest, until, text, sizeof text)) {
        size_t key_size;
        const char *key = ingest_announced_stream(daemon->ingest, &key_size);
        json_t *details = json_object();
        if (key_size > 0)
            json_object_set_new(details, "stream", json_of_text(key, key_size));
        announce_logged(daemon, log_warning, "rejected", details, "%s", text);
    }
    announce_refusals(daemon, until);
    for (size_t i = 0; i < ANNOUNCE_KINDS; i++) {
        const struct notice *notice = &daemon->announcer->notices[i];
        if (notice->count > 0 && (all || now >= notice->announced + ANNOUNCEMENT_INTERVAL))
            announce_notice(daemon, (enum announce_kind)i, now);
    }
}
