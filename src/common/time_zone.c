#include "time_zone.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "error.h"

enum { FILE_SIZE_MAX = 1 << 16, PATH_SIZE = 128, HEADER_SIZE = 44, VERSION_AT = 4, COUNTS_AT = 20 };

/* The earliest transition that RFC 8536 allows: none is farther from 1970. */
#define TIME_MAX (INT64_C(1) << 59)

enum {
    SHIFTS_MAX = 4096,
    CYCLE_YEARS = 400, /* the period after which dates and days of the week repeat */
    SECONDS_PER_DAY = 86400,
    DAYS_PER_WEEK = 7,
};
#define CYCLE_SECONDS 12622780800.0

/* Clocks are `offset` seconds ahead of UTC from the Unix time `at` on. */
struct shift {
    double at, offset;
};

struct time_zone {
    double before; /* the offset before all shifts */
    int count;
    struct shift shifts[SHIFTS_MAX];
    bool leaps;   /* the file has leap seconds, and is rejected */
    bool repeats; /* the time after the last shift repeats with period CYCLE_YEARS */
};

enum {
    SECONDS_PER_HOUR = 3600,
    SECONDS_PER_MINUTE = 60,
    HOURS_MAX = 167,
    RULE_TIME = 2 * SECONDS_PER_HOUR, /* default time of changes */
    LAST_WEEK = 5,
    LEAP_DAY = 59, /* day of the year, from 0 */
    FIRST_YEAR = 1970,
};

static const char *const directories[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                          "/usr/share/lib/zoneinfo", "/etc/zoneinfo"};

static const char shown[] = "expected a time zone of tzdata such as Europe/Berlin, or UTC, got "
                            "\"%s\": %s";

/* The unread part of a zone's file. */
struct bytes {
    const unsigned char *at;
    size_t left;
};

/* The counts in a header, in order. */
struct counts {
    uint32_t utc, standard, leaps, times, types, characters;
};

/* A yearly change of the clocks. */
struct change {
    char kind; /* 'M': month, week, weekday; 'J': day 1..365, never February 29; 'D': day 0..365 */
    long month, week, day, time; /* time: seconds of that day, on the clocks before the change */
};

struct rule {
    double standard, summer; /* offsets */
    bool has_summer;
    struct change begins, ends; /* changes to and from summer time */
};

bool time_zone_good(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "+-_/";
    size_t length = strlen(name);
    return length > 0 && length < TIME_ZONE_NAME_SIZE && strspn(name, allowed) == length &&
           name[0] != '/' && name[length - 1] != '/' && !strstr(name, "//");
}

/* ---- The rule of a zone for the time after its last transition: the TZ of POSIX, with the
   extensions of RFC 8536 (hours from -167 to 167) ---- */

static bool skip_name(const char **text) {
    const char *from = *text;
    if (*from == '<') {
        *text = strchr(from, '>');
        return *text && (*text)++ > from + 1;
    }
    while (isalpha((unsigned char)**text))
        (*text)++;
    return *text > from;
}

