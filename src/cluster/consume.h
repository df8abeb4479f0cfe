/* The daemon reads a broker itself: streams of Redis, or a topic of Kafka. The unit is a partition,
   whose messages have places that rise; where reading resumes is the journal's to say (its rows of
   places, which are committed with the entries themselves), never the broker's. So a message is
   learned once, whoever is killed: daemon, broker, or what is between them.

   A thread of its own connects, again and again, reads, and makes examples of messages
   (brokers/message.h, sockets/decode.h). They wait in a queue of CONSUME_QUEUE messages or
   CONSUME_QUEUE_BYTES; while that is full, nothing is read. All functions here are the learning
   thread's, and none of them waits for the broker.

   A message that is no example, or that the learning thread refuses, is a dead letter: the broker
   has it in the stream NAME.dead before its place is the caller's to note. */
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

/* Where in a partition a message is: the numbers of its example. Of Kafka epoch is 0 and sequence
   the offset; of Redis, id MS-N, epoch is MS / 2^32 and sequence (MS modulo 2^32) 2^21 + N. */
struct consume_place {
    uint32_t epoch;
    uint64_t sequence;
    uint64_t count; /* messages of the partition up to this one, as far as is known: for the lag */
};

/* As the broker writes it: "1795385175123-0", "42". */
void consume_print(const struct consume *consume, const struct consume_place *place,
                   char text[CONSUME_PLACE_SIZE]);

/* The brokers, each where its library is there: Redis with RUNNEL_REDIS, Kafka with RUNNEL_KAFKA.
 */
extern const struct consume_ops consume_redis, consume_kafka;

/* Start the thread; nothing is read until consume_start. The model must outlive it. EX_CONFIG: what
   is wrong with the configuration. */
int consume_open(struct consume **consume, const struct consume_ops *ops,
                 const struct config *config, const struct model *model, struct error *error);
void consume_close(struct consume **consume);

/* Readable when consume_take may have something, or partitions have become known. */
int consume_descriptor(const struct consume *consume);

/* What is read, and words for sentences. */
struct consume_about {
    const char *endpoint;        /* "redis://127.0.0.1:6379 sensors" */
    const char *stream, *group;  /* of the configuration; Kafka: a topic */
    const char *where;           /* the broker */
    const char *keeps;           /* what it has to be told not to lose what it has answered */
    const char *counts, *regain; /* what says how many partitions there are, and how to mend it */
    const char *belongs;         /* to which partition a stream belongs, and who has to know */
};
const struct consume_about *consume_about(const struct consume *consume);

/* The link of a fleet over the same broker, which lives at most as long as this. `self` gets the
   digest of all that its daemons must have alike. As fleet_redis_open. */
int consume_link(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                 struct error *error);

/* ---- Which partitions are read ---- */

/* How many there are: of Redis as configured, of Kafka once it has said so (0 before). It only
   grows. */
size_t consume_partitions(const struct consume *consume);

/* What the journal calls it: "redis:sensors", "redis:sensors.3", "kafka:sensors[3]". For people it
   is what follows the colon. */
const char *consume_name(const struct consume *consume, size_t partition);
const char *consume_title(const struct consume *consume, size_t partition);

/* Whether the journal may call a partition of the same stream so, one that is there or not. */
bool consume_calls_so(const struct consume *consume, const char *name);

/* To which of the first `count` partitions a key belongs, as those who write to the broker choose
   it. A stream that is called as one of them ("sensors.3" of Redis, "sensors[3]" of Kafka), as
   messages without a key are, belongs there; any other where the hash of its key says: of Redis
   FNV-1a of 64 bits modulo `count`, of Kafka what examples.kafka.partitioner is. */
size_t consume_partition_of(const struct consume *consume, size_t count, const char *key,
                            size_t key_size);

/* Whose numbers the partition's examples have: a hash of broker's kind and name, never 0. So the
   entries of a journal tell their partition. */
uint64_t consume_producer(const struct consume *consume, size_t partition);

/* Read the partition from the message after `after` on; NULL: from where the group stands at the
   broker, else where the key `from` says. It must not be read already. */
void consume_start(struct consume *consume, size_t partition, const struct consume_place *after);

/* Read it no more. What of it waits in the queue is dropped: consume_take gives nothing more of it.
   It may be started again, at any place. */
void consume_stop(struct consume *consume, size_t partition);

bool consume_is_read(const struct consume *consume, size_t partition);

/* ---- Messages ---- */

struct consume_message {
    size_t partition;
    struct consume_place place;
    bool dead;              /* no example: a dead letter, which the broker has by now; */
    enum reject_reason why; /* then this is why, */
    char text[REJECT_WHY_SIZE];
    struct example example; /* else this is it: numbered by partition and place. Valid until the
                               next call. Of a dead letter key and numbers only */
};

/* The next message, never waiting. 1; 0: none is there; -1: reading cannot continue, and `error`
   says why (EX_UNAVAILABLE, EX_CONFIG). */
int consume_take(struct consume *consume, struct consume_message *message, struct error *error);

/* The message that consume_take gave last is refused, too (never learned, its place not noted):
   consume_take gives nothing until the broker has the dead letter, and then the message again, as a
   dead one. */
void consume_refuse(struct consume *consume, enum reject_reason why, const char *text);

/* ---- What is durable ---- */

/* All of the partition up to this place is on disk: the group at the broker is told, about once a
   second (for people: it decides nothing). */
void consume_durable(struct consume *consume, size_t partition, const struct consume_place *place);

/* ---- What there is to know ---- */

struct consume_figures {
    const char *name;
    bool read;                  /* whether it is read now */
    struct consume_place taken; /* by consume_take; sequence of one not begun: 0 */
    struct consume_place durable;
    int64_t lag;         /* messages after the durable one; -1 = unknown */
    uint64_t dead, lost; /* dead letters; messages that were gone before they were read */
};

void consume_figures(const struct consume *consume, size_t partition,
                     struct consume_figures *figures);

/* Seconds since the broker has answered; 0 = it answers. */
double consume_away(const struct consume *consume);

#endif
