/* The Kafka operations of a fleet: connections, topics (fleet_kafka.h), messages and transactions.
   Errors are those of struct fleet_link_ops; one thread uses it. */
#ifndef RUNNEL_FLEET_KAFKA_CLIENT_H
#define RUNNEL_FLEET_KAFKA_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "brokers/kafka_link.h"
#include "common/error.h"
#include "fleet_link.h"

#define KAFKA_ANSWER 5.0 /* seconds: time limit of an answer */

enum {
    KAFKA_TOPIC_SIZE = FLEET_GROUP_MAX + sizeof ".streams",
    KAFKA_POLL_MS = 20,
};

/* Messages of one partition that belong together: all have the tag as their header. */
struct kafka_span {
    int64_t first, last; /* offsets; -1: not written yet */
    uint64_t tag;
};

/* The owner sets options, self and a random tag. */
struct fleet_client {
    const struct kafka_options *options;
    const struct fleet_self *self;
    char claims[KAFKA_TOPIC_SIZE], streams[KAFKA_TOPIC_SIZE], rounds[KAFKA_TOPIC_SIZE];
    uint64_t tag; /* the last tag */
    /* the reader for everything except claims; NULL: not created */
    rd_kafka_t *follower, *reader, *writer;
    struct error fatal;       /* text "": none */
    struct kafka_aim aim;     /* the current operation, for error messages */
    char why[KAFKA_WHY_SIZE]; /* the last reason why no server was reached */
    bool topics_known;        /* the topics exist and are valid */

    /* The writer. */
    bool writes;              /* a transaction is open */
    uint64_t number;          /* its number: reports of others are too late */
    size_t waits;             /* messages without a report */
    rd_kafka_resp_err_t code; /* 0: no failure so far */
    struct kafka_span *spans; /* (span_count,), in the order of kafka_span_new */
    size_t span_count;
};

/* Sets the error of a librdkafka code: EX_NOPERM or EX_TEMPFAIL. Returns -1. */
int kafka_fail(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error);

/* Derives the topic names from the group; call it first. Fails with EX_CONFIG if they are
   invalid. */
int kafka_name_topics(struct fleet_client *kafka, struct error *error);

/* Creates a reader and finds the topics, or creates them (`make`). Returns 1 if the fleet has
   none. */
int kafka_connect(struct fleet_client *kafka, bool make, struct error *error);
void kafka_disconnect(struct fleet_client *kafka);

/* Creates a client. With NULL settings, `error` has the reason. Fails with EX_CONFIG. */
int kafka_make(struct fleet_client *kafka, rd_kafka_type_t type, rd_kafka_conf_t *conf,
               rd_kafka_t **client, struct error *error);

/* Handles the clients' events. Returns -1 if access is denied. */
int kafka_listen(struct fleet_client *kafka, struct error *error);

/* Writes: a daemon in a transaction, which kafka_begin opens unless one is open; a tool without
   one. A daemon's messages become visible when kafka_commit succeeds. `group` and `offsets` are
   both set or both NULL. With them, the commit fails if the group has another generation (*fenced).
   After a failure and kafka_abort, the messages do not count, or the result is unknown. */
int kafka_begin(struct fleet_client *kafka, struct error *error);
int kafka_write(struct fleet_client *kafka, const char *topic, int32_t partition, const void *key,
                size_t key_size, const void *bytes, size_t size, size_t span, struct error *error);
int kafka_commit(struct fleet_client *kafka, const rd_kafka_consumer_group_metadata_t *group,
                 const rd_kafka_topic_partition_list_t *offsets, bool *fenced, struct error *error);
void kafka_abort(struct fleet_client *kafka);

/* Adds a span to the open transaction, for kafka_write; `tag` 0: a new tag. Returns SIZE_MAX if out
   of memory. kafka_wait sets its offsets; -1: not all messages were written. */
size_t kafka_span_new(struct fleet_client *kafka, uint64_t tag);
int kafka_wait(struct fleet_client *kafka, struct error *error);

/* Finds the first offset and the one after the last, including open transactions. */
int kafka_offsets(struct fleet_client *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error);

/* Finds the fleets that have topics. */
int kafka_groups(struct fleet_client *kafka, struct fleet_groups *groups, struct error *error);

int kafka_has_topic(struct fleet_client *kafka, const char *topic, bool *is_there,
                    struct error *error);

/* Counts the partitions of a topic; 0: it does not exist. A cluster may create a topic on
   request. */
int kafka_count(struct fleet_client *kafka, const char *topic, int *count, struct error *error);

/* Reads the group's committed offsets of a topic: (count,), below 0: none. */
int kafka_committed(struct fleet_client *kafka, const char *topic, int64_t *offsets, int count,
                    struct error *error);

/* Writes a stream's state in the open transaction, and reads the states of spans, each stream's
   newest. Fails with EX_UNAVAILABLE if there are not as many states as expected. */
int kafka_write_row(struct fleet_client *kafka, int32_t partition, size_t span,
                    const struct fleet_row *row, struct error *error);
int kafka_read_rows(struct fleet_client *kafka, int32_t partition, const struct kafka_span *spans,
                    size_t count, uint64_t streams, fleet_visit *visit, void *context,
                    struct error *error);

/* Writes and reads bytes of GROUP.rounds; the reader frees them. */
int kafka_write_bytes(struct fleet_client *kafka, const void *bytes, size_t size, size_t span,
                      struct error *error);
int kafka_read_bytes(struct fleet_client *kafka, const struct kafka_span *span, void **bytes,
                     size_t *size, struct error *error);

#endif
