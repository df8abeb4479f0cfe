#include "top_pane.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "tools/shared/watch_state.h"
#include "tools/shared/watch_trend.h"
#include "top_chart.h"
#include "top_forecast.h"
#include "top_verdict.h"

/* ---- Broker ----

   One line for the broker that the daemon reads, and one for its fleet. */

enum { LABEL = 9, GAP = 2, GROUP_SHOWN = 24 };

static const json_t *part(const struct watched *w, const char *name) {
    const json_t *found = json_object_get(w->status, name);
    return json_is_object(found) ? found : NULL;
}

/* The number of lines: 0 without broker and fleet. */
static int broker_rows(const struct watched *w) {
    return !!part(w, "consumer") + !!part(w, "fleet");
}

static double number_of(const struct watched *w, enum status_field field) {
    double value = status_number(w->status, field);
    return isnan(value) ? 0 : value;
}

/* For example "waiting 1,234". */
static int draw_count(struct canvas *c, const struct area *area, int row, int at, const char *label,
                      enum style style, double value) {
    char text[FORMAT_SIZE];
    at = canvas_print(c, area, row, at, STYLE_DIM, "%s ", label);
    return canvas_print(c, area, row, at, style, "%s",
                        isnan(value) ? "-" : format_grouped(text, value)) +
           GAP;
}

/* A lost connection has priority. */
static int draw_away(struct canvas *c, const struct area *area, int row, int at, double seconds) {
    char text[FORMAT_SIZE];
    if (!(seconds > 0))
        return at;
    return canvas_print(c, area, row, at, STYLE_BAD, "AWAY for %s",
                        format_duration(text, seconds)) +
           GAP;
}

static void draw_broker(struct canvas *c, const struct area *area, int row,
                        const struct watched *w) {
    const char *where = member_string(json_object_get(w->status, "sockets"), "examples");
    double dead = number_of(w, STATUS_consumer_dead), lost = number_of(w, STATUS_consumer_lost);
    double partitions = number_of(w, STATUS_consumer_partitions);
    int at = canvas_print(c, area, row, 0, STYLE_DIM, "%-*s", LABEL, "broker");
    at = draw_away(c, area, row, at, number_of(w, STATUS_consumer_away));
    at = draw_count(c, area, row, at, "waiting", STYLE_STRONG,
                    status_number(w->status, STATUS_consumer_lag));
    at = draw_count(c, area, row, at, "dead", dead > 0 ? STYLE_WARN : STYLE_PLAIN, dead);
    if (lost > 0)
        at = draw_count(c, area, row, at, "lost", STYLE_BAD, lost);
    canvas_print(c, area, row, at, STYLE_DIM, "%.0f partition%s of %s", partitions,
                 partitions == 1 ? "" : "s", where ? where : "?");
}

static void draw_fleet(struct canvas *c, const struct area *area, int row,
                       const struct watched *w) {
    const char *group = member_string(part(w, "fleet"), "group");
    double daemons = number_of(w, STATUS_fleet_daemons), of = number_of(w, STATUS_fleet_of);
    double round = status_number(w->status, STATUS_fleet_round);
    int at = canvas_print(c, area, row, 0, STYLE_DIM, "%-*s", LABEL, "fleet");
    at = draw_away(c, area, row, at, number_of(w, STATUS_fleet_away));
    at = canvas_print(c, area, row, at, STYLE_STRONG, "%.*s", GROUP_SHOWN, group ? group : "?") +
         GAP;
    at = canvas_print(c, area, row, at, STYLE_PLAIN, "%.0f of %.0f partition%s",
                      number_of(w, STATUS_fleet_partitions), of, of == 1 ? "" : "s") +
         GAP;
    at = canvas_print(c, area, row, at, STYLE_PLAIN, "%.0f daemon%s", daemons,
                      daemons == 1 ? "" : "s") +
         GAP;
    if (!isnan(round))
        canvas_print(c, area, row, at, STYLE_PLAIN, "round %.0f of averages", round);
}

static void broker_draw(struct canvas *c, const struct area *area, const struct watched *w) {
    int row = 0;
    if (part(w, "consumer"))
        draw_broker(c, area, row++, w);
    if (part(w, "fleet"))
        draw_fleet(c, area, row, w);
}

/* ---- Layers ----

   A line or a panel for each layer of a network. */

enum { LAYERS_PANEL_ROWS = 11, LAYERS_PANEL_COLUMNS = 56 };

enum {
    BINS = FIELD_BINS,
    BARS_SIZE = 3 * BINS + 1, /* a block character is 3 bytes of UTF-8 */
    NAME = 11,                /* columns of a layer's name */
    MEMBER = 16,              /* maximum columns of a member's name */
    PAIR = 13,                /* columns of "-0.123 ±0.456" */
    SUBJECT = 10,             /* columns of a panel's first word */
    RANKS = 15,
};

/* Formats a member of a layer's object, or several. */
typedef void format_cell(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                         const char *object, const char *key);

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

