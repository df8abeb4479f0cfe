/* Generated examples of the shape that a configuration asks for: a function of the seed alone.
   Numbers are sines of different periods with some noise, symbols and classes a noisy walk, so that
   there is something to learn and losses stay finite. */
#ifndef RUNNEL_BENCH_DATA_H
#define RUNNEL_BENCH_DATA_H

#include <stddef.h>

#include "common/example.h"
#include "engine/engine.h"
#include "model/model.h"

struct bench_data {
    size_t count;           /* examples, of one step each; used round and round */
    size_t inputs, targets; /* numbers in an x and in a y */
    union value *x; /* (count, inputs), and its beginning again: whoever takes more numbers at
                       a row, as a network with scale: forecast does, finds the next rows */
    union value *y; /* (count, targets) */
    union value
        *rows; /* (count, features) of columns: what an engine's x may be; else NULL: x is */
    size_t features;
};

/* -1 when out of memory. */
int bench_data_open(struct bench_data *data, const struct model *model, uint64_t seed);
void bench_data_close(struct bench_data *data);

/* Example `index` (counted on and on) of stream `key`. With `target: next` it carries no y. */
struct example bench_data_example(const struct bench_data *data,
                                  const struct architecture *architecture, const char *key,
                                  uint64_t index);

#endif
