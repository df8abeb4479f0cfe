#include "web_api.h"

#include <jansson.h>
#include <math.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_member.h"
#include "web_experiment_api.h"

static const char no_run[] = "run must be the id of a run, from /api/runs";

static struct reply no_memory(void) {
    return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

static struct reply not_read(const struct feeds *feeds) {
    return reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", history_error(feeds->history));
}

/* ---- Anomalies ----

   /api/anomalies: recorded anomalies. See docs/reference/web-api.md. */

enum { ANOMALIES = 500, POINTS_MOST = 5000, DIGITS = 10 };

/* The numbers of a row, in the order of the answer. */
static const struct {
    const char *name;
    size_t offset;
    int digits;
} numbers[] = {
    {"examples", offsetof(struct history_anomaly, position[HISTORY_EXAMPLES]), QUERY_EXACT_DIGITS},
    {"steps", offsetof(struct history_anomaly, position[HISTORY_STEPS]), QUERY_EXACT_DIGITS},
    {"time", offsetof(struct history_anomaly, position[HISTORY_TIME]), QUERY_EXACT_DIGITS},
    {"data_time", offsetof(struct history_anomaly, data_time), QUERY_EXACT_DIGITS},
    {"score", offsetof(struct history_anomaly, score), DIGITS},
    {"threshold", offsetof(struct history_anomaly, threshold), DIGITS},
    {"column_score", offsetof(struct history_anomaly, column_score), DIGITS},
    {"forecast", offsetof(struct history_anomaly, forecast), DIGITS},
    {"truth", offsetof(struct history_anomaly, truth), DIGITS},
};

static void write_row(FILE *stream, const struct history_anomaly *row) {
    fprintf(stream, "{\"event\":%lld", (long long)row->event);
    member_write_text(stream, "stream", row->stream);
    member_write_text(stream, "reason", row->reason);
    member_write_text(stream, "note", *row->note ? row->note : NULL);
    member_write_number(stream, "column", row->column < 0 ? NAN : (double)row->column, DIGITS);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        const void *value = (const char *)row + numbers[n].offset;
        member_write_number(stream, numbers[n].name, *(const double *)value, numbers[n].digits);
    }
    fputc('}', stream);
}

static struct reply anomaly_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    size_t run = 0, points = ANOMALIES, count;
    struct history_anomaly *rows;
    struct reply_text text;
    if (!query_count(connection, "run", 1, 1e15, &run) || !run)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", no_run);
    if (!query_count(connection, "points", 1, POINTS_MOST, &points))
        return reply_error(MHD_HTTP_BAD_REQUEST, "points must be a whole number from 1 to %d",
                           POINTS_MOST);
    if (history_anomalies(feeds->history, (int64_t)run, query_text(connection, "stream"), points,
                          &rows, &count)) {
        free(rows);
        return not_read(feeds);
    }
    bool begun = reply_begin(&text);
    if (begun)
        fprintf(text.stream, "{\"run\":%zu,\"anomalies\":[", run);
    for (size_t i = 0; begun && i < count; i++) {
        fputs(i ? "," : "", text.stream);
        write_row(text.stream, &rows[i]);
    }
    free(rows);
    if (!begun)
        return no_memory();
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}

/* ---- Skill ----

   /api/skill: the quality of each target column, expert and member in the newest `loss` message of
   a run. See docs/reference/web-api.md. */

/* The format of `loss`: a list of columns, an object of experts. */
static void write_parts(FILE *stream, bool experts, const struct history_part *parts,
                        size_t count) {
    const struct field_table *table = &field_tables[experts ? FIELDS_OF_EXPERT : FIELDS_OF_COLUMN];
    fputs(experts ? "{" : "[", stream);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : "", stream);
        if (experts) {
            query_write_text(stream, parts[i].name);
            fputc(':', stream);
        }
        for (int n = 0; n < table->count; n++) {
            fprintf(stream, "%c\"%s\":", n ? ',' : '{', table->fields[n].key);
            query_write_number(stream, parts[i].numbers[n], QUERY_VALUE_DIGITS);
        }
        fputc('}', stream);
    }
    fputs(experts ? "}" : "]", stream);
}

