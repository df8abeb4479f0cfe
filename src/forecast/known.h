/* Columns whose values are known before their steps: model.input.columns, `known`. */
#ifndef RUNNEL_FORECAST_KNOWN_H
#define RUNNEL_FORECAST_KNOWN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/finite.h"

/* Values of a known column at a horizon, in order of their steps: of `ahead` steps later, of one
   step less, ..., of now, and of `lags` - 1 steps before. z is the distance to the first value in
   units of the largest one: unlike a deviation, it does not move while a flag is rare. */
struct known {
    double count, first, most;
    double values[]; /* newest first; before the first value the first */
};

enum { KNOWN_LAGS = 12, KNOWN_MOST = 48 };

static inline size_t known_lags(size_t known) {
    return known * KNOWN_LAGS <= KNOWN_MOST ? KNOWN_LAGS
           : known < KNOWN_MOST             ? KNOWN_MOST / known
                                            : 1;
}

/* Numbers of one known column. */
static inline size_t known_size(size_t known, size_t ahead) {
    return sizeof(struct known) / sizeof(double) + ahead + known_lags(known);
}

/* A missing value is held. */
static inline void known_take(struct known *k, size_t count, double value) {
    bool seen = !isnan(value), first = seen && k->count == 0;
    for (size_t n = 0; first && n < count; n++)
        k->first = k->values[n] = value;
    memmove(k->values + 1, k->values, (count - 1) * sizeof *k->values);
    if (seen)
        k->values[0] = value;
    k->count += seen;
    k->most = fmax(k->most, fabs(k->values[0] - k->first));
}

static inline double known_z(const struct known *k, size_t back) {
    return k->most > 0 ? (k->values[back] - k->first) / k->most : 0;
}

static inline bool known_valid(const struct known *k, size_t count) {
    bool valid = k->count >= 0 && k->count <= FINITE_VALUE_MOST && k->most >= 0 &&
                 k->most <= FINITE_VALUE_MOST && fabs(k->first) <= FINITE_VALUE_MOST;
    for (size_t n = 0; n < count; n++)
        valid &= fabs(k->values[n] - k->first) <= k->most;
    return valid;
}

#endif
