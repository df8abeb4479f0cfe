/* The examples socket: kinds of sockets, rejections, and their announcements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "common/error.h"
#include "common/wire.h"
#include "config/config.h"
#include "example_models.h"
#include "sockets/control.h"
#include "sockets/endpoint.h"
#include "sockets/ingest.h"
#include "sockets/publish.h"

enum { PATIENCE_MS = 20000, INPUTS = 3 };
static const uint64_t second = 1000000000;

struct bench {
    void *context, *feeder;
    struct model model;
    struct ingest *ingest;
};

static int open_bench(void **state) {
    static struct bench bench;
    bench = (struct bench){.context = zmq_ctx_new()};
    example_model(&bench.model, MODEL_REAL);
    *state = &bench;
    return 0;
}

static int close_bench(void **state) {
    struct bench *bench = *state;
    ingest_close(&bench->ingest);
    if (bench->feeder)
        zmq_close(bench->feeder);
    return zmq_ctx_term(bench->context);
}

static struct config config_of(const char *endpoint, bool connect, enum examples_socket socket) {
    struct config config = {.examples_socket = socket, .examples = {.connect = connect}};
    snprintf(config.examples.endpoint, sizeof config.examples.endpoint, "%s", endpoint);
    return config;
}

static void open_feeder(struct bench *bench, int type) {
    bench->feeder = zmq_socket(bench->context, type);
    int linger = 0, patience = PATIENCE_MS, unlimited = 0;
    zmq_setsockopt(bench->feeder, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(bench->feeder, ZMQ_SNDTIMEO, &patience, sizeof patience);
    zmq_setsockopt(bench->feeder, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt(bench->feeder, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
}

/* A PULL socket on inproc and a feeder connected to it. */
static void open_pair(struct bench *bench) {
    struct config config = config_of("inproc://examples", false, EXAMPLES_PULL);
    assert_int_equal(
        ingest_open(&bench->ingest, bench->context, NULL, &config, &bench->model, NULL), 0);
    open_feeder(bench, ZMQ_PUSH);
    assert_int_equal(zmq_connect(bench->feeder, "inproc://examples"), 0);
}

static void send_frame(struct bench *bench, const void *data, size_t size, bool more) {
    assert_int_equal(zmq_send(bench->feeder, data, size, more ? ZMQ_SNDMORE : 0), size);
}

static void send_example(struct bench *bench, const char *key, float first) {
    const float x[INPUTS] = {first, 2, 3};
    send_frame(bench, key, strlen(key), true);
    send_frame(bench, x, sizeof x, false);
}

static void send_short(struct bench *bench, const char *key) {
    const float x[INPUTS - 1] = {1, 2};
    send_frame(bench, key, strlen(key), true);
    send_frame(bench, x, sizeof x, false);
}

/* Wait for the next example and take it. */
static struct example take(struct bench *bench, uint64_t now) {
    struct example example;
    struct error error;
    int taken;
    while ((taken = ingest_take(bench->ingest, now, &example, &error)) == 0) {
        zmq_pollitem_t item = {.socket = ingest_socket(bench->ingest), .events = ZMQ_POLLIN};
        assert_int_equal(zmq_poll(&item, 1, PATIENCE_MS), 1);
    }
    assert_int_equal(taken, 1);
    return example;
}

static void assert_example(const struct example *example, const char *key, float first) {
    float x;
    memcpy(&x, example->x, sizeof x);
    assert_true(x == first);
    assert_int_equal(example->steps, 1);
    assert_int_equal(example->key_size, strlen(key));
    assert_memory_equal(example->key, key, strlen(key));
}

static void assert_nothing_waits(struct bench *bench) {
    struct example example;
    assert_int_equal(ingest_take(bench->ingest, 0, &example, NULL), 0);
}

static void examples_come_in_order_and_stamped(void **state) {
    open_pair(*state);
    for (int n = 0; n < 1000; n++)
        send_example(*state, n % 2 ? "odd" : "even", (float)n);
    for (int n = 0; n < 1000; n++) {
        struct example example = take(*state, 7 + (uint64_t)n);
        assert_example(&example, n % 2 ? "odd" : "even", (float)n);
        assert_int_equal(example.received, 7 + n);
    }
    assert_nothing_waits(*state);
}

