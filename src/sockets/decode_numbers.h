/* The numbers of an example's x and y: their format and their valid ranges. Only files of the
   decoder include this. */
#ifndef RUNNEL_DECODE_NUMBERS_H
#define RUNNEL_DECODE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frames.h"
#include "model/columns.h"

enum {
    NUMBER_SIZE = 4, /* bytes: float32 and uint32 */
    NUMBER_NAME_SIZE = COLUMN_NAME_SIZE + sizeof "x's column ",
};

/* The format of x or y. */
struct shape {
    const char *name;  /* "x" or "y" */
    bool whole;        /* uint32 symbols or classes instead of float32; columns may differ */
    size_t width;      /* numbers per step, or atom */
    size_t longest;    /* most atoms of a message; 0: not one */
    bool null_allowed; /* null is allowed: NaN or WIRE_NO_CLASS */
    bool words;        /* symbols or classes are words, marked with WIRE_WORD */
    size_t hash;       /* number of symbols that words are hashed to, or 0 */
    bool refused;      /* y is not allowed: the target is the next x */
    enum reject_reason wrong_size, wrong_value;
    /* (width,) NULL: x, or y without names. */
    const struct column *columns;
};

/* What a row is, in a sentence; and the most of them. */
static inline const char *shape_row(const struct shape *shape) {
    return shape->longest ? "atom" : "step";
}
static inline size_t shape_most(const struct shape *shape) {
    return shape->longest ? shape->longest : EXAMPLE_STEPS_MAX;
}

/* Reject more rows than that. */
enum reject_reason reject_rows(const struct shape *shape, size_t rows, char why[REJECT_WHY_SIZE]);

/* Whether number k of a row is a whole number. */
static inline bool shape_whole(const struct shape *shape, size_t k) {
    return shape->columns ? column_is_symbol(&shape->columns[k]) : shape->whole;
}

/* Whether some of the columns are symbols. */
static inline bool shape_mixed(const struct shape *shape) {
    return shape->columns && !shape->whole && columns_symbols(shape->columns, shape->width);
}

/* Whether number k is a word, and the size of its hash; 0 = the learner assigns symbols. */
static inline bool shape_words(const struct shape *shape, size_t k) {
    const struct column *column = shape->columns ? &shape->columns[k] : NULL;
    return column ? column->vocabulary.capacity || column->hash : shape->words;
}
static inline size_t shape_hash(const struct shape *shape, size_t k) {
    return shape->columns ? shape->columns[k].hash : shape->hash;
}

/* The name of number k of a row: "x", or with columns "x's column load". Returns `name`. */
const char *shape_name(const struct shape *shape, size_t k, char name[NUMBER_NAME_SIZE]);

/* The column of that name, or shape->width. The search begins at `first`, because names are
   usually in the columns' order. */
size_t shape_column(const struct shape *shape, const char *name, size_t first);

/* The names of all columns, "load, host, hour", with "..." for those that do not fit. Returns
   `text`. */
enum { SHAPE_NAMES_SIZE = 120 };
const char *shape_names(const struct shape *shape, char text[SHAPE_NAMES_SIZE]);

/* The type of a number: "float32", "uint32", or "mixed" for columns. */
const char *shape_type(const struct shape *shape);

/* The valid numbers of x or y. */
struct range {
    bool whole;        /* uint32 < size, else float32 in [low, high] */
    const char *loss;  /* loss that requires the range */
    uint32_t size;     /* size of the alphabet, or number of classes */
    float low, high;   /* -FLT_MAX and FLT_MAX: all finite numbers */
    bool null_allowed; /* allow NaN, or WIRE_NO_CLASS */
    bool words;        /* allow WIRE_WORD */
    bool minus;        /* allow SYMBOL_MINUS */
};

/* The range of a column of x. `unit`: it is a target of a loss with range 0..1. */
struct range column_range(const struct column *column, bool unit, const char *loss);

/* Columns with the same range are checked like inputs without columns. */
bool range_same(const struct range *a, const struct range *b);

/* Check `numbers` (count,), whole rows of `shape`. `ranges`: (shape->width,), one for each
   number of a row, or NULL: `range` is valid for all. Reasons other than REJECT_NOT: `why`
   describes the first invalid number. */
enum reject_reason check_numbers(const struct shape *shape, const struct range *range,
                                 const struct range *ranges, const void *numbers, size_t count,
                                 char why[REJECT_WHY_SIZE]);

#endif
