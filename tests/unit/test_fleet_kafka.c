/* What daemons of a fleet tell each other through Kafka: librdkafka's mock cluster, in this
   process. That the machine behind it decides as Redis does, test_fleet_same shows. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "cluster/brokers/kafka_options.h"
#include "cluster/fleet_kafka.h"
#include "cluster/fleet_machine.h"
#include "cluster/fleet_rows.h"
#include "common/clock.h"
#include "common/error.h"

enum { PARTITIONS = 2, TEXT_SIZE = 256, WHY_SIZE = 256, WAIT_MS = 60000 };

/* The mock keeps 5 MB of a partition: so many renewals with so much to say are more. */
enum { INFO_SIZE = 60000, RENEWALS = 120, SNAPSHOT_MESSAGES = 20 };

static rd_kafka_t *client;
static rd_kafka_mock_cluster_t *cluster;
static struct kafka_options options;
static struct error error;

/* What was not answered in time, on a busy machine, is asked again: fleet_link.h. */
static double deadline;

static bool is_again(void) {
    return error.status == EX_TEMPFAIL && clock_seconds() < deadline;
}

#define good(call)                                                                                 \
    do {                                                                                           \
        deadline = clock_seconds() + WAIT_MS / 1e3;                                                \
        while (call)                                                                               \
            if (!is_again())                                                                       \
                fail_msg("%s", error.text);                                                        \
    } while (0)

static int start(void **unused) {
    char why[WHY_SIZE];
    (void)unused;
    client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
    cluster = client ? rd_kafka_mock_cluster_new(client, 1) : NULL;
    if (!cluster)
        return -1;
    options = (struct kafka_options){.servers = rd_kafka_mock_cluster_bootstraps(cluster)};
    options.settings.values[options.settings.count++] = "fetch.wait.max.ms=10";
    return 0;
}

static int stop(void **unused) {
    (void)unused;
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(client);
    return 0;
}

static void make_topics(const char *group) {
    static const struct {
        const char *name;
        int partitions;
    } topics[] = {{"fleet", 1}, {"states", PARTITIONS}, {"parameters", 1}};
    for (size_t n = 0; n < sizeof topics / sizeof *topics; n++) {
        char name[TEXT_SIZE];
        snprintf(name, sizeof name, "%s.%s", group, topics[n].name);
        assert_int_equal(rd_kafka_mock_topic_create(cluster, name, topics[n].partitions, 1), 0);
    }
}

static struct fleet_self self_of(const char *group, const char *name) {
    return (struct fleet_self){.group = group,
                               .name = name,
                               .id = name,
                               .stream = "s",
                               .digest = "d",
                               .partitions = PARTITIONS,
                               .every = 10,
                               .lease = 3600};
}

static struct fleet_link *open_link(const struct fleet_self *self) {
    struct fleet_link *link;
    good(fleet_kafka_open(&link, &options, self, &error));
    return link;
}

static struct fleet_link *join(const struct fleet_self *self) {
    struct fleet_link *link = open_link(self);
    good(link->ops->join(link, "{}", &error));
    return link;
}

/* Where only the answer was lost, the claim is in the view. */
static bool is_taken(struct fleet_link *link, struct fleet_claim *claim) {
    struct fleet_view view = {0};
    size_t taken;
    if (link->ops->take(link, claim, 1, &taken, &error) == 0)
        return taken == 1;
    if (error.status != EX_TEMPFAIL)
        fail_msg("%s", error.text);
    good(link->ops->look(link, &view, &error));
    const struct fleet_partition known = view.partitions[claim->partition];
    fleet_view_free(&view);
    if (known.claim == claim->claim)
        return is_taken(link, claim);
    *claim = (struct fleet_claim){.partition = claim->partition,
                                  .claim = known.claim,
                                  .committed = known.committed,
                                  .offset = known.offset,
                                  .learned = known.learned,
                                  .states = known.states};
    return true;
}

