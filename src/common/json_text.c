#include "json_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

enum {
    DIGITS = 15,       /* digits of a real number */
    NUMBER_SIZE = 32,  /* the longest: -1.23456789012345e-308 */
    CAPACITY = 4096,   /* initial capacity */
    ESCAPE_SIZE = 6,   /* the longest form of a byte: \u001f */
    TEXT_MOST = 4096,  /* bytes shown of a text that is not UTF-8 */
    POWERS = 28,       /* 10^27 is the largest power of ten that is exact in a long double of x86 */
    EXPONENT_MIN = -4, /* below it, and from DIGITS on, %g of C writes an exponent */
};

/* ---- The buffer ---- */

/* Room for `size` more bytes, or NULL. */
static char *reserve(struct json_text *text, size_t size) {
    if (text->failed)
        return NULL;
    if (size > text->capacity - text->size) {
        size_t capacity = 2 * (text->size + size) + CAPACITY;
        char *larger = realloc(text->bytes, capacity);
        if (!larger) {
            text->failed = true;
            text->size = 0;
            return NULL;
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    return text->bytes + text->size;
}

static void put(struct json_text *text, const char *bytes, size_t size) {
    char *place = reserve(text, size);
    if (!place)
        return;
    memcpy(place, bytes, size);
    text->size += size;
}

static void put_character(struct json_text *text, char character) {
    put(text, &character, 1);
}

/* The comma and the key before a value. */
static void introduce(struct json_text *text, const char *key) {
    size_t size = key ? strlen(key) : 0;
    char *place = reserve(text, size + 4), *end = place;
    if (!place)
        return;
    if (text->follows)
        *end++ = ',';
    if (key) {
        *end++ = '"';
        memcpy(end, key, size);
        end += size;
        *end++ = '"';
        *end++ = ':';
    }
    text->size += (size_t)(end - place);
    text->follows = true;
}

static void open_with(struct json_text *text, const char *key, char bracket) {
    introduce(text, key);
    put_character(text, bracket);
    text->follows = false;
}

static void close_with(struct json_text *text, char bracket) {
    put_character(text, bracket);
    text->follows = true;
}

void json_text_begin(struct json_text *text) {
    text->size = 0;
    text->follows = text->failed = false;
    put_character(text, '{');
}

bool json_text_end(struct json_text *text) {
    put_character(text, '}');
    return !text->failed;
}

void json_text_free(struct json_text *text) {
    free(text->bytes);
    *text = (struct json_text){.bytes = NULL};
}

void json_text_open_object(struct json_text *text, const char *key) {
    open_with(text, key, '{');
}

void json_text_close_object(struct json_text *text) {
    close_with(text, '}');
}

void json_text_open_list(struct json_text *text, const char *key) {
    open_with(text, key, '[');
}

void json_text_close_list(struct json_text *text) {
    close_with(text, ']');
}

/* ---- Numbers ---- */

/* A positive number 0.DIGITS... * 10^point: its 15 digits as an integer, and the point. */
struct decimal {
    uint64_t digits; /* 10^14 <= digits < 10^15 */
    int point;
};

/* False: one multiplication does not determine the digits with certainty. */
static bool to_decimal(double number, struct decimal *decimal) {
    static const long double powers[POWERS] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                               1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                               1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                               1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    /* The error of the multiplication is at most half an LDBL_EPSILON. */
    const long double least = 1e14L, most = 1e15L, halfway = 0.5L, doubtful = most * LDBL_EPSILON;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    int binary = (int)(bits >> (DBL_MANT_DIG - 1)) - (DBL_MAX_EXP - 1); /* 2^binary <= number */
    int point = (binary * 1233 >> 12) + 1;                              /* 1233 / 2^12: log10(2) */
    for (int attempt = 0; attempt < 3; attempt++) {
        int shift = DIGITS - point;
        if (shift <= -POWERS || shift >= POWERS)
            return false;
        long double scaled = shift < 0 ? number / powers[-shift] : number * powers[shift];
        if (scaled < least - halfway) {
            point--;
        } else if (scaled >= most - halfway) {
            point++;
        } else {
            decimal->point = point;
            decimal->digits = (uint64_t)scaled;
            long double rest = scaled - (long double)decimal->digits;
            decimal->digits += rest > halfway;
            return fabsl(rest - halfway) > doubtful && scaled >= least;
        }
    }
    return false;
}

/* Write the first `count` digits. */
static char *put_digits(char *end, const char *digits, int count) {
    memcpy(end, digits, (size_t)count);
    return end + count;
}

/* Write the digits like printf's %.15g and jansson; `used` is their number without trailing
   zeros. */
static char *put_plain(char *end, const char digits[DIGITS], int used, int point) {
    if (point <= 0) {
        *end++ = '0';
        *end++ = '.';
        memset(end, '0', (size_t)-point);
        return put_digits(end - point, digits, used);
    }
    if (point >= used) {
        end = put_digits(end, digits, used);
        memset(end, '0', (size_t)(point - used));
        end += point - used;
        *end++ = '.';
        *end++ = '0';
        return end;
    }
    end = put_digits(end, digits, point);
    *end++ = '.';
    return put_digits(end, digits + point, used - point);
}

static char *put_scientific(char *end, const char digits[DIGITS], int used, int point) {
    *end++ = digits[0];
    if (used > 1) {
        *end++ = '.';
        end = put_digits(end, digits + 1, used - 1);
    }
    int exponent = point - 1, size = exponent < 0 ? -exponent : exponent;
    *end++ = 'e';
    if (exponent < 0)
        *end++ = '-';
    if (size >= 10)
        *end++ = (char)('0' + size / 10);
    *end++ = (char)('0' + size % 10);
    return end;
}

static char *put_decimal(char *end, struct decimal decimal) {
    enum { LOWER = 8 }; /* digits: two short chains of divisions are faster than a long one */
    char digits[DIGITS];
    uint32_t upper = (uint32_t)(decimal.digits / 100000000);
    uint32_t lower = (uint32_t)(decimal.digits % 100000000);
    for (int n = LOWER; n-- > 0; lower /= 10)
        digits[DIGITS - LOWER + n] = (char)('0' + lower % 10);
    for (int n = DIGITS - LOWER; n-- > 0; upper /= 10)
        digits[n] = (char)('0' + upper % 10);
    int used = DIGITS;
    while (used > 1 && digits[used - 1] == '0')
        used--;
    if (decimal.point - 1 < EXPONENT_MIN || decimal.point > DIGITS)
        return put_scientific(end, digits, used, decimal.point);
    return put_plain(end, digits, used, decimal.point);
}

/* Any number, with jansson. */
static void put_slowly(struct json_text *text, double number) {
    char bytes[NUMBER_SIZE];
    json_t *real = json_real(number);
    size_t size = json_dumpb(real, bytes, sizeof bytes,
                             JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(real);
    if (size == 0 || size > sizeof bytes)
        put(text, "null", 4);
    else
        put(text, bytes, size);
}

void json_text_number(struct json_text *text, const char *key, double number) {
    struct decimal decimal;
    if (!isfinite(number)) {
        json_text_null(text, key);
        return;
    }
    introduce(text, key);
    char *place = reserve(text, NUMBER_SIZE), *end = place;
    if (!place)
        return;
    if (number == 0 || !to_decimal(fabs(number), &decimal)) {
        put_slowly(text, number);
        return;
    }
    if (number < 0)
        *end++ = '-';
    text->size += (size_t)(put_decimal(end, decimal) - place);
}

void json_text_count(struct json_text *text, const char *key, uint64_t count) {
    char digits[NUMBER_SIZE];
    size_t begin = sizeof digits;
    introduce(text, key);
    do
        digits[--begin] = (char)('0' + count % 10);
    while (count /= 10);
    put(text, digits + begin, sizeof digits - begin);
}

void json_text_flag(struct json_text *text, const char *key, bool flag) {
    introduce(text, key);
    put(text, flag ? "true" : "false", flag ? 4 : 5);
}

void json_text_null(struct json_text *text, const char *key) {
    introduce(text, key);
    put(text, "null", 4);
}

void json_text_raw(struct json_text *text, const char *key, const char *value) {
    introduce(text, key);
    put(text, value ? value : "null", strlen(value ? value : "null"));
}

/* ---- Strings, and values of jansson ---- */

static void put_escaped(struct json_text *text, unsigned char byte) {
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char escaped[ESCAPE_SIZE + 1] = {'\\'};
    for (const char *name = named; *name; name += 2)
        if ((unsigned char)*name == byte) {
            escaped[1] = name[1];
            put(text, escaped, 2);
            return;
        }
    snprintf(escaped, sizeof escaped, "\\u%04X", byte);
    put(text, escaped, ESCAPE_SIZE);
}

void json_text_string(struct json_text *text, const char *key, const char *bytes, size_t size) {
    bool clean = wire_is_utf8(bytes, size);
    introduce(text, key);
    put_character(text, '"');
    for (size_t n = 0; n < size; n++) {
        unsigned char byte = (unsigned char)bytes[n];
        if (!clean && (byte >= 0x80 || byte == 0))
            put_character(text, '?');
        else if (byte < 0x20 || byte == '"' || byte == '\\')
            put_escaped(text, byte);
        else
            put_character(text, (char)byte);
    }
    put_character(text, '"');
}

void json_text_members(struct json_text *text, const json_t *object) {
    char *members = json_object_size(object)
                        ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS))
                        : NULL;
    if (members) {
        introduce(text, NULL);
        put(text, members + 1, strlen(members) - 2);
    }
    free(members);
}

json_t *json_of_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_of_text(const char *text, size_t size) {
    if (wire_is_utf8(text, size))
        return json_stringn_nocheck(text, size);
    char ascii[TEXT_MOST];
    if (size > sizeof ascii)
        size = sizeof ascii;
    for (size_t i = 0; i < size; i++)
        ascii[i] = (unsigned char)text[i] < 0x80 && text[i] ? text[i] : '?';
    return json_stringn_nocheck(ascii, size);
}
