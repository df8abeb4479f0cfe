#include "build-config.h"

#include "watch_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/shared/tool.h"
#include "tools/shared/watch_trend.h"

enum { LINE_SIZE = 1024, TEXT_SIZE = 600, GAP = 1 };

/* The columns in the order in which they stand. Where not all fit, those of the lowest `rank` stay;
   rank 0 comes only when it is asked for. */
static const struct column {
    const char *name;   /* for people who choose */
    const char *title;  /* its width is the column's, unless `width` is greater */
    const char *object; /* the member that holds `key`; NULL = the message */
    const char *key;
    tool_format *format; /* NULL = a count, within the column's width */
    int width, rank;
} table_columns[] = {
    {"time", "time", NULL, "time", tool_format_clock, 8, 0},
    {"examples", "examples", NULL, "examples", NULL, 8, 1},
    {"steps", "steps", NULL, "steps", NULL, 8, 17},
    {"loss", "loss", NULL, "loss", tool_format_number, 7, 14},
    {"mean", "mean", NULL, "mean", tool_format_number, 7, 2},
    {"smoothed", "smoothed", NULL, "smoothed", tool_format_number, 8, 3},
    {"minimum", "minimum", NULL, "minimum", tool_format_number, 7, 0},
    {"maximum", "maximum", NULL, "maximum", tool_format_number, 7, 0},
    {"rmse", "rmse", "metric", "rmse", tool_format_number, 7, 4},
    {"accuracy", "accuracy", "metric", "accuracy", tool_format_percent, 8, 4},
    {"bits", "bits", "metric", "bits", tool_format_number, 7, 5},
    {"updates", "updates", NULL, "updates", NULL, 8, 0},
    {"rate", "rate", NULL, "rate", tool_format_setting, 7, 10},
    {"gradient", "gradient", NULL, "gradient_norm", tool_format_number, 8, 6},
    {"update", "update", NULL, "update_ratio", tool_format_number, 7, 12},
    {"speed", "ex/s", NULL, "examples_per_second", tool_format_rate, 6, 7},
    {"p50", "p50", "latency_us", "p50", tool_format_microseconds, 6, 9},
    {"p99", "p99", "latency_us", "p99", tool_format_microseconds, 6, 8},
    {"max", "max", "latency_us", "max", tool_format_microseconds, 6, 0},
    {"queued", "queued", NULL, "queued", NULL, 6, 11},
    {"rejected", "rejected", NULL, "rejected", NULL, 8, 13},
    {"skipped", "skipped", NULL, "skipped", NULL, 7, 15},
    {"streams", "streams", NULL, "streams", NULL, 7, 16},
};

enum { COLUMNS = sizeof table_columns / sizeof *table_columns, RANKS = 17 };

_Static_assert((int)COLUMNS <= (int)TABLE_COLUMNS_MAX, "a table holds every column once");

static int find_column(const char *name, size_t size) {
    for (int i = 0; i < COLUMNS; i++)
        if (strlen(table_columns[i].name) == size && memcmp(table_columns[i].name, name, size) == 0)
            return i;
    return -1;
}

const char *table_choose(struct table *table, const char *list) {
    bool all = strcmp(list, "all") == 0;
    table->chosen = true;
    table->count = 0;
    for (int i = 0; all && i < COLUMNS; i++)
        table->columns[table->count++] = i;
    for (const char *name = list; !all && name; name = strchr(name, ',')) {
        name += *name == ',';
        int column = find_column(name, strcspn(name, ","));
        if (column < 0 || table->count == TABLE_COLUMNS_MAX)
            return name;
        table->columns[table->count++] = column;
    }
    return NULL;
}

const char *table_names(void) {
    static char names[TEXT_SIZE];
    *names = '\0';
    for (int i = 0; i < COLUMNS; i++) {
        strcat(names, i ? ", " : "");
        strcat(names, table_columns[i].name);
    }
    return names;
}

static const json_t *column_object(const struct column *column, const json_t *body) {
    return column->object ? json_object_get(body, column->object) : body;
}

/* Columns by rank as long as they fit the width, in the order of table_columns. A metric that the
   message does not have takes no place. */
