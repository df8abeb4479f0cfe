/* Text from outside, made safe for a line of a log or a terminal. Unprintable bytes are those
   that are not UTF-8, control characters (U+0000..U+001F, U+007F..U+009F), and characters that
   end a line or change the direction of writing (U+2028..U+202E, U+061C, U+200E, U+200F,
   U+2066..U+2069). */
#ifndef RUNNEL_TEXT_H
#define RUNNEL_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TEXT_QUOTE_SIZE = 80 };

/* Replace each unprintable byte of a terminated text with '?'. */
void text_clean(char *text);

/* Copy a terminated text, with a space for each unprintable byte, which keeps the columns. Cut
   to `size`, without an incomplete character at the end. Returns `copy`. */
char *text_copy(char *copy, size_t size, const char *text);

/* Write 'BYTES' with quotes, a '?' for each unprintable byte, and "..." for the rest that does
   not fit. Always terminated, always UTF-8. Returns `text`. */
char *text_quote(char text[TEXT_QUOTE_SIZE], const void *bytes, size_t size);

/* Make a file name from any text, also in place. Characters other than ASCII letters, digits,
   '-', '_' and '.' become '_', and so do '-' and '.' at the beginning. The name is cut to
   `size`. Returns `name`. */
char *text_file_name(char *name, size_t size, const char *text);

/* Append to a terminated text of `size` bytes, cut to it. */
void text_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Write the arguments after `format`, a parameter of the calling function, cut to `size`. */
#define TEXT_FORMAT(text, size, format)                                                            \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        vsnprintf(text, size, format, arguments);                                                  \
        va_end(arguments);                                                                         \
    } while (0)

/* The plural ending: "s" unless the count is 1. */
static inline const char *text_s(uint64_t count) {
    return count == 1 ? "" : "s";
}

#endif