static bool parse_number(const char **text, long most, long *number) {
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *number = strtol(*text, &end, 10);
    *text = end;
    return *number <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool parse_time(const char **text, long *seconds) {
    bool negative = **text == '-';
    long unit = SECONDS_PER_HOUR, part = 0;
    *text += **text == '-' || **text == '+';
    if (!parse_number(text, HOURS_MAX, &part))
        return false;
    *seconds = part * unit;
    while (unit > 1 && **text == ':') {
        unit /= SECONDS_PER_MINUTE;
        (*text)++;
        if (!parse_number(text, SECONDS_PER_MINUTE - 1, &part))
            return false;
        *seconds += part * unit;
    }
    *seconds = negative ? -*seconds : *seconds;
    return true;
}

static bool match(const char **text, char c) {
    return **text == c && (*text)++;
}

/* ",M3.5.0/2", ",J60", ",59" */
static bool parse_change(const char **text, struct change *change) {
    enum { MONTHS = 12, YEAR_DAYS = 365 };
    *change = (struct change){.kind = 'D', .time = RULE_TIME};
    if (!match(text, ','))
        return false;
    if (**text == 'M' || **text == 'J')
        change->kind = *(*text)++;
    bool good = change->kind == 'M'
                    ? parse_number(text, MONTHS, &change->month) && match(text, '.') &&
                          parse_number(text, LAST_WEEK, &change->week) && match(text, '.') &&
                          parse_number(text, DAYS_PER_WEEK - 1, &change->day) && change->month &&
                          change->week
                    : parse_number(text, YEAR_DAYS, &change->day);
    if (!good || (change->kind == 'J' && change->day == 0))
        return false;
    return !match(text, '/') || parse_time(text, &change->time);
}

static bool read_rule(const char *text, struct rule *rule) {
    long west;
    *rule = (struct rule){0};
    if (!skip_name(&text) || !parse_time(&text, &west))
        return false;
    rule->standard = (double)-west;
    if (!*text)
        return true;
    rule->has_summer = true;
    rule->summer = rule->standard + SECONDS_PER_HOUR;
    if (!skip_name(&text))
        return false;
    if (*text != ',') {
        if (!parse_time(&text, &west))
            return false;
        rule->summer = (double)-west;
    }
    return parse_change(&text, &rule->begins) && parse_change(&text, &rule->ends) && !*text;
}

/* ---- Dates ---- */

long time_zone_year_begins(long year) {
    enum { DAYS_TO_1970 = 719162 }; /* days since the first day of the year 1 */
    long past = year - 1;
    return past * 365 + past / 4 - past / 100 + past / CYCLE_YEARS - DAYS_TO_1970;
}

long time_zone_year_of(long day) {
    long year = FIRST_YEAR + day / 366; /* not too late from 1970 on */
    if (day < 0)
        year = FIRST_YEAR + day / 365 - 1; /* not too late before 1970 */
    while (time_zone_year_begins(year + 1) <= day)
        year++;
    return year;
}

/* 0 is Sunday; 1970-01-01 was a Thursday. */
static long weekday(long day) {
    enum { THURSDAY = 4 };
    return ((day + THURSDAY) % DAYS_PER_WEEK + DAYS_PER_WEEK) % DAYS_PER_WEEK;
}

static long day_of(const struct change *change, long year) {
    static const int months[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    long begins = time_zone_year_begins(year);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % CYCLE_YEARS == 0);
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

/* The Unix time of a change, when clocks are `offset` seconds ahead of UTC. */
static double time_of(const struct change *change, long year, double offset) {
    return (double)day_of(change, year) * SECONDS_PER_DAY + (double)change->time - offset;
}

/* The first `known` shifts are from the file. If a period of the rule ends as the next begins,
   as for a summer time of the whole year, the next one counts. */
static bool add_shift(struct time_zone *zone, int known, double at, double offset) {
    struct shift *last = zone->count ? &zone->shifts[zone->count - 1] : NULL;
    if (last && zone->count > known && at == last->at)
        last->offset = offset;
    if (last && at <= last->at)
        return true; /* already in the table */
    if (zone->count == SHIFTS_MAX)
        return false;
    zone->shifts[zone->count++] = (struct shift){at, offset};
    return true;
}

/* Add the shifts of a rule ("CET-1CEST,M3.5.0,M10.5.0/3") after the existing ones. False: the
   rule is invalid. */
static bool add_rule(struct time_zone *zone, const char *text) {
    struct rule rule;
    if (!read_rule(text, &rule))
        return false;
    if (!rule.has_summer) {
        if (!zone->count)
            zone->before = rule.standard;
        else if (zone->shifts[zone->count - 1].offset != rule.standard)
            return false; /* contradicts the last shift of the file */
        return true;
    }
    long year = FIRST_YEAR;
    int known = zone->count;
    if (known)
        year = time_zone_year_of((long)(zone->shifts[zone->count - 1].at / SECONDS_PER_DAY) - 1);
    else
        zone->before = rule.standard;
    for (long n = 0; n <= CYCLE_YEARS + 1; n++, year++) {
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

/* ---- The file of a zone (RFC 8536) ---- */

static int64_t read_signed(const unsigned char *at, size_t size) {
    uint64_t bits = at[0] & 0x80 ? UINT64_MAX : 0;
    for (size_t n = 0; n < size; n++)
        bits = bits << 8 | at[n];
    return (int64_t)bits;
}

/* The next `size` bytes; NULL if there are fewer. */
static const unsigned char *cut(struct bytes *bytes, size_t size) {
    const unsigned char *at = bytes->at;
    if (size > bytes->left)
        return NULL;
    bytes->at += size;
    bytes->left -= size;
    return at;
}

static bool read_header(struct bytes *bytes, struct counts *counts, char *version) {
    const unsigned char *header = cut(bytes, HEADER_SIZE);
    uint32_t *const fields[] = {&counts->utc,   &counts->standard, &counts->leaps,
                                &counts->times, &counts->types,    &counts->characters};
    if (!header || memcmp(header, "TZif", VERSION_AT) != 0)
        return false;
    *version = (char)header[VERSION_AT];
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        *fields[n] = (uint32_t)read_signed(header + COUNTS_AT + n * 4, 4);
        if (*fields[n] > FILE_SIZE_MAX)
            return false;
    }
    return true;
}

/* Read the tables after a header, with times of `size` bytes. `zone` NULL: skip them. */
static bool read_tables(struct bytes *bytes, const struct counts *counts, size_t size,
                        struct time_zone *zone) {
    enum { TYPE_SIZE = 6, COUNT_SIZE = 4 };
    const unsigned char *times = cut(bytes, counts->times * size);
    const unsigned char *of_time = cut(bytes, counts->times);
    const unsigned char *types = cut(bytes, (size_t)counts->types * TYPE_SIZE);
    if (!times || !of_time || !types || !cut(bytes, counts->characters) ||
        !cut(bytes, counts->leaps * (size + COUNT_SIZE)) || !cut(bytes, counts->standard) ||
        !cut(bytes, counts->utc))
        return false;
    if (!zone)
        return true;
    zone->leaps = counts->leaps > 0;
    if (counts->types == 0 || zone->leaps || counts->times > SHIFTS_MAX)
        return false;
    zone->before = (double)read_signed(types, COUNT_SIZE);
    for (size_t n = 0; n < counts->times; n++) {
        int64_t at = read_signed(times + n * size, size);
        if (of_time[n] >= counts->types || at < -TIME_MAX || at > TIME_MAX)
            return false;
        zone->shifts[n] = (struct shift){
            (double)at, (double)read_signed(types + (size_t)of_time[n] * TYPE_SIZE, COUNT_SIZE)};
        if (n && zone->shifts[n].at <= zone->shifts[n - 1].at)
            return false;
    }
    zone->count = (int)counts->times;
    return true;
}

/* "\nRULE\n" */
static bool read_footer(struct bytes *bytes, struct time_zone *zone) {
    char rule[TIME_ZONE_NAME_SIZE];
    const unsigned char *end;
    if (!bytes->left || *bytes->at != '\n' || !(end = memchr(bytes->at + 1, '\n', bytes->left - 1)))
        return false;
    size_t length = (size_t)(end - bytes->at - 1);
    if (length >= sizeof rule)
        return false;
    memcpy(rule, bytes->at + 1, length);
    rule[length] = '\0';
    return length == 0 || add_rule(zone, rule);
}

/* Version 2 and later repeat the data with times of 8 bytes, followed by a rule. */
static bool read_zone(struct bytes bytes, struct time_zone *zone) {
    struct counts counts;
    char version;
    if (!read_header(&bytes, &counts, &version))
        return false;
    if (version == '\0')
        return read_tables(&bytes, &counts, 4, zone);
    return read_tables(&bytes, &counts, 4, NULL) && read_header(&bytes, &counts, &version) &&
           read_tables(&bytes, &counts, 8, zone) && read_footer(&bytes, zone);
}

/* ---- Opening ---- */

/* Open the file of that name in the first directory that contains it. NULL: with errno ENOENT it
   does not exist, else `path` is the first that cannot be opened. */
static FILE *find_file(const char *name, char path[PATH_SIZE]) {
    char at[PATH_SIZE];
    int failure = 0;
    for (size_t n = 0; n < sizeof directories / sizeof *directories; n++) {
        snprintf(at, sizeof at, "%s/%s", directories[n], name);
        FILE *file = fopen(at, "rbe");
        bool there = file || (errno != ENOENT && errno != ENOTDIR);
        if (there && (file || !failure))
            memcpy(path, at, sizeof at);
        if (file)
            return file;
        failure = failure || !there ? failure : errno;
    }
    errno = failure ? failure : ENOENT;
    return NULL;
}

/* Write the reason why the file cannot be opened. */
static void explain(char *why, size_t size, const char *path) {
    char other[PATH_SIZE];
    if (errno != ENOENT) {
        snprintf(why, size, "cannot open %s: %s", path, strerror(errno));
        return;
    }
    FILE *any = find_file("Europe/Berlin", other);
    snprintf(why, size, "%s",
             any || errno != ENOENT ? "not found" : "this machine has no tzdata, install it");
    if (any)
        fclose(any);
}

static int read_file(struct time_zone *zone, const char *name, struct error *error) {
    char path[PATH_SIZE], why[PATH_SIZE + 64];
    FILE *file = find_file(name, path);
    if (!file) {
        explain(why, sizeof why, path);
        return error_set(error, EX_CONFIG, shown, name, why);
    }
    unsigned char *bytes = malloc(FILE_SIZE_MAX);
    size_t size = bytes ? fread(bytes, 1, FILE_SIZE_MAX, file) : 0;
    bool good = bytes && read_zone((struct bytes){bytes, size}, zone);
    bool memory = bytes != NULL;
    free(bytes);
    fclose(file);
    if (good)
        return 0;
    if (!memory)
        return error_no_memory(error);
    if (zone->leaps)
        snprintf(why, sizeof why, "its times count leap seconds, remove right/");
    else
        snprintf(why, sizeof why, "%s is not a time zone file", path);
    return error_set(error, EX_CONFIG, shown, name, why);
}

int time_zone_open(struct time_zone **zone, const char *name, struct error *error) {
    struct time_zone *opened = calloc(1, sizeof *opened);
    *zone = opened;
    if (!opened)
        return error_no_memory(error);
    if (strcmp(name, "UTC") == 0 || (time_zone_good(name) && read_file(opened, name, error) == 0))
        return 0;
    if (!time_zone_good(name))
        error_set(error, EX_CONFIG, shown, name, "invalid name");
    time_zone_close(zone);
    return -1;
}

void time_zone_close(struct time_zone **zone) {
    free(*zone);
    *zone = NULL;
}

/* ---- Offsets ---- */

double time_zone_offset(const struct time_zone *zone, double time) {
    int low = 0,
        /* all shifts before `low` are at or before `time`, those from `high` on after it */
        high = zone->count;
    double beyond = zone->repeats ? time - zone->shifts[zone->count - 1].at : -1;
    if (beyond >= 0)
        time -= (double)((int64_t)(beyond / CYCLE_SECONDS) + 1) * CYCLE_SECONDS;
    while (low < high) {
        int middle = (low + high) / 2;
        if (zone->shifts[middle].at <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? zone->shifts[low - 1].offset : zone->before;
}
