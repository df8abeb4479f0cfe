#include "build-config.h"

#include "web_metrics.h"

#include <math.h>
#include <string.h>

#include "tools/shared/tool.h"

#define MICROSECOND 1e-6

enum {
    LABEL_SIZE = 512,
    PATH_SIZE = 64,
    REASONS_MOST = 64, /* of rejections: a daemon that has more is none */
};

/* A clock is a gauge of `status` that grows with the time since. */
enum kind { GAUGE, COUNTER, INFO, CLOCK };
static const char *const kinds[] = {"gauge", "counter", "info", "gauge"};

/* A family of metrics and where its number is. */
struct family {
    const char *name; /* without runnel_, ends in its unit */
    enum kind kind;
    const char *unit; /* "" = none */
    enum topic topic; /* of the message that has it, */
    const char *path; /* and where: "latency_us.p50" */
    double scale;
    const char *help;
};

static const struct family families[] = {
    {"examples", COUNTER, "", TOPIC_LOSS, "examples", 1,
     "Examples learned since the start of learning."},
    {"steps", COUNTER, "", TOPIC_LOSS, "steps", 1, "Steps learned since the start of learning."},
    {"updates", COUNTER, "", TOPIC_LOSS, "updates", 1,
     "Updates of the parameters since the start of learning."},
    {"skipped_updates", COUNTER, "", TOPIC_LOSS, "skipped", 1,
     "Updates skipped because loss or gradient was not finite."},
    {"loss_mean", GAUGE, "", TOPIC_LOSS, "mean", 1,
     "Mean loss of the examples scored in the last interval: nats, or of squared errors their "
     "mean."},
    {"loss_minimum", GAUGE, "", TOPIC_LOSS, "minimum", 1, "Least loss of the last interval."},
    {"loss_maximum", GAUGE, "", TOPIC_LOSS, "maximum", 1, "Greatest loss of the last interval."},
    {"loss_smoothed", GAUGE, "", TOPIC_LOSS, "smoothed", 1,
     "Exponential moving average of the loss."},
    {"rmse", GAUGE, "", TOPIC_LOSS, "metric.rmse", 1,
     "Root mean square error of the last interval, in original units."},
    {"accuracy_ratio", GAUGE, "ratio", TOPIC_LOSS, "metric.accuracy", 1,
     "Share of the last interval that was predicted right."},
    {"learning_rate", GAUGE, "", TOPIC_LOSS, "rate", 1, "Learning rate in effect."},
    {"gradient_norm", GAUGE, "", TOPIC_LOSS, "gradient_norm", 1,
     "Norm of the last gradient, before clipping."},
    {"update_ratio", GAUGE, "ratio", TOPIC_LOSS, "update_ratio", 1,
     "Norm of the last change of the parameters over their norm."},
    {"examples_per_second", GAUGE, "", TOPIC_LOSS, "examples_per_second", 1,
     "Examples learned per second since the message before."},
    {"latency_p50_seconds", GAUGE, "seconds", TOPIC_LOSS, "latency_us.p50", MICROSECOND,
     "Time from socket to learned: median of the last interval."},
    {"latency_p99_seconds", GAUGE, "seconds", TOPIC_LOSS, "latency_us.p99", MICROSECOND,
     "Time from socket to learned: 99th percentile of the last interval."},
    {"latency_max_seconds", GAUGE, "seconds", TOPIC_LOSS, "latency_us.max", MICROSECOND,
     "Time from socket to learned: greatest of the last interval."},
    {"queued_examples", GAUGE, "examples", TOPIC_LOSS, "queued", 1,
     "Examples taken from the socket and not yet learned."},
    {"streams", GAUGE, "", TOPIC_LOSS, "streams", 1, "Streams in memory."},
    {"last_message_timestamp_seconds", GAUGE, "seconds", TOPIC_LOSS, "time", 1,
     "When the newest loss was published."},
    {"parameters", GAUGE, "", TOPIC_STATUS, "parameters", 1, "Parameters of the network."},
    {"uptime_seconds", CLOCK, "seconds", TOPIC_STATUS, "uptime", 1,
     "Time since the daemon's run began."},
    {"clip_norm", GAUGE, "", TOPIC_STATUS, "clip", 1,
     "Largest norm of a gradient; 0 = gradients are not clipped."},
    {"forgotten_streams", COUNTER, "", TOPIC_STATUS, "forgotten", 1,
     "Streams that had to make room for others."},
};