static struct fleet_claim take(struct fleet_link *link, size_t partition, uint64_t seen) {
    struct fleet_claim claim = {.partition = partition, .claim = seen};
    assert_true(is_taken(link, &claim));
    return claim;
}

/* ---- States ---- */

static int note(void *context, const struct fleet_row *row, struct error *none) {
    char *text = context;
    size_t size = strlen(text);
    (void)none;
    snprintf(text + size, TEXT_SIZE - size, "%.*s=%.*s ", (int)row->key_size,
             (const char *)row->key, (int)row->state_size, (const char *)row->state);
    return 0;
}

static void are(struct fleet_link *link, size_t partition, const char *one, const char *other) {
    char text[TEXT_SIZE];
    good((*text = '\0', link->ops->states(link, partition, note, text, &error)));
    if (strcmp(text, one) != 0)
        assert_string_equal(text, other); /* in any order */
}

static void stage(struct fleet_link *link, struct fleet_commit *commit, const char *key,
                  const char *state) {
    const struct fleet_row row = {key, state, strlen(key), strlen(state)};
    good(link->ops->stage(link, commit->partition, commit->claim, commit->serial, &row, 1, &error));
    commit->rows++;
}

static struct fleet_commit learned(const struct fleet_claim *claim, uint64_t count,
                                   uint64_t streams) {
    return (struct fleet_commit){.partition = claim->partition,
                                 .claim = claim->claim,
                                 .offset = {.sequence = count},
                                 .learned = count,
                                 .serial = count,
                                 .streams = streams};
}

static void states_go_from_one_to_the_other(void **unused) {
    const struct fleet_self anna = self_of("g", "anna"), bert = self_of("g", "bert");
    (void)unused;
    make_topics("g");
    struct fleet_link *a = join(&anna), *b = join(&bert);
    struct fleet_claim mine = take(a, 1, 0);
    struct fleet_commit commit = learned(&mine, 5, 2);
    commit.whole = true;
    stage(a, &commit, "x", "1");
    stage(a, &commit, "y", "1");
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_false(commit.refused || commit.incomplete);
    commit = learned(&mine, 7, 2); /* what changes only */
    stage(a, &commit, "x", "2");
    stage(a, &commit, "y", ""); /* forgotten */
    stage(a, &commit, "z", "2");
    are(a, 1, "x=1 y=1 ", "y=1 x=1 "); /* what is staged does not count yet */
    good(a->ops->commit(a, &commit, 1, true, &error));
    assert_false(commit.refused || commit.incomplete);
    struct fleet_claim theirs = take(b, 1, mine.claim);
    assert_true(theirs.committed);
    assert_int_equal(theirs.offset.sequence, 7);
    assert_int_equal(theirs.learned, 7);
    assert_int_equal(theirs.states, 2);
    are(b, 1, "x=2 z=2 ", "z=2 x=2 ");
    commit = learned(&mine, 9, 2);
    commit.serial = 0;
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_true(commit.refused);
    a->ops->close(&a);
    b->ops->close(&b);
}

/* As when the answer to a later piece of a long list was lost. */
static void what_could_not_be_taken_is_not_asked_for_again(void **unused) {
    const struct fleet_self anna = self_of("k", "anna");
    struct fleet_claim claims[] = {{.partition = SIZE_MAX}, {.partition = 1}};
    size_t taken;
    (void)unused;
    make_topics("k");
    struct fleet_link *a = join(&anna);
    good(a->ops->take(a, claims, 1, &taken, &error));
    assert_int_equal(taken, 0);
    good(a->ops->take(a, claims, 2, &taken, &error));
    assert_int_equal(taken, 1);
    assert_true(claims[0].partition == SIZE_MAX);
    assert_int_equal(claims[1].partition, 1);
    assert_int_equal(claims[1].claim, 1);
    a->ops->close(&a);
}

