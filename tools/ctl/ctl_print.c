#include "build-config.h"

#include "ctl_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/tool.h"

enum { NAME_COLUMNS = 20, TEXT_SIZE = 1024 };

/* A line of output; one without a key begins a group, which is left out without its object. */
struct line {
    const char *title, *object, *key; /* object: the member that holds `key`, NULL = the reply */
    tool_format *format;              /* of a number, NULL = a text, or counts by name */
    const char *after;                /* unit or explanation */
};

/* How long the oldest entry has been waiting for the disk; 0 when all have come there. */
static char *format_waiting(char text[TOOL_NUMBER_SIZE], double seconds) {
    char number[TOOL_NUMBER_SIZE];
    if (seconds > 0)
        snprintf(text, TOOL_NUMBER_SIZE, "%.20s old", tool_format_duration(number, seconds));
    else
        snprintf(text, TOOL_NUMBER_SIZE, "none");
    return text;
}

static const struct line lines[] = {
    {"name", NULL, "name", NULL, ""},
    {"state", NULL, "state", NULL, ""},
    {"uptime", NULL, "uptime", tool_format_duration, ""},
    {"device", NULL, "device", NULL, ""},
    {"model", NULL, "model", NULL, ""},
    {"parameters", NULL, "parameters", tool_format_grouped, ""},
    {"version", NULL, "version", NULL, ""},
    {"digest", NULL, "digest", NULL, " of the configuration"},
    {"run", NULL, "run", NULL, ""},
    {"resumed from", NULL, "resumed", NULL, ""},
    {"state directory", NULL, "state_directory", NULL, ""},
    {"examples at", "sockets", "examples", NULL, ""},
    {"statistics at", "sockets", "statistics", NULL, ""},
    {"control at", "sockets", "control", NULL, ""},
    {"checkpoint of", "checkpoint", "examples", tool_format_grouped, " examples"},
    {"written at", "checkpoint", "time", tool_format_date, ""},
    {"learning", NULL, NULL, NULL, NULL},
    {"examples", NULL, "examples", tool_format_grouped, ""},
    {"steps", NULL, "steps", tool_format_grouped, ""},
    {"updates", NULL, "updates", tool_format_grouped, ""},
    {"skipped", NULL, "skipped", tool_format_grouped, " updates"},
    {"streams", NULL, "streams", tool_format_grouped, " in memory"},
    {"forgotten", NULL, "forgotten", tool_format_grouped, " streams"},
    {"rate", NULL, "rate", tool_format_setting, ""},
    {"clip", NULL, "clip", tool_format_setting, ""},
    {"gradient norm", NULL, "gradient_norm", tool_format_number,
     " of the last update, before clipping"},
    {"update ratio", NULL, "update_ratio", tool_format_number, ""},
    {"loss", NULL, NULL, NULL, NULL},
    {"newest", NULL, "loss", tool_format_number, ""},
    {"mean", NULL, "mean", tool_format_number, ""},
    {"minimum", NULL, "minimum", tool_format_number, ""},
    {"maximum", NULL, "maximum", tool_format_number, ""},
    {"smoothed", NULL, "smoothed", tool_format_number, ""},
    {"rmse", "metric", "rmse", tool_format_number, ""},
    {"accuracy", "metric", "accuracy", tool_format_percent, ""},
    {"bits", "metric", "bits", tool_format_number, ""},
    {"flow", NULL, NULL, NULL, NULL},
    {"speed", NULL, "examples_per_second", tool_format_rate, " examples/s"},
    {"latency p50", "latency_us", "p50", tool_format_microseconds, ""},
    {"latency p99", "latency_us", "p99", tool_format_microseconds, ""},
    {"latency maximum", "latency_us", "max", tool_format_microseconds, ""},
    {"queued", NULL, "queued", tool_format_grouped, ""},
    {"rejected", NULL, "rejected", tool_format_grouped, " examples"},
    {"rejected by", NULL, "rejected_by", NULL, ""},
    {"statistics every", NULL, "every", tool_format_grouped, " examples"},
    {"journal", "journal", NULL, NULL, NULL},
    {"newest entry", "journal", "position", tool_format_grouped, ""},
    {"on disk up to", "journal", "durable", tool_format_grouped, ""},
    {"oldest not on disk", "journal", "waiting", format_waiting, ""},
    {"entries kept", "journal", "entries", tool_format_grouped, ""},
    {"size", "journal", "bytes", tool_format_bytes, ""},
    {"free on its disk", "journal", "free_bytes", tool_format_bytes, ""},
    {"synced", "journal", "sync", NULL, ""},
    {"kept", "journal", "keep", NULL, ""},
    {"kept", "journal", "keep", tool_format_bytes, " at most"},
    {"duplicates", "journal", "duplicates", tool_format_grouped, " examples, learned once"},
    {"missing", "journal", "missing", tool_format_grouped, " numbers of numbered examples"},
    {"security", "security", NULL, NULL, NULL},
    {"encrypted by", "security", "key", NULL, ""},
    {"refused", "security", "refused", tool_format_grouped, " connections in this run"},
    {"refused by", "security", "refused_by", NULL, ""},
};

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
    if (!object)
        return;
    if (!line->key)
        printf("%s\n", line->title);
    else if (json_is_null(member))
        print_value(line->title, "-", "");
    else if (line->format && tool_number(object, line->key, &number))
        print_value(line->title, line->format(text, number), line->after);
    else if (!line->format && json_is_string(member))
        print_value(line->title, json_string_value(member), line->after);
    else if (!line->format)
        print_reasons(line->title, member);
}

void print_status(const json_t *reply) {
    printf("daemon\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        print_line(&lines[i], reply);
    if (!json_object_get(reply, "security")) {
        printf("security\n");
        print_value("encrypted by", "nobody: it has no keys (security.secret)", "");
    }
}