static void format_spread(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                          const char *object, const char *key) {
    char mean[FORMAT_SIZE], deviation[FORMAT_SIZE];
    (void)key;
    if (!json_object_get(layer, object))
        strcpy(text, "-");
    else
        snprintf(text, BARS_SIZE, "%6s %s%s", format_member(mean, layer, object, "mean"),
                 canvas_text(c, "±", "~"), format_member(deviation, layer, object, "std"));
}

static void format_range(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                         const char *object, const char *key) {
    char low[FORMAT_SIZE], high[FORMAT_SIZE];
    (void)c, (void)key;
    if (!json_object_get(layer, object))
        strcpy(text, "-");
    else
        snprintf(text, BARS_SIZE, "%s..%s", format_member(low, layer, object, "minimum"),
                 format_member(high, layer, object, "maximum"));
}

static void format_one(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                       const char *object, const char *key) {
    char number[FORMAT_SIZE];
    (void)c;
    snprintf(text, BARS_SIZE, "%s", format_member(number, layer, object, key));
}

static void format_norm(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                        const char *object, const char *key) {
    double value;
    (void)c;
    strcpy(text, "-");
    if (member_number(json_object_get(layer, object), key, &value))
        format_rate(text, value);
}

static double share_of(const json_t *layer, const char *object, const char *key) {
    double share = NAN;
    member_number(json_object_get(layer, object), key, &share);
    return share;
}

static void format_share(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                         const char *object, const char *key) {
    double share = share_of(layer, object, key);
    (void)c;
    strcpy(text, "-");
    if (!isnan(share))
        snprintf(text, BARS_SIZE, "%.1f%%", 100 * share);
}

static void format_histogram(const struct canvas *c, char text[BARS_SIZE], const json_t *layer,
                             const char *object, const char *key) {
    double bins[BINS];
    char picture[TREND_PICTURE_SIZE];
    (void)object, (void)key;
    snprintf(text, BARS_SIZE, "%s",
             layer_bins(layer, bins) ? trend_histogram(bins, BINS, c->utf8, picture) : "-");
}

