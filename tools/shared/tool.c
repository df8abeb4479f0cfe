#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/keys.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53: integers up to here are exact in a double */

enum { NUMBER_COLUMNS = 7 };

static void complain(const char *format, va_list arguments) {
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int tool_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return status;
}

static int usage_hint(void) {
    fprintf(stderr, "Try '%s --help'.\n", program_invocation_short_name);
    return EX_USAGE;
}

int tool_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return usage_hint();
}

int tool_finish_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EX_OK;
    return tool_fail(EX_IOERR, "cannot write to standard output: %s", strerror(errno));
}

void tool_write_last(const void *bytes, size_t size) {
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    ssize_t written = write(STDOUT_FILENO, bytes, size);
    (void)written;
    fcntl(STDOUT_FILENO, F_SETFL, flags);
}

bool tool_keys_ready(const struct tool_keys *keys) {
    char why[KEYS_WHY_SIZE];
    struct key_client client;
    if (keys_client(&client, keys->own, keys->server, why) == 0)
        return true;
    tool_fail(EX_USAGE, "%s", why);
    return false;
}

struct runnel_peer tool_peer(const char *endpoint, const struct tool_keys *keys) {
    return (struct runnel_peer){endpoint, keys->server, keys->own};
}

int tool_poll_time(double seconds) {
    return (int)fmin(fmax(seconds, 0) * 1e3 + 1, INT_MAX);
}

double tool_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool tool_number(const json_t *object, const char *key, double *value) {
    const json_t *member = json_object_get(object, key);
    if (!json_is_number(member))
        return false;
    *value = json_number_value(member);
    return isfinite(*value);
}

const char *tool_string(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* How many of the bytes are left without a character whose last bytes were cut off. */
static size_t whole_characters(const char *bytes, size_t size) {
    size_t lead = size;
    while (lead > 0 && size - lead < 3 && ((unsigned char)bytes[lead - 1] & 0xC0) == 0x80)
        lead--;
    if (lead == 0)
        return size;
    unsigned char first = (unsigned char)bytes[lead - 1];
    size_t needed = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return needed > size - lead + 1 ? lead - 1 : size;
}

/* How many bytes the control character takes with which the text begins; 0 when it is none.
   U+0080..U+009F are controls too, and so are those that end a line (U+2028, U+2029) or turn the
   direction of writing: U+061C, U+200E, U+200F, U+202A..U+202E, U+2066..U+2069. */
static size_t control_bytes(const char *text) {
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < 0x20 || byte[0] == 0x7F)
        return 1;
    if (byte[0] == 0xC2)
        return byte[1] >= 0x80 && byte[1] < 0xA0 ? 2 : 0;
    if (byte[0] == 0xD8)
        return byte[1] == 0x9C ? 2 : 0;
    if (byte[0] != 0xE2)
        return 0;
    bool turns = (byte[1] == 0x80 && (byte[2] == 0x8E || byte[2] == 0x8F)) ||
                 (byte[1] == 0x80 && byte[2] >= 0xA8 && byte[2] <= 0xAE) ||
                 (byte[1] == 0x81 && byte[2] >= 0xA6 && byte[2] <= 0xA9);
    return turns ? 3 : 0;
}

char *tool_clean(char *copy, size_t size, const char *text) {
    size_t used = 0;
    while (text[used] && used + 1 < size) {
        size_t control = control_bytes(text + used);
        if (!control)
            copy[used] = text[used];
        for (size_t i = 0; i < control && used + i + 1 < size; i++)
            copy[used + i] = ' ';
        used += control ? control : 1;
    }
    used = whole_characters(copy, used < size ? used : size - 1);
    copy[used] = '\0';
    return copy;
}

