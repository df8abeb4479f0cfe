/* The library from a program's view (runnel.h): news of a subscriber about a simulated daemon,
   the readability of its descriptor, and the ends of requests. */
#include "build-config.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/wire.h"
#include "runnel.h"

enum { ENDPOINT_SIZE = 64 };

#define PATIENCE 20.0 /* seconds */

struct daemon {
    void *context, *socket;
    char endpoint[ENDPOINT_SIZE];
    struct runnel_peer peer;
};

static void open_daemon(struct daemon *daemon, int type) {
    static int number;
    const int zero = 0;
    snprintf(daemon->endpoint, sizeof daemon->endpoint, "ipc://@runnel-client-%d-%d", (int)getpid(),
             number++);
    daemon->peer = (struct runnel_peer){.endpoint = daemon->endpoint};
    daemon->context = zmq_ctx_new();
    daemon->socket = zmq_socket(daemon->context, type);
    zmq_setsockopt(daemon->socket, ZMQ_LINGER, &zero, sizeof zero);
    assert_int_equal(zmq_bind(daemon->socket, daemon->endpoint), 0);
}

static void close_daemon(struct daemon *daemon) {
    zmq_close(daemon->socket);
    zmq_ctx_term(daemon->context);
}

static void await_subscription(struct daemon *daemon) {
    char frame[ENDPOINT_SIZE];
    assert_true(zmq_recv(daemon->socket, frame, sizeof frame, 0) > 0);
}

static void publish(struct daemon *daemon, const char *topic, const char *body) {
    zmq_send(daemon->socket, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(daemon->socket, body, strlen(body), 0);
}

/* Wait for the next news of that kind, skipping others. */
static void await(struct runnel_subscriber *subscriber, enum runnel_kind kind,
                  struct runnel_news *news) {
    for (;;) {
        while (runnel_subscriber_next(subscriber, news) != RUNNEL_NOTHING)
            if (news->kind == kind)
                return;
        if (!runnel_subscriber_wait(subscriber, PATIENCE))
            fail_msg("nothing of kind %d", kind);
    }
}

static void open_subscriber(struct runnel_subscriber **subscriber, struct daemon *daemon) {
    static const char *const topics[] = {"loss", NULL};
    struct runnel_news news;
    open_daemon(daemon, ZMQ_XPUB);
    assert_int_equal(runnel_subscriber_open(subscriber, &daemon->peer, topics, NULL), 0);
    await_subscription(daemon);
    await(*subscriber, RUNNEL_CONNECTED, &news);
}

static void test_messages(void **state) {
    struct daemon daemon;
    struct runnel_subscriber *subscriber;
    struct runnel_news news;
    open_subscriber(&subscriber, &daemon);
    publish(&daemon, "loss", "{\"run\": \"a\", \"sequence\": 1}");
    await(subscriber, RUNNEL_MESSAGE, &news);
    assert_string_equal(news.topic, "loss");
    assert_string_equal(news.text, "{\"run\": \"a\", \"sequence\": 1}");
    assert_int_equal(news.size, strlen(news.text));
    assert_int_equal(json_integer_value(json_object_get(news.json, "sequence")), 1);
    assert_false(news.restarted);
    assert_int_equal(news.missed, 0);
    assert_true(isnan(news.unheard[0]) && isnan(news.unheard[1]));
    publish(&daemon, "loss", "{\"run\": \"a\", \"sequence\": 5}");
    await(subscriber, RUNNEL_MESSAGE, &news);
    assert_int_equal(news.missed, 3);
    publish(&daemon, "loss", "{\"run\": \"a\", \"sequence\": 5}"); /* repeated: not a loss */
    await(subscriber, RUNNEL_MESSAGE, &news);
    assert_int_equal(news.missed, 0);
    publish(&daemon, "loss", "{\"run\": \"b\", \"sequence\": 9}");
    await(subscriber, RUNNEL_MESSAGE, &news);
    assert_true(news.restarted);
    assert_string_equal(news.run_before, "a");
    assert_string_equal(news.run, "b");
    assert_int_equal(news.missed, 0); /* the number lost in that run is unknown */
    assert_int_equal(runnel_subscriber_check(subscriber, PATIENCE, NULL), 0);
    runnel_subscriber_close(&subscriber);
    assert_null(subscriber);
    close_daemon(&daemon);
}

static void test_what_is_no_message(void **state) {
    static const struct {
        const char *body, *problem;
    } cases[] = {{"", "not JSON"}, {"[1]", "not an object"}, {"{\"a\": NaN}", "not JSON"}};
    struct daemon daemon;
    struct runnel_subscriber *subscriber;
    struct runnel_news news;
    open_subscriber(&subscriber, &daemon);
    publish(&daemon, "lossless", "{}"); /* an unknown topic */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        publish(&daemon, "loss", cases[i].body);
        await(subscriber, RUNNEL_MESSAGE, &news);
        assert_non_null(strstr(news.problem, cases[i].problem));
        assert_true(!news.text && !news.json);
    }
    zmq_send(daemon.socket, "loss", 4, 0);
    await(subscriber, RUNNEL_MESSAGE, &news);
    assert_non_null(strstr(news.problem, "two frames"));
    runnel_subscriber_close(&subscriber);
    close_daemon(&daemon);
}

