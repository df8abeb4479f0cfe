/* Running mean and standard deviation of every input number (scale: standard), in double precision
   by Welford's method, and z = (x - mean) / sd with them.

   "Over all examples so far, this one included": the learner adds all steps of an example before it
   scales the first of them, so that one mean and one sd hold for a whole example. */
#ifndef RUNNEL_SCALER_H
#define RUNNEL_SCALER_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct scaler;

/* What is known of one number: the form in which a checkpoint keeps it. */
struct scaler_number {
    uint64_t count; /* values seen */
    double mean;
    double squares; /* sum of squared differences from the mean */
};

/* Open a scaler for `size` numbers that has seen nothing. */
int scaler_open(struct scaler **scaler, size_t size, struct error *error);
void scaler_close(struct scaler **scaler);
void scaler_reset(struct scaler *scaler);

/* Take one step's x (size,) into the statistics; NaN is skipped. May be unaligned. */
void scaler_add(struct scaler *scaler, const void *x);

/* The z of a value of number `k`; 0 while its sd is 0. */
float scaler_scale(const struct scaler *scaler, size_t k, float x);

size_t scaler_size(const struct scaler *scaler);
const double *scaler_means(const struct scaler *scaler);      /* (size,), 0 before any value */
const double *scaler_deviations(const struct scaler *scaler); /* (size,), population sd */

struct scaler_number scaler_read(const struct scaler *scaler, size_t k);
void scaler_write(struct scaler *scaler, size_t k, const struct scaler_number *number);

#endif
