#include "web_metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"

enum {
    LABEL_SIZE = 512,
    HELP_SIZE = 512,
    ROWS_MOST = 64,
    FORECASTS_MOST = 1024, /* maximum columns of all streams of a daemon */
    REASONS_MOST = 64,     /* maximum samples of a tally of a daemon */
};

/* Kinds of metrics: those of fields (METRIC_...), and labels of the daemon. */
enum { METRIC_INFO = METRIC_CLOCK + 1 };
static const char *const kinds[] = {[METRIC_GAUGE] = "gauge",
                                    [METRIC_COUNTER] = "counter",
                                    [METRIC_CLOCK] = "gauge",
                                    [METRIC_INFO] = "info"};

/* Escapes a label's value. */
static void escape(char label[LABEL_SIZE], const char *text) {
    char clean[LABEL_SIZE / 2];
    size_t used = 0;
    for (const char *c = text_copy(clean, sizeof clean, text ? text : ""); *c; c++) {
        if (*c == '"' || *c == '\\')
            label[used++] = '\\';
        label[used++] = *c;
    }
    label[used] = '\0';
}

/* Writes HELP, TYPE and UNIT. The text format of Prometheus adds _total to a counter's name, and
   has neither units nor the type info. */
static void write_head(FILE *stream, bool open, const char *name, int kind, const char *unit,
                       const char *help) {
    const char *suffix = open                     ? ""
                         : kind == METRIC_COUNTER ? "_total"
                         : kind == METRIC_INFO    ? "_info"
                                                  : "";
    fprintf(stream, "# HELP runnel_%s%s %s\n", name, suffix, help);
    fprintf(stream, "# TYPE runnel_%s%s %s\n", name, suffix,
            kinds[kind == METRIC_INFO && !open ? METRIC_GAUGE : kind]);
    if (open && unit)
        fprintf(stream, "# UNIT runnel_%s %s\n", name, unit);
}

static void write_field_head(FILE *stream, bool open, const struct field *field) {
    char help[HELP_SIZE];
    write_head(stream, open, field->metric.name, (int)field->metric.kind, field->metric.unit,
               field_sentence(field, help, sizeof help));
}

static void write_number(FILE *stream, double value) {
    if (isnan(value))
        fputs(" NaN\n", stream);
    else
        fprintf(stream, " %.15g\n", value);
}

/* Writes {daemon="...",endpoint="..." without the closing brace. */
static void write_labels(FILE *stream, const struct feed *feed) {
    char name[LABEL_SIZE], endpoint[LABEL_SIZE];
    escape(name, feed_name(feed));
    escape(endpoint, feed->endpoint);
    fprintf(stream, "{daemon=\"%s\",endpoint=\"%s\"", name, endpoint);
}

static void write_name(FILE *stream, const char *name, int kind) {
    fprintf(stream, "runnel_%s%s", name, kind == METRIC_COUNTER ? "_total" : "");
}

static void write_sample(FILE *stream, const char *name, int kind, const struct feed *feed,
                         double value) {
    write_name(stream, name, kind);
    write_labels(stream, feed);
    fputc('}', stream);
    write_number(stream, value);
}

/* The newest message with the field: `status` has some fields of `loss`, and arrives even when
   nothing is learned. NULL = none. */
static json_t *message_with(const struct feed *feed, enum topic topic, const struct field *field) {
    json_t *own = feed->newest[topic], *status = feed->newest[TOPIC_STATUS];
    double time = 0, status_time = 0;
    member_number(own, "time", &time);
    member_number(status, "time", &status_time);
    if (!field_member(field, status) || (own && time >= status_time))
        return own;
    return status;
}

/* A number in the unit of its metric; NaN for null. */
static double metric_value(const struct field *field, const json_t *object) {
    double scale = field->metric.scale;
    return field_number(field, object) * (scale != 0 ? scale : 1);
}

static bool has_member(json_t *rows, const struct field *member) {
    const json_t *first = json_is_array(rows) ? json_array_get(rows, 0)
                                              : json_object_iter_value(json_object_iter(rows));
    return field_member(member, first) != NULL;
}

