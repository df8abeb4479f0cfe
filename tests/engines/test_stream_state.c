/* What is kept of a stream goes elsewhere and comes back: nothing is lost on the way, whatever the
   configuration, and what cannot be adopted changes nothing. */
#include <inttypes.h>
#include <libdeflate.h>
#include <math.h>
#include <sysexits.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/stream_state.h"
#include "learner/streams.h"
#include "moving_play.h"
#include "under_test.h"

enum { SUMMED_FROM = 16 }; /* bytes before what the checksum is of */

/* ---- Blobs ---- */

static struct stream_state *open_state(struct play *play) {
    struct stream_state *state;
    struct error error;
    if (stream_state_open(&state, play->config, play->learner, &error))
        fail_msg("%s", error.text);
    return state;
}

static struct bytes export_one(struct stream_state *state, const char *key, size_t size) {
    const unsigned char *bytes;
    struct bytes copy;
    assert_int_equal(stream_state_export(state, key, size, &bytes, &copy.size, NULL), 0);
    assert_true(copy.size <= stream_state_size(state));
    copy.bytes = malloc(copy.size + 1);
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, bytes, copy.size);
    return copy;
}

static size_t export_all(struct play *play, struct bytes blobs[STREAMS]) {
    const struct streams *streams = learner_streams_table(play->learner);
    struct stream_state *state = open_state(play);
    size_t count = 0, size;
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        const char *key = streams_key(streams, slot, &size);
        blobs[count++] = export_one(state, key, size);
    }
    stream_state_close(&state);
    return count;
}

static void adopt(struct play *play, const struct bytes *blob) {
    struct stream_state *state = open_state(play);
    struct error error;
    if (stream_state_adopt(state, blob->bytes, blob->size, &error))
        fail_msg("%s", error.text);
    stream_state_close(&state);
}

/* It is refused with these words, and nothing has changed. */
static void assert_refused(struct play *play, const struct bytes *blob, const char *words) {
    struct bytes before = play_state(play);
    struct stream_state *state = open_state(play);
    struct error error;
    assert_int_equal(stream_state_adopt(state, blob->bytes, blob->size, &error), 1);
    assert_int_equal(error.status, EX_DATAERR);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" is not in: %s", words, error.text);
    stream_state_close(&state);
    play_assert_state(play, &before);
    free(before.bytes);
}

static void sum_again(struct bytes *blob) {
    uint32_t sum = libdeflate_crc32(0, blob->bytes + SUMMED_FROM, blob->size - SUMMED_FROM);
    memcpy(blob->bytes + SUMMED_FROM - sizeof sum, &sum, sizeof sum);
}

static void free_all(struct bytes *blobs, size_t count) {
    for (size_t n = 0; n < count; n++)
        free(blobs[n].bytes);
}

/* ---- Tests ---- */

/* All streams leave and come back, in the order of their use: it is as if nothing had been. */
static void nothing_is_lost(void **unused) {
    (void)unused;
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *stays = play_open(play_cases[n].text), *moves = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS], before;
        play_take(stays, 0, play_examples());
        play_take(moves, 0, play_examples());
        before = play_state(moves);
        size_t count = export_all(moves, blobs), size;
        assert_int_equal(count, 5);
        while (learner_streams(moves->learner)) {
            const struct streams *streams = learner_streams_table(moves->learner);
            const char *key = streams_key(streams, streams_oldest(streams), &size);
            assert_int_equal(learner_forget(moves->learner, key, size, NULL), 0);
        }
        play_take(moves, 0, 0);
        for (size_t k = 0; k < count; k++)
            adopt(moves, &blobs[k]);
        /* Of anomalies the pause since a stream was heard begins with the move. */
        if (!learner_watches(moves->learner))
            play_assert_state(moves, &before);
        play_take(stays, play_examples(), play_examples());
        play_take(moves, play_examples(), play_examples());
        free(before.bytes);
        before = play_state(stays);
        if (!learner_watches(moves->learner))
            play_assert_state(moves, &before);
        if (stays->hash != moves->hash)
            fail_msg("%s: what is said is not the same", play_cases[n].name);
        free(before.bytes);
        free_all(blobs, count);
        play_close(stays);
        play_close(moves);
    }
}

/* What a learner has of a stream is replaced; one without room forgets its oldest. */
static void takes_a_place(void **unused) {
    (void)unused;
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *from = play_open(play_cases[n].text), *to = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS];
        play_take(from, 0, play_examples());
        to->random = 99;
        play_take(to, 0, play_examples());
        size_t count = export_all(from, blobs);
        uint64_t forgotten = to->forgotten, counted = learner_counters(to->learner).forgotten;
        for (size_t k = 0; k < count; k++)
            adopt(to, &blobs[k]);
        assert_int_equal(learner_streams(to->learner), 5);
        assert_int_equal(learner_counters(to->learner).forgotten - counted,
                         to->forgotten - forgotten);
        struct bytes now[STREAMS];
        assert_int_equal(export_all(to, now), count);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(now[k].size, blobs[k].size);
            if (!learner_watches(to->learner))
                assert_memory_equal(now[k].bytes, blobs[k].bytes, now[k].size);
        }
        play_take(to, play_examples(), 50);
        free_all(blobs, count);
        free_all(now, count);
        play_close(from);
        play_close(to);
    }
}