/* Messages of an XPUB socket before the subscription arrives are lost. A SUB socket answers a
   new peer when it is polled. */
static void wait_for_subscription(struct bench *bench) {
    zmq_pollitem_t items[] = {{.socket = bench->feeder, .events = ZMQ_POLLIN},
                              {.socket = ingest_socket(bench->ingest), .events = ZMQ_POLLIN}};
    assert_int_equal(zmq_poll(items, 2, PATIENCE_MS), 1);
    unsigned char subscription[2];
    assert_int_equal(zmq_recv(bench->feeder, subscription, sizeof subscription, 0), 1);
}

static void run_feeder_on(struct bench *bench, const struct config *config, int type,
                          bool handshake) {
    struct error error = {0};
    if (ingest_open(&bench->ingest, bench->context, NULL, config, &bench->model, &error))
        fail_msg("%s", error.text);
    open_feeder(bench, type);
    const char *endpoint = ingest_endpoint(bench->ingest);
    assert_int_equal(config->examples.connect ? zmq_bind(bench->feeder, endpoint)
                                              : zmq_connect(bench->feeder, endpoint),
                     0);
    if (handshake)
        wait_for_subscription(bench);
    send_example(bench, "a", 1);
    send_short(bench, "b");
    static const char json[] = "{\"stream\": \"c\", \"x\": [5, 2, 3]}";
    send_frame(bench, json, sizeof json - 1, false);
    struct example example = take(bench, 0);
    assert_example(&example, "a", 1);
    example = take(bench, 0);
    assert_example(&example, "c", 5);
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_X_SIZE), 1);
}

static void run_ipc(struct bench *bench, bool connect, enum examples_socket socket, int type) {
    char directory[] = "/tmp/runnel-ingest-XXXXXX", endpoint[64], path[48];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    struct config config = config_of(endpoint, connect, socket);
    run_feeder_on(bench, &config, type, socket == EXAMPLES_SUB);
    unlink(path);
    rmdir(directory);
}

static void pull_bound(void **state) {
    run_ipc(*state, false, EXAMPLES_PULL, ZMQ_PUSH);
}

static void pull_connected(void **state) {
    run_ipc(*state, true, EXAMPLES_PULL, ZMQ_PUSH);
}

static void sub_bound(void **state) {
    run_ipc(*state, false, EXAMPLES_SUB, ZMQ_XPUB);
}

static void sub_connected(void **state) {
    run_ipc(*state, true, EXAMPLES_SUB, ZMQ_XPUB);
}

static void a_free_port_is_named(void **state) {
    struct config config = config_of("tcp://127.0.0.1:*", false, EXAMPLES_PULL);
    run_feeder_on(*state, &config, ZMQ_PUSH, false);
}

static void an_endpoint_in_use_is_an_error_that_names_it(void **state) {
    struct bench *bench = *state;
    open_pair(bench);
    struct config config = config_of("inproc://examples", false, EXAMPLES_PULL);
    struct ingest *second_ingest;
    struct error error;
    assert_int_equal(
        ingest_open(&second_ingest, bench->context, NULL, &config, &bench->model, &error), -1);
    assert_null(second_ingest);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "examples.bind"));
    assert_non_null(strstr(error.text, "inproc://examples"));
}

static void a_message_of_many_frames_leaves_nothing_behind(void **state) {
    struct bench *bench = *state;
    open_pair(bench);
    for (size_t frames = 5; frames < 40; frames++) {
        for (size_t n = 0; n < frames; n++)
            send_frame(bench, "a\1cd", 4, n + 1 < frames);
        send_example(bench, "a", (float)frames);
        struct example example = take(bench, 0);
        assert_example(&example, "a", (float)frames);
        assert_null(example.y);
    }
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_FRAMES), 35);
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_NOT), 35);
}

/* Control requests must be answered during a flood. */
static void a_flood_of_bad_messages_does_not_hold_the_caller(void **state) {
    struct bench *bench = *state;
    open_pair(bench);
    for (int n = 0; n < 1000; n++)
        send_short(bench, "a");
    send_example(bench, "a", 1);
    assert_nothing_waits(bench);
    uint64_t first = ingest_rejected(bench->ingest, REJECT_X_SIZE);
    assert_true(first > 0 && first < 1000);
    struct example example = take(bench, 0);
    assert_example(&example, "a", 1);
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_X_SIZE), 1000);
}

