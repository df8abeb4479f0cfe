#include "format.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXACT_MAX 9007199254740992.0 /* 2^53: integers up to here are exact in a double */

enum { NUMBER_COLUMNS = 7 };

char *format_exact(char text[FORMAT_SIZE], double value) {
    enum { PLAIN = 15, ALL = 17 };
    snprintf(text, FORMAT_SIZE, "%.*g", PLAIN, value);
    if (strtod(text, NULL) != value)
        snprintf(text, FORMAT_SIZE, "%.*g", ALL, value);
    return text;
}

/* 1.20e-05 -> 1.20e-5 */
static void shorten_exponent(char *text) {
    char *e = strchr(text, 'e');
    if (!e)
        return;
    char *to = e[1] == '-' ? e + 2 : e + 1, *from = e + 2;
    from += strspn(from, "0");
    memmove(to, *from ? from : "0", strlen(*from ? from : "0") + 1);
}

/* Exponent form with as many digits as fit. */
static char *format_exponent(char text[FORMAT_SIZE], double value) {
    for (int decimals = 2; decimals >= 0; decimals--) {
        snprintf(text, FORMAT_SIZE, "%.*e", decimals, value);
        shorten_exponent(text);
        if (strlen(text) <= NUMBER_COLUMNS)
            break;
    }
    return text;
}

/* `digits` significant digits of a value of at least 1000, with the letter of its power of 1000. */
static char *format_prefixed(char text[FORMAT_SIZE], double value, int digits) {
    static const char letters[] = "kMGTPE";
    size_t letter = 0;
    /* Values that round up to the next power of ten count as that power. */
    double rounded = 1 - 0.5 * pow(10, -digits), limit = 1000 * rounded;
    for (value /= 1000; fabs(value) >= limit && letter + 2 < sizeof letters; letter++)
        value /= 1000;
    if (fabs(value) >= limit)
        return format_exponent(text, value * pow(1000, (double)letter + 1));
    int before = fabs(value) >= 100 * rounded ? 3 : fabs(value) >= 10 * rounded ? 2 : 1;
    snprintf(text, FORMAT_SIZE, "%.*f%c", digits > before ? digits - before : 0, value,
             letters[letter]);
    return text;
}

char *format_number(char text[FORMAT_SIZE], double value) {
    double size = fabs(value);
    if (isnan(value))
        return strcpy(text, "-");
    if (size >= 1e4)
        return format_prefixed(text, value, 4);
    if (size != 0 && size < 0.01)
        return format_exponent(text, value);
    int decimals = size < 10 ? 4 : size < 100 ? 3 : size < 1000 ? 2 : 1;
    snprintf(text, FORMAT_SIZE, "%.*f", decimals, value);
    return text;
}

char *format_setting(char text[FORMAT_SIZE], double value) {
    snprintf(text, FORMAT_SIZE, "%.5g", value);
    shorten_exponent(text);
    return strlen(text) <= NUMBER_COLUMNS ? text : format_exponent(text, value);
}

