#include "scaler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/finite.h"
#include "common/wild.h"

/* The minimum sd for the limit: a constant number can begin to change. */
static const double least_relative = 1e-9, least_absolute = 1e-12;

/* The scaling of one number. */
struct rule {
    bool plain;      /* not scaled */
    uint64_t memory; /* values, 0 = all */
    double limit;    /* number of sd, 0 = none */
};

struct scaler {
    size_t size;
    struct rule *rules; /* (size,) */
    float *first;       /* (size, SCALER_FIRST) the first values, or NULL */
    uint64_t *counts;   /* (size,) */
    double *means;      /* (size,) */
    double *squares;    /* (size,) */
    double *deviations; /* (size,) sqrt(squares / weight) */
};

int scaler_open(struct scaler **scaler, size_t size, uint64_t memory, double limit,
                struct error *error) {
    struct scaler *opened = calloc(1, sizeof *opened);
    *scaler = opened;
    if (opened) {
        opened->size = size;
        opened->rules = calloc(size, sizeof *opened->rules);
        opened->first = limit > 0 ? calloc(size, SCALER_FIRST * sizeof *opened->first) : NULL;
        opened->counts = calloc(size, sizeof *opened->counts);
        opened->means = calloc(size, sizeof *opened->means);
        opened->squares = calloc(size, sizeof *opened->squares);
        opened->deviations = calloc(size, sizeof *opened->deviations);
    }
    if (opened && (limit == 0 || opened->first) && opened->rules && opened->counts &&
        opened->means && opened->squares && opened->deviations) {
        for (size_t k = 0; k < size; k++)
            opened->rules[k] = (struct rule){false, memory, limit};
        return 0;
    }
    scaler_close(scaler);
    return error_set(error, EX_UNAVAILABLE, "out of memory for scaling %zu inputs", size);
}

void scaler_close(struct scaler **scaler) {
    struct scaler *old = *scaler;
    *scaler = NULL;
    if (!old)
        return;
    free(old->rules);
    free(old->first);
    free(old->counts);
    free(old->means);
    free(old->squares);
    free(old->deviations);
    free(old);
}

void scaler_reset(struct scaler *scaler) {
    for (size_t k = 0; k < scaler->size; k++)
        scaler_write(scaler, k, &(struct scaler_number){0});
    if (scaler->first)
        memset(scaler->first, 0, scaler->size * SCALER_FIRST * sizeof *scaler->first);
}

/* Returns the effective number of values in the statistics. */
static uint64_t weight(const struct rule *rule, uint64_t count) {
    return rule->memory > 0 && count > rule->memory ? rule->memory : count;
}

static double deviation(const struct rule *rule, uint64_t count, double squares) {
    if (rule->plain)
        return 1;
    return count ? sqrt(squares / (double)weight(rule, count)) : 0;
}

void scaler_set(struct scaler *scaler, size_t k, bool standard, uint64_t memory, double limit) {
    assert(limit == 0 || scaler->first);
    scaler->rules[k] = (struct rule){!standard, memory, limit};
    scaler_write(scaler, k, &(struct scaler_number){0});
}

bool scaler_has_mean(const struct scaler *scaler, size_t k) {
    return scaler->rules[k].plain || scaler->counts[k] > 0;
}

/* Returns the value, at most `limit` sd away from the mean. */
static double limited(const struct scaler *scaler, size_t k, double value) {
    double mean = scaler->means[k], sd = scaler->deviations[k];
    double far = scaler->rules[k].limit * fmax(sd, least_relative * fabs(mean) + least_absolute);
    return fabs(value - mean) <= far ? value : mean + copysign(far, value - mean);
}

/* Returns the distance from the median of the complete first values beyond which one is wild. */
static double least_wild(const float *first, double *median) {
    double values[SCALER_FIRST];
    for (size_t n = 0; n < SCALER_FIRST; n++)
        values[n] = first[n];
    return wild_distance(values, SCALER_FIRST, SCALER_WILD_MAX, median);
}

/* Computes mean and deviation again from the first values without wild ones, if there are any. */
static void drop_wild(struct scaler *scaler, size_t k) {
    const float *first = scaler_first(scaler, k);
    double median, far = least_wild(first, &median);
    struct scaler_number number = {0};
    for (size_t n = 0; n < SCALER_FIRST && isfinite(far); n++)
        if (fabs(first[n] - median) < far)
            number.squares =
                welford(first[n], (double)++number.count, &number.mean, number.squares);
    if (!isfinite(far))
        return;
    number.squares *= (double)weight(&scaler->rules[k], SCALER_FIRST) / (double)number.count;
    number.count = SCALER_FIRST;
    scaler_write(scaler, k, &number);
}

static void add_value(struct scaler *scaler, size_t k, float x) {
    const struct rule *rule = &scaler->rules[k];
    uint64_t count = ++scaler->counts[k];
    double value = x;
    if (rule->limit > 0 && count > SCALER_FIRST)
        value = limited(scaler, k, x);
    if (count == weight(rule, count)) {
        scaler->squares[k] = welford(value, (double)count, &scaler->means[k], scaler->squares[k]);
    } else {
        /* variance = (1 - 1/N) (variance + d^2 / N), and squares are N times that. */
        double rate = 1 / (double)rule->memory, difference = value - scaler->means[k];
        scaler->means[k] += rate * difference;
        scaler->squares[k] = (1 - rate) * (scaler->squares[k] + difference * difference);
    }
    scaler->deviations[k] = deviation(rule, count, scaler->squares[k]);
    if (rule->limit == 0 || count > SCALER_FIRST)
        return;
    scaler_first(scaler, k)[count - 1] = x;
    if (count == SCALER_FIRST)
        drop_wild(scaler, k);
}

void scaler_add(struct scaler *scaler, const void *x) {
    for (size_t k = 0; k < scaler->size; k++) {
        float value;
        memcpy(&value, (const char *)x + k * sizeof value, sizeof value);
        if (!isnan(value) && !scaler->rules[k].plain)
            add_value(scaler, k, value);
    }
}

float scaler_scale_with(const struct scaler *scaler, size_t k, double mean, double sd, float x) {
    double limit = scaler->rules[k].limit;
    double z = sd > 0 ? (x - mean) / sd : 0;
    if (limit > 0 && fabs(z) > limit)
        z = copysign(limit, z);
    return finite_float(z);
}

float scaler_scale(const struct scaler *scaler, size_t k, float x) {
    return scaler_scale_with(scaler, k, scaler->means[k], scaler->deviations[k], x);
}

size_t scaler_size(const struct scaler *scaler) {
    return scaler->size;
}

const double *scaler_means(const struct scaler *scaler) {
    return scaler->means;
}

const double *scaler_deviations(const struct scaler *scaler) {
    return scaler->deviations;
}

struct scaler_number scaler_read(const struct scaler *scaler, size_t k) {
    assert(k < scaler->size);
    return (struct scaler_number){scaler->counts[k], scaler->means[k], scaler->squares[k]};
}

void scaler_write(struct scaler *scaler, size_t k, const struct scaler_number *number) {
    assert(k < scaler->size);
    scaler->counts[k] = number->count;
    scaler->means[k] = scaler->rules[k].plain ? 0 : number->mean;
    scaler->squares[k] = number->squares;
    scaler->deviations[k] = deviation(&scaler->rules[k], number->count, number->squares);
}

float *scaler_first(const struct scaler *scaler, size_t k) {
    return scaler->first ? scaler->first + k * SCALER_FIRST : NULL;
}