static int option_of(void *socket, int name) {
    int value = -1;
    size_t size = sizeof value;
    assert_int_equal(zmq_getsockopt(socket, name, &value, &size), 0);
    return value;
}

/* A paused daemon does not read its examples socket, including answers to its own heartbeats.
   With heartbeats it would disconnect living feeders and lose their examples. libzmq also aborts
   at a heartbeat to a lost peer with unread messages. The system's probes detect lost peers. */
static void no_socket_has_heartbeats(void **state) {
    struct bench *bench = *state;
    const struct control_command none = {.name = NULL};
    const struct socket_config requests = {.endpoint = "inproc://control"};
    struct control *control;
    open_pair(bench);
    assert_int_equal(control_open(&control, bench->context, NULL, &requests, &none, NULL, NULL), 0);
    void *sockets[] = {ingest_socket(bench->ingest), control_socket(control)};
    int intervals[2], probes[2];
    for (size_t n = 0; n < 2; n++) {
        intervals[n] = option_of(sockets[n], ZMQ_HEARTBEAT_IVL);
        probes[n] = option_of(sockets[n], ZMQ_TCP_KEEPALIVE);
    }
    control_close(&control); /* before any assertion can fail: the context waits for its sockets */
    for (size_t n = 0; n < 2; n++) {
        assert_int_equal(intervals[n], 0);
        assert_int_equal(probes[n], 1);
    }
}

/* A frame larger than any example does not reach a queue. */
static void a_huge_frame_is_not_received(void **state) {
    struct bench *bench = *state;
    struct config config = config_of("tcp://127.0.0.1:*", false, EXAMPLES_PULL);
    assert_int_equal(
        ingest_open(&bench->ingest, bench->context, NULL, &config, &bench->model, NULL), 0);
    struct decoder *decoder;
    assert_int_equal(decoder_open(&decoder, &bench->model, true, NULL), 0);
    size_t size = decoder_frame_max(decoder) + 1;
    decoder_close(&decoder);
    int64_t limit = 0;
    size_t limit_size = sizeof limit;
    zmq_getsockopt(ingest_socket(bench->ingest), ZMQ_MAXMSGSIZE, &limit, &limit_size);
    assert_int_equal(limit, size - 1);
    char *huge = calloc(1, size);
    open_feeder(bench, ZMQ_PUSH);
    assert_int_equal(zmq_connect(bench->feeder, ingest_endpoint(bench->ingest)), 0);
    send_frame(bench, huge, size, false);
    free(huge);
    zmq_close(bench->feeder);
    open_feeder(bench, ZMQ_PUSH);
    assert_int_equal(zmq_connect(bench->feeder, ingest_endpoint(bench->ingest)), 0);
    send_example(bench, "a", 1);
    struct example example = take(bench, 0);
    assert_example(&example, "a", 1);
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_NOT), 0);
}

/* ---- Announcements ---- */

/* The number in "rejected N examples", 1 for "an example". */
static uint64_t announced(const char *text) {
    unsigned long long count;
    return sscanf(text, "rejected %llu examples", &count) == 1 ? count : 1;
}

static void take_all(struct bench *bench) {
    send_example(bench, "last", 0);
    struct example example = take(bench, 0);
    assert_example(&example, "last", 0);
}

static void nothing_rejected_nothing_announced(void **state) {
    char text[INGEST_ANNOUNCEMENT_SIZE];
    struct bench *bench = *state;
    open_pair(bench);
    take_all(bench);
    assert_int_equal(ingest_announcement_due(bench->ingest), UINT64_MAX);
    assert_false(ingest_announce(bench->ingest, UINT64_MAX, text, sizeof text));
}

