/* Reads entries of a consumer group of Redis, and acknowledges them: over a connection that is made
   again when it breaks. First comes what the group has for this consumer and was not acknowledged,
   then what other consumers have not acknowledged, then what is new. */
#ifndef RUNNEL_FEED_REDIS_READER_H
#define RUNNEL_FEED_REDIS_READER_H

#include <hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brokers/url.h"
#include "streams/feed_retry.h"

struct error;
struct pending;

struct redis_topic {
    const char *name;
    uint64_t first, second; /* id of the newest entry that came for this consumer */
};

/* One that has not acknowledged all that it was given. */
struct redis_other {
    struct redis_topic *topic;
    char *consumer;
    uint64_t first, second; /* as far as it was read */
};

struct redis_reader {
    struct url url; /* set these before reader_open: */
    const char *group, *consumer, *from;
    uint64_t batch;
    double take_over; /* seconds */

    struct retry retry;
    struct redis_topic *topics; /* (count,) */
    size_t count;
    redisContext *context;
    bool ready;                 /* the connection is set up */
    bool closing;               /* nobody else is listened to */
    bool any;                   /* the newest reply had entries */
    size_t owed;                /* replies that nobody waits for any more */
    size_t read;                /* topics whose entries of before have been read */
    struct redis_other *others; /* (other_count,) from the last one on */
    size_t other_count;
    bool others_known; /* of topics[read] */

    redisReply *reply;             /* of which these are handed out: */
    const redisReply *entries;     /* of one topic, */
    struct redis_topic *topic;     /* this one */
    size_t topic_at, at;           /* the next topic in the reply, the next entry */
    const char *reply_of;          /* whose entries they are */
    struct redis_other *read_from; /* likewise; NULL: this consumer's */
};

struct redis_entry {
    struct redis_topic *topic;
    const char *stream, *consumer; /* whose it is */
    uint64_t first, second;        /* its id */
    const redisReply *fields;      /* a list: name, value, ..; NULL: the entry was deleted */
};

/* `operands`: names of the streams, ended by NULL. */
int reader_open(struct redis_reader *reader, char **operands, struct error *error);

/* The next entry: 1, valid until the next call. Meanwhile what is settled of `pending` (with the
   topic as `what`) is acknowledged. -1: FEED_INTERRUPTED; EX_NOPERM, EX_UNAVAILABLE. */
int reader_next(struct redis_reader *reader, struct pending *pending, struct redis_entry *entry,
                struct error *error);

/* Acknowledge what is settled, for some seconds at most, and close. */
void reader_close(struct redis_reader *reader, struct pending *pending);

#endif
