/* The binary formats of feeders, tools and the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"

/* Version 1, both flags, epoch 7, sequence 2^40 + 3, time 1.5: the layout of
   docs/reference/protocol.md. */
static const unsigned char layout[WIRE_HEADER_SIZE] = {
    1, 3, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F,
};

static void header_has_the_layout_of_the_contract(void **state) {
    struct wire_header header = {WIRE_END | WIRE_DO_NOT_LEARN, 7, (1ULL << 40) + 3, 1.5, 0};
    unsigned char bytes[WIRE_HEADER_SIZE_MAX];
    assert_int_equal(wire_header_pack(&header, bytes), WIRE_HEADER_SIZE);
    assert_memory_equal(bytes, layout, sizeof layout);

    struct wire_header read;
    assert_null(wire_header_unpack(&read, layout, sizeof layout));
    assert_int_equal(read.flags, header.flags);
    assert_int_equal(read.epoch, header.epoch);
    assert_int_equal(read.sequence, header.sequence);
    assert_true(read.time == header.time);
    assert_int_equal(read.producer, 0);
}

static void header_of_a_producer_is_eight_bytes_longer(void **state) {
    static const unsigned char producer[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    struct wire_header read, header = {3, 7, (1ULL << 40) + 3, 1.5, 0x0102030405060708};
    unsigned char bytes[WIRE_HEADER_SIZE_MAX];
    assert_int_equal(wire_header_pack(&header, bytes), WIRE_HEADER_SIZE_MAX);
    assert_int_equal(bytes[0], 2);
    assert_memory_equal(bytes + 1, layout + 1, sizeof layout - 1);
    assert_memory_equal(bytes + WIRE_HEADER_SIZE, producer, sizeof producer);
    assert_null(wire_header_unpack(&read, bytes, sizeof bytes));
    assert_true(read.producer == header.producer);
    assert_true(read.sequence == header.sequence);

    memset(bytes + WIRE_HEADER_SIZE, 0, 8); /* no producer, in version 2 */
    assert_null(wire_header_unpack(&read, bytes, sizeof bytes));
    assert_int_equal(read.producer, 0);
    bytes[0] = 1;
    assert_non_null(strstr(wire_header_unpack(&read, bytes, sizeof bytes), "version"));
    bytes[0] = 2;
    assert_non_null(strstr(wire_header_unpack(&read, bytes, WIRE_HEADER_SIZE), "version"));
}

static void header_may_lie_anywhere(void **state) {
    unsigned char room[WIRE_HEADER_SIZE + 8];
    for (size_t offset = 0; offset < 8; offset++) {
        memcpy(room + offset, layout, sizeof layout);
        struct wire_header read;
        assert_null(wire_header_unpack(&read, room + offset, sizeof layout));
        assert_int_equal(read.sequence, (1ULL << 40) + 3);
    }
}

static void damaged_header_is_named(void **state) {
    static const struct {
        size_t byte;
        unsigned char value;
        const char *word;
    } damages[] = {
        {0, 0, "version"},
        {0, 2, "version"},
        {2, 1, "reserved"},
        {3, 128, "reserved"},
    };
    struct wire_header read;
    for (size_t n = 0; n < sizeof damages / sizeof *damages; n++) {
        unsigned char bytes[WIRE_HEADER_SIZE];
        memcpy(bytes, layout, sizeof bytes);
        bytes[damages[n].byte] = damages[n].value;
        const char *wrong = wire_header_unpack(&read, bytes, sizeof bytes);
        assert_non_null(wrong);
        assert_non_null(strstr(wrong, damages[n].word));
        if (bytes[0] == WIRE_VERSION) /* a later header has the same numbers of its example */
            assert_memory_equal(&read.sequence, layout + 8, sizeof read.sequence);
    }
    for (size_t size = 0; size < WIRE_HEADER_SIZE; size++)
        assert_non_null(strstr(wire_header_unpack(&read, layout, size), "24 bytes"));
    unsigned char longer[WIRE_HEADER_SIZE + 1] = {1};
    assert_non_null(strstr(wire_header_unpack(&read, longer, sizeof longer), "24 bytes"));
}

struct text {
    const char *bytes;
    size_t size;
};
#define TEXT(literal)                                                                              \
    { literal, sizeof literal - 1 }

static void utf8_is_accepted(void **state) {
    static const struct text good[] = {
        TEXT(""),
        TEXT("sensor-7"),
        TEXT("\x01\x7F"),
        TEXT("\xC2\x80\xDF\xBF"),                 /* U+0080 U+07FF */
        TEXT("\xE0\xA0\x80\xEF\xBF\xBF"),         /* U+0800 U+FFFF */
        TEXT("\xED\x9F\xBF\xEE\x80\x80"),         /* beside the surrogates */
        TEXT("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), /* U+10000 U+10FFFF */
        TEXT("a\xC3\xA4z\xE2\x82\xACz"),
    };
    for (size_t n = 0; n < sizeof good / sizeof *good; n++)
        assert_true(wire_is_utf8(good[n].bytes, good[n].size));
}

static void what_is_not_utf8_is_refused(void **state) {
    static const struct text bad[] = {
        TEXT("a\0b"),
        TEXT("\x80"),
        TEXT("\xBF"),
        TEXT("\xC0\x80"), /* not the shortest form */
        TEXT("\xC1\xBF"),
        TEXT("\xE0\x9F\xBF"),
        TEXT("\xF0\x8F\xBF\xBF"),
        TEXT("\xED\xA0\x80"), /* surrogates */
        TEXT("\xED\xBF\xBF"),
        TEXT("\xF4\x90\x80\x80"), /* beyond U+10FFFF */
        TEXT("\xF5\x80\x80\x80"),
        TEXT("\xFE"),
        TEXT("\xFF"),
        TEXT("\xC2"), /* truncated */
        TEXT("\xE2\x82"),
        TEXT("\xF0\x90\x80"),
        TEXT("\xC2g"),
        TEXT("\xE2\x82g"),
        TEXT("good then \xC3("),
    };
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
        assert_false(wire_is_utf8(bad[n].bytes, bad[n].size));
}

/* Every code point, written by the rule of RFC 3629 (section 3), is accepted; surrogates are
   not. */
static void every_code_point_is_checked(void **state) {
    for (uint32_t c = 1; c <= 0x10FFFF; c++) {
        unsigned char b[4];
        size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const unsigned char leads[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
        for (size_t n = size; n-- > 0;)
            b[n] = (unsigned char)((n ? 0x80 : leads[size]) |
                                   ((c >> (6 * (size - 1 - n))) & (n ? 0x3F : 0xFF)));
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (wire_is_utf8(b, size) == surrogate)
            fail_msg("U+%04X", c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_the_layout_of_the_contract),
        cmocka_unit_test(header_of_a_producer_is_eight_bytes_longer),
        cmocka_unit_test(header_may_lie_anywhere),
        cmocka_unit_test(damaged_header_is_named),
        cmocka_unit_test(utf8_is_accepted),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(every_code_point_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
