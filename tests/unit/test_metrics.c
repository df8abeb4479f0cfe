#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <zmq.h>

#include "common/error.h"
#include "common/json_text.h"
#include "config/config.h"
#include "daemon/metrics.h"
#include "learner/learner.h"
#include "sockets/endpoint.h"
#include "sockets/publish.h"

#define SECOND 1000000000ull

static const struct learner_counters none = {0};

/* An example with one scored step. */
static struct learned example(uint64_t number, double loss) {
    return (struct learned){
        .examples = number, .steps = number, .played = number, .scored = 1, .loss = loss};
}

static void before_any_example_nothing_is_there(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, SECOND);
    metrics_recent(&metrics, SECOND, &report);
    assert_true(isnan(report.loss) && isnan(report.mean) && isnan(report.smoothed));
    assert_true(isnan(report.minimum) && isnan(report.maximum) && isnan(report.latency_us_p99));
    assert_true(isnan(report.gradient_norm) && isnan(report.examples_per_second));
    assert_int_equal(metrics.examples, 0);
}

static void an_interval_reports_its_own_losses(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    for (uint64_t n = 1; n <= 3; n++) {
        struct learned learned = example(n, (double)n);
        metrics_add(&metrics, &learned, 0);
    }
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.loss == 3 && report.mean == 2);
    assert_true(report.minimum == 1 && report.maximum == 3);
    assert_true(fabs(report.metric_bits - 2 / log(2)) < 1e-12);
    assert_true(report.examples_per_second == 3);
    double smoothed = (1 * 0.99 * 0.99 + 2 * 0.99 + 3) / (0.99 * 0.99 + 0.99 + 1);
    assert_true(fabs(report.smoothed - smoothed) < 1e-12);

    struct learned learned = example(4, 10);
    metrics_add(&metrics, &learned, SECOND);
    metrics_recent(&metrics, 2 * SECOND, &report);
    assert_true(report.mean == 4 && report.minimum == 1 && report.maximum == 10);
    metrics_close_interval(&metrics, 2 * SECOND, &report);
    assert_true(report.mean == 10 && report.minimum == 10 && report.maximum == 10);
    assert_true(report.examples_per_second == 1);
}

static void an_unscored_example_keeps_the_newest_loss(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    struct learned scored = example(1, 0.5);
    struct learned unscored = {.examples = 2, .steps = 2, .loss = NAN};
    metrics_add(&metrics, &scored, 0);
    metrics_close_interval(&metrics, SECOND, NULL);
    metrics_add(&metrics, &unscored, 0);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.loss == 0.5);
    assert_true(isnan(report.mean));
    assert_int_equal(metrics.examples, 2);
}

static void a_loss_that_is_not_finite_spoils_no_mean(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    struct learned good = example(1, 1), bad = example(2, INFINITY);
    bad.skipped = 1;
    bad.squared_error = INFINITY;
    bad.observed = 1;
    metrics_add(&metrics, &good, 0);
    metrics_add(&metrics, &bad, 0);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.mean == 1 && report.smoothed == 1 && report.maximum == 1);
    assert_true(isfinite(report.metric_rmse));
    assert_int_equal(report.skipped, 1);
}

static void rmse_and_accuracy_are_over_what_was_observed(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    struct learned learned = example(1, 1);
    learned.squared_error = 18;
    learned.observed = 2;
    learned.correct = 1;
    metrics_add(&metrics, &learned, 0);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.metric_rmse == 3 && report.metric_accuracy == 0.5);
}

static void counters_go_on_from_where_learning_stands(void **state) {
    const struct learner_counters counters = {
        .examples = 100, .steps = 200, .updates = 50, .skipped = 3};
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &counters, 7, 0);
    struct learned learned = example(101, 1);
    learned.updates = 1;
    learned.gradient_norm = 2;
    learned.update_ratio = 0.25;
    learned.streams = 8;
    metrics_add(&metrics, &learned, 0);
    learned = example(102, 1);
    metrics_add(&metrics, &learned, 0);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_int_equal(metrics.examples, 102);
    assert_int_equal(report.updates, 51);
    assert_int_equal(report.skipped, 3);
    assert_true(report.gradient_norm == 2 && report.update_ratio == 0.25);
    assert_true(report.examples_per_second == 2);
}

static void latency_quantiles_are_right_to_a_sixteenth(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    for (uint64_t n = 1; n <= 1000; n++) { /* 1000 latencies, 10 us to 10 ms */
        struct learned learned = example(n, 1);
        learned.received = SECOND;
        metrics_add(&metrics, &learned, SECOND + n * 10000);
    }
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(fabs(report.latency_us_p50 / 5000 - 1) <= 1.0 / METRICS_PARTS);
    assert_true(fabs(report.latency_us_p99 / 9900 - 1) <= 1.0 / METRICS_PARTS);
    assert_true(report.latency_us_max == 10000);

    struct learned extremes[] = {example(1, 1), example(2, 1)};
    metrics_add(&metrics, &extremes[0], 0);
    metrics_add(&metrics, &extremes[1], UINT64_MAX);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.latency_us_p50 == 0.128 && report.latency_us_max > 1e15);
}

