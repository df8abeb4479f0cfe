/* Baselines of symbols: the frequencies of what followed the newest 1, 2 and 3 symbols,
   (n + 1/2) / (N + K/2), of all streams together. */
#ifndef RUNNEL_SYMBOLS_ORDERS_H
#define RUNNEL_SYMBOLS_ORDERS_H

#include "symbols.h"

enum { ORDERS_BASELINES = 3, ORDERS_ENTRIES = 1 << 17 };

/* Counts as in a checkpoint: any numbers are valid, and a new table is zero. A full table loses
   small counts. */
struct orders {
    uint32_t counts[ORDERS_ENTRIES];
};

/* Computes the losses (ORDERS_BASELINES,) of the symbol that follows the place, among K = `seen`
   symbols, and learns it if `learn`. */
void orders_take(struct orders *orders, const struct symbols_place *place, uint32_t symbol,
                 size_t seen, bool learn, double *losses);

#endif