static struct reply answer_parts(size_t run, const struct history_part *columns,
                                 size_t column_count, const struct history_part *experts,
                                 size_t expert_count) {
    struct reply_text text;
    if (!reply_begin(&text))
        return no_memory();
    fprintf(text.stream, "{\"run\":%zu,\"columns\":", run);
    write_parts(text.stream, false, columns, column_count);
    fputs(",\"experts\":", text.stream);
    write_parts(text.stream, true, experts, expert_count);
    fputc('}', text.stream);
    return reply_end(&text, REPLY_JSON);
}

static struct reply skill_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct history_part *columns = NULL, *experts = NULL;
    size_t run = 0, column_count, expert_count;
    struct reply reply;
    bool known;
    if (!query_count(connection, "run", 1, 1e15, &run) || !run)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", no_run);
    if (history_has_run(feeds->history, (int64_t)run, &known) ||
        history_parts(feeds->history, (int64_t)run, false, &columns, &column_count) ||
        history_parts(feeds->history, (int64_t)run, true, &experts, &expert_count))
        reply = not_read(feeds);
    else if (!known)
        reply = reply_error(MHD_HTTP_NOT_FOUND, "run %zu not found; /api/runs lists the runs", run);
    else
        reply = answer_parts(run, columns, column_count, experts, expert_count);
    free(columns);
    free(experts);
    return reply;
}

/* ---- Forecasts ----

   /api/forecasts: recent predictions with their truths. See docs/reference/web-api.md. */

/* The query: ?daemon= or &run= &stream= &ahead= &column= &points= &around= */
struct forecast_query {
    size_t daemon, ahead, column, points;
    size_t run;         /* of a recording */
    const char *stream; /* NULL = list the streams */
    double around;      /* number of an example; INFINITY = the newest steps */
};

/* Returns NULL, or the error. */
static const char *parse_forecast_query(struct forecast_query *query, const struct feeds *feeds,
                                        struct MHD_Connection *connection) {
    *query = (struct forecast_query){.points = FORECAST_STEPS, .around = INFINITY};
    query->stream = query_text(connection, "stream");
    if (feeds->recording && (!query_count(connection, "run", 1, 1e15, &query->run) || !query->run))
        return no_run;
    if (!feeds->recording &&
        !query_count(connection, "daemon", 0, (double)feeds->count - 1, &query->daemon))
        return "daemon must be the number of a daemon, from /api/daemons";
    if (!query_count(connection, "ahead", 0, 1e6, &query->ahead) ||
        !query_count(connection, "column", 0, FORECAST_COLUMNS - 1, &query->column))
        return "ahead and column must be whole numbers";
    if (!query_count(connection, "points", 1, FORECAST_STEPS, &query->points))
        return "points must be a whole number from 1 to 1000";
    if (!query_number(connection, "around", 0, 1e15, &query->around))
        return "around must be the number of an example";
    return NULL;
}

static struct reply unknown(void) {
    return reply_error(
        MHD_HTTP_NOT_FOUND,
        "no forecasts of this stream and column; /api/forecasts lists all streams and columns");
}

/* ---- A daemon ---- */

/* Writes the newest class and its forecast if classes are words, which have no chart. */
static void write_words(FILE *stream, const json_t *message) {
    const json_t *prediction = json_object_get(message, "prediction");
    const json_t *scored = json_object_get(message, "scored");
    const json_t *word = json_object_get(scored, "word");
    const json_t *came = word ? word : json_object_get(scored, "target");
    double chance;
    if (!json_is_array(json_object_get(prediction, "words")))
        return;
    fputs("\"said\":{\"stream\":", stream);
    json_dumpf(json_object_get(message, "stream"), stream, JSON_ENCODE_ANY | JSON_COMPACT);
    if (came) {
        fputs(",\"came\":", stream);
        json_dumpf(came, stream, JSON_ENCODE_ANY | JSON_COMPACT);
    }
    if (member_number(scored, "probability", &chance))
        fprintf(stream, ",\"chance\":%.6g", chance);
    fputs(",\"prediction\":", stream);
    json_dumpf(prediction, stream, JSON_COMPACT);
    fputs("},", stream);
}

