/* What the daemons of a fleet know of each other, kept by a message broker: who is there, who has
   which partition, up to which offset its examples have been learned, and with which states of its
   streams that goes on. A broker is one struct fleet_link_ops; fleet_kafka.h has one, and the other
   is below.

   A daemon is a member for as long as its lease is renewed. A partition is one daemon's, by a claim
   whose number no other claim in the fleet has had or will have. Everything that its owner changes
   names the claim, and is refused once the partition is another's: a daemon that was away for
   longer than its lease can do no harm. When a claim ends, in order or not, the broker keeps at
   which offset, until the daemon whose claim it was has settled that: what it has learned of the
   partition beyond the offset counts for nothing, since the next owner learns it.

   Every function waits for the network, but not for long; one thread calls them. All can be asked
   again when the answer was lost (EX_TEMPFAIL, after which the link connects anew by itself): what
   has been done is done once. 0, or -1 with a sentence: EX_TEMPFAIL the broker is not there now,
   and the text is a clause that says why; EX_NOPERM, EX_UNAVAILABLE, EX_CONFIG it makes no sense to
   try again. */
#ifndef RUNNEL_FLEET_LINK_H
#define RUNNEL_FLEET_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum {
    FLEET_NAME_SIZE = 65,
    FLEET_ID_SIZE = 33, /* also of a run: 128 bits in hexadecimal, at most, and '\0' */
    FLEET_GROUP_MAX = 255,
    FLEET_PARTITIONS_MAX = 65536,
    FLEET_INFO_MAX = 64 * 1024, /* bytes of what a daemon says of itself: JSON */
    FLEET_KEY_MAX = 1024,       /* bytes of a stream's key */
};

#define FLEET_DISPLACED UINT64_MAX /* no version is so large */

/* A member renews its lease so often, and at least each so many seconds, since it sees with that
   what has changed: a partition that goes from one to another waits for both. (It sends its group
   on Kafka a heartbeat each so many seconds.) The same in tools/figures/scale_plan.py. */
enum { FLEET_RENEWALS_A_LEASE = 4 };
#define FLEET_RENEWAL_MAX 0.2 /* seconds */

/* Seconds from one renewal to the next. */
static inline double fleet_renewal(double lease) {
    double each = lease / FLEET_RENEWALS_A_LEASE;
    return each < FLEET_RENEWAL_MAX ? each : FLEET_RENEWAL_MAX;
}

/* A place in a partition, as the number of the example there. */
struct fleet_offset {
    uint32_t epoch;
    uint64_t sequence;
};

/* Who asks, and for which fleet. Texts outlive the link. */
struct fleet_self {
    const char *group;  /* the fleet's name */
    const char *name;   /* of this daemon, unique in the fleet */
    const char *id;     /* of its state directory: another daemon of that name has another */
    const char *stream; /* what the fleet learns */
    const char *digest; /* of what learning depends on: the same in all of the fleet */
    size_t partitions;
    uint64_t every; /* fleet.average.every, which is the same in all of the fleet, too */
    double lease;   /* seconds */
};

struct fleet_daemon {
    char *name;
    bool living;   /* its lease is not over */
    bool draining; /* it is to give up what it has */
    double lease;  /* seconds that are left of it */
    char *info;    /* what it says of itself: JSON */
};

struct fleet_partition {
    int owner;      /* in `daemons`; -1: nobody's */
    int to;         /* who is to have it, as far as this daemon need know; -1: another, or nobody */
    uint64_t claim; /* the owner's, or the last one */
    bool committed; /* the rest is known: */
    struct fleet_offset offset;
    uint64_t learned; /* examples, since the fleet began */
    uint64_t states;  /* how many streams' states there are */
};

/* What a member sees. A change of who is there, of who is drained, of who has what, and the first
   arrival in a round change the version. Of a partition or a daemon that this has not changed,
   `offset`, `learned`, `states`, `lease` and `info` may be those of an earlier look. */
struct fleet_view {
    uint64_t version, round; /* round: the open one, from 1 */
    size_t arrived;          /* daemons that wait for its end */
    char *stream, *digest;   /* NULL: the fleet has never been */
    bool anew;     /* what was answered before the last look may be lost: Redis was away */
    uint64_t jobs; /* that the worker had done before (fleet_worker.h) */
    size_t daemon_count, partition_count;
    struct fleet_daemon *daemons;       /* by name, in order */
    struct fleet_partition *partitions; /* (partition_count,) */
};
void fleet_view_free(struct fleet_view *view);

