#include "build-config.h"

#include "record_csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/json_member.h"
#include "tools/history/history.h"
#include "tools/shared/watch_truth.h"

enum { DIGITS = 15 };

struct csv {
    FILE *file;
    char *path;
    enum csv_kind kind;
    json_t *experts; /* predictions: an object with the experts that have a column */
    json_t *said;    /* settings: what was said last of each run, by its digits */
    bool begun;      /* the first line is there */
    int status;      /* of the first line, where it waits for the first row */
};

const char *const csv_options[CSV_KINDS] = {"--csv",        "--csv-columns",     "--csv-experts",
                                            "--csv-layers", "--csv-predictions", "--csv-settings"};

/* What tables have beside the position: columns before the numbers, then these. */
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

/* A column for each expert and member, and the end of the line. */
static void put_names(FILE *file, json_t *experts) {
    const char *name;
    json_t *unused;
    json_object_foreach(experts, name, unused) {
        putc(',', file);
        put_text(file, name);
    }
    fputs("\r\n", file);
}

static void put_header(FILE *file, enum csv_kind kind, json_t *experts) {
    fputs("name,run", file);
    for (int i = 0; i < HISTORY_AXES; i++)
        fprintf(file, ",%s", history_axes[i]->name);
    fputs(contents[kind].before, file);
    for (int i = 0; i < contents[kind].count; i++)
        fprintf(file, ",%s", column_of(kind, i)->name);
    for (int bin = 0; kind == CSV_LAYERS && bin < HISTORY_BINS; bin++)
        fprintf(file, ",bin_%d", bin);
    put_names(file, experts);
}

/* A row that was truncated, by a full disk for instance, is not continued. */
static void end_line(FILE *file) {
    bool whole = fseek(file, -1, SEEK_END) == 0 && getc(file) == '\n';
    fseek(file, 0, SEEK_END);
    if (!whole)
        fputs("\r\n", file);
}

/* Write the first line into an empty file; of any other it must be the first line. */
static int check_header(struct csv *c) {
    char *expected = NULL, *found = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&expected, &size);
    if (!memory)
        return complain(EX_UNAVAILABLE, "out of memory");
    put_header(memory, c->kind, c->experts);
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
        status = complain(EX_DATAERR, "%s has other columns than %s writes%s: name another file",
                          c->path, csv_options[c->kind], c->kind == CSV_PREDICTIONS ? " now" : "");
    fseek(c->file, 0, SEEK_END);
    if (status == EX_OK && read > 0)
        end_line(c->file);
    free(found);
    free(expected);
    return status;
}

/* The first line, of a file that is continued or not. */
static int begin(struct csv *c) {
    struct stat there;
    bool regular = c->file != stdout && !fstat(fileno(c->file), &there) && S_ISREG(there.st_mode);
    c->begun = true;
    if (regular)
        return check_header(c);
    put_header(c->file, c->kind, c->experts);
    return EX_OK;
}

int csv_open(struct csv **csv, const char *path, enum csv_kind kind) {
    struct stat there;
    bool output = !strcmp(path, "-");
    bool device = !output && !stat(path, &there) && !S_ISREG(there.st_mode); /* pipes as well */
    struct csv *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(output ? "standard output" : path))) {
        free(c);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    c->kind = kind;
    c->file = output ? stdout : fopen(path, device ? "w" : "a+");
    int status = EX_OK;
    if (!c->file)
        status = complain(EX_CANTCREAT, "%s cannot be written: %s", path, strerror(errno));
    else if (kind != CSV_PREDICTIONS) /* whose columns the first row knows */
        status = begin(c);
    if (status == EX_OK)
        *csv = c;
    else
        csv_close(&c);
    return status;
}

int csv_flush(struct csv *c) {
    if (c->status != EX_OK)
        return c->status;
    if (!fflush(c->file) && !ferror(c->file))
        return EX_OK;
    return complain(EX_IOERR, "%s cannot be written: %s", c->path, strerror(errno));
}

int csv_close(struct csv **csv) {
    struct csv *c = *csv;
    if (!c)
        return EX_OK;
    int status = c->file ? csv_flush(c) : EX_OK;
    if (c->file && c->file != stdout && fclose(c->file) && status == EX_OK)
        status = complain(EX_IOERR, "%s cannot be written: %s", c->path, strerror(errno));
    json_decref(c->experts);
    json_decref(c->said);
    free(c->path);
    free(c);
    *csv = NULL;
    return status;
}

/* ---- Rows ---- */

/* The fewest digits that give the same number again; nothing where there is none. */
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

/* The numbers of a row, and its end where there is nothing more. */
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

/* What a configuration says of one key, and whether it has been said before. */
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
    if (!c->said)
        c->said = json_object();
    json_t *before = json_object_get(c->said, run ? run : "");
    json_object_foreach(keys, key, value)
        put_setting(c, name, body, key, value, json_object_get(before, key));
    json_object_set(c->said, run ? run : "", keys);
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
    json_object_foreach(c->experts, expert, unused) {
        putc(',', c->file);
        put_number(c->file, truth_expert(row, expert));
    }
    fputs("\r\n", c->file);
}

void csv_take(struct csv *c, const char *name, const struct message *message) {
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
