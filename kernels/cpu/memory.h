/* The CPU engine's memory: the network's arrays in one allocation, and the slots. */
#ifndef RUNNEL_CPU_MEMORY_H
#define RUNNEL_CPU_MEMORY_H

#include <stddef.h>
#include <string.h>

#include "engine/engine.h"

struct error;
struct network;
struct threads;

/* Lays out and allocates a network, all zero but the masks. The `threads` share a large one, and
   outlive it; NULL: no threads. -1 if out of memory. */
int network_open(struct network *n, const struct model *model, enum rule rule, size_t window,
                 size_t blocks, struct threads *threads, struct error *error);
void network_close(struct network *n);

/* Copies one tensor between the table's layout and a block (parameters or moments) of the
   network: `read` fills in `values`. */
void network_copy(const struct network *n, float *block, const struct tensor *tensor, float *values,
                  bool read);

/* The weight of output k for input i of the least squares: h of the last layer, the skip path's x,
   1. */
float *network_output(const struct network *n, size_t k, size_t i);

/* Copies the engine's own numbers into `data` (read), or back. */
static inline void memory_copy(void *own, void *data, size_t bytes, bool read) {
    memcpy(read ? data : own, read ? own : data, bytes);
}

/* `size` zero bytes, aligned to 64; only touched pages use memory. NULL if out of memory. */
void *memory_reserve(size_t size);
void memory_release(void *memory, size_t size);

#endif