/* Writes a sample with one more label for each reason of a tally. */
static void write_tally(FILE *stream, const struct field *field, const struct feed *feed,
                        json_t *tally) {
    json_t *number;
    const char *reason;
    int written = 0;
    json_object_foreach(tally, reason, number) {
        char label[LABEL_SIZE];
        if (written++ == REASONS_MOST)
            break;
        escape(label, reason);
        write_name(stream, field->metric.name, (int)field->metric.kind);
        write_labels(stream, feed);
        fprintf(stream, ",%s=\"%s\"}", field->metric.label ? field->metric.label : "reason", label);
        write_number(stream, json_number_value(number));
    }
}

/* A column's name, or its number. */
static const char *column_label(char label[LABEL_SIZE], const struct feed *feed, size_t column) {
    const char *names =
        member_string(feed->newest[TOPIC_STATUS], fields_of_status[STATUS_target_names].key);
    char name[LABEL_SIZE / 2];
    size_t length;
    const char *found = names_find(names, column, &length);
    if (found)
        snprintf(name, sizeof name, "%.*s", (int)length, found);
    else
        snprintf(name, sizeof name, "%zu", column);
    escape(label, name);
    return label;
}

/* Writes a member of a row, with a label for the name or number of the row. */
static void write_row(FILE *stream, const struct field *field, const struct feed *feed,
                      const struct field *member, const char *label, double value) {
    fprintf(stream, "runnel_%s_%s", field->metric.name, member->name);
    write_labels(stream, feed);
    fprintf(stream, ",%s=\"%s\"}", field->metric.name, label);
    write_number(stream, value);
}

static void write_rows(FILE *stream, const struct field *field, const struct feed *feed,
                       json_t *rows, const struct field *member) {
    char label[LABEL_SIZE];
    const char *name;
    json_t *row;
    size_t n;
    int written = 0;
    json_array_foreach(rows, n, row) {
        if (n < ROWS_MOST)
            write_row(stream, field, feed, member, column_label(label, feed, n),
                      field_number(member, row));
    }
    json_object_foreach(rows, name, row) if (written++ < ROWS_MOST) {
        escape(label, name);
        write_row(stream, field, feed, member, label, field_number(member, row));
    }
}

/* Writes one member of the rows of all feeds. */
static void write_member(FILE *stream, const struct feeds *feeds, bool open, enum topic topic,
                         const struct field *field, const struct field *member) {
    bool headed = false;
    for (size_t i = 0; i < feeds->count; i++) {
        json_t *rows = (json_t *)field_member(field, feeds->feed[i].newest[topic]);
        char name[LABEL_SIZE], help[HELP_SIZE];
        if (!has_member(rows, member))
            continue;
        snprintf(name, sizeof name, "%s_%s", field->metric.name, member->name);
        if (!headed)
            write_head(stream, open, name, METRIC_GAUGE, NULL,
                       field_sentence(member, help, sizeof help));
        headed = true;
        write_rows(stream, field, &feeds->feed[i], rows, member);
    }
}

/* Writes the rows of all feeds, member by member. */
static void write_rows_of(FILE *stream, const struct feeds *feeds, bool open, enum topic topic,
                          const struct field *field) {
    const struct field_table *table =
        &field_tables[field == &fields_of_loss[FIELD_columns] ? FIELDS_OF_COLUMN
                                                              : FIELDS_OF_EXPERT];
    for (int m = 0; m < table->count; m++)
        write_member(stream, feeds, open, topic, field, &table->fields[m]);
}

static void write_field(FILE *stream, const struct feeds *feeds, bool open, enum topic topic,
                        const struct field *field) {
    bool headed = false;
    if (field->type == FIELD_ROWS) {
        write_rows_of(stream, feeds, open, topic, field);
        return;
    }
    for (size_t i = 0; i < feeds->count; i++) {
        const struct feed *feed = &feeds->feed[i];
        json_t *message = message_with(feed, topic, field);
        json_t *member = (json_t *)field_member(field, message);
        if (!member)
            continue;
        if (!headed)
            write_field_head(stream, open, field);
        headed = true;
        if (field->type == FIELD_TALLY) {
            write_tally(stream, field, feed, member);
            continue;
        }
        double age = field->metric.kind == METRIC_CLOCK ? health_status_age(&feed->health) : 0;
        write_sample(stream, field->metric.name, (int)field->metric.kind, feed,
                     metric_value(field, message) + age);
    }
}

