#include "top_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"

/* ---- Plot ----

   Curves in dots: braille patterns with 2 x 4 dots in a character, or one character a dot in ASCII.
   A plot has a curve and a band, which is dotted so that the curve is visible without colours,
   too. */

struct plot {
    struct canvas *canvas;
    struct area area;
    int across, down;           /* dots in a character */
    int width, height;          /* in dots */
    double low, high;           /* values at the lowest and highest dot, low < high */
    bool log;                   /* logarithmic; all values are positive */
    unsigned char *line, *band; /* (area.rows, area.columns) bits of dots in a character; owned */
    int dot, row;               /* current end of the curve; dot < 0: none */
};

/* A range of values; initialize with {INFINITY, -INFINITY}. */
struct range {
    double low, high;
};

/* Ignores values that are not finite. Inline, since it is called for every sample of every
   frame. */
static inline void range_add(struct range *range, double value) {
    if (!isfinite(value))
        return;
    if (value < range->low)
        range->low = value;
    if (value > range->high)
        range->high = value;
}

enum { ACROSS = 2, DOWN = 4, NOWHERE = -1 };

#define BRAILLE 0x2800
#define MARGIN 0.05 /* above and below a constant value */

/* The plot fills the area. Returns -1 when out of memory. */
static int plot_open(struct plot *p, struct canvas *canvas, const struct area *area, double low,
                     double high, bool log) {
    *p = (struct plot){.canvas = canvas, .area = *area, .low = low, .high = high, .log = log};
    p->across = canvas->utf8 ? ACROSS : 1;
    p->down = canvas->utf8 ? DOWN : 1;
    p->width = area->columns * p->across;
    p->height = area->rows * p->down;
    p->dot = NOWHERE;
    size_t count = (size_t)area->rows * (size_t)area->columns;
    p->line = calloc(count + 1, 1);
    p->band = calloc(count + 1, 1);
    if (p->line && p->band)
        return 0;
    free(p->line);
    free(p->band);
    return -1;
}

/* Unicode numbers the dots of the upper three rows column by column, then the fourth row. */
static void set(const struct plot *p, unsigned char *bits, int dot, int row) {
    static const unsigned char masks[DOWN][ACROSS] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (dot < 0 || dot >= p->width || row < 0 || row >= p->height)
        return;
    int cell = row / p->down * p->area.columns + dot / p->across;
    bits[cell] |= masks[row % p->down][dot % p->across];
}

/* The row of dots, 0 at the top. */
static int row_of(const struct plot *p, double value) {
    double low = p->low, high = p->high;
    if (p->log) {
        value = log(fmax(value, low));
        low = log(low);
        high = log(high);
    }
    double share = fmin(1, fmax(0, (value - low) / (high - low)));
    return (int)lround((1 - share) * (p->height - 1));
}

/* Draws the band between two values in the dot columns `from` to `to`, both included. */
static void plot_band(struct plot *p, int from, int to, double low, double high) {
    int top = row_of(p, high), bottom = row_of(p, low);
    bool thin = bottom - top < 2 || p->down == 1;
    for (int dot = from; dot <= to; dot++)
        for (int row = top; row <= bottom; row++)
            if (thin || (dot + row) % 2 == 0)
                set(p, p->band, dot, row);
}

/* Interrupts the curve. */
static void plot_lift(struct plot *p) {
    p->dot = NOWHERE;
}

/* Continues the curve to the value at this column of dots, in a straight line from its end. */
static void plot_curve(struct plot *p, int dot, double value) {
    int row = row_of(p, value);
    if (p->dot < 0) {
        set(p, p->line, dot, row);
    } else {
        int across = dot - p->dot, down = row - p->row;
        int steps = abs(across) > abs(down) ? abs(across) : abs(down);
        for (int i = 0; i <= steps; i++)
            set(p, p->line, p->dot + (steps ? (int)lround((double)i * across / steps) : 0),
                p->row + (steps ? (int)lround((double)i * down / steps) : 0));
    }
    p->dot = dot;
    p->row = row;
}

/* Draws the plot on the canvas and frees it. */
static void plot_close(struct plot *p, enum style line, enum style band) {
    for (int row = 0; row < p->area.rows; row++)
        for (int column = 0; column < p->area.columns; column++) {
            int cell = row * p->area.columns + column;
            unsigned char bits = p->line[cell] ? p->line[cell] : p->band[cell];
            wchar_t ascii = p->line[cell] ? L'*' : L':';
            if (bits)
                canvas_put(p->canvas, &p->area, row, column, p->line[cell] ? line : band,
                           p->canvas->utf8 ? (wchar_t)(BRAILLE + bits) : ascii);
        }
    free(p->line);
    free(p->band);
    p->line = p->band = NULL;
}

