/* The rule of a zone for the time after its last transition: POSIX's TZ, with the extensions of
   RFC 8536 (hours from -167 to 167). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "time_zone_internal.h"

enum {
    SECONDS_PER_HOUR = 3600,
    SECONDS_PER_MINUTE = 60,
    HOURS_MAX = 167,
    RULE_TIME = 2 * SECONDS_PER_HOUR, /* when clocks are changed, where a rule does not say */
    LAST_WEEK = 5,
    LEAP_DAY = 59, /* counted from January 1 */
    FIRST_YEAR = 1970,
};

/* When in a year clocks are changed. */
struct change {
    char kind; /* 'M': month, week, weekday; 'J': day 1..365, never February 29; 'D': day 0..365 */
    long month, week, day, time; /* time: seconds of that day, by the clocks before */
};

struct rule {
    double standard, summer; /* offsets */
    bool has_summer;
    struct change begins, ends; /* summer */
};

/* ---- Reading ---- */

static bool take_name(const char **text) {
    const char *from = *text;
    if (*from == '<') {
        *text = strchr(from, '>');
        return *text && (*text)++ > from + 1;
    }
    while (isalpha((unsigned char)**text))
        (*text)++;
    return *text > from;
}

static bool take_number(const char **text, long most, long *number) {
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *number = strtol(*text, &end, 10);
    *text = end;
    return *number <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(const char **text, long *seconds) {
    bool negative = **text == '-';
    long unit = SECONDS_PER_HOUR, part = 0;
    *text += **text == '-' || **text == '+';
    if (!take_number(text, HOURS_MAX, &part))
        return false;
    *seconds = part * unit;
    while (unit > 1 && **text == ':') {
        unit /= SECONDS_PER_MINUTE;
        (*text)++;
        if (!take_number(text, SECONDS_PER_MINUTE - 1, &part))
            return false;
        *seconds += part * unit;
    }
    *seconds = negative ? -*seconds : *seconds;
    return true;
}

static bool take(const char **text, char c) {
    return **text == c && (*text)++;
}

/* ",M3.5.0/2", ",J60", ",59" */
static bool take_change(const char **text, struct change *change) {
    enum { MONTHS = 12, YEAR_DAYS = 365 };
    *change = (struct change){.kind = 'D', .time = RULE_TIME};
    if (!take(text, ','))
        return false;
    if (**text == 'M' || **text == 'J')
        change->kind = *(*text)++;
    bool good = change->kind == 'M'
                    ? take_number(text, MONTHS, &change->month) && take(text, '.') &&
                          take_number(text, LAST_WEEK, &change->week) && take(text, '.') &&
                          take_number(text, DAYS_PER_WEEK - 1, &change->day) && change->month &&
                          change->week
                    : take_number(text, YEAR_DAYS, &change->day);
    if (!good || (change->kind == 'J' && change->day == 0))
        return false;
    return !take(text, '/') || take_time(text, &change->time);
}

static bool read_rule(const char *text, struct rule *rule) {
    long west;
    *rule = (struct rule){0};
    if (!take_name(&text) || !take_time(&text, &west))
        return false;
    rule->standard = (double)-west;
    if (!*text)
        return true;
    rule->has_summer = true;
    rule->summer = rule->standard + SECONDS_PER_HOUR;
    if (!take_name(&text))
        return false;
    if (*text != ',') {
        if (!take_time(&text, &west))
            return false;
        rule->summer = (double)-west;
    }
    return take_change(&text, &rule->begins) && take_change(&text, &rule->ends) && !*text;
}

/* ---- Dates ---- */

static bool is_leap(long year) {
    return year % 4 == 0 && (year % 100 != 0 || year % TIME_ZONE_CYCLE_YEARS == 0);
}

long time_zone_year_begins(long year) {
    enum { DAYS_TO_1970 = 719162 }; /* from the first day of the year 1 */
    long past = year - 1;
    return past * 365 + past / 4 - past / 100 + past / TIME_ZONE_CYCLE_YEARS - DAYS_TO_1970;
}

long time_zone_year_of(long day) {
    long year = FIRST_YEAR + day / 366; /* not after it, from 1970 on */
    if (day < 0)
        year = FIRST_YEAR + day / 365 - 1; /* likewise, before 1970 */
    while (time_zone_year_begins(year + 1) <= day)
        year++;
    return year;
}

/* 0: Sunday. 1970-01-01 was a Thursday. */
static long weekday(long day) {
    enum { THURSDAY = 4 };
    return ((day + THURSDAY) % DAYS_PER_WEEK + DAYS_PER_WEEK) % DAYS_PER_WEEK;
}

static long day_of(const struct change *change, long year) {
    static const int months[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    long begins = time_zone_year_begins(year);
    bool leap = is_leap(year);
    if (change->kind == 'D')
        return begins + change->day;
    if (change->kind == 'J')
        return begins + change->day - 1 + (leap && change->day > LEAP_DAY);
    long first = begins + months[change->month - 1] + (leap && change->month > 2);
    long after = begins + months[change->month] + (leap && change->month > 1);
    long day = first + (change->day - weekday(first) + DAYS_PER_WEEK) % DAYS_PER_WEEK;
    for (long week = 1; week < change->week && day + DAYS_PER_WEEK < after; week++)
        day += DAYS_PER_WEEK;
    return day;
}

/* The Unix time of a change, of which the clocks before it are so far ahead. */
static double time_of(const struct change *change, long year, double offset) {
    return (double)day_of(change, year) * SECONDS_PER_DAY + (double)change->time - offset;
}

/* ---- All of it ---- */

/* The first `known` shifts are the file's. Where one of the rule's ends as the next begins, as does
   a summer time of all year, the next one holds. */
static bool add_shift(struct time_zone *zone, int known, double at, double offset) {
    struct time_zone_shift *last = zone->count ? &zone->shifts[zone->count - 1] : NULL;
    if (last && zone->count > known && at == last->at)
        last->offset = offset;
    if (last && at <= last->at)
        return true; /* it is there */
    if (zone->count == TIME_ZONE_SHIFTS_MAX)
        return false;
    zone->shifts[zone->count++] = (struct time_zone_shift){at, offset};
    return true;
}

bool time_zone_add_rule(struct time_zone *zone, const char *text) {
    struct rule rule;
    if (!read_rule(text, &rule))
        return false;
    if (!rule.has_summer) {
        if (!zone->count)
            zone->before = rule.standard;
        else if (zone->shifts[zone->count - 1].offset != rule.standard)
            return false; /* the file's last shift says another time */
        return true;
    }
    long year = FIRST_YEAR;
    int known = zone->count;
    if (known)
        year = time_zone_year_of((long)(zone->shifts[zone->count - 1].at / SECONDS_PER_DAY) - 1);
    else
        zone->before = rule.standard;
    for (long n = 0; n <= TIME_ZONE_CYCLE_YEARS + 1; n++, year++) {
        double begins = time_of(&rule.begins, year, rule.standard);
        double ends = time_of(&rule.ends, year, rule.summer);
        bool good = begins < ends ? add_shift(zone, known, begins, rule.summer) &&
                                        add_shift(zone, known, ends, rule.standard)
                                  : add_shift(zone, known, ends, rule.standard) &&
                                        add_shift(zone, known, begins, rule.summer);
        if (!good)
            return false;
    }
    zone->repeats = true;
    return true;
}
