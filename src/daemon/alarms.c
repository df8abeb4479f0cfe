#include "alarms.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "announce.h"
#include "common/error.h"
#include "common/example.h"
#include "common/json_text.h"
#include "common/text.h"
#include "common/wire.h"
#include "learning.h"
#include "parts.h"
#include "parts/anomalies.h"

enum {
    COLUMNS_MOST = 32, /* the most abnormal columns in a message */
    WHY_SIZE = 192,
    NOTES = 1024,
};
_Static_assert(NOTES > 2 * LEARNING_BATCH_MAX, "notes of a plan must not be overwritten");

/* The note of example n is at n % NOTES. */
struct alarms {
    struct alarm_note {
        uint64_t example; /* 0: empty */
        size_t size;
        char text[WIRE_NOTE_MAX];
    } at[NOTES];
};

int alarms_open(struct daemon *daemon, struct error *error) {
    if (!learner_watches(daemon->learner))
        return 0;
    daemon->alarms = calloc(1, sizeof *daemon->alarms);
    return daemon->alarms ? 0 : error_no_memory(error);
}

void alarms_close(struct daemon *daemon) {
    free(daemon->alarms);
    daemon->alarms = NULL;
}

void alarms_keep_note(struct daemon *daemon, const struct example *example) {
    if (!daemon->alarms)
        return;
    uint64_t number = learner_taken(daemon->learner) + 1;
    struct alarm_note *note = &daemon->alarms->at[number % NOTES];
    note->example = example->note_size ? number : 0;
    note->size = example->note_size;
    if (note->size)
        memcpy(note->text, example->note, note->size);
}

/* The alarm of a silent stream belongs to an example of another stream. */
static json_t *note_of(const struct daemon *daemon, const struct learner_alarm *alarm) {
    const struct alarm_note *note = &daemon->alarms->at[alarm->example % NOTES];
    bool whole_silent = alarm->kind == ALARM_SILENT && alarm->column == SIZE_MAX;
    return note->example == alarm->example && !whole_silent ? json_of_text(note->text, note->size)
                                                            : NULL;
}