static void a_rate_spans_a_tenth_of_a_second_at_least(void **state) {
    struct metrics metrics;
    struct loss_fields report;
    metrics_begin(&metrics, &none, 0, 0);
    struct learned learned = example(1000, 1);
    metrics_add(&metrics, &learned, 0);
    metrics_close_interval(&metrics, SECOND, &report);
    assert_true(report.examples_per_second == 1000);
    learned = example(1001, 1);
    metrics_add(&metrics, &learned, 0);
    metrics_close_interval(&metrics, SECOND + 1, &report); /* 1 ns later */
    assert_true(report.examples_per_second < 1002);
}

/* Plans of 6400 examples with a message every 100: 64 messages share one reading of the clock. */
static void a_burst_after_idling_reports_no_climbing_rate(void **state) {
    enum { PLAN = 6400, EVERY = 100 };
    static const struct {
        uint64_t time; /* when the plan had been played, ms */
        double rate;
    } plans[] = {
        {1000, 6400}, {2000, 6400}, {12000, 640}, {12050, 640}, {12100, 128000}, {12200, 64000},
    };
    struct metrics metrics;
    struct loss_fields report;
    uint64_t examples = 0;
    metrics_begin(&metrics, &none, 0, 0);
    for (size_t n = 0; n < sizeof plans / sizeof *plans; n++) {
        uint64_t played = examples + PLAN, now = plans[n].time * (SECOND / 1000);
        while (examples < played) {
            struct learned learned = example(++examples, 1);
            learned.played = played;
            metrics_add(&metrics, &learned, now);
            if (examples % EVERY)
                continue;
            metrics_close_interval(&metrics, now, &report);
            assert_true(report.examples_per_second == plans[n].rate);
        }
    }
    metrics_recent(&metrics, 16200 * (SECOND / 1000), &report); /* idle for 4 s */
    assert_true(report.examples_per_second == 0);
}

/* --- the statistics socket --- */

struct sockets {
    void *zmq, *subscriber;
    struct publish *publish;
};

static int open_sockets(void **state) {
    static struct sockets sockets;
    static const struct socket_config config = {.endpoint = "tcp://127.0.0.1:*"};
    struct error error = {0};
    sockets.zmq = zmq_ctx_new();
    sockets.subscriber = zmq_socket(sockets.zmq, ZMQ_SUB);
    if (publish_open(&sockets.publish, sockets.zmq, NULL, &config, &error))
        return -1;
    zmq_connect(sockets.subscriber, publish_endpoint(sockets.publish));
    *state = &sockets;
    return 0;
}

static int close_sockets(void **state) {
    struct sockets *sockets = *state;
    zmq_close(sockets->subscriber);
    publish_close(&sockets->publish);
    zmq_ctx_term(sockets->zmq);
    return 0;
}

/* Waits for a change of the subscriptions. */
static bool subscribed(struct sockets *sockets) {
    zmq_pollitem_t item = {.fd = publish_descriptor(sockets->publish), .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, 10000), 1);
    return publish_subscriptions(sockets->publish);
}

static bool subscribe(struct sockets *sockets, const char *prefix) {
    zmq_setsockopt(sockets->subscriber, ZMQ_SUBSCRIBE, prefix, strlen(prefix));
    return subscribed(sockets);
}

static json_t *receive(struct sockets *sockets, const char *topic) {
    char frame[65536];
    zmq_pollitem_t item = {.socket = sockets->subscriber, .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, 10000), 1);
    int size = zmq_recv(sockets->subscriber, frame, sizeof frame, 0);
    assert_int_equal(size, strlen(topic));
    assert_memory_equal(frame, topic, strlen(topic));
    size = zmq_recv(sockets->subscriber, frame, sizeof frame, 0);
    json_t *message = json_loadb(frame, (size_t)size, 0, NULL);
    assert_non_null(message);
    return message;
}

static void a_topic_is_built_only_when_wanted(void **state) {
    struct sockets *sockets = *state;
    assert_null(publish_begin(sockets->publish, TOPIC_LOSS, 1, 1));
    assert_false(subscribe(sockets, "lo"));
    assert_true(publish_wanted(sockets->publish, TOPIC_LOSS));
    assert_false(publish_wanted(sockets->publish, TOPIC_STATE));
    zmq_setsockopt(sockets->subscriber, ZMQ_SUBSCRIBE, "lossy", 5);
    assert_true(subscribe(sockets, "stat"));
    assert_true(publish_wanted(sockets->publish, TOPIC_STATE));
    zmq_setsockopt(sockets->subscriber, ZMQ_UNSUBSCRIBE, "lo", 2);
    subscribed(sockets);
    assert_false(publish_wanted(sockets->publish, TOPIC_LOSS));
    assert_true(publish_wanted(sockets->publish, TOPIC_STATUS));
}

