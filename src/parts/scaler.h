/* Running mean and standard deviation of every input number (scale: standard), in double precision
   by Welford's method, and z = (x - mean) / sd with them.

   "Over all examples so far, this one included": the learner adds all steps of an example before it
   scales the first of them, so that one mean and one sd hold for a whole example.

   With a memory of N values the rate 1 / n of the n-th value does not go below 1 / N. With a limit
   L, so that no wild value ruins them: after the first SCALER_FIRST values a value counts as at
   most L sd away from the mean (a new level is reached in some tens of values, since the deviation
   grows at each), and z stays within +-L. Those first values count as they are; once they are
   complete, up to SCALER_WILD_MAX of them that lie far outside of all others are left out. */
#ifndef RUNNEL_SCALER_H
#define RUNNEL_SCALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct scaler;

enum {
    SCALER_FIRST = 30,
    SCALER_WILD_MAX = 3, /* more are no accident but a level of their own */
};

/* What is known of one number: the form in which a checkpoint keeps it. */
struct scaler_number {
    uint64_t count; /* values seen */
    double mean;
    double squares; /* population variance times count, or times the memory if that is less */
};

/* Open a scaler for `size` numbers that has seen nothing. `memory`: in values, 0 = all of them;
   `limit`: in sd, 0 = none. */
int scaler_open(struct scaler **scaler, size_t size, uint64_t memory, double limit,
                struct error *error);
void scaler_close(struct scaler **scaler);
void scaler_reset(struct scaler *scaler);

/* Number `k` has seen nothing, and has a memory and a limit of its own: a limit above 0 only where
   scaler_open had one. Not `standard`: it is not scaled at all, mean 0 and sd 1 throughout. */
void scaler_set(struct scaler *scaler, size_t k, bool standard, uint64_t memory, double limit);

/* Whether number `k` has a mean: it has been seen, or is not scaled. */
bool scaler_knows(const struct scaler *scaler, size_t k);

/* Take one step's x (size,) into the statistics; NaN is skipped. May be unaligned. */
void scaler_add(struct scaler *scaler, const void *x);

/* The z of a value of number `k`; 0 while its sd is 0. With another mean and sd: those that the
   scaler had before. Finite for any finite x: with a short memory the deviation of what is constant
   goes towards 0, and a held value, or that of another stream, is any number of it away. */
float scaler_scale(const struct scaler *scaler, size_t k, float x);
float scaler_scale_with(const struct scaler *scaler, size_t k, double mean, double sd, float x);

size_t scaler_size(const struct scaler *scaler);
const double *scaler_means(const struct scaler *scaler);      /* (size,), 0 before any value */
const double *scaler_deviations(const struct scaler *scaler); /* (size,), population sd */

struct scaler_number scaler_read(const struct scaler *scaler, size_t k);
void scaler_write(struct scaler *scaler, size_t k, const struct scaler_number *number);

/* The first values of number `k` (SCALER_FIRST,), as they came; NULL without a limit. Those that
   have not come yet are 0. */
float *scaler_first(const struct scaler *scaler, size_t k);

#endif
