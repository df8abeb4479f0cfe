/* The link over Kafka, for its own files: fleet_kafka.c (what a link does), fleet_kafka_client.c
   (clients, writing), fleet_kafka_topics.c, fleet_kafka_log.c (commands), fleet_kafka_bytes.c
   (states and parameters). Errors as of struct fleet_link_ops. */
#ifndef RUNNEL_FLEET_KAFKA_INTERNAL_H
#define RUNNEL_FLEET_KAFKA_INTERNAL_H

#include <stdint.h>

#include "brokers/kafka_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "fleet_kafka.h"
#include "fleet_machine.h"
#include "fleet_rows.h"

#define KAFKA_MS 1e3
#define KAFKA_ANSWER 5.0 /* seconds, for whatever is asked */

enum {
    KAFKA_TOPIC_SIZE = FLEET_GROUP_MAX + sizeof ".parameters",
    KAFKA_NAME_MAX = 249, /* of a topic */
    KAFKA_ASK_MS = 2000,  /* for one answer, where that is tried again */
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

/* States of one partition that are not committed yet. */
struct kafka_staged {
    size_t partition;
    uint64_t claim, serial;
    struct fleet_span span;
};

struct kafka {
    struct fleet_link link;
    const struct kafka_options *options;
    const struct fleet_self *self;
    char log[KAFKA_TOPIC_SIZE], states[KAFKA_TOPIC_SIZE], parameters[KAFKA_TOPIC_SIZE];
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

    /* The log. */
    rd_kafka_topic_t *log_topic; /* NULL: not read */
    struct fleet_machine *machine;
    int64_t snapshots;                  /* messages from one to the next */
    int64_t next;                       /* offset of the message that comes next */
    int64_t restored;                   /* before that the machine is of long ago */
    bool snapshot_passed, snapshot_due; /* somebody is to write one; this daemon is */
    char run[FLEET_ID_SIZE];
    uint64_t number;  /* of the last command */
    double renew_due; /* clock_seconds */

    uint64_t tag; /* the last one */
    struct kafka_staged *staged;
    size_t staged_count;
};

static inline struct kafka *kafka_of(struct fleet_link *link) {
    return (struct kafka *)link;
}

/* Milliseconds. */
static inline uint64_t kafka_lease(const struct kafka *kafka) {
    return (uint64_t)(kafka->self->lease * KAFKA_MS);
}

static inline uint64_t kafka_now(void) {
    double now = clock_unix();
    return now > 0 ? (uint64_t)(now * KAFKA_MS) : 0;
}

/* Kafka's first offset is 0: in the log an offset is one more, and 0 says that nothing of the
   partition is learned. False: that. */
static inline bool kafka_from_log(struct fleet_offset *offset) {
    bool some = offset->sequence > 0;
    offset->sequence -= some;
    return some;
}

/* ---- fleet_kafka.c ---- */

/* Whether a member got what it asked for: -1. */
int kafka_judge(const struct kafka *kafka, const struct fleet_answer *answer, struct error *error);

/* A member's command: kafka_command and kafka_judge. */
int kafka_ask(struct kafka *kafka, struct fleet_command *command, struct fleet_answer *answer,
              struct error *error);

/* ---- fleet_kafka_client.c ---- */

/* What a code of librdkafka's means: EX_NOPERM, else EX_TEMPFAIL. Returns -1. */
int kafka_fail(struct kafka *kafka, rd_kafka_resp_err_t code, struct error *error);

/* Whether it says that a topic is not there. */
bool kafka_is_unknown(rd_kafka_resp_err_t code);

/* A reader, and the topics; `make`: they are made where they are not there. 1: the fleet has none.
 */
int kafka_connect(struct kafka *kafka, bool make, struct error *error);
void kafka_disconnect(struct kafka *kafka);

/* Messages from kafka_begin to kafka_finish are in order, and those of one link all; in the end the
   broker has all of them, or it is not known which. */
int kafka_begin(struct kafka *kafka, struct error *error);
int kafka_write(struct kafka *kafka, const char *topic, int32_t partition, const char *key,
                const void *bytes, size_t size, struct error *error);
int kafka_finish(struct kafka *kafka, struct error *error);

/* The first offset that there is, and the one after the last. */
int kafka_offsets(struct kafka *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error);

/* What is before the offset is not needed any more. Nobody waits for that. */
void kafka_delete_before(struct kafka *kafka, const char *topic, int32_t partition, int64_t offset);

/* What the clients have to tell; -1: this user is not admitted. */
int kafka_listen(struct kafka *kafka, struct error *error);

/* ---- fleet_kafka_topics.c ---- */

/* How many partitions a topic has; 0: it is not there. */
int kafka_count(struct kafka *kafka, const char *name, int *count, struct error *error);

/* The fleet's topics, which are made where they are not there. */
int kafka_have_topics(struct kafka *kafka, struct error *error);

/* As of struct fleet_link_ops. */
int kafka_groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error);

/* ---- fleet_kafka_log.c ---- */

/* The machine as it was not long ago: connected, all that has come is applied. `make` as of
   kafka_connect. 1: there is no log. */
int kafka_follow(struct kafka *kafka, bool make, struct error *error);

/* All that is in the log by now. */
int kafka_catch_up(struct kafka *kafka, struct error *error);

/* The command's number, run and daemon are filled in; `answer` is of now: nothing that comes after
   the command in the log has been applied. */
int kafka_command(struct kafka *kafka, struct fleet_command *command, struct fleet_answer *answer,
                  struct error *error);

/* Before a function that gives answers returns: append a snapshot where it is time. */
void kafka_snapshot(struct kafka *kafka);

/* The log is read from its beginning the next time. */
void kafka_forget_log(struct kafka *kafka);

/* ---- fleet_kafka_bytes.c ---- */

/* Rows, or any bytes, as messages of a topic. The span has a new tag, or is continued where it has
   one. */
int kafka_write_rows(struct kafka *kafka, int32_t partition, const struct fleet_row *rows,
                     size_t count, struct fleet_span *span, struct error *error);
int kafka_write_bytes(struct kafka *kafka, const void *bytes, size_t size, struct fleet_span *span,
                      struct error *error);

/* All bytes of a span, to be freed. EX_UNAVAILABLE: they are not there any more. */
int kafka_read(struct kafka *kafka, const char *topic, int32_t partition,
               const struct fleet_span *span, unsigned char **bytes, size_t *size,
               struct error *error);

/* The states of several publications, each stream's newest. */
int kafka_visit(struct kafka *kafka, size_t partition, const struct fleet_publication *list,
                size_t count, uint64_t streams, fleet_visit *visit, void *context,
                struct error *error);

/* ---- fleet_kafka_claims.c, fleet_kafka_rounds.c: as of struct fleet_link_ops ---- */

int kafka_take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
               struct error *error);
int kafka_ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                struct error *error);
int kafka_settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                 struct error *error);
int kafka_stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                const struct fleet_row *rows, size_t count, struct error *error);
int kafka_commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                 struct error *error);
int kafka_states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                 struct error *error);
int kafka_arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                 uint64_t *round, struct error *error);
int kafka_pass(struct fleet_link *link, uint64_t round, struct error *error);
int kafka_round(struct fleet_link *link, uint64_t round, char **names, struct error *error);
int kafka_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                     size_t *size, struct error *error);

#endif
