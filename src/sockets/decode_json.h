/* An example's JSON, rewritten as the frames of a binary message, so that both forms of one example
   pass the same checks. Only decode.c includes this. */
#ifndef RUNNEL_DECODE_JSON_H
#define RUNNEL_DECODE_JSON_H

#include <stdbool.h>

#include "common/wire.h"
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
    const struct column *columns; /* (width,) of x, where they are listed; else NULL: then it is */
};

/* Numbers or words of one frame, grown as messages need it. */
struct numbers {
    unsigned char *bytes; /* malloc'ed */
    size_t capacity;      /* in bytes */
    size_t size;          /* of words: of those that are there */
};

/* Of number k of a row. */
static inline bool shape_whole(const struct shape *shape, size_t k) {
    return shape->columns ? shape->columns[k].kind == COLUMN_SYMBOL : shape->whole;
}

/* Of columns: some are symbols, which are whole. */
static inline bool shape_mixed(const struct shape *shape) {
    return shape->columns && !shape->whole &&
           columns_of_kind(shape->columns, shape->width, COLUMN_SYMBOL);
}

/* Whether it is a word: the size of the hash, 0 = words get ids later. */
static inline bool shape_words(const struct shape *shape, size_t k) {
    const struct column *column = shape->columns ? &shape->columns[k] : NULL;
    return column ? column->vocabulary.capacity || column->hash : shape->words;
}
static inline size_t shape_hash(const struct shape *shape, size_t k) {
    return shape->columns ? shape->columns[k].hash : shape->hash;
}

/* What number k of a row is called: "x", or with columns "x's column load". */
void shape_name(const struct shape *shape, size_t k, char name[NUMBER_NAME_SIZE]);

struct json_example {
    char key[WIRE_KEY_MAX + 1];
    struct numbers x, y;
    struct numbers x_words, y_words; /* as on the wire; the first becomes both */
    unsigned char header[WIRE_HEADER_SIZE_MAX], of[WIRE_LABEL_SIZE];
    struct frame frames[MESSAGE_FRAMES_MAX];
    size_t count;  /* of frames */
    bool label;    /* it is a label: the fifth says of what */
    bool numbered; /* it has a "sequence" */
    bool schema;   /* it is a schema that fits, and no example: there are no frames */
};

/* REJECT_NOT: `example->frames` are the message. Else as decode(), with frames[0] the key and
   frames[3] the header if they were understood, the latter as far as it was. */
enum reject_reason decode_json(struct json_example *example, const struct shape *x,
                               const struct shape *y, const void *text, size_t size,
                               char why[REJECT_WHY_SIZE]);

void json_example_free(struct json_example *example);

#endif
