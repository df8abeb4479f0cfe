#include "top_forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"
#include "tools/shared/watch_truth.h"

enum {
    STREAM_SIZE = 60,
    TEXT_SIZE = 240,
    NAME_SHARE = 6 /* maximum share of the line for a name */
};

/* The first row of the column; others are of later horizons or steps. */
struct finding {
    size_t column;
    struct truth_row row;
    bool found;
};

static void find_row(void *context, const struct truth_row *row) {
    struct finding *finding = context;
    bool instead = finding->column >= row->columns && row->column == 0;
    if (finding->found || (row->column != finding->column && !instead))
        return;
    finding->row = *row;
    finding->found = true;
}

static double skill_of(const struct watched *w, size_t column) {
    return field_number(&fields_of_column[COLUMN_skill], json_array_get(w->columns, column));
}

static size_t worst_column(const struct watched *w) {
    size_t worst = 0;
    for (size_t i = 1; i < json_array_size(w->columns); i++)
        if (isnan(skill_of(w, worst)) || skill_of(w, i) < skill_of(w, worst))
            worst = i;
    return worst;
}

/* Formats the newest truth of a target and its forecast, with `whole` also the interval. */
static void format_truth(char text[TEXT_SIZE], const struct truth_row *row, const char *name,
                         bool whole) {
    char stream[STREAM_SIZE], number[4][FORMAT_SIZE], truth[FORMAT_SIZE + 4] = "not observed";
    if (!isnan(row->target))
        snprintf(truth, sizeof truth, "%s", format_number(number[0], row->target));
    snprintf(text, TEXT_SIZE, "%s[%s]: %s, forecast %s",
             text_copy(stream, sizeof stream, row->stream), name, truth,
             format_number(number[1], row->prediction));
    if (whole && !isnan(row->low))
        text_append(text, TEXT_SIZE, ", from %s to %s", format_number(number[2], row->low),
                    format_number(number[3], row->high));
    if (truth_missed(row))
        text_append(text, TEXT_SIZE, ": missed");
}

/* The same for a class that is a word. */
static void format_word(char text[TEXT_SIZE], const struct truth_row *row) {
    char stream[STREAM_SIZE], came[STREAM_SIZE], forecast[STREAM_SIZE], share[FORMAT_SIZE];
    const char *words[] = {row->words[TRUTH_ACTUAL], row->words[TRUTH_FORECAST]};
    for (size_t n = 0; n < 2; n++)
        text_copy(n ? forecast : came, STREAM_SIZE, *words[n] ? words[n] : "unknown");
    snprintf(text, TEXT_SIZE, "%s: %s, forecast %s (%s)",
             text_copy(stream, sizeof stream, row->stream), came, forecast,
             format_percent(share, row->probability));
}

/* Draws the newest class and its forecast. */
static void draw_word(struct canvas *c, const struct area *area, struct watched *w) {
    struct finding finding = {0};
    char text[TEXT_SIZE];
    truth_words(w->truth, find_row, &finding);
    if (!finding.found)
        return;
    const char *const *words = finding.row.words;
    bool wrong = strcmp(words[TRUTH_ACTUAL], words[TRUTH_FORECAST]) != 0;
    format_word(text, &finding.row);
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, "newest ");
    at = canvas_print(c, area, 0, at, wrong ? STYLE_WARN : STYLE_PLAIN, "%s", text);
    finding.found = false;
    truth_next_word(w->truth, find_row, &finding);
    if (finding.found)
        canvas_print(c, area, 0, at, STYLE_STRONG, "; next %s",
                     text_copy(text, STREAM_SIZE,
                               *words[TRUTH_FORECAST] ? words[TRUTH_FORECAST] : "unknown"));
}

/* Formats the next forecast with its interval; "" = none. Returns the length without the
   interval. */
static int format_next(char text[TEXT_SIZE], const struct watched *w, size_t column) {
    struct finding next = {.column = column};
    char number[3][FORMAT_SIZE];
    *text = '\0';
    truth_next(w->truth, find_row, &next);
    if (!next.found || next.row.column != column)
        return 0;
    int brief =
        snprintf(text, TEXT_SIZE, "; next %s", format_number(number[0], next.row.prediction));
    if (!isnan(next.row.low))
        snprintf(text + brief, TEXT_SIZE - (size_t)brief, ", from %s to %s",
                 format_number(number[1], next.row.low), format_number(number[2], next.row.high));
    return brief;
}

