/* The shared state of a fleet at a message broker: its daemons, the owner of each partition,
   committed offsets, and the states of streams. Each broker is one struct fleet_link_ops: Kafka in
   fleet_kafka.h, Redis below.

   A daemon is a member while it renews its lease. It owns a partition by a claim with a number that
   is unique in the fleet. Each change by the owner names its claim, and is rejected once the
   partition has another owner. So a daemon that was away for longer than its lease can do no harm.
   When a claim ends, the broker keeps the offset until the claim's daemon has settled it. Examples
   that the daemon learned after that offset do not count, since the next owner learns them.

   Every function waits for the network, but not for long; one thread calls them. After a lost
   answer (EX_TEMPFAIL), the link reconnects by itself and the call may be repeated: each change is
   made once. Functions return 0, or -1 with an error. EX_TEMPFAIL: the broker is not available; the
   text is a clause. EX_NOPERM, EX_UNAVAILABLE, EX_CONFIG: a retry does not help. */
#ifndef RUNNEL_FLEET_LINK_H
#define RUNNEL_FLEET_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct error;

enum {
    FLEET_NAME_SIZE = 65,
    FLEET_ID_SIZE = 33, /* at most 128 bits in hexadecimal, and '\0'; also of a run */
    FLEET_GROUP_MAX = 255,
    FLEET_PARTITIONS_MAX = 65536,
    FLEET_INFO_MAX = 64 * 1024, /* bytes of a daemon's report about itself: JSON */
    FLEET_KEY_MAX = 1024,       /* bytes of a stream's key */
};

#define FLEET_DISPLACED UINT64_MAX /* larger than any version */

/* Renewals of a lease by a member, and their greatest interval. A renewal also shows changes, and
   the hand-over of a partition waits for two of them. (Kafka: heartbeats to the group.)
   tools/figures/scale_plan.py has the same number. */
enum { FLEET_RENEWALS_A_LEASE = 4 };
#define FLEET_RENEWAL_MAX 0.2 /* seconds */

/* Returns the seconds from one renewal to the next. */
static inline double fleet_renewal(double lease) {
    double each = lease / FLEET_RENEWALS_A_LEASE;
    return each < FLEET_RENEWAL_MAX ? each : FLEET_RENEWAL_MAX;
}

/* A place in a partition: the number of its example. */
struct fleet_offset {
    uint32_t epoch;
    uint64_t sequence;
};

/* This daemon and its fleet. The texts outlive the link. */
struct fleet_self {
    const char *group; /* the fleet's name */
    const char *name;  /* the daemon's name, unique in the fleet */
    /* identifies the state directory: another daemon of this name has another ID */
    const char *id;
    const char *stream;  /* the learned stream */
    const char *digest;  /* digest of the configuration that all daemons share */
    const char *earlier; /* that digest with the defaults of earlier versions; NULL: no hint */
    const char *hint;    /* ends a refusal by a fleet of that digest: see config_hint */
    size_t partitions;
    uint64_t every; /* fleet.average.every, also shared by all */
    double lease;   /* seconds */
};

static inline const char *fleet_hint(const struct fleet_self *self, const char *theirs) {
    bool earlier = self->earlier && !strncmp(theirs, self->earlier, strlen(self->earlier));
    return earlier ? self->hint : "";
}

struct fleet_daemon {
    char *name;
    bool living;   /* its lease has not ended */
    bool draining; /* it has to hand over its partitions */
    double lease;  /* seconds left of it */
    char *info;    /* the daemon's report about itself: JSON */
};

struct fleet_partition {
    int owner; /* index in `daemons`; -1: none */
    /* the next owner, as far as this daemon needs it; -1: another daemon, or none */
    int to;
    uint64_t claim; /* the owner's, or the last one */
    bool committed; /* the rest is set if `committed` */
    struct fleet_offset offset;
    uint64_t learned; /* examples since the fleet began */
    uint64_t states;  /* number of streams with a state */
};

/* A member's view of the fleet. The version changes with the members, drained daemons and owners,
   and with the first arrival in a round. If neither has changed, `offset`, `learned`, `states`,
   `lease` and `info` may be older. */
struct fleet_view {
    uint64_t version, round; /* round: the open one, from 1 */
    size_t arrived;          /* daemons that wait for its end */
    char *stream, *digest;   /* NULL: the fleet does not exist */
    bool anew;               /* Redis was unavailable, and may have lost acknowledged data */
    uint64_t jobs;           /* jobs that the worker had finished (fleet_worker.h) */
    size_t daemon_count, partition_count;
    struct fleet_daemon *daemons;       /* sorted by name */
    struct fleet_partition *partitions; /* (partition_count,) */
};
void fleet_view_free(struct fleet_view *view);

