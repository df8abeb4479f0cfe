/* --field COLUMN=PATH, --key-field and --time-field of sources of JSON: brokers/mapping.h. */
#ifndef RUNNEL_FEED_FIELDS_H
#define RUNNEL_FEED_FIELDS_H

#include "brokers/mapping.h"
#include "common/moment.h"
#include "streams/feed.h"

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

#endif
