#include "scaler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"

struct scaler {
    size_t size;
    uint64_t *counts;   /* (size,) */
    double *means;      /* (size,) */
    double *squares;    /* (size,) */
    double *deviations; /* (size,) sqrt(squares / count) */
};

int scaler_open(struct scaler **scaler, size_t size, struct error *error) {
    struct scaler *new = calloc(1, sizeof *new);
    *scaler = new;
    if (new) {
        new->size = size;
        new->counts = calloc(size, sizeof *new->counts);
        new->means = calloc(size, sizeof *new->means);
        new->squares = calloc(size, sizeof *new->squares);
        new->deviations = calloc(size, sizeof *new->deviations);
    }
    if (new &&new->counts &&new->means &&new->squares &&new->deviations)
        return 0;
    scaler_close(scaler);
    return error_set(error, EX_UNAVAILABLE, "out of memory for scaling %zu inputs", size);
}

void scaler_close(struct scaler **scaler) {
    struct scaler *old = *scaler;
    *scaler = NULL;
    if (!old)
        return;
    free(old->counts);
    free(old->means);
    free(old->squares);
    free(old->deviations);
    free(old);
}

void scaler_reset(struct scaler *scaler) {
    for (size_t k = 0; k < scaler->size; k++)
        scaler_write(scaler, k, &(struct scaler_number){0});
}

static double deviation(uint64_t count, double squares) {
    return count ? sqrt(squares / (double)count) : 0;
}

/* Welford (1962): d = x - mean; mean += d / n; squares += d (x - mean), with the new mean. */
void scaler_add(struct scaler *scaler, const void *x) {
    for (size_t k = 0; k < scaler->size; k++) {
        float value;
        memcpy(&value, (const char *)x + k * sizeof value, sizeof value);
        if (isnan(value))
            continue;
        uint64_t count = ++scaler->counts[k];
        double difference = value - scaler->means[k];
        scaler->means[k] += difference / (double)count;
        scaler->squares[k] += difference * (value - scaler->means[k]);
        scaler->deviations[k] = deviation(count, scaler->squares[k]);
    }
}

float scaler_scale(const struct scaler *scaler, size_t k, float x) {
    double sd = scaler->deviations[k];
    return sd > 0 ? (float)((x - scaler->means[k]) / sd) : 0;
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
    scaler->means[k] = number->mean;
    scaler->squares[k] = number->squares;
    scaler->deviations[k] = deviation(number->count, number->squares);
}