static void refuses_what_is_damaged(void **unused) {
    (void)unused;
    if (!under_test_is_cpu())
        skip();
    struct play *play = play_open(play_cases[1].text);
    struct bytes blobs[STREAMS];
    play_take(play, 0, play_examples());
    size_t count = export_all(play, blobs);
    struct bytes *blob = &blobs[2], part = *blob;
    for (size_t n = 0; n < blob->size; n += 1 + n / 40) {
        blob->bytes[n] ^= 0x10;
        assert_refused(play, blob,
                       n < 8    ? "is no state of a stream"
                       : n < 12 ? "format"
                                : "checksum");
        blob->bytes[n] ^= 0x10;
    }
    for (part.size = 0; part.size < blob->size; part.size += 1 + part.size / 20)
        assert_refused(play, &part, "stream");
    blob->bytes[blob->size++] = 0;
    assert_refused(play, blob, "checksum");
    free_all(blobs, count);
    play_close(play);
}

/* Its checksum fits, for somebody has computed it: whatever it says, it is adopted or it changes
   nothing. Also a stream that is not in memory, when there is no room. */
static void refuses_what_cannot_be(void **unused) {
    (void)unused;
    size_t refused = 0;
    if (!under_test_is_cpu())
        skip();
    for (size_t n = 0; n < PLAY_CASES; n++) {
        if (!play_can(n))
            continue;
        struct play *play = play_open(play_cases[n].text), *other = play_open(play_cases[n].text);
        struct bytes blobs[STREAMS];
        play_take(play, 0, play_examples());
        other->random = 5;
        play_take(other, 0, play_examples() / 2);
        size_t count = export_all(other, blobs);
        for (size_t k = 0; k < count; k++) {
            struct bytes *blob = &blobs[k];
            for (size_t tries = 0; tries < 40; tries++) {
                size_t at = SUMMED_FROM + play_random(play, (unsigned)(blob->size - SUMMED_FROM));
                unsigned char was = blob->bytes[at];
                blob->bytes[at] = tries % 2 ? 0xFF : (unsigned char)play_random(play, 256);
                sum_again(blob);
                struct bytes before = play_state(play);
                struct stream_state *state = open_state(play);
                struct error error;
                int status = stream_state_adopt(state, blob->bytes, blob->size, &error);
                stream_state_close(&state);
                assert_true(status >= 0);
                if (status)
                    play_assert_state(play, &before);
                refused += status == 1;
                free(before.bytes);
                blob->bytes[at] = was;
            }
        }
        play_take(play, play_examples(), 20);
        free_all(blobs, count);
        play_close(play);
        play_close(other);
    }
    assert_true(refused > 50);
}

static void refuses_another_configuration(void **unused) {
    (void)unused;
    struct play *from = play_open(play_cases[0].text), *to = play_open(play_cases[4].text);
    struct bytes blobs[STREAMS];
    play_take(from, 0, play_examples());
    play_take(to, 0, play_examples());
    size_t count = export_all(from, blobs);
    assert_refused(to, &blobs[0], "another configuration");
    free_all(blobs, count);
    play_close(from);
    play_close(to);
}

static void refuses_vocabularies(void **unused) {
    (void)unused;
    struct play *play =
        play_open("name: a\nmodel:\n  input: {kind: symbol, vocabulary: {capacity: 9}}\n" GRU
                  "  output: {loss: softmax, target: next}\n" LEARNING);
    struct stream_state *state;
    struct error error;
    assert_int_equal(stream_state_open(&state, play->config, play->learner, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "vocabulary"));
    play_close(play);
}

/* Memories of another size, or shared by other streams, begin anew; all else goes along. */
static void other_memories_begin_anew(void **unused) {
    (void)unused;
    if (!under_test_is_cpu())
        skip();
    struct play *from = play_open(play_cases[7].text), *to = play_open(play_cases[8].text);
    play_close(to);
    to = play_open("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                   "anomaly: {memory: 41}\n");
    struct play *none = play_open("name: a\npreset: forecast\nmodel: {input: {size: 2}}\n" FEW
                                  "anomaly: {enabled: false}\n");
    struct bytes blobs[STREAMS];
    play_take(from, 0, play_examples());
    play_take(to, 0, play_examples());
    play_take(none, 0, play_examples());
    size_t count = export_all(from, blobs);
    adopt(to, &blobs[0]);
    adopt(none, &blobs[0]);
    play_take(to, play_examples(), play_examples());
    play_take(none, play_examples(), play_examples());
    free_all(blobs, count);
    play_close(from);
    play_close(to);
    play_close(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(takes_a_place),
        cmocka_unit_test(refuses_what_is_damaged),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(refuses_another_configuration),
        cmocka_unit_test(refuses_vocabularies),
        cmocka_unit_test(other_memories_begin_anew),
    };
    if (play_setup())
        return 1;
    under_test_above_engines();
    int failed = under_test_run(tests);
    return play_teardown() || failed;
}
