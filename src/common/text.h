/* Text from outside, made fit for a line of a log or a terminal, which then can do nothing but show
   it. What does not print is each byte that is not UTF-8, control characters (U+0000..U+001F,
   U+007F..U+009F), and those that end a line or turn the direction of writing (U+2028..U+202E,
   U+061C, U+200E, U+200F, U+2066..U+2069). */
#ifndef RUNNEL_TEXT_H
#define RUNNEL_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_QUOTE_SIZE = 80 };

/* Put a '?' for each byte that does not print into a terminated text. */
void text_clean(char *text);

/* Copy a terminated text, with a space for each byte that does not print, so that columns stay.
   Cut to `size`; an incomplete character at the end is left out. Returns `copy`. */
char *text_copy(char *copy, size_t size, const char *text);

/* Write 'BYTES' with its quotes: a '?' for each byte that does not print, and "..." in place of
   what does not fit. Always terminated, always UTF-8. Returns `text`. */
char *text_quote(char text[TEXT_QUOTE_SIZE], const void *bytes, size_t size);

/* Make a name for a file of any text, in place or not: '_' for what is none of a letter of ASCII, a
   digit, '-', '_' or '.', and for '-' or '.' at first; no longer than fits. Returns `name`. */
char *text_file_name(char *name, size_t size, const char *text);

/* The end of a word that is counted: "s", but of one. */
static inline const char *text_s(uint64_t count) {
    return count == 1 ? "" : "s";
}

#endif
