/* Where a stream of symbols is, and the contexts in which its next symbol is counted. */
#ifndef RUNNEL_SYMBOLS_PLACE_H
#define RUNNEL_SYMBOLS_PLACE_H

#include "symbols.h"

enum { ORDERS = 6, CONTEXTS_MAX = 12, REPEATS = 2 };

#define SYMBOL_NONE UINT32_MAX

/* The same numbers on every machine: places in the table and weights depend on them. */
static inline uint64_t place_hash(uint64_t a, uint64_t b) {
    uint64_t h = (a + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u ^
                 (b + 0x7F4A7C15F39CC060u) * 0x94D049BB133111EBu;
    h = (h ^ h >> 31) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

/* The symbol n before the next one, n >= 1. */
static inline uint32_t place_back(const struct symbols_place *place, uint32_t n) {
    return place->steps >= n ? place->newest[(place->steps - n) % SYMBOLS_NEWEST] : SYMBOL_NONE;
}

/* A context of an expert other than `orders`. */
struct context {
    enum symbols_expert expert;
    bool bytes;   /* of bytes; otherwise of other symbols */
    bool extends; /* the one before it: counts a node only if that one has counted it */
    uint64_t (*hash)(const struct symbols_place *place);
};

/* The contexts of a set of experts. */
struct contexts {
    bool bytes;
    uint32_t orders, stride; /* an order is so many symbols longer than the one before */
    size_t count;
    enum symbols_expert experts[CONTEXTS_MAX];
    bool extends[CONTEXTS_MAX];
    uint64_t (*hash[CONTEXTS_MAX])(const struct symbols_place *place); /* unused for orders */
    struct span {
        uint32_t length;
        uint64_t power; /* of the oldest symbol in a rolling hash of that length */
    } repeats[REPEATS]; /* the symbols that a repeat compares */
};

void contexts_open(struct contexts *contexts, const struct symbols_options *options);

/* Computes the hashes (count,) of the next symbol's contexts. */
void contexts_hash(const struct contexts *contexts, const struct symbols_place *place,
                   uint64_t *hashes);

/* The symbol follows. */
void place_next(struct symbols_place *place, const struct contexts *contexts, uint32_t symbol);

/* The letter in lower case, 0 for other bytes; and letter, space, digit or other. */
uint32_t place_letter(uint32_t byte);
uint32_t place_kind(uint32_t byte);

#endif
