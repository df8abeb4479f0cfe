#include "moment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <time.h>

#include "error.h"
#include "stamp.h"

enum {
    FOUND_MAX = 40,
    NOON = 12,
    YEAR_DIGITS = 4,
    DAY_DIGITS = 8,     /* 20160701 */
    MOMENT_DIGITS = 14, /* 20160701123456 */
};

static const char BLANKS[] = " \t";

/* A number has the first unit below whose limit it is. Seconds reach the limit in the year 5138;
   milliseconds begin in 1973. */
static const struct {
    const char *name, *label;
    double limit, per_second;
} UNITS[] = {{"s", "seconds", 1e11, 1},
             {"ms", "milliseconds", 1e14, 1e3},
             {"us", "microseconds", 1e17, 1e6},
             {"ns", "nanoseconds", INFINITY, 1e9}};
enum { UNIT_COUNT = sizeof UNITS / sizeof *UNITS, ORDER_REPORTED = 1u << UNIT_COUNT };

/* The content of a date. */
struct date {
    struct tm tm;
    bool figures;      /* day and month precede the year */
    bool dotted;       /* separated by dots: the day is first */
    int first, second; /* day and month in the order of the text */
    char mark;
    bool clock, seconds, half; /* the parts that follow the date */
};

static bool refuse(const struct time_reader *reader, const char *text, const char *wanted,
                   char why[TIME_WHY_SIZE]) {
    snprintf(why, TIME_WHY_SIZE, "expected %s (%s), got '%.*s'", wanted, reader->option, FOUND_MAX,
             text);
    return false;
}

static size_t digits_at(const char *text) {
    return strspn(text, "0123456789");
}

/* Read a number of `least` to `most` digits. Returns the rest of the text, or NULL. */
static const char *read_digits(const char *text, size_t least, size_t most, int *value) {
    size_t count = digits_at(text);
    if (count < least || count > most)
        return NULL;
    for (*value = 0; count > 0; count--)
        *value = 10 * *value + (*text++ - '0');
    return text;
}

static int number_of(const char *digits, size_t count) {
    int value = 0;
    while (count-- > 0)
        value = 10 * value + (*digits++ - '0');
    return value;
}

/* ---- Dates ---- */

static void set_date(struct date *date, int year, int month, int day) {
    date->tm.tm_year = year - 1900;
    date->tm.tm_mon = month - 1;
    date->tm.tm_mday = day;
}

/* Whether the calendar has this day. */
static bool is_day(const struct tm *tm) {
    struct tm day = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday};
    timegm(&day);
    return tm->tm_mon >= 0 && tm->tm_mon < 12 && day.tm_mday == tm->tm_mday &&
           day.tm_mon == tm->tm_mon;
}

static const char *read_date(const char *text, struct date *date) {
    size_t count = digits_at(text);
    const char *rest = text + count;
    int first, second, third;
    if (count == DAY_DIGITS) {
        set_date(date, number_of(text, 4), number_of(text + 4, 2), number_of(text + 6, 2));
        return rest;
    }
    bool year_first = count == YEAR_DIGITS;
    if (!*rest || !strchr("-/.", *rest) || !read_digits(text, 1, YEAR_DIGITS, &first) ||
        !(text = read_digits(rest + 1, 1, 2, &second)) || *text != *rest ||
        !(text = read_digits(text + 1, year_first ? 1 : YEAR_DIGITS, year_first ? 2 : YEAR_DIGITS,
                             &third)))
        return NULL;
    if (year_first) {
        set_date(date, first, second, third);
        return text;
    }
    *date = (struct date){
        .figures = true, .dotted = *rest == '.', .first = first, .second = second, .mark = *rest};
    set_date(date, third, second, first);
    return text;
}

/* "12:34", "12:34:56.7", "3:05 PM", "123456" */
static const char *read_clock(const char *text, struct date *date, double *fraction) {
    struct tm *tm = &date->tm;
    size_t count = digits_at(text);
    if (count == 4 || count == 6) {
        tm->tm_hour = number_of(text, 2);
        tm->tm_min = number_of(text + 2, 2);
        tm->tm_sec = count == 6 ? number_of(text + 4, 2) : 0;
        text += count;
    } else {
        if (!(text = read_digits(text, 1, 2, &tm->tm_hour)) || *text != ':' ||
            !(text = read_digits(text + 1, 2, 2, &tm->tm_min)))
            return NULL;
        date->seconds = *text == ':';
        if (date->seconds && !(text = read_digits(text + 1, 2, 2, &tm->tm_sec)))
            return NULL;
    }
    date->clock = true;
    text = stamp_fraction(text, fraction);
    const char *half = text + strspn(text, BLANKS);
    date->half = strncasecmp(half, "am", 2) == 0 || strncasecmp(half, "pm", 2) == 0;
    if (date->half) {
        if (tm->tm_hour < 1 || tm->tm_hour > NOON)
            return NULL;
        tm->tm_hour = tm->tm_hour % NOON + (strncasecmp(half, "pm", 2) == 0 ? NOON : 0);
        text = half + 2;
    }
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec <= 60 ? text : NULL;
}

