/* Entries as rows of the journal's file: unpacking returns the packed entries for all numbers, and
   refuses text that no daemon has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"
#include "store/journal_block.h"

enum { LARGE = 3 * JOURNAL_BLOCK_BYTES };

static char bytes[LARGE];

/* Key, x and y are consecutive, as in the queue. */
static struct journal_record example(uint64_t position, size_t key, size_t x, size_t y) {
    return (struct journal_record){
        .position = position,
        .time = 1.8e9,
        .kind = JOURNAL_EXAMPLE,
        .steps = 1,
        .key_size = key,
        .x_size = x,
        .y_size = y,
        .key = bytes,
        .x = bytes + key,
        .y = y ? bytes + key + x : NULL,
    };
}

static struct journal_record command(uint64_t position, const char *text) {
    return (struct journal_record){.position = position,
                                   .time = 1.8e9,
                                   .kind = JOURNAL_COMMAND,
                                   .key = "",
                                   .x = text,
                                   .x_size = strlen(text) + 1};
}

static void assert_same(const struct journal_record *got, const struct journal_record *record) {
    assert_true(got->position == record->position);
    assert_true(got->time == record->time);
    assert_int_equal(got->kind, record->kind);
    assert_int_equal(got->flags, record->flags);
    assert_int_equal(got->steps, record->steps);
    assert_int_equal(got->numbered, record->numbered);
    assert_int_equal(got->epoch, record->epoch);
    assert_true(got->sequence == record->sequence);
    assert_true(got->producer == record->producer);
    assert_int_equal(got->label.epoch, record->label.epoch);
    assert_true(got->label.sequence == record->label.sequence);
    assert_memory_equal(&got->stamp, &record->stamp, sizeof got->stamp);
    assert_int_equal(got->key_size, record->key_size);
    assert_int_equal(got->x_size, record->x_size);
    assert_int_equal(got->y_size, record->y_size);
    assert_memory_equal(got->key, record->key, record->key_size);
    assert_memory_equal(got->x, record->x, record->x_size);
    assert_int_equal(got->y != NULL, record->y != NULL);
    if (record->y)
        assert_memory_equal(got->y, record->y, record->y_size);
}

/* Packs the records into blocks and unpacks them; returns the number of blocks. */
static int assert_through(const struct journal_record *records, size_t count) {
    static struct journal_packer packer;
    struct journal_unpacker unpacker;
    struct journal_record got;
    size_t packed = 0, read = 0;
    int blocks = 0;
    for (; packed < count; blocks++) {
        journal_packer_begin(&packer);
        size_t before = packed;
        while (packed < count && journal_packer_add(&packer, &records[packed]))
            packed++;
        assert_true(packed > before);
        const struct journal_block *block = journal_packer_end(&packer);
        assert_true(block->last == records[packed - 1].position);
        assert_int_equal(block->count, packed - before);
        assert_true(block->count == 1 ||
                    block->about_size + block->data_size <= JOURNAL_BLOCK_BYTES);
        journal_unpacker_begin(&unpacker, block);
        for (; read < packed; read++) {
            assert_int_equal(journal_unpacker_next(&unpacker, &got), 1);
            assert_same(&got, &records[read]);
        }
        assert_int_equal(journal_unpacker_next(&unpacker, &got), 0);
    }
    return blocks;
}

static void returns_extreme_numbers(void **unused) {
    static const double stamps[] = {0,      1795300610.787104,      -3.5,
                                    5e-324, 1.7976931348623157e308, 1e-3};
    struct journal_record records[8];
    for (size_t n = 0; n < 6; n++) {
        records[n] = example(UINT32_MAX + (uint64_t)n, n % 3, 8 * n, n % 2 ? 4 : 0);
        records[n].stamp = stamps[n];
        records[n].numbered = n != 2;
        records[n].epoch = n == 2 ? 0 : n == 3 ? UINT32_MAX : (uint32_t)n;
        records[n].sequence = n == 2 ? 0 : n == 3 ? UINT64_MAX : (uint64_t)INT64_MAX + n;
        records[n].producer = n == 2 ? 0 : n == 3 ? UINT64_MAX : (uint64_t)INT64_MAX + n;
        records[n].flags = n == 4 ? UINT8_MAX & ~WIRE_LABEL : (uint8_t)n;
        records[n].time = n == 5 ? 0 : 1795300610.787104;
    }
    records[1].key_size = 0;
    for (size_t n = 6; n < 8; n++) { /* labels, one not numbered */
        records[n] = example(UINT32_MAX + (uint64_t)n, 3, 0, 8);
        records[n].flags = WIRE_LABEL;
        records[n].numbered = n == 6;
        records[n].label = (struct wire_label){UINT32_MAX, UINT64_MAX};
    }
    assert_int_equal(assert_through(records, 8), 1);
}

static void mixes_commands_and_examples(void **unused) {
    const struct journal_record records[] = {
        command(7, "{\"command\":\"reset\"}"), example(8, 3, 32, 0), command(9, ""),
        example(10, WIRE_KEY_MAX, 4, 4),       command(11, "[]"),
    };
    assert_int_equal(assert_through(records, 5), 1);
}

/* Sizes around that of a block and far above it: alone, after others and before others. */
static void puts_a_large_entry_into_its_own_block(void **unused) {
    for (size_t size = JOURNAL_BLOCK_BYTES - 200; size < JOURNAL_BLOCK_BYTES + 200; size++) {
        const struct journal_record records[] = {example(1, 2, 8, 4), example(2, 4, size, 8),
                                                 example(3, 2, 8, 0)};
        assert_in_range(assert_through(records, 3), 1, 3);
        assert_int_equal(assert_through(records + 1, 1), 1);
    }
    const struct journal_record records[] = {example(1, 8, LARGE - 16, 8),
                                             example(2, 8, LARGE - 8, 0), example(3, 1, 8, 0)};
    assert_int_equal(assert_through(records, 3), 3);
}