/* Of each layer, in `state`. */
static const struct {
    const char *name, *unit, *path, *help;
} layer_families[] = {
    {"layer_summed_inputs_mean", "", "summed_inputs.mean",
     "Mean over the units of what goes into the layer, before normalization."},
    {"layer_summed_inputs_deviation", "", "summed_inputs.std",
     "Standard deviation of what goes into the layer, before normalization."},
    {"layer_hidden_mean", "", "hidden.mean", "Mean of the hidden state."},
    {"layer_hidden_deviation", "", "hidden.std", "Standard deviation of the hidden state."},
    {"layer_hidden_norm", "", "hidden.norm", "Norm of the hidden state."},
    {"layer_hidden_saturated_ratio", "ratio", "hidden.saturated",
     "Share of hidden units beyond 0.99."},
    {"layer_cell_deviation", "", "cell.std", "Standard deviation of the cell state (lstm)."},
    {"layer_cell_saturated_ratio", "ratio", "cell.saturated", "Share of cells beyond 5 (lstm)."},
    {"layer_gain_mean", "", "gain.mean", "Mean gain of the layer's normalization."},
};

/* A label's value, with the characters that would end it escaped. */
static void escape(char label[LABEL_SIZE], const char *text) {
    char clean[LABEL_SIZE / 2];
    size_t used = 0;
    for (const char *c = tool_clean(clean, sizeof clean, text ? text : ""); *c; c++) {
        if (*c == '"' || *c == '\\')
            label[used++] = '\\';
        label[used++] = *c;
    }
    label[used] = '\0';
}

/* HELP, TYPE and UNIT. Prometheus' own format names a counter with its _total, has no units, and
   knows no info. */
static void write_head(FILE *stream, bool open, const char *name, enum kind kind, const char *unit,
                       const char *help) {
    const char *suffix = open ? "" : kind == COUNTER ? "_total" : kind == INFO ? "_info" : "";
    fprintf(stream, "# HELP runnel_%s%s %s\n", name, suffix, help);
    fprintf(stream, "# TYPE runnel_%s%s %s\n", name, suffix,
            kinds[kind == INFO && !open ? GAUGE : kind]);
    if (open && *unit)
        fprintf(stream, "# UNIT runnel_%s %s\n", name, unit);
}

static void write_number(FILE *stream, double value) {
    if (isnan(value))
        fputs(" NaN\n", stream);
    else
        fprintf(stream, " %.15g\n", value);
}

/* {daemon="...",endpoint="..." without the closing brace. */
static void write_labels(FILE *stream, const struct feed *feed) {
    char name[LABEL_SIZE], endpoint[LABEL_SIZE];
    escape(name, feed_name(feed));
    escape(endpoint, feed->endpoint);
    fprintf(stream, "{daemon=\"%s\",endpoint=\"%s\"", name, endpoint);
}

static void write_sample(FILE *stream, const char *name, enum kind kind, const struct feed *feed,
                         double value) {
    fprintf(stream, "runnel_%s%s", name, kind == COUNTER ? "_total" : "");
    write_labels(stream, feed);
    fputc('}', stream);
    write_number(stream, value);
}

/* The number at "a.b": false when there is no such member; null is NaN. */
static bool find_number(const json_t *object, const char *path, double *value) {
    char key[PATH_SIZE];
    size_t length = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    const json_t *member = json_object_get(object, key);
    if (path[length])
        return find_number(member, path + length + 1, value);
    *value = json_is_number(member) ? json_number_value(member) : NAN;
    return member != NULL;
}

static void write_family(FILE *stream, const struct feeds *feeds, bool open,
                         const struct family *family) {
    bool headed = false;
    for (size_t i = 0; i < feeds->count; i++) {
        const struct feed *feed = &feeds->feed[i];
        double value;
        if (!find_number(feed->newest[family->topic], family->path, &value))
            continue;
        if (family->kind == CLOCK)
            value += health_status_age(&feed->health);
        if (!headed)
            write_head(stream, open, family->name, family->kind, family->unit, family->help);
        headed = true;
        write_sample(stream, family->name, family->kind, feed, value * family->scale);
    }
}

/* Of one family, for each layer that has it. */
static void write_layers(FILE *stream, const struct feed *feed, const char *name,
                         const char *path) {
    const json_t *layers = json_object_get(feed->newest[TOPIC_STATE], "layers");
    for (size_t layer = 0; layer < json_array_size(layers) && layer < HISTORY_LAYERS; layer++) {
        const json_t *object = json_array_get(layers, layer);
        char kind[LABEL_SIZE];
        double value;
        if (!find_number(object, path, &value))
            continue;
        escape(kind, tool_string(object, "kind"));
        fprintf(stream, "runnel_%s", name);
        write_labels(stream, feed);
        fprintf(stream, ",layer=\"%zu\",kind=\"%s\"}", layer, kind);
        write_number(stream, value);
    }
}