static void parameters_of_a_round(void **unused) {
    const struct fleet_self anna = self_of("r", "anna"), bert = self_of("r", "bert");
    char *names, *bytes;
    uint64_t round;
    size_t size;
    (void)unused;
    make_topics("r");
    struct fleet_link *a = join(&anna), *b = join(&bert);
    take(a, 0, 0);
    take(b, 1, 0);
    good(a->ops->arrive(a, 1, "of a", strlen("of a"), &round, &error));
    assert_int_equal(round, 1);
    good(a->ops->round(a, 1, &names, &error));
    assert_null(names);
    good(b->ops->arrive(b, 1, "of bert", strlen("of bert"), &round, &error));
    good(b->ops->round(b, 1, &names, &error));
    assert_string_equal(names, "anna\nbert\n");
    free(names);
    good(b->ops->parameters(b, 1, "anna", (void **)&bytes, &size, &error));
    assert_int_equal(size, strlen("of a"));
    assert_memory_equal(bytes, "of a", size);
    free(bytes);
    a->ops->close(&a);
    b->ops->close(&b);
}

/* As a member does that was away for so long that it has to read the log again. */
static void who_begins_to_read_does_not_see_the_past(void **unused) {
    const struct fleet_self anna = self_of("p", "anna"), bert = self_of("p", "bert");
    struct fleet_view view = {0};
    (void)unused;
    make_topics("p");
    struct fleet_link *a = join(&anna), *b = open_link(&bert);
    struct fleet_claim theirs = take(a, 1, 0);
    good(b->ops->look(b, &view, &error));
    assert_int_equal(view.partition_count, PARTITIONS);
    assert_int_equal(view.partitions[1].claim, theirs.claim);
    fleet_view_free(&view);
    a->ops->close(&a);
    b->ops->close(&b);
}

/* ---- What is deleted ---- */

/* In place of librdkafka's, which the mock cluster does not understand: the last request. */
static struct {
    char topic[TEXT_SIZE];
    int64_t before;
} deleted;

rd_kafka_DeleteRecords_t *
rd_kafka_DeleteRecords_new(const rd_kafka_topic_partition_list_t *before_offsets) {
    snprintf(deleted.topic, sizeof deleted.topic, "%s", before_offsets->elems[0].topic);
    deleted.before = before_offsets->elems[0].offset;
    return NULL;
}

void rd_kafka_DeleteRecords(rd_kafka_t *rk, rd_kafka_DeleteRecords_t **del_records,
                            size_t del_record_cnt, const rd_kafka_AdminOptions_t *about,
                            rd_kafka_queue_t *rkqu) {
    (void)rk, (void)del_records, (void)del_record_cnt, (void)about, (void)rkqu;
}

void rd_kafka_DeleteRecords_destroy(rd_kafka_DeleteRecords_t *del_record) {
    (void)del_record;
}

/* The answer to the first was lost: what it staged is what counts, and has to stay. */
static void the_same_commit_twice(void **unused) {
    const struct fleet_self anna = self_of("t", "anna");
    (void)unused;
    make_topics("t");
    struct fleet_link *a = join(&anna);
    struct fleet_claim mine = take(a, 0, 0);
    struct fleet_commit commit = learned(&mine, 5, 1);
    commit.whole = true;
    stage(a, &commit, "x", "1");
    good(a->ops->commit(a, &commit, 1, false, &error));
    commit = learned(&mine, 7, 1);
    commit.whole = true;
    stage(a, &commit, "x", "2");
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_string_equal(deleted.topic, "t.states");
    assert_int_equal(deleted.before, 1);
    commit.rows = 0;
    stage(a, &commit, "x", "2");
    good(a->ops->commit(a, &commit, 1, false, &error));
    assert_false(commit.refused || commit.incomplete);
    assert_int_equal(deleted.before, 1);
    a->ops->close(&a);
}

/* ---- A log that begins after 0 ---- */