char *format_rate(char text[FORMAT_SIZE], double value) {
    double size = fabs(value);
    if (size >= 999.5)
        return format_prefixed(text, value, 3);
    snprintf(text, FORMAT_SIZE, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
    return text;
}

char *format_count(char text[FORMAT_SIZE], double value, int width) {
    int length = snprintf(text, FORMAT_SIZE, "%.0f", value);
    return length > width ? format_rate(text, value) : text;
}

char *format_grouped(char text[FORMAT_SIZE], double value) {
    char digits[FORMAT_SIZE];
    if (fabs(value) > EXACT_MAX)
        return format_rate(text, value);
    int length = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    char *to = text;
    if (value <= -0.5)
        *to++ = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

char *format_left(char text[FORMAT_SIZE], double seconds) {
    enum { MINUTE = 60, HOUR = 3600 };
    if (!(seconds < 1e15))
        return strcpy(text, "?");
    unsigned long long s = (unsigned long long)(seconds + 0.5);
    if (s < MINUTE)
        snprintf(text, FORMAT_SIZE, "%llu s", s);
    else if (s < HOUR)
        snprintf(text, FORMAT_SIZE, "%llu:%02llu", s / MINUTE, s % MINUTE);
    else
        snprintf(text, FORMAT_SIZE, "%llu:%02llu:%02llu", s / HOUR, s % HOUR / MINUTE, s % MINUTE);
    return text;
}

char *format_percent(char text[FORMAT_SIZE], double value) {
    snprintf(text, FORMAT_SIZE, "%.2f%%", 100 * value);
    return text;
}

char *format_skill(char text[FORMAT_SIZE], double value) {
    char number[FORMAT_SIZE];
    double size = fabs(value);
    if (size < 10)
        snprintf(text, FORMAT_SIZE, "%+.3f", value);
    else if (size < 1000)
        snprintf(text, FORMAT_SIZE, "%+.1f", value);
    else
        snprintf(text, FORMAT_SIZE, "%c%.30s", value < 0 ? '-' : '+', format_number(number, size));
    return text;
}

char *format_microseconds(char text[FORMAT_SIZE], double microseconds) {
    double value = microseconds;
    const char *unit = "us";
    if (value >= 999.5) {
        value /= 1000;
        unit = "ms";
    }
    if (value >= 999.5) {
        value /= 1000;
        unit = "s";
    }
    if (value >= 999.5)
        snprintf(text, FORMAT_SIZE, ">999s");
    else
        snprintf(text, FORMAT_SIZE, "%.*f%s",
                 *unit == 'u'     ? 0
                 : value >= 99.95 ? 0
                 : value >= 9.995 ? 1
                                  : 2,
                 value, unit);
    return text;
}

char *format_duration(char text[FORMAT_SIZE], double seconds) {
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    if (!(seconds >= 0 && seconds < EXACT_MAX))
        seconds = 0;
    if (seconds > 0 && seconds < 0.95) {
        snprintf(text, FORMAT_SIZE, "%.1f s", seconds);
        return text;
    }
    uint64_t s = (uint64_t)(seconds + 0.5);
    unsigned long long large = s, small = 0;
    const char *large_unit = "s", *small_unit = "";
    if (s >= DAY) {
        large = s / DAY, small = s % DAY / HOUR;
        large_unit = "d", small_unit = "h";
    } else if (s >= HOUR) {
        large = s / HOUR, small = s % HOUR / MINUTE;
        large_unit = "h", small_unit = "min";
    } else if (s >= MINUTE) {
        large = s / MINUTE, small = s % MINUTE;
        large_unit = "min", small_unit = "s";
    }
    if (small)
        snprintf(text, FORMAT_SIZE, "%llu %s %llu %s", large, large_unit, small, small_unit);
    else
        snprintf(text, FORMAT_SIZE, "%llu %s", large, large_unit);
    return text;
}

char *format_bytes(char text[FORMAT_SIZE], double bytes) {
    if (bytes < 999.5 || bytes > EXACT_MAX) {
        snprintf(text, FORMAT_SIZE, "%.3g B", bytes);
        return text;
    }
    format_prefixed(text, bytes, 3);
    size_t length = strlen(text);
    char letter = text[length - 1];
    snprintf(text + length - 1, FORMAT_SIZE - length + 1, " %cB", letter);
    return text;
}

/* False if the time does not exist; `text` then contains dashes. */
static bool local_time(struct tm *local, char text[FORMAT_SIZE], double unix_time) {
    strcpy(text, "--:--:--");
    if (!(fabs(unix_time) < EXACT_MAX))
        return false;
    time_t seconds = (time_t)floor(unix_time);
    return localtime_r(&seconds, local) != NULL;
}

char *format_clock(char text[FORMAT_SIZE], double unix_time) {
    struct tm local;
    if (local_time(&local, text, unix_time))
        strftime(text, FORMAT_SIZE, "%H:%M:%S", &local);
    return text;
}

char *format_date(char text[FORMAT_SIZE], double unix_time) {
    struct tm local;
    if (local_time(&local, text, unix_time))
        strftime(text, FORMAT_SIZE, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}
