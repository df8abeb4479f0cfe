/* An example's JSON, rewritten as the frames of a binary message, so that both forms of one example
   pass the same checks. Only the decoder
   includes this. */
#ifndef RUNNEL_DECODE_JSON_H
#define RUNNEL_DECODE_JSON_H

#include <stdbool.h>

#include "common/wire.h"
#include "decode_numbers.h"

/* Numbers or words of one frame, grown as messages need it. */
struct numbers {
    unsigned char *bytes; /* malloc'ed */
    size_t capacity;      /* in bytes */
    size_t size;          /* of words: of those that are there */
};

struct json_example {
    char key[WIRE_KEY_MAX + 1], note[WIRE_NOTE_MAX];
    size_t note_size; /* 0: it has none */
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