/* Widens the range so that low < high; an empty range becomes 0..1. */
static void range_finish(struct range *r) {
    if (!(r->low <= r->high))
        *r = (struct range){0, 1};
    double least = MARGIN * fmax(fabs(r->low), fabs(r->high));
    if (least == 0)
        least = 1;
    if (!(r->high - r->low > least * 1e-9)) {
        r->low -= least;
        r->high += least;
    }
}

enum {
    LABEL = 8,       /* columns of a number and the axis */
    BELOW = 2,       /* rows of the axis and its labels */
    MARKED = 3,      /* labelled rows: top, middle, bottom */
    AXIS_SIZE = 160, /* size of the text below the axis */
};

#define BEYOND 0.5      /* above and below the range of means and curve */
#define BEYOND_LOG 10.0 /* times the greatest value, and part of the least */

/* The visible samples, and their columns of dots. */
struct window {
    const struct sample *samples;
    size_t count;
    double begin, end; /* examples */
};

static struct window window_of(const struct watched *w) {
    const struct past *p = &w->past;
    double end = watched_cursor(w);
    struct window window = {.end = end};
    if (p->count == 0 || isnan(end))
        return window;
    double first = p->samples[0].examples;
    window.begin = w->look.span > 0 ? fmax(first, end - w->look.span) : first;
    size_t from = past_after(p, window.begin), to = past_after(p, end);
    from -= from > 0; /* the previous sample, where the curve begins */
    window.samples = p->samples + from;
    window.count = to > from ? to - from : 0;
    return window;
}

/* The rounded column of dots, at most a chart's width to the left. */
static int dot_of(const struct window *window, int width, double examples) {
    double length = window->end - window->begin;
    double share = length > 0 ? (examples - window->begin) / length : 1;
    return (int)((share >= -1 ? share : -1) * (width - 1) + width + 0.5) - width;
}

/* The axis covers means and curve, and a little more where the band exceeds them: the greatest loss
   of a single example would flatten the chart. Returns whether the axis is logarithmic, which
   requires positive values. */
static bool loss_range(struct range *range, const struct window *window, bool log) {
    struct range means = {INFINITY, -INFINITY}, band = means;
    for (size_t i = 0; i < window->count; i++) {
        const double *values = window->samples[i].values;
        range_add(&means, values[FIELD_mean]);
        range_add(&means, values[FIELD_smoothed]);
        range_add(&band, values[FIELD_minimum]);
        range_add(&band, values[FIELD_maximum]);
    }
    log = log && means.low > 0;
    double more = BEYOND * (means.high - means.low);
    *range = means;
    range_add(range, fmax(band.low, log ? means.low / BEYOND_LOG : means.low - more));
    range_add(range, fmin(band.high, log ? means.high * BEYOND_LOG : means.high + more));
    range_finish(range);
    return log && range->low > 0;
}

/* The samples in one column of dots. */
struct column {
    int dot;
    struct range band, curve;
    double last; /* last value of the curve; NaN = none */
    bool apart;  /* after a gap */
};

/* Joins the samples from *i on that share a column, and moves *i behind them. */
static struct column next_column(const struct window *window, int width, size_t *i,
                                 enum loss_field low, enum loss_field high, enum loss_field curve) {
    struct column column = {.dot = dot_of(window, width, window->samples[*i].examples),
                            .band = {INFINITY, -INFINITY},
                            .curve = {INFINITY, -INFINITY},
                            .last = NAN,
                            .apart = window->samples[*i].apart};
    for (; *i < window->count; (*i)++) {
        const struct sample *sample = &window->samples[*i];
        if (dot_of(window, width, sample->examples) != column.dot)
            break;
        range_add(&column.band, sample->values[low]);
        range_add(&column.band, sample->values[high]);
        range_add(&column.curve, sample->values[curve]);
        if (isfinite(sample->values[curve]))
            column.last = sample->values[curve];
    }
    return column;
}

static void plot_column(struct plot *p, const struct column *column) {
    if (column->apart)
        plot_lift(p);
    if (isnan(column->last))
        return;
    if (column->curve.low < column->curve.high) {
        plot_curve(p, column->dot, column->curve.low);
        plot_curve(p, column->dot, column->curve.high);
    }
    plot_curve(p, column->dot, column->last);
}

static void draw_loss(struct plot *p, const struct window *window) {
    int before = -1;
    for (size_t i = 0; i < window->count;) {
        struct column column =
            next_column(window, p->width, &i, FIELD_minimum, FIELD_maximum, FIELD_smoothed);
        int from = before < 0 || column.apart ? column.dot : before + 1;
        if (column.dot >= 0 && column.band.low <= column.band.high)
            plot_band(p, from, column.dot, column.band.low, column.band.high);
        plot_column(p, &column);
        before = column.dot;
    }
}

