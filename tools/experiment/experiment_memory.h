/* Memory of many small pieces that are freed together. */
#ifndef RUNNEL_EXPERIMENT_MEMORY_H
#define RUNNEL_EXPERIMENT_MEMORY_H

#include <stddef.h>

/* A piece, all zero; `*memory` is NULL at first. NULL: out of memory. */
void *memory_take(void **memory, size_t size);
char *memory_copy(void **memory, const char *text);
char *memory_print(void **memory, const char *format, ...) __attribute__((format(printf, 2, 3)));

void memory_clear(void **memory);

#endif
