/* runnel-watch: prints the statistics of a running daemon, one line a message. See
   runnel-watch(1). */
#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_anomaly.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_names.h"
#include "watch_table.h"

/* ---- Anomalies ----

   Events `anomaly` as a separate table, by data time, or else by the time of the message. */

/* Initialize with zeros. */
struct abnormal {
    unsigned long header; /* line number of the last header; 0 = none */
    int name;             /* columns of the widest name so far */
};

enum { TIME_COLUMNS = 19, STREAM_COLUMNS = 20, REASON_COLUMNS = 8 };
enum { NUMBER_COLUMNS = 8, SCORE_COLUMNS = 7, LEAST_COLUMNS = 3, TEXT_SIZE = 64 };

/* The name of a column, its number or "-". Makes room for it in the table. */
static void name_column(struct abnormal *a, char name[NAME_SIZE],
                        const struct anomaly_column *one) {
    char number[FORMAT_SIZE] = "-";
    if (!isnan(one->column))
        snprintf(number, sizeof number, "%.0f", one->column);
    names_cut(name, *one->name ? one->name : number, NAME_SIZE);
    int width = lines_width(name) > LEAST_COLUMNS ? lines_width(name) : LEAST_COLUMNS;
    if (width <= a->name)
        return;
    a->name = width;
    a->header = 0;
}

/* Prints a line, after a header if one is due. */
static void abnormal_print(struct abnormal *a, struct lines *lines, const struct anomaly *anomaly) {
    const struct anomaly_column first = anomaly_column(anomaly, 0);
    size_t columns = json_array_size(anomaly->columns);
    char date[FORMAT_SIZE] = "-", name[NAME_SIZE], stream[TEXT_SIZE], reason[TEXT_SIZE],
         numbers[4][FORMAT_SIZE], more[TEXT_SIZE] = "", note[WIRE_NOTE_MAX + 1],
         rest[TEXT_SIZE + sizeof note];
    name_column(a, name, &first);
    if (!isnan(anomaly->data_time) || !isnan(anomaly->time))
        format_date(date, isnan(anomaly->data_time) ? anomaly->time : anomaly->data_time);
    if (columns > 1)
        snprintf(more, sizeof more, " and %zu more", columns - 1);
    text_copy(note, sizeof note, anomaly->note);
    snprintf(rest, sizeof rest, "%s%s%s", more, *note ? "  " : "", note);
    static const char *const titles[] = {"time",  "stream", "reason", "score",
                                         "limit", "col",    "truth",  "forecast"};
    const int widths[] = {-TIME_COLUMNS, -STREAM_COLUMNS, -REASON_COLUMNS, SCORE_COLUMNS,
                          SCORE_COLUMNS, a->name,         NUMBER_COLUMNS,  NUMBER_COLUMNS};
    const char *const texts[] = {date,
                                 text_copy(stream, sizeof stream, anomaly->stream),
                                 text_copy(reason, sizeof reason, anomaly->reason),
                                 format_number(numbers[0], anomaly->score),
                                 format_number(numbers[1], anomaly->threshold),
                                 name,
                                 format_number(numbers[2], first.truth),
                                 format_number(numbers[3], first.forecast)};
    const struct lines_table table = {titles, widths, sizeof texts / sizeof *texts};
    lines_row(lines, &table, &a->header, texts, rest);
}

/* ---- Next ----

   Forecasts of future values: the newest prediction of each stream, printed once when no other
   arrives for a moment. */

#define NEXT_QUIET 1.0 /* seconds without a prediction */

enum { NEXT_STREAMS = 32 /* only the newest are printed */ };

/* Initialize with zeros. */
struct next {
    json_t *open[NEXT_STREAMS]; /* messages, oldest first; owned */
    size_t count;
    double came; /* time of the newest message (clock_seconds) */
};

static void drop(struct next *next, size_t which) {
    json_decref(next->open[which]);
    next->count--;
    memmove(next->open + which, next->open + which + 1, (next->count - which) * sizeof *next->open);
}

static void next_close(struct next *next) {
    while (next->count > 0)
        drop(next, next->count - 1);
}

/* The index of the stream; `count` if unknown. */
static size_t find(const struct next *next, const char *stream) {
    size_t which = 0;
    while (which < next->count && strcmp(member_string(next->open[which], "stream"), stream) != 0)
        which++;
    return which;
}

/* Takes a message of the topic `prediction`. */
static void next_add(struct next *next, json_t *body) {
    const char *stream = member_string(body, "stream");
    if (!stream || !json_object_get(body, "prediction"))
        return;
    size_t which = find(next, stream);
    if (which < next->count)
        drop(next, which);
    else if (next->count == NEXT_STREAMS)
        drop(next, 0);
    next->open[next->count++] = json_incref(body);
    next->came = clock_seconds();
}

