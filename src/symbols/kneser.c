#include "kneser.h"

#include <stdbool.h>
#include <string.h>

enum { CONTEXTS_MOST = 1 << 30, SHARE = 128 };
static const size_t width[KNESER_ORDERS] = {16, 64}; /* of rows */
static const double discount = 0.85, unseen = 0.5;

size_t kneser_size(size_t memory, size_t symbols) {
    return memory / SHARE + symbols / 2 + 1;
}

void kneser_open(struct kneser *k, size_t memory, size_t symbols, uint64_t *numbers) {
    k->cells = memory / SHARE;
    k->symbols = symbols;
    k->rows[0] = (struct follower *)numbers;
    k->rows[1] = k->rows[0] + k->cells;
    k->sums = (uint32_t *)(k->rows[1] + k->cells);
}

static uint32_t class_of(uint32_t symbol) {
    return 31 - (uint32_t)__builtin_clz(symbol + 1);
}

/* The contexts of symbols below this one. */
static uint32_t contexts(const struct kneser *k, size_t symbol) {
    uint32_t sum = 0;
    for (; symbol; symbol &= symbol - 1)
        sum += k->sums[symbol];
    return sum;
}

void kneser_begin(struct kneser *k, uint64_t two, uint32_t newest, size_t seen) {
    const uint64_t keys[] = {two >> 16, newest};
    double rest = 1;
    uint16_t listed = 0;
    k->check[0] = (uint16_t)two;
    k->check[1] = (uint16_t)newest;
    k->seen = seen;
    memset(k->first, 0, sizeof k->first);
    memset(k->below, 0, sizeof k->below);
    for (size_t o = 0; o < KNESER_ORDERS; o++) {
        const struct follower *row = k->row[o] = k->rows[o] + (keys[o] * width[o] & (k->cells - 1));
        const struct follower *end = row->symbol == k->check[o] ? row + width[o] : row;
        double share = rest / (row->count ? row->count : 1);
        for (const struct follower *f = row + 1; f < end && f->count; f++) {
            uint32_t c = class_of(f->symbol);
            double p = share * (f->count - discount);
            k->list[++listed] = (struct listed){p, f->symbol, k->first[c]};
            k->first[c] = listed;
            k->below[c + 1] += p;
            rest -= p;
        }
    }
    for (size_t c = 0; c < KNESER_CLASSES; c++)
        k->below[c + 1] += k->below[c];
    k->each = rest / (contexts(k, k->symbols) + unseen * (double)seen);
}

void kneser_halves(const struct kneser *k, const uint32_t *edges, double *halves) {
    uint32_t c = class_of(edges[0]), low = edges[0], high = edges[2];
    bool within = high <= (2u << c) - 1; /* one class */
    double at[3];
    for (size_t i = 0; i < 3; i++) {
        size_t edge = edges[i] < k->seen ? edges[i] : k->seen;
        at[i] = k->each * (contexts(k, edge) + unseen * (double)edge) +
                (within ? 0 : k->below[class_of(edges[i])]);
    }
    halves[0] = at[1] - at[0];
    halves[1] = at[2] - at[1];
    for (size_t n = within ? k->first[c] : 0; n; n = k->list[n].next)
        if (k->list[n].symbol >= low && k->list[n].symbol < high)
            halves[k->list[n].symbol >= edges[1]] += k->list[n].p;
}

/* Counts the symbol in its context. Returns whether it is new there. */
static bool count(struct kneser *k, size_t order, uint32_t symbol) {
    struct follower *row = k->row[order], *end = row + width[order], *least = row + 1;
    if (row->symbol != k->check[order])
        memset(row, 0, width[order] * sizeof *row);
    row->symbol = k->check[order];
    if (++row->count == UINT16_MAX)
        for (struct follower *f = row; f < end; f++)
            f->count -= f->count / 2;
    for (struct follower *f = row + 1; f < end; f++) {
        if (f->count && f->symbol == symbol)
            return f->count++, false;
        least = f->count < least->count ? f : least;
    }
    *least = (struct follower){(uint16_t)symbol, 1};
    return true;
}

void kneser_learn(struct kneser *k, uint32_t symbol) {
    if (count(k, 0, symbol) && count(k, 1, symbol) && contexts(k, k->symbols) < CONTEXTS_MOST)
        for (size_t n = symbol + 1; n <= k->symbols; n += n & -n)
            k->sums[n]++;
}
