/* Examples as lines of JSON, in the form that runneld and `runnel-feed json` take. */
#ifndef RUNNEL_FEED_PRINT_H
#define RUNNEL_FEED_PRINT_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct runnel_example;
struct shape;

/* Write the example to standard output. A missing number or class is null; a number has as many
   digits as its 32 bits need. Errors: EX_IOERR. */
int print_example(const struct runnel_example *example, size_t steps, const struct shape *x,
                  const struct shape *y, uint64_t producer, struct error *error);

/* Whether everything has arrived. */
int print_finish(struct error *error);

#endif
