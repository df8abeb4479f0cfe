/* What makes an example of other JSON: the options of runnel-feed, or the section examples.json of
   the daemon's configuration. brokers/mapping.h does it. */
#ifndef RUNNEL_MAPPING_OPTIONS_H
#define RUNNEL_MAPPING_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct error;

enum { MAPPING_PATH_SIZE = 256 };

/* How options are called in sentences: "--key-field", "examples.json.key_field". */
struct mapping_names {
    const char *field, *key, *time, *format, *strict;
};

/* A path has dots between members, and numbers from 0 for elements of lists. */
struct mapping_options {
    const char *const *fields; /* (count,) COLUMN=PATH; none: all members are columns */
    size_t count;
    const char *key, *time; /* paths of the stream's name and of the time, or NULL */
    const char *format;     /* of the time: common/moment.h */
    bool strict;            /* other fields are an error */
    const struct mapping_names *names;
    void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Bytes of the column's name in COLUMN=PATH; 0: the text is not of this form. */
size_t mapping_column(const char *field);

/* NULL, or the name of the option that is wrong: `error` (EX_USAGE) has the sentence without it. */
const char *mapping_check(const struct mapping_options *options, struct error *error);

#endif