static void write_list(FILE *stream, const struct feed *feed) {
    const json_t *published = json_object_get(feed->newest[TOPIC_STATUS], "predictions");
    fprintf(stream,
            "{\"daemon\":%zu,\"published\":%s,\"wordless\":%s,\"left_out\":%llu,"
            "\"passed\":%llu,",
            (size_t)(feed - feed->feeds->feed),
            !published                ? "null"
            : json_is_true(published) ? "true"
                                      : "false",
            feed->forecasts.wordless ? "true" : "false",
            (unsigned long long)feed->forecasts.left_out, (unsigned long long)feed->backlog.passed);
    write_words(stream, feed->forecasts.classes);
    fputs("\"series\":[", stream);
    for (const struct forecast_series *series = feed->forecasts.series; series;
         series = series->following) {
        fputs("{\"stream\":", stream);
        query_write_text(stream, series->stream);
        fprintf(stream, ",\"ahead\":%zu,\"columns\":%zu,\"steps\":%zu}%s", series->ahead,
                series->columns, series->count, series->following ? "," : "");
    }
    fputs("]}", stream);
}

/* The steps from `first` on, before `end`: around an example or the newest. */
struct span {
    size_t first, end;
};

static struct span find_span(const struct forecast_series *series,
                             const struct forecast_query *query) {
    size_t at = 0, count = series->count, points = query->points;
    size_t before = isfinite(query->around) ? points / 2 : points, after = points - before;
    while (at < count && *forecast_row(series, at) < query->around)
        at++;
    return (struct span){at > before ? at - before : 0, at + after < count ? at + after : count};
}

static const char *const value_names[FORECAST_VALUES] = {
    [FORECAST_TARGET] = "target", [FORECAST_PREDICTION] = "prediction", [FORECAST_LOW] = "low",
    [FORECAST_HIGH] = "high",     [FORECAST_BASELINE] = "baseline",
};

/* Writes the forecast of the next value, if the newest steps are shown. */
static void write_next(FILE *stream, const struct forecast_series *series, struct span span,
                       size_t column) {
    const double *next = span.end == series->count ? forecast_next(series) : NULL;
    const double *values = forecast_values(series, series->room, column);
    if (!next) {
        fputs(",\"next\":null", stream);
        return;
    }
    fputs(",\"next\":{\"example\":", stream);
    query_write_number(stream, next[FORECAST_POSITION], QUERY_EXACT_DIGITS);
    member_write_number(stream, "data_time", next[FORECAST_TIME], QUERY_EXACT_DIGITS);
    for (size_t value = FORECAST_PREDICTION; value <= FORECAST_HIGH; value++)
        member_write_number(stream, value_names[value], values[value], DIGITS);
    member_write_list(stream, "quantiles", values + FORECAST_VALUES, 0, sizeof *values,
                      series->level_count, DIGITS);
    fputc('}', stream);
}

static void write_steps(FILE *stream, const struct forecast_query *query,
                        const struct forecast_series *series) {
    static const struct {
        const char *name;
        enum forecast_place place;
    } places[] = {
        {"example", FORECAST_POSITION}, {"data_time", FORECAST_TIME}, {"score", FORECAST_SCORE}};
    struct span span = find_span(series, query);
    size_t count = span.end - span.first;
    size_t apart = (size_t)(forecast_row(series, 1) - forecast_row(series, 0)) * sizeof(double);
    const double *values = forecast_values(series, span.first, query->column);
    fprintf(stream, "{\"daemon\":%zu", query->daemon);
    member_write_text(stream, "stream", series->stream);
    fprintf(stream, ",\"ahead\":%zu,\"column\":%zu,\"columns\":%zu", series->ahead, query->column,
            series->columns);
    for (size_t n = 0; n < sizeof places / sizeof *places; n++)
        member_write_list(stream, places[n].name,
                          forecast_row(series, span.first) + places[n].place, 0, apart, count,
                          QUERY_EXACT_DIGITS);
    for (size_t value = 0; value < FORECAST_VALUES; value++)
        member_write_list(stream, value_names[value], values + value, 0, apart, count, DIGITS);
    member_write_list(stream, "levels", series->levels, 0, sizeof *series->levels,
                      series->level_count, DIGITS);
    fputs(",\"quantiles\":[", stream);
    for (size_t n = 0; n < series->level_count; n++) {
        fputs(n ? "," : "", stream);
        query_write_list(stream, values + FORECAST_VALUES + n, 0, apart, count, DIGITS);
    }
    fputc(']', stream);
    write_next(stream, series, span, query->column);
    fputc('}', stream);
}

/* ---- A recording ---- */

static bool is_same(const struct history_predicted *one, const struct history_predicted *other) {
    return one->ahead == other->ahead && strcmp(one->stream, other->stream) == 0;
}

