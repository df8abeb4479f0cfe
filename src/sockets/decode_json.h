/* Converts the JSON of an example to the frames of a binary message, so that the same checks
   apply to both. Only the decoder includes this. */
#ifndef RUNNEL_DECODE_JSON_H
#define RUNNEL_DECODE_JSON_H

#include <stdbool.h>

#include "common/wire.h"
#include "decode_numbers.h"

/* Numbers or words of one frame, in a buffer that grows. */
struct numbers {
    unsigned char *bytes; /* malloc'ed */
    size_t capacity;      /* capacity in bytes */
    size_t size;          /* bytes in use, for words */
};

struct json_example {
    char key[WIRE_KEY_MAX + 1], note[WIRE_NOTE_MAX];
    size_t note_size; /* 0: no note */
    struct numbers x, y;
    struct numbers x_words, y_words; /* wire format; the words of y are appended to the first */
    unsigned char header[WIRE_HEADER_SIZE_MAX], of[WIRE_LABEL_SIZE];
    struct frame frames[MESSAGE_FRAMES_MAX];
    size_t count;  /* number of frames */
    bool label;    /* a label: the fifth frame identifies its example */
    bool numbered; /* the example has a "sequence" */
    bool schema;   /* a valid schema: not an example, without frames */
};

/* REJECT_NOT: `example->frames` are the message. Else as decode(), with frames[0] the key and
   frames[3] the header as far as they are valid. */
enum reject_reason decode_json(struct json_example *example, const struct shape *x,
                               const struct shape *y, const void *text, size_t size,
                               char why[REJECT_WHY_SIZE]);

void json_example_free(struct json_example *example);

#endif
