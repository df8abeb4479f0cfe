/* runnel-record: records published messages in files. See runnel-record(1). */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "record_board.h"
#include "tools/history/history.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_truth.h"

/* ---- Source ----

   A recorded daemon: its link, its health and its name. */

enum { SOURCE_NAME_SIZE = 65 };

struct source {
    const char *endpoint;
    struct link *link;
    struct health health;
    char name[SOURCE_NAME_SIZE]; /* "" = unknown */
    bool named;                  /* whether the recording of this run was reported */
    bool refused, hindrance_reported;
    void (*note)(struct source *source, const char *text);
    void *context;
};

static void pass_on(void *context, const char *text) {
    struct source *source = context;
    source->note(source, text);
}

/* Subscribes at the endpoint, to predictions if requested; `note` receives remarks about the
   daemon. Returns EX_OK, or prints an error and returns an exit status. */
static int source_open(struct source *s, const struct runnel_peer *peer, double silence,
                       bool predictions) {
    const bool topics[TOPICS] = {
        [TOPIC_STATUS] = true, [TOPIC_LOSS] = true,
        [TOPIC_STATE] = true,  [TOPIC_PREDICTION] = predictions,
        [TOPIC_EVENT] = true,
    };
    s->endpoint = peer->endpoint;
    health_open(&s->health, s->endpoint, silence, pass_on, s);
    return link_open(&s->link, peer, topics);
}

static void handle_status(struct source *s, const json_t *body) {
    const char *name = member_string(body, "name"), *device = member_string(body, "device");
    const char *model = member_string(body, "model");
    char clean_device[65], clean_model[257];
    if (!name || s->named)
        return;
    s->named = true;
    complain(EX_OK, "recording %s: %s; %s", text_copy(s->name, sizeof s->name, name),
             text_copy(clean_model, sizeof clean_model, model ? model : ""),
             text_copy(clean_device, sizeof clean_device, device ? device : ""));
}

static void handle_change(struct source *s, enum runnel_kind change) {
    bool hindered = change == RUNNEL_HINDERED && !s->hindrance_reported;
    s->refused |= change == RUNNEL_REFUSED;
    s->hindrance_reported |= hindered;
    if (hindered || change == RUNNEL_REFUSED)
        s->note(s, link_refusal(s->link));
    health_changed(&s->health, change);
}

/* Receives the next message; false when none waits. A message with a problem is counted, reported
   and returned with `problem`. Handles changes of the connection. */
static bool source_receive(struct source *s, struct message *message) {
    enum runnel_kind kind;
    while ((kind = link_next(s->link, message)) != RUNNEL_MESSAGE) {
        if (kind == RUNNEL_NOTHING)
            return false;
        handle_change(s, kind);
    }
    if (health_message(&s->health, message))
        s->named = false;
    if (!message->problem && message->topic == TOPIC_STATUS)
        handle_status(s, message->body);
    return true;
}

/* ---- CSV ----

   Statistics as comma-separated values (RFC 4180). The first line names the columns. */

/* The comments name the rows of each table. */
enum csv_kind {
    CSV_LOSS,        /* one for each `loss` message */
    CSV_COLUMNS,     /* one for each target column */
    CSV_EXPERTS,     /* one for each expert and member */
    CSV_LAYERS,      /* one for each layer of a `state` message */
    CSV_PREDICTIONS, /* one for each column of a truth */
    CSV_SETTINGS,    /* one for each key, at first and when its value changes */
    CSV_KINDS,
};

enum { DIGITS = 15 };

struct csv {
    FILE *file;
    char *path;
    enum csv_kind kind;
    json_t *experts;  /* predictions: an object with the experts that have a column */
    json_t *levels;   /* predictions: the levels that have a column */
    bool distributed; /* predictions: scores of distributions have columns */
    json_t *settings; /* settings: the last reported configuration by run */
    bool begun;       /* the first line is written */
    int status;       /* of the first line, if it waits for the first row */
};

/* The option of runnel-record for each table. */
static const char *const csv_options[CSV_KINDS] = {
    "--csv",        "--csv-columns",     "--csv-experts",
    "--csv-layers", "--csv-predictions", "--csv-settings"};

