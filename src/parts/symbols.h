/* preset: symbols. Counts of symbols, in one mixture with the network
   (docs/explanation/symbols.md). */
#ifndef RUNNEL_PARTS_SYMBOLS_H
#define RUNNEL_PARTS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

struct part_host;

/* Returns the name of row n of the host's errors of experts. */
const char *symbols_row_name(const struct part_host *host, size_t n);

/* Measures predictions, or stops it. Returns false without the part. */
bool symbols_measure(const struct part_host *host, bool wanted);

#endif
