#include "feed.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

volatile sig_atomic_t feed_signals;
void (*feed_meanwhile)(void *context);
void *feed_meanwhile_context;

/* What files and command lines hold may be anything; a terminal shows it and does nothing else. */
static void clean(char *text) {
    enum { DELETE = 0x7F };
    bool utf8 = wire_is_utf8(text, strlen(text));
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == DELETE || (*c > DELETE && !utf8))
            *c = '?';
}

int feed_fail(struct feed_error *error, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    clean(error->text);
    return -1;
}

int feed_no_memory(struct feed_error *error) {
    return feed_fail(error, EX_OSERR, "there is not enough memory");
}

double feed_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int feed_parse_count(const char *option, const char *text, uint64_t minimum, uint64_t maximum,
                     uint64_t *value, struct feed_error *error) {
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || parsed < minimum || parsed > maximum) {
        if (maximum == UINT64_MAX)
            return feed_fail(error, EX_USAGE, "%s: found '%s', expected a whole number from %llu",
                             option, text, (unsigned long long)minimum);
        return feed_fail(error, EX_USAGE, "%s: found '%s', expected a whole number in %llu..%llu",
                         option, text, (unsigned long long)minimum, (unsigned long long)maximum);
    }
    *value = parsed;
    return 0;
}

int feed_parse_real(const char *option, const char *text, double minimum, double maximum,
                    double *value, struct feed_error *error) {
    char *end = NULL;
    double parsed = strtod(text, &end);
    if (end == text || *end || !(parsed >= minimum && parsed <= maximum))
        return feed_fail(error, EX_USAGE, "%s: found '%s', expected a number in %g..%g", option,
                         text, minimum, maximum);
    *value = parsed;
    return 0;
}

const char *stream_name(struct stream *stream, const char *key, size_t size) {
    if (size > WIRE_KEY_MAX)
        return "it is longer than 255 bytes";
    if (!wire_is_utf8(key, size))
        return "it is not UTF-8 text";
    memcpy(stream->key, key, size);
    stream->key[size] = '\0';
    stream->key_size = size;
    stream->sequence = 0;
    return NULL;
}

int source_operands(const struct source *source, int count, int least, int most,
                    struct feed_error *error) {
    const struct source_type *type = source->type;
    if (count >= least && count <= most)
        return 0;
    return feed_fail(error, EX_USAGE, "%s; the call is: runnel-feed %s %s [options]",
                     count < least ? "an operand is missing" : "there are too many operands",
                     type->name, type->operands);
}