/* Seconds until next_print is due; INFINITY when nothing waits. */
static double next_due(const struct next *next) {
    return next->count > 0 ? fmax(next->came + NEXT_QUIET - clock_seconds(), 0) : INFINITY;
}

static void next_print(struct next *next, struct table *table, struct lines *lines) {
    if (next_due(next) > 0)
        return;
    for (size_t i = 0; i < next->count; i++)
        truths_next(table, lines, next->open[i]);
    next_close(next);
}

/* ---- Pace ----

   At most PACE_ROWS rows of each topic a second. A faster row waits, and a newer one replaces it,
   so that the last printed row is always the newest. */

enum { PACE_ROWS = 10 };

/* Initialize with zeros; without `on` no row waits. */
struct pace {
    bool on;
    bool replaced;         /* whether a row was replaced and will not be shown */
    double shown[TOPICS];  /* time of the last printed row (clock_seconds) */
    json_t *waits[TOPICS]; /* the newest row that waits, or NULL; owned */
};

#define PERIOD (1.0 / PACE_ROWS)

static bool makes_rows(enum topic topic) {
    return topic == TOPIC_LOSS || topic == TOPIC_STATE || topic == TOPIC_PREDICTION ||
           topic == TOPIC_VECTOR;
}

static void forget(struct pace *pace, enum topic topic) {
    json_decref(pace->waits[topic]);
    pace->waits[topic] = NULL;
}

static void pace_close(struct pace *pace) {
    for (int topic = 0; topic < TOPICS; topic++)
        forget(pace, (enum topic)topic);
}

/* Whether the message must wait; then keeps its body. */
static bool pace_holds(struct pace *pace, const struct message *message) {
    enum topic topic = message->topic;
    if (!pace->on || !makes_rows(topic))
        return false;
    double now = clock_seconds();
    pace->replaced = pace->replaced || pace->waits[topic];
    forget(pace, topic);
    if (now - pace->shown[topic] < PERIOD) {
        pace->waits[topic] = json_incref(message->body);
        return true;
    }
    pace->shown[topic] = now;
    return false;
}

/* Takes a row that has waited long enough, or with `all` any row. Returns true with `row` filled,
   which the caller clears with message_clear. */
static bool pace_pop(struct pace *pace, bool all, struct message *row) {
    double now = clock_seconds();
    for (int topic = 0; topic < TOPICS; topic++) {
        if (!pace->waits[topic] || (!all && now - pace->shown[topic] < PERIOD))
            continue;
        *row = (struct message){.topic = (enum topic)topic, .body = pace->waits[topic]};
        pace->waits[topic] = NULL;
        pace->shown[topic] = now;
        return true;
    }
    return false;
}

/* Seconds until pace_pop returns a row; INFINITY when none waits. */
static double pace_next(const struct pace *pace) {
    double next = INFINITY, now = clock_seconds();
    for (int topic = 0; topic < TOPICS; topic++)
        if (pace->waits[topic])
            next = fmin(next, fmax(pace->shown[topic] + PERIOD - now, 0));
    return next;
}

enum { MESSAGES_AT_ONCE = 1000 /* before signals, clock and connection are checked */ };

struct options {
    const char *endpoint;
    struct key_options keys;
    bool chosen[TOPICS]; /* topics of --topic */
    bool anomalies;      /* print only events of this kind */
    bool choice;         /* whether --topic was given */
    bool json, all;
    uint64_t count; /* 0 = no limit */
    double silence;
    struct table table; /* columns of --columns */
};

struct watch {
    struct options options;
    struct lines *lines;
    struct link *link;
    struct health health;
    struct table table;
    struct abnormal abnormal;
    struct pace pace;
    struct next next;
    bool pace_reported, predictions_reported, hindrance_reported;
    unsigned statuses; /* status messages before anything was printed */
    bool refused;      /* access denied */
    uint64_t printed;
};

/* ---- Options ---- */

static int parse_topic(void *values, const struct option_row *row, const char *name,
                       struct error *error) {
    struct options *o = values;
    enum topic topic = topic_find(name, strlen(name));
    if (strcmp(name, "anomaly") == 0) {
        o->anomalies = o->choice = true;
        return 0;
    }
    if (topic == TOPICS)
        return error_set(error, EX_USAGE,
                         "--%s: unknown topic '%s', expected one of:" TOPIC_WORDS " anomaly",
                         row->name, name);
    o->chosen[topic] = o->choice = true;
    return 0;
}

