/* What a fleet asks of Kafka: connections, its topics (fleet_kafka.h), messages and transactions
   there. Errors as of struct fleet_link_ops; one thread uses it. */
#ifndef RUNNEL_FLEET_KAFKA_CLIENT_H
#define RUNNEL_FLEET_KAFKA_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "brokers/kafka_link.h"
#include "common/error.h"
#include "fleet_link.h"

#define KAFKA_ANSWER 5.0 /* seconds, for whatever is asked */

enum {
    KAFKA_TOPIC_SIZE = FLEET_GROUP_MAX + sizeof ".streams",
    KAFKA_POLL_MS = 20,
};

/* Messages of one partition that belong together: all have the tag as their header. */
struct kafka_span {
    int64_t first, last; /* offsets; -1: none is written yet */
    uint64_t tag;
};

/* Filled in by who has it: options, self, and a tag at random. */
struct fleet_client {
    const struct kafka_options *options;
    const struct fleet_self *self;
    char claims[KAFKA_TOPIC_SIZE], streams[KAFKA_TOPIC_SIZE], rounds[KAFKA_TOPIC_SIZE];
    uint64_t tag;                           /* the last one */
    rd_kafka_t *follower, *reader, *writer; /* of claims, what else is asked; NULL: to be made */
    struct error fatal;                     /* text "": none */
    struct kafka_aim aim;                   /* what is done now, for what it fails with */
    char why[KAFKA_WHY_SIZE];               /* the newest that a server could not be reached for */
    bool topics_known;                      /* they are there, and as they should be */

    /* What is being written. */
    bool writes;              /* a transaction is open, */
    uint64_t number;          /* this one: a report of another one comes too late */
    size_t waits;             /* messages without an answer */
    rd_kafka_resp_err_t code; /* 0: all went well so far */
    struct kafka_span *spans; /* (span_count,), in the order of kafka_span_new */
    size_t span_count;
};

/* What a code of librdkafka's means: EX_NOPERM, else EX_TEMPFAIL. Returns -1. */
int kafka_fail(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error);

/* Of the group, before anything else. EX_CONFIG: no topic can be called so. */
int kafka_name_topics(struct fleet_client *kafka, struct error *error);

/* A reader, and the topics; `make`: they are made where they are not there. 1: the fleet has none.
 */
int kafka_connect(struct fleet_client *kafka, bool make, struct error *error);
void kafka_disconnect(struct fleet_client *kafka);

/* A client; NULL settings: `error` says why. EX_CONFIG. */
int kafka_make(struct fleet_client *kafka, rd_kafka_type_t type, rd_kafka_conf_t *conf,
               rd_kafka_t **client, struct error *error);

/* What the clients have to tell; -1: this user is not admitted. */
int kafka_listen(struct fleet_client *kafka, struct error *error);

/* Write: a daemon in a transaction, which kafka_begin opens unless one is open; a tool without. All
   is in the topics once kafka_commit says so, and for a daemon not before; `group` and `offsets`
   (both or neither): with them, unless the group has another generation by now (*fenced). After a
   failure, and kafka_abort, it counts for nothing, or it is not known whether it does. */
int kafka_begin(struct fleet_client *kafka, struct error *error);
int kafka_write(struct fleet_client *kafka, const char *topic, int32_t partition, const void *key,
                size_t key_size, const void *bytes, size_t size, size_t span, struct error *error);
int kafka_commit(struct fleet_client *kafka, const rd_kafka_consumer_group_metadata_t *group,
                 const rd_kafka_topic_partition_list_t *offsets, bool *fenced, struct error *error);
void kafka_abort(struct fleet_client *kafka);

/* A span of the open transaction for kafka_write; `tag` 0: a new one. SIZE_MAX: out of memory. Its
   offsets are known after kafka_wait: -1, not all were written. */
size_t kafka_span_new(struct fleet_client *kafka, uint64_t tag);
int kafka_wait(struct fleet_client *kafka, struct error *error);

/* The first offset that there is, and the one after the last, of open transactions, too. */
int kafka_offsets(struct fleet_client *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error);

/* The fleets that have topics. */
int kafka_groups(struct fleet_client *kafka, struct fleet_groups *groups, struct error *error);

int kafka_has_topic(struct fleet_client *kafka, const char *topic, bool *is_there,
                    struct error *error);

/* How many partitions a topic has; 0: it is not there. A cluster may make one that is asked for. */
int kafka_count(struct fleet_client *kafka, const char *topic, int *count, struct error *error);

/* What the group has committed of a topic: (count,) offsets, below 0: nothing. */
int kafka_committed(struct fleet_client *kafka, const char *topic, int64_t *offsets, int count,
                    struct error *error);

/* A stream's state, of a partition, in the open transaction; and the states of spans, each stream's
   newest. EX_UNAVAILABLE: they are not all there, which are so many. */
int kafka_write_row(struct fleet_client *kafka, int32_t partition, size_t span,
                    const struct fleet_row *row, struct error *error);
int kafka_read_rows(struct fleet_client *kafka, int32_t partition, const struct kafka_span *spans,
                    size_t count, uint64_t streams, fleet_visit *visit, void *context,
                    struct error *error);

/* Likewise bytes of GROUP.rounds; what is read is to be freed. */
int kafka_write_bytes(struct fleet_client *kafka, const void *bytes, size_t size, size_t span,
                      struct error *error);
int kafka_read_bytes(struct fleet_client *kafka, const struct kafka_span *span, void **bytes,
                     size_t *size, struct error *error);

#endif