static const struct column {
    const char *title, *object, *key; /* key: NULL if the format needs none */
    format_cell *format;
    int width, rank; /* rank 1 is placed first */
} columns[] = {
    {"summed inputs", "summed_inputs", NULL, format_spread, PAIR, 7},
    {"recurrent", "summed_recurrent", NULL, format_spread, PAIR, 11},
    {"hidden", "hidden", NULL, format_spread, PAIR, 3},
    {"range", "hidden", NULL, format_range, PAIR, 12},
    {"norm", "hidden", "norm", format_norm, 5, 8},
    {"satur.", "hidden", "saturated", format_share, 6, 1},
    {"dormant", "units", "dormant", format_share, 7, 4},
    {"rank", "units", "rank", format_one, 5, 6},
    {"growth", "weights", "growth", format_one, 6, 5},
    {"hidden -1 .. 1", NULL, NULL, format_histogram, BINS, 2},
    {"cell", "cell", NULL, format_spread, PAIR, 13},
    {"|c|>5", "cell", "saturated", format_share, 6, 14},
    {"gain", "gain", "mean", format_one, 5, 9},
    {"gain", "gain", NULL, format_spread, PAIR, 10},
    {"bias", "bias", NULL, format_spread, PAIR, 15},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* Whether the next column shows the same in more detail, and replaces this one. */
static bool is_replaced(int i) {
    return i + 1 < COLUMNS && strcmp(columns[i].title, columns[i + 1].title) == 0;
}

/* Whether a layer has the column's object; earlier daemons do not send all. */
static bool is_sent(const struct column *column, const json_t *layers) {
    for (size_t n = 0; column->object && n < json_array_size(layers); n++)
        if (json_object_get(json_array_get(layers, n), column->object))
            return true;
    return !column->object;
}

/* Chooses columns by rank as long as they fit beside the used width. `taken` must be false. */
static void fit_columns(bool taken[COLUMNS], const json_t *layers, int used, int width) {
    for (int rank = 1; rank <= RANKS; rank++)
        for (int i = 0; i < COLUMNS; i++) {
            if (columns[i].rank != rank || !is_sent(&columns[i], layers))
                continue;
            bool instead = i > 0 && is_replaced(i - 1) && taken[i - 1];
            int needed = columns[i].width + 1 - (instead ? columns[i - 1].width + 1 : 0);
            if (used + needed > width)
                continue;
            used += needed;
            taken[i] = true;
            if (instead)
                taken[i - 1] = false;
        }
}

/* For example "0 gru 64" or "0 change gru 64"; `width` is that of the number. */
static void format_name(char name[BARS_SIZE], const json_t *layer, int index, int width) {
    const char *kind = member_string(layer, "kind");
    double size = 0;
    char count[FORMAT_SIZE], member[STATE_NAME_SIZE];
    member_number(layer, "size", &size);
    state_member_name(layer, MEMBER, member);
    snprintf(name, BARS_SIZE, "%*d %.*s%s%.5s %s", width, index, 3 * MEMBER, member,
             *member ? " " : "", kind ? kind : "?", format_count(count, size, 4));
}

static int name_columns(const json_t *layers) {
    int member = state_member_columns(layers, MEMBER);
    return NAME + state_number_columns(layers) - 1 + (member ? member + 1 : 0);
}

static enum style cell_style(const struct column *column, const json_t *layer) {
    if (column->format != format_share)
        return column->format == format_histogram ? STYLE_LINE : STYLE_PLAIN;
    return verdict_share(share_of(layer, column->object, column->key));
}

static void table_row(struct canvas *c, const struct area *area, int row, const bool taken[COLUMNS],
                      int at, const json_t *layers, int index) {
    const json_t *layer = json_array_get(layers, (size_t)index);
    char text[BARS_SIZE];
    format_name(text, layer, index, state_number_columns(layers));
    canvas_print(c, area, row, 0, STYLE_PLAIN, "%s", text);
    for (int i = 0; i < COLUMNS; i++) {
        if (!taken[i])
            continue;
        columns[i].format(c, text, layer, columns[i].object, columns[i].key);
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

/* Draws a table with a header and as many columns as fit, from layer *first on. Moves *first so
   that the rows are filled. */
static void layers_table(struct canvas *c, const struct area *area, const json_t *layers,
                         int *first) {
    bool taken[COLUMNS] = {false};
    int count = (int)json_array_size(layers), room = area->rows - 1;
    int name = name_columns(layers), at = name;
    if (room < 1)
        return;
    fit_columns(taken, layers, name, area->columns);
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

/* Bars in eighths of a row; in ASCII, in whole rows. */
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
                       const char *key) {
    char text[BARS_SIZE];
    if (!json_object_get(layer, object))
        return;
    format(c, text, layer, object, key);
    canvas_print(c, area, *row, 0, STYLE_DIM, "%s", subject);
    canvas_print(c, area, *row, SUBJECT, STYLE_PLAIN, "%*s", format == format_spread ? 0 : 6, text);
    (*row)++;
}

/* Two lines, for example "dormant 12.5% rank 11.77" and "growth    8.195". */
static void panel_units(struct canvas *c, const struct area *area, int *row, const json_t *layer) {
    char dormant[BARS_SIZE], rank[BARS_SIZE];
    format_share(c, dormant, layer, "units", "dormant");
    format_one(c, rank, layer, "units", "rank");
    int at = canvas_print(c, area, *row, 0, STYLE_DIM, "dormant ");
    at = canvas_print(c, area, *row, at, verdict_share(layer_number(layer, LAYER_units_dormant)),
                      "%s ", dormant);
    at = canvas_print(c, area, *row, at, STYLE_DIM, "rank ");
    canvas_print(c, area, (*row)++, at, STYLE_PLAIN, "%s", rank);
    panel_line(c, area, row, "growth", format_one, layer, "weights", "growth");
}

static void draw_panel(struct canvas *c, const struct area *area, const json_t *layer, int index) {
    char name[BARS_SIZE], saturated[BARS_SIZE], title[2 * BARS_SIZE];
    double share = layer_number(layer, LAYER_hidden_saturated);
    int row = 1;
    format_name(name, layer, index, 1);
    snprintf(title, sizeof title, "layer %s", name);
    canvas_heading(c, area, 0, title);
    struct area text = area_columns(area, 0, SUBJECT + PAIR + 1);
    panel_line(c, &text, &row, "sums", format_spread, layer, "summed_inputs", NULL);
    panel_line(c, &text, &row, "recurrent", format_spread, layer, "summed_recurrent", NULL);
    panel_line(c, &text, &row, "hidden", format_spread, layer, "hidden", NULL);
    format_norm(c, name, layer, "hidden", "norm");
    format_share(c, saturated, layer, "hidden", "saturated");
    int at = canvas_print(c, &text, row, 0, STYLE_DIM, "norm ");
    at = canvas_print(c, &text, row, at, STYLE_PLAIN, "%s ", name);
    at = canvas_print(c, &text, row, at, STYLE_DIM, "satur. ");
    canvas_print(c, &text, row++, at, verdict_share(share), "%s", saturated);
    if (json_object_get(layer, "units"))
        panel_units(c, &text, &row, layer);
    panel_line(c, &text, &row, "range", format_range, layer, "hidden", NULL);
    panel_line(c, &text, &row, "cell", format_spread, layer, "cell", NULL);
    panel_line(c, &text, &row, "gain", format_spread, layer, "gain", NULL);
    panel_line(c, &text, &row, "bias", format_spread, layer, "bias", NULL);
    struct area lower = area_rows(area, 1, area->rows - 1);
    struct area bars = area_columns(&lower, text.columns + GAP, area->columns - text.columns - GAP);
    draw_histogram(c, &bars, layer);
}

/* The number of panels that fit side by side. */
static int layers_abreast(int width) {
    return width < LAYERS_PANEL_COLUMNS ? 1 : width / LAYERS_PANEL_COLUMNS;
}

/* Draws panels of LAYERS_PANEL_ROWS with all numbers and a tall histogram, from layer *first on. */
static void layers_panels(struct canvas *c, const struct area *area, const json_t *layers,
                          int *first) {
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

/* ---- Meters ----

   Numbers of a daemon, each with its curve if there is room. */

enum {
    METERS_WIDE = 76, /* columns for two meters side by side */
    METERS_SLOTS = 5, /* least meters above each other in a wide area; one more if used */
    METERS_ROWS = 8,  /* rows in a narrow area */
};

enum {
    VALUE = 8,
    GROUPED_MOST = 1000000, /* larger numbers of journal entries have a prefix */
    LINE_SIZE = 200,
};

static const struct meter {
    const char *label;
    enum loss_field field;
} learning[] =
    {
        {"rmse", FIELD_metric_rmse},        {"accuracy", FIELD_metric_accuracy},
        {"bits", FIELD_metric_bits},        {"rank", FIELD_metric_rank},
        {"top 10", FIELD_metric_recall_10}, {"skill", FIELD_skill},
        {"gradient", FIELD_gradient_norm},  {"update", FIELD_update_ratio},
        {"plastic", FIELD_plasticity},      {"rate", FIELD_rate},
},
  running[] = {
      {"speed", FIELD_examples_per_second},
      {"p99", FIELD_latency_us_p99},
      {"queued", FIELD_queued},
};

/* NAN if unknown. `status` messages contain some fields, too, and arrive even when nothing is
   learned. */
static double value_of(const struct watched *w, enum loss_field field) {
    const struct sample *sample = watched_sample(w);
    double newest = field == FIELD_rejected              ? w->rejected
                    : field == FIELD_examples_per_second ? w->speed
                                                         : NAN;
    if (isnan(w->look.cursor) && !isnan(newest))
        return newest;
    return sample ? sample->values[field] : NAN;
}

static const char *meter_text(char text[FORMAT_SIZE], const struct watched *w,
                              enum loss_field field) {
    format_function *format = field_format(&fields_of_loss[field]);
    double value = value_of(w, field);
    if (!isfinite(value))
        return "-";
    return format ? format(text, value) : format_grouped(text, value);
}

/* Whether the daemon has sent this optional field. */
static bool is_used(const struct watched *w, const struct meter *meter) {
    const struct past *p = &w->past;
    if (!fields_of_loss[meter->field].need && meter->field != FIELD_plasticity)
        return true;
    for (size_t i = p->count; i-- > 0;)
        if (isfinite(p->samples[i].values[meter->field]))
            return true;
    return false;
}

static void draw_meter(struct canvas *c, const struct area *area, const struct watched *w,
                       const struct meter *meter) {
    char number[FORMAT_SIZE];
    const char *value = meter_text(number, w, meter->field);
    canvas_print(c, area, 0, 0, STYLE_DIM, "%s", meter->label);
    enum style style = meter->field == FIELD_skill ? verdict_skill(w) : STYLE_STRONG;
    canvas_print(c, area, 0, LABEL, style, "%*s", VALUE, value);
    struct area curve = area_columns(area, LABEL + VALUE + 1, area->columns);
    chart_field(c, &curve, w, meter->field);
}

/* Draws a label and a number. Returns the column after them. */
static int draw_pair(struct canvas *c, const struct area *area, int row, int at, const char *label,
                     enum style style, const char *value) {
    at = canvas_print(c, area, row, at, STYLE_DIM, "%s ", label);
    return canvas_print(c, area, row, at, style, "%s", value) + GAP;
}

static enum style count_style(const struct watched *w, enum loss_field field, enum style worst) {
    if (!(value_of(w, field) > 0))
        return STYLE_PLAIN;
    return verdict_recent(w, field) > 0 ? worst : STYLE_WARN;
}

static bool draw_speed(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "speed   ", STYLE_STRONG,
                       meter_text(text, w, FIELD_examples_per_second));
    at = canvas_print(c, area, 0, at - 1, STYLE_DIM, "ex/s");
    struct area curve = area_columns(area, at + 1, area->columns);
    chart_field(c, &curve, w, FIELD_examples_per_second);
    return true;
}

/* At their widest, these three just fit half of 80 columns. */
static bool draw_latency(struct canvas *c, const struct area *area, const struct watched *w) {
    static const struct {
        const char *label;
        enum loss_field field;
    } parts[] = {{"p50", FIELD_latency_us_p50},
                 {"p99", FIELD_latency_us_p99},
                 {"max", FIELD_latency_us_max}};
    char text[FORMAT_SIZE];
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, "latency ");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        at = draw_pair(c, area, 0, at, parts[i].label, STYLE_PLAIN,
                       meter_text(text, w, parts[i].field)) -
             1;
    return true;
}

static bool draw_queue(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    enum style pace = verdict_pace(w).style;
    int at = draw_pair(c, area, 0, 0, "queued  ", pace == STYLE_GOOD ? STYLE_PLAIN : pace,
                       meter_text(text, w, FIELD_queued));
    at = draw_pair(c, area, 0, at, "streams", STYLE_PLAIN, meter_text(text, w, FIELD_streams));
    double missed = (double)w->health.missed_total;
    draw_pair(c, area, 0, at, "missed", missed > 0 ? STYLE_WARN : STYLE_PLAIN,
              format_count(text, missed, LABEL));
    return true;
}

static bool draw_refused(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "rejected", count_style(w, FIELD_rejected, STYLE_BAD),
                       meter_text(text, w, FIELD_rejected));
    at = draw_pair(c, area, 0, at, "skipped", count_style(w, FIELD_skipped, STYLE_BAD),
                   meter_text(text, w, FIELD_skipped));
    if (isfinite(value_of(w, FIELD_anomaly_alarms)))
        draw_pair(c, area, 0, at, "anomalies", count_style(w, FIELD_anomaly_alarms, STYLE_WARN),
                  meter_text(text, w, FIELD_anomaly_alarms));
    return true;
}

static bool draw_learned(struct canvas *c, const struct area *area, const struct watched *w) {
    const struct sample *sample = watched_sample(w);
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "updates ", STYLE_PLAIN, meter_text(text, w, FIELD_updates));
    draw_pair(c, area, 0, at, "steps", STYLE_PLAIN,
              sample ? format_grouped(text, sample->steps) : "-");
    return true;
}

