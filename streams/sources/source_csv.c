/* Rows of a CSV file: columns for x and y, and optionally for stream, sequence and time. Only the
   next row of a stream shows that its sequence ends. So with --sequence or --end, each stream holds
   one row back. */
#include <ctype.h>
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

/* ---- Rows ---- */

/* Not a column. */
#define NONE SIZE_MAX

enum { MOMENT_SIZE = 128, AHEAD_MAX = 16, AHEAD_ROWS_MAX = 4096, KNOWN_NAME_SIZE = 128 };

/* Statistics of a column's cells so far. */
struct cells {
    bool good;    /* some cell is not missing */
    uint64_t bad; /* bad cells that became missing values */
    char *first;  /* the first row's cell, if it is a word */
};

struct csv {
    struct source source;
    const char *columns_list, *targets_list, *multiply_list; /* as given, or NULL */
    const char *symbol_name, *class_name, *sequence_name, *key_name, *time_list;
    const char *label_path;
    char delimiter;
    bool header, end;

    bool names;                      /* rows are sent as JSON with column names: feed_named.c */
    const char *word_list, *missing; /* as given, or NULL */
    struct named *named;             /* NULL without --names */

    struct rows *rows;
    struct row row;
    bool row_waits; /* the first row is already read, to count the columns */
    struct columns columns;
    struct cells *cells; /* (columns.count,) */
    struct selection x, y;
    size_t sequence, key;  /* indices of columns */
    struct selection time; /* one column, or those of date and time of day */
    struct time_reader times;
    char moment[MOMENT_SIZE]; /* date and time of day of a row */
    uint64_t rows_timed;
    /* rows whose time is equal to the row before in their stream, or earlier */
    uint64_t repeated, back;
    bool reported; /* the notices with the counts are printed */

    /* --known: NULL, or a source that reads them from the file itself, or from --known-file. x has
       their values at each of the rows `ahead`, after its own columns. */
    struct csv *table;
    bool is_table; /* without the column of streams, its values are those of all streams */
    const char *known_list, *known_path;
    struct ahead {
        size_t count, rows[AHEAD_MAX];
    } ahead;
    char known_name[KNOWN_NAME_SIZE]; /* of the newest request */
    bool unmatched;                   /* a row without a row of the table was reported */
    uint64_t lacking;                 /* rows without all known values */

    struct values values; /* of the newest row */
    struct streams streams;
    size_t draining; /* after the last row: the next stream to release its row */
    bool failed;     /* the last row was bad, see `bad` */
    struct error bad;

    struct labels *labels; /* NULL without --label-file */
    struct step waiting;   /* the row after the labels that are due before it */
    bool waits, over;      /* `waiting` is set; the rows are finished */
    uint64_t number;       /* number of the waiting row */
};

enum { LISTED_SIZE = 512, SUGGESTION_SIZE = 200 };

/* Returns the file's name for messages. */
static const char *csv_file(const struct csv *csv) {
    return input_name(rows_input(csv->rows));
}

/* Reads the first line: the header, or a row that shows the number of columns. */
static int csv_read_first(struct csv *csv, struct error *error) {
    static const char MARK[] =
        "\xEF\xBB\xBF"; /* UTF-8's byte order mark, which some programs write */
    int status = rows_next(csv->rows, &csv->row, error);
    if (status < 0)
        return -1;
    if (status == 0)
        return error_set(error, EX_DATAERR, "%s: empty file", csv_file(csv));
    if (csv->row.wrong)
        return error_set(error, EX_DATAERR, "%s:%llu: %s", csv_file(csv),
                         (unsigned long long)csv->row.line, csv->row.wrong);
    if (strncmp(csv->row.fields[0], MARK, sizeof MARK - 1) == 0)
        csv->row.fields[0] += sizeof MARK - 1;
    csv->row_waits = !csv->header;
    return 0;
}

/* Reads one cell of the row. A bad cell is a missing value if its column already had a good one. */
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
        feed_print("%s:%llu: column '%s': %s; such cells count as missing (--missing)",
                   csv_file(csv), (unsigned long long)csv->row.line, csv->columns.names[column],
                   why);
    return true;
}

