#include "text.h"

#include <stdbool.h>
#include <string.h>

#include "wire.h"

/* Whether a terminal interprets this well-formed character of `length` bytes. */
static bool commands(const unsigned char *b, size_t length) {
    switch (length) {
    case 1:
        return b[0] < 0x20 || b[0] == 0x7F;
    case 2:
        return (b[0] == 0xC2 && b[1] < 0xA0) || (b[0] == 0xD8 && b[1] == 0x9C);
    case 3:
        return b[0] == 0xE2 && ((b[1] == 0x80 && (b[2] == 0x8E || b[2] == 0x8F ||
                                                  (b[2] >= 0xA8 && b[2] <= 0xAE))) ||
                                (b[1] == 0x81 && b[2] >= 0xA6 && b[2] <= 0xA9));
    default:
        return false;
    }
}

/* Length of the character with this first byte, if it is well formed. */
static size_t length_of(unsigned char first) {
    return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
}

/* Length of the printable character at the beginning of `size` bytes, or 0. */
static size_t printable(const unsigned char *b, size_t size) {
    size_t length = length_of(b[0]);
    return length <= size && wire_is_utf8(b, length) && !commands(b, length) ? length : 0;
}

void text_clean(char *text) {
    for (size_t left = strlen(text), length; left > 0; left -= length, text += length) {
        length = printable((unsigned char *)text, left);
        if (!length) {
            *text = '?';
            length = 1;
        }
    }
}

/* Whether these bytes at the end of the text are an incomplete character. */
static bool is_cut_off(const unsigned char *b, size_t size) {
    size_t length = length_of(b[0]), i = 1;
    while (i < size && (b[i] & 0xC0) == 0x80)
        i++;
    return length > size && i == size;
}

char *text_copy(char *copy, size_t size, const char *text) {
    const unsigned char *from = (const unsigned char *)text;
    char *to = copy, *limit = copy + size - 1;
    for (size_t left = strlen(text), length; left > 0; left -= length, from += length) {
        length = printable(from, left);
        if (to + (length ? length : 1) > limit || (!length && is_cut_off(from, left)))
            break;
        if (length)
            memcpy(to, from, length);
        else
            *to = ' ';
        length += !length;
        to += length;
    }
    *to = '\0';
    return copy;
}

char *text_quote(char text[TEXT_QUOTE_SIZE], const void *bytes, size_t size) {
    static const char ending[] = "...'";
    const unsigned char *b = bytes, *end = b + size;
    char *t = text, *limit = text + TEXT_QUOTE_SIZE - sizeof ending;
    *t++ = '\'';
    while (b < end) {
        size_t length = printable(b, (size_t)(end - b));
        if (t + (length ? length : 1) > limit)
            break;
        if (length)
            memcpy(t, b, length);
        else
            *t = '?';
        t += length ? length : 1;
        b += length ? length : 1;
    }
    strcpy(t, b < end ? ending : "'");
    return text;
}

char *text_file_name(char *name, size_t size, const char *text) {
    size_t i = 0;
    for (; text[i] && i < size - 1; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || (i > 0 && (c == '-' || c == '.'));
        name[i] = c;
        if (!plain)
            name[i] = '_';
    }
    name[i] = '\0';
    return name;
}

void text_append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    TEXT_FORMAT(text + used, size - used, format);
}