static bool draw_checkpoint(struct canvas *c, const struct area *area, const struct watched *w) {
    double examples = status_number(w->status, STATUS_checkpoint_examples);
    double when = status_number(w->status, STATUS_checkpoint_time);
    char count[FORMAT_SIZE], age[FORMAT_SIZE], text[LINE_SIZE] = "not yet in this run";
    if (!isnan(examples) && !isnan(when))
        snprintf(text, sizeof text, "%s ago, of %s",
                 format_duration(age, (double)time(NULL) - when), format_grouped(count, examples));
    draw_pair(c, area, 0, 0, "saved   ", STYLE_PLAIN, w->status ? text : "-");
    return true;
}

/* A number of `status`; 0 if unknown. */
static double known(const struct watched *w, enum status_field field) {
    double value = status_number(w->status, field);
    return isnan(value) ? 0 : value;
}

/* With a journal: the number of entries, the size if there is room, and the delay of the disk. */
static bool draw_journal(struct canvas *c, const struct area *area, const struct watched *w) {
    const json_t *journal = json_object_get(w->status, "journal");
    double entries = known(w, STATUS_journal_entries);
    double bytes = known(w, STATUS_journal_bytes);
    double free_bytes = known(w, STATUS_journal_free_bytes);
    double waiting = known(w, STATUS_journal_waiting);
    char number[3][FORMAT_SIZE], size[LINE_SIZE], rest[LINE_SIZE] = "";
    if (!json_is_object(journal))
        return false;
    bool replaying = json_is_true(json_object_get(journal, "replaying")) || w->replaying;
    if (entries < GROUPED_MOST)
        format_grouped(number[0], entries);
    else
        format_rate(number[0], entries);
    snprintf(size, sizeof size, ", %s", format_bytes(number[1], bytes));
    if (waiting >= 1)
        snprintf(rest, sizeof rest, "; %s behind", format_duration(number[2], waiting));
    else if (!replaying)
        snprintf(rest, sizeof rest, "; %s free", format_bytes(number[2], free_bytes));
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, "journal  ");
    at = canvas_print(c, area, 0, at, STYLE_WARN, "%s", replaying ? "replaying " : "");
    at = canvas_print(c, area, 0, at, STYLE_PLAIN, "%s entries", number[0]);
    if (at + (int)(strlen(size) + strlen(rest)) <= area->columns)
        at = canvas_print(c, area, 0, at, STYLE_PLAIN, "%s", size);
    canvas_print(c, area, 0, at, waiting >= 1 ? STYLE_WARN : STYLE_PLAIN, "%s", rest);
    return true;
}

