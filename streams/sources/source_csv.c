/* Rows of a CSV file: some columns are x, others y; one may name the stream, one the sequence, one
   the time. That a sequence ends is known only with the next row of its stream, so with --sequence
   or --end each stream holds one row back. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/moment.h"
#include "feed_columns.h"
#include "feed_input.h"
#include "feed_labels.h"
#include "feed_named.h"
#include "feed_rows.h"
#include "streams/feed.h"
#include "streams/feed_streams.h"

/* ---- Rows of a table, read and checked ---- */

/* No such column. */
#define NONE SIZE_MAX

enum { MOMENT_SIZE = 128 };

/* What the rows so far had in a column. */
struct cells {
    bool good;    /* a cell that is not missing */
    uint64_t bad; /* cells that became missing ones */
    char *first;  /* the cell of the first row, where it is a word */
};

struct csv {
    struct source source;
    const char *columns_list, *targets_list, *multiply_list; /* as given, or NULL */
    const char *symbol_name, *class_name, *sequence_name, *key_name, *time_list;
    const char *label_path;
    char delimiter;
    bool header, end;

    bool names; /* rows are sent as JSON, with names of columns: feed_named.c */
    const char *word_list, *missing; /* as given, or NULL */
    struct named *named;             /* NULL without */

    struct rows *rows;
    struct row row;
    bool row_waits; /* the first row was read when the columns were counted */
    struct columns columns;
    struct cells *cells; /* (columns.count,) */
    struct selection x, y;
    size_t sequence, key;  /* indices of columns */
    struct selection time; /* a column, or those of date and time of day */
    struct time_reader times;
    char moment[MOMENT_SIZE]; /* both of a row */
    uint64_t rows_timed;
    uint64_t repeated, back; /* rows with the time of the stream's row before, or an earlier one */
    bool reported;           /* how many rows and cells the notices are about */

    struct values values; /* of the newest row */
    struct streams streams;
    size_t draining; /* after the last row: the next stream to give its row */
    bool failed;     /* the last row was bad; `bad` says why */
    struct error bad;

    struct labels *labels; /* NULL without --label-file */
    struct step waiting;   /* the row after the labels that come before it */
    bool waits, over;      /* there is one; there are no more */
    uint64_t number;       /* of the row that waits */
};

enum { LISTED_SIZE = 512, SUGGESTION_SIZE = 200 };

/* What the file is called in messages. */
static const char *csv_file(const struct csv *csv) {
    return input_name(rows_input(csv->rows));
}

/* Read the first line, which is the header or shows how many columns there are. */
static int csv_read_first(struct csv *csv, struct error *error) {
    static const char MARK[] =
        "\xEF\xBB\xBF"; /* UTF-8's byte order mark, which some programs write */
    int status = rows_next(csv->rows, &csv->row, error);
    if (status < 0)
        return -1;
    if (status == 0)
        return error_set(error, EX_DATAERR, "%s: is empty", csv_file(csv));
    if (csv->row.wrong)
        return error_set(error, EX_DATAERR, "%s:%llu: %s", csv_file(csv),
                         (unsigned long long)csv->row.line, csv->row.wrong);
    if (strncmp(csv->row.fields[0], MARK, sizeof MARK - 1) == 0)
        csv->row.fields[0] += sizeof MARK - 1;
    csv->row_waits = !csv->header;
    return 0;
}

/* One column of the row. A bad cell of a column that has had a good one is missing. */
static bool read_cell(struct csv *csv, size_t column, enum value_kind kind, union value *value,
                      char why[CELL_WHY_SIZE]) {
    const char *cell = csv->row.fields[column];
    struct cells *cells = &csv->cells[column];
    bool good = kind == VALUE_CLASS ? cell_class(&csv->columns, cell, &value->id, why)
                                    : cell_real(&csv->columns, column, cell, &value->real, why);
    cells->good = cells->good || (good && !cell_missing(&csv->columns, cell));
    bool symbol = csv->symbol_name && column == csv->x.indices[0];
    if (good || !cells->good || symbol)
        return good;
    if (cells->bad++ == 0)
        feed_say("%s:%llu: column '%s': %s; this cell and others like it are missing (--missing)",
                 csv_file(csv), (unsigned long long)csv->row.line, csv->columns.names[column], why);
    return true;
}