/* These alarms have no score. */
static bool is_habit(const struct learner_alarm *alarm) {
    return alarm->kind == ALARM_STUCK || alarm->kind == ALARM_SILENT;
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static double score_of(const struct learner_alarm *alarm, size_t column) {
    return anomalies_alarm_scores(alarm)[column];
}

static double truth_of(const struct learner_alarm *alarm, size_t column) {
    return alarm->x ? (double)alarm->x[column] : NAN;
}

static double forecast_of(const struct learner_alarm *alarm, size_t column) {
    return alarm->forecast ? alarm->forecast[column] : NAN;
}

/* Chooses up to COLUMNS_MOST columns by score, from the largest down to the threshold, or to an
   average share; at least one. Returns the count. */
static size_t choose(const struct learner_alarm *alarm, size_t chosen[COLUMNS_MOST]) {
    size_t count = 0;
    if (is_habit(alarm)) {
        chosen[0] = alarm->column;
        return alarm->column < alarm->columns;
    }
    for (size_t k = 0; k < alarm->columns; k++) {
        double score = score_of(alarm, k);
        size_t at = count;
        if (isnan(score))
            continue;
        while (at > 0 && score_of(alarm, chosen[at - 1]) < score)
            at--;
        if (at == COLUMNS_MOST)
            continue;
        count += count < COLUMNS_MOST;
        for (size_t i = count - 1; i > at; i--)
            chosen[i] = chosen[i - 1];
        chosen[at] = k;
    }
    double least = alarm->kind == ALARM_LEVEL ? 1 / (double)alarm->columns : alarm->threshold;
    while (count > 1 && score_of(alarm, chosen[count - 1]) < least)
        count--;
    return count;
}

/* Converts the number of a watched column to its number in x. */
static size_t place_of(const struct learner_alarm *alarm, size_t column) {
    return alarm->at ? alarm->at[column] : column;
}

static const struct input *input_of(const struct daemon *daemon) {
    return &daemon->model.architecture.input;
}

static json_t *columns_of(const struct input *input, const struct learner_alarm *alarm,
                          const size_t *chosen, size_t count) {
    json_t *columns = json_array();
    const char *score = alarm->kind == ALARM_LEVEL ? "share" : "score";
    for (size_t i = 0; i < count; i++) {
        size_t k = chosen[i], place = place_of(alarm, k);
        json_t *column = json_pack(
            "{s:I, s:o, s:o, s:o}", "column", (json_int_t)place, score, number(score_of(alarm, k)),
            "forecast", number(forecast_of(alarm, k)), "truth", number(truth_of(alarm, k)));
        if (input->column_count)
            json_object_set_new(column, "name", json_string(input->columns[place].name));
        json_array_append_new(columns, column);
    }
    return columns;
}

/* Describes a stuck or silent column, as the end of a sentence. */
static void explain_habit(char text[WHY_SIZE], const struct input *input,
                          const struct learner_alarm *alarm) {
    char name[COLUMN_NAME_SIZE];
    if (alarm->column >= alarm->columns) {
        snprintf(text, WHY_SIZE, "no data for longer than usual");
        return;
    }
    input_label(input, place_of(alarm, alarm->column), name);
    if (alarm->kind == ALARM_SILENT)
        snprintf(text, WHY_SIZE, "%s has been missing for longer than usual", name);
    else
        snprintf(text, WHY_SIZE, "%s has not changed from %g for longer than usual", name,
                 truth_of(alarm, alarm->column));
}

/* Describes the most abnormal column: "novelty 2.43, threshold 1.5; x[3] is 25, forecast 10.5", or
   "level 2.43, threshold 1.5; x[3] is 25, share 0.81". */
static void explain_score(char text[WHY_SIZE], const struct input *input,
                          const struct learner_alarm *alarm, const size_t *chosen, size_t count) {
    char name[COLUMN_NAME_SIZE];
    int used = snprintf(text, WHY_SIZE, "%s %.3g, threshold %.3g",
                        anomalies_alarm_name(alarm->kind), alarm->score, alarm->threshold);
    if (count == 0 || isnan(truth_of(alarm, *chosen)))
        return;
    used += snprintf(text + used, WHY_SIZE - (size_t)used, "; %s is %g",
                     input_label(input, place_of(alarm, *chosen), name), truth_of(alarm, *chosen));
    if (alarm->kind == ALARM_LEVEL)
        snprintf(text + used, WHY_SIZE - (size_t)used, ", share %.2g", score_of(alarm, *chosen));
    else if (isfinite(forecast_of(alarm, *chosen)))
        snprintf(text + used, WHY_SIZE - (size_t)used, ", forecast %g",
                 forecast_of(alarm, *chosen));
}

void alarms_announce(struct daemon *daemon, const struct learner_alarm *alarm) {
    size_t chosen[COLUMNS_MOST];
    char stream[TEXT_QUOTE_SIZE], why[WHY_SIZE];
    if (!publish_wanted(daemon->publish, TOPIC_EVENT))
        return;
    if (is_habit(alarm) && !announce_has_room(daemon)) {
        announce_count(daemon, alarm->kind == ALARM_STUCK ? ANNOUNCE_STUCK : ANNOUNCE_SILENT, 1,
                       alarm->key, alarm->key_size, alarm->time);
        return;
    }
    size_t count = choose(alarm, chosen);
    json_t *details = json_pack(
        "{s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:o}", "examples", (json_int_t)alarm->example,
        "stream", json_of_text(alarm->key, alarm->key_size), "example", (json_int_t)alarm->example,
        "data_time", alarm->time > 0 ? json_real(alarm->time) : json_null(), "reason",
        anomalies_alarm_name(alarm->kind), "score", number(alarm->score), "threshold",
        number(alarm->threshold), "columns", columns_of(input_of(daemon), alarm, chosen, count));
    json_t *note = note_of(daemon, alarm);
    if (note)
        json_object_set_new(details, "note", note);
    if (alarm->silenced)
        json_object_set_new(details, "silenced", json_true());
    text_quote(stream, alarm->key, alarm->key_size);
    if (is_habit(alarm))
        explain_habit(why, input_of(daemon), alarm);
    else
        explain_score(why, input_of(daemon), alarm, chosen, count);
    announce_event(daemon, "anomaly", details, "stream %s is %s: %s", stream,
                   is_habit(alarm) ? anomalies_alarm_name(alarm->kind) : "abnormal", why);
}

/* ---- Incidents ---- */

static json_t *pack_at(const struct incident_at *at) {
    return json_pack("{s:I, s:o}", "example", (json_int_t)at->example, "data_time",
                     at->time > 0 ? json_real(at->time) : json_null());
}

static json_t *pack_values(const struct incident_column *column) {
    json_t *list = json_array();
    for (size_t n = 0; n < (size_t)column->count; n++)
        json_array_append_new(list, number(column->values[n]));
    return list;
}

static json_t *pack_columns(const struct input *input, const struct learner_incident *incident,
                            const size_t *chosen, size_t count) {
    json_t *columns = json_array();
    for (size_t n = 0; n < count; n++) {
        size_t k = chosen[n], place = place_of(&incident->blame, k);
        json_t *column =
            json_pack("{s:I, s:f, s:o, s:o}", "column", (json_int_t)place, "share",
                      score_of(&incident->blame, k), "before", pack_values(&incident->before[k]),
                      "after", incident->ended ? pack_values(&incident->newest[k]) : json_null());
        if (input->column_count)
            json_object_set_new(column, "name", json_string(input->columns[place].name));
        json_array_append_new(columns, column);
    }
    return columns;
}

static json_t *pack_incident(const struct daemon *daemon, const struct learner_incident *incident,
                             const char *reason, const size_t *chosen, size_t count) {
    const struct incident *sum = &incident->sum;
    json_t *streams = json_array(), *peak = pack_at(&sum->peak.at);
    for (size_t n = 0; n < incident->stream_count; n++)
        json_array_append_new(streams,
                              json_of_text(incident->streams[n].key, incident->streams[n].size));
    json_object_set_new(peak, "score", sum->peak.score < 0 ? json_null() : number(sum->peak.score));
    json_object_set_new(peak, "reason", json_string(reason));
    return json_pack(
        "{s:I, s:s, s:I, s:O, s:o, s:s?, s:o, s:o, s:o, s:I, s:o, s:b}", "examples",
        (json_int_t)incident->blame.example, "state", incident->ended ? "ended" : "began",
        "incident", (json_int_t)sum->number, "stream", json_array_get(streams, 0), "streams",
        streams, "group", incident->group, "begin", pack_at(&sum->begin), "end",
        incident->ended ? pack_at(&sum->end) : json_null(), "peak", peak, "alarms",
        (json_int_t)sum->alarms, "columns", pack_columns(input_of(daemon), incident, chosen, count),
        "silenced", incident->silenced);
}

void alarms_announce_incident(struct daemon *daemon, const struct learner_incident *incident) {
    enum { MOST = 8 };
    size_t chosen[COLUMNS_MOST], count = choose(&incident->blame, chosen);
    const char *reason = anomalies_alarm_name((enum learner_alarm_kind)incident->sum.peak.reason);
    char stream[TEXT_QUOTE_SIZE], name[COLUMN_NAME_SIZE] = "";
    if (!publish_wanted(daemon->publish, TOPIC_EVENT))
        return;
    if (count)
        input_label(input_of(daemon), place_of(&incident->blame, *chosen), name);
    announce_event(daemon, "incident",
                   pack_incident(daemon, incident, reason, chosen, count < MOST ? count : MOST),
                   "incident of stream %s%s %s: %s%s%s",
                   text_quote(stream, incident->streams[0].key, incident->streams[0].size),
                   incident->stream_count > 1 ? " and others" : "",
                   incident->ended ? "has ended" : "began", reason, count ? ", most of it in " : "",
                   name);
}