/* SQLite returns NULL for an empty blob. */
static void accepts_no_bytes(void **unused) {
    static struct journal_packer packer;
    const struct journal_record record = example(1, 0, 0, 0);
    struct journal_unpacker unpacker;
    struct journal_record got;
    journal_packer_begin(&packer);
    assert_true(journal_packer_add(&packer, &record));
    struct journal_block block = *journal_packer_end(&packer);
    block.data = NULL;
    journal_unpacker_begin(&unpacker, &block);
    assert_int_equal(journal_unpacker_next(&unpacker, &got), 1);
    assert_same(&got, &record);
    assert_int_equal(journal_unpacker_next(&unpacker, &got), 0);
}

static void fills_blocks(void **unused) {
    enum { COUNT = 1000, BLOCKS_MAX = 40 };
    static struct journal_record records[COUNT];
    for (size_t n = 0; n < COUNT; n++) {
        records[n] = example(n + 1, 8, 32, 32);
        records[n].numbered = true;
        records[n].sequence = n;
    }
    assert_in_range(assert_through(records, COUNT), COUNT * 72 / JOURNAL_BLOCK_BYTES, BLOCKS_MAX);
}

/* Reads a block that can be invalid, in memory of its exact size, so that a sanitizer detects reads
   outside. Returns whether it is refused. */
static bool is_refused(const struct journal_block *block) {
    struct journal_block copy = *block;
    char *about = malloc(block->about_size), *data = malloc(block->data_size);
    struct journal_unpacker unpacker;
    struct journal_record got;
    unsigned sum = 0;
    int status;
    assert_true(about && data);
    copy.about = memcpy(about, block->about, block->about_size);
    copy.data = memcpy(data, block->data, block->data_size);
    journal_unpacker_begin(&unpacker, &copy);
    while ((status = journal_unpacker_next(&unpacker, &got)) == 1) {
        for (size_t n = 0; n < got.key_size; n++)
            sum += (unsigned char)got.key[n];
        for (size_t n = 0; n < got.x_size; n++)
            sum += ((const unsigned char *)got.x)[n];
        for (size_t n = 0; n < got.y_size; n++)
            sum += ((const unsigned char *)got.y)[n];
    }
    free(about);
    free(data);
    return status == -1 || sum == UINT32_MAX;
}

static void refuses_other_texts(void **unused) {
    static struct journal_packer packer;
    const struct journal_record records[] = {example(1, 3, 12, 8), command(2, "{}"),
                                             example(3, 0, 24, 0)};
    journal_packer_begin(&packer);
    for (size_t n = 0; n < 3; n++)
        assert_true(journal_packer_add(&packer, &records[n]));
    struct journal_block block = *journal_packer_end(&packer);
    assert_false(is_refused(&block));
    size_t size = block.about_size;
    for (block.about_size = 0; block.about_size < size; block.about_size++)
        assert_true(is_refused(&block));
    int refused = 0;
    for (size_t at = 0; at < size; at++)
        for (int change = 1; change < 256; change++) {
            packer.about[at] = (char)(packer.about[at] ^ change);
            refused += is_refused(&block);
            packer.about[at] = (char)(packer.about[at] ^ change);
        }
    assert_true(refused > (int)size * 240);
    for (block.count = 0; block.count < 8; block.count++)
        assert_int_equal(is_refused(&block), block.count != 3);
    block.count = 3;
    size_t data_size = block.data_size;
    for (block.data_size = 0; block.data_size < data_size + 8; block.data_size++)
        assert_int_equal(is_refused(&block), block.data_size != data_size);
    static const char *const texts[] = {
        "[[1,1,0,0,0,null,1,0,null,null,99999999999999999999]]",
        "[[1,1,0,0,0,null,1,0,null,null,9223372036854775808]]",
        "[[1,1,0,0,0,null,1,0,1,null,null]]",
        "[[1,1,0,0,0,null,1,256,null,null,null]]",
        "[[1,1,0,0,0,null,-1,0,null,null,null]]",
        "[[1,1,0,0,-1,null,1,0,null,null,null]]",
        "[[1,1,0,0,0,null,1,0,4294967296,1,null]]",
        "[[1,3,0,0,0,null,1,0,null,null,null]]",
        "[[null,1,0,0,0,null,1,0,null,null,null]]",
        "[[1,2,0,0,0]]",
        "[[1,1,0,0,0]]",
        "[[1,1,0,0,0,null,1,0,null,null,null,7]]",
        "[[1,1,0,0,0,null,1,0,1,1,null,7,7]]",
    };
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        const struct journal_block made = {
            .last = 1, .count = 1, .about = texts[n], .about_size = strlen(texts[n]), .data = ""};
        assert_true(is_refused(&made));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_extreme_numbers),
        cmocka_unit_test(mixes_commands_and_examples),
        cmocka_unit_test(puts_a_large_entry_into_its_own_block),
        cmocka_unit_test(accepts_no_bytes),
        cmocka_unit_test(fills_blocks),
        cmocka_unit_test(refuses_other_texts),
    };
    for (size_t n = 0; n < sizeof bytes; n++)
        bytes[n] = (char)(n * 37 % 251);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
