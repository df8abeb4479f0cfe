/* The table of streams against a list with linear search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "common/streams.h"
#include "common/wire.h"
#include "workload.h"

enum { CAPACITY = 37, KEYS = 90, ROUNDS = 20000 };

/* Keys in order of use, the least recently used first. */
struct list {
    size_t count;
    struct {
        unsigned key;
        uint32_t slot;
    } entries[CAPACITY];
};

static size_t place_of(const struct list *list, unsigned key) {
    size_t n = 0;
    while (n < list->count && list->entries[n].key != key)
        n++;
    return n;
}

static void drop(struct list *list, size_t place) {
    list->count--;
    memmove(list->entries + place, list->entries + place + 1,
            (list->count - place) * sizeof *list->entries);
}

/* Keys of few sizes, with NUL inside; key 0 is empty, and key 1 is the longest. */
static size_t key_text(unsigned key, char text[WIRE_KEY_MAX]) {
    memset(text, 0, WIRE_KEY_MAX);
    memcpy(text, &key, sizeof key);
    return key == 0 ? 0 : key == 1 ? WIRE_KEY_MAX : sizeof key + key % 3;
}

static void assert_same(const struct streams *streams, const struct list *list) {
    uint32_t slot = streams_oldest(streams);
    for (size_t n = 0; n < list->count; n++, slot = streams_newer(streams, slot)) {
        char text[WIRE_KEY_MAX];
        size_t size, expected = key_text(list->entries[n].key, text);
        assert_int_equal(slot, list->entries[n].slot);
        const char *key = streams_key(streams, slot, &size);
        assert_int_equal(size, expected);
        assert_memory_equal(key, text, size);
    }
    assert_int_equal(slot, STREAMS_NONE);
    assert_int_equal(streams_count(streams), list->count);
}

static void use(struct streams *streams, struct list *list, unsigned key) {
    char text[WIRE_KEY_MAX];
    size_t size = key_text(key, text), place = place_of(list, key);
    uint32_t slot = streams_find(streams, text, size);
    if (place < list->count) {
        assert_int_equal(slot, list->entries[place].slot);
        streams_touch(streams, slot);
        drop(list, place);
    } else {
        assert_int_equal(slot, STREAMS_NONE);
        if (list->count == CAPACITY) {
            assert_int_equal(streams_oldest(streams), list->entries[0].slot);
            streams_remove(streams, list->entries[0].slot);
            drop(list, 0);
        }
        slot = streams_add(streams, text, size);
        assert_in_range(slot, 0, CAPACITY - 1);
        for (size_t n = 0; n < list->count; n++)
            assert_int_not_equal(list->entries[n].slot, slot);
    }
    list->entries[list->count].key = key;
    list->entries[list->count++].slot = slot;
}

static void keeps_keys_and_order_of_use(void **unused) {
    struct streams *streams;
    struct list list = {0};
    uint64_t state = 3;
    assert_int_equal(streams_open(&streams, CAPACITY, NULL), 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        unsigned key = (unsigned)(random_bits(&state) % KEYS);
        size_t place = place_of(&list, key);
        if (random_bits(&state) % 4 == 0 && place < list.count) {
            streams_remove(streams, list.entries[place].slot);
            drop(&list, place);
        } else {
            use(streams, &list, key);
        }
        assert_same(streams, &list);
        if (round == ROUNDS / 2) {
            streams_clear(streams);
            list.count = 0;
            assert_same(streams, &list);
        }
    }
    assert_int_equal(streams_capacity(streams), CAPACITY);
    streams_close(&streams);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_keys_and_order_of_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
