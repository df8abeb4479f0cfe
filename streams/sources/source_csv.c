/* Rows of a CSV file: some columns are x, others y; one may name the stream, one the sequence, one
   the time. That a sequence ends is known only with the next row of its stream, so with --sequence
   or --end each stream holds one row back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_csv.h"

static struct source *create(void) {
    struct csv *csv = calloc(1, sizeof *csv);
    if (!csv)
        return NULL;
    csv->delimiter = ',';
    csv->header = true;
    return &csv->source;
}

static int take_delimiter(void *values, const struct option_row *row, const char *value,
                          struct error *error) {
    struct csv *csv = values;
    if (strcmp(value, "tab") == 0 || strcmp(value, "\\t") == 0)
        csv->delimiter = '\t';
    else if (strlen(value) == 1 && !strchr("\"\r\n", value[0]))
        csv->delimiter = value[0];
    else
        return error_set(error, EX_USAGE, "--%s: found '%s', expected one character or tab",
                         row->name, value);
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"columns", 0, "LIST", "columns of x, " COLUMNS_LIST_HELP " (default: all others)",
     OPTION_TEXT(struct csv, columns_list)},
    {"symbol", 0, "COLUMN", "x is one symbol a row, a whole number",
     OPTION_TEXT(struct csv, symbol_name)},
    {"targets", 0, "LIST", "columns of y", OPTION_TEXT(struct csv, targets_list)},
    {"class", 0, "COLUMN", "y is a class, a whole number", OPTION_TEXT(struct csv, class_name)},
    {"sequence", 0, "COLUMN", "rows with the same value are one sequence, which ends with the last",
     OPTION_TEXT(struct csv, sequence_name)},
    {"end", 0, NULL, "the end of the file ends a sequence", OPTION_FLAG(struct csv, end)},
    {"stream-column", 0, "COLUMN", "names the stream of a row", OPTION_TEXT(struct csv, key_name)},
    {"time", 0, "COLUMN",
     "the time, sent in the header: Unix time, 2016-07-01 12:34:56 or 31/12/2014, UTC unless it "
     "has a zone; DATE,TIME of two columns",
     OPTION_TEXT(struct csv, time_list)},
    {"time-format", 0, "FORMAT", TIME_FORMAT_HELP, OPTION_TEXT(struct csv, times.format)},
    {"label-file", 0, "FILE",
     "targets come later, from this table: columns row, after or time, and the targets",
     OPTION_TEXT(struct csv, label_path), .complete = COMPLETE_FILE},
    {"multiply", 0, "C=F,...", "multiply columns with constants: dx=0.01,dy=0.01",
     OPTION_TEXT(struct csv, multiply_list)},
    {"names", 0, NULL, "send x by the names of its columns, as JSON",
     OPTION_FLAG(struct csv, names)},
    {"words", 0, "LIST", "with --names: columns of words that may look like numbers",
     OPTION_TEXT(struct csv, word_list)},
    {"missing", 0, "WORDS",
     "words of missing cells, in upper or lower case, besides the empty cell "
     "(default " MISSING_WORDS ")",
     OPTION_TEXT(struct csv, missing)},
    {"delimiter", 0, "C", "between fields: a character or tab (default ,)",
     OPTION_TAKE(take_delimiter)},
    {"no-header", 0, NULL, "the first line is a row like others; columns have numbers only",
     OPTION_CLEAR(struct csv, header)},
    OPTIONS_END,
};

/* --- which columns ------------------------------------------------------------------------- */

static int find_optional(const struct csv *csv, const char *option, const char *name, size_t *index,
                         struct error *error) {
    *index = NONE;
    return name ? columns_find(&csv->columns, option, name, index, error) : 0;
}

static int select_some(const struct csv *csv, const char *many, const char *list, const char *one,
                       const char *name, struct selection *selection, struct error *error) {
    if (list && name)
        return error_set(error, EX_USAGE, "%s and %s exclude each other", many, one);
    if (!list && !name)
        return 0;
    if (columns_select(&csv->columns, list ? many : one, list ? list : name, selection, error) < 0)
        return -1;
    if (name && selection->count != 1)
        return error_set(error, EX_USAGE, "%s: found '%s', expected one column", one, name);
    return 0;
}