static void write_fields(FILE *stream, const struct feeds *feeds, bool open, enum topic topic,
                         enum field_table_of table) {
    for (int i = 0; i < field_tables[table].count; i++)
        if (field_tables[table].fields[i].metric.name)
            write_field(stream, feeds, open, topic, &field_tables[table].fields[i]);
}

static void write_layers(FILE *stream, const struct feeds *feeds, bool open,
                         const struct field *field) {
    bool headed = false;
    for (size_t i = 0; i < feeds->count; i++) {
        json_t *layers = state_layers(feeds->feed[i].newest[TOPIC_STATE]), *layer;
        size_t n;
        json_array_foreach(layers, n, layer) {
            char kind[LABEL_SIZE], member[LABEL_SIZE];
            if (!field_member(field, layer))
                continue;
            if (!headed)
                write_field_head(stream, open, field);
            headed = true;
            escape(kind, member_string(layer, "kind"));
            write_name(stream, field->metric.name, (int)field->metric.kind);
            write_labels(stream, &feeds->feed[i]);
            fprintf(stream, ",layer=\"%zu\",kind=\"%s\"", n, kind);
            escape(member, state_member(layer));
            if (*member)
                fprintf(stream, ",member=\"%s\"", member);
            fputc('}', stream);
            write_number(stream, metric_value(field, layer));
        }
        json_decref(layers);
    }
}

static void write_presence(FILE *stream, const struct feeds *feeds, bool open) {
    write_head(stream, open, "up", METRIC_GAUGE, NULL, "1 while the daemon sends messages.");
    for (size_t i = 0; i < feeds->count; i++)
        write_sample(stream, "up", METRIC_GAUGE, &feeds->feed[i],
                     feeds->feed[i].health.presence == PRESENCE_SPEAKING);
    write_head(stream, open, "paused", METRIC_GAUGE, NULL, "1 while the daemon is paused.");
    for (size_t i = 0; i < feeds->count; i++) {
        const char *state = member_string(feeds->feed[i].newest[TOPIC_STATUS], "state");
        if (state)
            write_sample(stream, "paused", METRIC_GAUGE, &feeds->feed[i],
                         strcmp(state, "paused") == 0);
    }
    write_head(stream, open, "missed_messages", METRIC_COUNTER, NULL,
               "Lost messages of the daemon.");
    for (size_t i = 0; i < feeds->count; i++)
        write_sample(stream, "missed_messages", METRIC_COUNTER, &feeds->feed[i],
                     (double)feeds->feed[i].health.missed_total);
}

/* Writes the labels that describe the daemon. */
static void write_info(FILE *stream, const struct feeds *feeds, bool open) {
    static const char *const keys[] = {"run", "version", "device", "model", "digest", "state"};
    write_head(stream, open, "daemon", METRIC_INFO, NULL,
               "Run, version, device, model, digest and state of the daemon.");
    for (size_t i = 0; i < feeds->count; i++) {
        const json_t *status = feeds->feed[i].newest[TOPIC_STATUS];
        char label[LABEL_SIZE];
        if (!status)
            continue;
        fputs("runnel_daemon_info", stream);
        write_labels(stream, &feeds->feed[i]);
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
            escape(label, member_string(status, keys[key]));
            fprintf(stream, ",%s=\"%s\"", keys[key], label);
        }
        fputs("} 1\n", stream);
    }
}

static void write_events(FILE *stream, const struct feeds *feeds, bool open) {
    write_head(stream, open, "events", METRIC_COUNTER, NULL, "Events since runnel-web started.");
    for (size_t i = 0; i < feeds->count; i++)
        for (int kind = 0; kind < FEED_EVENT_KINDS; kind++) {
            char label[LABEL_SIZE];
            if (!*feeds->feed[i].events[kind].kind)
                continue;
            escape(label, feeds->feed[i].events[kind].kind);
            fputs("runnel_events_total", stream);
            write_labels(stream, &feeds->feed[i]);
            fprintf(stream, ",kind=\"%s\"}", label);
            write_number(stream, (double)feeds->feed[i].events[kind].count);
        }
}