size_t tool_counts(const json_t *object, const char *key, double *counts, size_t most) {
    const json_t *list = json_object_get(object, key);
    size_t size = json_array_size(list);
    if (size > most)
        return 0;
    for (size_t i = 0; i < size; i++) {
        counts[i] = json_number_value(json_array_get(list, i));
        if (!(counts[i] >= 0 && counts[i] <= EXACT_MAX))
            return 0;
    }
    return size;
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

/* As many digits as fit, in exponent form. */
static char *format_exponent(char text[TOOL_NUMBER_SIZE], double value) {
    for (int decimals = 2; decimals >= 0; decimals--) {
        snprintf(text, TOOL_NUMBER_SIZE, "%.*e", decimals, value);
        shorten_exponent(text);
        if (strlen(text) <= NUMBER_COLUMNS)
            break;
    }
    return text;
}

/* `digits` significant digits of a value of at least 1000, with the letter of its power of 1000. */
static char *format_prefixed(char text[TOOL_NUMBER_SIZE], double value, int digits) {
    static const char letters[] = "kMGTPE";
    size_t letter = 0;
    /* What would be rounded to the next power of ten counts as that. */
    double rounded = 1 - 0.5 * pow(10, -digits), limit = 1000 * rounded;
    for (value /= 1000; fabs(value) >= limit && letter + 2 < sizeof letters; letter++)
        value /= 1000;
    if (fabs(value) >= limit)
        return format_exponent(text, value * pow(1000, (double)letter + 1));
    int before = fabs(value) >= 100 * rounded ? 3 : fabs(value) >= 10 * rounded ? 2 : 1;
    snprintf(text, TOOL_NUMBER_SIZE, "%.*f%c", digits > before ? digits - before : 0, value,
             letters[letter]);
    return text;
}

char *tool_format_number(char text[TOOL_NUMBER_SIZE], double value) {
    double size = fabs(value);
    if (size >= 1e4)
        return format_prefixed(text, value, 4);
    if (size != 0 && size < 0.01)
        return format_exponent(text, value);
    int decimals = size < 10 ? 4 : size < 100 ? 3 : size < 1000 ? 2 : 1;
    snprintf(text, TOOL_NUMBER_SIZE, "%.*f", decimals, value);
    return text;
}

char *tool_format_setting(char text[TOOL_NUMBER_SIZE], double value) {
    snprintf(text, TOOL_NUMBER_SIZE, "%.5g", value);
    shorten_exponent(text);
    return strlen(text) <= NUMBER_COLUMNS ? text : format_exponent(text, value);
}

char *tool_format_rate(char text[TOOL_NUMBER_SIZE], double value) {
    double size = fabs(value);
    if (size >= 999.5)
        return format_prefixed(text, value, 3);
    snprintf(text, TOOL_NUMBER_SIZE, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
    return text;
}

char *tool_format_count(char text[TOOL_NUMBER_SIZE], double value, int width) {
    int length = snprintf(text, TOOL_NUMBER_SIZE, "%.0f", value);
    return length > width ? tool_format_rate(text, value) : text;
}

char *tool_format_grouped(char text[TOOL_NUMBER_SIZE], double value) {
    char digits[TOOL_NUMBER_SIZE];
    if (fabs(value) > EXACT_MAX)
        return tool_format_rate(text, value);
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

char *tool_format_percent(char text[TOOL_NUMBER_SIZE], double value) {
    snprintf(text, TOOL_NUMBER_SIZE, "%.2f%%", 100 * value);
    return text;
}

char *tool_format_microseconds(char text[TOOL_NUMBER_SIZE], double microseconds) {
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
        snprintf(text, TOOL_NUMBER_SIZE, ">999s");
    else
        snprintf(text, TOOL_NUMBER_SIZE, "%.*f%s",
                 *unit == 'u'     ? 0
                 : value >= 99.95 ? 0
                 : value >= 9.995 ? 1
                                  : 2,
                 value, unit);
    return text;
}

char *tool_format_duration(char text[TOOL_NUMBER_SIZE], double seconds) {
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    if (!(seconds >= 0 && seconds < EXACT_MAX))
        seconds = 0;
    if (seconds > 0 && seconds < 0.95) {
        snprintf(text, TOOL_NUMBER_SIZE, "%.1f s", seconds);
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
        snprintf(text, TOOL_NUMBER_SIZE, "%llu %s %llu %s", large, large_unit, small, small_unit);
    else
        snprintf(text, TOOL_NUMBER_SIZE, "%llu %s", large, large_unit);
    return text;
}

char *tool_format_bytes(char text[TOOL_NUMBER_SIZE], double bytes) {
    if (bytes < 999.5 || bytes > EXACT_MAX) {
        snprintf(text, TOOL_NUMBER_SIZE, "%.3g B", bytes);
        return text;
    }
    format_prefixed(text, bytes, 3);
    size_t length = strlen(text);
    char letter = text[length - 1];
    snprintf(text + length - 1, TOOL_NUMBER_SIZE - length + 1, " %cB", letter);
    return text;
}

/* False when there is no such time; then `text` says so. */
static bool local_time(struct tm *local, char text[TOOL_NUMBER_SIZE], double unix_time) {
    strcpy(text, "--:--:--");
    if (!(fabs(unix_time) < EXACT_MAX))
        return false;
    time_t seconds = (time_t)floor(unix_time);
    return localtime_r(&seconds, local) != NULL;
}

char *tool_format_clock(char text[TOOL_NUMBER_SIZE], double unix_time) {
    struct tm local;
    if (local_time(&local, text, unix_time))
        strftime(text, TOOL_NUMBER_SIZE, "%H:%M:%S", &local);
    return text;
}

char *tool_format_date(char text[TOOL_NUMBER_SIZE], double unix_time) {
    struct tm local;
    if (local_time(&local, text, unix_time))
        strftime(text, TOOL_NUMBER_SIZE, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}
