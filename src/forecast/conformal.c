#include "conformal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"

struct conformal {
    size_t columns;
    double *states; /* (slots, columns, CONFORMAL_STATE) */
    float *errors;  /* (slots, columns, CONFORMAL_ERRORS) ring, in order of arrival */
    float *sorted;  /* the same, sorted from least to greatest */
};

/* State of one column. */
struct column {
    double *moved; /* the level minus its initial value */
    double *place; /* place of the next error, plus CONFORMAL_ERRORS once all places are used */
    float *errors, *sorted;
};

static struct column column_of(const struct conformal *c, uint32_t slot, size_t k) {
    size_t at = slot * c->columns + k;
    return (struct column){
        .moved = c->states + at * CONFORMAL_STATE,
        .place = c->states + at * CONFORMAL_STATE + 1,
        .errors = c->errors + at * CONFORMAL_ERRORS,
        .sorted = c->sorted + at * CONFORMAL_ERRORS,
    };
}

static size_t kept(const struct column *column) {
    size_t place = (size_t)*column->place;
    return place < CONFORMAL_ERRORS ? place : CONFORMAL_ERRORS;
}

int conformal_open(struct conformal **conformal, size_t columns, size_t slots,
                   struct error *error) {
    struct conformal *made = *conformal = calloc(1, sizeof *made);
    size_t numbers = slots * columns;
    if (made) {
        made->columns = columns;
        made->states = calloc(numbers, CONFORMAL_STATE * sizeof *made->states);
        made->errors = calloc(numbers, CONFORMAL_ERRORS * sizeof *made->errors);
        made->sorted = calloc(numbers, CONFORMAL_ERRORS * sizeof *made->sorted);
    }
    if (made && made->states && made->errors && made->sorted)
        return 0;
    conformal_close(conformal);
    return error_set(error, EX_UNAVAILABLE,
                     "out of memory for the intervals of %zu streams; lower learning.max_streams",
                     slots);
}

void conformal_close(struct conformal **conformal) {
    if (*conformal) {
        free((*conformal)->states);
        free((*conformal)->errors);
        free((*conformal)->sorted);
    }
    free(*conformal);
    *conformal = NULL;
}

double *conformal_state(struct conformal *conformal, uint32_t slot) {
    return column_of(conformal, slot, 0).moved;
}

float *conformal_errors(struct conformal *conformal, uint32_t slot) {
    return column_of(conformal, slot, 0).errors;
}

void conformal_begin(struct conformal *conformal, uint32_t slot) {
    size_t columns = conformal->columns;
    memset(conformal_state(conformal, slot), 0, columns * CONFORMAL_STATE * sizeof(double));
    memset(conformal_errors(conformal, slot), 0, columns * CONFORMAL_ERRORS * sizeof(float));
}

/* ---- Bounds ---- */

/* The value at rank r >= 0 of n sorted errors, counted from `near`; `step` is 1 from below and
   -1 from above. */
static double at_rank(const float *near, ptrdiff_t step, size_t n, double r) {
    double nearest = (double)near[0], width = (double)near[step * (ptrdiff_t)(n - 1)] - nearest;
    if (r < 1)
        return nearest - (1 - r) * width;
    ptrdiff_t whole = (ptrdiff_t)r;
    double here = (double)near[step * (whole - 1)], next = (double)near[step * whole];
    return here + (r - (double)whole) * (next - here);
}

struct conformal_bounds conformal_bounds(const struct conformal *conformal, uint32_t slot, size_t k,
                                         double p) {
    struct column column = column_of(conformal, slot, k);
    size_t n = kept(&column);
    if (n < CONFORMAL_LEAST || isnan(p))
        return (struct conformal_bounds){NAN, NAN};
    double r = (double)(n + 1) * (1 - CONFORMAL_COVERAGE + *column.moved) / 2;
    double low = at_rank(column.sorted, 1, n, r);
    double high = at_rank(column.sorted + n - 1, -1, n, r);
    return (struct conformal_bounds){p + low, p + high};
}

/* ---- Learning ---- */

/* The number of sorted errors below e. */
static size_t place_of(const float *sorted, size_t n, float e) {
    const float *base = sorted;
    for (; n > 1; n -= n / 2)
        base += base[n / 2 - 1] < e ? n / 2 : 0;
    return (size_t)(base - sorted) + (n == 1 && *base < e);
}

/* Replaces the oldest error if all places are used: the sorted errors between both move by one. */
static void keep(struct column *column, float e) {
    size_t n = kept(column), place = (size_t)*column->place;
    size_t at = place < CONFORMAL_ERRORS ? place : place - CONFORMAL_ERRORS;
    float *sorted = column->sorted;
    size_t to = place_of(sorted, n, e);
    size_t from = n < CONFORMAL_ERRORS ? n : place_of(sorted, n, column->errors[at]);
    if (to > from) {
        to--; /* the oldest was below it */
        memmove(sorted + from, sorted + from + 1, (to - from) * sizeof *sorted);
    } else {
        memmove(sorted + to + 1, sorted + to, (from - to) * sizeof *sorted);
    }
    sorted[to] = column->errors[at] = e;
    *column->place = (double)(place + 1 < 2 * CONFORMAL_ERRORS ? place + 1 : CONFORMAL_ERRORS);
}

static double within(double a, double least, double most) {
    return a < least ? least : a > most ? most : a;
}

void conformal_learn(struct conformal *conformal, uint32_t slot, size_t k, double p,
                     struct conformal_bounds bounds, double y) {
    static const double target = 1 - CONFORMAL_COVERAGE;
    struct column column = column_of(conformal, slot, k);
    bool known = !isnan(bounds.low), holds = conformal_holds(bounds, y);
    if (known && !(holds && bounds.low == bounds.high))
        *column.moved = within(*column.moved + CONFORMAL_RATE * (target - !holds), -target,
                               CONFORMAL_LEVEL_MOST - target);
    /* -0 becomes 0, so that sorting depends only on the values. */
    keep(&column, (float)within(y - p, -FLT_MAX, FLT_MAX) + 0.0f);
}

/* ---- Checkpoints ---- */

static int by_size(const void *a, const void *b) {
    float left = *(const float *)a, right = *(const float *)b;
    return (left > right) - (left < right);
}

bool conformal_valid(const struct conformal *conformal, uint32_t slot) {
    static const double target = 1 - CONFORMAL_COVERAGE;
    for (size_t k = 0; k < conformal->columns; k++) {
        struct column column = column_of(conformal, slot, k);
        if (!(*column.moved >= -target && *column.moved <= CONFORMAL_LEVEL_MOST - target) ||
            !(*column.place >= 0 && *column.place < 2 * CONFORMAL_ERRORS) ||
            *column.place != floor(*column.place))
            return false;
        for (size_t n = 0; n < CONFORMAL_ERRORS; n++)
            if (!isfinite(column.errors[n]))
                return false;
    }
    return true;
}

bool conformal_written(struct conformal *conformal, uint32_t slot) {
    if (!conformal_valid(conformal, slot))
        return false;
    for (size_t k = 0; k < conformal->columns; k++) {
        struct column column = column_of(conformal, slot, k);
        memcpy(column.sorted, column.errors, CONFORMAL_ERRORS * sizeof *column.sorted);
        qsort(column.sorted, kept(&column), sizeof *column.sorted, by_size);
    }
    return true;
}
