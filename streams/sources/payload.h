/* Converts messages of a broker (brokers/message.h) to steps, and numbers those without numbers. */
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
            "end at a message that is not an example, that has unknown fields, or that the "       \
            "daemon rejects, and leave it at the broker (default: count it, report it, and "       \
            "acknowledge it)",                                                                     \
            OPTION_FLAG(type, source.strict)                                                       \
    }
#define PAYLOAD_NOTES                                                                              \
    "A message is one example: numbers (1.5 2 3 or 1.5,2,3), JSON with its x ([1.5, 2, 3], or "    \
    "an object with named columns), or a line as for runnel-feed json. "

/* Prepares messages of `source`, which must outlive it. */
int payload_open(struct payload **payload, struct source *source, struct error *error);
void payload_close(struct payload **payload);

/* Converts a message. Returns 1 and the example in `step`, valid until the next call. Returns 0 if
   it is not an example: it is counted and reported, once or with --verbose always. Returns -1 if
   out of memory, or with EX_DATAERR for --strict. */
int payload_step(struct payload *payload, const struct message *message, struct step *step,
                 struct error *error);

/* ---- Fields ----

   Options --field COLUMN=PATH, --key-field and --time-field of JSON sources, see
   brokers/mapping.h. */

/* Rows of a source's options: `type` is its struct, whose first field is a struct source named
   `source`. */
#define FIELD_OPTION_HELP                                                                          \
    "a column of x and its path in JSON, such as temperature=data.temperature; may be repeated "   \
    "(default: all members); other fields are ignored"
#define FIELD_OPTION(type)                                                                         \
    {                                                                                              \
        "field", 0, "COLUMN=PATH", FIELD_OPTION_HELP,                                              \
            OPTION_LIST(type, source.fields.columns, OPTION_LIST_MAX)                              \
    }
#define FIELD_OPTIONS(type)                                                                        \
    {"key-field", 0, "PATH", "the JSON field with the stream name",                                \
     OPTION_TEXT(type, source.fields.key)},                                                        \
        {"time-field", 0, "PATH",                                                                  \
         "the JSON field with the time: Unix time, 2016-07-01T12:34:56Z or 31/12/2014",            \
         OPTION_TEXT(type, source.fields.time)},                                                   \
    {                                                                                              \
        "time-format", 0, "FORMAT", TIME_FORMAT_HELP, OPTION_TEXT(type, source.fields.time_format) \
    }

/* Creates the mapping of the options of `source`, which must outlive it; NULL: no such options. */
int fields_open(struct mapping **mapping, const struct source *source, struct error *error);

/* ---- Numbers ----

   Producers of JSON examples and their labels: the daemon finds a label's example by key and
   producer, so both must be equal. */

/* Sets "producer" in hexadecimal digits. */
void numbers_set_producer(json_t *value, uint64_t producer);

/* Notes the numbers of an example that is complete except for its sequence, before the stream's
   numbers are set to it. Fails with EX_DATAERR if a label has its number. */
int numbers_of_example(struct held_stream *held, const json_t *value, struct error *error);

/* Adds missing "producer", "epoch" and "label_epoch" to a label: those of the stream's newest
   example, or of the options. Fails with EX_DATAERR if it has no number and no stream to take one
   from. */
int numbers_of_label(const struct source *source, struct held_stream *held, json_t *value,
                     struct error *error);

#endif