static void fit_columns(int columns[TABLE_COLUMNS_MAX], int *count, const json_t *body, int width) {
    bool taken[COLUMNS] = {false};
    int used = -GAP;
    for (int rank = 1; rank <= RANKS; rank++)
        for (int i = 0; i < COLUMNS; i++) {
            const struct column *column = &table_columns[i];
            bool metric = column->object && strcmp(column->object, "metric") == 0;
            if (column->rank != rank || used + GAP + column->width > width ||
                (metric && !json_object_get(column_object(column, body), column->key)))
                continue;
            taken[i] = true;
            used += GAP + column->width;
        }
    *count = 0;
    for (int i = 0; i < COLUMNS; i++)
        if (taken[i])
            columns[(*count)++] = i;
}

static void format_cell(char text[TOOL_NUMBER_SIZE], const struct column *column,
                        const json_t *body) {
    double value;
    if (!tool_number(column_object(column, body), column->key, &value))
        strcpy(text, "-");
    else if (column->format)
        column->format(text, value);
    else
        tool_format_count(text, value, column->width);
}

/* A cell's text to the right of its column, after what stands in `line`. */
static void append_cell(char line[LINE_SIZE], const struct column *column, const char *text) {
    size_t used = strlen(line);
    snprintf(line + used, LINE_SIZE - used, "%*s%*s", used ? GAP : 0, "", column->width, text);
}

static void print_header(struct table *table, struct screen *screen) {
    char line[LINE_SIZE] = "";
    for (int i = 0; i < table->count; i++) {
        const struct column *column = &table_columns[table->columns[i]];
        append_cell(line, column, column->title);
    }
    screen_line(screen, line);
    table->header = screen_lines(screen);
}

static void print_loss(struct table *table, struct screen *screen, const json_t *body) {
    bool header = !table->header || screen_lines(screen) - table->header >= TABLE_HEADER_EVERY;
    if (!table->chosen) {
        int columns[TABLE_COLUMNS_MAX], count;
        fit_columns(columns, &count, body, screen_columns(screen));
        header = header || count != table->count ||
                 memcmp(columns, table->columns, (size_t)count * sizeof *columns) != 0;
        memcpy(table->columns, columns, (size_t)count * sizeof *columns);
        table->count = count;
    }
    if (header)
        print_header(table, screen);
    char line[LINE_SIZE] = "", cell[TOOL_NUMBER_SIZE];
    for (int i = 0; i < table->count; i++) {
        const struct column *column = &table_columns[table->columns[i]];
        format_cell(cell, column, body);
        append_cell(line, column, cell);
    }
    screen_line(screen, line);
}

static void print_timed(struct screen *screen, double unix_time, const char *text) {
    char line[LINE_SIZE], clock[TOOL_NUMBER_SIZE];
    snprintf(line, sizeof line, "-- %s %s", tool_format_clock(clock, unix_time), text);
    screen_line(screen, line);
}

static double body_time(const json_t *body) {
    double unix_time;
    return tool_number(body, "time", &unix_time) ? unix_time : (double)time(NULL);
}

void table_note(struct screen *screen, const char *sentence) {
    char clean[TEXT_SIZE];
    print_timed(screen, (double)time(NULL), tool_clean(clean, sizeof clean, sentence));
}

static void print_event(struct screen *screen, const json_t *body) {
    const char *kind = tool_string(body, "kind"), *said = tool_string(body, "text");
    char joined[TEXT_SIZE], clean[TEXT_SIZE];
    /* "checkpoint of 100 examples" needs no "checkpoint: " before it. */
    bool said_twice = kind && said && strncmp(said, kind, strlen(kind)) == 0;
    snprintf(joined, sizeof joined, "%s%s%s",
             said_twice ? ""
             : kind     ? kind
                        : "event",
             said && !said_twice ? ": " : "", said ? said : "");
    print_timed(screen, body_time(body), tool_clean(clean, sizeof clean, joined));
}