/* Columns after the position: those of `before`, then the numbers. */
static const struct {
    enum topic topic;
    const char *before;
    const struct field *const *columns; /* NULL: those of `table` */
    int count;
    enum field_table_of table;
} contents[CSV_KINDS] = {
    [CSV_LOSS] = {TOPIC_LOSS, "", history_loss_columns, HISTORY_LOSS_COLUMNS, FIELD_TABLES},
    [CSV_COLUMNS] = {TOPIC_LOSS, ",column", NULL, COLUMN_FIELDS, FIELDS_OF_COLUMN},
    [CSV_EXPERTS] = {TOPIC_LOSS, ",expert", NULL, EXPERT_FIELDS, FIELDS_OF_EXPERT},
    [CSV_LAYERS] = {TOPIC_STATE, ",layer,member,kind,size", history_layer_columns,
                    HISTORY_LAYER_COLUMNS, FIELD_TABLES},
    [CSV_PREDICTIONS] = {TOPIC_PREDICTION,
                         ",stream,column,ahead,data_time,target,prediction,low,high,baseline,score",
                         NULL, 0, FIELD_TABLES},
    [CSV_SETTINGS] = {TOPIC_STATUS, ",key,value", NULL, 0, FIELD_TABLES},
};

static const struct field *column_of(enum csv_kind kind, int i) {
    return contents[kind].columns ? contents[kind].columns[i]
                                  : &field_tables[contents[kind].table].fields[i];
}

/* ---- The first line ---- */

static void put_text(FILE *file, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', file);
}

/* Writes a column for each score and level, expert and member, and the end of the line. */
static void put_names(FILE *file, const struct csv *c) {
    const char *name;
    json_t *unused;
    for (int n = 0; c->distributed && n < TRUTH_SCORES; n++)
        fprintf(file, ",%s", truth_score_names[n]);
    for (size_t n = 0; n < json_array_size(c->levels); n++) {
        char level[TRUTH_LEVEL_SIZE];
        fprintf(file, ",%s", truth_level(c->levels, n, level));
    }
    json_object_foreach(c->experts, name, unused) {
        putc(',', file);
        put_text(file, name);
    }
    fputs("\r\n", file);
}

static void put_header(FILE *file, const struct csv *c) {
    enum csv_kind kind = c->kind;
    fputs("name,run", file);
    for (int i = 0; i < HISTORY_AXES; i++)
        fprintf(file, ",%s", history_axes[i]->name);
    fputs(contents[kind].before, file);
    for (int i = 0; i < contents[kind].count; i++)
        fprintf(file, ",%s", column_of(kind, i)->name);
    for (int bin = 0; kind == CSV_LAYERS && bin < HISTORY_BINS; bin++)
        fprintf(file, ",bin_%d", bin);
    put_names(file, c);
}

/* Ends a row that was truncated, for example by a full disk. */
static void end_line(FILE *file) {
    bool whole = fseek(file, -1, SEEK_END) == 0 && getc(file) == '\n';
    fseek(file, 0, SEEK_END);
    if (!whole)
        fputs("\r\n", file);
}

/* Writes the first line into an empty file; another file must begin with it. */
static int check_header(struct csv *c) {
    char *expected = NULL, *found = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&expected, &size);
    if (!memory)
        return complain(EX_UNAVAILABLE, "out of memory");
    put_header(memory, c);
    fclose(memory);
    int status = EX_OK;
    found = malloc(size);
    rewind(c->file);
    size_t read = found ? fread(found, 1, size, c->file) : 0;
    if (!found || !expected)
        status = complain(EX_UNAVAILABLE, "out of memory");
    else if (read == 0)
        fputs(expected, c->file);
    else if (read != size || memcmp(found, expected, size) != 0)
        status = complain(EX_DATAERR, "%s has different columns than %s writes%s: use another file",
                          c->path, csv_options[c->kind], c->kind == CSV_PREDICTIONS ? " now" : "");
    fseek(c->file, 0, SEEK_END);
    if (status == EX_OK && read > 0)
        end_line(c->file);
    free(found);
    free(expected);
    return status;
}

/* Writes or checks the first line. */
static int begin(struct csv *c) {
    struct stat there;
    bool regular = c->file != stdout && !fstat(fileno(c->file), &there) && S_ISREG(there.st_mode);
    c->begun = true;
    if (regular)
        return check_header(c);
    put_header(c->file, c);
    return EX_OK;
}

static int csv_close(struct csv **csv);

/* Opens a file for appending ("-" = standard output); its first line must match. Returns EX_OK, or
   prints an error and returns an exit status. */