static bool is_readable(int descriptor, double seconds) {
    struct pollfd item = {.fd = descriptor, .events = POLLIN};
    return poll(&item, 1, (int)(seconds * 1e3)) > 0;
}

/* A subscriber that receives one message at a time, and polls between them, gets all of them. */
static void test_descriptor(void **state) {
    enum { MESSAGES = 500 };
    struct daemon daemon;
    struct runnel_subscriber *subscriber;
    struct runnel_news news;
    int messages = 0;
    open_subscriber(&subscriber, &daemon);
    while (runnel_subscriber_next(subscriber, &news) != RUNNEL_NOTHING)
        ;
    int descriptor = runnel_subscriber_descriptor(subscriber);
    for (int i = 0; i < MESSAGES; i++)
        publish(&daemon, "loss", "{}");
    while (messages < MESSAGES) {
        assert_true(is_readable(descriptor, PATIENCE));
        messages += runnel_subscriber_next(subscriber, &news) == RUNNEL_MESSAGE;
    }
    /* After NOTHING the descriptor is not readable, but libzmq may wake it once more for itself. */
    int turns = 0;
    while (is_readable(descriptor, 0.05) && turns++ < 10)
        assert_int_equal(runnel_subscriber_next(subscriber, &news), RUNNEL_NOTHING);
    assert_true(turns < 10);
    close_daemon(&daemon);
    assert_true(is_readable(descriptor, PATIENCE));
    await(subscriber, RUNNEL_DISCONNECTED, &news);
    runnel_subscriber_close(&subscriber);
}

static void test_gap(void **state) {
    struct runnel_gap gap = {NAN, NAN};
    double unheard[2];
    assert_false(runnel_gap_loss(&gap, 100, unheard)); /* nothing is known yet */
    runnel_gap_status(&gap, 100, 150);
    assert_false(runnel_gap_loss(&gap, 200, unheard));
    assert_true(runnel_gap_loss(&gap, 500, unheard));
    assert_true(unheard[0] == 200 && unheard[1] == 500);
    assert_false(runnel_gap_loss(&gap, 400, unheard)); /* learned again after a reset */
    runnel_gap_status(&gap, 10, 430);                  /* a smaller interval counts from here */
    assert_false(runnel_gap_loss(&gap, 440, unheard));
    assert_true(runnel_gap_loss(&gap, 460, unheard));
}

static void test_why_nothing_comes(void **state) {
    struct daemon daemon;
    struct runnel_subscriber *subscriber;
    struct runnel_error error;
    struct runnel_news news;
    struct runnel_peer nobody = {.endpoint = "ipc:///nowhere/at/all"};
    assert_int_equal(runnel_subscriber_open(&subscriber, &nobody, NULL, &error), 0);
    assert_int_equal(runnel_subscriber_check(subscriber, PATIENCE, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "the socket does not exist"));
    runnel_subscriber_close(&subscriber);
    open_subscriber(&subscriber, &daemon);
    assert_int_equal(runnel_subscriber_check(subscriber, 0, &error), -1);
    assert_non_null(strstr(error.text, "no data from"));
    runnel_subscriber_close(&subscriber);
    close_daemon(&daemon);
    open_daemon(&daemon, ZMQ_PULL);
    assert_int_equal(runnel_subscriber_open(&subscriber, &daemon.peer, NULL, &error), 0);
    await(subscriber, RUNNEL_REFUSED, &news);
    assert_non_null(strstr(news.why, "is a PULL socket, not runneld's statistics socket"));
    assert_int_equal(runnel_subscriber_check(subscriber, PATIENCE, &error), -1);
    assert_non_null(strstr(error.text, "is a PULL socket"));
    runnel_subscriber_close(&subscriber);
    runnel_subscriber_close(&subscriber); /* closed: nothing to do */
    close_daemon(&daemon);
}

