/* Interpolated Kneser-Ney of order 2: what followed the newest two symbols, what followed the
   newest one, and in how many contexts a symbol has appeared. Memory is fixed: each context keeps
   some followers. */
#ifndef RUNNEL_SYMBOLS_KNESER_H
#define RUNNEL_SYMBOLS_KNESER_H

#include <stddef.h>
#include <stdint.h>

enum { KNESER_ORDERS = 2, KNESER_CLASSES = 17, KNESER_LIST = 80 };

struct kneser {
    size_t cells, symbols;
    struct follower {
        uint16_t symbol, count; /* the first of a row: the context's check and total */
    } * rows[KNESER_ORDERS];    /* (cells,): after two symbols, and after one */
    uint32_t *sums;             /* (symbols + 1,) of contexts, a Fenwick tree */

    /* Of the next symbol: followers by class, their sums, and what they leave. */
    struct follower *row[KNESER_ORDERS];
    uint16_t check[KNESER_ORDERS], first[KNESER_CLASSES];
    double below[KNESER_CLASSES + 1], each;
    size_t seen;
    struct listed {
        double p;
        uint16_t symbol, next; /* 0 = the last one */
    } list[KNESER_LIST];
};

/* The numbers of a model beside a table of so many bytes. Any are valid; a new one's are zero. */
size_t kneser_size(size_t memory, size_t symbols);
void kneser_open(struct kneser *kneser, size_t memory, size_t symbols, uint64_t *numbers);

/* Begins the next symbol, after a context of two symbols with this hash, and after the newest. */
void kneser_begin(struct kneser *kneser, uint64_t two, uint32_t newest, size_t seen);

/* Computes the probabilities of both halves of a node, of the symbols between three edges. */
void kneser_halves(const struct kneser *kneser, const uint32_t *edges, double *halves);
void kneser_learn(struct kneser *kneser, uint32_t symbol);

#endif