static int csv_open(struct csv **csv, const char *path, enum csv_kind kind) {
    struct stat there;
    bool output = !strcmp(path, "-");
    bool device = !output && !stat(path, &there) && !S_ISREG(there.st_mode); /* or a pipe */
    struct csv *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(output ? "standard output" : path))) {
        free(c);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    c->kind = kind;
    c->file = output ? stdout : fopen(path, device ? "w" : "a+");
    int status = EX_OK;
    if (!c->file)
        status = complain(EX_CANTCREAT, "cannot write %s: %s", path, strerror(errno));
    else if (kind != CSV_PREDICTIONS) /* whose columns depend on the first row */
        status = begin(c);
    if (status == EX_OK)
        *csv = c;
    else
        csv_close(&c);
    return status;
}

/* Makes everything visible to readers. Returns EX_OK, or prints an error. */
static int csv_flush(struct csv *c) {
    if (c->status != EX_OK)
        return c->status;
    if (!fflush(c->file) && !ferror(c->file))
        return EX_OK;
    return complain(EX_IOERR, "cannot write %s: %s", c->path, strerror(errno));
}

static int csv_close(struct csv **csv) {
    struct csv *c = *csv;
    if (!c)
        return EX_OK;
    int status = c->file ? csv_flush(c) : EX_OK;
    if (c->file && c->file != stdout && fclose(c->file) && status == EX_OK)
        status = complain(EX_IOERR, "cannot write %s: %s", c->path, strerror(errno));
    json_decref(c->experts);
    json_decref(c->levels);
    json_decref(c->settings);
    free(c->path);
    free(c);
    *csv = NULL;
    return status;
}

/* ---- Rows ---- */

/* The fewest digits that give the same number; nothing for NaN. */
static void put_number(FILE *file, double value) {
    enum { ALL_DIGITS = 17, SIZE = 32 };
    char text[SIZE];
    if (isnan(value))
        return;
    for (int digits = DIGITS; digits <= ALL_DIGITS; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, file);
}

static void put_begin(struct csv *c, const char *name, const json_t *body) {
    const char *run = member_string(body, "run");
    put_text(c->file, name);
    putc(',', c->file);
    put_text(c->file, run ? run : "");
    for (int i = 0; i < HISTORY_AXES; i++) {
        putc(',', c->file);
        put_number(c->file, field_number(history_axes[i], body));
    }
}

/* The numbers of a row, and the end of the line if nothing follows. */
static void put_numbers(struct csv *c, const json_t *object) {
    for (int i = 0; i < contents[c->kind].count; i++) {
        putc(',', c->file);
        put_number(c->file, field_number(column_of(c->kind, i), object));
    }
    if (c->kind != CSV_LAYERS)
        fputs("\r\n", c->file);
}

static void put_layer(struct csv *c, const char *name, const json_t *body, size_t number,
                      const json_t *layer) {
    double bins[HISTORY_BINS];
    bool counted = layer_bins(layer, bins);
    const char *kind = member_string(layer, "kind"), *member = state_member(layer);
    put_begin(c, name, body);
    fprintf(c->file, ",%zu,", number);
    put_text(c->file, member ? member : "");
    putc(',', c->file);
    put_text(c->file, kind ? kind : "");
    putc(',', c->file);
    put_number(c->file, layer_number(layer, LAYER_size));
    put_numbers(c, layer);
    for (size_t bin = 0; bin < HISTORY_BINS; bin++) {
        putc(',', c->file);
        put_number(c->file, counted ? bins[bin] : NAN);
    }
    fputs("\r\n", c->file);
}

/* Rows of the columns or experts of a `loss` message. */
static void put_parts(struct csv *c, const char *name, const json_t *body) {
    bool named = c->kind == CSV_EXPERTS;
    const struct field *field = &fields_of_loss[named ? FIELD_experts : FIELD_columns];
    json_t *parts = (json_t *)field_member(field, body), *part;
    const char *expert;
    size_t number;
    json_array_foreach(named ? NULL : parts, number, part) {
        put_begin(c, name, body);
        fprintf(c->file, ",%zu", number);
        put_numbers(c, part);
    }
    json_object_foreach(named ? parts : NULL, expert, part) {
        put_begin(c, name, body);
        putc(',', c->file);
        put_text(c->file, expert);
        put_numbers(c, part);
    }
}