/* Copies a view; free the copy. Returns -1 if out of memory, without a copy. */
int fleet_view_copy(const struct fleet_view *view, struct fleet_view *copy, struct error *error);

/* Sorts the daemons by name, as required. */
void fleet_view_sort(struct fleet_view *view);

/* Returns the index of the daemon with this name, or -1. */
int fleet_view_find(const struct fleet_view *view, const char *name);

/* A claim of one partition by this daemon. */
struct fleet_claim {
    size_t partition;
    uint64_t claim;
    bool committed; /* the rest is set if `committed` */
    struct fleet_offset offset;
    uint64_t learned, states;
};

/* The opaque state of one stream. */
struct fleet_row {
    const void *key, *state;
    size_t key_size, state_size; /* state_size 0: the stream is deleted */
};

/* A commit of a partition with the states of its streams. The staged states replace all earlier
   ones (`whole`), or only those of the same streams. */
struct fleet_commit {
    size_t partition;
    uint64_t claim;
    struct fleet_offset offset;
    struct fleet_offset base; /* the newest commit known to the owner; 0: none */
    uint64_t learned;         /* since the fleet began */
    uint64_t serial;          /* serial of the staged rows; 0: none */
    uint64_t rows;            /* number of staged rows, deletions included; one for each stream */
    bool whole;       /* always set for a claim's first commit after a start of the daemon */
    uint64_t streams; /* number of states afterwards, which proves that none is missing */
    /* The answer: at most one is set. Then nothing has changed, and the staged rows are deleted. */
    bool refused; /* the partition has another owner */
    /* The number of states would not be `streams`, there are too many pieces, or `base` is
       outdated: stage all states again. */
    bool incomplete;
};

/* The end of a claim. */
struct fleet_ended {
    uint64_t claim;
    size_t partition;
    bool is_over;  /* the claim has ended, and its end is kept */
    bool is_lost;  /* the broker has lost the claim */
    bool is_known; /* `offset` is set: the end, or the first place that another daemon may learn */
    struct fleet_offset offset;
};

/* Fleets of a broker: a few, in no particular order. */
enum { FLEET_GROUPS_MAX = 5 };
struct fleet_groups {
    char names[FLEET_GROUPS_MAX][FLEET_GROUP_MAX + 1];
    size_t count;
    bool more; /* there may be more */
};

/* Adds the group of the fleet with the key or topic `key`, if it has this prefix and suffix. */
void fleet_groups_add(struct fleet_groups *groups, const char *key, size_t size, const char *begin,
                      const char *end);

/* Receives a stream's state; the arguments are valid during the call. */
typedef int fleet_visit(void *context, const struct fleet_row *row, struct error *error);

/* Generates random bytes, or a random ID for a state directory or a run (one life of a daemon's
   link). Fails with EX_OSERR. */
int fleet_draw(void *bytes, size_t size, struct error *error);
int fleet_id_draw(char id[FLEET_ID_SIZE], struct error *error);

/* Learning rates, clips and the lease may differ between daemons, since they can be set at run
   time. Each daemon reports its rates and clips in `info`, as the object `learning`:

   {"learning.optimizer.rate": 0.001, "learning.clip": 1}

   With members, the keys are "members.NAME.learning.clip" and so on. Older versions do not report
   them. */
#define FLEET_RATES "learning"

/* Returns a daemon's value of a key; NAN: not reported. `info` may be NULL. */
double fleet_rate(const json_t *info, const char *key);

/* Returns the first key whose values differ, or NULL. It lives as long as `one`. */
const char *fleet_rates_differ(const json_t *one, const json_t *other);

/* Sets the error (EX_CONFIG) and returns -1. */
int fleet_name_is_taken(const struct fleet_self *self, struct error *error);

struct fleet_link;

struct fleet_link_ops {
    void (*close)(struct fleet_link **link);

    /* Joins, or renews the lease. `info` is JSON for users. Only `join` checks that the daemon fits
       the fleet (EX_CONFIG). *version 0: the broker has lost this member, which has to join again.
       FLEET_DISPLACED: a process with the same name and ID has joined since, from a copy of the
       state directory. If `join` fails because another ID has the name, link->namesake is its
       lease. */
    int (*join)(struct fleet_link *link, const char *info, struct error *error);
    int (*renew)(struct fleet_link *link, const char *info, uint64_t *version, struct error *error);

