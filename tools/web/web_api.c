#include "build-config.h"

#include "web_api.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "web_anomaly_api.h"
#include "web_experiment_api.h"
#include "web_forecast_api.h"
#include "web_query.h"
#include "web_skill_api.h"

enum {
    POINTS = 1000, /* unless it is said how many */
    POINTS_MAX = 5000,
    SHARE_DIGITS = 4,
    MEANING_SIZE = 512, /* of a field, as a sentence */
    COLUMN_SIZE = 64,   /* of a column's name; longer ones there are none */
};

/* What a request asks for: ?run= &layer= &axis= &from= &to= &points= &columns= */
struct query {
    int64_t run;
    int layer; /* -1 = none: losses */
    struct history_range range;
    const char *columns; /* "a,b"; NULL = all */
};

static bool take_axis(struct MHD_Connection *connection, enum history_axis *axis) {
    const char *text = query_text(connection, "axis");
    for (int i = 0; text && i < HISTORY_AXES; i++)
        if (strcmp(text, history_axes[i]->name) == 0) {
            *axis = (enum history_axis)i;
            return true;
        }
    return !text;
}

/* NULL, or what is wrong. */
static const char *take_query(struct query *query, struct MHD_Connection *connection) {
    double run = 0, layer = -1, points = POINTS, from = -INFINITY, to = INFINITY;
    enum history_axis axis = HISTORY_EXAMPLES;
    if (!query_number(connection, "run", 1, 1e15, &run) || run != floor(run) || run < 1)
        return "run must be the id of a run, from /api/runs";
    if (!query_number(connection, "layer", 0, HISTORY_LAYERS - 1, &layer) || layer != floor(layer))
        return "layer must be a whole number from 0 to 127";
    if (!query_number(connection, "points", 2, POINTS_MAX, &points))
        return "points must be a number from 2 to 5000";
    if (!query_number(connection, "from", -1e300, 1e300, &from) ||
        !query_number(connection, "to", -1e300, 1e300, &to))
        return "from and to must be numbers";
    if (!take_axis(connection, &axis))
        return "axis must be examples, steps or time";
    *query = (struct query){.run = (int64_t)run,
                            .layer = (int)layer,
                            .range = {axis, from, to, (size_t)points},
                            .columns = query_text(connection, "columns")};
    return NULL;
}

static void write_position(FILE *stream, const double position[HISTORY_AXES]) {
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        fprintf(stream, "\"%s\":", history_axes[axis]->name);
        query_write_number(stream, position[axis], QUERY_EXACT_DIGITS);
        fputc(',', stream);
    }
}

/* Whether the query wants the column of that name. */
static bool is_wanted(const char *columns, const char *name) {
    size_t length = strlen(name);
    if (!columns)
        return true;
    for (const char *at = columns; *at; at += strspn(at, ",")) {
        size_t part = strcspn(at, ",");
        if (part == length && memcmp(at, name, length) == 0)
            return true;
        at += part;
    }
    return false;
}

typedef double pick(const struct history_value *value);
static double pick_mean(const struct history_value *value) {
    return value->mean;
}
static double pick_minimum(const struct history_value *value) {
    return value->minimum;
}
static double pick_maximum(const struct history_value *value) {
    return value->maximum;
}
static double pick_missing(const struct history_value *value) {
    return (double)value->missing;
}

static void write_array(FILE *stream, const char *name, const struct history_series *series,
                        size_t column, pick *of) {
    fprintf(stream, "\"%s\":[", name);
    for (size_t i = 0; i < series->points; i++) {
        if (i)
            fputc(',', stream);
        query_write_number(stream, of(&series->values[i * series->columns + column]),
                           QUERY_VALUE_DIGITS);
    }
    fputc(']', stream);
}

