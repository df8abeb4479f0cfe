#include "build-config.h"

#include "web_forecast_api.h"

#include "web_query.h"

enum { DIGITS = 10 /* of values: they may be small changes of large numbers */ };

/* What a request asks for: ?daemon= &stream= &ahead= &column= &points= */
struct query {
    size_t daemon, ahead, column, points;
    const char *stream; /* NULL = what there is */
};

/* NULL, or what is wrong. */
static const char *take_query(struct query *query, const struct feeds *feeds,
                              struct MHD_Connection *connection) {
    *query = (struct query){.points = FORECAST_STEPS};
    query->stream = query_text(connection, "stream");
    if (!feeds->count)
        return "no daemon is watched: a recording is shown";
    if (!query_count(connection, "daemon", 0, (double)feeds->count - 1, &query->daemon))
        return "daemon must be the number of a daemon, from /api/daemons";
    if (!query_count(connection, "ahead", 0, 1e6, &query->ahead) ||
        !query_count(connection, "column", 0, FORECAST_COLUMNS - 1, &query->column))
        return "ahead and column must be whole numbers";
    if (!query_count(connection, "points", 1, FORECAST_STEPS, &query->points))
        return "points must be a whole number from 1 to 1000";
    return NULL;
}

static void write_list(FILE *stream, const struct feed *feed) {
    const json_t *published = json_object_get(feed->newest[TOPIC_STATUS], "predictions");
    fprintf(stream, "{\"daemon\":%zu,\"published\":%s,\"wordless\":%s,\"left_out\":%llu,",
            (size_t)(feed - feed->feeds->feed),
            !published                ? "null"
            : json_is_true(published) ? "true"
                                      : "false",
            feed->forecasts.wordless ? "true" : "false",
            (unsigned long long)feed->forecasts.left_out);
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

static void write_values(FILE *stream, const char *name, const struct forecast_series *series,
                         size_t first, size_t column, enum forecast_value value) {
    fprintf(stream, ",\"%s\":[", name);
    for (size_t i = first; i < series->count; i++) {
        if (i > first)
            fputc(',', stream);
        query_write_number(stream, forecast_value(series, i, column, value), DIGITS);
    }
    fputc(']', stream);
}

static void write_places(FILE *stream, const char *name, const struct forecast_series *series,
                         size_t first, size_t place) {
    fprintf(stream, ",\"%s\":[", name);
    for (size_t i = first; i < series->count; i++) {
        if (i > first)
            fputc(',', stream);
        query_write_number(stream, forecast_row(series, i)[place], QUERY_EXACT_DIGITS);
    }
    fputc(']', stream);
}

static void write_steps(FILE *stream, const struct query *query,
                        const struct forecast_series *series) {
    size_t first = series->count > query->points ? series->count - query->points : 0;
    fprintf(stream, "{\"daemon\":%zu,\"stream\":", query->daemon);
    query_write_text(stream, series->stream);
    fprintf(stream, ",\"ahead\":%zu,\"column\":%zu,\"columns\":%zu", series->ahead, query->column,
            series->columns);
    write_places(stream, "example", series, first, 0);
    write_places(stream, "data_time", series, first, 1);
    write_values(stream, "target", series, first, query->column, FORECAST_TARGET);
    write_values(stream, "prediction", series, first, query->column, FORECAST_PREDICTION);
    write_values(stream, "low", series, first, query->column, FORECAST_LOW);
    write_values(stream, "high", series, first, query->column, FORECAST_HIGH);
    write_values(stream, "baseline", series, first, query->column, FORECAST_BASELINE);
    fputc('}', stream);
}

struct reply forecast_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct query query;
    struct reply_text text;
    const char *wrong = take_query(&query, feeds, connection);
    if (wrong)
        return reply_error(MHD_HTTP_BAD_REQUEST, "%s", wrong);
    const struct feed *feed = &feeds->feed[query.daemon];
    const struct forecast_series *series =
        query.stream ? forecasts_find(&feed->forecasts, query.stream, query.ahead) : NULL;
    if (query.stream && (!series || query.column >= series->columns))
        return reply_error(MHD_HTTP_NOT_FOUND, "nothing is known of this stream and column; "
                                               "/api/forecasts lists what is");
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    if (series)
        write_steps(text.stream, &query, series);
    else
        write_list(text.stream, feed);
    return reply_end(&text, REPLY_JSON);
}
