#include "build-config.h"

#include "top_layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_state.h"
#include "tools/shared/watch_trend.h"
#include "top_verdict.h"

enum {
    BINS = FIELD_BINS,
    TEXT_SIZE = 3 * BINS + 1, /* a block character is 3 bytes of UTF-8 */
    NAME = 11,                /* columns of a layer's name */
    MEMBER = 16,              /* and of the name of its member at most, where it has one */
    PAIR = 13,                /* columns of "-0.123 ±0.456" */
    SUBJECT = 10,             /* columns of a panel's first word */
    GAP = 2,
    RANKS = 12,
};

typedef void format_cell(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                         const char *object);

static char *format_short(char text[FORMAT_SIZE], double value) {
    if (fabs(value) >= 9.9995)
        return format_rate(text, value);
    snprintf(text, FORMAT_SIZE, "%.3f", value);
    return text;
}

static const char *format_member(char text[FORMAT_SIZE], const json_t *layer, const char *object,
                                 const char *key) {
    double value;
    return member_number(json_object_get(layer, object), key, &value) ? format_short(text, value)
                                                                      : "-";
}

static void format_spread(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                          const char *object) {
    char mean[FORMAT_SIZE], deviation[FORMAT_SIZE];
    if (!json_object_get(layer, object))
        strcpy(text, "-");
    else
        snprintf(text, TEXT_SIZE, "%6s %s%s", format_member(mean, layer, object, "mean"),
                 canvas_text(c, "±", "~"), format_member(deviation, layer, object, "std"));
}

static void format_range(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                         const char *object) {
    char low[FORMAT_SIZE], high[FORMAT_SIZE];
    (void)c;
    if (!json_object_get(layer, object))
        strcpy(text, "-");
    else
        snprintf(text, TEXT_SIZE, "%s..%s", format_member(low, layer, object, "minimum"),
                 format_member(high, layer, object, "maximum"));
}

static void format_mean(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                        const char *object) {
    char mean[FORMAT_SIZE];
    (void)c;
    snprintf(text, TEXT_SIZE, "%s", format_member(mean, layer, object, "mean"));
}

static void format_norm(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                        const char *object) {
    double value;
    (void)c;
    strcpy(text, "-");
    if (member_number(json_object_get(layer, object), "norm", &value))
        format_rate(text, value);
}

static void format_saturated(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                             const char *object) {
    double share;
    (void)c;
    strcpy(text, "-");
    if (member_number(json_object_get(layer, object), "saturated", &share))
        snprintf(text, TEXT_SIZE, "%.1f%%", 100 * share);
}

static void format_histogram(const struct canvas *c, char text[TEXT_SIZE], const json_t *layer,
                             const char *object) {
    double bins[BINS];
    char picture[TREND_PICTURE_SIZE];
    (void)object;
    snprintf(text, TEXT_SIZE, "%s",
             layer_bins(layer, bins) ? trend_histogram(bins, BINS, c->utf8, picture) : "-");
}

