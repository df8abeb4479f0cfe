#include "report_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/grid.h"
#include "common/quantile.h"
#include "common/text.h"
#include "report_scale.h"

static const char *const dashes[] = {
#define COLOUR(light, dark)
#define DASHES(pattern) pattern,
#include "common/palette.def"
#undef COLOUR
#undef DASHES
};
enum {
    LOOKS = 0
#define COLOUR(light, dark) +1
#define DASHES(pattern)
#include "common/palette.def"
#undef COLOUR
#undef DASHES
    ,
    DASH_PATTERNS = sizeof dashes / sizeof *dashes,
};

/* Of a chart, in units of its own that are about the screen's. */
enum {
    WIDTH = 760,
    HEIGHT = 330,
    LEFT = 62,
    RIGHT = 16,
    TOP = 30,
    BOTTOM = 44,
    TICK_LENGTH = 4,
    LETTER = 7,     /* a letter is about so wide */
    NAME_MOST = 40, /* letters */
    ROW_HEIGHT = 20,
    DOT = 3,
    ARROW = 4, /* half of its width */
    CELL_WIDTH = 74,
    CELL_HEIGHT = 28,
    NAME_SIZE = 256,
};

/* From where on a scale is logarithmic, and where values lie so far beyond nearly all others that
   they would hide them. */
#define LOG_RATIO 10
#define ORDINARY_SHARE 0.98
#define BEYOND_RATIO 10
#define ROOM_ABOVE 1.2

/* ---- Texts ---- */

void svg_text(FILE *to, const char *text) {
    size_t size = strlen(text) + 1;
    char *clean = malloc(size);
    if (!clean)
        return;
    memcpy(clean, text, size);
    text_clean(clean);
    for (const char *c = clean; *c; c++)
        switch (*c) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc(*c, to);
        }
    free(clean);
}

static void label(FILE *to, double x, double y, const char *anchor, const char *text) {
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    svg_text(to, text);
    fputs("</text>\n", to);
}

/* ---- Scales of charts ---- */

/* Whether a value is left out: it is below the floor, and not all are. */
static bool is_below(const double *floor, double value, double greatest) {
    return floor && value < *floor && greatest > *floor;
}

/* For the bands of what is shown, and for whole dots at the edges. */
static void make_room(struct scale *s, const struct svg_chart *chart) {
    static const double SHARE = 0.03;
    double low = s->low, high = s->high;
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; chart->curves[i].low && k < chart->curves[i].count; k++) {
            const struct svg_curve *c = &chart->curves[i];
            double least = c->low[k], greatest = c->high[k];
            if (!(c->y[k] >= low && c->y[k] <= high) || !scale_fits(s, least))
                continue;
            s->low = fmin(s->low, is_below(chart->floor, least, high) ? *chart->floor : least);
            s->high = isfinite(greatest) ? fmax(s->high, greatest) : s->high;
        }
    double room = SHARE * (s->log ? log(s->high / s->low) : s->high - s->low);
    s->low = s->log ? s->low * exp(-room) : s->low - room;
    s->high = s->log ? s->high * exp(room) : s->high + room;
}

/* Over all values of the curves; those that lie far beyond nearly all others do not count. */
static struct scale scale_of_y(const struct svg_chart *chart) {
    struct scale s = {.low = INFINITY, .high = -INFINITY, .from = HEIGHT - BOTTOM, .to = TOP};
    size_t count = 0, room = 1;
    for (size_t i = 0; i < chart->count; i++)
        room += chart->curves[i].count;
    double *values = malloc(room * sizeof *values);
    for (size_t i = 0; values && i < chart->count; i++)
        for (size_t k = 0; k < chart->curves[i].count; k++)
            if (isfinite(chart->curves[i].y[k]))
                values[count++] = chart->curves[i].y[k];
    if (count) {
        quantile_sort(values, count);
        double ordinary = values[(size_t)(ORDINARY_SHARE * (double)(count - 1))];
        s.low = values[0];
        s.high = values[count - 1];
        s.log = s.low > 0 && ordinary > LOG_RATIO * s.low;
        if (s.high - s.low > BEYOND_RATIO * (ordinary - s.low) && ordinary > s.low)
            s.high = s.low + ROOM_ABOVE * (ordinary - s.low);
        /* Skill has no lower bound: a diverging variant would hide all others. */
        double least = values[count - 1 - (size_t)(ORDINARY_SHARE * (double)(count - 1))];
        if (!s.log && s.high - s.low > BEYOND_RATIO * (s.high - least) && s.high > least)
            s.low = s.high - ROOM_ABOVE * (s.high - least);
    }
    for (size_t i = 0; i < count && is_below(chart->floor, s.low, s.high); i++)
        s.low = values[i];
    free(values);
    scale_widen(&s);
    make_room(&s, chart);
    return s;
}

