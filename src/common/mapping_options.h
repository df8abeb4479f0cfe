/* How to convert other JSON to examples: the options of runnel-feed, or the section
   examples.json of the daemon's configuration. brokers/mapping.h does the conversion. */
#ifndef RUNNEL_MAPPING_OPTIONS_H
#define RUNNEL_MAPPING_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct error;

enum { MAPPING_PATH_SIZE = 256 };

/* The names of the options in messages: "--key-field", "examples.json.key_field". */
struct mapping_names {
    const char *field, *key, *time, *format, *strict;
};

/* A path separates members by dots; elements of lists are numbered from 0. */
struct mapping_options {
    const char *const *fields; /* (count,) COLUMN=PATH; empty: all members are columns */
    size_t count;
    const char *key, *time; /* paths of the stream's name and of the time, or NULL */
    const char *format;     /* format of the time: common/moment.h */
    bool strict;            /* other fields are an error */
    const struct mapping_names *names;
    void (*report)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Number of bytes of the column's name in COLUMN=PATH; 0: invalid. */
size_t mapping_column(const char *field);

/* NULL, or the name of the invalid option; `error` (EX_USAGE) contains the rest of the sentence. */
const char *mapping_check(const struct mapping_options *options, struct error *error);

#endif
