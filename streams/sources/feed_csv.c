/* Rows of a table, read and checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_csv.h"

enum { LISTED_SIZE = 512, SUGGESTION_SIZE = 200 };

const char *csv_file(const struct csv *csv) {
    return input_name(rows_input(csv->rows));
}

int csv_read_first(struct csv *csv, struct error *error) {
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

const char *csv_moment(struct csv *csv) {
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

int csv_check_order(struct csv *csv, struct held_stream *stream, struct error *error) {
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

int csv_read_row(struct csv *csv, struct error *error) {
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