/* A copy, to be freed. -1: out of memory; there is none. */
int fleet_view_copy(const struct fleet_view *view, struct fleet_view *copy, struct error *error);

/* Its daemons by name, as they have to be. */
void fleet_view_sort(struct fleet_view *view);

/* The daemon of that name, or -1. */
int fleet_view_find(const struct fleet_view *view, const char *name);

/* One partition of this daemon's. */
struct fleet_claim {
    size_t partition;
    uint64_t claim;
    bool committed; /* the rest is known: */
    struct fleet_offset offset;
    uint64_t learned, states;
};

/* The state of one stream, opaque here. */
struct fleet_row {
    const void *key, *state;
    size_t key_size, state_size; /* state_size 0: the stream is forgotten */
};

/* What the owner has learned of a partition, with the states of its streams: those that were staged
   take the place of all that were committed before (`whole`), or of those of the same streams. */
struct fleet_commit {
    size_t partition;
    uint64_t claim;
    struct fleet_offset offset;
    struct fleet_offset base; /* what was committed before, as the owner was told; 0: nothing */
    uint64_t learned;         /* since the fleet began */
    uint64_t serial;          /* under which rows were staged; 0: none were */
    uint64_t rows; /* that were staged, with those of streams that are forgotten: no stream twice */
    bool whole;    /* always with a claim's first commit after the daemon was started */
    uint64_t streams; /* how many states there are afterwards: the proof that none is missing */
    /* Answered; at most one of them. Nothing is done then, and what was staged is gone. */
    bool refused;    /* it is another's by now */
    bool incomplete; /* the states would not be `streams`, are too many pieces, or would be laid
                        over others than those of `base`: stage them whole */
};

/* How a claim of a partition ended. */
struct fleet_ended {
    uint64_t claim;
    size_t partition;
    bool is_over;  /* its end is kept; else: */
    bool is_lost;  /* the broker has lost that there was such a claim */
    bool is_known; /* there is an offset: where it ended, or from where others may learn now */
    struct fleet_offset offset;
};

/* Fleets that a broker has, a few of them in no order. */
enum { FLEET_GROUPS_MAX = 5 };
struct fleet_groups {
    char names[FLEET_GROUPS_MAX][FLEET_GROUP_MAX + 1];
    size_t count;
    bool more; /* there are others, or were not all looked for */
};

/* The group of the fleet whose key or topic is `key` of `size` bytes, which begins and ends as
   said, is one more of them, unless that is no such key. */
void fleet_groups_add(struct fleet_groups *groups, const char *key, size_t size, const char *begin,
                      const char *end);

/* Takes a stream's state; what it is given is valid during the call. */
typedef int fleet_visit(void *context, const struct fleet_row *row, struct error *error);

/* Bytes at random, and with them the id of a state directory, or a run, one life of a daemon's
   link. EX_OSERR. */
int fleet_draw(void *bytes, size_t size, struct error *error);
int fleet_id_draw(char id[FLEET_ID_SIZE], struct error *error);

/* What may differ between the daemons of a fleet of all that decides what is learned: learning
   rates and clips, which are set while they run, and the lease. Each says its own with the rest
   that it says of itself (`info`), as members of the object `learning`, by their keys:

     {"learning.optimizer.rate": 0.001, "learning.clip": 1}

   or, of a configuration with members, "members.NAME.learning.clip" of each. A daemon of an older
   version does not say it. */
#define FLEET_RATES "learning"

/* What a daemon says of a key; NAN: nothing. `info` may be NULL. */
double fleet_rate(const json_t *info, const char *key);

/* The first key that both say, and not alike; NULL: there is none. It lives as long as `one`. */
const char *fleet_rates_differ(const json_t *one, const json_t *other);

/* The sentence, EX_CONFIG; returns -1. */
int fleet_name_is_taken(const struct fleet_self *self, struct error *error);

struct fleet_link;

struct fleet_link_ops {
    void (*close)(struct fleet_link **link);

    /* Become a member, or stay one; the lease begins anew. `info`: JSON, for people. Only join
       checks that this daemon belongs to the fleet: EX_CONFIG. *version 0: the broker has lost that
       this daemon is a member, which has to join again. FLEET_DISPLACED: so has it where another
       has joined since with its name and its id: a process with a copy of its state directory.
       Where join fails since a daemon with another id has the name, link->namesake is its lease. */
    int (*join)(struct fleet_link *link, const char *info, struct error *error);
    int (*renew)(struct fleet_link *link, const char *info, uint64_t *version, struct error *error);

    /* No member any more; claims that it still has end with what is committed. */
    int (*leave)(struct fleet_link *link, struct error *error);

