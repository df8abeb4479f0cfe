#include "build-config.h"

#include "top_plot.h"

#include <math.h>
#include <stdlib.h>

enum { ACROSS = 2, DOWN = 4, NOWHERE = -1 };

#define BRAILLE 0x2800
#define MARGIN 0.05 /* of a value that never changes, above and below it */

int plot_open(struct plot *p, struct canvas *canvas, const struct area *area, double low,
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

/* Unicode numbers the dots of the upper three rows column by column, and then the fourth row. */
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

void plot_band(struct plot *p, int from, int to, double low, double high) {
    int top = row_of(p, high), bottom = row_of(p, low);
    bool thin = bottom - top < 2 || p->down == 1;
    for (int dot = from; dot <= to; dot++)
        for (int row = top; row <= bottom; row++)
            if (thin || (dot + row) % 2 == 0)
                set(p, p->band, dot, row);
}

void plot_lift(struct plot *p) {
    p->dot = NOWHERE;
}

/* Straight from where it was, as wide steps of one column or tall ones of one row. */
void plot_curve(struct plot *p, int dot, double value) {
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

void plot_close(struct plot *p, enum style line, enum style band) {
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

void range_finish(struct range *r) {
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