    /* Leaves the fleet; remaining claims end with their last commit. */
    int (*leave)(struct fleet_link *link, struct error *error);

    /* Updates the view: all zeros at first, later only changes. Free it in any case; after -1 it is
       all zeros. */
    int (*look)(struct fleet_link *link, struct fleet_view *view, struct error *error);

    /* Claims partitions without an owner, or whose owner's lease has ended, if their newest claim
       is still `claim` (0: never claimed). It claims all that it can and counts them in *taken.
       `claims` is (count,) without duplicates. Afterwards `claim` is the new one, or `partition` is
       SIZE_MAX if it was not claimed. */
    int (*take)(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error);

    /* Finds how claims have ended. */
    int (*ended)(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error);
    int (*settle)(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error);

    /* Stages states of a partition's streams, in any number of calls. They count after `commit`.
       Each serial is at least 1 and used once. */
    int (*stage)(struct fleet_link *link, const struct fleet_commit *commit,
                 const struct fleet_row *rows, size_t count, struct error *error);

    /* Commits each partition completely or not at all. With `release` it then has no owner. A
       repeated call after a lost answer has the same result. EX_TEMPFAIL also means that staged
       states are lost: stage them again. */
    int (*commit)(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error);

    /* Visits the committed states of a partition, each stream once. Fails with EX_UNAVAILABLE if
       some are missing. */
    int (*states)(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error);

    /* Sends this daemon's parameters to the open round, *round. Each `serial` is used once; a
       repeated call with the same one has the same result. */
    int (*arrive)(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error);

    /* The round need not wait for this daemon. Without effect after the round has closed or this
       daemon has arrived. */
    int (*pass)(struct fleet_link *link, uint64_t round, struct error *error);

    /* Checks whether the round is closed: all owners of partitions have arrived or passed, or the
       first has waited for a lease. Then `names` has its members in order, each followed by '\n',
       to be freed; else NULL. */
    int (*round)(struct fleet_link *link, uint64_t round, char **names, struct error *error);

    /* Reads a member's parameters of a closed round; free them. */
    int (*parameters)(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error);

    /* Counts each partition's messages, without those that were deleted or unreadable before they
       were learned. (view's partition_count,), UINT64_MAX = unknown. */
    int (*ends)(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error);

    /* For runnel-fleet. Drain: `name` has to hand over its partitions; EX_USAGE: not found.
       Rebalance: ends all drains. */
    int (*drain)(struct fleet_link *link, const char *name, struct error *error);
    int (*rebalance)(struct fleet_link *link, struct error *error);

    /* For runnel-fleet: moves a fleet that an older version kept differently, after its last commit
       of the stream. *count: number of partitions. EX_USAGE: not found, or already moved. NULL: all
       versions keep fleets alike. */
    int (*move)(struct fleet_link *link, const char *stream, size_t *count, struct error *error);

    /* Finds the fleets of this broker, for a user who named none. With very many keys, the search
       is incomplete. */
    int (*groups)(struct fleet_link *link, struct fleet_groups *groups, struct error *error);
};

struct fleet_namesake {
    uint64_t end; /* ms of the broker's clock, later after each renewal; 0: the name is free */
    double left;  /* seconds until then */
};

struct fleet_link {
    const struct fleet_link_ops *ops;
    struct fleet_namesake namesake;
};

struct url;

/* A fleet on Redis (its keys: fleet_scripts.h). Does not connect; the first function does. Both
   arguments outlive the link. */
int fleet_redis_open(struct fleet_link **link, const struct url *url, const struct fleet_self *self,
                     struct error *error);

/* ---- Assignment of partitions to daemons ---- */

enum { FLEET_NOBODY = -1 };

/* Assigns `partitions` to `daemons`, numbered in the order of their names. Each daemon gets the
   same number or one more, and as few partitions as possible move. The same `owner` always leads to
   the same `to`. Both are (partitions,), with a daemon's number or FLEET_NOBODY, and may be the
   same array. Without daemons, `to` is FLEET_NOBODY. `room` is scratch memory, (2 *
   daemons,). */
void fleet_assign(size_t partitions, size_t daemons, const int *owner, int *to, size_t *room);

/* Sets `to` for all partitions of a view, among its living daemons that are not drained. Without
   any, owners keep their partitions. Returns -1 if out of memory. */
int fleet_assign_view(struct fleet_view *view, struct error *error);

#endif
