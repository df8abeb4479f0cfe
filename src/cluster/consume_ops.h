/* Between the common part (consume.c: the queue, the thread, its troubles) and a broker, one file
   each. The common part calls the broker through struct consume_ops alone. On its thread the broker
   calls the functions below. */
#ifndef RUNNEL_CONSUME_OPS_H
#define RUNNEL_CONSUME_OPS_H

#include <pthread.h>
#include <stdatomic.h>

#include "brokers/mapping.h"
#include "brokers/message.h"
#include "common/error.h"
#include "consume.h"

/* What the reading thread has of a partition is marked; all else is under the mutex. */
struct consume_partition {
    char name[CONSUME_NAME_SIZE];
    const char *stream; /* Redis: its key, within `name` */
    int32_t number;     /* its place among the partitions; Kafka: its own */
    uint64_t producer;

    bool read;
    uint64_t generation;        /* how often it was started */
    bool known;                 /* where to begin: */
    struct consume_place start; /* after this one */
    struct consume_place taken, durable;
    int64_t lag; /* -1 = unknown */
    uint64_t dead, lost;

    uint64_t reading;        /* the thread's: the generation that it reads, 0 = none; */
    struct consume_place at; /* the newest message that it has put, or knows to be gone */
    uint64_t begun;          /* at.count when this generation began */
    bool counted;            /* Redis: at.count is right */
    bool assigned, begins;   /* Kafka, */
    uint64_t short_since;    /* ns: it ends before what is learned; 0: it does not; */
    uint64_t short_reading;  /* in this generation; and offsets: */
    uint64_t put;            /* after the newest message that it has put; 0: none */
    uint64_t passed;         /* before this one nothing comes that has not been put */
    struct redis_id id;      /* Redis: its id */
    struct consume_place committed;
    bool grouped;     /* the group is there */
    uint64_t missing; /* ns: since when it is not there; 0: it is */
    bool missing_said, short_said;
    bool is_short;       /* Redis: the stream is not there, or ends before `id`, */
    int64_t short_count; /* and had so many entries then */
};

/* A message that waits. */
struct consume_item {
    struct consume_message message;
    uint64_t generation;
    size_t bytes; /* used of */
    char *block;  /* (capacity,) the example's, then what a dead letter is made of: */
    size_t capacity;
    const char *raw_key, *raw; /* Kafka: key and payload as they came; NULL: none */
    size_t raw_key_size, raw_size;
};

/* Of the dead letter that the learning thread waits for. */
enum consume_dead { DEAD_NONE, DEAD_WANTED, DEAD_WRITTEN };

struct consume_ops {
    const char *kind;           /* "redis": names of partitions in the journal begin so */
    const char *before, *after; /* the number in a partition's name */

    /* Learning thread: read the configuration, fill in `about`; nothing is connected. */
    int (*open)(struct consume *consume, struct error *error);
    void (*close)(struct consume *consume);

    /* As consume_print. */
    void (*print)(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]);

    /* Which of `count` partitions those who write choose for a key. */
    size_t (*choose)(const struct config *config, const char *key, size_t key_size, size_t count);

    /* As consume_link. */
    int (*link)(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                struct error *error);

    /* The thread: the next thing to be done; 0, or -1: EX_TEMPFAIL with a clause, it is not there;
       otherwise it makes no sense to try again, EX_DATAERR: and would be wrong later. After -1
       comes `disconnect`, also at the end. */
    int (*turn)(struct consume *consume, struct error *error);
    void (*disconnect)(struct consume *consume);

    /* Write the dead letter of the oldest item; as turn. */
    int (*bury)(struct consume *consume, const struct consume_item *item, struct error *error);

    /* While there is no room for what has been read, every now and then; as turn. */
    int (*meanwhile)(struct consume *consume, struct error *error);

    /* Learning thread, under the mutex: what turn waits for ends. NULL: it waits for short. */
    void (*interrupt)(struct consume *consume);
};

struct consume {
    const struct config *config;
    const struct consume_ops *ops;
    void *broker; /* its own */
    struct consume_about about;
    char endpoint[CONSUME_NAME_SIZE];
    const char *fields[CONFIG_SHARES_MAX]; /* of examples.json, for */
    struct mapping *mapping; /* the thread's, and the next four; NULL: messages are examples */
    struct decoder *decoder;
    struct message_text text;
    uint64_t pause;             /* ns, the next one */
    bool connected;             /* and nothing has failed since */
    char said[ERROR_TEXT_SIZE]; /* the newest trouble that somebody has to mend */
    size_t input_bytes, target_bytes;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* wakes the thread */
    pthread_t thread;
    bool started, closing;
    _Atomic bool ended;   /* the thread is about to */
    bool answered;        /* once, since it was opened */
    uint64_t since;       /* ns: it does not answer; 0 = it does */
    struct error failure; /* status 0 = none */
    struct consume_partition *partitions[CONSUME_PARTITIONS_MAX]; /* (count,) none goes */
    size_t count;

    struct consume_item items[CONSUME_QUEUE];
    size_t head, waiting, bytes; /* of those that wait */
    bool given;                  /* the oldest one has been taken, and lies there until the next */
    enum consume_dead dead;      /* of the oldest */

    int event;
};

/* Under the mutex: a partition more, that of the number; -1: all of the stream. NULL: out of
   memory, or there are too many. */
struct consume_partition *consume_add(struct consume *consume, int32_t number);

/* Wake the learning thread. */
void consume_announce(struct consume *consume);

/* What was read of a partition whose generation is `reading`. `message` has no number yet. With
   `why` it is no example. `raw_key`.. may be NULL. */
struct consume_read {
    struct consume_partition *partition;
    struct consume_place place;
    struct message message;
    const char *why;
    const char *raw_key, *raw;
    size_t raw_key_size, raw_size;
};

/* Put it to what waits, and wait for room; the partition is then `at` its place. 1; 0: the
   partition is read no more, or all is closing; -1: as turn. */
int consume_put(struct consume *consume, const struct consume_read *read, struct error *error);

/* It answers: said if it did not before. `reads`: and what is to be read can be. */
void consume_answers(struct consume *consume, bool reads);

/* It does not, as a library says that tries again by itself: said once. */
void consume_is_away(struct consume *consume, const char *why);

/* Write the dead letter that is waited for, if one is. */
int consume_bury(struct consume *consume, struct error *error);

/* Wait until something changes, but not longer. */
void consume_rest(struct consume *consume, uint64_t ns);

bool consume_is_closing(struct consume *consume);

/* Whether nothing waits for the learning thread. */
bool consume_is_empty(struct consume *consume);

/* Whether no partition has a place yet: `from` is for all of them together. Those that come later,
   or had nothing, begin with their first message. */
bool consume_is_new(struct consume *consume);

/* The partition as it is to be read: true, with `reading` (and at the beginning of a generation
   `at`, or false in `*known`) as it has to be; false: not. */
bool consume_wanted(struct consume *consume, struct consume_partition *partition, bool *begins,
                    bool *known);

#endif