/* Writes a value of the newest scored step, or (FORECAST_VALUES) its quantiles. */
static void write_step(FILE *stream, const struct feed *feed, const char *name,
                       const struct forecast_series *series, size_t column,
                       enum forecast_value value) {
    char key[LABEL_SIZE], label[LABEL_SIZE];
    escape(key, series->stream);
    column_label(label, feed, column);
    for (size_t n = 0; n < (value == FORECAST_VALUES ? series->level_count : 1); n++) {
        write_name(stream, name, METRIC_GAUGE);
        write_labels(stream, feed);
        fprintf(stream, ",stream=\"%s\",column=\"%s\"", key, label);
        if (series->ahead)
            fprintf(stream, ",ahead=\"%zu\"", series->ahead);
        if (value == FORECAST_VALUES)
            fprintf(stream, ",level=\"%.10g\"", series->levels[n]);
        fputc('}', stream);
        write_number(stream, forecast_values(series, series->count - 1, column)[value + n]);
    }
}

/* Writes a value of each stream, horizon and column. */
static void write_forecast(FILE *stream, const struct feeds *feeds, const char *name,
                           enum forecast_value value) {
    for (size_t i = 0; i < feeds->count; i++) {
        const struct feed *feed = &feeds->feed[i];
        size_t written = 0;
        for (const struct forecast_series *series = feed->forecasts.series; series;
             series = series->following)
            for (size_t column = 0; series->count && column < series->columns; column++) {
                if (written++ == FORECASTS_MOST)
                    break;
                write_step(stream, feed, name, series, column, value);
            }
    }
}

static void write_forecasts(FILE *stream, const struct feeds *feeds, bool open) {
    static const struct {
        const char *name, *help;
        enum forecast_value value;
    } rows[] = {
        {"reading", "Newest value of a forecast column.", FORECAST_TARGET},
        {"forecast", "Forecast of this value.", FORECAST_PREDICTION},
        {"forecast_low", "Lower end of the 90% interval of the forecast.", FORECAST_LOW},
        {"forecast_high", "Upper end of the 90% interval of the forecast.", FORECAST_HIGH},
        {"forecast_quantile", "Quantile of the forecast's distribution.", FORECAST_VALUES},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_head(stream, open, rows[i].name, METRIC_GAUGE, NULL, rows[i].help);
        write_forecast(stream, feeds, rows[i].name, rows[i].value);
    }
}

/* Writes the metrics of runnel-web itself. */
static void write_guesses(FILE *stream, const struct guesses *guesses, bool open) {
    write_head(stream, open, "web_wrong_tokens", METRIC_COUNTER, NULL,
               "Requests with a wrong token since runnel-web started.");
    fprintf(stream, "runnel_web_wrong_tokens_total %llu\n", guesses->wrong);
    write_head(stream, open, "web_refused_tokens", METRIC_COUNTER, NULL,
               "Requests rejected unchecked because of too many wrong tokens.");
    fprintf(stream, "runnel_web_refused_tokens_total %llu\n", guesses->refused);
}

bool metrics_wants_open(const char *accept) {
    return accept && strstr(accept, "application/openmetrics-text");
}

struct reply metrics_answer(const struct feeds *feeds, const struct guesses *guesses, bool open) {
    struct reply_text text;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    write_presence(text.stream, feeds, open);
    write_info(text.stream, feeds, open);
    write_fields(text.stream, feeds, open, TOPIC_LOSS, FIELDS_OF_EACH);
    write_fields(text.stream, feeds, open, TOPIC_LOSS, FIELDS_OF_LOSS);
    write_fields(text.stream, feeds, open, TOPIC_STATUS, FIELDS_OF_STATUS);
    for (int i = 0; i < LAYER_FIELDS; i++)
        if (fields_of_layer[i].metric.name)
            write_layers(text.stream, feeds, open, &fields_of_layer[i]);
    write_events(text.stream, feeds, open);
    if (feeds->exports_forecasts)
        write_forecasts(text.stream, feeds, open);
    if (guesses)
        write_guesses(text.stream, guesses, open);
    if (open)
        fputs("# EOF\n", text.stream);
    return reply_end(&text, open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                 : "text/plain; version=0.0.4; charset=utf-8");
}