    /* Bring the view up to date: all zeros, it gets all; or as this function left it, and it gets
       what has changed since. To be freed in any case; with -1 it is all zeros again. */
    int (*look)(struct fleet_link *link, struct fleet_view *view, struct error *error);

    /* Claim partitions that are nobody's, or of a daemon whose lease is over, and whose newest
       claim is still the one that was seen: `claim`, 0: they never had one. *taken of them have
       been claimed, all of those that could be, whatever else has changed. `claims` is (count,), no
       partition twice; where it was not claimed `partition` has become SIZE_MAX, and else `claim`
       the new one. */
    int (*take)(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error);

    /* What became of claims. */
    int (*ended)(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error);
    int (*settle)(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error);

    /* Bring states of a partition's streams to the broker, in as many calls as one likes. They
       count once `commit` is done. Its serial is at least 1, and another each time. */
    int (*stage)(struct fleet_link *link, const struct fleet_commit *commit,
                 const struct fleet_row *rows, size_t count, struct error *error);

    /* Each partition all at once or not at all. With `release` it is nobody's afterwards. Asked
       again after the answer was lost it answers the same. EX_TEMPFAIL, too, when what was staged
       is not there any more: to be staged again. */
    int (*commit)(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error);

    /* Visit the states that were committed of a partition, each stream once. EX_UNAVAILABLE: they
       are not all there any more. */
    int (*states)(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error);

    /* Bring this daemon's parameters to the round that is open. *round: which that is. `serial`:
       another number each time; asked again with the same one, the answer is the same. */
    int (*arrive)(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error);

    /* This daemon will not come to the round in time, which need not wait for it: of no effect
       once that is closed, or this daemon has arrived. */
    int (*pass)(struct fleet_link *link, uint64_t round, struct error *error);

    /* Whether the round is closed: when all members that have a partition have arrived or passed,
       or the first has waited as long as a lease. `names`: then, who is in it, in order, with a
       '\n' after each; to be freed. Else NULL. */
    int (*round)(struct fleet_link *link, uint64_t round, char **names, struct error *error);

    /* Somebody's parameters of a round that is closed; to be freed. */
    int (*parameters)(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error);

    /* How many messages each partition has had, but not those that are gone, or cannot be read, and
       were not learned: (view's partition_count,), UINT64_MAX = unknown. */
    int (*ends)(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error);

    /* For people, member or not. Drain: `name` is to give up what it has; EX_USAGE: it is not
       there. Rebalance: nobody is drained any more. */
    int (*drain)(struct fleet_link *link, const char *name, struct error *error);
    int (*rebalance)(struct fleet_link *link, struct error *error);

    /* For people: of a fleet that an older version kept in another way, let this version go on
       after what was committed of the stream. *count: of how many partitions. EX_USAGE: there is
       none, or this version goes on already. NULL: no version kept it otherwise. */
    int (*move)(struct fleet_link *link, const char *stream, size_t *count, struct error *error);

    /* Which fleets there are at this broker: for who named none of them. Bounded: of a broker with
       very many keys it says what it has found. */
    int (*groups)(struct fleet_link *link, struct fleet_groups *groups, struct error *error);
};

struct fleet_namesake {
    uint64_t end; /* ms, the broker's clock; rises with each renewal. 0: nobody has the name */
    double left;  /* seconds until then */
};

struct fleet_link {
    const struct fleet_link_ops *ops;
    struct fleet_namesake namesake;
};

struct url;

/* Through Redis (fleet_scripts.h says what is kept there). Does not connect yet: the first function
   does that. Both outlive the link. */
int fleet_redis_open(struct fleet_link **link, const struct url *url, const struct fleet_self *self,
                     struct error *error);

/* ---- Which daemon is to have which partition ---- */

enum { FLEET_NOBODY = -1 };

/* Share out `partitions` among `daemons`, which are numbered by their names in order: every daemon
   gets as many as any other, or one more, and as few partitions as possible move. Whoever knows
   the same `owner` comes to the same `to`. `owner` and `to` are (partitions,): a daemon's number,
   or FLEET_NOBODY; `to` has that where there are no daemons. Both may be the same array.
   `room` is (2 * daemons,), for the function's own use. */
void fleet_assign(size_t partitions, size_t daemons, const int *owner, int *to, size_t *room);

/* `to` of all partitions of a view, for those of its daemons who are there and not drained; where
   there are none, owners keep what they have. -1: out of memory. */
int fleet_assign_view(struct fleet_view *view, struct error *error);

#endif
