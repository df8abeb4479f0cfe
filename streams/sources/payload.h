/* Steps of what is in the messages of a broker (brokers/message.h), with numbers for those that the
   broker does not number. */
#ifndef RUNNEL_FEED_PAYLOAD_H
#define RUNNEL_FEED_PAYLOAD_H

#include "brokers/message.h"
#include "feed_fields.h"
#include "streams/feed.h"

struct payload;

/* Rows of a source's options: `type` is its struct, whose first field is a struct source named
   `source`. */
#define PAYLOAD_OPTIONS(type)                                                                      \
    FIELD_OPTIONS(type), {                                                                         \
        "strict", 0, NULL,                                                                         \
            "end with a message that is no example, that has fields which no option names, or "    \
            "that the daemon rejects, and leave it to the broker (default: count it, say so, and " \
            "acknowledge it)",                                                                     \
            OPTION_FLAG(type, source.strict)                                                       \
    }
#define PAYLOAD_NOTES                                                                              \
    "A message is one example: numbers (1.5 2 3 or 1.5,2,3), JSON that is its x ([1.5, 2, 3], or " \
    "an object that names columns), or a line as of runnel-feed json. "

/* For the messages of `source`, which must outlive it. */
int payload_open(struct payload **payload, struct source *source, struct error *error);
void payload_close(struct payload **payload);

/* 1: the message is the example `step`, which is valid until the next call. 0: it is none; that
   has been counted, and said, once and with --verbose of each. -1: out of memory; or EX_DATAERR,
   with --strict. */
int payload_step(struct payload *payload, const struct message *message, struct step *step,
                 struct error *error);

#endif