/* Without --columns x is what no other option has named. */
static int select_others(struct csv *csv, struct error *error) {
    csv->x.indices = malloc(csv->columns.count * sizeof *csv->x.indices);
    if (!csv->x.indices)
        return error_no_memory(error);
    for (size_t i = 0; i < csv->columns.count; i++) {
        bool used = i == csv->sequence || i == csv->key;
        for (size_t j = 0; j < csv->y.count; j++)
            used |= csv->y.indices[j] == i;
        for (size_t j = 0; j < csv->time.count; j++)
            used |= csv->time.indices[j] == i;
        if (!used)
            csv->x.indices[csv->x.count++] = i;
    }
    if (csv->x.count == 0)
        return error_set(error, EX_USAGE, "%s: there is no column left for x", csv->columns.file);
    return 0;
}

/* The columns of --time: one, or two. A name may have a comma. */
static int select_time(struct csv *csv, struct error *error) {
    const char *list = csv->time_list;
    struct error ignored;
    size_t whole;
    if (time_check(csv->times.format, error) < 0)
        return error_prefix(error, "--time-format");
    csv->times.option = "--time-format";
    csv->times.say = feed_say;
    if (!list)
        return csv->times.format
                   ? error_set(error, EX_USAGE, "--time-format: only with --time COLUMN")
                   : 0;
    csv->times.name = list;
    if (strchr(list, ',') && columns_find(&csv->columns, "--time", list, &whole, &ignored) == 0) {
        csv->time.indices = malloc(sizeof *csv->time.indices);
        if (!csv->time.indices)
            return error_no_memory(error);
        csv->time.indices[csv->time.count++] = whole;
        return 0;
    }
    if (columns_select(&csv->columns, "--time", list, &csv->time, error) < 0)
        return -1;
    return csv->time.count > 2 ? error_set(error, EX_USAGE,
                                           "--time: found '%s', expected COLUMN or DATE,TIME", list)
                               : 0;
}

static int select_columns(struct csv *csv, struct error *error) {
    if (find_optional(csv, "--sequence", csv->sequence_name, &csv->sequence, error) < 0 ||
        find_optional(csv, "--stream-column", csv->key_name, &csv->key, error) < 0 ||
        select_time(csv, error) < 0 ||
        (!csv->label_path && select_some(csv, "--targets", csv->targets_list, "--class",
                                         csv->class_name, &csv->y, error) < 0) ||
        select_some(csv, "--columns", csv->columns_list, "--symbol", csv->symbol_name, &csv->x,
                    error) < 0 ||
        (csv->x.count == 0 && select_others(csv, error) < 0) ||
        (csv->multiply_list &&
         columns_multiply(&csv->columns, "--multiply", csv->multiply_list, error) < 0))
        return -1;
    csv->source.x = (struct shape){csv->symbol_name ? VALUE_CLASS : VALUE_REAL, csv->x.count};
    csv->source.y = (struct shape){csv->class_name ? VALUE_CLASS : VALUE_REAL, csv->y.count};
    csv->source.named = csv->names;
    return 0;
}

/* What --names cannot be with: JSON is sent row by row. */
static int check_names(const struct csv *csv, struct error *error) {
    const struct {
        bool given;
        const char *option;
    } others[] = {{csv->symbol_name, "--symbol"},     {csv->targets_list, "--targets"},
                  {csv->sequence_name, "--sequence"}, {csv->end, "--end"},
                  {csv->multiply_list, "--multiply"}, {!csv->header, "--no-header"}};
    if (csv->word_list && !csv->names)
        return error_set(error, EX_USAGE, "--words: only with --names");
    for (size_t n = 0; csv->names && n < sizeof others / sizeof *others; n++)
        if (others[n].given)
            return error_set(error, EX_USAGE, "--names and %s exclude each other",
                             others[n].option);
    return 0;
}

static int open_names(struct csv *csv, struct error *error) {
    struct selection words = {0};
    if (check_names(csv, error) < 0)
        return -1;
    if (!csv->names)
        return 0;
    if (csv->word_list &&
        columns_select(&csv->columns, "--words", csv->word_list, &words, error) < 0)
        return -1;
    size_t y = csv->y.count ? csv->y.indices[0] : NONE;
    int status = named_open(&csv->named, &csv->source, &csv->columns, &csv->x, y, &words, error);
    free(words.indices);
    return status;
}

/* --- opening -------------------------------------------------------------------------------- */

/* Their targets take the place of the rows'. */
static int open_labels(struct csv *csv, struct error *error) {
    const struct labels_options options = {.path = csv->label_path,
                                           .delimiter = csv->delimiter,
                                           .missing = csv->missing,
                                           .targets = csv->targets_list,
                                           .class_name = csv->class_name,
                                           .time = csv->time.count ? &csv->times : NULL};
    if (!csv->label_path)
        return 0;
    if (csv->end || csv->sequence != NONE || csv->names)
        return error_set(error, EX_USAGE, "--label-file excludes --sequence, --end and --names");
    csv->source.labels = true;
    return labels_open(&csv->labels, &options, &csv->source.y, error);
}

