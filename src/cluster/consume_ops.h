/* The interface between the common part (consume.c: queue, thread, retries) and the brokers, one
   file each. The common part calls a broker only through struct consume_ops. On its thread, the
   broker calls the functions below. */
#ifndef RUNNEL_CONSUME_OPS_H
#define RUNNEL_CONSUME_OPS_H

#include <pthread.h>
#include <stdatomic.h>

#include "brokers/mapping.h"
#include "brokers/message.h"
#include "common/error.h"
#include "consume.h"

/* The fields of the reading thread are marked; the mutex protects all others. */
struct consume_partition {
    char name[CONSUME_NAME_SIZE];
    const char *stream; /* Redis: its key, a part of `name` */
    int32_t number;     /* index of the partition; Kafka: the partition's number */
    uint64_t producer;

    bool read;
    uint64_t generation;        /* number of starts */
    bool known;                 /* whether `start` is set */
    struct consume_place start; /* reading begins after this place */
    struct consume_place taken, durable;
    int64_t lag; /* -1 = unknown */
    uint64_t dead, lost;

    /* Fields of the reading thread. */
    uint64_t reading;        /* the generation that it reads; 0 = none */
    struct consume_place at; /* the newest message that it has queued, or that is deleted */
    uint64_t begun;          /* at.count when this generation began */
    bool counted;            /* Redis: at.count is exact */
    bool assigned, begins;   /* Kafka */
    uint64_t short_since;    /* ns: since when it ends before learned messages; 0: it does not */
    uint64_t short_reading;  /* the generation of short_since */
    uint64_t put;            /* offset after the newest queued message; 0: none */
    uint64_t passed;         /* all messages before this offset are queued */
    struct redis_id id;      /* Redis: the ID of `at` */
    struct consume_place committed;
    bool grouped;     /* the group exists */
    uint64_t missing; /* ns: since when the stream is missing; 0: it exists */
    bool missing_reported, short_reported;
    bool is_short;       /* Redis: the stream is missing, or ends before `id` */
    int64_t short_count; /* the number of its entries then */
};

/* A queued message. */
struct consume_item {
    struct consume_message message;
    uint64_t generation;
    size_t bytes; /* bytes of `block` in use */
    char *block;  /* (capacity,) memory of the example, followed by that of the dead letter */
    size_t capacity;
    const char *raw_key, *raw; /* Kafka: key and value as received; NULL: none */
    size_t raw_key_size, raw_size;
};

/* State of the dead letter that the learning thread waits for. */
enum consume_dead { DEAD_NONE, DEAD_WANTED, DEAD_WRITTEN };

struct consume_ops {
    const char *kind;           /* "redis": prefix of partition names in the journal */
    const char *before, *after; /* the text around the number in a partition's name */

    /* Reads the configuration and fills `about`; does not connect. Learning thread. */
    int (*open)(struct consume *consume, struct error *error);
    void (*close)(struct consume *consume);

    /* See consume_print. */
    void (*print)(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]);

    /* Returns the partition, below `count`, that the broker's writers choose for a key. */
    size_t (*choose)(const struct config *config, const char *key, size_t key_size, size_t count);

    /* See consume_link. */
    int (*link)(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                struct error *error);

    /* Does the next piece of work on the thread. Returns 0, or -1: EX_TEMPFAIL with a clause if the
       broker is not available; other errors have a whole sentence, and a retry does not help.
       EX_DATAERR: a later retry would even do harm. `disconnect` follows each -1, and the end. */
    int (*turn)(struct consume *consume, struct error *error);
    void (*disconnect)(struct consume *consume);

    /* Writes the dead letter of the oldest item; returns as `turn` does. */
    int (*bury)(struct consume *consume, const struct consume_item *item, struct error *error);

    /* Called now and then while the queue is full; returns as `turn` does. */
    int (*meanwhile)(struct consume *consume, struct error *error);

    /* Ends a wait of `turn`. NULL: `turn` waits only for a short time. Learning thread, locked. */
    void (*interrupt)(struct consume *consume);
};

struct consume {
    const struct config *config;
    const struct consume_ops *ops;
    void *broker; /* the broker's own data */
    struct consume_about about;
    char endpoint[CONSUME_NAME_SIZE];
    const char *fields[CONFIG_SHARES_MAX]; /* the fields of examples.json, for `mapping` */
    /* this and the next four belong to the thread; NULL: each message is an example */
    struct mapping *mapping;
    struct decoder *decoder;
    struct message_text text;
    uint64_t pause;                 /* ns: the next pause */
    bool connected;                 /* no failure since the connection */
    char reported[ERROR_TEXT_SIZE]; /* the last failure that was logged */
    size_t input_bytes, target_bytes;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* wakes the thread */
    pthread_t thread;
    bool started, closing;
    _Atomic bool ended;   /* the thread has to end */
    bool answered;        /* the broker has been read since the start */
    uint64_t since;       /* ns: since when the broker does not answer; 0 = it answers */
    struct error failure; /* status 0 = none */
    struct consume_partition *partitions[CONSUME_PARTITIONS_MAX]; /* (count,) never removed */
    size_t count;

    struct consume_item items[CONSUME_QUEUE];
    size_t head, waiting, bytes; /* of the queued items */
    bool given;                  /* the oldest item was returned, and stays until the next call */
    enum consume_dead dead;      /* state of the oldest item's dead letter */

    int event;
};

/* Adds the partition with this number; -1: the whole stream. Returns NULL if out of memory or above
   the limit. Locked. */
struct consume_partition *consume_add(struct consume *consume, int32_t number);

/* Wakes the learning thread. */
void consume_announce(struct consume *consume);

/* A message of a partition in the generation `reading`, without a number yet. With `why` it is not
   an example. `raw_key` and `raw` may be NULL. */
struct consume_read {
    struct consume_partition *partition;
    struct consume_place place;
    struct message message;
    const char *why;
    const char *raw_key, *raw;
    size_t raw_key_size, raw_size;
};

/* Waits for room and queues the message; then the partition is `at` its place. Returns 1; 0 if the
   partition is not read any more, or everything closes; -1 as `turn`. */
int consume_put(struct consume *consume, const struct consume_read *read, struct error *error);

/* Notes that the broker answers, and logs that it is available again. With `reads`, the partitions
   can be read, too. */
void consume_answers(struct consume *consume, bool reads);

/* Notes that the broker does not answer, and logs it once; the library retries by itself. */
void consume_is_away(struct consume *consume, const char *why);

/* Writes the dead letter that the learning thread waits for, if any. */
int consume_bury(struct consume *consume, struct error *error);

/* Waits for a change, up to a time limit. */
void consume_rest(struct consume *consume, uint64_t ns);

bool consume_is_closing(struct consume *consume);

/* Whether the queue is empty. */
bool consume_is_empty(struct consume *consume);

/* Whether no partition has a place yet: `from` applies to all of them together. Partitions that
   appear later, or were empty, begin with their first message. */
bool consume_is_new(struct consume *consume);

/* Whether the partition is to be read; if so, sets `reading`, and at the beginning of a generation
   `at`, or false in `*known`. */
bool consume_wanted(struct consume *consume, struct consume_partition *partition, bool *begins,
                    bool *known);

#endif
