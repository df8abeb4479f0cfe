/* Bytes as text that JSON takes: base64 (RFC 4648), padded. */
#ifndef RUNNEL_BASE64_H
#define RUNNEL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters of so many bytes, without a zero. */
static inline size_t base64_size(size_t bytes) {
    return (bytes + 2) / 3 * 4;
}

/* text (base64_size,) is not terminated. */
void base64_write(const void *bytes, size_t size, char *text);

/* The bytes of a text, (3 * size / 4,), and how many they are. False: it is no base64. */
bool base64_read(const char *text, size_t size, void *bytes, size_t *bytes_size);

#endif
