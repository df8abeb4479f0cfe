/* The frames of a message, and the reasons of rejections. */
#ifndef RUNNEL_FRAMES_H
#define RUNNEL_FRAMES_H

#include <stddef.h>

#include "common/example.h"

enum {
    EXAMPLE_FRAMES_MAX = 4, /* key, x, y and header */
    LABEL_FRAMES = 5,       /* key, x, y, header and the numbers of a label's example */
    MESSAGE_FRAMES_MAX = 7, /* the frames of a label, words and a note */
    REJECT_WHY_SIZE = 256,
};

enum reject_reason {
    REJECT_NOT,     /* a valid example */
    REJECT_FRAMES,  /* wrong number of frames */
    REJECT_JSON,    /* the single frame is not valid JSON of an example */
    REJECT_KEY,     /* longer than WIRE_KEY_MAX, or not UTF-8 */
    REJECT_X_SIZE,  /* not a whole number of steps, none, or more than EXAMPLE_STEPS_MAX */
    REJECT_X_VALUE, /* not finite, missing without `hold`, or out of range */
    REJECT_Y_SIZE,  /* not one target per step */
    REJECT_Y_VALUE, /* infinite, invalid class, or out of range */
    REJECT_Y_GIVEN, /* the model has another source of targets */
    REJECT_HEADER,  /* invalid size, version, flags, reserved field or time */
    /* Add new reasons at the end: acknowledgements contain their numbers. */
    REJECT_CONFLICT,      /* router: its number was used before with other content */
    REJECT_SEQUENCE_JUMP, /* router: its number is too far above its stream's newest */
    REJECT_NOT_ALLOWED,   /* this client may not send this stream */
    REJECT_SCHEMA,        /* differs from the declared schema */
    REJECT_LABEL,         /* a label without effect: it still counts as an example */
    REJECT_VOCABULARY,    /* a word or class beyond the capacity, with unknown: reject */
    REJECT_REASONS,
};

/* The name of the reason's counter: "x_size". */
const char *reject_name(enum reject_reason reason);

struct frame {
    const void *data;
    size_t size;
};

/* Write the clause and return the reason. */
enum reject_reason reject(enum reject_reason reason, char why[REJECT_WHY_SIZE], const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

#endif