static int parse_columns(void *values, const struct option_row *row, const char *list,
                         struct error *error) {
    struct options *o = values;
    const char *wrong = table_choose(&o->table, list);
    if (!wrong)
        return 0;
    return error_set(error, EX_USAGE, "--%s: unknown column '%.*s', expected all or one of %s",
                     row->name, (int)strcspn(wrong, ","), wrong, table_names());
}

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's statistics socket (default " WIRE_STATISTICS ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"topic", 't', "TOPIC",
     "print only this topic; may be repeated:" TOPIC_WORDS
     ", or anomaly for events of this kind (default: loss, event and changes of status; with "
     "--json: all)",
     OPTION_TAKE(parse_topic), .complete = COMPLETE_WORDS, .words = TOPIC_WORDS " anomaly"},
    {"columns", 'C', "LIST",
     "columns of the table (comma-separated), or all (default: those that fit)",
     OPTION_TAKE(parse_columns)},
    {"json", 'j', NULL, "print each message as one line of JSON with its topic",
     OPTION_FLAG(struct options, json)},
    {"count", 'n', "N", "end after N messages", OPTION_COUNT(struct options, count, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS",
     "report when no message arrives for this time; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    {"all", 'a', NULL,
     "print every row; without it, a terminal shows at most 10 rows of a topic a second",
     OPTION_FLAG(struct options, all)},
    OPTIONS_LAST,
};

/* ---- Watching ---- */

/* Prints remarks between the lines of the table, but never between lines of JSON. */
static void note(void *context, const char *text) {
    struct watch *w = context;
    if (w->options.json)
        complain(EX_OK, "%s", text);
    else
        table_note(w->lines, text);
}

static bool is_printed(const struct options *o, enum topic topic) {
    if (o->choice)
        return o->chosen[topic] || (topic == TOPIC_EVENT && o->anomalies);
    return o->json || topic < TOPIC_STATE || topic == TOPIC_EVENT;
}

/* Writes JSON without control characters: JSON strings may contain U+007F..U+009F, which become
   \u007f..\u009f. */
static void put_json(FILE *file, const char *text) {
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
        bool wide = byte[0] == 0xC2 && byte[1] >= 0x80 && byte[1] < 0xA0;
        if (wide || *byte == 0x7F)
            fprintf(file, "\\u%04x", byte[wide]);
        else
            putc_unlocked(*byte, file);
        byte += wide;
    }
}

/* {"a": 1} becomes {"topic":"loss","a": 1}; digits stay unchanged. */
static void print_json(struct lines *lines, const struct message *message) {
    const char *members = message->text + 1;
    char *line = NULL;
    size_t size;
    FILE *file = open_memstream(&line, &size);
    if (!file)
        return;
    members += strspn(members, " \t");
    fprintf(file, "{\"topic\":\"%s\"%s", topic_names[message->topic], *members == '}' ? "" : ",");
    put_json(file, members);
    if (fclose(file) == 0)
        lines_add(lines, line);
    free(line);
}

static void print_message(struct watch *w, const struct message *message) {
    struct anomaly anomaly;
    bool abnormal = message->topic == TOPIC_EVENT && w->options.anomalies &&
                    anomaly_of(message->body, &anomaly);
    if (message->topic == TOPIC_EVENT && w->options.anomalies && !abnormal &&
        !w->options.chosen[TOPIC_EVENT])
        return;
    if (w->options.json)
        print_json(w->lines, message);
    else if (abnormal)
        abnormal_print(&w->abnormal, w->lines, &anomaly);
    else if (!table_print(&w->table, w->lines, message))
        return;
    w->printed++;
}

/* Prints the rows that have waited; with `all` also those that should wait longer. */
static void print_rows(struct watch *w, bool all) {
    struct message row;
    while (pace_pop(&w->pace, all, &row)) {
        print_message(w, &row);
        message_clear(&row);
    }
    if (!w->pace.replaced || w->pace_reported)
        return;
    w->pace_reported = true;
    note(w, "more than 10 rows a second: some are not shown; --all shows all");
}

/* Reports that the daemon does not publish the requested predictions. */
static void check_predictions(struct watch *w, const struct message *message) {
    if (message->topic != TOPIC_STATUS || !w->options.chosen[TOPIC_PREDICTION] ||
        w->predictions_reported || !json_is_false(json_object_get(message->body, "predictions")))
        return;
    w->predictions_reported = true;
    note(w, "this daemon does not publish predictions; start it with --set "
            "statistics.predictions=true, or set 'predictions: true' under 'statistics:' in its "
            "configuration");
}