/* Draws one line; returns false without one. */
typedef bool draw_line(struct canvas *c, const struct area *area, const struct watched *w);

static bool draw_kept(struct canvas *c, const struct area *area, const struct watched *w) {
    return draw_journal(c, area, w) || draw_checkpoint(c, area, w);
}

static void draw_lines(struct canvas *c, const struct area *area, const struct watched *w,
                       draw_line *const *lines, size_t count) {
    int used = 0;
    for (size_t i = 0; i < count; i++) {
        struct area row = area_rows(area, used, 1);
        used += row.rows > 0 && lines[i](c, &row, w);
    }
}

static int draw_learning(struct canvas *c, const struct area *area, const struct watched *w,
                         int height) {
    int row = 0;
    for (size_t i = 0; i < sizeof learning / sizeof *learning; i++) {
        struct area slot = area_rows(area, row, height);
        if (!is_used(w, &learning[i]) || slot.rows == 0)
            continue;
        draw_meter(c, &slot, w, &learning[i]);
        row += height;
    }
    return row;
}

/* With height 1 one line each, else curves of three numbers with lines below. */
static void draw_running(struct canvas *c, const struct area *area, const struct watched *w,
                         int height) {
    static draw_line *const low[] = {draw_speed,   draw_latency, draw_queue,
                                     draw_refused, draw_kept,    draw_learned};
    static draw_line *const high[] = {draw_latency, draw_queue,      draw_refused,
                                      draw_journal, draw_checkpoint, draw_learned};
    if (height == 1) {
        draw_lines(c, area, w, low, sizeof low / sizeof *low);
        return;
    }
    int row = 0;
    for (size_t i = 0; i < sizeof running / sizeof *running; i++, row += height) {
        struct area slot = area_rows(area, row, height);
        draw_meter(c, &slot, w, &running[i]);
    }
    struct area rest = area_rows(area, row, area->rows - row);
    draw_lines(c, &rest, w, high, sizeof high / sizeof *high);
}