static struct scale scale_of_x(const struct svg_chart *chart) {
    struct scale s = {.low = INFINITY, .high = -INFINITY, .from = LEFT, .to = WIDTH - RIGHT};
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; k < chart->curves[i].count; k++) {
            s.low = fmin(s.low, chart->curves[i].x[k]);
            s.high = fmax(s.high, chart->curves[i].x[k]);
        }
    s.log = chart->log_x && s.low > 0;
    if (!chart->log_x && s.low > 0 && s.low < s.high / 2)
        s.low = 0;
    scale_widen(&s);
    return s;
}

/* ---- Frame ---- */

static void begin(FILE *to, int width, int height, const char *title) {
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 %d %d\" "
            "role=\"img\">\n<title>",
            width, height);
    svg_text(to, title);
    fputs("</title>\n", to);
    fprintf(to, "<text class=\"title\" x=\"%d\" y=\"%d\">", 4, TOP - 14);
    svg_text(to, title);
    fputs("</text>\n", to);
}

static void draw_axes(FILE *to, const struct scale *x, const struct scale *y, const char *x_title,
                      const char *y_title, int height) {
    double ticks[SCALE_TICKS_MOST], bottom = height - BOTTOM;
    char text[SCALE_TEXT_SIZE];
    size_t count = scale_ticks(x, ticks);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/>\n", scale_place(x, ticks[i]), TOP,
                bottom + TICK_LENGTH);
        scale_text(text, ticks[i]);
        label(to, scale_place(x, ticks[i]), bottom + TICK_LENGTH + 12, "middle", text);
    }
    label(to, (x->from + x->to) / 2, height - 8, "middle", x_title);
    if (!y)
        return;
    count = scale_ticks(y, ticks);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT - TICK_LENGTH,
                scale_place(y, ticks[i]), WIDTH - RIGHT);
        scale_text(text, ticks[i]);
        label(to, LEFT - TICK_LENGTH - 3, scale_place(y, ticks[i]) + 4, "end", text);
    }
    fprintf(to,
            "<text class=\"side\" transform=\"translate(12 %d) rotate(-90)\" "
            "text-anchor=\"middle\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    svg_text(to, y_title);
    fputs("</text>\n", to);
}

/* ---- Lines ---- */

/* stroke or fill: a colour, and the dashes beyond the first round of colours. */
static void put_look(FILE *to, const char *what, int look) {
    if (look < 0)
        fprintf(to, "style=\"%s:var(--faint)\" stroke-dasharray=\"2 3\"", what);
    else
        fprintf(to, "style=\"%s:var(--c%d)\"", what, look % LOOKS);
    const char *dash = look < 0 ? "" : dashes[look / LOOKS % DASH_PATTERNS];
    if (*dash)
        fprintf(to, " stroke-dasharray=\"%s\"", dash);
}

/* What is below the chart: on its edge where points have dots, which says so. */
static double place_of_y(const struct svg_curve *c, const struct scale *y, double value) {
    return scale_place(y, c->dots ? fmax(value, y->low) : value);
}

/* Whether there is a band beside a line that can be seen: one at least of its ends. */
static bool has_band(const struct svg_curve *c, const struct scale *y, size_t i) {
    bool seen = c->y[i] >= y->low || (i && c->y[i - 1] >= y->low) ||
                (i + 1 < c->count && c->y[i + 1] >= y->low);
    return seen && scale_fits(y, c->low[i]) && scale_fits(y, c->high[i]);
}

/* From a point that has a band to the last one before a gap: up along the greatest, and back. */
static size_t draw_band_part(FILE *to, const struct svg_curve *c, const struct scale *x,
                             const struct scale *y, size_t from) {
    size_t end = from;
    for (; end < c->count && has_band(c, y, end); end++)
        fprintf(to, "%c%.1f %.1f", end == from ? 'M' : 'L', scale_place(x, c->x[end]),
                place_of_y(c, y, c->high[end]));
    for (size_t i = end; i-- > from;)
        fprintf(to, "L%.1f %.1f", scale_place(x, c->x[i]), place_of_y(c, y, c->low[i]));
    fputs(end > from ? "Z" : "", to);
    return end > from ? end : from + 1;
}

