/* What the tools share: complaints, options, looking into JSON that nobody has
   checked, and numbers as people read them. */
#ifndef RUNNEL_TOOL_H
#define RUNNEL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/options.h"
#include "runnel.h"

/* Room for any number that a tool_format_... function writes, its end included. */
enum { TOOL_NUMBER_SIZE = 40 };

/* Complaints on stderr, "PROGRAM: SENTENCE"; both return the exit status (sysexits.h), so that
   `return tool_fail(...)` is all a caller writes. tool_usage points to --help and returns EX_USAGE.
 */
int tool_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tool_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether everything written to stdout has arrived: EX_OK, else complains and returns EX_IOERR. */
int tool_finish_output(void);

/* Write to a terminal as much as it takes at once, from a signal handler that ends the program:
   where output is stopped or nobody reads, it is not waited for. */
void tool_write_last(const void *bytes, size_t size);

/* The options --key and --server-key, rows of a table of options whose `field` is a struct
   tool_keys; when all are taken tool_keys_ready looks whether they can be read, or complains and
   returns false. tool_peer is a daemon there, with these keys. */
#define TOOL_KEY_OPTIONS(type, field)                                                              \
    {"key", 0, "FILE", "your secret key, where the daemon wants to know who you are",              \
     OPTION_FILE(type, field.own)},                                                                \
    {                                                                                              \
        "server-key", 0, "KEY", "the daemon's public key, or the file that has it",                \
            OPTION_FILE(type, field.server)                                                        \
    }
struct tool_keys {
    const char *own, *server; /* as given; NULL = not */
};
bool tool_keys_ready(const struct tool_keys *keys);
struct runnel_peer tool_peer(const char *endpoint, const struct tool_keys *keys);

/* Seconds of CLOCK_MONOTONIC. */
double tool_now(void);

/* Milliseconds for poll(2), rounded up: a deadline that is waited for has passed when the wait is
 * over. */
int tool_poll_time(double seconds);

/* A member of an object. False or NULL when `object` is not one, the member is missing, or it is of
   another type (so null is as good as missing). */
bool tool_number(const json_t *object, const char *key, double *value);
const char *tool_string(const json_t *object, const char *key);

/* The numbers of the list `key`: how many, at most `most`; 0 when there is no such list, it is
   longer, or one of them is negative or beyond 2^53. What is no number counts as 0. */
size_t tool_counts(const json_t *object, const char *key, double *counts, size_t most);

/* Copy `text` so that a terminal can do nothing but show it: control characters become spaces, a
   space a byte, and so do those that turn the direction of writing. Cut to `size`; half a UTF-8
   character at the end, whoever cut it, is left out. Returns `copy`. */
char *tool_clean(char *copy, size_t size, const char *text);

/* Numbers as text; each fits TOOL_NUMBER_SIZE and is returned.
     number        a loss: 4 digits or decimals, at most 7 columns: 0.0123 12.345 1.23e-5 12.35k
     setting       as somebody wrote it, at most 7 columns: 0.001 0.0003 2.5e-5
     rate          3 digits, at most 5 columns: 20.0 950 12.3k
     count         exact up to `width` columns, else as a rate
     grouped       exact, 1,234,567
     percent       of a share, 0.125 is 12.50%
     microseconds  950us 12.3ms 1.23s
     duration      0.3 s, 45 s, 3 min 20 s, 5 h 12 min, 3 d 4 h
     bytes         512 B, 1.23 MB
     clock         local time of a Unix time, 14:03:59
     date          the same with its day, 2026-01-31 14:03:59 */
typedef char *tool_format(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_number(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_setting(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_rate(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_count(char text[TOOL_NUMBER_SIZE], double value, int width);
char *tool_format_grouped(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_percent(char text[TOOL_NUMBER_SIZE], double value);
char *tool_format_microseconds(char text[TOOL_NUMBER_SIZE], double microseconds);
char *tool_format_duration(char text[TOOL_NUMBER_SIZE], double seconds);
char *tool_format_bytes(char text[TOOL_NUMBER_SIZE], double bytes);
char *tool_format_clock(char text[TOOL_NUMBER_SIZE], double unix_time);
char *tool_format_date(char text[TOOL_NUMBER_SIZE], double unix_time);

#endif
