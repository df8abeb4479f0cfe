#include "build-config.h"

#include "alert_say.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "common/format.h"

enum { WHERE_SIZE = 3 * FORMAT_SIZE };

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(double value) {
    return isfinite(value) ? json_integer((json_int_t)value) : json_null();
}

/* Of what is not UTF-8, such as an endpoint with a strange path, only what is ASCII. */
static json_t *string(const char *text) {
    json_t *whole = json_string(text);
    char ascii[ALERT_TEXT_SIZE];
    if (whole)
        return whole;
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(ascii);
}

/* Before its first `status` the daemon's name is not known. */
static const char *name_of(const struct watcher *w) {
    return *w->name ? w->name : w->endpoint;
}

json_t *say_json(const struct watcher *w, const struct alert *alert, double unix_offset,
                 double since) {
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "kind",
        alert_names[alert->kind], "state", alert_states[alert->state], "daemon", string(name_of(w)),
        "endpoint", string(w->endpoint), "text", string(alert->text), "time",
        number(alert->now + unix_offset), "since", number(since), "data_time",
        number(alert->data_time), "data_since", number(alert->data_since), "stream",
        *alert->stream ? string(alert->stream) : json_null(), "note",
        *alert->note ? string(alert->note) : json_null(), "run", string(w->run), "examples",
        count(w->examples), "value", number(alert->value), "limit", number(alert->limit), "times",
        (json_int_t)alert->times);
}

/* "at example 50,090, in data of 2014-12-31 23:30:00": what is known of it. */
static void say_where(char where[WHERE_SIZE], const struct watcher *w, const struct alert *alert) {
    char examples[FORMAT_SIZE], date[FORMAT_SIZE];
    bool newest = alert->state == ALERT_OVER || alert->state == ALERT_STILL;
    double data = newest ? alert->data_time : alert->data_since;
    bool counted = isfinite(w->examples), dated = isfinite(data);
    snprintf(where, WHERE_SIZE, "%s%s%s%s%s", counted ? "at example " : "",
             counted ? format_grouped(examples, w->examples) : "", counted && dated ? ", " : "",
             dated ? "in data of " : "", dated ? format_date(date, data) : "");
}

char *say_line(char line[SAY_LINE_SIZE], const struct watcher *w, const struct alert *alert,
               double unix_offset) {
    static const char *const words[] = {"ALERT", "STILL", "over ", "passed"};
    char date[FORMAT_SIZE], where[WHERE_SIZE];
    int length = snprintf(line, SAY_LINE_SIZE, "%s %s %s %s: %s",
                          format_date(date, alert->now + unix_offset), words[alert->state],
                          name_of(w), alert_names[alert->kind], alert->text);
    if (*alert->note && length < SAY_LINE_SIZE)
        length += snprintf(line + length, SAY_LINE_SIZE - (size_t)length, "; \"%s\"", alert->note);
    say_where(where, w, alert);
    if (*where && length < SAY_LINE_SIZE)
        length += snprintf(line + length, SAY_LINE_SIZE - (size_t)length, " (%s)", where);
    if (alert->times > (alert->state != ALERT_PASSED) && length < SAY_LINE_SIZE)
        snprintf(line + length, SAY_LINE_SIZE - (size_t)length,
                 "; %llu time%s since it was reported", (unsigned long long)alert->times,
                 alert->times == 1 ? "" : "s");
    return line;
}