/* Z, +01:00 and similar, UTC and GMT, or nothing. */
static const char *read_zone(const char *text, long *offset) {
    const char *name = text + strspn(text, BLANKS);
    *offset = 0;
    if (strncmp(name, "UTC", 3) == 0 || strncmp(name, "GMT", 3) == 0)
        return name + 3;
    const char *rest = stamp_zone(text, offset);
    return rest ? rest : text;
}

static bool is_end(const char *text) {
    return text[strspn(text, BLANKS)] == '\0';
}

/* Read a whole text as a date with an optional clock, in any order of day and month. */
static bool read_moment(const char *text, struct date *date, double *more) {
    double fraction = 0;
    long offset = 0;
    *date = (struct date){.figures = false};
    const char *rest = read_date(text, date);
    if (!rest)
        return false;
    if (*rest && strchr("T ,", *rest) && !is_end(rest)) {
        rest += *rest == ',';
        rest += *rest == 'T' ? 1 : strspn(rest, BLANKS);
        if (!(rest = read_clock(rest, date, &fraction)))
            return false;
        rest = read_zone(rest, &offset);
    }
    *more = fraction - (double)offset;
    return is_end(rest);
}

/* Whether the order of day and month is ambiguous. */
static bool is_unclear(const struct date *date) {
    return date->figures && !date->dotted && date->first <= 12 && date->second <= 12 &&
           date->first != date->second;
}

static enum time_order order_of(const struct date *date) {
    return !date->figures || date->dotted || date->first == date->second ? TIME_ORDER_UNKNOWN
           : date->first > 12 && date->second <= 12                      ? TIME_DAY_FIRST
           : date->second > 12 && date->first <= 12                      ? TIME_MONTH_FIRST
                                                                         : TIME_ORDER_UNKNOWN;
}

static bool refuse_unclear(struct time_reader *reader, const char *text, const struct date *date,
                           char why[TIME_WHY_SIZE]) {
    const char *clock = !date->clock    ? ""
                        : date->half    ? date->seconds ? " %I:%M:%S %p" : " %I:%M %p"
                        : date->seconds ? " %H:%M:%S"
                                        : " %H:%M";
    reader->unclear = true;
    snprintf(why, TIME_WHY_SIZE,
             "ambiguous day and month in '%.*s': use %s '%%d%c%%m%c%%Y%s' or '%%m%c%%d%c%%Y%s'",
             FOUND_MAX, text, reader->option, date->mark, date->mark, clock, date->mark, date->mark,
             clock);
    return false;
}

static void report_order(struct time_reader *reader, const char *text) {
    if (reader->order && !(reader->reported & ORDER_REPORTED))
        reader->report("%s: dates like %.*s begin with the %s", reader->name, FOUND_MAX, text,
                       reader->order == TIME_DAY_FIRST ? "day" : "month");
    reader->reported |= reader->order ? ORDER_REPORTED : 0;
}

static bool settle_order(struct time_reader *reader, const char *text, struct date *date,
                         char why[TIME_WHY_SIZE]) {
    enum time_order order = order_of(date);
    if (!date->figures || date->dotted)
        return true;
    if (is_unclear(date) && reader->order == TIME_ORDER_UNKNOWN)
        return refuse_unclear(reader, text, date, why);
    if (order && reader->order && order != reader->order)
        return refuse(reader, text,
                      order == TIME_DAY_FIRST ? "the month first, as in other rows"
                                              : "the day first, as in other rows",
                      why);
    if (order)
        reader->order = order;
    report_order(reader, text);
    if (reader->order == TIME_MONTH_FIRST) {
        date->tm.tm_mon = date->first - 1;
        date->tm.tm_mday = date->second;
    }
    return true;
}

/* ---- Numbers ---- */

static double from_unit(struct time_reader *reader, const char *text, double number, size_t unit) {
    if (unit > 0 && !(reader->reported & 1u << unit))
        reader->report("%s: %.*s and similar numbers are Unix %s", reader->name, FOUND_MAX, text,
                       UNITS[unit].label);
    reader->reported |= 1u << unit;
    return number / UNITS[unit].per_second;
}

