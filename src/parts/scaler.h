/* Running mean and standard deviation of every input number (scale: standard), in double precision
   by Welford's method, and z = (x - mean) / sd.

   "Over all examples so far, this one included": the learner adds all steps of an example before it
   scales the first of them, so that one mean and one sd hold for a whole example.

   `runneld --explain model.input.memory` and `.limit` describe how values are forgotten, and how
   wild ones are limited. */
#ifndef RUNNEL_SCALER_H
#define RUNNEL_SCALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct scaler;

enum {
    SCALER_FIRST = 30,
    SCALER_WILD_MAX = 3, /* more are a level of their own */
};

/* The statistics of one number, as saved in a checkpoint. */
struct scaler_number {
    uint64_t count; /* values added */
    double mean;
    double squares; /* population variance times the smaller of count and memory */
};

/* Opens an empty scaler for `size` numbers. `memory`: in values, 0 = all; `limit`: in sd, 0 =
   none. */
int scaler_open(struct scaler **scaler, size_t size, uint64_t memory, double limit,
                struct error *error);
void scaler_close(struct scaler **scaler);
void scaler_reset(struct scaler *scaler);

/* Sets memory and limit of number `k`, without values. A limit above 0 requires one in scaler_open.
   Not `standard`: not scaled, mean 0 and sd 1 throughout. */
void scaler_set(struct scaler *scaler, size_t k, bool standard, uint64_t memory, double limit);

/* Returns whether number `k` has a mean: it has a value, or is not scaled. */
bool scaler_has_mean(const struct scaler *scaler, size_t k);

/* Adds one step's x (size,), perhaps unaligned; NaN is skipped. */
void scaler_add(struct scaler *scaler, const void *x);

/* Return the z of a value of number `k`; 0 while its sd is 0. scaler_scale_with uses an earlier
   mean and sd of the scaler. Finite for any finite x, even if the deviation of a constant has
   approached 0. */
float scaler_scale(const struct scaler *scaler, size_t k, float x);
float scaler_scale_with(const struct scaler *scaler, size_t k, double mean, double sd, float x);

size_t scaler_size(const struct scaler *scaler);
const double *scaler_means(const struct scaler *scaler); /* (size,), 0 before the first value */
const double *scaler_deviations(const struct scaler *scaler); /* (size,), population sd */

struct scaler_number scaler_read(const struct scaler *scaler, size_t k);
void scaler_write(struct scaler *scaler, size_t k, const struct scaler_number *number);

/* Returns the first values of number `k` (SCALER_FIRST,), 0 = not yet received; NULL without a
   limit. */
float *scaler_first(const struct scaler *scaler, size_t k);

#endif
