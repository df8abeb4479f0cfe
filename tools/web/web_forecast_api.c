#include "build-config.h"

#include "web_forecast_api.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "web_query.h"

enum { DIGITS = 10 /* of values: they may be small changes of large numbers */ };

/* What a request asks for: ?daemon= or &run= &stream= &ahead= &column= &points= &around= */
struct query {
    size_t daemon, ahead, column, points;
    size_t run;         /* of a recording */
    const char *stream; /* NULL = what there is */
    double around;      /* an example; INFINITY = the newest steps */
};

/* NULL, or what is wrong. */
static const char *take_query(struct query *query, const struct feeds *feeds,
                              struct MHD_Connection *connection) {
    *query = (struct query){.points = FORECAST_STEPS, .around = INFINITY};
    query->stream = query_text(connection, "stream");
    if (feeds->recording && (!query_count(connection, "run", 1, 1e15, &query->run) || !query->run))
        return "run must be the id of a run, from /api/runs";
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
    return reply_error(MHD_HTTP_NOT_FOUND, "nothing is known of this stream and column; "
                                           "/api/forecasts lists what is");
}

static struct reply no_memory(void) {
    return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

/* ---- Of a daemon ---- */

/* The newest class that came and what is said, where classes are words: there is no chart of them.
 */
static void write_words(FILE *stream, const json_t *message) {
    const json_t *said = json_object_get(message, "prediction");
    const json_t *came = json_object_get(json_object_get(message, "scored"), "target");
    if (!json_is_array(json_object_get(said, "words")))
        return;
    fputs("\"said\":{\"stream\":", stream);
    json_dumpf(json_object_get(message, "stream"), stream, JSON_ENCODE_ANY | JSON_COMPACT);
    if (came) {
        fputs(",\"came\":", stream);
        json_dumpf(came, stream, JSON_ENCODE_ANY | JSON_COMPACT);
    }
    fputs(",\"prediction\":", stream);
    json_dumpf(said, stream, JSON_COMPACT);
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
    write_words(stream, feed->forecasts.said);
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

/* Steps from `first` on, before `end`: half of the points before an example, or the newest. */
struct span {
    size_t first, end;
};

static struct span find_span(const struct forecast_series *series, const struct query *query) {
    size_t at = 0, count = series->count, points = query->points;
    size_t before = isfinite(query->around) ? points / 2 : points, after = points - before;
    while (at < count && *forecast_row(series, at) < query->around)
        at++;
    return (struct span){at > before ? at - before : 0, at + after < count ? at + after : count};
}

static void write_values(FILE *stream, const char *name, const struct forecast_series *series,
                         struct span span, size_t column, enum forecast_value value) {
    fprintf(stream, ",\"%s\":[", name);
    for (size_t i = span.first; i < span.end; i++) {
        if (i > span.first)
            fputc(',', stream);
        query_write_number(stream, forecast_value(series, i, column, value), DIGITS);
    }
    fputc(']', stream);
}

static void write_places(FILE *stream, const char *name, const struct forecast_series *series,
                         struct span span, enum forecast_place place) {
    fprintf(stream, ",\"%s\":[", name);
    for (size_t i = span.first; i < span.end; i++) {
        if (i > span.first)
            fputc(',', stream);
        query_write_number(stream, forecast_row(series, i)[place], QUERY_EXACT_DIGITS);
    }
    fputc(']', stream);
}

/* What was said of the value that comes next, when the newest steps are shown. */
static void write_next(FILE *stream, const struct forecast_series *series, struct span span,
                       size_t column) {
    const double *next = span.end == series->count ? forecast_next(series) : NULL;
    if (!next) {
        fputs(",\"next\":null", stream);
        return;
    }
    fputs(",\"next\":{\"example\":", stream);
    query_write_number(stream, next[FORECAST_POSITION], QUERY_EXACT_DIGITS);
    fputs(",\"data_time\":", stream);
    query_write_number(stream, next[FORECAST_TIME], QUERY_EXACT_DIGITS);
    fputs(",\"prediction\":", stream);
    query_write_number(stream, forecast_value(series, series->room, column, FORECAST_PREDICTION),
                       DIGITS);
    fputs(",\"low\":", stream);
    query_write_number(stream, forecast_value(series, series->room, column, FORECAST_LOW), DIGITS);
    fputs(",\"high\":", stream);
    query_write_number(stream, forecast_value(series, series->room, column, FORECAST_HIGH), DIGITS);
    fputc('}', stream);
}

static void write_steps(FILE *stream, const struct query *query,
                        const struct forecast_series *series) {
    struct span span = find_span(series, query);
    fprintf(stream, "{\"daemon\":%zu,\"stream\":", query->daemon);
    query_write_text(stream, series->stream);
    fprintf(stream, ",\"ahead\":%zu,\"column\":%zu,\"columns\":%zu", series->ahead, query->column,
            series->columns);
    write_places(stream, "example", series, span, FORECAST_POSITION);
    write_places(stream, "data_time", series, span, FORECAST_TIME);
    write_values(stream, "target", series, span, query->column, FORECAST_TARGET);
    write_values(stream, "prediction", series, span, query->column, FORECAST_PREDICTION);
    write_values(stream, "low", series, span, query->column, FORECAST_LOW);
    write_values(stream, "high", series, span, query->column, FORECAST_HIGH);
    write_values(stream, "baseline", series, span, query->column, FORECAST_BASELINE);
    write_places(stream, "score", series, span, FORECAST_SCORE);
    write_next(stream, series, span, query->column);
    fputc('}', stream);
}

/* ---- Of a recording ---- */

static bool is_same(const struct history_predicted *one, const struct history_predicted *other) {
    return one->ahead == other->ahead && strcmp(one->stream, other->stream) == 0;
}

/* The columns of a stream and horizon as one, unless an entry before `i` has told of them. */
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

static struct reply not_read(const struct feeds *feeds) {
    return reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", history_error(feeds->history));
}

static struct reply list_recorded(const struct feeds *feeds, const struct query *query) {
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

/* What a row has, in the order of an answer. */
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
    for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++) {
        fprintf(stream, ",\"%s\":[", recorded[k].name);
        for (size_t i = 0; i < count; i++) {
            if (i)
                fputc(',', stream);
            const void *value = (const char *)&rows[i] + recorded[k].offset;
            query_write_number(stream, *(const double *)value, recorded[k].digits);
        }
        fputc(']', stream);
    }
}

static struct reply gone(const struct query *query) {
    return reply_error(MHD_HTTP_GONE,
                       "example %.0f is older than the steps that are kept, and not recorded here",
                       query->around);
}

/* `kept`: whether the run has all its steps there; if not, those missing are gone. */
static struct reply steps_recorded(const struct feeds *feeds, const struct query *query,
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
        fprintf(text.stream, "{\"run\":%zu,\"stream\":", query->run);
        query_write_text(text.stream, query->stream);
        fprintf(text.stream, ",\"ahead\":%zu,\"column\":%zu", query->ahead, query->column);
        write_rows(text.stream, rows, count);
        fputs(",\"next\":null}", text.stream);
    }
    free(rows);
    return begun   ? reply_end(&text, REPLY_JSON)
           : count ? no_memory()
           : kept  ? unknown()
                   : gone(query);
}

/* Whether all steps around the example came before those that are kept. */
static bool is_gone(const struct forecast_series *series, const struct query *query) {
    const double *oldest = series->count ? forecast_row(series, 0) : NULL;
    return oldest && isfinite(query->around) &&
           query->around < fmin(oldest[FORECAST_POSITION], oldest[FORECAST_SAID]);
}

/* Steps that a daemon's series has no more, from the history. */
static struct reply steps_gone(const struct feeds *feeds, struct query *query,
                               const struct feed *feed) {
    query->run = (size_t)history_current(feeds->history, feed->endpoint);
    query->ahead = query->ahead ? query->ahead : 1; /* as recordings have the only horizon */
    return steps_recorded(feeds, query, false);
}

struct reply forecast_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct query query;
    struct reply_text text;
    const char *wrong = take_query(&query, feeds, connection);
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
