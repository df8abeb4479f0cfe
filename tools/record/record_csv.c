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

struct csv {
    FILE *file;
    char *path;
    enum topic topic;
    json_t *experts; /* predictions: an object with the experts that have a column */
    bool begun;      /* the first line is there */
    int status;      /* of the first line, where it waits for the first row */
};

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

static void put_header(FILE *file, enum topic topic, json_t *experts) {
    bool layers = topic == TOPIC_STATE;
    const struct field *const *columns = layers ? history_layer_columns : history_loss_columns;
    fputs("name,run", file);
    for (int i = 0; i < HISTORY_AXES; i++)
        fprintf(file, ",%s", history_axes[i]->name);
    if (topic == TOPIC_PREDICTION) {
        fputs(",stream,column,ahead,data_time,target,prediction,low,high,baseline", file);
        put_names(file, experts);
        return;
    }
    if (layers)
        fputs(",layer,kind,size", file);
    for (int i = 0; i < (layers ? HISTORY_LAYER_COLUMNS : HISTORY_LOSS_COLUMNS); i++)
        fprintf(file, ",%s", columns[i]->name);
    for (int bin = 0; layers && bin < HISTORY_BINS; bin++)
        fprintf(file, ",bin_%d", bin);
    fputs("\r\n", file);
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
    put_header(memory, c->topic, c->experts);
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
        status = complain(EX_DATAERR, "%s has other columns than %s: name another file", c->path,
                          c->topic == TOPIC_LOSS    ? "--csv writes"
                          : c->topic == TOPIC_STATE ? "--csv-layers writes"
                                                    : "--csv-predictions writes now");
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
    put_header(c->file, c->topic, c->experts);
    return EX_OK;
}

int csv_open(struct csv **csv, const char *path, enum topic topic) {
    struct stat there;
    bool output = !strcmp(path, "-");
    bool device = !output && !stat(path, &there) && !S_ISREG(there.st_mode); /* pipes as well */
    struct csv *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(output ? "standard output" : path))) {
        free(c);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    c->topic = topic;
    c->file = output ? stdout : fopen(path, device ? "w" : "a+");
    int status = EX_OK;
    if (!c->file)
        status = complain(EX_CANTCREAT, "%s cannot be written: %s", path, strerror(errno));
    else if (topic != TOPIC_PREDICTION) /* whose columns the first row knows */
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
    free(c->path);
    free(c);
    *csv = NULL;
    return status;
}

/* ---- Rows ---- */

/* The fewest digits that give the same number again; nothing where there is none. */
static void put_number(FILE *file, double value) {
    enum { DIGITS = 15, ALL_DIGITS = 17, SIZE = 32 };
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

static void put_numbers(struct csv *c, const struct field *const *columns, int count,
                        const json_t *object) {
    for (int i = 0; i < count; i++) {
        putc(',', c->file);
        put_number(c->file, field_number(columns[i], object));
    }
}

static void put_layer(struct csv *c, const char *name, const json_t *body, size_t number) {
    const json_t *layer = json_array_get(json_object_get(body, "layers"), number);
    double bins[HISTORY_BINS];
    bool counted = layer_bins(layer, bins);
    const char *kind = member_string(layer, "kind");
    put_begin(c, name, body);
    fprintf(c->file, ",%zu,", number);
    put_text(c->file, kind ? kind : "");
    putc(',', c->file);
    put_number(c->file, layer_number(layer, LAYER_size));
    put_numbers(c, history_layer_columns, HISTORY_LAYER_COLUMNS, layer);
    for (size_t bin = 0; bin < HISTORY_BINS; bin++) {
        putc(',', c->file);
        put_number(c->file, counted ? bins[bin] : NAN);
    }
    fputs("\r\n", c->file);
}

struct predicted {
    struct csv *csv;
    const char *name;
    const json_t *body;
};

static void put_prediction(void *context, const struct truth_row *row) {
    const struct predicted *predicted = context;
    struct csv *c = predicted->csv;
    const double numbers[] = {(double)row->column, row->ahead, row->data_time, row->target,
                              row->prediction,     row->low,   row->high,      row->baseline};
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
    if (message->topic != c->topic || ferror(c->file))
        return;
    if (c->topic == TOPIC_PREDICTION) {
        truth_rows(message->body, put_prediction, &(struct predicted){c, name, message->body});
        return;
    }
    if (c->topic == TOPIC_LOSS) {
        put_begin(c, name, message->body);
        put_numbers(c, history_loss_columns, HISTORY_LOSS_COLUMNS, message->body);
        fputs("\r\n", c->file);
        return;
    }
    size_t layers = json_array_size(json_object_get(message->body, "layers"));
    for (size_t i = 0; i < layers && i < HISTORY_LAYERS; i++)
        put_layer(c, name, message->body, i);
}
