/* Times as tables and messages have them:

       2016-07-01 12:34:56.7   also with / or a T, without the clock or its seconds, as
                               20160701T123456, and with a zone: Z, UTC, +01:00, +0100, +01
       31/12/2014 3:05 PM      also with a dash; 31.12.2014
       1467376496.7            Unix seconds, milliseconds, microseconds or nanoseconds, which the
                               magnitude tells apart

   or as a format says. Without a zone it is UTC. */
#ifndef RUNNEL_MOMENT_H
#define RUNNEL_MOMENT_H

#include <stdbool.h>

struct error;

enum { TIME_WHY_SIZE = 200 };

enum time_order { TIME_ORDER_UNKNOWN, TIME_DAY_FIRST, TIME_MONTH_FIRST };

/* The times of one column or field. */
struct time_reader {
    const char *format; /* or NULL: as the text looks */
    const char *option; /* that names the format: "--time-format" */
    const char *name;   /* of the column or field, for notices, */
    void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2))); /* made by this */
    enum time_order order; /* of the day and the month; known once a date decides */
    unsigned reported;     /* units and the order, a bit each */
    bool begun;            /* a number was read */
    bool unclear;          /* the newest text has two meanings: only an option can decide */
};

#define TIME_FORMAT_HELP                                                                           \
    "how times are written: a format of strptime(3), as %d/%m/%Y, or s, ms, us, ns of Unix time "  \
    "(default: as they look)"

/* Whether the format, or NULL, can be used: 0, or -1 (EX_USAGE). */
int time_check(const char *format, struct error *error);

/* Read one, as Unix seconds. False: `why` says in a clause what was found and what is expected. */
bool time_read(struct time_reader *reader, const char *text, double *time, char why[TIME_WHY_SIZE]);

/* Let the text decide on the order of day and month. True: nothing is left to be decided. */
bool time_look(struct time_reader *reader, const char *text);

#endif
