#include "feedback.h"

#include <math.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/format.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "journalling.h"
#include "parts.h"
#include "parts/anomalies.h"
#include "run.h"

/* Reads `stream` and the optional `at` and `reason`. */
static int read_request(const json_t *request, double *at, enum anomaly_reason *reason,
                        struct error *error) {
    const json_t *stream = json_object_get(request, "stream"),
                 *time = json_object_get(request, "at"), *of = json_object_get(request, "reason");
    const char *name = json_string_value(of);
    bool level = name && !strcmp(name, "level");
    if (of)
        *reason = level ? ANOMALY_LEVEL : ANOMALY_NOVELTY;
    *at = json_is_number(time) ? json_number_value(time) : (double)NAN;
    if (json_is_string(stream) && json_string_length(stream) <= WIRE_KEY_MAX &&
        (!time || json_is_number(time)) && (!of || level || (name && !strcmp(name, "novelty"))))
        return 0;
    return error_set(error, EX_USAGE,
                     "normal: expected a stream of at most %d bytes and optionally the time of its "
                     "alarm in seconds since 1970, and its reason, novelty or level, for example "
                     "{\"command\": \"normal\", "
                     "\"stream\": \"host-3\", \"at\": 1769860800}",
                     WIRE_KEY_MAX);
}

/* `reason`: if the request has none. */
static int mark(struct daemon *daemon, const json_t *request, enum anomaly_reason reason,
                struct anomaly_kept *found, struct error *error) {
    const json_t *stream = json_object_get(request, "stream");
    double at;
    if (read_request(request, &at, &reason, error))
        return 1;
    return learner_mark_normal(daemon->learner, json_string_value(stream),
                               json_string_length(stream), reason, at, found, error);
}

static const char *reason_of(const struct anomaly_kept *alarm) {
    return alarm->reason == ANOMALY_LEVEL ? "level" : "novelty";
}

/* Entries of earlier versions have no reason. */
int feedback_replay(struct daemon *daemon, const json_t *request, struct error *error) {
    struct anomaly_kept found;
    return mark(daemon, request, ANOMALY_NOVELTY, &found, error) < 0 ? -1 : 0;
}

/* Waits until the entry is durable, so that the reply holds after a crash. */
static int journal(struct daemon *daemon, enum journal_kind kind, json_t *command,
                   struct error *error) {
    journalling_append_command(daemon, kind, command);
    checkpoints_changed(daemon);
    return journalling_sync(daemon, error) ? run_fail(daemon, error) : 0;
}

/* The alarm's own time keeps a replay from marking another alarm. */
static json_t *command_of(const json_t *request, const struct anomaly_kept *found) {
    json_t *command = json_pack("{s:s, s:O, s:s}", "command", "normal", "stream",
                                json_object_get(request, "stream"), "reason", reason_of(found));
    if (found->time > 0)
        json_object_set_new(command, "at", json_real(found->time));
    return command;
}

static json_t *describe(const json_t *request, const struct anomaly_kept *found) {
    return json_pack("{s:O, s:o, s:s, s:f}", "stream", json_object_get(request, "stream"),
                     "data_time", found->time > 0 ? json_real(found->time) : json_null(), "reason",
                     reason_of(found), "score", found->score);
}

int feedback_normal(void *context, const json_t *request, struct control_answer *answer,
                    struct error *error) {
    struct daemon *daemon = context;
    struct anomaly_kept found;
    char quoted[TEXT_QUOTE_SIZE];
    int result = mark(daemon, request, ANOMALY_ANY, &found, error);
    if (result < 0)
        return run_abort(daemon, error);
    if (result || journal(daemon, JOURNAL_FEEDBACK, command_of(request, &found), error))
        return -1;
    const json_t *stream = json_object_get(request, "stream");
    text_quote(quoted, json_string_value(stream), json_string_length(stream));
    announce_logged(daemon, log_info, "normal", describe(request, &found),
                    "marked an alarm of stream %s as normal, %s %.3g", quoted, reason_of(&found),
                    found.score);
    json_object_update_new(answer->fields, describe(request, &found));
    return 0;
}

/* ---- Silence ---- */

#define SILENCE_MOST 1e9 /* seconds */

/* `now`: the begin of a silence of data without times, if the request has no `time`. */
static int silence(struct daemon *daemon, const json_t *request, double now, double *until,
                   struct error *error) {
    const json_t *stream = json_object_get(request, "stream"),
                 *time = json_object_get(request, "time"),
                 *seconds = json_object_get(request, "seconds");
    double length = json_is_number(seconds) ? json_number_value(seconds) : (double)NAN;
    if (json_is_string(stream) && json_string_length(stream) <= WIRE_KEY_MAX && length >= 0 &&
        length <= SILENCE_MOST && (!time || json_is_number(time)))
        return learner_flush(daemon->learner, error)
                   ? -1
                   : anomalies_silence(learner_host(daemon->learner), json_string_value(stream),
                                       json_string_length(stream), length,
                                       time ? json_number_value(time) : now, until, error);
    error_set(error, EX_USAGE,
              "silence: expected a stream of at most %d bytes and 0 to %.0f seconds, for example "
              "{\"command\": \"silence\", \"stream\": \"host-3\", \"seconds\": 7200}",
              WIRE_KEY_MAX, SILENCE_MOST);
    return 1;
}

int feedback_replay_silence(struct daemon *daemon, const json_t *request, struct error *error) {
    double until;
    return silence(daemon, request, 0, &until, error) < 0 ? -1 : 0;
}

/* The journal has the time of the clock, so that a replay gives the same end. */
int feedback_silence(void *context, const json_t *request, struct control_answer *answer,
                     struct error *error) {
    struct daemon *daemon = context;
    json_t *stream = json_object_get(request, "stream"),
           *seconds = json_object_get(request, "seconds"), *time = json_object_get(request, "time");
    double now = time ? json_number_value(time) : clock_unix(), until;
    char quoted[TEXT_QUOTE_SIZE], when[FORMAT_SIZE];
    int result = silence(daemon, request, now, &until, error);
    if (result < 0)
        return run_abort(daemon, error);
    if (result || journal(daemon, JOURNAL_SILENCE,
                          json_pack("{s:s, s:O, s:O, s:f}", "command", "silence", "stream", stream,
                                    "seconds", seconds, "time", now),
                          error))
        return -1;
    bool ends = json_number_value(seconds) == 0;
    json_t *details =
        json_pack("{s:O, s:o}", "stream", stream, "until", ends ? json_null() : json_real(until));
    json_object_update(answer->fields, details);
    announce_logged(daemon, log_info, "silence", details, "%s stream %s%s%s",
                    ends ? "ended the silence of" : "silenced",
                    text_quote(quoted, json_string_value(stream), json_string_length(stream)),
                    ends ? "" : " until ", ends ? "" : format_date(when, until));
    return 0;
}
