/* Wall-clock time in a zone of tzdata, without the state of libc: neither TZ nor other
   environment variables affect it. Opening a zone reads all transitions and computes those of
   the rule after the last one; the result is plain data. */
#ifndef RUNNEL_TIME_ZONE_H
#define RUNNEL_TIME_ZONE_H

#include <stdbool.h>

struct error;
struct time_zone;

enum { TIME_ZONE_NAME_SIZE = 64 };

/* Unix times that have a date here: the years 1 to 9999, without the end. */
#define TIME_ZONE_BEGIN (-62135596800.0)
#define TIME_ZONE_END 253402300800.0

/* Whether a text is valid as a zone name: letters, digits, '+', '-', '_' and '/', within the
   directory of zones. */
bool time_zone_good(const char *name);

/* Open a zone, "Europe/Berlin"; "UTC" needs no file. Errors describe the name or its file
   (EX_CONFIG), or out of memory (EX_OSERR); callers add the key. */
int time_zone_open(struct time_zone **zone, const char *name, struct error *error);
void time_zone_close(struct time_zone **zone);

/* The offset of the zone's clocks from UTC in seconds, at a Unix time from TIME_ZONE_BEGIN to
   TIME_ZONE_END. */
double time_zone_offset(const struct time_zone *zone, double time);

/* The first day of a year of the Gregorian calendar, in days since 1970-01-01; and the year of
   such a day. */
long time_zone_year_begins(long year);
long time_zone_year_of(long day);

#endif