static void print_clean(struct screen *screen, const json_t *body, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void print_clean(struct screen *screen, const json_t *body, const char *format, ...) {
    char text[TEXT_SIZE], clean[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_timed(screen, body_time(body), tool_clean(clean, sizeof clean, text));
}

/* All of it when it is not the one that was printed last, else only how it is. */
static bool print_status(struct table *table, struct screen *screen, const json_t *body) {
    const char *name = tool_string(body, "name"), *state = tool_string(body, "state");
    const char *device = tool_string(body, "device"), *model = tool_string(body, "model");
    char now[TABLE_STATE_SIZE], self[TABLE_SELF_SIZE], count[TOOL_NUMBER_SIZE] = "?";
    double parameters;
    if (tool_number(body, "parameters", &parameters))
        tool_format_grouped(count, parameters);
    name = name ? name : "?";
    device = device ? device : "?";
    tool_clean(now, sizeof now, state && *state ? state : "?");
    snprintf(self, sizeof self, "%s %s %s %s", name, count, device, model ? model : "");
    bool same = *table->state && strcmp(self, table->self) == 0;
    if (same && strcmp(now, table->state) == 0)
        return false;
    strcpy(table->state, now);
    strcpy(table->self, self);
    if (same) {
        print_clean(screen, body, "%s is %s", name, now);
        return true;
    }
    print_clean(screen, body, "%s is %s: %s parameters on %s", name, now, count, device);
    if (model)
        print_clean(screen, body, "model: %s", model);
    return true;
}

void table_restart(struct table *table) {
    *table->state = '\0';
}

/* A member of a member as a number of table form, "-" when there is none. */
static const char *inner(char text[TOOL_NUMBER_SIZE], const json_t *object, const char *name,
                         const char *key) {
    double value;
    if (!tool_number(json_object_get(object, name), key, &value))
        return strcpy(text, "-");
    return tool_format_number(text, value);
}

static void append_histogram(char line[LINE_SIZE], const struct screen *screen,
                             const json_t *layer) {
    double values[TREND_VALUES];
    char picture[TREND_PICTURE_SIZE];
    size_t count = tool_counts(layer, "histogram", values, TREND_VALUES);
    if (!count || screen_width(line) + 2 + (int)count > screen_columns(screen))
        return;
    size_t used = strlen(line);
    bool utf8 = screen_is_utf8(screen);
    snprintf(line + used, LINE_SIZE - used, "  %s", trend_histogram(values, count, utf8, picture));
}

static void print_layer(struct screen *screen, size_t index, const json_t *layer) {
    char line[LINE_SIZE], saturated[TOOL_NUMBER_SIZE] = "-";
    char numbers[4][TOOL_NUMBER_SIZE];
    double share;
    if (tool_number(json_object_get(layer, "hidden"), "saturated", &share))
        snprintf(saturated, sizeof saturated, "%.1f%%", 100 * share);
    snprintf(line, sizeof line, "   layer %-2zu hidden %7s +- %7s  saturated %6s  sums %7s +- %7s",
             index, inner(numbers[0], layer, "hidden", "mean"),
             inner(numbers[1], layer, "hidden", "std"), saturated,
             inner(numbers[2], layer, "summed_inputs", "mean"),
             inner(numbers[3], layer, "summed_inputs", "std"));
    append_histogram(line, screen, layer);
    screen_line(screen, line);
}

static bool print_state(struct screen *screen, const json_t *body) {
    const json_t *layers = json_object_get(body, "layers");
    for (size_t i = 0; i < json_array_size(layers); i++)
        print_layer(screen, i, json_array_get(layers, i));
    return json_array_size(layers) > 0;
}

static void print_prediction(struct screen *screen, const json_t *body) {
    enum { DIGITS = 4, ENDING = 3 };
    const char *stream = tool_string(body, "stream");
    double example = 0, loss;
    char count[TOOL_NUMBER_SIZE], number[TOOL_NUMBER_SIZE] = "-", line[LINE_SIZE], clean[LINE_SIZE];
    char *values = json_dumps(json_object_get(body, "prediction"),
                              JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    tool_number(body, "example", &example);
    if (tool_number(body, "loss", &loss))
        tool_format_number(number, loss);
    snprintf(line, sizeof line, "   example %s of '%s', loss %s: %s",
             tool_format_grouped(count, example), stream ? stream : "", number,
             values ? values : "-");
    free(values);
    size_t width = (size_t)screen_columns(screen);
    if (width > sizeof line - 1)
        width = sizeof line - 1;
    tool_clean(clean, sizeof clean, line);
    if (strlen(clean) > width) {
        tool_clean(clean, width - ENDING + 1, line);
        strcat(clean, "...");
    }
    screen_line(screen, clean);
}

bool table_print(struct table *table, struct screen *screen, const struct message *message) {
    switch (message->topic) {
    case TOPIC_LOSS:
        print_loss(table, screen, message->body);
        return true;
    case TOPIC_EVENT:
        print_event(screen, message->body);
        return true;
    case TOPIC_STATE:
        return print_state(screen, message->body);
    case TOPIC_PREDICTION:
        print_prediction(screen, message->body);
        return true;
    case TOPIC_STATUS:
        return print_status(table, screen, message->body);
    case TOPICS:
        break;
    }
    return false;
}