static int meters_slots(const struct watched *w) {
    int used = 0;
    for (size_t i = 0; i < sizeof learning / sizeof *learning; i++)
        used += is_used(w, &learning[i]);
    return METERS_SLOTS + (used > METERS_SLOTS);
}

/* Draws as many meters as fit, the most important first. In wide areas, all meters have the same
   height. */
static void meters_draw(struct canvas *c, const struct area *area, const struct watched *w) {
    static draw_line *const narrow[] = {draw_refused, draw_speed, draw_latency, draw_queue};
    if (area->columns >= METERS_WIDE) {
        int half = area->columns / 2, height = area->rows / meters_slots(w);
        struct area left = area_columns(area, 0, half - GAP);
        struct area right = area_columns(area, half, area->columns - half);
        draw_learning(c, &left, w, height < 1 ? 1 : height);
        draw_running(c, &right, w, height < 1 ? 1 : height);
        return;
    }
    draw_lines(c, area, w, narrow, sizeof narrow / sizeof *narrow);
    int row = sizeof narrow / sizeof *narrow;
    struct area rest = area_rows(area, row, area->rows - row);
    draw_learning(c, &rest, w, 1);
}

enum {
    TEXT_SIZE = 400,
    LOW = 16,         /* with fewer rows, layers and events are left out */
    TALL = 34,        /* minimum rows for meters of two rows */
    VERY_TALL = 45,   /* minimum rows for meters of three rows */
    EVENTS_LEAST = 2, /* with their heading */
    EVENTS_MOST = 12,
    VERDICTS = 3,
    ROOMY = 100, /* minimum columns for a second chart */
};

/* The state that the daemon reports, or the duration of its silence. */
static enum style describe_presence(const struct watched *w, char text[TEXT_SIZE]) {
    double quiet = health_quiet(&w->health);
    char clock[FORMAT_SIZE], duration[FORMAT_SIZE];
    format_clock(clock, (double)time(NULL) - quiet);
    format_duration(duration, quiet);
    if (w->refused) {
        snprintf(text, TEXT_SIZE, "REFUSED: %s", link_refusal(w->link));
        return STYLE_BAD;
    }
    if (w->hindered) {
        snprintf(text, TEXT_SIZE, "ACCESS DENIED: %s", link_refusal(w->link));
        return STYLE_BAD;
    }
    switch (w->health.presence) {
    case PRESENCE_EXPECTED:
        snprintf(text, TEXT_SIZE, "waiting for a daemon, %s", duration);
        return STYLE_WARN;
    case PRESENCE_SILENT:
        snprintf(text, TEXT_SIZE, "SILENT since %s (%s)", clock, duration);
        return STYLE_BAD;
    case PRESENCE_GONE:
        snprintf(text, TEXT_SIZE, "GONE since %s (%s)", clock, duration);
        return STYLE_BAD;
    case PRESENCE_SPEAKING:
        break;
    }
    const char *state = watched_state(w);
    snprintf(text, TEXT_SIZE, "%s%s", w->replaying ? "replaying, " : "", *state ? state : "?");
    return w->replaying || strcmp(state, "learning") != 0 ? STYLE_WARN : STYLE_BAR;
}

static void draw_bar(struct canvas *c, const struct area *area, const struct watched *w,
                     const struct pane_settings *settings) {
    char presence[TEXT_SIZE], right[TEXT_SIZE] = "", number[FORMAT_SIZE];
    enum style style = settings->focus ? STYLE_BAR : STYLE_OTHER;
    enum style state = describe_presence(w, presence);
    const struct sample *sample = watched_sample(w);
    double uptime;
    canvas_fill(c, area, 0, style);
    int at = canvas_print(c, area, 0, 0, style, " %s  ", watched_name(w));
    at = canvas_print(c, area, 0, at, state == STYLE_BAR ? style : state, "%s", presence);
    if (settings->frozen && sample)
        snprintf(right, sizeof right, "FROZEN at %s ", format_clock(number, sample->time));
    else if (member_number(w->status, "uptime", &uptime))
        snprintf(right, sizeof right, "up %s ",
                 format_duration(number, uptime + health_status_age(&w->health)));
    if (at + 2 + (int)strlen(right) <= area->columns)
        canvas_print_right(c, area, 0, style, right);
}