static void label_axis(struct canvas *c, const struct area *area, const struct plot *p) {
    for (int row = 0; row < area->rows; row++)
        canvas_print(c, area, row, LABEL - 1, STYLE_DIM, "%s", canvas_text(c, "│", "|"));
    for (int i = 0; i < MARKED; i++) {
        int row = i * (area->rows - 1) / (MARKED - 1);
        double share = area->rows > 1 ? 1 - (double)row / (area->rows - 1) : 0;
        double value =
            p->log ? p->low * pow(p->high / p->low, share) : p->low + share * (p->high - p->low);
        char number[FORMAT_SIZE];
        format_number(number, value);
        canvas_print(c, area, row, 0, STYLE_DIM, "%7s%s", number, canvas_text(c, "┤", "+"));
    }
}

static void mark_events(struct canvas *c, const struct area *row, const struct watched *w,
                        const struct window *window) {
    for (int column = 0; column < row->columns; column++)
        canvas_put(c, row, 0, column, STYLE_DIM, c->utf8 ? L'─' : L'-');
    for (size_t i = 0; i < w->event_count; i++) {
        const struct happening *event = &w->events[i];
        if (event->mark && event->examples >= window->begin && event->examples <= window->end)
            canvas_put(c, row, 0, dot_of(window, row->columns, event->examples), event->style,
                       (wchar_t)event->mark);
    }
}

/* Below the axis: its ends, and the legend if there is room. */
static void label_examples(struct canvas *c, const struct area *row, const struct window *window,
                           bool wanted_log, bool log) {
    char first[FORMAT_SIZE], last[FORMAT_SIZE], middle[AXIS_SIZE];
    char right[FORMAT_SIZE + sizeof " examples"];
    format_grouped(first, window->begin);
    snprintf(right, sizeof right, "%s examples", format_grouped(last, window->end));
    if (window->begin < window->end)
        canvas_print(c, row, 0, 0, STYLE_DIM, "%s", first);
    canvas_print_right(c, row, 0, STYLE_DIM, right);
    const char *scale = log ? ", log" : wanted_log ? ", no log: not all > 0" : "";
    snprintf(middle, sizeof middle, "loss: %s smoothed  %s min..max%s", canvas_text(c, "━", "*"),
             canvas_text(c, "⢕", ":"), scale);
    int room = row->columns - (int)strlen(first) - (int)strlen(right), width = canvas_width(middle);
    if (width + 4 <= room)
        canvas_print(c, row, 0, (int)strlen(first) + (room - width) / 2, STYLE_DIM, "%s", middle);
}

/* Text for an empty chart, with the interval of losses if known. */
static void draw_none(struct canvas *c, const struct area *area, const json_t *status) {
    char every[FORMAT_SIZE], seconds[FORMAT_SIZE];
    double count = status_number(status, STATUS_every);
    double time = status_number(status, STATUS_every_seconds);
    int row = area->rows / 2;
    int at = canvas_print(c, area, row, LABEL, STYLE_DIM, "no loss yet");
    if (count >= 1)
        at = canvas_print(c, area, row, at, STYLE_DIM, ": one every %s example%s",
                          format_grouped(every, count), count > 1 ? "s" : "");
    if (count > 1 && time > 0)
        canvas_print(c, area, row, at, STYLE_DIM, " or %s", format_duration(seconds, time));
}

void chart_loss(struct canvas *c, const struct area *area, const struct watched *w, bool log) {
    struct area upper = area_rows(area, 0, area->rows - BELOW);
    struct area inside = area_columns(&upper, LABEL, area->columns - LABEL);
    struct area axis = area_rows(area, area->rows - BELOW, 1);
    struct area labels = area_rows(area, area->rows - 1, 1);
    struct window window = window_of(w);
    if (inside.rows < 1 || inside.columns < 1)
        return;
    if (window.count == 0) {
        draw_none(c, &upper, w->status);
        return;
    }
    struct range range;
    struct plot plot;
    bool drawn_log = loss_range(&range, &window, log);
    if (plot_open(&plot, c, &inside, range.low, range.high, drawn_log))
        return;
    label_axis(c, &upper, &plot);
    draw_loss(&plot, &window);
    plot_close(&plot, STYLE_LINE, STYLE_BAND);
    axis = area_columns(&axis, LABEL, axis.columns - LABEL);
    labels = area_columns(&labels, LABEL, labels.columns - LABEL);
    mark_events(c, &axis, w, &window);
    label_examples(c, &labels, &window, log, drawn_log);
}

void chart_field(struct canvas *c, const struct area *area, const struct watched *w,
                 enum loss_field field) {
    struct window window = window_of(w);
    struct range range = {INFINITY, -INFINITY};
    struct plot plot;
    if (area->rows < 1 || area->columns < 1 || window.count == 0)
        return;
    for (size_t i = 0; i < window.count; i++)
        range_add(&range, window.samples[i].values[field]);
    if (!(range.low <= range.high))
        return;
    range_finish(&range);
    if (plot_open(&plot, c, area, range.low, range.high, false))
        return;
    for (size_t i = 0; i < window.count;) {
        struct column column = next_column(&window, plot.width, &i, field, field, field);
        plot_column(&plot, &column);
    }
    plot_close(&plot, STYLE_LINE, STYLE_BAND);
}
