/* JSON as devices write it, made into examples: --field COLUMN=PATH, --key-field and --time-field
   name what is the x, the stream and the time in

       {"sensor": "a", "ts": 1700000000123, "data": {"temperature": 21.5}, "site": "x"}

   A path has dots between members, and numbers from 0 for elements of lists. */
#ifndef RUNNEL_FEED_FIELDS_H
#define RUNNEL_FEED_FIELDS_H

#include <jansson.h>

#include "brokers/message.h"
#include "feed_time.h"
#include "streams/feed.h"

struct fields;

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
int fields_open(struct fields **fields, const struct source *source, struct error *error);
void fields_close(struct fields **fields);

/* Make an example of the object: 1, and `*example` is the caller's. 0: it has none, and `why` says
   so. -1: out of memory, or (EX_USAGE) an option is needed. */
int fields_map(struct fields *fields, json_t *value, json_t **example, char why[MESSAGE_WHY_SIZE],
               struct error *error);

/* The same with the bytes of a message, which are then those of the example until the next call. */
int fields_message(struct fields *fields, struct message *message, char why[MESSAGE_WHY_SIZE],
                   struct error *error);

#endif
