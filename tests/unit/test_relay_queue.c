/* The queue of runnel-relay counts messages that are lost before they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/relay/relay_queue.h"

enum { ROOM = 10, SECONDS = 60 };

/* A copy of this fails. */
static const char NO_MEMORY[] = "no memory";

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text) {
    return strcmp(text, NO_MEMORY) == 0 ? NULL : __real_strdup(text);
}

struct sink {
    size_t count;
    char texts[ROOM][8];
};

static int connect_sink(struct sink *sink, struct error *error) {
    (void)sink, (void)error;
    return 0;
}

static int write_sink(struct sink *sink, struct sink_message *messages, size_t count,
                      struct error *error) {
    (void)error;
    for (size_t n = 0; n < count; n++)
        snprintf(sink->texts[sink->count++], sizeof *sink->texts, "%s", messages[n].text);
    return 0;
}

static void disconnect_sink(struct sink *sink) {
    (void)sink;
}

static void counts_what_memory_lacks_for(void **unused) {
    static const struct sink_type type = {
        .connect = connect_sink, .write = write_sink, .disconnect = disconnect_sink};
    static const struct {
        const char *topic, *key, *id;
    } messages[] = {
        {"topic", "key", "id"},     {NO_MEMORY, "key", "id"}, {"topic", NO_MEMORY, "id"},
        {"topic", NULL, NO_MEMORY}, {"topic", NULL, NULL},
    };
    struct sink sink = {0};
    struct queue *queue;
    struct queue_counts counts;
    struct error error;
    char text[8];
    assert_int_equal(queue_open(&queue, &type, &sink, "the broker", ROOM, &error), 0);
    for (size_t n = 0; n < sizeof messages / sizeof *messages; n++) {
        snprintf(text, sizeof text, "%zu", n);
        queue_add(queue, messages[n].topic, messages[n].key, messages[n].id, strdup(text));
    }
    assert_int_equal(queue_close(&queue, SECONDS, &counts, &error), 0);
    assert_int_equal(counts.dropped, 3);
    assert_int_equal(counts.written, 2);
    assert_int_equal(counts.left, 0);
    assert_int_equal(sink.count, 2);
    assert_string_equal(sink.texts[0], "0");
    assert_string_equal(sink.texts[1], "4");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_what_memory_lacks_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