static const struct column {
    const char *title, *object;
    format_cell *format;
    int width, rank; /* rank: 1 is the first to get a place */
} columns[] = {
    {"summed inputs", "summed_inputs", format_spread, PAIR, 3},
    {"recurrent", "summed_recurrent", format_spread, PAIR, 8},
    {"hidden", "hidden", format_spread, PAIR, 4},
    {"range", "hidden", format_range, PAIR, 9},
    {"norm", "hidden", format_norm, 5, 5},
    {"satur.", "hidden", format_saturated, 6, 1},
    {"hidden -1 .. 1", NULL, format_histogram, BINS, 2},
    {"cell", "cell", format_spread, PAIR, 10},
    {"|c|>5", "cell", format_saturated, 6, 11},
    {"gain", "gain", format_mean, 5, 6},
    {"gain", "gain", format_spread, PAIR, 7},
    {"bias", "bias", format_spread, PAIR, 12},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* Whether the next column shows the same and more, and so takes the place of this one. */
static bool gives_way(int i) {
    return i + 1 < COLUMNS && strcmp(columns[i].title, columns[i + 1].title) == 0;
}

/* Columns by rank as long as they fit beside what is used; none is taken to begin with. */
static void fit_columns(bool taken[COLUMNS], int used, int width) {
    for (int rank = 1; rank <= RANKS; rank++)
        for (int i = 0; i < COLUMNS; i++) {
            if (columns[i].rank != rank)
                continue;
            bool instead = i > 0 && gives_way(i - 1) && taken[i - 1];
            int needed = columns[i].width + 1 - (instead ? columns[i - 1].width + 1 : 0);
            if (used + needed > width)
                continue;
            used += needed;
            taken[i] = true;
            if (instead)
                taken[i - 1] = false;
        }
}

/* "0 gru 64", or "0 change gru 64", the number so wide. */
static void format_name(char name[TEXT_SIZE], const json_t *layer, int index, int width) {
    const char *kind = member_string(layer, "kind");
    double size = 0;
    char count[FORMAT_SIZE], member[STATE_NAME_SIZE];
    member_number(layer, "size", &size);
    state_member_name(layer, MEMBER, member);
    snprintf(name, TEXT_SIZE, "%*d %.*s%s%.5s %s", width, index, 3 * MEMBER, member,
             *member ? " " : "", kind ? kind : "?", format_count(count, size, 4));
}

static int name_columns(const json_t *layers) {
    int member = state_member_columns(layers, MEMBER);
    return NAME + state_number_columns(layers) - 1 + (member ? member + 1 : 0);
}

static enum style cell_style(const struct column *column, const json_t *layer) {
    double share;
    if (column->format != format_saturated ||
        !member_number(json_object_get(layer, column->object), "saturated", &share))
        return column->format == format_histogram ? STYLE_LINE : STYLE_PLAIN;
    return verdict_saturation(share);
}

static void table_row(struct canvas *c, const struct area *area, int row, const bool taken[COLUMNS],
                      int at, const json_t *layers, int index) {
    const json_t *layer = json_array_get(layers, (size_t)index);
    char text[TEXT_SIZE];
    format_name(text, layer, index, state_number_columns(layers));
    canvas_print(c, area, row, 0, STYLE_PLAIN, "%s", text);
    for (int i = 0; i < COLUMNS; i++) {
        if (!taken[i])
            continue;
        columns[i].format(c, text, layer, columns[i].object);
        int blank = columns[i].width - canvas_width(text);
        bool left = columns[i].format == format_spread && strlen(text) > 1;
        canvas_print(c, area, row, at + 1 + (left || blank < 0 ? 0 : blank),
                     cell_style(&columns[i], layer), "%s", text);
        at += columns[i].width + 1;
    }
}

static int first_shown(int first, int count, int room) {
    int last = count > room ? count - room : 0;
    return first < 0 ? 0 : first > last ? last : first;
}

void layers_table(struct canvas *c, const struct area *area, const json_t *layers, int *first) {
    bool taken[COLUMNS] = {false};
    int count = (int)json_array_size(layers), room = area->rows - 1;
    int name = name_columns(layers), at = name;
    if (room < 1)
        return;
    fit_columns(taken, name, area->columns);
    *first = first_shown(*first, count, room);
    canvas_fill(c, area, 0, STYLE_PLAIN);
    if (count > room)
        canvas_print(c, area, 0, 0, STYLE_DIM, "%d-%d of %d", *first, *first + room - 1, count);
    else
        canvas_print(c, area, 0, 0, STYLE_DIM, "layer");
    for (int i = 0; i < COLUMNS; i++)
        if (taken[i]) {
            int blank = columns[i].width - (int)strlen(columns[i].title);
            canvas_print(c, area, 0, at + 1 + (blank > 0 ? blank : 0), STYLE_DIM, "%s",
                         columns[i].title);
            at += columns[i].width + 1;
        }
    for (int i = 0; i < room && *first + i < count; i++)
        table_row(c, area, 1 + i, taken, name, layers, *first + i);
}

/* Bars of eighths of a row; in ASCII, of whole rows. */
static void draw_histogram(struct canvas *c, const struct area *area, const json_t *layer) {
    enum { EIGHTHS = 8 };
    static const wchar_t blocks[] = L" ▁▂▃▄▅▆▇█";
    double bins[BINS], greatest = 0;
    int rows = area->rows - 1, wide = area->columns / BINS;
    if (rows < 1 || wide < 1 || !layer_bins(layer, bins))
        return;
    for (int i = 0; i < BINS; i++)
        greatest = fmax(greatest, bins[i]);
    for (int column = 0; column < BINS * wide; column++) {
        double share = greatest > 0 ? bins[column / wide] / greatest : 0;
        int height = (int)ceil(share * rows * EIGHTHS);
        for (int row = 0; row < rows; row++) {
            int fill = height - (rows - 1 - row) * EIGHTHS;
            fill = fill < 0 ? 0 : fill > EIGHTHS ? EIGHTHS : fill;
            if (fill > 0)
                canvas_put(c, area, row, column, STYLE_LINE,
                           c->utf8              ? blocks[fill]
                           : fill > EIGHTHS / 2 ? L'#'
                                                : L'.');
        }
    }
    struct area bars = area_columns(area, 0, BINS * wide);
    canvas_print(c, &bars, rows, 0, STYLE_DIM, "-1");
    canvas_print(c, &bars, rows, BINS * wide / 2, STYLE_DIM, "0");
    canvas_print_right(c, &bars, rows, STYLE_DIM, "1");
}

static void panel_line(struct canvas *c, const struct area *area, int *row, const char *subject,
                       format_cell *format, const json_t *layer, const char *object,
                       enum style style) {
    char text[TEXT_SIZE];
    if (!json_object_get(layer, object))
        return;
    format(c, text, layer, object);
    canvas_print(c, area, *row, 0, STYLE_DIM, "%s", subject);
    canvas_print(c, area, *row, SUBJECT, style, "%*s", format == format_spread ? 0 : 6, text);
    (*row)++;
}

static void draw_panel(struct canvas *c, const struct area *area, const json_t *layer, int index) {
    char name[TEXT_SIZE], saturated[TEXT_SIZE], title[2 * TEXT_SIZE];
    double share = layer_number(layer, LAYER_hidden_saturated);
    int row = 1;
    format_name(name, layer, index, 1);
    snprintf(title, sizeof title, "layer %s", name);
    canvas_heading(c, area, 0, title);
    struct area text = area_columns(area, 0, SUBJECT + PAIR + 1);
    panel_line(c, &text, &row, "sums", format_spread, layer, "summed_inputs", STYLE_PLAIN);
    panel_line(c, &text, &row, "recurrent", format_spread, layer, "summed_recurrent", STYLE_PLAIN);
    panel_line(c, &text, &row, "hidden", format_spread, layer, "hidden", STYLE_PLAIN);
    format_norm(c, name, layer, "hidden");
    format_saturated(c, saturated, layer, "hidden");
    int at = canvas_print(c, &text, row, 0, STYLE_DIM, "norm ");
    at = canvas_print(c, &text, row, at, STYLE_PLAIN, "%s ", name);
    at = canvas_print(c, &text, row, at, STYLE_DIM, "satur. ");
    canvas_print(c, &text, row++, at, verdict_saturation(share), "%s", saturated);
    panel_line(c, &text, &row, "range", format_range, layer, "hidden", STYLE_PLAIN);
    panel_line(c, &text, &row, "cell", format_spread, layer, "cell", STYLE_PLAIN);
    panel_line(c, &text, &row, "gain", format_spread, layer, "gain", STYLE_PLAIN);
    panel_line(c, &text, &row, "bias", format_spread, layer, "bias", STYLE_PLAIN);
    struct area lower = area_rows(area, 1, area->rows - 1);
    struct area bars = area_columns(&lower, text.columns + GAP, area->columns - text.columns - GAP);
    draw_histogram(c, &bars, layer);
}

int layers_abreast(int width) {
    return width < LAYERS_PANEL_COLUMNS ? 1 : width / LAYERS_PANEL_COLUMNS;
}

void layers_panels(struct canvas *c, const struct area *area, const json_t *layers, int *first) {
    int count = (int)json_array_size(layers), abreast = layers_abreast(area->columns);
    int room = area->rows / LAYERS_PANEL_ROWS * abreast;
    if (abreast > count && count > 0)
        abreast = count;
    *first = first_shown(*first, count, room);
    for (int i = 0; i < room && *first + i < count; i++) {
        int wide = area->columns / abreast;
        struct area rows = area_rows(area, i / abreast * LAYERS_PANEL_ROWS, LAYERS_PANEL_ROWS);
        struct area panel = area_columns(&rows, i % abreast * wide, wide - (abreast > 1 ? GAP : 0));
        draw_panel(c, &panel, json_array_get(layers, (size_t)(*first + i)), *first + i);
    }
}
