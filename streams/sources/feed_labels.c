#include "feed_labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_columns.h"
#include "feed_rows.h"

#define NONE SIZE_MAX

enum { FIRST_CAPACITY = 256 };

struct label_row {
    uint64_t row;       /* the labelled row, from 1 */
    double due;         /* a row number or a time */
    double time;        /* the label's own time, or 0 */
    uint64_t line;      /* line of the file */
    const void *values; /* (shape.count,) */
};

/* A row that was sent. */
struct sent_row {
    bool skipped;
    struct stream *stream;
    uint64_t sequence;
};

struct labels {
    struct columns columns;
    struct selection targets;
    size_t row, after, time; /* indices of columns, or NONE */
    struct shape shape;
    bool timed; /* `due` is a time */
    struct time_reader reader;
    struct label_row *list; /* (count,) */
    unsigned char *values;  /* (count, shape.count) of VALUE_SIZE */
    size_t count, capacity, next;

    struct sent_row *sent; /* (rows,) in `sent_capacity` */
    size_t rows, sent_capacity;
    uint64_t sequence; /* number of the next example of the stream of --stream */
};

static int find_named(struct labels *labels, const char *name, size_t *index) {
    *index = NONE;
    for (size_t i = 0; i < labels->columns.count; i++)
        if (strcmp(labels->columns.names[i], name) == 0)
            *index = i;
    return *index == NONE ? -1 : 0;
}

/* Without --targets, selects all columns without another purpose. */
static int select_others(struct labels *labels, struct error *error) {
    struct selection *targets = &labels->targets;
    targets->indices = malloc(labels->columns.count * sizeof *targets->indices);
    if (!targets->indices)
        return error_no_memory(error);
    for (size_t i = 0; i < labels->columns.count; i++)
        if (i != labels->row && i != labels->after && i != labels->time)
            targets->indices[targets->count++] = i;
    if (targets->count == 0)
        return error_set(error, EX_DATAERR, "%s: missing a column of targets",
                         labels->columns.file);
    return 0;
}

static int select_columns(struct labels *labels, const struct labels_options *options,
                          struct error *error) {
    const char *file = labels->columns.file;
    if (find_named(labels, "row", &labels->row))
        return error_set(error, EX_DATAERR,
                         "%s: missing column 'row', the number of the labelled row", file);
    find_named(labels, "after", &labels->after);
    find_named(labels, "time", &labels->time);
    if ((labels->after == NONE) == (labels->time == NONE))
        return error_set(error, EX_DATAERR,
                         "%s: missing column 'after' (the row after which the label is sent) or "
                         "'time' (its time)",
                         file);
    labels->timed = labels->time != NONE;
    if (labels->timed && !options->time)
        return error_set(error, EX_USAGE,
                         "%s: the labels have times, but the rows have none; set --time COLUMN",
                         file);
    if (labels->timed)
        labels->reader = *options->time;
    if (options->targets && options->class_name)
        return error_set(error, EX_USAGE, "--targets and --class exclude each other");
    const char *list = options->targets ? options->targets : options->class_name;
    const char *option = options->targets ? "--targets" : "--class";
    if (list ? columns_select(&labels->columns, option, list, &labels->targets, error)
             : select_others(labels, error))
        return -1;
    if (options->class_name && labels->targets.count != 1)
        return error_set(error, EX_USAGE, "--class: expected one column, got '%s'", list);
    labels->shape =
        (struct shape){options->class_name ? VALUE_CLASS : VALUE_REAL, labels->targets.count};
    return 0;
}

static int make_room(struct labels *labels, struct error *error) {
    if (labels->count < labels->capacity)
        return 0;
    size_t capacity = labels->capacity ? 2 * labels->capacity : FIRST_CAPACITY;
    struct label_row *list = realloc(labels->list, capacity * sizeof *list);
    if (list)
        labels->list = list;
    unsigned char *values =
        list ? realloc(labels->values, capacity * labels->shape.count * VALUE_SIZE) : NULL;
    if (!values)
        return error_no_memory(error);
    labels->values = values;
    labels->capacity = capacity;
    return 0;
}

static int wrong(const struct labels *labels, const struct label_row *label, const char *what,
                 struct error *error) {
    return error_set(error, EX_DATAERR, "%s:%llu: row %llu: %s", labels->columns.file,
                     (unsigned long long)label->line, (unsigned long long)label->row, what);
}

static bool read_number(const char *cell, double *number, char why[CELL_WHY_SIZE]) {
    char *end;
    *number = strtod(cell, &end);
    if (end != cell && !*end && *number >= 1 && *number == floor(*number) && *number < 0x1p53)
        return true;
    snprintf(why, CELL_WHY_SIZE, "expected a row number from 1, got '%.40s'", cell);
    return false;
}

/* Reads the cells of a row. Returns false with the error in `why` and its column in `*column`. */
static bool read_cells(struct labels *labels, char **fields, size_t *column,
                       char why[CELL_WHY_SIZE]) {
    struct label_row *label = &labels->list[labels->count];
    unsigned char *values = labels->values + labels->count * labels->shape.count * VALUE_SIZE;
    double row;
    *column = labels->row;
    if (!read_number(fields[*column], &row, why))
        return false;
    label->row = (uint64_t)row;
    label->time = 0;
    *column = labels->timed ? labels->time : labels->after;
    if (labels->timed ? !time_read(&labels->reader, fields[*column], &label->time, why)
                      : !read_number(fields[*column], &label->due, why))
        return false;
    if (labels->timed)
        label->due = label->time;
    for (size_t k = 0; k < labels->shape.count; k++, values += VALUE_SIZE) {
        const char *cell = fields[ *column = labels->targets.indices[k]];
        if (labels->shape.kind == VALUE_CLASS
                ? !cell_class(&labels->columns, cell, (void *)values, why)
                : !cell_real(&labels->columns, *column, cell, (void *)values, why))
            return false;
    }
    return true;
}