/* With --names the cells of x and y are words as well as numbers. */
static bool read_names(const struct csv *csv, size_t *column, char why[CELL_WHY_SIZE]) {
    for (size_t i = 0; i < csv->x.count + csv->y.count; i++) {
        *column = i < csv->x.count ? csv->x.indices[i] : csv->y.indices[i - csv->x.count];
        const char *cell = csv->row.fields[*column];
        if (wire_is_utf8(cell, strlen(cell)))
            continue;
        snprintf(why, CELL_WHY_SIZE, "found bytes that are not UTF-8: iconv makes it that");
        return false;
    }
    return true;
}

/* The row's time as it stands, of one column or two. */
static const char *csv_moment(struct csv *csv) {
    const size_t *columns = csv->time.indices;
    if (csv->time.count == 1)
        return csv->row.fields[columns[0]];
    snprintf(csv->moment, sizeof csv->moment, "%s %s", csv->row.fields[columns[0]],
             csv->row.fields[columns[1]]);
    return csv->moment;
}

/* Read x, y and time of the row. False: `why` says what is wrong, `*column` with which one. */
static bool read_values(struct csv *csv, size_t *column, char why[CELL_WHY_SIZE]) {
    struct values *values = &csv->values;
    union value *number = values->numbers;
    values->time = 0;
    if (csv->names && !read_names(csv, column, why))
        return false;
    for (size_t i = 0; !csv->names && i < csv->x.count; i++, number++) {
        *column = csv->x.indices[i];
        if (!read_cell(csv, *column, csv->source.x.kind, number, why))
            return false;
        if (csv->symbol_name && number->id == WIRE_NO_CLASS) {
            snprintf(why, CELL_WHY_SIZE, "found nothing, expected a symbol");
            return false;
        }
    }
    for (size_t i = 0; !csv->names && i < csv->y.count; i++, number++) {
        *column = csv->y.indices[i];
        if (!read_cell(csv, *column, csv->source.y.kind, number, why))
            return false;
    }
    if (csv->time.count == 0)
        return true;
    *column = csv->time.indices[0];
    return time_read(&csv->times, csv_moment(csv), &values->time, why);
}

/* A time of day alone. */
static bool is_clock(const char *cell) {
    cell += strspn(cell, " \t");
    size_t digits = strspn(cell, "0123456789");
    return digits >= 1 && digits <= 2 && cell[digits] == ':';
}

static bool is_time(const char *cell) {
    struct time_reader reader = {.option = "--time", .reported = ~0u}; /* without notices */
    char why[TIME_WHY_SIZE];
    double time;
    return is_clock(cell) || time_read(&reader, cell, &time, why) || reader.unclear;
}

/* What to do about a bad cell: without --columns a column of x may be one that was not meant to be.
 */
static void find_way_out(const struct csv *csv, size_t column, char *text, size_t size) {
    const char *name = csv->columns.names[column], *cell = csv->row.fields[column];
    bool x = false;
    text[0] = '\0';
    for (size_t i = 0; !csv->columns_list && !csv->symbol_name && i < csv->x.count; i++)
        x |= csv->x.indices[i] == column;
    if (x && is_time(cell))
        snprintf(text, size, "; give --time '%s' if it is the time, or --columns without it", name);
    else if (x)
        snprintf(text, size,
                 "; give --columns without it, --stream-column '%s' if it names streams, or "
                 "--missing with its words of missing cells",
                 name);
    else if (csv->time.count == 1 && csv->time.indices[0] == column && is_clock(cell))
        snprintf(text, size, "; of two columns: --time DATE,'%s'", name);
}

/* Whether the row is good; else `error` says why it is not, and it may be skipped. */
static bool check_row(struct csv *csv, struct error *error) {
    const struct row *row = &csv->row;
    char why[CELL_WHY_SIZE], way_out[SUGGESTION_SIZE];
    size_t column;
    if (row->wrong)
        error_set(error, EX_DATAERR, "%s:%llu: %s", csv_file(csv), (unsigned long long)row->line,
                  row->wrong);
    else if (row->count != csv->columns.count)
        error_set(error, EX_DATAERR, "%s:%llu: found %zu fields, expected %zu as in the first line",
                  csv_file(csv), (unsigned long long)row->line, row->count, csv->columns.count);
    else if (!read_values(csv, &column, why)) {
        find_way_out(csv, column, way_out, sizeof way_out);
        error_set(error, EX_DATAERR, "%s:%llu: column '%s': %s%s", csv_file(csv),
                  (unsigned long long)row->line, csv->columns.names[column], why, way_out);
    } else
        return true;
    return false;
}

