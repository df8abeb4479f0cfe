#include "build-config.h"

#include "ctl_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { NAME_COLUMNS = 20, TEXT_SIZE = 1024 };

enum form { TEXT, COUNT, NUMBER, SETTING, RATE, LATENCY, PERCENT, DURATION, DATE, REASONS };

/* A line of output; one without a form begins a group. */
struct line {
    const char *title, *object, *key; /* object: the member that holds `key`, NULL = the reply */
    enum form form;
    const char *after; /* unit or explanation */
};

static const struct line lines[] = {
    {"name", NULL, "name", TEXT, ""},
    {"state", NULL, "state", TEXT, ""},
    {"uptime", NULL, "uptime", DURATION, ""},
    {"device", NULL, "device", TEXT, ""},
    {"model", NULL, "model", TEXT, ""},
    {"parameters", NULL, "parameters", COUNT, ""},
    {"version", NULL, "version", TEXT, ""},
    {"digest", NULL, "digest", TEXT, " of the configuration"},
    {"run", NULL, "run", TEXT, ""},
    {"resumed from", NULL, "resumed", TEXT, ""},
    {"state directory", NULL, "state_directory", TEXT, ""},
    {"examples at", "sockets", "examples", TEXT, ""},
    {"statistics at", "sockets", "statistics", TEXT, ""},
    {"control at", "sockets", "control", TEXT, ""},
    {"checkpoint of", "checkpoint", "examples", COUNT, " examples"},
    {"written at", "checkpoint", "time", DATE, ""},
    {"learning", NULL, NULL, TEXT, NULL},
    {"examples", NULL, "examples", COUNT, ""},
    {"steps", NULL, "steps", COUNT, ""},
    {"updates", NULL, "updates", COUNT, ""},
    {"skipped", NULL, "skipped", COUNT, " updates"},
    {"streams", NULL, "streams", COUNT, " in memory"},
    {"forgotten", NULL, "forgotten", COUNT, " streams"},
    {"rate", NULL, "rate", SETTING, ""},
    {"clip", NULL, "clip", SETTING, ""},
    {"gradient norm", NULL, "gradient_norm", NUMBER, " of the last update, before clipping"},
    {"update ratio", NULL, "update_ratio", NUMBER, ""},
    {"loss", NULL, NULL, TEXT, NULL},
    {"newest", NULL, "loss", NUMBER, ""},
    {"mean", NULL, "mean", NUMBER, ""},
    {"minimum", NULL, "minimum", NUMBER, ""},
    {"maximum", NULL, "maximum", NUMBER, ""},
    {"smoothed", NULL, "smoothed", NUMBER, ""},
    {"rmse", "metric", "rmse", NUMBER, ""},
    {"accuracy", "metric", "accuracy", PERCENT, ""},
    {"bits", "metric", "bits", NUMBER, ""},
    {"flow", NULL, NULL, TEXT, NULL},
    {"speed", NULL, "examples_per_second", RATE, " examples/s"},
    {"latency p50", "latency_us", "p50", LATENCY, ""},
    {"latency p99", "latency_us", "p99", LATENCY, ""},
    {"latency maximum", "latency_us", "max", LATENCY, ""},
    {"queued", NULL, "queued", COUNT, ""},
    {"rejected", NULL, "rejected", COUNT, " examples"},
    {"rejected by", NULL, "rejected_by", REASONS, ""},
    {"statistics every", NULL, "every", COUNT, " examples"},
};

static void format_value(char text[TOOL_NUMBER_SIZE], enum form form, double value) {
    switch (form) {
    case COUNT:
        tool_format_grouped(text, value);
        break;
    case SETTING:
        tool_format_setting(text, value);
        break;
    case RATE:
        tool_format_rate(text, value);
        break;
    case LATENCY:
        tool_format_microseconds(text, value);
        break;
    case PERCENT:
        snprintf(text, TOOL_NUMBER_SIZE, "%.2f%%", 100 * value);
        break;
    case DURATION:
        tool_format_duration(text, value);
        break;
    case DATE:
        tool_format_date(text, value);
        break;
    case TEXT:
    case REASONS:
    case NUMBER:
        tool_format_number(text, value);
        break;
    }
}

static void print_value(const char *title, const char *value, const char *after) {
    char clean[TEXT_SIZE];
    printf("  %-*s%s%s\n", NAME_COLUMNS, title, tool_clean(clean, sizeof clean, value), after);
}

/* {"size": 3} as "size 3". */
static void print_reasons(const char *title, json_t *reasons) {
    const char *reason;
    json_t *count;
    json_object_foreach(reasons, reason, count) {
        char text[TOOL_NUMBER_SIZE], named[TEXT_SIZE];
        snprintf(named, sizeof named, "%s %s", reason,
                 tool_format_grouped(text, json_number_value(count)));
        print_value(title, named, "");
        title = "";
    }
}

static void print_line(const struct line *line, const json_t *reply) {
    const json_t *object = line->object ? json_object_get(reply, line->object) : reply;
    json_t *member = json_object_get(object, line->key);
    char text[TOOL_NUMBER_SIZE];
    double number;
    if (!line->key)
        printf("%s\n", line->title);
    else if (line->form == REASONS)
        print_reasons(line->title, member);
    else if (json_is_null(member))
        print_value(line->title, "-", "");
    else if (line->form == TEXT && json_is_string(member))
        print_value(line->title, json_string_value(member), line->after);
    else if (tool_number(object, line->key, &number)) {
        format_value(text, line->form, number);
        print_value(line->title, text, line->after);
    }
}

void print_status(const json_t *reply) {
    printf("daemon\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        print_line(&lines[i], reply);
}
