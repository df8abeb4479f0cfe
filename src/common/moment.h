/* Times in tables and messages:
       2016-07-01 12:34:56.7   also with / or a T, without the clock or its seconds, as
                               20160701T123456, and with a zone: Z, UTC, +01:00, +0100, +01
       31/12/2014 3:05 PM      also with a dash; 31.12.2014
       1467376496.7            Unix seconds, milliseconds, microseconds or nanoseconds, by magnitude
   or in a given format. Times without a zone are UTC. */
#ifndef RUNNEL_MOMENT_H
#define RUNNEL_MOMENT_H

#include <stdbool.h>

struct error;

enum { TIME_WHY_SIZE = 200 };

enum time_order { TIME_ORDER_UNKNOWN, TIME_DAY_FIRST, TIME_MONTH_FIRST };

/* Reader for the times of one column or field. */
struct time_reader {
    const char *format; /* NULL: automatic */
    const char *option; /* name of the option for the format: "--time-format" */
    const char *name;   /* name of the column or field, for notices */
    /* prints a notice */
    void (*report)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    enum time_order order; /* order of day and month; known after the first unambiguous date */
    unsigned reported;     /* a set of reported units and orders */
    bool begun;            /* a number was read */
    bool unclear;          /* the last text is ambiguous: only an option can resolve it */
};

#define TIME_FORMAT_HELP                                                                           \
    "format of times: a format of strptime(3), as in %d/%m/%Y, or s, ms, us, ns of Unix time "     \
    "(default: automatic)"

/* Check a format, or NULL: 0, or -1 (EX_USAGE). */
int time_check(const char *format, struct error *error);

/* Read a time as Unix seconds. False: `why` contains the expected and the actual text. */
bool time_read(struct time_reader *reader, const char *text, double *time, char why[TIME_WHY_SIZE]);

/* Use the text to find the order of day and month. True: the order is known. */
bool time_look(struct time_reader *reader, const char *text);

#endif
