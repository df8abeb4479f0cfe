/* Mutated messages never crash, and accepted ones follow the rules, which a second
   implementation checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "example_messages.h"
#include "example_rules.h"

enum { MUTATIONS = 100000, ROOM = 512 };

/* Copy a frame into `room`, then flip a bit, overwrite a byte or a number, cut or lengthen it. */
static void mutate(struct frame *frame, unsigned char room[ROOM], uint64_t *seed) {
    static const uint32_t numbers[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x3F800001,
                                       5,          UINT32_MAX, 0x7F7FFFFF, 0,          3};
    size_t size = frame->size < ROOM - 16 ? frame->size : ROOM - 16;
    memcpy(room, frame->data, size);
    for (uint64_t edits = random_bits(seed) % 4; edits > 0 && size > 0; edits--) {
        size_t at = random_bits(seed) % size;
        switch (random_bits(seed) % 5) {
        case 0:
            room[at] ^= (unsigned char)(1U << random_bits(seed) % 8);
            break;
        case 1:
            room[at] = (unsigned char)random_bits(seed);
            break;
        case 2:
            if (size >= 4)
                memcpy(room + at % (size / 4) * 4, &numbers[random_bits(seed) % COUNT(numbers)], 4);
            break;
        case 3:
            size = random_bits(seed) % 4 ? size : at;
            break;
        default:
            memset(room + size, (int)random_bits(seed) % 256, 4);
            size += size + 4 <= ROOM && random_bits(seed) % 4 == 0 ? 4 : 0;
        }
    }
    *frame = (struct frame){room, size};
}

static struct message draw_message(uint64_t *seed) {
    struct message m;
    uint64_t kind = random_bits(seed) % 4;
    if (kind == 0)
        m = bad[random_bits(seed) % COUNT(bad)].message;
    else if (kind == 1)
        m = (struct message){.frames = {{0}}, .count = 1};
    else
        m = good[random_bits(seed) % COUNT(good)].message;
    if (kind == 1) {
        size_t n = random_bits(seed) % COUNT(pairs);
        m.model = pairs[n].message.model;
        m.frames[0] = (struct frame){pairs[n].json, strlen(pairs[n].json)};
    }
    if (random_bits(seed) % 16 == 0)
        m.model = (enum example_model)(random_bits(seed) % EXAMPLE_MODELS);
    if (random_bits(seed) % 32 == 0)
        m.count = random_bits(seed) % (EXAMPLE_FRAMES_MAX + 2);
    return m;
}

static void mutations_never_pass_for_examples(void **state) {
    struct bench *bench = *state;
    uint64_t seed = 20260;
    size_t accepted = 0, reasons[REJECT_REASONS] = {0};
    for (size_t n = 0; n < MUTATIONS; n++) {
        struct message m = draw_message(&seed);
        unsigned char *room[EXAMPLE_FRAMES_MAX];
        for (size_t f = 0; f < EXAMPLE_FRAMES_MAX; f++) {
            unsigned char bytes[ROOM];
            if (!m.frames[f].data)
                m.frames[f] = (struct frame)NONE;
            mutate(&m.frames[f], bytes, &seed);
            /* exactly as large as the frame, so that a sanitizer detects reads beyond it */
            room[f] = malloc(m.frames[f].size + 1);
            m.frames[f].data = memcpy(room[f] + 1, bytes, m.frames[f].size);
        }
        struct example e;
        char why[REJECT_WHY_SIZE] = "";
        enum reject_reason reason = decode_message(bench, &m, &e, why);
        reasons[reason]++;
        if (reason != REJECT_NOT)
            assert_true(why[0] && wire_is_utf8(why, strlen(why)));
        else if (broken_rule(&bench->models[m.model], m.frames, m.count, &e))
            fail_msg("accepted in spite of %s",
                     broken_rule(&bench->models[m.model], m.frames, m.count, &e));
        accepted += reason == REJECT_NOT;
        for (size_t f = 0; f < EXAMPLE_FRAMES_MAX; f++)
            free(room[f]);
    }
    /* The mutations reach every check of an example, and the checks accept valid ones. */
    assert_true(accepted > MUTATIONS / 20 && accepted < MUTATIONS / 2);
    for (int r = 1; r < REJECT_CONFLICT; r++)
        assert_true(reasons[r] > MUTATIONS / 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutations_never_pass_for_examples),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
