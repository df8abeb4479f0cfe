/* Records, rounds and states of a fleet on Kafka, with librdkafka's mock cluster in this process,
   which shows open transactions to everybody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "cluster/fleet_claims.h"
#include "common/clock.h"

enum { PARTITIONS = 2, TEXT_SIZE = 256, WAIT_MS = 60000 };

static rd_kafka_t *producer;
static rd_kafka_mock_cluster_t *cluster;
static struct kafka_options options;
static struct error error;
static unsigned char large[1 << 20];
static char text[TEXT_SIZE];

/* On a busy machine an answer may be late: then the call is repeated, see fleet_link.h. */
#define good(call)                                                                                 \
    for (double end = clock_seconds() + WAIT_MS / 1e3; (call);)                                    \
        if (error.status != EX_TEMPFAIL || clock_seconds() > end)                                  \
    fail_msg("%s", error.text)

static struct reader {
    struct fleet_self self;
    struct claims claims;
} anna, bert, late;

static void open_reader(struct reader *reader, const char *group, const char *name) {
    static uint64_t tag;
    *reader = (struct reader){.self = {.group = group, .name = name, .stream = "s", .lease = 3600}};
    reader->self.partitions = PARTITIONS;
    struct fleet_client *client = &reader->claims.client;
    client->options = &options;
    client->self = &reader->self;
    client->tag = tag += 1000;
    snprintf(client->claims, sizeof client->claims, "%s.claims", group);
    snprintf(client->streams, sizeof client->streams, "%s.streams", group);
    snprintf(client->rounds, sizeof client->rounds, "%s.rounds", group);
    good(claims_follow(&reader->claims, &error));
}

static void close_reader(struct reader *reader) {
    claims_forget(&reader->claims);
    kafka_disconnect(&reader->claims.client);
    free(reader->claims.held);
}

/* A new fleet for each test. */
static void open_both(const char *group) {
    static const char *const names[] = {"claims", "rounds", "streams"};
    for (int n = 0; n < 3; n++) {
        char name[TEXT_SIZE];
        snprintf(name, sizeof name, "%s.%s", group, names[n]);
        assert_int_equal(rd_kafka_mock_topic_create(cluster, name, n < 2 ? 1 : PARTITIONS, 1), 0);
    }
    open_reader(&anna, group, "anna");
    open_reader(&bert, group, "bert");
}

static void close_both(void) {
    close_reader(&anna);
    close_reader(&bert);
}

static json_t *record(const char *name, int64_t seen, int64_t base, int64_t claim, int64_t serial,
                      int64_t learned) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s}", "seen", seen, "base",
                     base, "claim", claim, "serial", serial, "learned", learned, "streams",
                     (json_int_t)0, "offset", learned - 1, "free", 0, "daemon", name, "id", name);
}

static void put(struct reader *writer, const char *key, json_t *record) {
    good(claims_write(&writer->claims, key, json_incref(record), &error));
    json_decref(record);
}

static void is_held(struct reader *reader, size_t partition, const char *name, uint64_t learned) {
    good(claims_follow_all(&reader->claims, &error));
    const struct holding *held = &reader->claims.held[partition];
    assert_non_null(held->record);
    assert_string_equal(held->name, name);
    assert_int_equal(held->learned, learned);
}

static void the_late_one_changes_nothing(void **unused) {
    open_both("late");
    put(&anna, "p0", record("anna", 0, 0, 5, 0, 10));
    put(&anna, "p0", record("anna", 5, 0, 5, 1, 20));
    put(&bert, "p0", record("bert", 5, 0, 6, 0, 10)); /* he had read this record */
    is_held(&anna, 0, "anna", 20);
    is_held(&bert, 0, "anna", 20);
    put(&bert, "p0", record("bert", 5, 1, 6, 0, 20));
    put(&anna, "p0", record("anna", 5, 1, 5, 2, 30));
    is_held(&anna, 0, "bert", 20);
    is_held(&bert, 0, "bert", 20);
    assert_null(anna.claims.held[1].record);
    close_both();
}

static void the_first_after_compaction_counts(void **unused) {
    open_both("compact");
    put(&anna, "p1", record("anna", 8, 4, 9, 5, 70));
    put(&anna, "p1", record("anna", 8, 4, 9, 6, 80));
    is_held(&anna, 1, "anna", 70);
    open_reader(&late, "compact", "late");
    is_held(&late, 1, "anna", 70);
    put(&late, "p1", record("late", 9, 5, 10, 0, 70));
    is_held(&anna, 1, "late", 70);
    close_reader(&late);
    close_both();
}

static void the_first_close_counts(void **unused) {
    open_both("rounds");
    assert_int_equal(anna.claims.round, 1);
    put(&anna, "aanna", json_pack("{s:i, s:i, s:[]}", "round", 1, "serial", 7, "span"));
    put(&bert, "aanna", json_pack("{s:i, s:i, s:[]}", "round", 1, "serial", 8, "span")); /* late */
    assert_int_equal(claims_number(claims_find(&bert.claims, "a", "anna"), "serial"), 7);
    put(&bert, "r", json_pack("{s:i, s:{s:{}}}", "round", 1, "members", "bert"));
    put(&anna, "r", json_pack("{s:i, s:{s:{}}}", "round", 1, "members", "dora"));
    put(&anna, "acarl", json_pack("{s:i, s:i, s:[]}", "round", 1, "serial", 9, "span"));
    good(claims_follow_all(&bert.claims, &error));
    const json_t *members = json_object_get(bert.claims.closed[1], "members");
    assert_non_null(json_object_get(members, "bert"));
    assert_non_null(json_object_get(members, "anna")); /* she had arrived by then */
    assert_null(json_object_get(members, "dora"));
    assert_null(claims_find(&bert.claims, "a", "anna"));
    assert_null(claims_find(&bert.claims, "a", "carl"));
    assert_true(bert.claims.arrival == 0);
    assert_int_equal(bert.claims.round, 2);
    assert_int_equal(anna.claims.round, 2);
    assert_true(json_equal(anna.claims.closed[1], bert.claims.closed[1]));
    close_both();
}

