/* Text from outside, made fit for a log line. */
#ifndef RUNNEL_TEXT_H
#define RUNNEL_TEXT_H

#include <stddef.h>

enum { TEXT_QUOTE_SIZE = 80 };

/* Write 'BYTES' with its quotes: a '?' for each control character and each byte that is not UTF-8,
   and "..." in place of what does not fit. Always terminated, always UTF-8. Returns `text`. */
char *text_quote(char text[TEXT_QUOTE_SIZE], const void *bytes, size_t size);

/* Put a '?' for each of these bytes into a terminated text. */
void text_clean(char *text);

#endif
