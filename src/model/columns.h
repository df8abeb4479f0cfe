/* Columns: what an x is made of where model.input.columns says so (docs/reference/columns.md). An x as it is
   sent has one number of 4 bytes a column; a network sees what the columns encode, one after the
   other:

     real     z, the value as scaled; with a mask also 1 where it was not observed, else 0
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
    COLUMNS_TEXT_SIZE = 160, /* of a list of columns for people */
};

/* Words that get ids in the order in which they come (parts/words.c): 0 .. capacity - 1, and the
   id `capacity` stands for every other word. */
struct vocabulary {
    size_t capacity; /* 0: there is none, and symbols are numbers */
    bool reject;     /* unknown: reject: an example with a word more is refused */
    bool lru;        /* forget: lru: a word more takes the id that was used longest ago */
};

/* In a symbol's cell: its row counts as minus that. The id is what the other bits say. */
#define SYMBOL_MINUS (UINT32_C(1) << 31)

enum column_kind { COLUMN_REAL, COLUMN_SYMBOL, COLUMN_CYCLE };

struct column {
    char name[COLUMN_NAME_SIZE];
    enum column_kind kind;
    /* real */
    bool standard;   /* scale: standard, with */
    uint64_t memory; /* values that the scale remembers, 0 = all */
    double limit;    /* sd that a value is at most away, 0 = no limit */
    bool hold;       /* missing: hold */
    bool mask;
    /* symbol */
    size_t size, embedding; /* alphabet; width of the learned embedding, 0 = one-hot */
    struct vocabulary vocabulary;
    size_t hash; /* words are hashed (common/word_hash.h) to so many ids; 0 = not */
    /* cycle */
    double period;
    size_t harmonics;

    unsigned given; /* for the configuration alone: keys that were written */
};

/* What the configuration calls them; NULL after the last. */
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

/* How many of them are of that kind. */
size_t columns_of_kind(const struct column *columns, size_t count, enum column_kind kind);
static inline size_t columns_real(const struct column *columns, size_t count) {
    return columns_of_kind(columns, count, COLUMN_REAL);
}
static inline size_t columns_symbols(const struct column *columns, size_t count) {
    return columns_of_kind(columns, count, COLUMN_SYMBOL);
}

/* Numbers of the encoded input that the column makes; of the engine's x, which has a symbol's id in
   the place of its row. */
size_t column_width(const struct column *column);
size_t column_features(const struct column *column);

/* "load float32, host uint32, hour float32", and how many more there are. Returns `text`. */
const char *columns_text(const struct column *columns, size_t count, char text[COLUMNS_TEXT_SIZE]);

#endif
