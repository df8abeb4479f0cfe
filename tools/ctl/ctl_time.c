#include "ctl_time.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POSITION_MAX (UINT64_C(1) << 53)

enum { MINUTES_AN_HOUR = 60, SECONDS_A_MINUTE = 60, FIRST_YEAR = 1900 };

bool ctl_time_read_position(const char *text, uint64_t *position) {
    char *end;
    *position = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && *position < POSITION_MAX;
}

static bool read_seconds(const char *text, const char **end, double *seconds) {
    char *stop;
    if (!isdigit((unsigned char)*text))
        return false;
    *seconds = strtod(text, &stop);
    *end = stop;
    return isfinite(*seconds);
}

/* "", "Z", "+09:00", "+0900" or "+09": `given` is whether it has an offset from UTC, `offset` the
   seconds. */
static bool read_zone(const char *text, bool *given, long *offset) {
    int hours, minutes = 0, used = 0;
    *given = *text != '\0';
    *offset = 0;
    if (!*given || !strcmp(text, "Z"))
        return true;
    if ((*text != '+' && *text != '-') || !isdigit((unsigned char)text[1]))
        return false;
    if (sscanf(++text, "%2d:%2d%n", &hours, &minutes, &used) != 2 &&
        sscanf(text, "%2d%2d%n", &hours, &minutes, &used) != 2) {
        minutes = 0;
        sscanf(text, "%2d%n", &hours, &used);
    }
    *offset = ((long)hours * MINUTES_AN_HOUR + minutes) * SECONDS_A_MINUTE;
    if (text[-1] == '-')
        *offset = -*offset;
    return !text[used];
}

static bool valid(const struct tm *tm) {
    return tm->tm_mon >= 0 && tm->tm_mon < 12 && tm->tm_mday >= 1 && tm->tm_mday <= 31 &&
           tm->tm_hour >= 0 && tm->tm_hour < 24 && tm->tm_min >= 0 && tm->tm_min < 60;
}

bool ctl_time_read(const char *text, double *time) {
    struct tm tm = {.tm_isdst = -1};
    const char *rest = text + 1;
    double seconds = 0;
    bool zone;
    long offset;
    int used = 0;
    char between;
    if (*text == '@')
        return read_seconds(rest, &rest, time) && !*rest;
    if (sscanf(text, "%4d-%2d-%2d%c%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &between,
               &tm.tm_hour, &tm.tm_min, &used) != 6 ||
        (between != 'T' && between != ' '))
        return false;
    tm.tm_year -= FIRST_YEAR;
    tm.tm_mon--;
    rest = text + used;
    if (*rest == ':' && !read_seconds(rest + 1, &rest, &seconds))
        return false;
    if (!valid(&tm) || seconds > SECONDS_A_MINUTE || !read_zone(rest, &zone, &offset))
        return false;
    *time = (double)(zone ? timegm(&tm) - offset : mktime(&tm)) + seconds;
    return true;
}

bool ctl_time_read_duration(const char *text, double *seconds) {
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    const char *end = "";
    if (!read_seconds(text, &end, seconds))
        return false;
    for (size_t n = 0; n < sizeof units / sizeof *units; n++)
        if (*end == units[n].unit && !end[1]) {
            *seconds *= units[n].seconds;
            return true;
        }
    return !*end && *seconds == 0;
}
