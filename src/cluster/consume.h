/* The daemon reads Redis streams or a Kafka topic itself. The unit is a partition, whose messages
   have rising places. The journal decides where reading resumes: it commits places together with
   the entries. So each message is learned once, even if the daemon or the broker is killed.

   A thread connects, reads and decodes messages (brokers/message.h, sockets/decode.h). Its queue
   holds at most CONSUME_QUEUE messages or CONSUME_QUEUE_BYTES; reading stops while it is full. All
   functions here belong to the learning thread and never wait for the broker.

   A message that is not an example, or that the learning thread rejects, becomes a dead letter: the
   thread writes it to the stream NAME.dead before the caller notes its place. */
#ifndef RUNNEL_CONSUME_H
#define RUNNEL_CONSUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/example.h"
#include "config/config.h"
#include "sockets/frames.h"

struct consume;
struct consume_ops;
struct error;
struct fleet_link;
struct fleet_self;
struct model;

enum {
    CONSUME_QUEUE = 1024,
    CONSUME_QUEUE_BYTES = 16 << 20,
    CONSUME_PARTITIONS_MAX = 4096,
    CONSUME_NAME_SIZE = 320,
    CONSUME_PLACE_SIZE = 48,
};

/* The place of a message in a partition: the numbers of its example. Kafka: epoch is 0 and sequence
   the offset. Redis, ID MS-N: epoch is MS / 2^32, sequence is (MS modulo 2^32) 2^21 + N. */
struct consume_place {
    uint32_t epoch;
    uint64_t sequence;
    uint64_t count; /* messages of the partition up to this one, if known; used for the lag */
};

/* Prints the broker's notation: "1795385175123-0", "42". */
void consume_print(const struct consume *consume, const struct consume_place *place,
                   char text[CONSUME_PLACE_SIZE]);

/* The brokers: Redis is present with RUNNEL_REDIS, Kafka with RUNNEL_KAFKA. */
extern const struct consume_ops consume_redis, consume_kafka;

/* Starts the thread; reading begins with consume_start. The model must outlive it. Fails with
   EX_CONFIG if the configuration is invalid. */
int consume_open(struct consume **consume, const struct consume_ops *ops,
                 const struct config *config, const struct model *model, struct error *error);
void consume_close(struct consume **consume);

/* Readable when consume_take may have a message, or when new partitions are known. */
int consume_descriptor(const struct consume *consume);

/* Names of the source and words for messages. */
struct consume_about {
    const char *endpoint;       /* "redis://127.0.0.1:6379 sensors" */
    const char *stream, *group; /* as configured; Kafka: a topic */
    const char *where;          /* the broker */
    const char *keeps;          /* the setting that keeps acknowledged data */
    /* the setting for the number of partitions, and the way to restore it */
    const char *counts, *regain;
    const char *belongs; /* the rule that assigns streams to partitions */
};
const struct consume_about *consume_about(const struct consume *consume);

/* Opens the link of a fleet over the same broker; it must not outlive this. Sets the digest of
   `self` to the settings that all daemons must share. See fleet_redis_open. */
int consume_link(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                 struct error *error);

/* ---- Partitions ---- */

/* The number of partitions, which only grows. Redis: as configured. Kafka: 0 until the cluster has
   answered. */
size_t consume_partitions(const struct consume *consume);

/* Name of a partition in the journal: "redis:sensors", "redis:sensors.3", "kafka:sensors[3]". The
   title is the part after the colon. */
const char *consume_name(const struct consume *consume, size_t partition);
const char *consume_title(const struct consume *consume, size_t partition);

/* Whether the name is one of a partition of the same stream, even of a missing one. */
bool consume_calls_so(const struct consume *consume, const char *name);

/* Finds which of the first `count` partitions a key belongs to, by the rule of the broker's
   writers. A stream with a partition's name ("sensors.3" of Redis, "sensors[3]" of Kafka) belongs
   to it; messages without a key have such names. Otherwise a hash of the key decides. */
size_t consume_partition_of(const struct consume *consume, size_t count, const char *key,
                            size_t key_size);

/* The producer of the partition's examples: a hash of the broker's kind and name, never 0. It
   identifies the partition of a journal entry. */
uint64_t consume_producer(const struct consume *consume, size_t partition);

/* Starts reading a partition after `after`. NULL: after the place of its group at the broker, or
   else where the key `from` requests. The partition must not be started already. */
void consume_start(struct consume *consume, size_t partition, const struct consume_place *after);

/* Stops reading a partition and drops its queued messages. It may be started again, at any
   place. */
void consume_stop(struct consume *consume, size_t partition);

bool consume_is_read(const struct consume *consume, size_t partition);

/* ---- Messages ---- */

struct consume_message {
    size_t partition;
    struct consume_place place;
    bool dead;              /* not an example; the dead letter is written */
    enum reject_reason why; /* the reason, if dead */
    char text[REJECT_WHY_SIZE];
    /* The example, numbered by partition and place, valid until the next call. A dead letter has
       only key and numbers. */
    struct example example;
};

/* Takes the next message without waiting. Returns 1; 0 if none is queued; -1 if reading cannot
   continue (EX_UNAVAILABLE, EX_CONFIG). */
int consume_take(struct consume *consume, struct consume_message *message, struct error *error);

/* Rejects the message that consume_take returned last; it must not be learned, nor its place noted.
   consume_take returns nothing until the dead letter is written, and then the same message as a
   dead one. */
void consume_refuse(struct consume *consume, enum reject_reason why, const char *text);

/* ---- Durable places ---- */

/* Reports that the partition is on disk up to this place. The thread forwards it to the broker's
   group about once a second, only as information. */
void consume_durable(struct consume *consume, size_t partition, const struct consume_place *place);

/* ---- Status ---- */

struct consume_figures {
    const char *name;
    bool read;                  /* whether the partition is read now */
    struct consume_place taken; /* the newest place that consume_take returned; sequence 0: none */
    struct consume_place durable;
    int64_t lag;         /* messages after the durable place; -1 = unknown */
    uint64_t dead, lost; /* dead letters, and messages that were deleted before they were read */
};

void consume_figures(const struct consume *consume, size_t partition,
                     struct consume_figures *figures);

/* Seconds since the broker's last answer; 0 while it answers. */
double consume_away(const struct consume *consume);

#endif
