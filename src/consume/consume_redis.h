/* What the files that read streams of Redis share: consume_redis.c (the connection, the thread's
   turns), consume_redis_places.c (where partitions begin and how far they are, what the group is
   told), consume_redis_read.c (entries) and consume_redis_dead.c (dead letters). All of it is the
   thread's. */
#ifndef RUNNEL_CONSUME_REDIS_H
#define RUNNEL_CONSUME_REDIS_H

#include "brokers/redis_entry.h"
#include "brokers/url.h"
#include "consume_internal.h"

struct redis {
    struct url url;
    redisContext *context; /* under the mutex it is made and freed */
    uint64_t due;          /* of the next look */
    bool counts;           /* the server counts what was ever added: Redis 7 */
    bool had_fleet;        /* the group was a fleet's that read the stream; one that runs is */
    bool fleet_said;
    const char **words; /* (2 CONSUME_PARTITIONS_MAX + REDIS_READ_WORDS,) of XREAD */
    char (*ids)[REDIS_ID_SIZE];
    struct consume_partition **reading; /* (reading_count,) */
    size_t reading_count;
    size_t each;  /* entries of a stream that are asked for at once, and */
    size_t bytes; /* those that came then */
    char *object; /* an entry's fields as JSON */
};

enum { REDIS_READ_WORDS = 6 };

/* ---- consume_redis.c ---- */

/* Send a command; and the reply to the oldest one: none of an error unless that begins with
   `allowed`. `p` is the partition that the command is about. NULL, -1: as turn. */
int consume_redis_append(struct redis *redis, int count, const char **words, struct error *error);
redisReply *consume_redis_receive(struct redis *redis, const struct consume_partition *p,
                                  const char *allowed, struct error *error);

/* Both. */
redisReply *consume_redis_ask(struct redis *redis, const struct consume_partition *p, int count,
                              const char **words, const char *allowed, struct error *error);

/* ---- consume_redis_places.c ---- */

/* Whether a fleet that runs reads the stream with this group, of which this daemon is none: -1 at
   the start, and a warning later. */
int consume_redis_check_fleet(struct consume *consume, struct error *error);

/* Where a partition begins that the journal does not know: where the group stands, or as `from`
   says. */
int consume_redis_find_start(struct consume *consume, struct consume_partition *p,
                             struct error *error);

/* About once a second: what there is in each partition, and the group is told what is durable.
   `between`: all that was read has been put. */
int consume_redis_look(struct consume *consume, bool between, struct error *error);

/* ---- consume_redis_read.c ---- */

/* What is to be read now; and the next entries of it. */
int consume_redis_choose(struct consume *consume, struct error *error);
int consume_redis_read(struct consume *consume, struct error *error);

/* ---- consume_redis_dead.c ---- */

int consume_redis_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error);

#endif