/* Whether 02/03/2014 begins with the day, other rows say: those of a file are read for it first. */
static int find_order(struct csv *csv, struct error *error) {
    char why[TIME_WHY_SIZE], unclear[TIME_WHY_SIZE] = "";
    struct error ignored; /* comes again when the rows are sent */
    uint64_t line = 0;
    double time;
    bool header = csv->header, decided = false;
    if (csv->time.count == 0 || input_is_pipe(rows_input(csv->rows)))
        return 0;
    for (int status = 1; status > 0 && !decided;
         status = rows_next(csv->rows, &csv->row, &ignored), header = false) {
        if (header || csv->row.wrong || csv->row.count != csv->columns.count)
            continue;
        const char *moment = csv_moment(csv);
        decided = time_look(&csv->times, moment);
        if (decided || line || time_read(&csv->times, moment, &time, why) || !csv->times.unclear)
            continue;
        memcpy(unclear, why, sizeof unclear);
        line = csv->row.line;
    }
    csv->times.unclear = false;
    if (line && !decided)
        return error_set(error, EX_USAGE, "%s:%llu: column '%s': %s", csv_file(csv),
                         (unsigned long long)line, csv->columns.names[csv->time.indices[0]],
                         unclear);
    return input_rewind(rows_input(csv->rows), error) < 0 ? -1 : csv_read_first(csv, error);
}

static int open_columns(struct csv *csv, struct error *error) {
    csv->columns.missing = csv->missing;
    csv->cells = calloc(csv->row.count, sizeof *csv->cells);
    return csv->cells ? columns_open(&csv->columns, csv_file(csv), csv->row.fields, csv->row.count,
                                     csv->header, error)
                      : error_no_memory(error);
}

static int open_csv(struct source *source, char **operands, struct error *error) {
    struct csv *csv = (struct csv *)source;
    if (rows_open(&csv->rows, operands[0], csv->delimiter, error) < 0 ||
        csv_read_first(csv, error) < 0 || open_columns(csv, error) < 0 ||
        select_columns(csv, error) < 0 || find_order(csv, error) < 0 ||
        open_labels(csv, error) < 0 || open_names(csv, error) < 0)
        return -1;
    if (csv->key_name && source->forced)
        return error_set(error, EX_USAGE, "--stream-column and --stream exclude each other");
    source->label = "csv";
    csv->streams.numbers = csv->x.count + csv->y.count;
    source->once = input_is_pipe(rows_input(csv->rows));
    return values_open(&csv->values, csv->streams.numbers, error);
}

/* --- steps ---------------------------------------------------------------------------------- */

static int fill_step(const struct csv *csv, const struct values *values, struct held_stream *stream,
                     struct step *step) {
    step->stream = csv->key == NONE ? NULL : &stream->stream;
    step->x = values->numbers;
    step->y = csv->y.count ? values->numbers + csv->x.count : NULL;
    step->time = values->time;
    return 1;
}

/* The stream that the row belongs to; without --stream-column there is only one. */
static struct held_stream *find_stream(struct csv *csv, struct error *error) {
    const char *key = csv->key == NONE ? "" : csv->row.fields[csv->key];
    struct held_stream *stream = streams_find(&csv->streams, key, error);
    char why[sizeof error->text];
    if (stream || error->status != EX_DATAERR)
        return stream;
    memcpy(why, error->text, sizeof why);
    error_set(error, EX_DATAERR, "%s:%llu: column '%s': %s", csv_file(csv),
              (unsigned long long)csv->row.line, csv->columns.names[csv->key], why);
    return NULL;
}

/* At the end of the file every sequence ends; at a bad row that is unknown. */
static int drain(struct csv *csv, struct step *step, struct error *error) {
    while (csv->draining < csv->streams.count) {
        struct held_stream *stream = csv->streams.list[csv->draining++];
        if (!stream->holds)
            continue;
        stream->holds = false;
        step->end = !csv->failed;
        return fill_step(csv, &stream->held, stream, step);
    }
    if (!csv->failed)
        return 0;
    *error = csv->bad;
    return -1;
}

/* The rows that are held back were good: they go first, then the error. */
static int fail_late(struct csv *csv, struct step *step, struct error *error) {
    csv->failed = true;
    csv->bad = *error;
    return drain(csv, step, error);
}