/* A row for a key whose value is new or has changed. */
static void put_setting(struct csv *c, const char *name, const json_t *body, const char *key,
                        const json_t *value, const json_t *before) {
    char *text =
        json_is_string(value)
            ? strdup(json_string_value(value))
            : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    if (text && !json_equal(value, before)) {
        put_begin(c, name, body);
        putc(',', c->file);
        put_text(c->file, key);
        putc(',', c->file);
        put_text(c->file, text);
        fputs("\r\n", c->file);
    }
    free(text);
}

static void put_settings(struct csv *c, const char *name, const json_t *body) {
    json_t *keys = (json_t *)field_member(&fields_of_status[STATUS_configuration], body), *value;
    const char *run = member_string(body, "run"), *key;
    if (!c->settings)
        c->settings = json_object();
    json_t *before = json_object_get(c->settings, run ? run : "");
    json_object_foreach(keys, key, value)
        put_setting(c, name, body, key, value, json_object_get(before, key));
    json_object_set(c->settings, run ? run : "", keys);
}

struct predicted {
    struct csv *csv;
    const char *name;
    const json_t *body;
};

static void put_prediction(void *context, const struct truth_row *row) {
    const struct predicted *predicted = context;
    struct csv *c = predicted->csv;
    const double numbers[] = {(double)row->column, row->ahead,      row->data_time,
                              row->target,         row->prediction, row->low,
                              row->high,           row->baseline,   row->score};
    const char *expert;
    json_t *unused;
    if (!c->begun) {
        c->experts = json_deep_copy(row->experts);
        c->levels = json_deep_copy(row->levels);
        c->distributed = row->distributed;
        c->status = begin(c);
    }
    if (c->status != EX_OK)
        return;
    put_begin(c, predicted->name, predicted->body);
    putc(',', c->file);
    put_text(c->file, row->stream);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        putc(',', c->file);
        put_number(c->file, numbers[i]);
    }
    bool same_levels = json_equal(c->levels, row->levels);
    for (int n = 0; c->distributed && n < TRUTH_SCORES; n++) {
        putc(',', c->file);
        put_number(c->file, row->scores[n]);
    }
    for (size_t n = 0; n < json_array_size(c->levels); n++) {
        putc(',', c->file);
        put_number(c->file, same_levels ? truth_quantile(row, n) : NAN);
    }
    json_object_foreach(c->experts, expert, unused) {
        putc(',', c->file);
        put_number(c->file, truth_expert(row, expert));
    }
    fputs("\r\n", c->file);
}

/* Adds a message of any topic from the daemon called `name` ("" = unknown). */
static void csv_add(struct csv *c, const char *name, const struct message *message) {
    const json_t *body = message->body;
    if (message->topic != contents[c->kind].topic || ferror(c->file))
        return;
    if (c->kind == CSV_PREDICTIONS) {
        truth_rows(body, put_prediction, &(struct predicted){c, name, body});
    } else if (c->kind == CSV_SETTINGS) {
        put_settings(c, name, body);
    } else if (c->kind == CSV_LOSS) {
        put_begin(c, name, body);
        put_numbers(c, body);
    } else if (c->kind == CSV_LAYERS) {
        json_t *layers = state_layers(body), *layer;
        size_t number;
        json_array_foreach(layers, number, layer) put_layer(c, name, body, number, layer);
        json_decref(layers);
    } else {
        put_parts(c, name, body);
    }
}

#define FLUSH_EVERY 1.0 /* seconds: maximum delay of files */
#define FILE_NAME "runnel.db"
#define MEGABYTE 1000000
#define KEEP_MAX (UINT64_MAX / 2)

enum { MESSAGES_AT_ONCE = 1000 /* of one daemon, before signals and the clock are checked */ };

struct options {
    struct option_list endpoints;
    struct key_options keys;
    const char *output, *csv[CSV_KINDS], *board;
    struct history_options history;
    uint64_t messages; /* 0 = no limit */
    double silence;
};

struct record {
    struct options options;
    struct history *history;
    struct csv *csv[CSV_KINDS];
    struct board *board;
    struct source *sources; /* (options.endpoints.count) */
    struct pollfd *items;   /* one for each source, and one for signals */
    uint64_t written;       /* number of loss messages */
    int failed;             /* exit status of the first failed write, or EX_OK */
};

