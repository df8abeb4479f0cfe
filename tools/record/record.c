/* runnel-record: what daemons publish, kept in files. See runnel-record(1). */
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/wire.h"
#include "record_board.h"
#include "record_csv.h"
#include "record_source.h"
#include "tools/history/history.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"

#define FLUSH_EVERY 1.0 /* seconds: the most that files lag behind messages */
#define FILE_NAME "runnel.db"
#define MEGABYTE 1000000
#define KEEP_MAX (UINT64_MAX / 2)

enum { MESSAGES_AT_ONCE = 1000 /* of one daemon, between two looks at signals and the clock */ };

struct options {
    struct option_list endpoints;
    struct key_options keys;
    const char *output, *csv[CSV_KINDS], *board;
    struct history_options history;
    uint64_t messages; /* 0 = no end */
    double silence;
};

struct record {
    struct options options;
    struct history *history;
    struct csv *csv[CSV_KINDS];
    struct board *board;
    struct source *sources; /* (options.endpoints.count) */
    struct pollfd *items;   /* each source, and the signals */
    uint64_t written;       /* loss messages */
    int failed;             /* exit status of what could not be written; EX_OK */
};

/* ---- Options ---- */

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, OPTION_LIST_MAX), .unique = true},
    KEY_OPTIONS(struct options, keys),
    {"output", 'o', "FILE",
     "recording (SQLite), made or continued (default " FILE_NAME " when none of the next seven is "
     "asked for)",
     OPTION_FILE(struct options, output)},
    {"csv", 0, "FILE", "loss messages as a table of values; - = standard output",
     OPTION_FILE(struct options, csv[CSV_LOSS])},
    {"csv-columns", 0, "FILE",
     "errors and skill of each number of the targets as a table of values",
     OPTION_FILE(struct options, csv[CSV_COLUMNS])},
    {"csv-experts", 0, "FILE", "loss and weight of each expert and member as a table of values",
     OPTION_FILE(struct options, csv[CSV_EXPERTS])},
    {"csv-layers", 0, "FILE", "statistics of each layer as a table of values",
     OPTION_FILE(struct options, csv[CSV_LAYERS])},
    {"csv-predictions", 0, "FILE",
     "truths beside what was said of them as a table of values, a row for each column",
     OPTION_FILE(struct options, csv[CSV_PREDICTIONS])},
    {"csv-settings", 0, "FILE",
     "configurations as a table of values, a row for each key, and for each that is set in flight",
     OPTION_FILE(struct options, csv[CSV_SETTINGS])},
    {"tensorboard", 0, "DIR", "event files for TensorBoard, a directory for each run",
     OPTION_DIRECTORY(struct options, board)},
    {"keep", 'k', "N",
     "messages kept of each run in full; older ones are kept more and more coarsely (default "
     "100000)",
     OPTION_COUNT(struct options, history.keep, 1, KEEP_MAX)},
    {"megabytes", 'm', "N", "of the recording at most; the oldest runs go first (default 1000)",
     OPTION_COUNT(struct options, history.bytes, 1, KEEP_MAX / MEGABYTE)},
    {"count", 'n', "N", "end when N loss messages have been written",
     OPTION_COUNT(struct options, messages, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS", "say so when no message comes for so long; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

/* Two tables that have one name; false where there are none. */
static bool find_same(const struct options *o, int *first, int *second) {
    for (*first = 0; *first < CSV_KINDS; (*first)++)
        for (*second = *first + 1; *second < CSV_KINDS; (*second)++)
            if (o->csv[*first] && o->csv[*second] && !strcmp(o->csv[*first], o->csv[*second]))
                return true;
    return false;
}

static bool asks_for_tables(const struct options *o) {
    for (int kind = 0; kind < CSV_KINDS; kind++)
        if (o->csv[kind])
            return true;
    return false;
}

/* OPTIONS_GO_ON, or EX_USAGE. */
static int check_options(struct options *o) {
    o->history.bytes *= MEGABYTE;
    int first, second;
    if (find_same(o, &first, &second))
        return complain_usage("%s and %s need files of their own", csv_options[first],
                              csv_options[second]);
    if (!o->endpoints.count)
        o->endpoints.values[o->endpoints.count++] = WIRE_STATISTICS;
    if (!o->output && !asks_for_tables(o) && !o->board)
        o->output = FILE_NAME;
    return key_options_ready(&o->keys) ? OPTIONS_GO_ON : EX_USAGE;
}

/* ---- Recording ---- */

static void note(struct source *source, const char *text) {
    struct record *r = source->context;
    const char *name = *source->name ? source->name : source->endpoint;
    if (r->options.endpoints.count > 1)
        complain(EX_OK, "%s: %s", name, text);
    else
        complain(EX_OK, "%s", text);
    if (r->history && history_note(r->history, source->endpoint, "recorder", text))
        r->failed = complain(EX_IOERR, "%s", history_error(r->history));
}

static void take_message(struct record *r, struct source *source, const struct message *message) {
    if (message->problem)
        return;
    if (r->history && history_take(r->history, source->endpoint, message))
        r->failed = complain(EX_IOERR, "%s", history_error(r->history));
    for (int kind = 0; kind < CSV_KINDS; kind++)
        if (r->csv[kind])
            csv_take(r->csv[kind], source->name, message);
    if (r->board && r->failed == EX_OK)
        r->failed = board_take(r->board, (size_t)(source - r->sources), source->name, message);
    r->written += message->topic == TOPIC_LOSS;
}

static bool is_done(const struct record *r) {
    return r->failed != EX_OK || (r->options.messages && r->written >= r->options.messages);
}

static void take_messages(struct record *r, struct source *source) {
    struct message message;
    for (int i = 0; i < MESSAGES_AT_ONCE && !is_done(r) && source_receive(source, &message); i++) {
        take_message(r, source, &message);
        message_clear(&message);
    }
}

static void flush(struct record *r) {
    if (r->failed == EX_OK && r->history && history_commit(r->history))
        r->failed = complain(EX_IOERR, "%s", history_error(r->history));
    for (int kind = 0; kind < CSV_KINDS; kind++)
        if (r->failed == EX_OK && r->csv[kind])
            r->failed = csv_flush(r->csv[kind]);
    if (r->failed == EX_OK && r->board)
        r->failed = board_flush(r->board);
}

/* Wait for a message, a signal or the clock. */
static void wait_for_something(struct record *r, double seconds) {
    size_t count = r->options.endpoints.count;
    for (size_t i = 0; i < count; i++)
        r->items[i] = (struct pollfd){.fd = link_descriptor(r->sources[i].link), .events = POLLIN};
    r->items[count] = (struct pollfd){.fd = ending_descriptor(), .events = POLLIN};
    poll(r->items, count + 1, clock_milliseconds(seconds));
}

static bool all_refused(const struct record *r) {
    size_t i = 0;
    while (i < r->options.endpoints.count && r->sources[i].refused)
        i++;
    return i == r->options.endpoints.count;
}

static int run(struct record *r) {
    double flushed = clock_seconds();
    while (!ending_asked() && !is_done(r) && !all_refused(r)) {
        double wait = FLUSH_EVERY;
        for (size_t i = 0; i < r->options.endpoints.count; i++)
            wait = fmin(wait, health_next(&r->sources[i].health));
        wait_for_something(r, wait);
        for (size_t i = 0; i < r->options.endpoints.count; i++) {
            take_messages(r, &r->sources[i]);
            source_tick(&r->sources[i], false);
        }
        if (clock_seconds() - flushed >= FLUSH_EVERY) {
            flush(r);
            flushed = clock_seconds();
        }
    }
    for (size_t i = 0; i < r->options.endpoints.count; i++)
        source_tick(&r->sources[i], true);
    flush(r);
    if (r->failed == EX_OK && all_refused(r))
        return complain(EX_UNAVAILABLE, "no daemon admits this program");
    return r->failed;
}

static int open_files(struct record *r) {
    const struct options *o = &r->options;
    int status = EX_OK;
    if (o->output)
        status = history_open(&r->history, o->output, &o->history);
    for (int kind = 0; kind < CSV_KINDS; kind++)
        if (status == EX_OK && o->csv[kind])
            status = csv_open(&r->csv[kind], o->csv[kind], (enum csv_kind)kind);
    if (status == EX_OK && o->board)
        status = board_open(&r->board, o->board);
    return status;
}

static int open_sources(struct record *r) {
    size_t count = r->options.endpoints.count;
    int status = EX_OK;
    r->sources = calloc(count, sizeof *r->sources);
    r->items = calloc(count + 1, sizeof *r->items);
    if (!r->sources || !r->items)
        return complain(EX_UNAVAILABLE, "out of memory");
    for (size_t i = 0; status == EX_OK && i < count; i++) {
        r->sources[i].note = note;
        r->sources[i].context = r;
        struct runnel_peer peer = tool_peer(r->options.endpoints.values[i], &r->options.keys);
        status = source_open(&r->sources[i], &peer, r->options.silence,
                             r->history || r->csv[CSV_PREDICTIONS]);
    }
    return status;
}

static int close_files(struct record *r, int status) {
    for (int kind = 0; kind < CSV_KINDS; kind++) {
        int closed = csv_close(&r->csv[kind]);
        status = status == EX_OK ? closed : status;
    }
    int closed = board_close(&r->board);
    history_close(&r->history);
    return status == EX_OK ? closed : status;
}

static int record(const struct options *options) {
    struct record r = {.options = *options};
    int status = ending_catch_signals();
    if (status == EX_OK)
        status = open_files(&r);
    if (status == EX_OK)
        status = open_sources(&r);
    if (status == EX_OK)
        status = run(&r);
    for (size_t i = 0; r.sources && i < options->endpoints.count; i++)
        source_close(&r.sources[i]);
    free(r.sources);
    free(r.items);
    return close_files(&r, status);
}

int main(int argc, char **argv) {
    struct options options = {.silence = HEALTH_SILENCE};
    const struct command_line line = {
        .name = "runnel-record",
        .operands = "",
        .summary = "Write the statistics that running daemons publish to files.",
        .ending = "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 65 a table has other "
                  "columns, 69 no sockets or no runnel-plot to be had, 73 a file cannot be made, "
                  "74 one cannot be "
                  "written.",
        .groups = {{NULL, rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status == OPTIONS_GO_ON)
        status = check_options(&options);
    return status == OPTIONS_GO_ON ? record(&options) : status;
}
