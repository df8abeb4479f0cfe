#include "build-config.h"

#include "watch_truths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"
#include "tools/shared/watch_truth.h"

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
    WORD_SIZE = 4 * WORD_COLUMNS,
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

/* Before the `texts` of its own the time of the data where there is one, else when it was learned,
   of what comes "next"; and the stream. */
static void print_row(struct truths *t, const struct truth_row *row,
                      const struct lines_table *table, const char **texts, bool missed) {
    char date[TIME_SIZE] = "next", stream[4 * STREAM_COLUMNS], ahead[FORMAT_SIZE] = "",
         rest[2 + FORMAT_SIZE];
    if (!t->open)
        format_date(date, isnan(row->data_time) ? t->when : row->data_time);
    if (row->ahead > 1)
        snprintf(ahead, sizeof ahead, " %.0f ahead", row->ahead);
    snprintf(rest, sizeof rest, "%s%s", missed ? " *" : "", ahead);
    texts[0] = date;
    texts[1] = text_copy(stream, sizeof stream, row->stream);
    lines_row(t->lines, table, &t->table->truth_header, texts, rest);
    t->count++;
}

static void print_truth(void *context, const struct truth_row *row) {
    enum { NUMBERS = 5, OTHERS = 3 };
    static const char *const titles[] = {"time",     "stream", "col",  "truth",
                                         "forecast", "low",    "high", "baseline"};
    struct truths *t = context;
    const double numbers[NUMBERS] = {row->target, row->prediction, row->low, row->high,
                                     row->baseline};
    const int widths[] = {-TIME_COLUMNS,  -STREAM_COLUMNS, t->name,        NUMBER_COLUMNS,
                          NUMBER_COLUMNS, NUMBER_COLUMNS,  NUMBER_COLUMNS, NUMBER_COLUMNS};
    char name[NAME_SIZE], shown[NUMBERS][FORMAT_SIZE];
    const char *texts[OTHERS + NUMBERS] = {
        NULL, NULL, names_target(name, t->table->names, row->column, t->name)};
    for (size_t n = 0; n < NUMBERS; n++)
        texts[OTHERS + n] = format_number(shown[n], numbers[n]);
    const struct lines_table table = {titles, widths, OTHERS + NUMBERS - !t->baseline};
    print_row(t, row, &table, texts, truth_missed(row));
}

/* ---- Words ---- */

static const char *word_text(char text[WORD_SIZE], const char *word) {
    return text_copy(text, WORD_SIZE, !word ? "-" : *word ? word : "(unknown)");
}

static void print_word(void *context, const struct truth_row *row) {
    static const char *const titles[] = {"time",     "stream", "truth",
                                         "forecast", "share",  "baseline"};
    static const int widths[] = {-TIME_COLUMNS, -STREAM_COLUMNS, WORD_COLUMNS,
                                 WORD_COLUMNS,  NUMBER_COLUMNS,  WORD_COLUMNS};
    static const struct lines_table table = {titles, widths, sizeof widths / sizeof *widths};
    const char *came = row->words[TRUTH_CAME], *said = row->words[TRUTH_SAID];
    char words[3][WORD_SIZE], share[FORMAT_SIZE];
    const char *texts[] = {NULL,
                           NULL,
                           word_text(words[0], came),
                           word_text(words[1], said),
                           format_number(share, row->probability),
                           word_text(words[2], row->words[TRUTH_BASELINE])};
    print_row(context, row, &table, texts, came && strcmp(came, said) != 0);
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
