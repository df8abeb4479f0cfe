/* The frames of a message, and the reasons why it is no example. */
#ifndef RUNNEL_FRAMES_H
#define RUNNEL_FRAMES_H

#include <stddef.h>

#include "common/example.h"

enum {
    EXAMPLE_FRAMES_MAX = 4, /* key, x, y and header */
    LABEL_FRAMES = 5,       /* likewise, and which example it is for */
    MESSAGE_FRAMES_MAX = 7, /* likewise, words and a note */
    REJECT_WHY_SIZE = 256,
};

enum reject_reason {
    REJECT_NOT,     /* it is a good example */
    REJECT_FRAMES,  /* more than four frames */
    REJECT_JSON,    /* its one frame is not JSON, or not the JSON of an example */
    REJECT_KEY,     /* longer than WIRE_KEY_MAX, or not UTF-8 */
    REJECT_X_SIZE,  /* no whole number of steps, none, or more than EXAMPLE_STEPS_MAX */
    REJECT_X_VALUE, /* not finite, missing without `hold`, outside the alphabet or the range */
    REJECT_Y_SIZE,  /* not one target a step */
    REJECT_Y_VALUE, /* infinite, no class, outside the range */
    REJECT_Y_GIVEN, /* the model's targets come otherwise: this one is a mistake */
    REJECT_HEADER,  /* wrong size, version, flags, reserved field or time */
    /* New ones come last: their numbers travel in acknowledgements. */
    REJECT_CONFLICT,      /* router: its number came before, with another content */
    REJECT_SEQUENCE_JUMP, /* router: its number is too far above its stream's newest */
    REJECT_NOT_ALLOWED,   /* this client may not send this stream */
    REJECT_SCHEMA,        /* not as its client said at first that examples would be */
    REJECT_LABEL,         /* a label that changes nothing: it counts as an example all the same */
    REJECT_VOCABULARY,    /* a word or class beyond the capacity, which is to be rejected */
    REJECT_REASONS,
};

/* The name of its counter: "x_size". */
const char *reject_name(enum reject_reason reason);

struct frame {
    const void *data;
    size_t size;
};

/* Write the clause, return the reason. */
enum reject_reason reject(enum reject_reason reason, char why[REJECT_WHY_SIZE], const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

#endif
