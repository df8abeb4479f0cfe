/* Generated examples for a configuration, which depend only on the seed. Numbers are sines of
   different periods with some noise, symbols and classes a noisy walk, so that they can be
   learned and losses stay finite. */
#ifndef RUNNEL_BENCH_DATA_H
#define RUNNEL_BENCH_DATA_H

#include <stddef.h>

#include "common/example.h"
#include "engine/engine.h"
#include "model/model.h"

struct bench_data {
    size_t count;           /* examples, of one step each; used repeatedly */
    size_t inputs, targets; /* numbers in an x and in a y */
    /* (count, inputs), then its beginning again: with scale: forecast a network takes more
       numbers at a row, from the next rows */
    union value *x;
    union value *y;    /* (count, targets) */
    union value *rows; /* (count, features) of columns: an engine's x; NULL: use x */
    size_t features;
};

/* -1 if out of memory. */
int bench_data_open(struct bench_data *data, const struct model *model, uint64_t seed);
void bench_data_close(struct bench_data *data);

/* Example `index` (repeated) of stream `key`. With `target: next` it has no y. */
struct example bench_data_example(const struct bench_data *data,
                                  const struct architecture *architecture, const char *key,
                                  uint64_t index);

#endif