static void draw_model(struct canvas *c, const struct area *area, const struct watched *w) {
    const char *model = member_string(w->status, "model"),
               *device = member_string(w->status, "device");
    char count[FORMAT_SIZE] = "?";
    double parameters = 1;
    if (!w->status) {
        canvas_print(c, area, 0, 1, STYLE_DIM, "at %s", w->endpoint);
        return;
    }
    if (member_number(w->status, "parameters", &parameters))
        format_grouped(count, parameters);
    device = device ? device : "?";
    canvas_print(c, area, 0, 1, STYLE_DIM, "%s%s on %.*s; %s",
                 parameters > 0 ? count : "no network", parameters > 0 ? " parameters" : "",
                 (int)(area->columns < ROOMY ? strcspn(device, ",") : strlen(device)), device,
                 model ? model : "?");
}

/* Draws the three answers side by side if there is room, else below each other. Side by side they
   begin at thirds of the width, unless they are too long. */
static void draw_verdicts(struct canvas *c, const struct area *area, const struct watched *w,
                          const json_t *layers) {
    static const char *const questions[VERDICTS] = {"learning", "healthy", "keeps up"};
    struct verdict verdicts[VERDICTS] = {verdict_learning(w, c->utf8), verdict_health(w, layers),
                                         verdict_pace(w)};
    char answers[VERDICTS][TEXT_SIZE];
    bool wide = area->columns >= METERS_WIDE, thirds = true;
    for (int i = 0; i < VERDICTS; i++) {
        bool bad = verdicts[i].style == STYLE_BAD || verdicts[i].style == STYLE_WARN;
        snprintf(answers[i], TEXT_SIZE, "%s%s", bad ? "! " : "", verdicts[i].text);
        int width = canvas_width(questions[i]) + 2 + canvas_width(answers[i]);
        thirds = thirds && width + 2 <= area->columns / VERDICTS;
    }
    for (int i = 0, end = 0; i < VERDICTS; i++) {
        int row = wide ? 0 : i;
        int column = !wide || i == 0 ? 1 : thirds ? 1 + i * area->columns / VERDICTS : end + 2;
        end = canvas_print(c, area, row, column, STYLE_STRONG, "%s: ", questions[i]);
        end = canvas_print(c, area, row, end, verdicts[i].style, "%s", answers[i]);
    }
}

static const char *value_text(char text[FORMAT_SIZE], const struct sample *sample,
                              enum loss_field field) {
    return sample && isfinite(sample->values[field]) ? format_number(text, sample->values[field])
                                                     : "-";
}

static void draw_chart(struct canvas *c, const struct area *area, const struct watched *w,
                       bool log) {
    const struct sample *sample = watched_sample(w);
    char title[TEXT_SIZE], number[4][FORMAT_SIZE];
    const char *mean = value_text(number[0], sample, FIELD_mean);
    const char *smoothed = value_text(number[1], sample, FIELD_smoothed);
    if (area->columns < METERS_WIDE)
        snprintf(title, sizeof title, "loss %s, smoothed %s", mean, smoothed);
    else
        snprintf(title, sizeof title, "loss %s, smoothed %s, from %s to %s", mean, smoothed,
                 value_text(number[2], sample, FIELD_minimum),
                 value_text(number[3], sample, FIELD_maximum));
    canvas_heading(c, area, 0, title);
    struct area rest = area_rows(area, 1, area->rows - 1);
    chart_loss(c, &rest, w, log);
}

enum { EVENT_TEXT = 10 }; /* column after the time */

static int event_rows(const struct area *area, const struct happening *event, bool whole) {
    return whole ? canvas_wrap(NULL, area, 0, EVENT_TEXT, event->style, event->text) : 1;
}

/* The oldest visible event if the newest `below` events are hidden. */
static int first_event(const struct area *area, const struct watched *w, int below, bool whole) {
    int first = (int)w->event_count - below, room = area->rows - 1;
    while (first > 0 && (room -= event_rows(area, &w->events[first - 1], whole)) >= 0)
        first--;
    return first;
}

static void head_events(struct canvas *c, const struct area *area, int above, int below) {
    char title[TEXT_SIZE];
    if (below > 0)
        snprintf(title, sizeof title, "events: %d newer below, %d older above", below, above);
    else if (above > 0)
        snprintf(title, sizeof title, "events: %d older above", above);
    else
        snprintf(title, sizeof title, "events");
    canvas_heading(c, area, 0, title);
}

/* With `whole` an event may have several rows, else one. */
static void draw_events(struct canvas *c, const struct area *area, struct watched *w, bool whole) {
    char clock[FORMAT_SIZE];
    int count = (int)w->event_count, row = 1;
    int below = w->look.events < count ? w->look.events : count;
    while (below > 0 && (below >= count || first_event(area, w, below, whole) == 0) &&
           first_event(area, w, below - 1, whole) == 0)
        below--;
    w->look.events = below;
    int first = first_event(area, w, below, whole);
    head_events(c, area, first, below);
    for (int i = first; i < count - below; i++) {
        const struct happening *event = &w->events[i];
        struct area rows = area_rows(area, row, event_rows(area, event, whole));
        canvas_print(c, &rows, 0, 1, STYLE_DIM, "%s", format_clock(clock, event->time));
        if (whole)
            canvas_wrap(c, &rows, 0, EVENT_TEXT, event->style, event->text);
        else
            canvas_print(c, &rows, 0, EVENT_TEXT, event->style, "%s", event->text);
        row += rows.rows;
    }
    if (count == 0)
        canvas_print(c, area, 1, 1, STYLE_DIM, "no events yet");
}