static void write_column(FILE *stream, const struct history_series *series, size_t column,
                         bool single) {
    fputc('{', stream);
    write_array(stream, "mean", series, column, pick_mean);
    if (!single) {
        fputc(',', stream);
        write_array(stream, "minimum", series, column, pick_minimum);
        fputc(',', stream);
        write_array(stream, "maximum", series, column, pick_maximum);
        fputc(',', stream);
        write_array(stream, "missing", series, column, pick_missing);
    }
    fputc('}', stream);
}

static void write_axes(FILE *stream, const struct history_series *series) {
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        fprintf(stream, "\"%s\":[", history_axes[axis]->name);
        for (size_t i = 0; i < series->points; i++) {
            if (i)
                fputc(',', stream);
            query_write_number(stream, series->at[i].position[axis], QUERY_EXACT_DIGITS);
        }
        fputs("],", stream);
    }
    fputs("\"messages\":[", stream);
    for (size_t i = 0; i < series->points; i++)
        fprintf(stream, "%s%llu", i ? "," : "", (unsigned long long)series->at[i].messages);
    fputs("]", stream);
}

static void write_histograms(FILE *stream, const struct history_series *series) {
    fputs(",\"histogram\":[", stream);
    for (size_t i = 0; i < series->points; i++) {
        fputs(i ? ",[" : "[", stream);
        for (size_t bin = 0; bin < HISTORY_BINS; bin++) {
            if (bin)
                fputc(',', stream);
            query_write_number(stream, (double)series->histograms[i * HISTORY_BINS + bin],
                               SHARE_DIGITS);
        }
        fputc(']', stream);
    }
    fputc(']', stream);
}

static bool is_single(const struct history_series *series) {
    for (size_t i = 0; i < series->points; i++)
        if (series->at[i].messages != 1)
            return false;
    return true;
}

static void write_series(FILE *stream, const struct query *query,
                         const struct history_series *series) {
    const struct field *const *columns =
        query->layer < 0 ? history_loss_columns : history_layer_columns;
    bool single = is_single(series), first = true;
    fprintf(stream, "{\"run\":%lld,\"axis\":\"%s\",", (long long)query->run,
            history_axes[query->range.axis]->name);
    if (query->layer >= 0)
        fprintf(stream, "\"layer\":%d,", query->layer);
    write_axes(stream, series);
    fputs(",\"columns\":{", stream);
    for (size_t column = 0; column < series->columns; column++) {
        if (!is_wanted(query->columns, columns[column]->name))
            continue;
        fprintf(stream, "%s\"%s\":", first ? "" : ",", columns[column]->name);
        write_column(stream, series, column, single);
        first = false;
    }
    fputc('}', stream);
    if (series->histograms && is_wanted(query->columns, "histogram"))
        write_histograms(stream, series);
    fputc('}', stream);
}

static struct reply not_read(const struct feeds *feeds) {
    return reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", history_error(feeds->history));
}

static struct reply no_memory(void) {
    return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

/* Whether all columns that the query names are there. Otherwise *reply says which is not. */
static bool check_columns(const struct query *query, struct reply *reply) {
    bool layer = query->layer >= 0;
    const struct field *const *columns = layer ? history_layer_columns : history_loss_columns;
    int count = layer ? HISTORY_LAYER_COLUMNS : HISTORY_LOSS_COLUMNS;
    size_t length;
    for (const char *at = query->columns; at && *at; at += length + strspn(at + length, ",")) {
        char name[COLUMN_SIZE];
        length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)fmin((double)length, COLUMN_SIZE), at);
        if (length == 0 || history_column(columns, count, name) >= 0 ||
            (layer && strcmp(name, "histogram") == 0))
            continue;
        *reply = reply_error(MHD_HTTP_BAD_REQUEST, "%s has no column %s; /api/columns lists them",
                             layer ? "a layer" : "a series of losses", name);
        return false;
    }
    return true;
}

/* Whether the run that the query names is there, and its layer. Otherwise *reply says what is not.
 */
