/* A Kafka cluster for tests: librdkafka's mock in a separate process, or with SERVERS as its
   argument a client of a real one. It prints the servers, then answers each line of standard input
   with one line, and ends with it. For a real cluster it supports topic, drop, fill, put, load and
   none; there a partition of -1 is that of the key's murmur2, and writes wait for servers.

     topic NAME PARTITIONS      creates it
     drop NAME                  deletes it: only in a real cluster
     fill NAME PARTITION A B    messages "n -n" for n = A .. B - 1, each once it is safe
     put NAME PARTITION KEY VALUE...      \xHH in a key is a byte
     load NAME                  lines PARTITION KEY VALUE... that follow, up to "."
     none NAME PARTITION KEY    a message without a value
     commit GROUP NAME PARTITION OFFSET     the committed offset of a group
     dump NAME PARTITIONS       all messages: "PARTITION KEY VALUE", one per line
     wrong NAME CODE            requests for the topic fail with this code; 0: no longer
     down | up                  no server is reachable | all are again
     refuse API CODE [TIMES]    requests of that kind fail with this code from now on

   Its clock runs at MOCK_KAFKA_SPEED times real time (default 1): members of a group wait for
   seconds when one of them joins or leaves. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

enum {
    LINE_SIZE = 4096,
    NAME_SIZE = 256,
    WAIT_MS = 60000,
    AWAY_MS = 600000, /* a real cluster may be away for so long */
    REFUSALS = 64,
};

/* MOCK_KAFKA_SPEED: speed of the mock's clock, so that it gives up waiting sooner. */
static int speed = 1;

/* Replaces libc's, for librdkafka. */
int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_MONOTONIC && result == 0) {
        const long long fast = speed * (now->tv_sec * 1000000000LL + now->tv_nsec);
        *now = (struct timespec){fast / 1000000000, fast % 1000000000};
    }
    return result;
}

static rd_kafka_t *client;
static rd_kafka_mock_cluster_t *cluster; /* NULL: a real one */
static int failed;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    failed += message->err != 0;
}

/* "\xff" is a byte. */
static void unescape(char *text) {
    char *to = text;
    for (unsigned byte; *text; to++)
        if (sscanf(text, "\\x%2x", &byte) == 1) {
            *to = (char)byte;
            text += strlen("\\xff");
        } else {
            *to = *text++;
        }
    *to = '\0';
}

static void produce(const char *topic, int partition, const char *key, const char *value) {
    while (rd_kafka_producev(client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                             RD_KAFKA_V_KEY(key, key ? strlen(key) : 0),
                             RD_KAFKA_V_VALUE((void *)(size_t)value, value ? strlen(value) : 0),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(client, 100);
}

static void flush(void) {
    failed += rd_kafka_flush(client, cluster ? WAIT_MS : AWAY_MS) != 0;
    puts(failed ? "failed" : "ok");
}

static void load(const char *topic) {
    char line[LINE_SIZE], key[NAME_SIZE];
    int partition, at;
    while (fgets(line, sizeof line, stdin) && strcmp(line, ".\n") != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%d %255s %n", &partition, key, &at) == 2)
            produce(topic, partition, key, line + at);
    }
    flush();
}

static rd_kafka_t *open_reader(const char *group) {
    char why[LINE_SIZE];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster), why,
                      sizeof why);
    rd_kafka_conf_set(conf, "group.id", group, why, sizeof why);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", why, sizeof why);
    rd_kafka_conf_set(conf, "enable.partition.eof", "true", why, sizeof why);
    rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", why, sizeof why);
    rd_kafka_conf_set(conf, "fetch.wait.max.ms", "10", why, sizeof why);
    return rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
}

static void commit(const char *group, const char *topic, int partition, int offset) {
    rd_kafka_t *reader = open_reader(group);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
    puts(rd_kafka_commit(reader, list, 0) ? "failed" : "ok");
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(reader);
}

/* A client that reads a topic without a group: from its beginning, all partitions. */
static rd_kafka_t *reader_of(const char *topic, int partitions) {
    rd_kafka_t *reader = open_reader("dump");
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; partition++)
        rd_kafka_topic_partition_list_add(list, topic, partition)->offset =
            RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_poll_set_consumer(reader);
    rd_kafka_assign(reader, list);
    rd_kafka_topic_partition_list_destroy(list);
    return reader;
}

static void dump(const char *topic, int partitions) {
    rd_kafka_t *reader = reader_of(topic, partitions);
    int open = partitions;
    while (open > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reader, WAIT_MS);
        if (!message)
            break;
        if (!message->err)
            printf("%d %.*s %.*s\n", (int)message->partition, (int)message->key_len,
                   (const char *)message->key, (int)message->len, (const char *)message->payload);
        open -= message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(reader);
    rd_kafka_destroy(reader);
    puts(open ? "failed" : "ok");
}

/* ---- Topics of a real cluster ---- */