static void one_announcement_a_second_and_reason(void **state) {
    char text[INGEST_ANNOUNCEMENT_SIZE];
    struct bench *bench = *state;
    open_pair(bench);
    uint64_t now = 50 * second, of_size = 0, of_frames = 0;
    size_t announcements = 0;
    for (int tick = 0; tick < 100; tick++, now += second / 10) { /* ten seconds */
        send_short(bench, "a");
        send_frame(bench, "not JSON", 8, false);
        take_all(bench);
        assert_true(ingest_announcement_due(bench->ingest) <= now + second);
        for (; ingest_announce(bench->ingest, now, text, sizeof text); announcements++)
            *(strstr(text, "x_size") ? &of_size : &of_frames) += announced(text);
    }
    assert_int_equal(announcements, 2 * 10);
    while (ingest_announce(bench->ingest, UINT64_MAX, text, sizeof text))
        *(strstr(text, "x_size") ? &of_size : &of_frames) += announced(text);
    assert_int_equal(of_size, 100);
    assert_int_equal(of_frames, 100);
    assert_int_equal(ingest_rejected(bench->ingest, REJECT_NOT), 200);
}

static void announcement_names_stream_and_fault(void **state) {
    char text[INGEST_ANNOUNCEMENT_SIZE];
    struct bench *bench = *state;
    open_pair(bench);
    send_short(bench, "sensor-7");
    take_all(bench);
    assert_true(ingest_announce(bench->ingest, 0, text, sizeof text));
    assert_string_equal(text, "rejected an example of stream 'sensor-7' (x_size): x has 8 bytes (2 "
                              "numbers), expected a multiple of 12 (3 float32 per step)");
    send_short(bench, "sensor-7");
    send_short(bench, "a\n\x1B[2Jb\xC2\x85");
    take_all(bench);
    assert_false(ingest_announce(bench->ingest, second - 1, text, sizeof text));
    assert_int_equal(ingest_announcement_due(bench->ingest), second);
    assert_true(ingest_announce(bench->ingest, second, text, sizeof text));
    assert_string_equal(text,
                        "rejected 2 examples (x_size), the last of stream 'a?\?[2Jb?\?': x has "
                        "8 bytes (2 numbers), expected a multiple of 12 (3 float32 per step)");
}

static void schemas_are_announced_as_such(void **state) {
    static const char schema[] = "{\"schema\": {\"columns\": 2}}";
    char text[INGEST_ANNOUNCEMENT_SIZE];
    struct bench *bench = *state;
    open_pair(bench);
    for (int n = 0; n < 2; n++)
        send_frame(bench, schema, sizeof schema - 1, false);
    take_all(bench);
    assert_true(ingest_announce(bench->ingest, 0, text, sizeof text));
    assert_string_equal(text,
                        "rejected 2 schemas (schema), the last: the schema has 2 columns, expected "
                        "3");
}

static void a_long_key_is_shortened_between_characters(void **state) {
    char text[INGEST_ANNOUNCEMENT_SIZE], key[WIRE_KEY_MAX + 1] = "";
    struct bench *bench = *state;
    open_pair(bench);
    for (size_t shift = 0; shift < 3; shift++) {
        memset(key, 'a', shift);
        for (size_t n = shift; n + 3 <= 240; n += 3)
            memcpy(key + n, "\xE2\x82\xAC", 4);
        send_short(bench, key);
        take_all(bench);
        assert_true(ingest_announce(bench->ingest, UINT64_MAX, text, sizeof text));
        assert_true(wire_is_utf8(text, strlen(text)));
        assert_non_null(strstr(text, "...'"));
        assert_non_null(strstr(text, "per step)"));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(examples_come_in_order_and_stamped),
        TEST(pull_bound),
        TEST(pull_connected),
        TEST(sub_bound),
        TEST(sub_connected),
        TEST(a_free_port_is_named),
        TEST(an_endpoint_in_use_is_an_error_that_names_it),
        TEST(a_message_of_many_frames_leaves_nothing_behind),
        TEST(a_flood_of_bad_messages_does_not_hold_the_caller),
        TEST(no_socket_has_heartbeats),
        TEST(a_huge_frame_is_not_received),
        TEST(nothing_rejected_nothing_announced),
        TEST(one_announcement_a_second_and_reason),
        TEST(announcement_names_stream_and_fault),
        TEST(schemas_are_announced_as_such),
        TEST(a_long_key_is_shortened_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