static bool check_place(const struct feeds *feeds, const struct query *query, struct reply *reply) {
    struct history_layer layers[HISTORY_LAYERS];
    bool known;
    int count = 0;
    if (history_has_run(feeds->history, query->run, &known) ||
        (query->layer >= 0 && history_layers(feeds->history, query->run, layers, &count))) {
        *reply = not_read(feeds);
        return false;
    }
    if (!known)
        *reply = reply_error(MHD_HTTP_NOT_FOUND, "there is no run %lld; /api/runs lists them",
                             (long long)query->run);
    else if (query->layer >= count)
        *reply = reply_error(MHD_HTTP_NOT_FOUND, "run %lld has no layer %d: %d %s been seen of it",
                             (long long)query->run, query->layer, count,
                             count == 1 ? "layer has" : "layers have");
    else
        return true;
    return false;
}

static struct reply answer_series(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct query query;
    struct reply_text text;
    struct history_series series;
    struct reply refusal;
    const char *wrong = take_query(&query, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    if (!check_columns(&query, &refusal) || !check_place(feeds, &query, &refusal))
        return refusal;
    if (query.layer < 0
            ? history_loss(feeds->history, query.run, &query.range, &series)
            : history_state(feeds->history, query.run, query.layer, &query.range, &series))
        return not_read(feeds);
    bool begun = reply_begin(&text);
    if (begun)
        write_series(text.stream, &query, &series);
    history_series_clear(&series);
    return begun ? reply_end(&text, REPLY_JSON) : no_memory();
}

static struct reply answer_events(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct query query;
    struct reply_text text;
    struct history_events events;
    const char *wrong = take_query(&query, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    if (history_events(feeds->history, query.run, &query.range, &events))
        return not_read(feeds);
    bool begun = reply_begin(&text);
    if (begun)
        fprintf(text.stream, "{\"run\":%lld,\"events\":[", (long long)query.run);
    for (size_t i = 0; begun && i < events.count; i++) {
        const struct history_event *event = &events.events[i];
        fprintf(text.stream, "%s{\"id\":%lld,", i ? "," : "", (long long)event->id);
        write_position(text.stream, event->position);
        fputs("\"kind\":", text.stream);
        query_write_text(text.stream, event->kind);
        fputs(",\"text\":", text.stream);
        query_write_text(text.stream, event->text);
        fputc('}', text.stream);
    }
    history_events_clear(&events);
    if (!begun)
        return no_memory();
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}

static void write_layers(FILE *stream, struct history *history, int64_t run) {
    struct history_layer layers[HISTORY_LAYERS];
    int count = 0;
    if (history_layers(history, run, layers, &count))
        count = 0;
    fputs("\"layers\":[", stream);
    for (int i = 0; i < count; i++) {
        fprintf(stream, "%s{\"kind\":", i ? "," : "");
        query_write_text(stream, layers[i].kind);
        fprintf(stream, ",\"size\":%d", layers[i].size);
        if (*layers[i].member) {
            fputs(",\"member\":", stream);
            query_write_text(stream, layers[i].member);
        }
        fputc('}', stream);
    }
    fputc(']', stream);
}

/* A recording may come from anywhere: what is not JSON is null. */
static void write_json(FILE *stream, const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    fputs(value ? text : "null", stream);
    json_decref(value);
}

static void write_run(FILE *stream, struct history *history, const struct history_run *run) {
    fprintf(stream, "{\"id\":%lld,\"part\":%d,", (long long)run->id, run->part);
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++) {
        const struct history_run_column *column = &history_run_columns[i];
        const void *value = (const char *)run + column->offset;
        if (column->separate)
            continue;
        fprintf(stream, "\"%s\":", column->name);
        if (column->json)
            write_json(stream, *(const char *const *)value);
        else if (column->text)
            query_write_text(stream, *(const char *const *)value);
        else
            query_write_number(stream, *(const double *)value, QUERY_EXACT_DIGITS);
        fputc(',', stream);
    }
    write_layers(stream, history, run->id);
    fputc('}', stream);
}

static struct reply answer_runs(const struct feeds *feeds, struct MHD_Connection *connection) {
    (void)connection;
    struct reply_text text;
    struct history_runs runs;
    if (history_runs(feeds->history, &runs))
        return not_read(feeds);
    bool begun = reply_begin(&text);
    if (begun)
        fputs("{\"runs\":[", text.stream);
    for (size_t i = 0; begun && i < runs.count; i++) {
        if (i)
            fputc(',', text.stream);
        write_run(text.stream, feeds->history, &runs.runs[i]);
    }
    history_runs_clear(&runs);
    if (!begun)
        return no_memory();
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}

static struct reply answer_configuration(const struct feeds *feeds,
                                         struct MHD_Connection *connection) {
    struct query query;
    struct reply refusal;
    struct reply_text text;
    char *json;
    const char *wrong = take_query(&query, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    query.layer = -1;
    if (!check_place(feeds, &query, &refusal))
        return refusal;
    if (history_configuration(feeds->history, query.run, &json))
        return not_read(feeds);
    if (!reply_begin(&text)) {
        free(json);
        return no_memory();
    }
    fprintf(text.stream, "{\"run\":%lld,\"configuration\":", (long long)query.run);
    write_json(text.stream, json ? json : "");
    fputc('}', text.stream);
    free(json);
    return reply_end(&text, REPLY_JSON);
}

static json_t *describe_columns(const struct field *const *columns, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        char meaning[MEANING_SIZE];
        field_sentence(columns[i], meaning, sizeof meaning);
        json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "name", columns[i]->name,
                                               "path", columns[i]->path, "unit", columns[i]->unit,
                                               "meaning", meaning));
    }
    return array;
}