/* The column that may name the streams of a table of several: its first cell was a word, and this
   row has another. */
static void suggest_streams(const struct csv *csv, char *text, size_t size) {
    text[0] = '\0';
    for (size_t i = 0; csv->key == NONE && i < csv->columns.count; i++)
        if (csv->cells[i].first && strcmp(csv->cells[i].first, csv->row.fields[i]) != 0) {
            const char *name = csv->columns.names[i];
            if (csv->time.count == 1 && is_clock(csv->row.fields[i]))
                snprintf(text, size, "; if '%s' is the time of day, give --time '%s,%s'", name,
                         csv->columns.names[csv->time.indices[0]], name);
            else
                snprintf(text, size, "; if '%s' names streams, give --stream-column '%s'", name,
                         name);
            return;
        }
}

static int keep_first(struct csv *csv, struct error *error) {
    char why[CELL_WHY_SIZE];
    float value;
    for (size_t i = 0; i < csv->columns.count; i++) {
        const char *cell = csv->row.fields[i];
        bool used = i == csv->sequence;
        for (size_t j = 0; j < csv->time.count; j++)
            used |= csv->time.indices[j] == i;
        if (!used && !cell_real(&csv->columns, i, cell, &value, why) &&
            !(csv->cells[i].first = strdup(cell)))
            return error_no_memory(error);
    }
    return 0;
}

/* Notice once that the time of the row is not after that of the stream's row before, and count.
   -1: out of memory. */
static int csv_check_order(struct csv *csv, struct held_stream *stream, struct error *error) {
    double time = csv->values.time;
    bool back = stream->timed && time < stream->time,
         repeated = stream->timed && time == stream->time;
    if (csv->rows_timed++ == 0 && keep_first(csv, error) < 0)
        return -1;
    if ((back && csv->back++ == 0) || (repeated && csv->repeated++ == 0)) {
        char streams[SUGGESTION_SIZE];
        suggest_streams(csv, streams, sizeof streams);
        feed_say("%s:%llu: column '%s': %s%s%s", csv_file(csv), (unsigned long long)csv->row.line,
                 csv->columns.names[csv->time.indices[0]],
                 back ? "the time goes back" : "duplicate time",
                 csv->key == NONE ? "" : " in stream", streams);
    }
    stream->time = time;
    stream->timed = true;
    return 0;
}

/* How many there were of what was noticed, once. */
static void report(struct csv *csv) {
    char listed[LISTED_SIZE] = "";
    size_t used = 0;
    if (csv->reported)
        return;
    for (size_t i = 0; i < csv->columns.count && used < sizeof listed; i++)
        if (csv->cells[i].bad > 1)
            used += (size_t)snprintf(listed + used, sizeof listed - used, "%s%llu in '%s'",
                                     used ? ", " : "", (unsigned long long)csv->cells[i].bad,
                                     csv->columns.names[i]);
    if (used)
        feed_say("%s: missing because they are not numbers: %s%s", csv_file(csv), listed,
                 used < sizeof listed ? "" : " ...");
    if (csv->repeated > 1)
        feed_say("%s: %llu rows have the time of the row before", csv_file(csv),
                 (unsigned long long)csv->repeated);
    if (csv->back > 1)
        feed_say("%s: the time goes back %llu times", csv_file(csv), (unsigned long long)csv->back);
    csv->reported = true;
}

/* The next good row, in csv->row and csv->values: 1; 0 at the end. A bad one is an error, or with
   --skip-bad counted. */
static int csv_read_row(struct csv *csv, struct error *error) {
    struct error bad;
    for (;;) {
        int status = csv->row_waits ? 1 : rows_next(csv->rows, &csv->row, error);
        csv->row_waits = false;
        if (status == 0)
            report(csv);
        if (status <= 0)
            return status;
        if (check_row(csv, &bad))
            return 1;
        if (!csv->source.skip_bad || csv->times.unclear) {
            *error = bad;
            return -1;
        }
        csv->source.skipped++;
        feed_detail("skipped: %s", bad.text);
    }
}

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