/* Formats the share of truths within their intervals, with 1 part more the skill of the column, and
   with 2 the skill by CRPS; "" = unknown. */
static void format_worth(char text[TEXT_SIZE], const struct watched *w, size_t column, int more) {
    const struct sample *sample = watched_sample(w);
    char number[FORMAT_SIZE];
    double skill = more > 0 ? skill_of(w, column) : NAN;
    *text = '\0';
    if (!isnan(skill))
        text_append(text, TEXT_SIZE, "skill %s", format_skill(number, skill));
    if (sample && isfinite(sample->values[FIELD_coverage_total]))
        text_append(text, TEXT_SIZE, "%shits %s", *text ? ", " : "",
                    format_percent(number, sample->values[FIELD_coverage_total]));
    if (sample && more > 1 && isfinite(sample->values[FIELD_crps_skill]))
        text_append(text, TEXT_SIZE, "%sCRPS skill %s", *text ? ", " : "",
                    format_skill(number, sample->values[FIELD_crps_skill]));
}

/* Draws the experts with the largest weights in the last row. */
static void draw_experts(struct canvas *c, const struct area *area, const struct watched *w) {
    enum { MOST = 3 };
    const char *name, *names[MOST] = {NULL};
    double shares[MOST] = {0};
    json_t *expert;
    json_object_foreach(w->experts, name, expert) {
        double share = field_number(&fields_of_expert[EXPERT_weight], expert);
        size_t n = MOST;
        for (; n > 0 && share > shares[n - 1]; n--)
            if (n < MOST)
                shares[n] = shares[n - 1], names[n] = names[n - 1];
        if (n < MOST)
            shares[n] = share, names[n] = name;
    }
    int at = canvas_print(c, area, area->rows - 1, 0, STYLE_DIM, "experts");
    for (size_t n = 0; n < MOST && shares[n] > 0; n++) {
        char text[STREAM_SIZE], share[FORMAT_SIZE];
        at = canvas_print(c, area, area->rows - 1, at, STYLE_PLAIN, "%s%s %s", n ? ", " : " ",
                          text_copy(text, sizeof text, names[n]), format_percent(share, shares[n]));
    }
}

void forecast_draw(struct canvas *c, const struct area *area, struct watched *w) {
    bool worst = w->look.column == FORECAST_WORST;
    struct finding finding = {.column = worst ? worst_column(w) : (size_t)w->look.column};
    char text[TEXT_SIZE], next[TEXT_SIZE], name[NAME_SIZE];
    if (json_object_size(w->experts))
        draw_experts(c, area, w);
    truth_rows_all(w->truth, find_row, &finding);
    if (!finding.found) {
        draw_word(c, area, w);
        return;
    }
    if (!worst)
        w->look.column = (int)finding.row.column;
    names_target(name, member_string(w->status, fields_of_status[STATUS_target_names].key),
                 finding.row.column, area->columns / NAME_SHARE);
    int brief = format_next(next, w, finding.row.column);
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, worst ? "worst " : "newest ");
    /* On a narrow line the next value is more important than the newest interval. */
    format_truth(text, &finding.row, name, true);
    if (at + (int)strlen(text) + brief > area->columns)
        format_truth(text, &finding.row, name, false);
    at = canvas_print(c, area, 0, at, truth_missed(&finding.row) ? STYLE_WARN : STYLE_PLAIN, "%s",
                      text);
    if (at + (int)strlen(next) > area->columns)
        next[at + brief > area->columns ? 0 : brief] = '\0';
    at = canvas_print(c, area, 0, at, STYLE_STRONG, "%s", next);
    for (int more = 2; more >= 0; more--) {
        format_worth(text, w, finding.row.column, more);
        if (at + 2 + (int)strlen(text) > area->columns)
            continue;
        canvas_print_right(c, area, 0, STYLE_DIM, text);
        return;
    }
}
