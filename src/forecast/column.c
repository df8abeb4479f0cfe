#include "column.h"

#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "common/wild.h"
#include "forecast.h"

#define EWMA_RATE 0.2
#define WILD_MAX 3          /* of the first: more are no accident but a level of their own */
#define RELATIVE_LEAST 1e-9 /* of a deviation, beside the mean */
#define LEAST 1e-12

static void push(double *past, size_t count, double value) {
    memmove(past + 1, past, (count - 1) * sizeof *past);
    past[0] = value;
}

static void move_statistics(struct column *c, double x, double delta) {
    double t = ++c->count, rate = fmax(1 / t, COLUMN_RATE_LEAST), e = x - c->mean;
    if (t > COLUMN_FIRST) {
        e = forecast_clip(e, COLUMN_FAR * c->sd);
        delta = forecast_clip(delta, COLUMN_FAR * c->ds);
    }
    c->mean += rate * e;
    c->variance = (1 - rate) * (c->variance + rate * e * e);
    if (t > 1)
        c->change += fmax(1 / (t - 1), COLUMN_RATE_LEAST) * (delta * delta - c->change);
}

/* The first values are complete: if some of them are wild, the statistics again, without them. Of
   missing values in between the held ones are counted. */
static void drop_wild(struct column *c, double t) {
    double values[COLUMN_PAST], median, mean = 0, squares = 0, changes = 0;
    size_t count = (size_t)fmin(t + 1, COLUMN_PAST), used = 0, pairs = 0;
    while (count > 1 && c->x[count - 2] == c->x[count - 1])
        count--; /* before the first value stands the first value */
    memcpy(values, c->x, count * sizeof *values);
    double far = wild_distance(values, count, WILD_MAX, &median);
    if (!isfinite(far))
        return;
    for (size_t n = 0; n < count; n++) {
        if (fabs(c->x[n] - median) >= far)
            continue;
        squares = welford(c->x[n], (double)++used, &mean, squares);
        if (n + 1 == count || fabs(c->x[n + 1] - median) >= far)
            continue;
        double delta = c->x[n] - c->x[n + 1];
        changes += delta * delta;
        pairs++;
    }
    c->mean = c->ewma = mean;
    c->variance = squares / (double)used;
    c->change = pairs ? changes / (double)pairs : 0;
}

/* The units from the statistics, also where nothing was seen. */
static void measure(struct column *c) {
    double least = RELATIVE_LEAST * fabs(c->mean) + LEAST;
    c->sd = c->count > 1 ? fmax(sqrt(c->variance), least) : 1;
    c->ds = c->change > 0 ? fmax(sqrt(c->change), least) : c->sd;
}

void column_take(struct column *c, double value, double t) {
    bool seen = !isnan(value), first = seen && c->count == 0;
    double x = seen ? value : c->x[0];
    for (size_t i = 0; first && i < COLUMN_PAST; i++)
        c->x[i] = x;
    double delta = x - c->x[0];
    if (seen)
        move_statistics(c, x, delta);
    if (first)
        c->ewma = x;
    else if (seen)
        c->ewma += fmax(EWMA_RATE, 1 / c->count) * (x - c->ewma);
    push(c->x, COLUMN_PAST, x);
    if (seen && c->count == COLUMN_FIRST)
        drop_wild(c, t);
    measure(c);
    push(c->u, COLUMN_PAST, forecast_clip(delta / c->ds, FORECAST_FEATURE_MOST));
    push(c->z, COLUMN_LEVELS, forecast_clip((x - c->mean) / c->sd, FORECAST_FEATURE_MOST));
    lag_take(&c->lag, c->u, t);
    size_t lag = (size_t)c->lag.now;
    c->v = lag && t >= (double)lag ? (c->x[lag - 1] - c->x[lag]) / c->ds : 0;
}

static bool is_unit(const struct column *c, double unit) {
    return unit >= (c->count > 0 ? LEAST : 0) && unit <= FINITE_VALUE_MOST;
}

bool column_valid(const struct column *c) {
    return c->count >= 0 && c->count <= FINITE_VALUE_MOST && is_unit(c, c->sd) &&
           is_unit(c, c->ds) && c->variance >= 0 && c->variance <= FINITE_SQUARE_MOST &&
           c->change >= 0 && c->change <= FINITE_SQUARE_MOST &&
           fabs(c->mean) <= FINITE_VALUE_MOST && fabs(c->ewma) <= FINITE_VALUE_MOST &&
           fabs(c->v) <= FINITE_MOST && finite_within(c->x, COLUMN_PAST, FINITE_VALUE_MOST) &&
           finite_within(c->u, COLUMN_PAST, FORECAST_FEATURE_MOST) &&
           finite_within(c->z, COLUMN_LEVELS, FORECAST_FEATURE_MOST) && lag_valid(&c->lag);
}