/* The next row as JSON. */
static int next_named(struct csv *csv, struct step *step, struct error *error) {
    int status;
    while ((status = csv_read_row(csv, error)) > 0) {
        const char *key = csv->key == NONE ? csv->source.label : csv->row.fields[csv->key];
        struct held_stream *stream = csv->time.count ? find_stream(csv, error) : NULL;
        if (csv->time.count && (!stream || csv_check_order(csv, stream, error) < 0))
            return -1;
        status = named_step(csv->named, &csv->row, key, csv->values.time, step, error);
        if (status)
            return status;
    }
    return status;
}

static int next_row(struct csv *csv, struct step *step, struct error *error) {
    if (csv->named)
        return next_named(csv, step, error);
    struct held_stream *stream = NULL;
    bool holding = csv->end || csv->sequence != NONE;
    bool ordered = csv->time.count && csv->sequence == NONE;
    for (;;) {
        int status = csv->draining ? 0 : csv_read_row(csv, error);
        if (status == 0)
            return drain(csv, step, error);
        if (status < 0 || ((holding || csv->key != NONE || ordered) &&
                           (!(stream = find_stream(csv, error)) ||
                            (ordered && csv_check_order(csv, stream, error) < 0))))
            return fail_late(csv, step, error);
        if (!holding)
            return fill_step(csv, &csv->values, stream, step);
        bool held = stream->holds;
        const char *sequence = csv->sequence == NONE ? "" : csv->row.fields[csv->sequence];
        status = streams_hold(stream, &csv->values, sequence, error);
        if (status < 0)
            return -1;
        step->end = status == 1;
        if (held)
            return fill_step(csv, &csv->values, stream, step);
    }
}

/* The next row waits until the labels that come before it have been yielded. */
static int read_ahead(struct csv *csv, struct error *error) {
    uint64_t skipped = csv->source.skipped;
    if (csv->waits || csv->over)
        return 0;
    csv->waiting = (struct step){0};
    int status = next_row(csv, &csv->waiting, error);
    if (status < 0)
        return -1;
    csv->waits = status > 0;
    csv->over = status == 0;
    csv->number += 1 + csv->source.skipped - skipped;
    return 0;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct csv *csv = (struct csv *)source;
    if (!csv->labels)
        return next_row(csv, step, error);
    if (read_ahead(csv, error))
        return -1;
    int status = labels_next(csv->labels, csv->over ? UINT64_MAX : csv->number,
                             csv->over ? INFINITY : csv->waiting.time, step, error);
    if (status || csv->over)
        return status;
    *step = csv->waiting;
    csv->waits = false;
    return labels_row(csv->labels, csv->number, step->stream, error) ? -1 : 1;
}

static int rewind_csv(struct source *source, uint64_t pass, struct error *error) {
    struct csv *csv = (struct csv *)source;
    (void)pass;
    csv->draining = 0;
    csv->row_waits = csv->waits = csv->over = false;
    csv->number = 0;
    for (size_t i = 0; i < csv->streams.count; i++)
        csv->streams.list[i]->timed = false;
    if (csv->labels)
        labels_rewind(csv->labels);
    if (input_rewind(rows_input(csv->rows), error) < 0)
        return -1;
    return csv_read_first(csv, error);
}

static double done(const struct source *source) {
    const struct csv *csv = (const struct csv *)source;
    return input_done(rows_input(csv->rows));
}

static void close_csv(struct source **source) {
    struct csv *csv = (struct csv *)*source;
    named_close(&csv->named);
    labels_close(&csv->labels);
    streams_close(&csv->streams);
    free(csv->values.numbers);
    free(csv->x.indices);
    free(csv->y.indices);
    free(csv->time.indices);
    for (size_t i = 0; i < csv->columns.count; i++)
        free(csv->cells[i].first);
    free(csv->cells);
    columns_close(&csv->columns);
    rows_close(&csv->rows);
    free(csv);
    *source = NULL;
}

static const char *column(const struct source *source, bool y, size_t k) {
    const struct csv *csv = (const struct csv *)source;
    if (y && csv->labels)
        return labels_target(csv->labels, k);
    return csv->columns.names[(y ? csv->y : csv->x).indices[k]];
}

const struct source_type source_csv = {
    .command = {"csv", "FILE", "the rows of a table", .complete = COMPLETE_FILE, .rows = OPTIONS},
    .notes =
        "A cell that is not a number is missing, too, once its column has had a number: the first "
        "one is reported, the others are counted. With --names such a cell is a word, a missing "
        "one is left out, --class names the column of y, a word or a number, and each row is an "
        "example.",
    .bundles = true,
    .create = create,
    .open = open_csv,
    .next = next,
    .rewind = rewind_csv,
    .column = column,
    .done = done,
    .close = close_csv,
};