/* A machine that is temporarily short of memory: threads with large stacks cannot start. */
static void test_nobody_to_ask(void **state) {
    struct daemon daemon;
    struct runnel_subscriber *subscriber;
    struct runnel_news news;
    pthread_attr_t usual, impossible;
    pthread_getattr_default_np(&usual);
    pthread_attr_init(&impossible);
    assert_int_equal(pthread_attr_setstacksize(&impossible, (size_t)1 << 50), 0);
    open_daemon(&daemon, ZMQ_PULL);
    assert_int_equal(runnel_subscriber_open(&subscriber, &daemon.peer, NULL, NULL), 0);
    assert_int_equal(pthread_setattr_default_np(&impossible), 0);
    await(subscriber, RUNNEL_HINDERED, &news);
    assert_non_null(strstr(news.why, "the inquiry for the reason failed"));
    pthread_setattr_default_np(&usual);
    double end = clock_seconds() + PATIENCE;
    do
        runnel_subscriber_wait(subscriber, 0.1); /* seconds */
    while (runnel_subscriber_next(subscriber, &news) != RUNNEL_REFUSED && clock_seconds() < end);
    assert_int_equal(news.kind, RUNNEL_REFUSED);
    assert_non_null(strstr(news.why, "is a PULL socket"));
    runnel_subscriber_close(&subscriber);
    close_daemon(&daemon);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&impossible);
}

static void test_usage(void **state) {
    static const struct runnel_peer wrong[] = {
        {.endpoint = "nowhere"},
        {.endpoint = RUNNEL_CONTROL, .key = "/nowhere"},
        {.endpoint = RUNNEL_CONTROL, .server_key = "too short"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct runnel_subscriber *subscriber;
        struct runnel_request *request;
        struct runnel_error error;
        assert_int_equal(runnel_subscriber_open(&subscriber, &wrong[i], NULL, &error), -1);
        assert_null(subscriber);
        assert_int_equal(error.status, EX_USAGE);
        assert_int_equal(runnel_request_open(&request, &wrong[i], "{}", 1, &error), -1);
        assert_null(request);
        assert_int_equal(error.status, EX_USAGE);
        assert_int_equal(runnel_request_open(&request, &wrong[i], "{}", 1, NULL), -1);
    }
    assert_string_equal(RUNNEL_EXAMPLES, WIRE_EXAMPLES);
    assert_string_equal(RUNNEL_STATISTICS, WIRE_STATISTICS);
    assert_string_equal(RUNNEL_CONTROL, WIRE_CONTROL);
}

/* ---- Requests ---- */

/* Receive the request on the daemon's side, and send a reply of `frames` frames. */
static void answer(struct daemon *daemon, const char *expected, const char *frames[], int count) {
    char request[ENDPOINT_SIZE] = "";
    assert_true(zmq_recv(daemon->socket, request, sizeof request - 1, 0) > 0);
    assert_string_equal(request, expected);
    for (int i = 0; i < count; i++)
        zmq_send(daemon->socket, frames[i], strlen(frames[i]), i + 1 < count ? ZMQ_SNDMORE : 0);
}

static int step_until_sent(struct runnel_request *request, struct runnel_reply *reply,
                           struct runnel_error *error) {
    int status = 0;
    while (status == 0 && !runnel_request_sent(request)) {
        is_readable(runnel_request_descriptor(request), runnel_request_left(request));
        status = runnel_request_next(request, reply, error);
    }
    return status;
}

static void test_requests(void **state) {
    static const struct {
        const char *frames[3];
        int count, status; /* exit status, 0 = success */
        const char *error;
    } cases[] = {
        {{"{\"ok\": true, \"a\": 1}"}, 1, 0, ""},
        {{"{\"ok\": true}", "bytes"}, 2, 0, ""},
        {{"{\"ok\": true}", "bytes", "surplus"}, 3, 0, ""},
        {{"{\"ok\": false, \"error\": \"no\"}"}, 1, EX_SOFTWARE, "no"},
        {{"{\"ok\": false}"}, 1, EX_SOFTWARE, "without a reason"},
        {{"{}"}, 1, EX_UNAVAILABLE, "not runneld's control socket"},
        {{"garbage"}, 1, EX_UNAVAILABLE, "not runneld's control socket"},
        {{""}, 1, EX_UNAVAILABLE, "not runneld's control socket"},
    };
    struct daemon daemon;
    struct runnel_request *request;
    struct runnel_reply reply;
    struct runnel_error error;
    open_daemon(&daemon, ZMQ_REP);
    assert_int_equal(runnel_request_open(&request, &daemon.peer, "{\"n\":1}", PATIENCE, &error), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i > 0)
            assert_int_equal(runnel_request_again(request, "{\"n\":1}", PATIENCE, &error), 0);
        if (step_until_sent(request, &reply, &error))
            fail_msg("case %zu: %s", i, error.text);
        const char *frames[3];
        memcpy(frames, cases[i].frames, sizeof frames);
        answer(&daemon, "{\"n\":1}", frames, cases[i].count);
        int status = runnel_request_wait(request, &reply, &error);
        assert_int_equal(status, cases[i].status ? -1 : 0);
        if (status < 0) {
            assert_int_equal(error.status, cases[i].status);
            assert_non_null(strstr(error.text, cases[i].error));
            continue;
        }
        assert_string_equal(reply.text, cases[i].frames[0]);
        assert_true(json_is_true(json_object_get(reply.json, "ok")));
        assert_int_equal(reply.bytes_size, cases[i].count > 1 ? 5 : 0);
        assert_true(cases[i].count > 1 ? memcmp(reply.bytes, "bytes", 5) == 0 : !reply.bytes);
    }
    runnel_request_close(&request);
    close_daemon(&daemon);
}

