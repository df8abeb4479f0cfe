#include "text.h"

#include <stdbool.h>
#include <string.h>

#include "wire.h"

/* Bytes of the printable character at the front of `size` bytes, 0 when there is none. */
static size_t printable(const unsigned char *b, size_t size) {
    if (b[0] < 0x80)
        return b[0] >= 0x20 && b[0] != 0x7F;
    size_t length = b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : 2;
    if (length > size || !wire_is_utf8(b, length))
        return 0;
    bool control = b[0] == 0xC2 && b[1] < 0xA0; /* U+0080..U+009F */
    return control ? 0 : length;
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