static bool any_layer_has(const struct feeds *feeds, const char *path) {
    double value;
    for (size_t i = 0; i < feeds->count; i++) {
        const json_t *layers = json_object_get(feeds->feed[i].newest[TOPIC_STATE], "layers");
        for (size_t layer = 0; layer < json_array_size(layers) && layer < HISTORY_LAYERS; layer++)
            if (find_number(json_array_get(layers, layer), path, &value))
                return true;
    }
    return false;
}

static void write_layer_families(FILE *stream, const struct feeds *feeds, bool open) {
    for (size_t f = 0; f < sizeof layer_families / sizeof *layer_families; f++) {
        if (!any_layer_has(feeds, layer_families[f].path))
            continue;
        write_head(stream, open, layer_families[f].name, GAUGE, layer_families[f].unit,
                   layer_families[f].help);
        for (size_t i = 0; i < feeds->count; i++)
            write_layers(stream, &feeds->feed[i], layer_families[f].name, layer_families[f].path);
    }
}

static void write_presence(FILE *stream, const struct feeds *feeds, bool open) {
    write_head(stream, open, "up", GAUGE, "", "1 while the daemon is heard of.");
    for (size_t i = 0; i < feeds->count; i++)
        write_sample(stream, "up", GAUGE, &feeds->feed[i],
                     feeds->feed[i].health.presence == PRESENCE_SPEAKING);
    write_head(stream, open, "paused", GAUGE, "", "1 while the daemon takes no examples.");
    for (size_t i = 0; i < feeds->count; i++) {
        const char *state = tool_string(feeds->feed[i].newest[TOPIC_STATUS], "state");
        if (state)
            write_sample(stream, "paused", GAUGE, &feeds->feed[i], strcmp(state, "paused") == 0);
    }
    write_head(stream, open, "missed_messages", COUNTER, "",
               "Messages of the daemon that did not arrive.");
    for (size_t i = 0; i < feeds->count; i++)
        write_sample(stream, "missed_messages", COUNTER, &feeds->feed[i],
                     (double)feeds->feed[i].health.missed_total);
}

/* What the daemon is, in labels. */
static void write_info(FILE *stream, const struct feeds *feeds, bool open) {
    static const char *const keys[] = {"run", "version", "device", "model", "digest", "state"};
    write_head(stream, open, "daemon", INFO, "", "What the daemon is.");
    for (size_t i = 0; i < feeds->count; i++) {
        const json_t *status = feeds->feed[i].newest[TOPIC_STATUS];
        char label[LABEL_SIZE];
        if (!status)
            continue;
        fputs("runnel_daemon_info", stream);
        write_labels(stream, &feeds->feed[i]);
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
            escape(label, tool_string(status, keys[key]));
            fprintf(stream, ",%s=\"%s\"", keys[key], label);
        }
        fputs("} 1\n", stream);
    }
}

/* A counter with one more label for each member of what the feeds count by kind. */
static void write_rejected(FILE *stream, const struct feeds *feeds, bool open) {
    write_head(stream, open, "rejected_examples", COUNTER, "",
               "Messages that were no examples, in the daemon's run.");
    for (size_t i = 0; i < feeds->count; i++) {
        const json_t *loss = feeds->feed[i].newest[TOPIC_LOSS];
        json_t *reasons = json_object_get(loss, "rejected_by"), *number;
        const char *reason;
        char label[LABEL_SIZE];
        int written = 0;
        json_object_foreach(reasons, reason, number) {
            if (written++ == REASONS_MOST)
                break;
            escape(label, reason);
            fputs("runnel_rejected_examples_total", stream);
            write_labels(stream, &feeds->feed[i]);
            fprintf(stream, ",reason=\"%s\"}", label);
            write_number(stream, json_number_value(number));
        }
    }
}

static void write_events(FILE *stream, const struct feeds *feeds, bool open) {
    write_head(stream, open, "events", COUNTER, "", "Events since runnel-web was started.");
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

bool metrics_wants_open(const char *accept) {
    return accept && strstr(accept, "application/openmetrics-text");
}

struct reply metrics_answer(const struct feeds *feeds, bool open) {
    struct reply_text text;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "memory is short");
    write_presence(text.stream, feeds, open);
    write_info(text.stream, feeds, open);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        write_family(text.stream, feeds, open, &families[i]);
    write_rejected(text.stream, feeds, open);
    write_layer_families(text.stream, feeds, open);
    write_events(text.stream, feeds, open);
    if (open)
        fputs("# EOF\n", text.stream);
    return reply_end(&text, open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                 : "text/plain; version=0.0.4; charset=utf-8");
}
