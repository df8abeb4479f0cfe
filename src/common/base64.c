#include "base64.h"

#include <stdint.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum { LETTER_BITS = 6, LETTER_MASK = 63, NO_LETTER = 64, BYTE_BITS = 8 };

void base64_write(const void *bytes, size_t size, char *text) {
    const unsigned char *byte = bytes;
    for (size_t n = 0; n < size; n += 3, text += 4) {
        size_t there = size - n < 3 ? size - n : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++)
            group = group << BYTE_BITS | (k < there ? byte[n + k] : 0);
        for (size_t k = 0; k < 4; k++)
            text[k] = k <= there ? letters[group >> (3 - k) * LETTER_BITS & LETTER_MASK] : '=';
    }
}

static uint32_t letter_of(char c) {
    return c >= 'A' && c <= 'Z'   ? (uint32_t)(c - 'A')
           : c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a' + 26)
           : c >= '0' && c <= '9' ? (uint32_t)(c - '0' + 52)
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : NO_LETTER;
}

bool base64_read(const char *text, size_t size, void *bytes, size_t *bytes_size) {
    unsigned char *byte = bytes;
    *bytes_size = 0;
    if (size % 4)
        return false;
    size_t padding = size && text[size - 1] == '=' ? 1 + (text[size - 2] == '=') : 0;
    *bytes_size = size / 4 * 3 - padding;
    for (size_t n = 0; n < size; n += 4) {
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            uint32_t letter = n + k >= size - padding ? 0 : letter_of(text[n + k]);
            if (letter == NO_LETTER)
                return false;
            group = group << LETTER_BITS | letter;
        }
        for (size_t k = 0; k < 3 && n / 4 * 3 + k < *bytes_size; k++)
            byte[n / 4 * 3 + k] = (unsigned char)(group >> (2 - k) * BYTE_BITS);
    }
    return true;
}