static int is_good(rd_kafka_event_t *event, bool made) {
    size_t count = 0;
    const rd_kafka_topic_result_t **topics = NULL;
    if (event && !rd_kafka_event_error(event))
        topics = made ? rd_kafka_CreateTopics_result_topics(
                            rd_kafka_event_CreateTopics_result(event), &count)
                      : rd_kafka_DeleteTopics_result_topics(
                            rd_kafka_event_DeleteTopics_result(event), &count);
    bool good = count == 1 && !rd_kafka_topic_result_error(topics[0]);
    if (event)
        rd_kafka_event_destroy(event);
    return good;
}

static void make(const char *topic, int partitions) {
    char why[LINE_SIZE];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_NewTopic_t *fresh =
        /* the cluster's default */
        rd_kafka_NewTopic_new(topic, partitions, -1, why, sizeof why);
    rd_kafka_CreateTopics(client, &fresh, 1, NULL, queue);
    puts(is_good(rd_kafka_queue_poll(queue, WAIT_MS), true) ? "ok" : "failed");
    rd_kafka_NewTopic_destroy(fresh);
    rd_kafka_queue_destroy(queue);
}

static void drop(const char *topic) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopic_t *old = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_DeleteTopics(client, &old, 1, NULL, queue);
    puts(is_good(rd_kafka_queue_poll(queue, WAIT_MS), false) ? "ok" : "failed");
    rd_kafka_DeleteTopic_destroy(old);
    rd_kafka_queue_destroy(queue);
}

static void obey(char *line) {
    char name[NAME_SIZE], key[NAME_SIZE], value[NAME_SIZE];
    int a, b, c = REFUSALS, at = 0;
    if (!cluster && sscanf(line, "topic %255s %d", name, &a) == 2) {
        make(name, a);
    } else if (!cluster && sscanf(line, "drop %255s", name) == 1) {
        drop(name);
    } else if (cluster && sscanf(line, "topic %255s %d", name, &a) == 2) {
        puts(rd_kafka_mock_topic_create(cluster, name, a, 1) ? "failed" : "ok");
    } else if (sscanf(line, "fill %255s %d %d %d", name, &a, &b, &c) == 4) {
        for (int n = b; n < c; n++) {
            snprintf(value, sizeof value, "%d %d", n, -n);
            produce(name, a, NULL, value);
        }
        flush();
    } else if (sscanf(line, "put %255s %d %255s %n", name, &a, key, &at) == 3 && at) {
        unescape(key);
        produce(name, a, key, line + at);
        flush();
    } else if (sscanf(line, "none %255s %d %255s", name, &a, key) == 3) {
        produce(name, a, key, NULL);
        flush();
    } else if (sscanf(line, "commit %255s %255s %d %d", key, name, &a, &b) == 4) {
        commit(key, name, a, b);
    } else if (sscanf(line, "load %255s", name) == 1) {
        load(name);
    } else if (!cluster) {
        puts("unknown");
    } else if (sscanf(line, "dump %255s %d", name, &a) == 2) {
        dump(name, a);
    } else if (sscanf(line, "wrong %255s %d", name, &a) == 2) {
        rd_kafka_mock_topic_set_error(cluster, name, a);
        puts("ok");
    } else if (sscanf(line, "refuse %d %d %d", &a, &b, &c) >= 2 && c <= REFUSALS) {
        rd_kafka_resp_err_t codes[REFUSALS];
        for (int i = 0; i < REFUSALS; i++)
            codes[i] = b;
        rd_kafka_mock_push_request_errors_array(cluster, (int16_t)a, (size_t)c, codes);
        puts("ok");
    } else if (strcmp(line, "down") == 0) {
        puts(rd_kafka_mock_broker_set_down(cluster, -1) ? "failed" : "ok");
    } else if (strcmp(line, "up") == 0) {
        puts(rd_kafka_mock_broker_set_up(cluster, -1) ? "failed" : "ok");
    } else {
        puts("unknown");
    }
}

int main(int count, char **words) {
    char why[LINE_SIZE], line[LINE_SIZE];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 1 && getenv("MOCK_KAFKA_SPEED"))
        speed = atoi(getenv("MOCK_KAFKA_SPEED"));
    if (count > 1) {
        rd_kafka_conf_set(conf, "bootstrap.servers", words[1], why, sizeof why);
        rd_kafka_conf_set(conf, "enable.idempotence", "true", why, sizeof why);
        rd_kafka_conf_set(conf, "partitioner", "murmur2_random", why, sizeof why);
        rd_kafka_conf_set(conf, "message.timeout.ms", "0", why, sizeof why);
        rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "1000", why, sizeof why);
    } else {
        rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", why, sizeof why);
    }
    rd_kafka_conf_set(conf, "linger.ms", "5", why, sizeof why);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    cluster = client ? rd_kafka_handle_mock_cluster(client) : NULL;
    if (!client || (!cluster && count == 1)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    puts(cluster ? rd_kafka_mock_cluster_bootstraps(cluster) : words[1]);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    rd_kafka_destroy(client);
    return 0;
}