/* ---- Options ---- */

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, OPTION_LIST_MAX), .unique = true},
    KEY_OPTIONS(struct options, keys),
    {"output", 'o', "FILE",
     "SQLite recording, created or continued (default " FILE_NAME
     " unless one of the next seven options is given)",
     OPTION_FILE(struct options, output)},
    {"csv", 0, "FILE", "write loss messages as CSV; - = standard output",
     OPTION_FILE(struct options, csv[CSV_LOSS])},
    {"csv-columns", 0, "FILE", "write errors and skill of each target column as CSV",
     OPTION_FILE(struct options, csv[CSV_COLUMNS])},
    {"csv-experts", 0, "FILE", "write loss and weight of each expert and member as CSV",
     OPTION_FILE(struct options, csv[CSV_EXPERTS])},
    {"csv-layers", 0, "FILE", "write statistics of each layer as CSV",
     OPTION_FILE(struct options, csv[CSV_LAYERS])},
    {"csv-predictions", 0, "FILE",
     "write truths with their forecasts as CSV, a row for each column",
     OPTION_FILE(struct options, csv[CSV_PREDICTIONS])},
    {"csv-settings", 0, "FILE",
     "write configurations as CSV, a row for each key and for each change of a value",
     OPTION_FILE(struct options, csv[CSV_SETTINGS])},
    {"tensorboard", 0, "DIR", "write event files for TensorBoard, a directory for each run",
     OPTION_DIRECTORY(struct options, board)},
    {"keep", 'k', "N",
     "number of messages of each run to keep at full resolution; older ones are summarized "
     "(default 100000)",
     OPTION_COUNT(struct options, history.keep, 1, KEEP_MAX)},
    {"megabytes", 'm', "N",
     "maximum size of the recording; the oldest runs are deleted first (default 1000)",
     OPTION_COUNT(struct options, history.bytes, 1, KEEP_MAX / MEGABYTE)},
    {"count", 'n', "N", "end after N loss messages",
     OPTION_COUNT(struct options, messages, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS",
     "report when no message arrives for this time; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

/* Finds two tables with the same file name. */
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

/* Returns OPTIONS_GO_ON or EX_USAGE. */
static int check_options(struct options *o) {
    o->history.bytes *= MEGABYTE;
    int first, second;
    if (find_same(o, &first, &second))
        return complain_usage("%s and %s cannot write to the same file", csv_options[first],
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

static void handle_message(struct record *r, struct source *source, const struct message *message) {
    if (message->problem)
        return;
    if (r->history && history_take(r->history, source->endpoint, message))
        r->failed = complain(EX_IOERR, "%s", history_error(r->history));
    for (int kind = 0; kind < CSV_KINDS; kind++)
        if (r->csv[kind])
            csv_add(r->csv[kind], source->name, message);
    if (r->board && r->failed == EX_OK)
        r->failed = board_take(r->board, (size_t)(source - r->sources), source->name, message);
    r->written += message->topic == TOPIC_LOSS;
}

static bool is_done(const struct record *r) {
    return r->failed != EX_OK || (r->options.messages && r->written >= r->options.messages);
}

static void handle_messages(struct record *r, struct source *source) {
    struct message message;
    for (int i = 0; i < MESSAGES_AT_ONCE && !is_done(r) && source_receive(source, &message); i++) {
        handle_message(r, source, &message);
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
            handle_messages(r, &r->sources[i]);
            health_tick(&r->sources[i].health, false);
        }
        if (clock_seconds() - flushed >= FLUSH_EVERY) {
            flush(r);
            flushed = clock_seconds();
        }
    }
    for (size_t i = 0; i < r->options.endpoints.count; i++)
        health_tick(&r->sources[i].health, true);
    flush(r);
    if (r->failed == EX_OK && all_refused(r))
        return complain(EX_UNAVAILABLE, "access denied by all daemons (see security.allow)");
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
        link_close(&r.sources[i].link);
    free(r.sources);
    free(r.items);
    return close_files(&r, status);
}

int main(int argc, char **argv) {
    struct options options = {.silence = HEALTH_SILENCE};
    const struct command_line line = {
        .name = "runnel-record",
        .operands = "",
        .summary = "Record the statistics of running daemons in files.",
        .ending = "Ctrl-C ends the program. Exit status: 0 success, 64 usage error, 65 a CSV file "
                  "has different columns, 69 cannot open a socket, access denied or cannot start "
                  "runnel-plot, 73 cannot create a file, 74 cannot write a file.",
        .groups = {{NULL, rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status == OPTIONS_GO_ON)
        status = check_options(&options);
    return status == OPTIONS_GO_ON ? record(&options) : status;
}
