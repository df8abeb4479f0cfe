#include "build-config.h"

#include "watch_truths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"
#include "tools/shared/watch_truth.h"

enum { LINE_SIZE = 1024 };

struct truths {
    struct table *table;
    struct lines *lines;
    double when; /* it was learned */
    size_t count;
    bool open;     /* the truth has not come */
    int name;      /* columns that a target's name takes */
    bool baseline; /* there is room for it */
};

enum {
    NUMBER_COLUMNS = 8,
    STREAM_COLUMNS = 8,
    TIME_COLUMNS = 19,
    TIME_SIZE = 64,
    WORD_COLUMNS = 16,
    NUMBERED_COLUMNS = 3, /* where targets have no names */
    NAMED_COLUMNS = 12,   /* a name gets at least so many, before the baseline has a place */
    OTHER_COLUMNS = TIME_COLUMNS + 1 + STREAM_COLUMNS + 1 + 5 * (1 + NUMBER_COLUMNS) + 2,
};

/* As the names need it, and the line has it. */
static struct truths begin(struct table *table, struct lines *lines, double when, bool open) {
    int room = lines_columns(lines) - OTHER_COLUMNS,
        longest = names_longest(table->names, room + 1);
    bool baseline = longest <= room || room >= NAMED_COLUMNS;
    room += baseline ? 0 : 1 + NUMBER_COLUMNS;
    int name = names_longest(table->names, room > NUMBERED_COLUMNS ? room : NUMBERED_COLUMNS);
    name = name > NUMBERED_COLUMNS ? name : NUMBERED_COLUMNS;
    return (struct truths){table, lines, when, 0, open, name, baseline};
}

static void print_truth_header(struct truths *t) {
    char line[LINE_SIZE];
    snprintf(line, sizeof line, "%-*s %-*s %*s %*s %*s %*s %*s%s", TIME_COLUMNS, "time",
             STREAM_COLUMNS, "stream", t->name, "col", NUMBER_COLUMNS, "truth", NUMBER_COLUMNS,
             "forecast", NUMBER_COLUMNS, "low", NUMBER_COLUMNS, "high",
             t->baseline ? " baseline" : "");
    lines_add(t->lines, line);
    t->table->truth_header = lines_count(t->lines);
}

static const char *number_text(char text[FORMAT_SIZE], double value) {
    return isnan(value) ? strcpy(text, "-") : format_number(text, value);
}

/* The time of the data where there is one, else when it was learned; of what comes "next". */
static void print_truth(void *context, const struct truth_row *row) {
    struct truths *t = context;
    const double numbers[] = {row->target, row->prediction, row->low, row->high, row->baseline};
    char line[LINE_SIZE], date[TIME_SIZE], number[FORMAT_SIZE], stream[4 * STREAM_COLUMNS];
    char name[NAME_SIZE];
    unsigned long header = t->table->truth_header;
    if (!header || lines_count(t->lines) - header >= TABLE_HEADER_EVERY)
        print_truth_header(t);
    text_copy(stream, sizeof stream, row->stream);
    if (t->open)
        strcpy(date, "next");
    else
        format_date(date, isnan(row->data_time) ? t->when : row->data_time);
    int padding = STREAM_COLUMNS - lines_width(stream);
    names_target(name, t->table->names, row->column, t->name);
    int before = t->name - lines_width(name);
    int used = snprintf(line, sizeof line, "%-*s %s%*s %*s%s", TIME_COLUMNS, date, stream,
                        padding > 0 ? padding : 0, "", before > 0 ? before : 0, "", name);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers - !t->baseline; n++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %*s", NUMBER_COLUMNS,
                         number_text(number, numbers[n]));
    used += snprintf(line + used, sizeof line - (size_t)used, "%s", truth_missed(row) ? " *" : "");
    if (row->ahead > 1)
        snprintf(line + used, sizeof line - (size_t)used, " %.0f ahead", row->ahead);
    lines_add(t->lines, line);
    t->count++;
}

/* ---- Words ---- */

static void print_word_header(struct truths *t) {
    char line[LINE_SIZE];
    snprintf(line, sizeof line, "%-*s %-*s %*s %*s %*s %*s", TIME_COLUMNS, "time", STREAM_COLUMNS,
             "stream", WORD_COLUMNS, "truth", WORD_COLUMNS, "forecast", NUMBER_COLUMNS, "share",
             WORD_COLUMNS, "baseline");
    lines_add(t->lines, line);
    t->table->truth_header = lines_count(t->lines);
}

/* To the right of its column; returns how many bytes. */
static int put_word(char *line, size_t size, const char *word) {
    char text[4 * WORD_COLUMNS];
    text_copy(text, sizeof text, !word ? "-" : *word ? word : "(unknown)");
    int padding = WORD_COLUMNS - lines_width(text);
    int used = snprintf(line, size, " %*s%s", padding > 0 ? padding : 0, "", text);
    return used < (int)size ? used : (int)size - 1;
}

static void print_word(void *context, const struct truth_row *row) {
    struct truths *t = context;
    char line[LINE_SIZE], date[TIME_SIZE] = "next", stream[4 * STREAM_COLUMNS], share[FORMAT_SIZE];
    unsigned long header = t->table->truth_header;
    const char *came = row->words[TRUTH_CAME], *said = row->words[TRUTH_SAID];
    if (!header || lines_count(t->lines) - header >= TABLE_HEADER_EVERY)
        print_word_header(t);
    if (!t->open)
        format_date(date, isnan(row->data_time) ? t->when : row->data_time);
    text_copy(stream, sizeof stream, row->stream);
    int padding = STREAM_COLUMNS - lines_width(stream);
    int used = snprintf(line, sizeof line, "%-*s %s%*s", TIME_COLUMNS, date, stream,
                        padding > 0 ? padding : 0, "");
    used += put_word(line + used, sizeof line - (size_t)used, came);
    used += put_word(line + used, sizeof line - (size_t)used, said);
    used += snprintf(line + used, sizeof line - (size_t)used, " %*s", NUMBER_COLUMNS,
                     number_text(share, row->probability));
    used += put_word(line + used, sizeof line - (size_t)used, row->words[TRUTH_BASELINE]);
    used += snprintf(line + used, sizeof line - (size_t)used, "%s",
                     came && strcmp(came, said) != 0 ? " *" : "");
    if (row->ahead > 1)
        snprintf(line + used, sizeof line - (size_t)used, " %.0f ahead", row->ahead);
    lines_add(t->lines, line);
    t->count++;
}

size_t truths_print(struct table *table, struct lines *lines, const json_t *body, double when) {
    struct truths truths = begin(table, lines, when, false);
    truth_rows(body, print_truth, &truths);
    truth_words(body, print_word, &truths);
    return truths.count;
}

void truths_next(struct table *table, struct lines *lines, const json_t *body) {
    struct truths truths = begin(table, lines, NAN, true);
    truth_next(body, print_truth, &truths);
    truth_next_word(body, print_word, &truths);
}
