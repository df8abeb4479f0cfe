/* The insides of time zones: time_zone.c reads the file of a zone (RFC 8536), time_zone_rule.c the
   rule for what comes after its last transition. */
#ifndef RUNNEL_TIME_ZONE_INTERNAL_H
#define RUNNEL_TIME_ZONE_INTERNAL_H

#include "time_zone.h"

enum {
    TIME_ZONE_SHIFTS_MAX = 4096,
    TIME_ZONE_CYCLE_YEARS = 400, /* after so many dates and days of the week repeat */
    SECONDS_PER_DAY = 86400,
    DAYS_PER_WEEK = 7,
};
#define TIME_ZONE_CYCLE_SECONDS 12622780800.0

/* From the Unix time `at` on clocks are `offset` seconds ahead of UTC. */
struct time_zone_shift {
    double at, offset;
};

struct time_zone {
    double before; /* the offset before all shifts */
    int count;
    struct time_zone_shift shifts[TIME_ZONE_SHIFTS_MAX];
    bool leaps;   /* its file has leap seconds, and is refused */
    bool repeats; /* after the last shift all is as TIME_ZONE_CYCLE_YEARS before */
};

/* Add what a rule as of POSIX's TZ ("CET-1CEST,M3.5.0,M10.5.0/3") says of the time after the
   shifts that are there. False: it is none. */
bool time_zone_add_rule(struct time_zone *zone, const char *rule);

#endif