/* The object, which is freed, as a reply. */
static struct reply object_reply(json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return no_memory();
    return (struct reply){.status = MHD_HTTP_OK,
                          .type = REPLY_JSON,
                          .body = text,
                          .size = strlen(text),
                          .owned = true};
}

static struct reply answer_columns(const struct feeds *feeds, struct MHD_Connection *connection) {
    (void)feeds, (void)connection;
    return object_reply(json_pack(
        "{s:o, s:o, s:i}", "loss", describe_columns(history_loss_columns, HISTORY_LOSS_COLUMNS),
        "layer", describe_columns(history_layer_columns, HISTORY_LAYER_COLUMNS), "bins",
        (int)HISTORY_BINS));
}

static struct reply answer_daemons(const struct feeds *feeds, struct MHD_Connection *connection) {
    (void)connection;
    json_t *array = json_array();
    for (size_t i = 0; i < feeds->count; i++)
        json_array_append_new(array, feed_describe(&feeds->feed[i], true));
    return object_reply(json_pack("{s:o, s:s?}", "daemons", array, "recording", feeds->recording));
}

struct reply api_answer(const struct feeds *feeds, struct MHD_Connection *connection,
                        const char *path) {
    typedef struct reply answer(const struct feeds *feeds, struct MHD_Connection *connection);
    static const struct {
        const char *path;
        answer *answer;
    } paths[] = {
        {"/api/daemons", answer_daemons},
        {"/api/runs", answer_runs},
        {"/api/columns", answer_columns},
        {"/api/series", answer_series},
        {"/api/events", answer_events},
        {"/api/forecasts", forecast_answer},
        {"/api/anomalies", anomaly_answer},
        {"/api/skill", skill_answer},
        {"/api/configuration", answer_configuration},
    };
    if (feeds->experiment)
        return experiment_answer(feeds->experiment, connection, path);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(path, paths[i].path) == 0)
            return paths[i].answer(feeds, connection);
    return reply_error(MHD_HTTP_NOT_FOUND,
                       "there is no such path; there are /api/daemons, /api/runs, /api/columns, "
                       "/api/series?run=ID, /api/events?run=ID, /api/anomalies?run=ID, "
                       "/api/configuration?run=ID, "
                       "/api/skill?run=ID, /api/forecasts and /api/live");
}