/* Reports at the second `status` that the daemon runs, although it prints nothing. */
static void check_nothing(struct watch *w, const struct message *message) {
    const char *name = json_string_value(json_object_get(message->body, "name"));
    json_t *examples = json_object_get(message->body, "examples");
    if (message->topic != TOPIC_STATUS || is_printed(&w->options, TOPIC_STATUS) || w->printed > 0 ||
        !name || !json_is_integer(examples) || ++w->statuses != 2)
        return;
    char shown[NAME_SIZE], text[NAME_SIZE + 160];
    snprintf(text, sizeof text,
             "%s is running and has learned %" JSON_INTEGER_FORMAT
             " examples; no message of the selected topics yet",
             names_cut(shown, name, NAME_SIZE), json_integer_value(examples));
    note(w, text);
}

static void handle_message(struct watch *w, const struct message *message) {
    if (health_message(&w->health, message)) {
        table_restart(&w->table);
        w->predictions_reported = false;
    }
    if (message->problem)
        return;
    check_predictions(w, message);
    check_nothing(w, message);
    if (message->topic == TOPIC_STATUS)
        table_read_names(&w->table, message->body);
    if (!is_printed(&w->options, message->topic))
        return;
    if (message->topic == TOPIC_PREDICTION && !w->options.json)
        next_add(&w->next, message->body);
    if (pace_holds(&w->pace, message))
        return;
    if (message->topic == TOPIC_STATUS || message->topic == TOPIC_EVENT)
        print_rows(w, true); /* they arrived earlier */
    print_message(w, message);
}

static bool is_done(const struct watch *w) {
    return ending_asked() || w->refused || (w->options.count > 0 && w->printed >= w->options.count);
}

static void handle_change(struct watch *w, enum runnel_kind change) {
    w->refused |= change == RUNNEL_REFUSED;
    health_changed(&w->health, change);
    if (change == RUNNEL_HINDERED && !w->hindrance_reported) {
        w->hindrance_reported = true;
        note(w, link_refusal(w->link));
    }
}

static void handle_messages(struct watch *w) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < MESSAGES_AT_ONCE && !is_done(w) &&
                    (kind = link_next(w->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE)
            handle_message(w, &message);
        else
            handle_change(w, kind);
        message_clear(&message);
    }
    health_tick(&w->health, false);
    if (is_done(w))
        return;
    print_rows(w, false);
    next_print(&w->next, &w->table, w->lines);
}

static int run(struct watch *w) {
    bool woken = false;
    while (!is_done(w)) {
        handle_messages(w);
        if (lines_flush(w->lines))
            return complain(EX_IOERR, "cannot write to standard output: %s", strerror(errno));
        if (is_done(w))
            break;
        double wait = fmin(health_next(&w->health), pace_next(&w->pace));
        wait = fmin(wait, next_due(&w->next));
        link_wait(w->link, ending_descriptor(), wait, &woken);
        if (woken && ending_resized())
            lines_resized(w->lines);
    }
    if (ending_asked())
        print_rows(w, true);
    if (w->refused)
        return complain(EX_UNAVAILABLE, "%s: %s", w->options.endpoint, link_refusal(w->link));
    health_tick(&w->health, true);
    return EX_OK;
}

static int watch(const struct options *options) {
    struct watch w = {.options = *options, .table = options->table};
    w.pace.on = isatty(STDOUT_FILENO) && !options->json && !options->all;
    /* `status` contains the name, and shows that the daemon runs. */
    bool topics[TOPICS];
    for (int topic = 0; topic < TOPICS; topic++)
        topics[topic] = topic == TOPIC_STATUS || is_printed(options, (enum topic)topic);
    if (lines_open(&w.lines))
        return complain(EX_UNAVAILABLE, "out of memory");
    health_open(&w.health, options->endpoint, options->silence, note, &w);
    struct runnel_peer peer = tool_peer(options->endpoint, &options->keys);
    int status = ending_catch_resize();
    if (status == EX_OK)
        status = link_open(&w.link, &peer, topics);
    if (status == EX_OK)
        status = run(&w);
    link_close(&w.link);
    pace_close(&w.pace);
    next_close(&w.next);
    table_close(&w.table);
    lines_close(&w.lines);
    return status;
}

int main(int argc, char **argv) {
    struct options options = {.endpoint = WIRE_STATISTICS, .silence = HEALTH_SILENCE};
    const struct command_line line = {
        .name = "runnel-watch",
        .operands = "",
        .summary = "Print the statistics of a running daemon, one line a message.",
        .ending = "Ctrl-C ends the program. Exit status: 0 success, 64 usage error, 69 cannot open "
                  "a socket or access denied, 74 cannot write to standard output.",
        .groups = {{NULL, rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    return key_options_ready(&options.keys) ? watch(&options) : EX_USAGE;
}