/* The format of a date without separators, which would be a wrong number. */
static const char *date_of_figures(const struct time_reader *reader, const char *text) {
    struct date date = {.figures = false};
    char day[DAY_DIGITS + 1] = "";
    size_t count = digits_at(text);
    if ((count != DAY_DIGITS && count != MOMENT_DIGITS) || !is_end(text + count) ||
        (count == DAY_DIGITS && reader->begun) ||
        (strncmp(text, "19", 2) != 0 && strncmp(text, "20", 2) != 0))
        return NULL;
    memcpy(day, text, DAY_DIGITS);
    if (!read_date(day, &date) || !is_day(&date.tm))
        return NULL;
    return count == DAY_DIGITS ? "%Y%m%d" : "%Y%m%d%H%M%S";
}

static bool read_number(struct time_reader *reader, const char *text, double number, double *time,
                        char why[TIME_WHY_SIZE]) {
    size_t unit = 0;
    const char *figures = date_of_figures(reader, text);
    if (figures) {
        reader->unclear = true;
        snprintf(why, TIME_WHY_SIZE,
                 "'%.*s' may be a date or Unix time: use %s '%s', or s, ms, us, ns", FOUND_MAX,
                 text, reader->option, figures);
        return false;
    }
    reader->begun = true;
    while (fabs(number) >= UNITS[unit].limit)
        unit++;
    *time = from_unit(reader, text, number, unit);
    return true;
}

/* ---- Formats ---- */

static bool is_unit(const char *format, size_t *unit) {
    for (*unit = 0; *unit < UNIT_COUNT; ++*unit)
        if (strcmp(format, UNITS[*unit].name) == 0)
            return true;
    return false;
}

int time_check(const char *format, struct error *error) {
    size_t unit;
    if (!format || is_unit(format, &unit) || strchr(format, '%'))
        return 0;
    return error_set(error, EX_USAGE,
                     "expected s, ms, us, ns or a strptime(3) format, as in '%%d/%%m/%%Y "
                     "%%H:%%M', got '%s'",
                     format);
}

static bool read_format(const struct time_reader *reader, const char *text, double *time,
                        char why[TIME_WHY_SIZE]) {
    char wanted[TIME_WHY_SIZE / 2], *end;
    const char *format = reader->format;
    struct tm tm = {.tm_mday = 1};
    double fraction = 0, number = strtod(text, &end);
    size_t unit;
    if (is_unit(format, &unit)) {
        *time = number / UNITS[unit].per_second;
        return (end > text && is_end(end) && isfinite(number)) ||
               refuse(reader, text, "a number", why);
    }
    const char *rest = strptime(text, format, &tm);
    if (rest)
        rest = stamp_fraction(rest, &fraction);
    if (!rest || !is_end(rest)) {
        snprintf(wanted, sizeof wanted, "a time as in '%.40s'", format);
        return refuse(reader, text, wanted, why);
    }
    long offset = tm.tm_gmtoff;
    bool local = strstr(format, "%s"); /* %s fills in local time */
    *time = (local ? (double)mktime(&tm) : (double)(timegm(&tm) - offset)) + fraction;
    return true;
}

/* ---- All times ---- */

bool time_read(struct time_reader *reader, const char *text, double *time,
               char why[TIME_WHY_SIZE]) {
    static const char WANTED[] = "a time as in 2016-07-01 12:34:56 or 31/12/2014, or Unix time";
    struct date date;
    char *end;
    double more;
    reader->unclear = false;
    text += strspn(text, BLANKS);
    if (reader->format)
        return read_format(reader, text, time, why);
    double number = strtod(text, &end);
    if (end > text && is_end(end))
        return isfinite(number) ? read_number(reader, text, number, time, why)
                                : refuse(reader, text, WANTED, why);
    if (!read_moment(text, &date, &more))
        return refuse(reader, text, WANTED, why);
    if (!settle_order(reader, text, &date, why))
        return false;
    if (!is_day(&date.tm))
        return refuse(reader, text, WANTED, why);
    *time = (double)timegm(&date.tm) + more;
    return true;
}

bool time_look(struct time_reader *reader, const char *text) {
    struct date date;
    double more;
    char *end;
    text += strspn(text, BLANKS);
    strtod(text, &end);
    if (reader->format || (end > text && is_end(end)))
        return true;
    bool moment = read_moment(text, &date, &more);
    if (moment && !reader->order)
        reader->order = order_of(&date);
    report_order(reader, text);
    return moment && (!date.figures || date.dotted || reader->order);
}