/* With --names, the cells of x and y may also be words. */
static bool read_names(const struct csv *csv, size_t *column, char why[CELL_WHY_SIZE]) {
    for (size_t i = 0; i < csv->x.count + csv->y.count; i++) {
        *column = i < csv->x.count ? csv->x.indices[i] : csv->y.indices[i - csv->x.count];
        const char *cell = csv->row.fields[*column];
        if (wire_is_utf8(cell, strlen(cell)))
            continue;
        snprintf(why, CELL_WHY_SIZE, "expected UTF-8 text; convert the file with iconv");
        return false;
    }
    return true;
}

/* Returns the row's time, of one column or two. */
static const char *csv_moment(struct csv *csv) {
    const size_t *columns = csv->time.indices;
    if (csv->time.count == 1)
        return csv->row.fields[columns[0]];
    snprintf(csv->moment, sizeof csv->moment, "%s %s", csv->row.fields[columns[0]],
             csv->row.fields[columns[1]]);
    return csv->moment;
}

/* Reads x, y and time of the row. Returns false with the error in `why` and its column in
   `*column`. */
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
            snprintf(why, CELL_WHY_SIZE, "expected a symbol, got an empty cell");
            return false;
        }
    }
    number = values->numbers + csv->source.x.count;
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

/* Whether it is a time of day without a date. */
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

/* Suggests a fix for a bad cell: without --columns, x may include an unintended column. */
static void find_way_out(const struct csv *csv, size_t column, char *text, size_t size) {
    const char *name = csv->columns.names[column], *cell = csv->row.fields[column];
    bool x = false;
    text[0] = '\0';
    for (size_t i = 0; !csv->columns_list && !csv->symbol_name && i < csv->x.count; i++)
        x |= csv->x.indices[i] == column;
    if (x && is_time(cell))
        snprintf(text, size,
                 "; if this is the time, use --time '%s'; otherwise leave it out with --columns",
                 name);
    else if (x)
        snprintf(text, size,
                 "; leave it out with --columns, use --stream-column '%s' if it names streams, or "
                 "add its words for missing cells to --missing",
                 name);
    else if (csv->time.count == 1 && csv->time.indices[0] == column && is_clock(cell))
        snprintf(text, size, "; for two columns use --time DATE,'%s'", name);
}

/* Whether the row is good; otherwise sets `error`, and the row may be skipped. */
static bool check_row(struct csv *csv, struct error *error) {
    const struct row *row = &csv->row;
    char why[CELL_WHY_SIZE], way_out[SUGGESTION_SIZE];
    size_t column;
    if (row->wrong)
        error_set(error, EX_DATAERR, "%s:%llu: %s", csv_file(csv), (unsigned long long)row->line,
                  row->wrong);
    else if (row->count != csv->columns.count)
        error_set(error, EX_DATAERR, "%s:%llu: expected %zu fields as in the first line, got %zu",
                  csv_file(csv), (unsigned long long)row->line, csv->columns.count, row->count);
    else if (!read_values(csv, &column, why)) {
        find_way_out(csv, column, way_out, sizeof way_out);
        error_set(error, EX_DATAERR, "%s:%llu: column '%s': %s%s", csv_file(csv),
                  (unsigned long long)row->line, csv->columns.names[column], why, way_out);
    } else
        return true;
    return false;
}

/* Suggests a column that may name several streams: a word in the first row, and another in this
   row. */
