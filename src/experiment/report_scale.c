#include "report_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TICKS = 5 /* about so many */ };

double scale_place(const struct scale *s, double value) {
    double share = s->log ? log(value / s->low) / log(s->high / s->low)
                          : (value - s->low) / (s->high - s->low);
    return s->from + (s->to - s->from) * share;
}

bool scale_fits(const struct scale *s, double value) {
    return isfinite(value) && (!s->log || value > 0);
}

void scale_widen(struct scale *s) {
    if (!(s->low <= s->high)) {
        s->low = 0;
        s->high = 1;
    } else if (s->low == s->high && s->log) {
        s->low /= 2;
        s->high *= 2;
    } else if (s->low == s->high) {
        double size = s->low == 0 ? 1 : fabs(s->low) / 10;
        s->low -= size;
        s->high += size;
    }
}

static double step_of(double range) {
    double power = pow(10, floor(log10(range / TICKS))), rest = range / TICKS / power;
    return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

size_t scale_ticks(const struct scale *s, double ticks[SCALE_TICKS_MOST]) {
    size_t count = 0;
    if (!s->log) {
        double step = step_of(s->high - s->low);
        for (double n = ceil(s->low / step - 1e-9); n * step <= s->high + 1e-9 * step; n++)
            if (count < SCALE_TICKS_MOST)
                ticks[count++] = n * step + 0.0; /* never -0 */
        return count;
    }
    static const double parts[] = {1, 2, 5};
    double decades = log10(s->high / s->low);
    size_t used = decades < 2.5 ? 3 : 1;
    int every = decades > 8 ? (int)(decades / 4) : 1;
    for (int power = (int)floor(log10(s->low)); power <= (int)ceil(log10(s->high)); power += every)
        for (size_t part = 0; part < used; part++) {
            double value = parts[part] * pow(10, power);
            if (value >= s->low * 0.999 && value <= s->high * 1.001 && count < SCALE_TICKS_MOST)
                ticks[count++] = value;
        }
    return count;
}

void scale_text(char text[SCALE_TEXT_SIZE], double value) {
    static const double MILLION = 1e6, MANY = 1e4, THOUSAND = 1e3;
    if (fabs(value) >= MILLION && fabs(value) < THOUSAND * MILLION)
        snprintf(text, SCALE_TEXT_SIZE, "%.4gM", value / MILLION);
    else if (fabs(value) >= MANY && fabs(value) < MILLION)
        snprintf(text, SCALE_TEXT_SIZE, "%.4gk", value / THOUSAND);
    else
        snprintf(text, SCALE_TEXT_SIZE, "%.4g", value);
    char *zero = strstr(text, "e-0");
    if (zero)
        memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
}
