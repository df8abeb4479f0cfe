/* preset: symbols. Counts of symbols, in one mixture with the network
   (docs/explanation/symbols.md). */
#ifndef RUNNEL_PARTS_SYMBOLS_H
#define RUNNEL_PARTS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct part_host;

/* Returns the name of row n of the host's errors of experts. The last ones are the listed members,
   and the baselines after the newest 1, 2 and 3 symbols. */
enum { SYMBOLS_ORDERS = 3 };
const char *symbols_row_name(const struct part_host *host, size_t n);

/* The experts' memory: bytes of all tables, the share of slots in use, and slots that held another
   count before. */
struct symbols_usage {
    size_t memory;
    double used;
    uint64_t replaced;
    bool full; /* more slots were replaced than there are */
};

/* Returns false without the part. */
bool symbols_usage(const struct part_host *host, struct symbols_usage *usage);

/* Measures predictions, or stops it. Returns false without the part. */
bool symbols_measure(const struct part_host *host, bool wanted);

#endif
