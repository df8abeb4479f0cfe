/* Wall-clock time of a zone of tzdata, without libc's state: neither TZ nor any other part of the
   environment plays a role. All transitions are read when a zone opens, those of the rule that
   holds after the last of them are worked out; from then on it is plain data. */
#ifndef RUNNEL_TIME_ZONE_H
#define RUNNEL_TIME_ZONE_H

#include <stdbool.h>

struct error;
struct time_zone;

enum { TIME_ZONE_NAME_SIZE = 64 };

/* Unix times that have a date here: those of the years 1 to 9999, the end not included. */
#define TIME_ZONE_BEGIN (-62135596800.0)
#define TIME_ZONE_END 253402300800.0

/* Whether a text can be a zone's name: letters, digits, '+', '-', '_' and '/', no way out of the
   directory of zones. */
bool time_zone_good(const char *name);

/* Open a zone, "Europe/Berlin"; "UTC" needs no file. Errors say what is wrong with the name or
   its file (EX_CONFIG), not where the name stood, or out of memory (EX_OSERR). */
int time_zone_open(struct time_zone **zone, const char *name, struct error *error);
void time_zone_close(struct time_zone **zone);

/* Seconds that the zone's clocks are ahead of UTC at a Unix time from TIME_ZONE_BEGIN to
   TIME_ZONE_END. */
double time_zone_offset(const struct time_zone *zone, double time);

/* Days since 1970-01-01 of the first day of a year of the Gregorian calendar, and the other way
   round the year that a day is in. */
long time_zone_year_begins(long year);
long time_zone_year_of(long day);

#endif
