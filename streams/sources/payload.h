/* What is in the messages of a broker: an example each. Numbers, "1.5 2 3" or "1.5,2,3", are its x,
   and so is a list of JSON, a number, a string or an object, which names columns; an object with
   "x" or "label_of" is the whole example, as a line of runnel-feed json. */
#ifndef RUNNEL_FEED_PAYLOAD_H
#define RUNNEL_FEED_PAYLOAD_H

#include "streams/feed.h"

enum { PAYLOAD_WHY_SIZE = 256 };

struct payload;

/* Rows of a source's options: `type` is its struct, whose first field is a struct source named
   `source`. */
#define PAYLOAD_OPTIONS(type)                                                                      \
    {                                                                                              \
        "strict", 0, NULL,                                                                         \
            "end with a message that is no example, or one that the daemon rejects, and leave it " \
            "to the broker (default: count it, say so, and acknowledge it)",                       \
            OPTION_FLAG(type, source.strict)                                                       \
    }
#define PAYLOAD_NOTES                                                                              \
    "A message is one example: numbers (1.5 2 3 or 1.5,2,3), JSON that is its x ([1.5, 2, 3], or " \
    "an object that names columns), or a line as of runnel-feed json. "

struct message {
    const char *id;  /* for sentences: what the broker calls it */
    const char *key; /* the stream, unless --stream or the message names another */
    size_t key_size;
    const char *bytes;
    size_t size;
    double time;                      /* Unix time, or 0; that in the message comes first */
    const struct feed_number *number; /* the broker's, or NULL */
};

/* For the messages of `source`, which must outlive it. */
int payload_open(struct payload **payload, struct source *source, struct error *error);
void payload_close(struct payload **payload);

/* 1: the message is the example `step`, which is valid until the next call. 0: it is none; that
   has been counted, and said, once and with --verbose of each. -1: out of memory; or EX_DATAERR,
   with --strict. */
int payload_step(struct payload *payload, const struct message *message, struct step *step,
                 struct error *error);

#endif