/* One that says so much that the mock drops what is old. Its lease is always over. */
static void renew_often(const char *group, int64_t snapshots) {
    struct fleet_self loud = self_of(group, "loud");
    char *info = malloc(INFO_SIZE);
    assert_non_null(info);
    memset(info, 'x', INFO_SIZE - 1);
    info[INFO_SIZE - 1] = '\0';
    loud.lease = 1e-3;
    struct fleet_link *link = join(&loud);
    fleet_kafka_snapshots(link, snapshots);
    for (int n = 0; n < RENEWALS; n++) {
        uint64_t version;
        good(link->ops->renew(link, info, &version, &error));
    }
    link->ops->close(&link);
    free(info);
}

static void who_comes_late_begins_with_a_snapshot(void **unused) {
    const struct fleet_self anna = self_of("l", "anna"), bert = self_of("l", "bert");
    struct fleet_view view = {0};
    (void)unused;
    make_topics("l");
    struct fleet_link *a = join(&anna);
    struct fleet_claim mine = take(a, 0, 0);
    struct fleet_commit commit = learned(&mine, 5, 0);
    commit.serial = 0;
    good(a->ops->commit(a, &commit, 1, false, &error));
    a->ops->close(&a);
    renew_often("l", SNAPSHOT_MESSAGES);
    struct fleet_link *b = join(&bert);
    good(b->ops->look(b, &view, &error));
    assert_int_equal(view.daemon_count, 3);
    assert_string_equal(view.daemons[0].name, "anna");
    assert_true(view.daemons[0].living);
    assert_int_equal(view.partitions[0].owner, 0);
    assert_int_equal(view.partitions[0].claim, mine.claim);
    assert_int_equal(view.partitions[0].offset.sequence, 5);
    fleet_view_free(&view);
    assert_true(take(b, 1, 0).claim > mine.claim);
    b->ops->close(&b);
}

static void a_log_whose_beginning_is_lost(void **unused) {
    const struct fleet_self bert = self_of("n", "bert");
    (void)unused;
    make_topics("n");
    renew_often("n", INT64_MAX);
    struct fleet_link *b = open_link(&bert);
    assert_int_equal(b->ops->join(b, "{}", &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "the topic n.fleet begins at offset "));
    assert_non_null(strstr(error.text, "has no snapshot"));
    b->ops->close(&b);
}

static rd_kafka_t *open_writer(void) {
    char why[WHY_SIZE];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", options.servers, why, sizeof why);
    rd_kafka_t *writer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    assert_non_null(writer);
    return writer;
}