static void test_requests_that_end(void **state) {
    struct daemon daemon;
    struct runnel_request *request;
    struct runnel_reply reply;
    struct runnel_error error;
    struct runnel_peer nobody = {.endpoint = "ipc:///nowhere/at/all"};
    assert_int_equal(runnel_request_open(&request, &nobody, "{}", 0.1, &error), 0);
    assert_int_equal(runnel_request_wait(request, &reply, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "the socket does not exist"));
    assert_false(runnel_request_sent(request));
    assert_int_equal(runnel_request_next(request, &reply, &error), 0); /* already complete */
    runnel_request_close(&request);
    open_daemon(&daemon, ZMQ_REP); /* accepts the request and does not answer */
    assert_int_equal(runnel_request_open(&request, &daemon.peer, "{}", PATIENCE, &error), 0);
    assert_int_equal(step_until_sent(request, &reply, &error), 0);
    assert_int_equal(runnel_request_left(request) > 0, 1);
    runnel_request_close(&request);
    close_daemon(&daemon);
    open_daemon(&daemon, ZMQ_XPUB); /* ends early: this peer will never answer */
    assert_int_equal(runnel_request_open(&request, &daemon.peer, "{}", 1000 * PATIENCE, &error), 0);
    assert_int_equal(runnel_request_wait(request, &reply, &error), -1);
    assert_non_null(strstr(error.text, "is an XPUB socket, not runneld's control socket: use the "
                                       "control socket"));
    runnel_request_close(&request);
    close_daemon(&daemon);
}

/* The daemon's answer does not repeat the key, but contains the numbers of the example. */
static void test_a_key_that_is_rejected(void **state) {
    enum { KEY_SIZE = WIRE_KEY_MAX + 1, REASON_KEY = 3 };
    static const char key[KEY_SIZE];
    const struct runnel_sender_options options = {.kind = RUNNEL_ROUTER};
    const struct runnel_example example = {
        .key = key, .key_size = KEY_SIZE, .x = key, .x_size = 4, .headed = true, .sequence = 7};
    struct wire_acknowledgement answer = {
        .status = WIRE_REJECTED, .reason = REASON_KEY, .sequence = 7};
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE];
    char identity[ENDPOINT_SIZE];
    struct daemon daemon;
    struct runnel_sender *sender;
    struct runnel_error error;
    open_daemon(&daemon, ZMQ_ROUTER);
    assert_int_equal(runnel_sender_open(&sender, &daemon.peer, &options, &error), 0);
    assert_int_equal(runnel_sender_wait(sender, PATIENCE, &error), 0);
    assert_int_equal(runnel_send(sender, &example, &error), 0);
    int size = zmq_recv(daemon.socket, identity, sizeof identity, 0);
    wire_acknowledgement_pack(&answer, bytes);
    zmq_send(daemon.socket, identity, (size_t)size, ZMQ_SNDMORE);
    zmq_send(daemon.socket, "", 0, ZMQ_SNDMORE);
    zmq_send(daemon.socket, bytes, sizeof bytes, 0);
    assert_int_equal(runnel_sender_flush(sender, PATIENCE, &error), 0);
    assert_int_equal(runnel_sender_counts(sender)->rejected, 1);
    assert_string_equal(runnel_sender_counts(sender)->reason, "key");
    runnel_sender_close(&sender, 0, &error);
    close_daemon(&daemon);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_what_is_no_message),
        cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_why_nothing_comes),
        cmocka_unit_test(test_nobody_to_ask),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_requests_that_end),
        cmocka_unit_test(test_a_key_that_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