/* Writes the columns of a stream and horizon as one entry, unless an entry before `i` belongs to
   it. */
static void write_recorded(FILE *stream, const struct history_predicted *list, size_t count,
                           size_t i, bool *first) {
    int columns = 0;
    uint64_t rows = 0;
    for (size_t k = 0; k < count; k++) {
        if (!is_same(&list[k], &list[i]))
            continue;
        if (k < i)
            return;
        columns = list[k].column >= columns ? list[k].column + 1 : columns;
        rows = list[k].rows > rows ? list[k].rows : rows;
    }
    fprintf(stream, "%s{\"stream\":", *first ? "" : ",");
    query_write_text(stream, list[i].stream);
    fprintf(stream, ",\"ahead\":%d,\"columns\":%d,\"steps\":%llu}", list[i].ahead, columns,
            (unsigned long long)rows);
    *first = false;
}

static struct reply list_recorded(const struct feeds *feeds, const struct forecast_query *query) {
    struct history_predicted *list;
    struct reply_text text;
    size_t count;
    bool first = true;
    if (history_predicted(feeds->history, (int64_t)query->run, &list, &count)) {
        free(list);
        return not_read(feeds);
    }
    bool begun = reply_begin(&text);
    if (begun)
        fprintf(text.stream, "{\"run\":%zu,\"wordless\":false,\"left_out\":0,\"series\":[",
                query->run);
    for (size_t i = 0; begun && i < count; i++)
        write_recorded(text.stream, list, count, i, &first);
    free(list);
    if (!begun)
        return no_memory();
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}

/* The numbers of a row, in the order of the answer. */
static const struct {
    const char *name;
    size_t offset;
    int digits;
} recorded[] = {
    {"example", offsetof(struct history_prediction, position[HISTORY_EXAMPLES]),
     QUERY_EXACT_DIGITS},
    {"data_time", offsetof(struct history_prediction, data_time), QUERY_EXACT_DIGITS},
    {"target", offsetof(struct history_prediction, target), DIGITS},
    {"prediction", offsetof(struct history_prediction, prediction), DIGITS},
    {"low", offsetof(struct history_prediction, low), DIGITS},
    {"high", offsetof(struct history_prediction, high), DIGITS},
    {"baseline", offsetof(struct history_prediction, baseline), DIGITS},
    {"score", offsetof(struct history_prediction, score), DIGITS},
};

static void write_rows(FILE *stream, const struct history_prediction *rows, size_t count) {
    for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++)
        member_write_list(stream, recorded[k].name, rows, recorded[k].offset, sizeof *rows, count,
                          recorded[k].digits);
}

/* Writes the levels of the newest row with quantiles, and a list of the rows for each level. */
static void write_recorded_quantiles(FILE *stream, const struct history_prediction *rows,
                                     size_t count) {
    json_t **of = calloc(count, sizeof *of), *newest = NULL, *unused;
    const char *level, *separator = "";
    for (size_t i = 0; of && i < count; i++) {
        of[i] = json_loads(rows[i].quantiles, 0, NULL);
        newest = of[i] ? of[i] : newest;
    }
    fputs(",\"levels\":[", stream);
    json_object_foreach(newest, level, unused) {
        fputs(separator, stream);
        query_write_number(stream, strtod(level + strcspn(level, "0123456789"), NULL), DIGITS);
        separator = ",";
    }
    fputs("],\"quantiles\":[", stream);
    separator = "[";
    json_object_foreach(newest, level, unused) {
        for (size_t i = 0; i < count; i++) {
            double quantile = NAN;
            member_number(of[i], level, &quantile);
            fputs(i ? "," : separator, stream);
            query_write_number(stream, quantile, DIGITS);
        }
        fputc(']', stream);
        separator = ",[";
    }
    fputc(']', stream);
    for (size_t i = 0; of && i < count; i++)
        json_decref(of[i]);
    free(of);
}

static struct reply gone(const struct forecast_query *query) {
    return reply_error(
        MHD_HTTP_GONE,
        "example %.0f not found: it is older than the steps in memory and in the history",
        query->around);
}

