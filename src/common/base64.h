/* Bytes as text for JSON: base64 (RFC 4648) with padding. */
#ifndef RUNNEL_BASE64_H
#define RUNNEL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Number of characters for this number of bytes, without a terminating zero. */
static inline size_t base64_size(size_t bytes) {
    return (bytes + 2) / 3 * 4;
}

/* Write text (base64_size,), not terminated. */
void base64_write(const void *bytes, size_t size, char *text);

/* Read the bytes of a text, (3 * size / 4,), and their number. False: the text is not base64. */
bool base64_read(const char *text, size_t size, void *bytes, size_t *bytes_size);

#endif
