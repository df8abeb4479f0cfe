/* The CPU engine's memory: the network's arrays in one allocation, and the slots. */
#ifndef RUNNEL_CPU_MEMORY_H
#define RUNNEL_CPU_MEMORY_H

#include <stddef.h>

#include "engine/engine.h"

struct error;
struct network;
struct threads;

/* Lay out and allocate a network, all zero but the masks. A large one is shared by the `threads`
   (NULL: there are none), which outlive it. -1 when out of memory. */
int network_open(struct network *n, const struct model *model, enum rule rule, size_t window,
                 size_t blocks, struct threads *threads, struct error *error);
void network_close(struct network *n);

/* Copy one tensor between the table's layout and a block (parameters or moments) of the network. */
void network_read(const struct network *n, const float *block, const struct tensor *tensor,
                  float *values);
void network_write(const struct network *n, float *block, const struct tensor *tensor,
                   const float *values);

/* The weight of output k for number i of what it is solved with: h of the last layer (size,), the
   skip path's x, 1. */
float *network_output(const struct network *n, size_t size, size_t k, size_t i);

/* `size` zero bytes on 64, of which only those touched take memory; NULL when there is none. */
void *memory_reserve(size_t size);
void memory_release(void *memory, size_t size);

#endif