static void garbage_changes_nothing(void **unused) {
    static const char *const keys[] = {"p", "p0", "p1x", "p-1", "p99999999999999999999", "r", "q"};
    char values[] = "{ null [] 7 \"text\" {} {\"claim\":9999999999999999999999} \xff "
                    "{\"claim\":\"5\",\"seen\":[]} {\"claim\":5,\"seen\":5,\"base\":0} "
                    "{\"round\":-1,\"members\":{}} {\"round\":1,\"members\":[]}";
    open_both("litter");
    put(&anna, "p0", record("anna", 0, 0, 5, 0, 10));
    const uint64_t version = anna.claims.version;
    for (char *value = strtok(values, " "); value; value = strtok(NULL, " "))
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            assert_int_equal(
                rd_kafka_producev(producer, RD_KAFKA_V_TOPIC("litter.claims"),
                                  RD_KAFKA_V_PARTITION(0), RD_KAFKA_V_KEY(keys[k], strlen(keys[k])),
                                  RD_KAFKA_V_VALUE(value, strlen(value)), RD_KAFKA_V_END),
                0);
    assert_int_equal(rd_kafka_flush(producer, WAIT_MS), 0);
    is_held(&anna, 0, "anna", 10);
    assert_int_equal(anna.claims.version, version);
    assert_int_equal(anna.claims.round, 1);
    assert_null(anna.claims.held[1].record);
    close_both();
}

static int stage(struct fleet_client *client, size_t span, const char *key, const void *state,
                 size_t size) {
    const struct fleet_row row = {key, state, strlen(key), size};
    return kafka_write_row(client, 0, span, &row, &error) || kafka_wait(client, &error) ? -1 : 0;
}

/* Both write to the same partition at the same time. */
static int write_spans(struct kafka_span spans[2]) {
    struct fleet_client *own = &anna.claims.client, *other = &bert.claims.client;
    if (kafka_begin(own, &error) || kafka_begin(other, &error))
        return -1;
    for (size_t n = 0; n < 2; n++) {
        const size_t span = kafka_span_new(own, 0), strange = kafka_span_new(other, 0);
        if (stage(own, span, "a", n ? "2" : "1", 1) || stage(other, strange, "a", "stranger", 8) ||
            stage(own, span, n ? "b" : "c", n ? NULL : "1", !n) || /* b is deleted */
            stage(other, strange, "z", "stranger", 8) ||
            stage(own, span, n ? "d" : "b", n ? large : (const void *)"1", n ? sizeof large : 1))
            return -1;
        spans[n] = own->spans[span];
    }
    return kafka_commit(own, NULL, NULL, NULL, &error);
}

static int note(void *unused, const struct fleet_row *row, struct error *none) {
    const bool is_large =
        row->state_size == sizeof large && memcmp(row->state, large, sizeof large) == 0;
    char *end = text + strlen(text);
    (void)unused, (void)none;
    snprintf(end, (size_t)(text + sizeof text - end), "%.*s=%.*s ", (int)row->key_size,
             (const char *)row->key, is_large ? 5 : (int)row->state_size,
             is_large ? "large" : (const char *)row->state);
    return 0;
}

static void read_spans(const struct kafka_span *spans, size_t count, const char *states) {
    good((*text = '\0',
          kafka_read_rows(&bert.claims.client, 0, spans, count, 3, note, NULL, &error)));
    assert_string_equal(text, states);
}

static void states_of_spans(void **unused) {
    struct kafka_span spans[2];
    for (size_t n = 0; n < sizeof large; n++)
        large[n] = (unsigned char)(n % 251);
    open_both("states");
    good(write_spans(spans));
    read_spans(spans, 2, "a=2 c=1 d=large ");
    read_spans(spans, 1, "a=1 b=1 c=1 ");
    good(kafka_read_rows(&bert.claims.client, 0, spans, 2, 4, note, NULL, &error) == 0 ||
         error.status == EX_TEMPFAIL);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "topic states.streams, partition 0 has lost messages"));
    close_both();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_late_one_changes_nothing),
        cmocka_unit_test(the_first_after_compaction_counts),
        cmocka_unit_test(the_first_close_counts),
        cmocka_unit_test(garbage_changes_nothing),
        cmocka_unit_test(states_of_spans),
    };
    char why[TEXT_SIZE];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", why, sizeof why);
    producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    cluster = rd_kafka_handle_mock_cluster(producer);
    options.servers = rd_kafka_mock_cluster_bootstraps(cluster);
    options.settings.values[options.settings.count++] = "fetch.wait.max.ms=10";
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    rd_kafka_destroy(producer);
    return result;
}