static void draw_band(FILE *to, const struct svg_curve *c, const struct scale *x,
                      const struct scale *y) {
    if (!c->low)
        return;
    fputs("<path class=\"band\" ", to);
    put_look(to, "fill", c->look);
    fputs(" d=\"", to);
    for (size_t i = 0; i < c->count;)
        i = draw_band_part(to, c, x, y, i);
    fputs("\"/>\n", to);
}

static void draw_curve(FILE *to, const struct svg_curve *c, const struct scale *x,
                       const struct scale *y) {
    bool drawn = false;
    fprintf(to, "<path class=\"%s\" ", c->look < 0 ? "baseline" : "curve");
    put_look(to, "stroke", c->look);
    fputs(" d=\"", to);
    for (size_t i = 0; i < c->count; i++) {
        bool there = scale_fits(y, c->y[i]) && scale_fits(x, c->x[i]);
        if (there)
            fprintf(to, "%c%.1f %.1f", drawn ? 'L' : 'M', scale_place(x, c->x[i]),
                    place_of_y(c, y, c->y[i]));
        drawn = there;
    }
    fputs("\"><title>", to);
    svg_text(to, c->name);
    fputs("</title></path>\n", to);
    for (size_t i = 0; c->dots && i < c->count; i++)
        if (scale_fits(y, c->y[i]) && scale_fits(x, c->x[i])) {
            double across = scale_place(x, c->x[i]), down = place_of_y(c, y, c->y[i]);
            if (c->y[i] < y->low)
                fprintf(to, "<path class=\"below\" d=\"M%.1f %.1fl%d %dh%dz\" ", across, down,
                        -ARROW, -2 * ARROW, 2 * ARROW);
            else
                fprintf(to, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" ", across, down,
                        DOT);
            put_look(to, "fill", c->look);
            fputs("/>\n", to);
        }
}

void svg_lines(FILE *to, const struct svg_chart *chart) {
    struct scale x = scale_of_x(chart), y = scale_of_y(chart);
    begin(to, WIDTH, HEIGHT, chart->title);
    fprintf(to,
            "<clipPath id=\"clip%d\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>"
            "</clipPath>\n",
            chart->id, LEFT, TOP - 2, WIDTH - RIGHT - LEFT + DOT, HEIGHT - BOTTOM - TOP + 4);
    draw_axes(to, &x, &y, chart->x_title, chart->y_title, HEIGHT);
    fprintf(to, "<g clip-path=\"url(#clip%d)\">\n", chart->id);
    for (size_t i = 0; i < chart->count; i++)
        draw_band(to, &chart->curves[i], &x, &y);
    for (size_t i = 0; i < chart->count; i++)
        draw_curve(to, &chart->curves[i], &x, &y);
    fputs("</g>\n</svg>\n", to);
}

void svg_sample(FILE *to, int look) {
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sample\" viewBox=\"0 0 28 8\"><path "
          "class=\"line\" ",
          to);
    put_look(to, "stroke", look);
    fputs(" d=\"M1 4H27\"/></svg>", to);
}

/* ---- Rows ---- */

static struct scale scale_of_rows(const struct svg_row *rows, size_t count, int left,
                                  const double *floor) {
    struct scale s = {.low = INFINITY, .high = -INFINITY, .from = left, .to = WIDTH - RIGHT};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rows[i].count; k++)
            if (isfinite(rows[i].values[k]))
                s.high = fmax(s.high, rows[i].values[k]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rows[i].count; k++)
            if (isfinite(rows[i].values[k]) && !is_below(floor, rows[i].values[k], s.high))
                s.low = fmin(s.low, rows[i].values[k]);
    s.log = s.low > 0 && s.high > LOG_RATIO * s.low;
    double room = isfinite(s.high - s.low) ? (s.high - s.low) / 50 : 0;
    if (!s.log) {
        s.low -= room;
        s.high += room;
    }
    scale_widen(&s);
    return s;
}

