/* Where numbers stand on an axis, and which of them are marked. */
#ifndef RUNNEL_REPORT_SCALE_H
#define RUNNEL_REPORT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

enum { SCALE_TICKS_MOST = 40, SCALE_TEXT_SIZE = 32 };

struct scale {
    double low, high;
    bool log;
    double from, to; /* where low and high are drawn */
};

double scale_place(const struct scale *scale, double value);

/* Whether a value has a place at all: it is finite, and above zero where that is needed. */
bool scale_fits(const struct scale *scale, double value);

/* Make it neither empty nor of one value. */
void scale_widen(struct scale *scale);

/* Round numbers between low and high: how many. */
size_t scale_ticks(const struct scale *scale, double ticks[SCALE_TICKS_MOST]);

/* 20k, 1.5M, 1e-4 */
void scale_text(char text[SCALE_TEXT_SIZE], double value);

#endif