static int add(struct labels *labels, const struct row *row, struct error *error) {
    char why[CELL_WHY_SIZE];
    size_t column;
    const char *file = labels->columns.file;
    unsigned long long line = row->line;
    if (row->wrong)
        return error_set(error, EX_DATAERR, "%s:%llu: %s", file, line, row->wrong);
    if (row->count != labels->columns.count)
        return error_set(error, EX_DATAERR,
                         "%s:%llu: expected %zu fields as in the first line, got %zu", file, line,
                         labels->columns.count, row->count);
    if (make_room(labels, error))
        return -1;
    if (!read_cells(labels, row->fields, &column, why))
        return error_set(error, EX_DATAERR, "%s:%llu: column '%s': %s", file, line,
                         labels->columns.names[column], why);
    struct label_row *label = &labels->list[labels->count++];
    label->line = row->line;
    if (!labels->timed && label->due < (double)label->row)
        return wrong(labels, label, "the label is due before its row", error);
    return 0;
}

/* Compares by due time; equal ones stay in the order of the file. */
static int compare(const void *left, const void *right) {
    const struct label_row *a = left, *b = right;
    if (a->due != b->due)
        return a->due < b->due ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int read_all(struct labels *labels, struct rows *rows, const struct labels_options *options,
                    struct error *error) {
    struct row row;
    int status = rows_next(rows, &row, error);
    if (status < 0)
        return -1;
    if (status == 0 || row.wrong)
        return error_set(error, EX_DATAERR, "%s: expected a header line with a column 'row'",
                         options->path);
    labels->columns.missing = options->missing;
    if (columns_open(&labels->columns, options->path, row.fields, row.count, true, error) ||
        select_columns(labels, options, error))
        return -1;
    while ((status = rows_next(rows, &row, error)) > 0)
        if (add(labels, &row, error))
            return -1;
    for (size_t n = 0; n < labels->count; n++)
        labels->list[n].values = labels->values + n * labels->shape.count * VALUE_SIZE;
    if (labels->count)
        qsort(labels->list, labels->count, sizeof *labels->list, compare);
    return status;
}

int labels_open(struct labels **opened, const struct labels_options *options, struct shape *y,
                struct error *error) {
    struct rows *rows = NULL;
    struct labels *labels = *opened = calloc(1, sizeof *labels);
    if (!labels)
        return error_no_memory(error);
    int status = rows_open(&rows, options->path, options->delimiter, error) ||
                         read_all(labels, rows, options, error)
                     ? -1
                     : 0;
    rows_close(&rows);
    *y = labels->shape;
    return status;
}

void labels_close(struct labels **labels) {
    if (!*labels)
        return;
    columns_close(&(*labels)->columns);
    free((*labels)->targets.indices);
    free((*labels)->list);
    free((*labels)->sent);
    free((*labels)->values);
    free(*labels);
    *labels = NULL;
}

void labels_rewind(struct labels *labels) {
    labels->next = labels->rows = 0;
}

int labels_row(struct labels *labels, uint64_t row, struct stream *stream, struct error *error) {
    while (labels->sent_capacity < row) {
        size_t capacity = labels->sent_capacity ? 2 * labels->sent_capacity : FIRST_CAPACITY;
        struct sent_row *sent = realloc(labels->sent, capacity * sizeof *sent);
        if (!sent)
            return error_no_memory(error);
        labels->sent = sent;
        labels->sent_capacity = capacity;
    }
    while (labels->rows + 1 < row)
        labels->sent[labels->rows++] = (struct sent_row){.skipped = true};
    labels->sent[labels->rows++] = (struct sent_row){
        .stream = stream, .sequence = stream ? stream->sequence : labels->sequence++};
    return 0;
}

/* Returns the next label that is due before the row, or NULL. */
static const struct label_row *due_before(struct labels *labels, uint64_t row, double time) {
    const struct label_row *label =
        labels->next < labels->count ? &labels->list[labels->next] : NULL;
    return label && (labels->timed ? label->due < time : label->due < (double)row) ? label : NULL;
}

int labels_next(struct labels *labels, uint64_t row, double time, struct step *step,
                struct error *error) {
    const struct label_row *label;
    while ((label = due_before(labels, row, time))) {
        labels->next++;
        if (label->row > labels->rows)
            return wrong(labels, label,
                         isinf(time) ? "row not found" : "the label is due before its row", error);
        const struct sent_row *sent = &labels->sent[label->row - 1];
        if (sent->skipped) {
            feed_detail("%s:%llu: ignored the label of row %llu, which was skipped",
                        labels->columns.file, (unsigned long long)label->line,
                        (unsigned long long)label->row);
            continue;
        }
        labels->sequence += !sent->stream;
        *step = (struct step){.stream = sent->stream,
                              .y = label->values,
                              .time = label->time,
                              .label = true,
                              .label_of = sent->sequence};
        return 1;
    }
    return 0;
}

const char *labels_target(const struct labels *labels, size_t k) {
    return labels->columns.names[labels->targets.indices[k]];
}