/* `kept`: whether the recording of the run is complete. */
static struct reply steps_recorded(const struct feeds *feeds, const struct forecast_query *query,
                                   bool kept) {
    struct history_predicted of = {.column = (int)query->column, .ahead = (int)query->ahead};
    struct history_prediction *rows;
    struct reply_text text;
    size_t count;
    snprintf(of.stream, sizeof of.stream, "%s", query->stream);
    if (history_predictions(feeds->history, (int64_t)query->run, &of, query->around, query->points,
                            &rows, &count)) {
        free(rows);
        return not_read(feeds);
    }
    bool begun = count && reply_begin(&text);
    if (begun) {
        fprintf(text.stream, "{\"run\":%zu", query->run);
        member_write_text(text.stream, "stream", query->stream);
        fprintf(text.stream, ",\"ahead\":%zu,\"column\":%zu", query->ahead, query->column);
        write_rows(text.stream, rows, count);
        write_recorded_quantiles(text.stream, rows, count);
        fputs(",\"next\":null}", text.stream);
    }
    free(rows);
    return begun   ? reply_end(&text, REPLY_JSON)
           : count ? no_memory()
           : kept  ? unknown()
                   : gone(query);
}

/* Whether all steps around the example are older than the steps in memory. */
static bool is_gone(const struct forecast_series *series, const struct forecast_query *query) {
    const double *oldest = series->count ? forecast_row(series, 0) : NULL;
    return oldest && isfinite(query->around) &&
           query->around < fmin(oldest[FORECAST_POSITION], oldest[FORECAST_MADE]);
}

/* Reads steps from the history that are no longer in memory. */
static struct reply steps_gone(const struct feeds *feeds, struct forecast_query *query,
                               const struct feed *feed) {
    query->run = (size_t)history_current(feeds->history, feed->endpoint);
    query->ahead = query->ahead ? query->ahead : 1; /* recordings number the only horizon 1 */
    return steps_recorded(feeds, query, false);
}

static struct reply forecast_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct forecast_query query;
    struct reply_text text;
    const char *wrong = parse_forecast_query(&query, feeds, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    if (feeds->recording)
        return query.stream ? steps_recorded(feeds, &query, true) : list_recorded(feeds, &query);
    const struct feed *feed = &feeds->feed[query.daemon];
    const struct forecast_series *series =
        query.stream ? forecasts_find(&feed->forecasts, query.stream, query.ahead) : NULL;
    if (query.stream && (!series || query.column >= series->columns))
        return unknown();
    if (series && is_gone(series, &query))
        return steps_gone(feeds, &query, feed);
    if (!reply_begin(&text))
        return no_memory();
    if (series)
        write_steps(text.stream, &query, series);
    else
        write_list(text.stream, feed);
    return reply_end(&text, REPLY_JSON);
}

enum {
    POINTS = 1000, /* default */
    POINTS_MAX = 5000,
    SHARE_DIGITS = 4,
    MEANING_SIZE = 512, /* size of a field's description */
    COLUMN_SIZE = 64,   /* size of a column's name; no column has a longer one */
};

/* The query: ?run= &layer= &axis= &from= &to= &points= &columns= */
struct query {
    int64_t run;
    int layer; /* -1 = the losses */
    struct history_range range;
    const char *columns; /* "a,b"; NULL = all */
};

static bool parse_axis(struct MHD_Connection *connection, enum history_axis *axis) {
    const char *text = query_text(connection, "axis");
    for (int i = 0; text && i < HISTORY_AXES; i++)
        if (strcmp(text, history_axes[i]->name) == 0) {
            *axis = (enum history_axis)i;
            return true;
        }
    return !text;
}

