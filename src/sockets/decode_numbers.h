/* The numbers of an example's x and y: how each is written, and which of them are good. Only files
   of the decoder include this. */
#ifndef RUNNEL_DECODE_NUMBERS_H
#define RUNNEL_DECODE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frames.h"
#include "model/columns.h"

enum {
    NUMBER_SIZE = 4, /* bytes: float32 and uint32 alike */
    NUMBER_NAME_SIZE = COLUMN_NAME_SIZE + sizeof "x's column ",
};

/* How one of x and y is written. */
struct shape {
    const char *name;  /* "x" or "y" */
    bool whole;        /* uint32 symbols or classes instead of float32; with columns each says */
    size_t width;      /* numbers a step */
    bool null_allowed; /* a null is a number: NaN or WIRE_NO_CLASS */
    bool words;        /* a symbol or class is a word: WIRE_WORD stands in its place, */
    size_t hash;       /* or with this the id that it is hashed to */
    bool refused;      /* y: the target is the next x */
    enum reject_reason wrong_size, wrong_value;
    const struct column *columns; /* (width,) where they are listed; else NULL: then it is x, or y
                                     without names */
};

/* Of number k of a row. */
static inline bool shape_whole(const struct shape *shape, size_t k) {
    return shape->columns ? column_is_symbol(&shape->columns[k]) : shape->whole;
}

/* Of columns: some are symbols, which are whole. */
static inline bool shape_mixed(const struct shape *shape) {
    return shape->columns && !shape->whole && columns_symbols(shape->columns, shape->width);
}

/* Whether it is a word: the size of the hash, 0 = words get ids later. */
static inline bool shape_words(const struct shape *shape, size_t k) {
    const struct column *column = shape->columns ? &shape->columns[k] : NULL;
    return column ? column->vocabulary.capacity || column->hash : shape->words;
}
static inline size_t shape_hash(const struct shape *shape, size_t k) {
    return shape->columns ? shape->columns[k].hash : shape->hash;
}

/* What number k of a row is called: "x", or with columns "x's column load". Returns
   `name`. */
const char *shape_name(const struct shape *shape, size_t k, char name[NUMBER_NAME_SIZE]);

/* The column of that name, shape->width without one; looked for from `first` on, since names mostly
   come in the columns' order. */
size_t shape_column(const struct shape *shape, const char *name, size_t first);

/* "load, host, hour": all columns' names, "..." in place of those that do not fit. Returns `text`.
 */
enum { SHAPE_NAMES_SIZE = 120 };
const char *shape_names(const struct shape *shape, char text[SHAPE_NAMES_SIZE]);

/* What one number is: "float32", "uint32", or "mixed" of columns. */
const char *shape_type(const struct shape *shape);

/* Which numbers of x or y are good. */
struct range {
    bool whole;        /* uint32 < size, else float32 in [low, high] */
    const char *loss;  /* that bounds them */
    uint32_t size;     /* of the alphabet, or classes */
    float low, high;   /* -FLT_MAX and FLT_MAX: all that are finite */
    bool null_allowed; /* also NaN, or WIRE_NO_CLASS */
    bool words;        /* also WIRE_WORD */
    bool minus;        /* also with SYMBOL_MINUS */
};

/* Of a column that is a number of x. `unit`: it is a target of a loss that takes 0..1. */
struct range column_range(const struct column *column, bool unit, const char *loss);

/* Columns of one range are checked as inputs without columns are. */
bool range_same(const struct range *a, const struct range *b);

/* `numbers`: (count,), a whole number of rows of `shape`. `ranges`: (shape->width,), one for each
   number of a row, or NULL: `range` is that of all. Any reason but REJECT_NOT: `why` is the
   sentence about the first bad one. */
enum reject_reason check_numbers(const struct shape *shape, const struct range *range,
                                 const struct range *ranges, const void *numbers, size_t count,
                                 char why[REJECT_WHY_SIZE]);

#endif
