#include "build-config.h"

#include "web_anomaly_api.h"

#include <stddef.h>
#include <stdlib.h>

#include "web_query.h"

enum { POINTS = 500, POINTS_MOST = 5000, DIGITS = 10 };

/* The numbers of a row, in the order of an answer. */
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
    fprintf(stream, "{\"event\":%lld,\"stream\":", (long long)row->event);
    query_write_text(stream, row->stream);
    fputs(",\"reason\":", stream);
    query_write_text(stream, row->reason);
    fputs(",\"note\":", stream);
    if (*row->note)
        query_write_text(stream, row->note);
    else
        fputs("null", stream);
    if (row->column < 0)
        fputs(",\"column\":null", stream);
    else
        fprintf(stream, ",\"column\":%d", row->column);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        const void *value = (const char *)row + numbers[n].offset;
        fprintf(stream, ",\"%s\":", numbers[n].name);
        query_write_number(stream, *(const double *)value, numbers[n].digits);
    }
    fputc('}', stream);
}

struct reply anomaly_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    size_t run = 0, points = POINTS, count;
    struct history_anomaly *rows;
    struct reply_text text;
    if (!query_count(connection, "run", 1, 1e15, &run) || !run)
        return reply_error(MHD_HTTP_BAD_REQUEST, "run must be the id of a run, from /api/runs");
    if (!query_count(connection, "points", 1, POINTS_MOST, &points))
        return reply_error(MHD_HTTP_BAD_REQUEST, "points must be a whole number from 1 to %d",
                           POINTS_MOST);
    if (history_anomalies(feeds->history, (int64_t)run, query_text(connection, "stream"), points,
                          &rows, &count)) {
        free(rows);
        return reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", history_error(feeds->history));
    }
    bool begun = reply_begin(&text);
    if (begun)
        fprintf(text.stream, "{\"run\":%zu,\"anomalies\":[", run);
    for (size_t i = 0; begun && i < count; i++) {
        if (i)
            fputc(',', text.stream);
        write_row(text.stream, &rows[i]);
    }
    free(rows);
    if (!begun)
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    fputs("]}", text.stream);
    return reply_end(&text, REPLY_JSON);
}