static void draw_row(FILE *to, const struct svg_row *row, const struct scale *x, double y) {
    for (size_t k = 0; k < row->count; k++)
        if (scale_fits(x, row->values[k]) && row->values[k] >= x->low) {
            fprintf(to, "<circle class=\"seed\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" ",
                    scale_place(x, row->values[k]), y, DOT);
            put_look(to, "fill", row->look);
            fputs("/>\n", to);
        }
    if (!scale_fits(x, row->mean))
        return;
    if (row->mean < x->low) {
        char text[SCALE_TEXT_SIZE], edge[SCALE_TEXT_SIZE + 4];
        scale_text(text, row->mean);
        snprintf(edge, sizeof edge, "\u2190 %s", text);
        label(to, x->from + 4, y + 4, "start", edge);
        return;
    }
    fprintf(to, "<path class=\"mean\" ");
    fprintf(to, "style=\"stroke:var(--c%d)\" d=\"M%.1f %.1fv%d\"><title>", row->look % LOOKS,
            scale_place(x, row->mean), y - ROW_HEIGHT / 2.0 + 2, ROW_HEIGHT - 4);
    svg_text(to, row->name);
    fprintf(to, ": %.6g</title></path>\n", row->mean);
}

void svg_rows(FILE *to, const char *title, const char *x_title, const struct svg_row *rows,
              size_t count, const double *floor) {
    char name[NAME_SIZE];
    int widest = 0, height = TOP + BOTTOM + ROW_HEIGHT * (int)count;
    for (size_t i = 0; i < count; i++) {
        int length = grid_length(rows[i].name);
        widest = length > widest ? length : widest;
    }
    widest = widest < NAME_MOST ? widest : NAME_MOST;
    struct scale x = scale_of_rows(rows, count, LETTER * widest + 12, floor);
    begin(to, WIDTH, height, title);
    draw_axes(to, &x, NULL, x_title, NULL, height);
    for (size_t i = 0; i < count; i++) {
        double y = TOP + ROW_HEIGHT * ((double)i + 0.5);
        snprintf(name, sizeof name, "%s", rows[i].name);
        grid_shorten(name, NAME_MOST);
        label(to, x.from - 8, y + 4, "end", name);
        draw_row(to, &rows[i], &x, y);
    }
    fputs("</svg>\n", to);
}

/* ---- Fields ---- */

static int widest_of(const char *const *names, size_t count) {
    int widest = 0;
    for (size_t i = 0; i < count; i++) {
        int length = grid_length(names[i]);
        widest = length > widest ? length : widest;
    }
    return widest;
}

void svg_heat(FILE *to, const struct svg_heat *h) {
    static const double PALE = 0.04, STRONG = 0.55;
    double low = INFINITY, high = -INFINITY;
    int left = LETTER * widest_of(h->rows, h->row_count) + 16, top = TOP + 34;
    int name = LETTER * (grid_length(h->down) + 1);
    left = left > name ? left : name;
    for (size_t i = 0; i < h->row_count * h->column_count; i++)
        high = isfinite(h->values[i]) ? fmax(high, h->values[i]) : high;
    for (size_t i = 0; i < h->row_count * h->column_count; i++)
        if (isfinite(h->values[i]) && !is_below(h->floor, h->values[i], high))
            low = fmin(low, h->values[i]);
    int cell = LETTER * widest_of(h->columns, h->column_count) + 10;
    cell = cell > CELL_WIDTH ? cell : CELL_WIDTH;
    int width = left + cell * (int)h->column_count + RIGHT;
    begin(to, width > WIDTH ? width : WIDTH, top + CELL_HEIGHT * (int)h->row_count + 8, h->title);
    label(to, left + cell * (double)h->column_count / 2, TOP + 10, "middle", h->across);
    label(to, left - 8, top - 8, "end", h->down);
    for (size_t k = 0; k < h->column_count; k++)
        label(to, left + cell * ((double)k + 0.5), top - 8, "middle", h->columns[k]);
    for (size_t i = 0; i < h->row_count; i++) {
        double y = top + CELL_HEIGHT * (double)i;
        label(to, left - 8, y + CELL_HEIGHT / 2.0 + 4, "end", h->rows[i]);
        for (size_t k = 0; k < h->column_count; k++) {
            double value = h->values[i * h->column_count + k], x = left + cell * (double)k;
            double share = high > low ? fmax(0, value - low) / (high - low) : 0.5;
            char text[NAME_SIZE];
            if (!isfinite(value)) {
                label(to, x + cell / 2.0, y + CELL_HEIGHT / 2.0 + 4, "middle", "-");
                continue;
            }
            share = h->larger_better ? share : 1 - share;
            fprintf(to,
                    "<rect class=\"field\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
                    "fill-opacity=\"%.3f\"/>\n",
                    x + 1, y + 1, cell - 2, CELL_HEIGHT - 2, PALE + (STRONG - PALE) * share);
            scale_text(text, value);
            label(to, x + cell / 2.0, y + CELL_HEIGHT / 2.0 + 4, "middle", text);
        }
    }
    fputs("</svg>\n", to);
}
