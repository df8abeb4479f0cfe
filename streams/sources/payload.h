/* Steps of what is in the messages of a broker (brokers/message.h), with numbers for those that the
   broker does not number. */
#ifndef RUNNEL_FEED_PAYLOAD_H
#define RUNNEL_FEED_PAYLOAD_H

#include <jansson.h>

#include "cluster/brokers/mapping.h"
#include "cluster/brokers/message.h"
#include "common/moment.h"
#include "streams/feed.h"
#include "streams/feed_streams.h"

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

/* ---- Fields ----

   --field COLUMN=PATH, --key-field and --time-field of sources of JSON: brokers/mapping.h. */

/* Rows of a source's options: `type` is its struct, whose first field is a struct source named
   `source`. */
#define FIELD_OPTION_HELP                                                                          \
    "a column of x and where it is in JSON, as temperature=data.temperature; may be repeated "     \
    "(default: all members); other fields are ignored"
#define FIELD_OPTION(type)                                                                         \
    {                                                                                              \
        "field", 0, "COLUMN=PATH", FIELD_OPTION_HELP,                                              \
            OPTION_LIST(type, source.fields.columns, OPTION_LIST_MAX)                              \
    }
#define FIELD_OPTIONS(type)                                                                        \
    {"key-field", 0, "PATH", "the field of JSON that names the stream",                            \
     OPTION_TEXT(type, source.fields.key)},                                                        \
        {"time-field", 0, "PATH",                                                                  \
         "the field of JSON that is the time: Unix time, 2016-07-01T12:34:56Z or 31/12/2014",      \
         OPTION_TEXT(type, source.fields.time)},                                                   \
    {                                                                                              \
        "time-format", 0, "FORMAT", TIME_FORMAT_HELP, OPTION_TEXT(type, source.fields.time_format) \
    }

/* What the options of `source`, which must outlive it, ask for; NULL: nothing. */
int fields_open(struct mapping **mapping, const struct source *source, struct error *error);

/* ---- Numbers ----

   Whose numbers examples of JSON have, so that labels among them name the same: the daemon looks
   for the example of a label among those of the label's own key and producer. */

/* "producer", in hexadecimal digits. */
void numbers_set_producer(json_t *value, uint64_t producer);

/* The same of an example that has all but its sequence, unless that is its own; before
   the stream's is set to it. EX_DATAERR: a label was given its number. */
int numbers_of_example(struct held_stream *held, const json_t *value, struct error *error);

/* Give the label what it lacks of "producer", "epoch" and "label_epoch": those of the stream's
   newest example, or what the options of the call say. EX_DATAERR: it has no number, and nothing
   says whose it would be. */
int numbers_of_label(const struct source *source, struct held_stream *held, json_t *value,
                     struct error *error);

#endif
