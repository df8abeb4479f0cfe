/* Columns: the description of an x with model.input.columns (docs/reference/columns.md). A
   received x has one number of 4 bytes per column. The network's input is the concatenation of
   their encodings:
     real     z, the scaled value; with a mask also 1 where it was not observed, else 0
     symbol   one-hot of its alphabet, or the row of its embedding
     cycle    sin and cos of 2 pi k x / period for k = 1..harmonics
   Plain data, from the configuration. */
#ifndef RUNNEL_COLUMNS_H
#define RUNNEL_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLUMNS_MAX = 256,
    COLUMN_NAME_SIZE = 33,
    COLUMN_HARMONICS_MAX = 64,
    COLUMNS_TEXT_SIZE = 160, /* size of a list of columns for people */
};

/* Words that get symbols in order of appearance (parts/words.c): 0 .. capacity - 1. The symbol
   `capacity` stands for all other words. */
struct vocabulary {
    size_t capacity; /* 0: no vocabulary, symbols are numbers */
    bool reject;     /* unknown: reject: an example with another word is rejected */
    bool lru;        /* forget: lru: another word replaces the least recently used one */
};

/* A bit of a symbol: its row counts negatively. The other bits are the symbol. */
#define SYMBOL_MINUS (UINT32_C(1) << 31)

enum column_kind { COLUMN_REAL, COLUMN_SYMBOL, COLUMN_CYCLE };

struct column {
    char name[COLUMN_NAME_SIZE];
    enum column_kind kind;
    /* real */
    bool standard;   /* scale: standard */
    uint64_t memory; /* number of values that the scale remembers, 0 = all */
    double limit;    /* largest distance from the mean in deviations, 0 = no limit */
    bool hold;       /* missing: hold */
    bool mask;
    /* steps that its values are known ahead, 0 = they are not. For each horizon x has a column with
       the value of that step, NAME+STEPS if there are several: `horizon` is its number. */
    size_t known, horizon;
    /* symbol */
    size_t size, embedding; /* size of the alphabet; width of the learned embedding, 0 = one-hot */
    struct vocabulary vocabulary;
    size_t hash; /* number of symbols that words are hashed to (common/word_hash.h); 0 = no hash */
    /* cycle */
    double period;
    size_t harmonics;

    unsigned given; /* keys set in the configuration, one bit each */
};

/* Names in the configuration; NULL after the last. */
const char *column_kind_name(enum column_kind kind);

static inline bool column_is_real(const struct column *column) {
    return column->kind == COLUMN_REAL;
}
static inline bool column_is_symbol(const struct column *column) {
    return column->kind == COLUMN_SYMBOL;
}
static inline enum column_kind column_kind_of(bool symbol) {
    return symbol ? COLUMN_SYMBOL : COLUMN_REAL;
}
static inline bool column_is_cycle(const struct column *column) {
    return column->kind == COLUMN_CYCLE;
}

/* The number of columns of that kind, without those that are known ahead. */
size_t columns_of_kind(const struct column *columns, size_t count, enum column_kind kind);
static inline size_t columns_real(const struct column *columns, size_t count) {
    return columns_of_kind(columns, count, COLUMN_REAL);
}
static inline size_t columns_symbols(const struct column *columns, size_t count) {
    return columns_of_kind(columns, count, COLUMN_SYMBOL);
}

/* Numbers of the column in the encoded input; and in the engine's x, which contains a symbol
   instead of its row. */
size_t column_width(const struct column *column);
size_t column_features(const struct column *column);

/* "load float32, host uint32, hour float32", and the number of further columns. Returns `text`. */
const char *columns_text(const struct column *columns, size_t count, char text[COLUMNS_TEXT_SIZE]);

#endif