/* A snapshot of a fleet in which nobody is yet, as the next message; the offset of that. */
static int64_t append_snapshot(rd_kafka_t *writer, const char *topic, uint64_t position,
                               bool damaged) {
    static unsigned char message[FLEET_PIECE_HEAD + FLEET_PIECE_BYTES];
    struct fleet_machine *machine = fleet_machine_open(&error);
    int64_t low, high;
    size_t size;
    void *bytes = fleet_machine_save(machine, position, &size, &error);
    assert_int_equal(rd_kafka_query_watermark_offsets(writer, topic, 0, &low, &high, WAIT_MS), 0);
    assert_true(low > 0);
    ((unsigned char *)bytes)[size - 1] ^= damaged;
    size = fleet_piece_write(message, bytes, size, position, 0);
    assert_int_equal(rd_kafka_producev(writer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
                                       RD_KAFKA_V_VALUE(message, size),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                     0);
    assert_int_equal(rd_kafka_flush(writer, WAIT_MS), 0);
    fleet_machine_close(&machine);
    free(bytes);
    return high;
}

/* Whoever wrote it was slow: what comes after it is not all there any more. The next one counts. */
static void a_snapshot_that_came_too_late(void **unused) {
    const struct fleet_self bert = self_of("o", "bert");
    struct fleet_view view = {0};
    (void)unused;
    make_topics("o");
    renew_often("o", INT64_MAX);
    rd_kafka_t *writer = open_writer();
    int64_t late = append_snapshot(writer, "o.fleet", 0, false);
    append_snapshot(writer, "o.fleet", (uint64_t)late, false);
    rd_kafka_destroy(writer);
    struct fleet_link *b = join(&bert);
    good(b->ops->look(b, &view, &error));
    assert_int_equal(view.daemon_count, 1);
    fleet_view_free(&view);
    b->ops->close(&b);
}

/* The next one counts; without one it is said. No log is so long as the second one says, and the
   third one names an offset that the topic does not have yet. */
static void a_snapshot_that_is_damaged(void **unused) {
    const struct fleet_self bert = self_of("d", "bert");
    (void)unused;
    make_topics("d");
    renew_often("d", INT64_MAX);
    rd_kafka_t *writer = open_writer();
    append_snapshot(writer, "d.fleet", 0, true);
    int64_t last = append_snapshot(writer, "d.fleet", INT64_MAX, false);
    struct fleet_link *b = open_link(&bert);
    assert_int_equal(b->ops->join(b, "{}", &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "the topic d.fleet: a snapshot of the fleet is damaged"));
    int64_t other = append_snapshot(writer, "d.fleet", (uint64_t)last + 2, false);
    assert_int_equal(b->ops->join(b, "{}", &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "the topic d.fleet has a snapshot at offset "));
    assert_non_null(strstr(error.text, "is of another log"));
    append_snapshot(writer, "d.fleet", (uint64_t)other, false);
    good(b->ops->join(b, "{}", &error));
    b->ops->close(&b);
    rd_kafka_destroy(writer);
}

/* ---- What people ask of no fleet ---- */

static void who_is_no_member_finds_no_fleet(void **unused) {
    const struct fleet_self nobody = {.group = "none"};
    struct fleet_link *link = open_link(&nobody);
    (void)unused;
    rd_kafka_mock_topic_set_error(cluster, "none.fleet", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    error = (struct error){0};
    assert_int_equal(link->ops->drain(link, "anna", &error), -1);
    assert_non_null(strstr(error.text, "there is no fleet none"));
    error = (struct error){0};
    assert_int_equal(link->ops->rebalance(link, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, "there is no fleet none"));
    struct fleet_groups groups = {0};
    assert_int_equal(rd_kafka_mock_topic_create(cluster, "plant.fleet", 1, 1), 0);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, "plant", 1, 1), 0);
    assert_int_equal(link->ops->groups(link, &groups, &error), 0);
    bool found = false; /* the other tests' are there, too */
    for (size_t n = 0; n < groups.count; n++) {
        found |= strcmp(groups.names[n], "plant") == 0;
        assert_null(strstr(groups.names[n], ".fleet"));
    }
    assert_true(found || (groups.more && groups.count == FLEET_GROUPS_MAX));
    link->ops->close(&link);
}

/* ---- Topics that are made ---- */

/* In place of librdkafka's: the mock cannot make topics, and is not asked. */
static int copies_asked;

rd_kafka_NewTopic_t *rd_kafka_NewTopic_new(const char *topic, int num_partitions,
                                           int replication_factor, char *errstr,
                                           size_t errstr_size) {
    (void)topic, (void)num_partitions;
    copies_asked = replication_factor;
    snprintf(errstr, errstr_size, "the mock makes none");
    return NULL;
}

