#include "stamp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECONDS_PER_MINUTE = 60, SECONDS_PER_HOUR = 3600, SECONDS_PER_DAY = 86400 };

/* Read exactly `count` digits. Returns the rest of the text, or NULL. */
static const char *digits(const char *text, int count, int *value) {
    *value = 0;
    for (; count > 0; count--, text++) {
        if (*text < '0' || *text > '9')
            return NULL;
        *value = 10 * *value + (*text - '0');
    }
    return text;
}

static const char *skip(const char *text, const char *any) {
    return text && *text && strchr(any, *text) ? text + 1 : NULL;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

const char *stamp_fraction(const char *text, double *fraction) {
    *fraction = 0;
    if ((*text != '.' && *text != ',') || !is_digit(text[1]))
        return text;
    double unit = 1;
    for (text++; is_digit(*text); text++)
        *fraction += (*text - '0') * (unit /= 10);
    return text;
}

/* "12:34:56.789" */
static const char *read_clock(const char *text, struct tm *tm, double *fraction) {
    if (!(text = digits(text, 2, &tm->tm_hour)) || !(text = skip(text, ":")) ||
        !(text = digits(text, 2, &tm->tm_min)) || !(text = skip(text, ":")) ||
        !(text = digits(text, 2, &tm->tm_sec)) || tm->tm_hour > 23 || tm->tm_min > 59 ||
        tm->tm_sec > 60)
        return NULL;
    return stamp_fraction(text, fraction);
}

const char *stamp_zone(const char *text, long *offset) {
    int hours, minutes;
    text += *text == ' ';
    if (*text == 'Z') {
        *offset = 0;
        return text + 1;
    }
    bool west = *text == '-';
    const char *rest = skip(text, "+-");
    if (!rest || !(rest = digits(rest, 2, &hours)))
        return NULL;
    const char *more = digits(rest + (*rest == ':'), 2, &minutes);
    *offset = (long)hours * SECONDS_PER_HOUR + (more ? (long)minutes * SECONDS_PER_MINUTE : 0);
    *offset = west ? -*offset : *offset;
    return more ? more : rest;
}

static double local_time(struct tm tm) {
    tm.tm_isdst = -1;
    return (double)mktime(&tm);
}

static const char *read_iso(const char *text, double *time) {
    struct tm tm = {0};
    double fraction;
    long offset;
    if (!(text = digits(text, 4, &tm.tm_year)) || !skip(text, "-/") ||
        !(text = digits(text + 1, 2, &tm.tm_mon)) || !(text = skip(text, "-/")) ||
        !(text = digits(text, 2, &tm.tm_mday)) || !(text = skip(text, "T ")) ||
        !(text = read_clock(text, &tm, &fraction)) || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31)
        return NULL;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    const char *rest = stamp_zone(text, &offset);
    *time = (rest ? (double)(timegm(&tm) - offset) : local_time(tm)) + fraction;
    return rest ? rest : text;
}

/* The year is the latest for which the time is not later than tomorrow. */
static const char *read_syslog(const char *text, double now, double *time) {
    struct tm tm = {0}, today;
    double fraction;
    time_t seconds = (time_t)now;
    const char *rest = strptime(text, "%b %e", &tm);
    if (!rest || rest - text < 6 || !(rest = skip(rest, " ")) ||
        !(rest = read_clock(rest, &tm, &fraction)) || !localtime_r(&seconds, &today))
        return NULL;
    tm.tm_year = today.tm_year;
    *time = local_time(tm);
    if (*time > now + SECONDS_PER_DAY) {
        tm.tm_year--;
        *time = local_time(tm);
    }
    *time += fraction;
    return rest;
}

static const char *read_unix(const char *text, double *time) {
    enum { DIGITS = 10 };
    double fraction;
    if (strspn(text, "0123456789") != DIGITS)
        return NULL;
    *time = (double)strtoll(text, NULL, 10);
    text = stamp_fraction(text + DIGITS, &fraction);
    *time += fraction;
    return text;
}

/* Skip syslog's "<34>" and "<34>1 ". */
static const char *skip_priority(const char *line) {
    if (*line != '<' || !is_digit(line[1]))
        return line;
    const char *rest = line + 1 + strspn(line + 1, "0123456789");
    if (*rest != '>')
        return line;
    rest++;
    return rest[0] == '1' && rest[1] == ' ' ? rest + 2 : rest;
}

const char *stamp_read(const char *line, double now, double *time) {
    line = skip_priority(line);
    bool bracket = *line == '[';
    line += bracket;
    const char *rest = read_iso(line, time);
    if (!rest)
        rest = read_syslog(line, now, time);
    if (!rest)
        rest = read_unix(line, time);
    if (!rest || (bracket && *rest != ']') || (!bracket && *rest && !strchr(" \t:", *rest)))
        return NULL;
    return rest + (*rest != '\0');
}