/* The rows of a pane's parts, from top to bottom; 0 = left out. */
struct layout {
    int verdicts, chart, forecast, broker, meters, layers, events;
};

/* The rows of this number of panels. */
static int panel_rows(const struct area *area, int layers) {
    int abreast = layers_abreast(area->columns);
    return (layers + abreast - 1) / abreast * LAYERS_PANEL_ROWS;
}

static struct layout lay_out(const struct area *area, int layers, const struct watched *w) {
    bool wide = area->columns >= METERS_WIDE;
    struct layout l = {.verdicts = wide ? 1 : VERDICTS};
    int height = area->rows >= VERY_TALL ? 3 : area->rows >= TALL ? 2 : 1;
    int rest = area->rows - l.verdicts;
    l.forecast = area->rows < LOW ? 0 : !!w->truth + !!json_object_size(w->experts);
    l.broker = area->rows >= LOW ? broker_rows(w) : 0;
    rest -= l.forecast + l.broker;
    l.meters = wide ? meters_slots(w) * height : METERS_ROWS;
    int most = wide ? rest / 2 : rest / 3;
    l.meters = l.meters > most ? most : l.meters;
    rest -= l.meters;
    if (area->rows >= LOW) {
        int panels = panel_rows(area, layers);
        l.layers = layers + 1 > rest / 3 ? rest / 3 : layers + 1;
        if (panels <= rest * 2 / 5)
            l.layers = panels;
        l.events = rest / 5 < EVENTS_LEAST ? EVENTS_LEAST : rest / 5;
        l.events = l.events > EVENTS_MOST ? EVENTS_MOST : l.events;
    }
    l.chart = rest - l.layers - l.events;
    return l;
}

/* Draws panels if all layers fit, or with `some` if any fits; else lines. */
static void draw_layers(struct canvas *c, const struct area *area, const json_t *layers, int *first,
                        bool some) {
    int least = some ? LAYERS_PANEL_ROWS : panel_rows(area, (int)json_array_size(layers));
    if (json_array_size(layers) == 0 && area->rows > 0)
        canvas_print(c, area, 0, 1, STYLE_DIM, "no layers yet");
    else if (area->rows >= least && area->columns >= LAYERS_PANEL_COLUMNS)
        layers_panels(c, area, layers, first);
    else
        layers_table(c, area, layers, first);
}

static struct area cut_rows(struct area *rest, int rows) {
    struct area taken = area_rows(rest, 0, rows);
    *rest = area_rows(rest, rows, rest->rows - rows);
    return taken;
}

static void draw_overview(struct canvas *c, struct area rest, struct watched *w,
                          const json_t *layers, bool log) {
    struct layout layout = lay_out(&rest, (int)json_array_size(layers), w);
    struct area part = cut_rows(&rest, layout.verdicts);
    draw_verdicts(c, &part, w, layers);
    part = cut_rows(&rest, layout.chart);
    if (part.rows > 0)
        draw_chart(c, &part, w, log);
    part = cut_rows(&rest, layout.forecast);
    if (part.rows > 0)
        forecast_draw(c, &part, w);
    part = cut_rows(&rest, layout.broker);
    if (part.rows > 0)
        broker_draw(c, &part, w);
    part = cut_rows(&rest, layout.meters);
    meters_draw(c, &part, w);
    part = cut_rows(&rest, layout.layers);
    draw_layers(c, &part, layers, &w->look.layers, false);
    part = cut_rows(&rest, layout.events);
    if (part.rows > 1)
        draw_events(c, &part, w, false);
}

void pane_draw(struct canvas *c, const struct area *area, struct watched *w,
               const struct pane_settings *settings) {
    json_t *layers = watched_layers(w);
    struct area rest = *area, part = cut_rows(&rest, 1);
    draw_bar(c, &part, w, settings);
    if (area->rows >= LOW && (area->columns >= METERS_WIDE || area->rows >= TALL)) {
        part = cut_rows(&rest, 1);
        draw_model(c, &part, w);
    }
    if (settings->view == VIEW_LOSS) {
        part = cut_rows(&rest,
                        rest.rows - (area->columns < METERS_WIDE ? METERS_ROWS : meters_slots(w)));
        draw_chart(c, &part, w, settings->log);
        meters_draw(c, &rest, w);
    } else if (settings->view == VIEW_LAYERS) {
        draw_layers(c, &rest, layers, &w->look.layers, true);
    } else if (settings->view == VIEW_EVENTS) {
        draw_events(c, &rest, w, true);
    } else {
        draw_overview(c, rest, w, layers, settings->log);
    }
    json_decref(layers);
}
