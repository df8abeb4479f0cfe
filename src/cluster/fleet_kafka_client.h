/* What a fleet asks of Kafka: connections, its three topics (fleet_kafka.h), messages and bytes
   there. Errors as of struct fleet_link_ops; one thread uses it. */
#ifndef RUNNEL_FLEET_KAFKA_CLIENT_H
#define RUNNEL_FLEET_KAFKA_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "brokers/kafka_link.h"
#include "common/error.h"
#include "fleet_machine.h"
#include "fleet_rows.h"

#define KAFKA_ANSWER 5.0 /* seconds, for whatever is asked */

enum {
    KAFKA_TOPIC_SIZE = FLEET_GROUP_MAX + sizeof ".parameters",
    KAFKA_POLL_MS = 20,
    KAFKA_TOPICS = 3,
};

/* What is written at once. */
struct kafka_batch {
    uint64_t number; /* a report of another one comes too late */
    size_t waits;
    int64_t first, last; /* offsets */
    rd_kafka_resp_err_t code;
};

/* Filled in by who has it: options, self, the topics' names, and a tag at random. */
struct fleet_client {
    const struct kafka_options *options;
    const struct fleet_self *self;
    char log[KAFKA_TOPIC_SIZE], states[KAFKA_TOPIC_SIZE], parameters[KAFKA_TOPIC_SIZE];
    uint64_t tag;                           /* the last one */
    rd_kafka_t *follower, *reader, *writer; /* of the log, what else is asked; NULL: to be made */
    rd_kafka_topic_t *topics[KAFKA_TOPICS]; /* of the writer */
    rd_kafka_queue_t *answers;              /* of the reader, for what nobody waits for */
    struct error fatal;                     /* text "": none */
    struct kafka_aim aim;                   /* what is done now, for what it fails with */
    char why[KAFKA_WHY_SIZE];               /* the newest that a server could not be reached for */
    struct kafka_batch batch;
    bool topics_known;   /* they are there, and as they should be */
    bool warmed_up;      /* a later writer comes after a failure: asking may take long */
    bool deleting_fails; /* that is said */
};

/* What a code of librdkafka's means: EX_NOPERM, else EX_TEMPFAIL. Returns -1. */
int kafka_fail(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error);

/* Whether it says that a topic is not there. */
bool kafka_is_unknown(rd_kafka_resp_err_t code);

/* A reader, and the topics; `make`: they are made where they are not there. 1: the fleet has none.
 */
int kafka_connect(struct fleet_client *kafka, bool make, struct error *error);
void kafka_disconnect(struct fleet_client *kafka);

/* What the clients have to tell; -1: this user is not admitted. */
int kafka_listen(struct fleet_client *kafka, struct error *error);

/* Messages from kafka_begin to kafka_finish are in order, and those of one link all; in the end the
   broker has all of them, or it is not known which. */
int kafka_begin(struct fleet_client *kafka, struct error *error);
int kafka_write(struct fleet_client *kafka, const char *topic, int32_t partition, const char *key,
                const void *bytes, size_t size, struct error *error);
int kafka_finish(struct fleet_client *kafka, struct error *error);

/* The first offset that there is, and the one after the last. */
int kafka_offsets(struct fleet_client *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error);

/* What is before the offset is not needed any more. Nobody waits for that. */
void kafka_delete_before(struct fleet_client *kafka, const char *topic, int32_t partition,
                         int64_t offset);

int kafka_groups(struct fleet_client *kafka, struct fleet_groups *groups, struct error *error);

/* Rows, or any bytes, as messages of a topic. The span has a new tag, or is continued where it has
   one. */
int kafka_write_rows(struct fleet_client *kafka, int32_t partition, const struct fleet_row *rows,
                     size_t count, struct fleet_span *span, struct error *error);
int kafka_write_bytes(struct fleet_client *kafka, const void *bytes, size_t size,
                      struct fleet_span *span, struct error *error);

/* All bytes of a span, to be freed. EX_UNAVAILABLE: they are not there any more. */
int kafka_read(struct fleet_client *kafka, const char *topic, int32_t partition,
               const struct fleet_span *span, unsigned char **bytes, size_t *size,
               struct error *error);

/* The states of several publications, each stream's newest. */
int kafka_visit(struct fleet_client *kafka, size_t partition, const struct fleet_publication *list,
                size_t count, uint64_t streams, fleet_visit *visit, void *context,
                struct error *error);

#endif
