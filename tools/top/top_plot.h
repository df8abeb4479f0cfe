/* Curves in dots: braille patterns with 2 x 4 dots in a character, or one character a dot where
   there is only ASCII. A plot has a curve and a band behind it, which is dotted so that the curve
   stands out also without colours. */
#ifndef RUNNEL_TOP_PLOT_H
#define RUNNEL_TOP_PLOT_H

#include <math.h>

#include "top_canvas.h"

struct plot {
    struct canvas *canvas;
    struct area area;
    int across, down;           /* dots in a character */
    int width, height;          /* in dots */
    double low, high;           /* values at the lowest and highest dot, low < high */
    bool log;                   /* of the values, which then are positive */
    unsigned char *line, *band; /* (area.rows, area.columns) bits of a character; owned */
    int dot, row;               /* where the curve is; dot < 0: nowhere */
};

/* The area is the whole plot. -1 when out of memory. */
int plot_open(struct plot *plot, struct canvas *canvas, const struct area *area, double low,
              double high, bool log);

/* Draw the band from `from` to `to`, dot columns that both count, between two values. */
void plot_band(struct plot *plot, int from, int to, double low, double high);

/* Draw the curve on to the value at that column of dots. */
void plot_curve(struct plot *plot, int dot, double value);

/* The curve continues elsewhere. */
void plot_lift(struct plot *plot);

/* Put it on the canvas and free it. */
void plot_close(struct plot *plot, enum style line, enum style band);

/* The range of values: begins as {INFINITY, -INFINITY}. */
struct range {
    double low, high;
};

/* What is not finite is left out. Inline: it is called for every sample of every frame. */
static inline void range_add(struct range *range, double value) {
    if (!isfinite(value))
        return;
    if (value < range->low)
        range->low = value;
    if (value > range->high)
        range->high = value;
}

/* Widen it so that low < high; without a value it becomes 0..1. */
void range_finish(struct range *range);

#endif