static void suggest_streams(const struct csv *csv, char *text, size_t size) {
    text[0] = '\0';
    for (size_t i = 0; csv->key == NONE && i < csv->columns.count; i++)
        if (csv->cells[i].first && strcmp(csv->cells[i].first, csv->row.fields[i]) != 0) {
            const char *name = csv->columns.names[i];
            if (csv->time.count == 1 && is_clock(csv->row.fields[i]))
                snprintf(text, size, "; if '%s' is the time of day, use --time '%s,%s'", name,
                         csv->columns.names[csv->time.indices[0]], name);
            else
                snprintf(text, size, "; if '%s' names streams, use --stream-column '%s'", name,
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

/* Counts rows whose time is not after the row before in their stream, and reports the first.
   Returns -1 if out of memory. */
static int csv_check_order(struct csv *csv, struct held_stream *stream, struct error *error) {
    double time = csv->values.time;
    bool back = stream->timed && time < stream->time,
         repeated = stream->timed && time == stream->time;
    if (csv->rows_timed++ == 0 && keep_first(csv, error) < 0)
        return -1;
    if ((back && csv->back++ == 0) || (repeated && csv->repeated++ == 0)) {
        char streams[SUGGESTION_SIZE];
        suggest_streams(csv, streams, sizeof streams);
        feed_print("%s:%llu: column '%s': %s%s%s", csv_file(csv), (unsigned long long)csv->row.line,
                   csv->columns.names[csv->time.indices[0]],
                   back ? "the time goes back" : "duplicate time",
                   csv->key == NONE ? "" : " in stream", streams);
    }
    stream->time = time;
    stream->timed = true;
    return 0;
}

/* Reports the counts of the notices once. */
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
        feed_print("%s: cells that are not numbers count as missing: %s%s", csv_file(csv), listed,
                   used < sizeof listed ? "" : " ...");
    if (csv->repeated > 1)
        feed_print("%s: %llu rows have the same time as the row before", csv_file(csv),
                   (unsigned long long)csv->repeated);
    if (csv->back > 1)
        feed_print("%s: the time goes back in %llu rows", csv_file(csv),
                   (unsigned long long)csv->back);
    if (csv->lacking && csv->known_path)
        feed_print("%s: rows without all --known values in %s, which count as missing: %llu",
                   csv_file(csv), csv_file(csv->table), (unsigned long long)csv->lacking);
    else if (csv->lacking)
        feed_print("%s: rows at the end without their --known values are not sent: %llu; append "
                   "rows with only these values, or use --known-file",
                   csv_file(csv), (unsigned long long)csv->lacking);
    csv->reported = true;
}

/* Reads the next good row into csv->row and csv->values. Returns 1, or 0 at the end. A bad row is
   an error, or counted with --skip-bad. */
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

static void set_defaults(struct source *source) {
    struct csv *csv = (struct csv *)source;
    csv->delimiter = ',';
    csv->header = true;
}

static int parse_delimiter(void *values, const struct option_row *row, const char *value,
                           struct error *error) {
    struct csv *csv = values;
    if (strcmp(value, "tab") == 0 || strcmp(value, "\\t") == 0)
        csv->delimiter = '\t';
    else if (strlen(value) == 1 && !strchr("\"\r\n", value[0]))
        csv->delimiter = value[0];
    else
        return error_set(error, EX_USAGE, "--%s: expected one character or tab, got '%s'",
                         row->name, value);
    return 0;
}

/* "1,24", ascending. */
static int parse_ahead(void *values, const struct option_row *row, const char *value,
                       struct error *error) {
    struct ahead *ahead = &((struct csv *)values)->ahead;
    char *end = NULL;
    ahead->count = 0;
    for (const char *at = value; !end || *end; at = end + 1) {
        size_t last = ahead->count ? ahead->rows[ahead->count - 1] : 0;
        unsigned long rows = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : 0;
        if (rows <= last || rows > AHEAD_ROWS_MAX || ahead->count == AHEAD_MAX ||
            (*end && *end != ','))
            return error_set(
                error, EX_USAGE,
                "--%s: expected 1 to %d ascending numbers of rows as in 1,24, got '%s'", row->name,
                AHEAD_MAX, value);
        ahead->rows[ahead->count++] = rows;
    }
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"columns", 0, "LIST", "columns of x, " COLUMNS_LIST_HELP " (default: all others)",
     OPTION_TEXT(struct csv, columns_list)},
    {"symbol", 0, "COLUMN", "column of x with one symbol per row, a whole number",
     OPTION_TEXT(struct csv, symbol_name)},
    {"targets", 0, "LIST", "columns of y", OPTION_TEXT(struct csv, targets_list)},
    {"class", 0, "COLUMN", "column of y with a class, a whole number",
     OPTION_TEXT(struct csv, class_name)},
    {"sequence", 0, "COLUMN",
     "consecutive rows with the same value in this column are one sequence",
     OPTION_TEXT(struct csv, sequence_name)},
    {"end", 0, NULL, "the end of the file ends the sequences", OPTION_FLAG(struct csv, end)},
    {"stream-column", 0, "COLUMN", "column with the stream name of the row",
     OPTION_TEXT(struct csv, key_name)},
    {"time", 0, "COLUMN",
     "column with the time for the header: Unix time, 2016-07-01 12:34:56 or 31/12/2014, in UTC "
     "unless it has a zone; DATE,TIME for two columns",
     OPTION_TEXT(struct csv, time_list)},
    {"time-format", 0, "FORMAT", TIME_FORMAT_HELP, OPTION_TEXT(struct csv, times.format)},
    {"label-file", 0, "FILE",
     "read later targets from this table: columns row, after or time, and the targets",
     OPTION_TEXT(struct csv, label_path), .complete = COMPLETE_FILE},
    {"known", 0, "LIST",
     "columns whose values are known ahead (`known` in model.input.columns): after the other "
     "columns, x has their values of later rows",
     OPTION_TEXT(struct csv, known_list)},
    {"ahead", 0, "ROWS", "the later rows of --known, as in model.output.ahead (default 1): 1,24",
     OPTION_TAKE(parse_ahead)},
    {"known-file", 0, "FILE",
     "read --known from this table with the same steps, by time (--time) or by row",
     OPTION_TEXT(struct csv, known_path), .complete = COMPLETE_FILE},
    {"multiply", 0, "C=F,...", "multiply columns by constants: dx=0.01,dy=0.01",
     OPTION_TEXT(struct csv, multiply_list)},
    {"names", 0, NULL, "send x as JSON with column names", OPTION_FLAG(struct csv, names)},
    {"words", 0, "LIST", "with --names: columns of words, even those that look like numbers",
     OPTION_TEXT(struct csv, word_list)},
    {"missing", 0, "WORDS",
     "words for missing cells, in any case, besides the empty cell (default " MISSING_WORDS ")",
     OPTION_TEXT(struct csv, missing)},
    {"delimiter", 0, "C", "character between fields, or tab (default ,)",
     OPTION_TAKE(parse_delimiter)},
    {"no-header", 0, NULL, "the first line is a row; columns have only numbers",
     OPTION_CLEAR(struct csv, header)},
    OPTIONS_END,
};

/* ---- Selection of columns ---- */

static int find_optional(const struct csv *csv, const char *option, const char *name, size_t *index,
                         struct error *error) {
    int status = name ? columns_find(&csv->columns, option, name, index, error) : 0;
    if (!name || status < 0)
        *index = NONE;
    return csv->is_table ? 0 : status;
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
        return error_set(error, EX_USAGE, "%s: expected one column, got '%s'", one, name);
    return 0;
}

static bool is_known(const struct csv *csv, size_t column) {
    const struct csv *table = csv->table;
    for (size_t i = 0; table && i < table->x.count; i++)
        if (!strcmp(table->columns.names[table->x.indices[i]], csv->columns.names[column]))
            return true;
    return false;
}

/* Without --columns, x has all columns without another purpose. */
static int select_others(struct csv *csv, struct error *error) {
    csv->x.indices = malloc(csv->columns.count * sizeof *csv->x.indices);
    if (!csv->x.indices)
        return error_no_memory(error);
    for (size_t i = 0; i < csv->columns.count; i++) {
        bool used = i == csv->sequence || i == csv->key || is_known(csv, i);
        for (size_t j = 0; j < csv->y.count; j++)
            used |= csv->y.indices[j] == i;
        for (size_t j = 0; j < csv->time.count; j++)
            used |= csv->time.indices[j] == i;
        if (!used)
            csv->x.indices[csv->x.count++] = i;
    }
    if (csv->x.count == 0)
        return error_set(error, EX_USAGE, "%s: no column left for x", csv->columns.file);
    return 0;
}

/* Selects the one or two columns of --time. A name may contain a comma. */
static int select_time(struct csv *csv, struct error *error) {
    const char *list = csv->time_list;
    struct error ignored;
    size_t whole;
    if (time_check(csv->times.format, error) < 0)
        return error_prefix(error, "--time-format");
    csv->times.option = "--time-format";
    csv->times.report = feed_print;
    if (!list)
        return csv->times.format
                   ? error_set(error, EX_USAGE, "--time-format: requires --time COLUMN")
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
    return csv->time.count > 2
               ? error_set(error, EX_USAGE, "--time: expected COLUMN or DATE,TIME, got '%s'", list)
               : 0;
}

static int select_columns(struct csv *csv, struct error *error) {
    if (find_optional(csv, "--sequence", csv->sequence_name, &csv->sequence, error) < 0 ||
        find_optional(csv, "--stream-column", csv->key_name, &csv->key, error) < 0 ||
        select_time(csv, error) < 0 ||
        (!csv->label_path && select_some(csv, "--targets", csv->targets_list, "--class",
                                         csv->class_name, &csv->y, error) < 0) ||
        select_some(csv, csv->is_table ? "--known" : "--columns", csv->columns_list, "--symbol",
                    csv->symbol_name, &csv->x, error) < 0 ||
        (csv->x.count == 0 && select_others(csv, error) < 0) ||
        (csv->multiply_list &&
         columns_multiply(&csv->columns, "--multiply", csv->multiply_list, error) < 0))
        return -1;
    for (size_t i = 0; i < csv->x.count; i++)
        if (is_known(csv, csv->x.indices[i]))
            return error_set(error, EX_USAGE, "--known: column '%s' is also in --columns",
                             csv->columns.names[csv->x.indices[i]]);
    size_t known = csv->table ? csv->table->x.count * csv->ahead.count : 0;
    csv->source.x =
        (struct shape){csv->symbol_name ? VALUE_CLASS : VALUE_REAL, csv->x.count + known};
    csv->source.y = (struct shape){csv->class_name ? VALUE_CLASS : VALUE_REAL, csv->y.count};
    csv->source.named = csv->names;
    return 0;
}

/* Checks the options that --names excludes, since JSON is sent row by row. */
static int check_names(const struct csv *csv, struct error *error) {
    const struct {
        bool given;
        const char *option;
    } others[] = {{csv->symbol_name, "--symbol"},     {csv->targets_list, "--targets"},
                  {csv->sequence_name, "--sequence"}, {csv->end, "--end"},
                  {csv->multiply_list, "--multiply"}, {!csv->header, "--no-header"}};
    if (csv->word_list && !csv->names)
        return error_set(error, EX_USAGE, "--words: requires --names");
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

/* ---- Opening ---- */

/* The labels' targets replace those of the rows. */
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

/* Other rows show whether 02/03/2014 begins with the day, so the file is read for it first. */
static int find_order(struct csv *csv, struct error *error) {
    char why[TIME_WHY_SIZE], unclear[TIME_WHY_SIZE] = "";
    struct error ignored; /* the error returns when the rows are sent */
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

/* ---- Values that are known ahead ---- */

static int open_csv(struct source *source, char **operands, struct error *error);

static struct held_stream *find_stream(struct csv *csv, struct error *error);

static int open_known(struct csv *csv, char **operands, struct error *error) {
    char *path = csv->known_path ? (char *)csv->known_path : operands[0];
    if (!csv->known_list)
        return csv->known_path || csv->ahead.count
                   ? error_set(error, EX_USAGE, "--known-file and --ahead require --known")
                   : 0;
    if (csv->names || csv->symbol_name)
        return error_set(error, EX_USAGE, "--known excludes --names and --symbol");
    if (!csv->known_path && (input_is_pipe(rows_input(csv->rows)) || !strcmp(path, "-")))
        return error_set(error, EX_USAGE,
                         "--known: cannot read ahead in %s; put the values in a --known-file",
                         csv_file(csv));
    if (!csv->ahead.count)
        csv->ahead = (struct ahead){1, {1}};
    csv->table = calloc(1, sizeof *csv->table);
    if (!csv->table)
        return error_no_memory(error);
    csv->table->source.skip_bad = csv->source.skip_bad;
    csv->table->delimiter = csv->delimiter;
    csv->table->header = csv->header;
    csv->table->missing = csv->missing;
    csv->table->columns_list = csv->known_list;
    csv->table->time_list = csv->time_list;
    csv->table->times.format = csv->times.format;
    csv->table->key_name = csv->key_name;
    csv->table->is_table = true;
    return open_csv(&csv->table->source, &path, error);
}

/* The key of a row: its line in the same file, else its time, or its number in the stream. */
static double row_key(const struct csv *csv, const struct csv *row, size_t number) {
    return !csv->known_path      ? (double)row->row.line
           : csv->time.count > 0 ? row->values.time
                                 : (double)number;
}

static int add_later(struct csv *csv, struct held_stream *stream, struct error *error) {
    struct csv *table = csv->table;
    size_t width = 1 + table->x.count;
    bool used = csv->known_path;
    if (stream->rows == stream->capacity) {
        stream->capacity = 2 * stream->capacity + 1024;
        double *later = reallocarray(stream->later, stream->capacity, width * sizeof(double));
        if (!later)
            return error_no_memory(error);
        stream->later = later;
    }
    double *row = stream->later + stream->rows * width;
    *row++ = row_key(csv, table, stream->rows++);
    if (stream->rows > 1 && row[-1] < row[-1 - (ptrdiff_t)width])
        return error_set(
            error, EX_DATAERR,
            "%s:%llu: --known requires rows in the order of their times; sort the file",
            csv_file(table), (unsigned long long)table->row.line);
    for (size_t i = 0; i < table->x.count; i++)
        *row++ = (double)table->values.numbers[i].real;
    for (size_t i = 0; i < csv->x.count && !used; i++)
        used = !cell_missing(&csv->columns, table->row.fields[csv->x.indices[i]]);
    if (used)
        stream->used = stream->rows;
    return 0;
}

static int load_known(struct csv *csv, struct error *error) {
    int status = 0;
    while (csv->table && (status = csv_read_row(csv->table, error)) > 0) {
        struct held_stream *stream = find_stream(csv->table, error);
        if (!stream || add_later(csv, stream, error) < 0)
            return -1;
    }
    return status;
}

/* Fills in the known values of the newest row. Returns 0 for a row of the same file that is not
   sent: the file does not have its known values, or only known values from this row on. */
static int fill_known(struct csv *csv, struct held_stream *stream, struct error *error) {
    struct held_stream *of = streams_find(&csv->table->streams,
                                          csv->table->key == NONE ? "" : stream->stream.key, error);
    union value *number = csv->values.numbers + csv->x.count;
    size_t count = csv->table->x.count, width = 1 + count;
    double key = row_key(csv, csv, stream->rows++);
    if (!of)
        return -1;
    while (stream->place < of->rows && of->later[stream->place * width] < key)
        stream->place++;
    bool found = stream->place < of->rows && of->later[stream->place * width] == key;
    for (size_t i = 1; i <= count; i++)
        for (size_t h = 0; h < csv->ahead.count; h++, number++) {
            size_t row = stream->place + csv->ahead.rows[h];
            number->real = found && row < of->rows ? (float)of->later[row * width + i] : NAN;
        }
    if (!found && !csv->unmatched)
        feed_print("%s:%llu: row not found in %s; its known values count as missing", csv_file(csv),
                   (unsigned long long)csv->row.line, csv_file(csv->table));
    csv->unmatched |= !found;
    if (!csv->known_path && stream->place >= of->used)
        return 0;
    bool complete = found && stream->place + csv->ahead.rows[csv->ahead.count - 1] < of->rows;
    csv->lacking += !complete;
    return complete || csv->known_path;
}

static int open_csv(struct source *source, char **operands, struct error *error) {
    struct csv *csv = (struct csv *)source;
    if (rows_open(&csv->rows, operands[0], csv->delimiter, error) < 0 ||
        csv_read_first(csv, error) < 0 || open_columns(csv, error) < 0 ||
        open_known(csv, operands, error) < 0 || select_columns(csv, error) < 0 ||
        find_order(csv, error) < 0 || open_labels(csv, error) < 0 || open_names(csv, error) < 0 ||
        load_known(csv, error) < 0)
        return -1;
    if (csv->key_name && source->forced)
        return error_set(error, EX_USAGE, "--stream-column and --stream exclude each other");
    csv->streams.numbers = source->x.count + csv->y.count;
    source->input = rows_input(csv->rows);
    source->once = input_is_pipe(source->input);
    return values_open(&csv->values, csv->streams.numbers, error);
}

/* ---- Steps ---- */

static int fill_step(const struct csv *csv, const struct values *values, struct held_stream *stream,
                     struct step *step) {
    step->stream = csv->key == NONE ? NULL : &stream->stream;
    step->x = values->numbers;
    step->y = csv->y.count ? values->numbers + csv->source.x.count : NULL;
    step->time = values->time;
    return 1;
}

/* Returns the stream of the row; without --stream-column there is only one. */
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

/* At the end of the file, every sequence ends; at a bad row that is unknown. */
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

/* Returns the held rows, which are good, before the error. */
static int fail_late(struct csv *csv, struct step *step, struct error *error) {
    csv->failed = true;
    csv->bad = *error;
    return drain(csv, step, error);
}

/* Returns the next row as JSON. */
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
        if (status < 0 || ((holding || csv->key != NONE || ordered || csv->table) &&
                           (!(stream = find_stream(csv, error)) ||
                            (ordered && csv_check_order(csv, stream, error) < 0))))
            return fail_late(csv, step, error);
        int known = csv->table ? fill_known(csv, stream, error) : 1;
        if (known < 0)
            return -1;
        if (known == 0)
            continue;
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

/* Keeps the next row until the labels due before it are returned. */
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
    for (size_t i = 0; i < csv->streams.count; i++) {
        csv->streams.list[i]->timed = false;
        csv->streams.list[i]->place = csv->streams.list[i]->rows = 0;
    }
    if (csv->labels)
        labels_rewind(csv->labels);
    if (input_rewind(rows_input(csv->rows), error) < 0)
        return -1;
    return csv_read_first(csv, error);
}

static void close_csv(struct source *source) {
    struct csv *csv = (struct csv *)source;
    if (csv->table)
        close_csv(&csv->table->source);
    free(csv->table);
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
}

static const char *column(const struct source *source, bool y, size_t k) {
    struct csv *csv = (struct csv *)source;
    if (y && csv->labels)
        return labels_target(csv->labels, k);
    if (!y && k >= csv->x.count) {
        size_t n = (k - csv->x.count) / csv->ahead.count, h = (k - csv->x.count) % csv->ahead.count;
        snprintf(csv->known_name, sizeof csv->known_name, csv->ahead.count > 1 ? "%s+%zu" : "%s",
                 csv->table->columns.names[csv->table->x.indices[n]], csv->ahead.rows[h]);
        return csv->known_name;
    }
    return csv->columns.names[(y ? csv->y : csv->x).indices[k]];
}

const struct source_type source_csv = {
    .command = {"csv", "FILE", "rows of a CSV table", .complete = COMPLETE_FILE, .rows = OPTIONS},
    .notes = "A cell that is not a number counts as missing if its column already had a number: "
             "the first such cell is reported, the others are counted. With --names, such a cell "
             "is a word, a missing one is left out, --class names the column of y (a word or a "
             "number), and each row is an example.",
    .bundles = true,
    .size = sizeof(struct csv),
    .set_defaults = set_defaults,
    .open = open_csv,
    .next = next,
    .rewind = rewind_csv,
    .column = column,
    .close = close_csv,
};