/* Returns NULL, or the error. */
static const char *parse_query(struct query *query, struct MHD_Connection *connection) {
    double run = 0, layer = -1, points = POINTS, from = -INFINITY, to = INFINITY;
    enum history_axis axis = HISTORY_EXAMPLES;
    if (!query_number(connection, "run", 1, 1e15, &run) || run != floor(run) || run < 1)
        return no_run;
    if (!query_number(connection, "layer", 0, HISTORY_LAYERS - 1, &layer) || layer != floor(layer))
        return "layer must be a whole number from 0 to 127";
    if (!query_number(connection, "points", 2, POINTS_MAX, &points))
        return "points must be a number from 2 to 5000";
    if (!query_number(connection, "from", -1e300, 1e300, &from) ||
        !query_number(connection, "to", -1e300, 1e300, &to))
        return "from and to must be numbers";
    if (!parse_axis(connection, &axis))
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

/* Whether the query selects the column. */
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

static void write_column(FILE *stream, const struct history_series *series, size_t column,
                         bool single) {
    static const struct {
        const char *name;
        size_t offset;
    } values[] = {
        {"mean", offsetof(struct history_value, mean)},
        {"minimum", offsetof(struct history_value, minimum)},
        {"maximum", offsetof(struct history_value, maximum)},
    };
    size_t first = column * sizeof *series->values, row = series->columns * sizeof *series->values;
    for (size_t n = 0; n < (single ? 1 : sizeof values / sizeof *values); n++) {
        fprintf(stream, "%c\"%s\":", n ? ',' : '{', values[n].name);
        query_write_list(stream, series->values, first + values[n].offset, row, series->points,
                         QUERY_VALUE_DIGITS);
    }
    fputs(single ? "" : ",\"missing\":[", stream);
    for (size_t i = 0; !single && i < series->points; i++) {
        fputs(i ? "," : "", stream);
        query_write_number(stream, (double)series->values[i * series->columns + column].missing,
                           QUERY_VALUE_DIGITS);
    }
    fputs(single ? "}" : "]}", stream);
}

static void write_axes(FILE *stream, const struct history_series *series) {
    for (int axis = 0; axis < HISTORY_AXES; axis++) {
        fprintf(stream, "\"%s\":", history_axes[axis]->name);
        query_write_list(stream, series->at,
                         offsetof(struct history_point, position) + (size_t)axis * sizeof(double),
                         sizeof *series->at, series->points, QUERY_EXACT_DIGITS);
        fputc(',', stream);
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
            fputs(bin ? "," : "", stream);
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

/* Checks the columns of the query; else fills *reply with the error. */
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
        *reply =
            reply_error(MHD_HTTP_BAD_REQUEST, "%s has no column %s; /api/columns lists the columns",
                        layer ? "a layer" : "a series of losses", name);
        return false;
    }
    return true;
}

/* Checks the run and layer of the query; else fills *reply with the error. */
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
        *reply = reply_error(MHD_HTTP_NOT_FOUND, "run %lld not found; /api/runs lists the runs",
                             (long long)query->run);
    else if (query->layer >= count)
        *reply = reply_error(MHD_HTTP_NOT_FOUND, "run %lld has no layer %d: it has %d %s",
                             (long long)query->run, query->layer, count,
                             count == 1 ? "layer" : "layers");
    else
        return true;
    return false;
}

static struct reply answer_series(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct query query;
    struct reply_text text;
    struct history_series series;
    struct reply refusal;
    const char *wrong = parse_query(&query, connection);
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
    const char *wrong = parse_query(&query, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    if (history_events(feeds->history, query.run, query_text(connection, "kind"), &query.range,
                       &events))
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
        member_write_text(text.stream, "text", event->text);
        fprintf(text.stream, ",\"incident\":%s}", *event->incident ? event->incident : "null");
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
        if (*layers[i].member)
            member_write_text(stream, "member", layers[i].member);
        fputc('}', stream);
    }
    fputc(']', stream);
}

/* Recordings are not trusted: text that is not JSON becomes null. */
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
        fputs(i ? "," : "", text.stream);
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
    const char *wrong = parse_query(&query, connection);
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

static struct reply answer_columns(const struct feeds *feeds, struct MHD_Connection *connection) {
    (void)feeds, (void)connection;
    return reply_object(MHD_HTTP_OK,
                        json_pack("{s:o, s:o, s:i}", "loss",
                                  describe_columns(history_loss_columns, HISTORY_LOSS_COLUMNS),
                                  "layer",
                                  describe_columns(history_layer_columns, HISTORY_LAYER_COLUMNS),
                                  "bins", (int)HISTORY_BINS));
}

static struct reply answer_daemons(const struct feeds *feeds, struct MHD_Connection *connection) {
    (void)connection;
    json_t *array = json_array();
    for (size_t i = 0; i < feeds->count; i++)
        json_array_append_new(array, feed_describe(&feeds->feed[i], true));
    return reply_object(MHD_HTTP_OK,
                        json_pack("{s:o, s:s?}", "daemons", array, "recording", feeds->recording));
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
                       "path not found; valid paths: /api/daemons, /api/runs, /api/columns, "
                       "/api/series?run=ID, /api/events?run=ID, /api/anomalies?run=ID, "
                       "/api/configuration?run=ID, "
                       "/api/skill?run=ID, /api/forecasts and /api/live");
}
