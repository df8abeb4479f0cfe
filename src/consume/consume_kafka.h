/* What the files that read a topic of Kafka share: consume_kafka.c (the client, the thread's turns,
   messages), consume_kafka_places.c (which partitions there are, where they begin, what is durable
   of them) and consume_kafka_dead.c (dead letters). All of it is the thread's. */
#ifndef RUNNEL_CONSUME_KAFKA_H
#define RUNNEL_CONSUME_KAFKA_H

#include "brokers/kafka_link.h"
#include "consume_internal.h"

enum { KAFKA_ASK_MS = 1000 /* for an answer of the cluster */ };

struct kafka {
    struct kafka_options options;
    rd_kafka_t *client, *writer; /* writer: of dead letters */
    bool assigned;               /* as it is wanted now, */
    bool reads;                  /* which is something */
    uint64_t due, count_due;     /* of the next look */
    bool written;                /* the dead letter, unless for this reason: */
    rd_kafka_resp_err_t refused;
    struct error fatal; /* text "": none */
    bool missing_said, down;
    char said[KAFKA_WHY_SIZE]; /* the newest that a partition could not be read for, */
    char why[KAFKA_WHY_SIZE];  /* and a server not be reached; "": none */
};

/* ---- consume_kafka.c ---- */

/* An error that librdkafka, or an answer, has told: `fatal` is set, or it is said to be away. */
void consume_kafka_error(rd_kafka_t *client, int code, const char *reason, void *consume);

void consume_kafka_print(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]);

/* ---- consume_kafka_places.c ---- */

/* Say once that there is no such topic. */
void consume_kafka_missing(struct consume *consume);

/* How many partitions the topic has: new ones become known. EX_TEMPFAIL: no answer. */
int consume_kafka_count(struct consume *consume, struct error *error);

/* The offset that is read next. */
int64_t consume_kafka_next(const struct consume_partition *p);

/* Whether the topic still has that: what was before its oldest message is lost, counted and said.
   EX_UNAVAILABLE: it ends before; EX_DATAERR: and does so for longer than a new leader may need. */
int consume_kafka_check(struct consume *consume, struct consume_partition *p, struct error *error);

/* All that is to be read is assigned, from where it is. */
int consume_kafka_assign(struct consume *consume, struct error *error);

/* About once a second: the group is told what is durable, and lags are measured; and at the end. */
int consume_kafka_look(struct consume *consume, struct error *error);
void consume_kafka_commit_last(struct consume *consume);

/* ---- consume_kafka_dead.c ---- */

int consume_kafka_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error);

#endif