static void messages_are_counted_per_topic(void **state) {
    struct sockets *sockets = *state;
    assert_true(subscribe(sockets, ""));
    for (int n = 1; n <= 2; n++) {
        json_text_number(publish_begin(sockets->publish, TOPIC_LOSS, 10 + n, 20 + n), "loss", NAN);
        publish_send(sockets->publish, TOPIC_LOSS);
    }
    assert_non_null(publish_begin(sockets->publish, TOPIC_EVENT, 1, 1));
    publish_send(sockets->publish, TOPIC_EVENT);
    for (int n = 1; n <= 2; n++) {
        json_t *message = receive(sockets, "loss");
        assert_int_equal(json_integer_value(json_object_get(message, "sequence")), n);
        assert_int_equal(json_integer_value(json_object_get(message, "examples")), 10 + n);
        assert_int_equal(json_integer_value(json_object_get(message, "steps")), 20 + n);
        assert_string_equal(json_string_value(json_object_get(message, "run")),
                            publish_run(sockets->publish));
        assert_true(json_real_value(json_object_get(message, "time")) > 1e9);
        assert_true(json_is_null(json_object_get(message, "loss")));
        json_decref(message);
    }
    json_t *message = receive(sockets, "event");
    assert_int_equal(json_integer_value(json_object_get(message, "sequence")), 1);
    json_decref(message);
}

static void a_message_larger_than_the_buffer_arrives_whole(void **state) {
    struct sockets *sockets = *state;
    static char text[50000];
    memset(text, 'a', sizeof text);
    subscribe(sockets, "event");
    json_text_string(publish_begin(sockets->publish, TOPIC_EVENT, 1, 1), "long", text, sizeof text);
    publish_send(sockets->publish, TOPIC_EVENT);
    json_t *message = receive(sockets, "event");
    assert_int_equal(json_string_length(json_object_get(message, "long")), sizeof text);
    json_decref(message);
}

static void an_ipc_path_in_use_is_not_taken_over(void **state) {
    struct sockets *sockets = *state;
    char directory[] = "/tmp/runnel-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct socket_config config = {0};
    snprintf(config.endpoint, sizeof config.endpoint, "ipc://%s/s", directory);
    struct error error = {0};
    struct publish *first = NULL, *second = NULL;
    assert_int_equal(publish_open(&first, sockets->zmq, NULL, &config, &error), 0);
    assert_int_equal(publish_open(&second, sockets->zmq, NULL, &config, &error), -1);
    assert_non_null(strstr(error.text, "statistics.bind"));
    publish_close(&first);
    remove(config.endpoint + strlen("ipc://"));
    rmdir(directory);
}

static void an_ipc_path_left_behind_is_taken(void **state) {
    struct sockets *sockets = *state;
    char directory[] = "/tmp/runnel-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct socket_config config = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(config.endpoint, sizeof config.endpoint, "ipc://%s/s", directory);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", directory);
    int left = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(left, (struct sockaddr *)&address, sizeof address), 0);
    close(left);
    struct error error = {0};
    struct publish *publish = NULL;
    assert_int_equal(publish_open(&publish, sockets->zmq, NULL, &config, &error), 0);
    publish_close(&publish);
    remove(address.sun_path);
    rmdir(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_any_example_nothing_is_there),
        cmocka_unit_test(an_interval_reports_its_own_losses),
        cmocka_unit_test(an_unscored_example_keeps_the_newest_loss),
        cmocka_unit_test(a_loss_that_is_not_finite_spoils_no_mean),
        cmocka_unit_test(rmse_and_accuracy_are_over_what_was_observed),
        cmocka_unit_test(counters_go_on_from_where_learning_stands),
        cmocka_unit_test(latency_quantiles_are_right_to_a_sixteenth),
        cmocka_unit_test(a_rate_spans_a_tenth_of_a_second_at_least),
        cmocka_unit_test(a_burst_after_idling_reports_no_climbing_rate),
        cmocka_unit_test_setup_teardown(a_topic_is_built_only_when_wanted, open_sockets,
                                        close_sockets),
        cmocka_unit_test_setup_teardown(messages_are_counted_per_topic, open_sockets,
                                        close_sockets),
        cmocka_unit_test_setup_teardown(a_message_larger_than_the_buffer_arrives_whole,
                                        open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(an_ipc_path_in_use_is_not_taken_over, open_sockets,
                                        close_sockets),
        cmocka_unit_test_setup_teardown(an_ipc_path_left_behind_is_taken, open_sockets,
                                        close_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