/* The sentence has what was asked for. */
static void is_made_like(int copies, const char *expected) {
    const struct fleet_self anna = self_of("c", "anna");
    rd_kafka_mock_cluster_t *several = rd_kafka_mock_cluster_new(client, copies);
    rd_kafka_mock_topic_create(several, anna.stream, PARTITIONS, copies);
    rd_kafka_mock_topic_set_error(several, "c.fleet", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    options.servers = rd_kafka_mock_cluster_bootstraps(several);
    struct fleet_link *a = open_link(&anna);
    int result = a->ops->join(a, "{}", &error);
    a->ops->close(&a);
    rd_kafka_mock_cluster_destroy(several);
    options.servers = rd_kafka_mock_cluster_bootstraps(cluster);
    assert_int_equal(result, -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_int_equal(copies_asked, copies > 1 ? copies : -1);
    const char *found = strstr(error.text, "--partitions");
    assert_non_null(found);
    assert_string_equal(found, expected);
}

static void topics_are_as_safe_as_what_is_learned(void **unused) {
    (void)unused;
    is_made_like(3, "--partitions 1 --replication-factor 3 --config cleanup.policy=delete "
                    "--config retention.ms=-1 --config message.timestamp.type=LogAppendTime "
                    "--config min.insync.replicas=2");
    is_made_like(1, "--partitions 1 --config cleanup.policy=delete "
                    "--config retention.ms=-1 --config message.timestamp.type=LogAppendTime");
    is_made_like(2, "--partitions 1 --replication-factor 2 --config cleanup.policy=delete "
                    "--config retention.ms=-1 --config message.timestamp.type=LogAppendTime");
}

/* ---- While Kafka is away ---- */

/* librdkafka's, counted: each question may wait for an answer. */
static int questions;

rd_kafka_resp_err_t rd_kafka_metadata(rd_kafka_t *rk, int all_topics, rd_kafka_topic_t *only_rkt,
                                      const struct rd_kafka_metadata **metadatap, int timeout_ms) {
    rd_kafka_resp_err_t (*real)(rd_kafka_t *, int, rd_kafka_topic_t *,
                                const struct rd_kafka_metadata **, int);
    *(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_metadata");
    questions++;
    return real(rk, all_topics, only_rkt, metadatap, timeout_ms);
}

/* A daemon that cannot reach it tries again and again, and can end. */
static void while_kafka_is_away(void **unused) {
    const struct fleet_self anna = self_of("w", "anna");
    const struct fleet_row row = {"x", "2", 1, 1};
    (void)unused;
    make_topics("w");
    options.settings.values[options.settings.count++] = "message.timeout.ms=500";
    struct fleet_link *a = join(&anna);
    struct fleet_claim mine = take(a, 1, 0);
    struct fleet_commit commit = learned(&mine, 5, 1);
    commit.whole = true;
    stage(a, &commit, "x", "1");
    good(a->ops->commit(a, &commit, 1, false, &error));
    rd_kafka_mock_broker_set_down(cluster, 1);
    int asked = questions;
    for (uint64_t serial = 6; serial < 8; serial++) {
        assert_int_equal(a->ops->stage(a, 1, mine.claim, serial, &row, 1, &error), -1);
        assert_int_equal(error.status, EX_TEMPFAIL);
    }
    assert_int_equal(questions, asked);
    alarm(WAIT_MS / 1000); /* ends this program: it waited for ever once */
    a->ops->close(&a);
    alarm(0);
    rd_kafka_mock_broker_set_up(cluster, 1);
    options.settings.count--;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_go_from_one_to_the_other),
        cmocka_unit_test(what_could_not_be_taken_is_not_asked_for_again),
        cmocka_unit_test(parameters_of_a_round),
        cmocka_unit_test(who_begins_to_read_does_not_see_the_past),
        cmocka_unit_test(the_same_commit_twice),
        cmocka_unit_test(who_comes_late_begins_with_a_snapshot),
        cmocka_unit_test(a_log_whose_beginning_is_lost),
        cmocka_unit_test(a_snapshot_that_came_too_late),
        cmocka_unit_test(a_snapshot_that_is_damaged),
        cmocka_unit_test(who_is_no_member_finds_no_fleet),
        cmocka_unit_test(topics_are_as_safe_as_what_is_learned),
        cmocka_unit_test(while_kafka_is_away),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
