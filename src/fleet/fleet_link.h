/* What the daemons of a fleet know of each other, kept by a message broker: who is there, who has
   which partition, up to which offset its examples have been learned, and with which states of its
   streams that goes on. A broker is one struct fleet_link_ops; fleet_redis.h has the first.

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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum {
    FLEET_NAME_SIZE = 65,
    FLEET_ID_SIZE = 33,
    FLEET_GROUP_MAX = 128,
    FLEET_PARTITIONS_MAX = 65536,
};

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
    double lease; /* seconds */
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
    uint64_t claim; /* the owner's, or the last one */
    bool committed; /* the rest is known: */
    struct fleet_offset offset;
    uint64_t learned; /* examples, since the fleet began */
    uint64_t states;  /* how many streams' states there are */
};

/* What a member sees. A change of anything but info and offsets changes the version. */
struct fleet_view {
    uint64_t version, round; /* round: the open one, from 1 */
    size_t arrived;          /* daemons that wait for its end */
    char *stream, *digest;   /* NULL: the fleet has never been */
    uint64_t jobs;           /* that the worker had done before (fleet_worker.h) */
    size_t daemon_count, partition_count;
    struct fleet_daemon *daemons;       /* by name, in order */
    struct fleet_partition *partitions; /* (partition_count,) */
};
void fleet_view_free(struct fleet_view *view);

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
    size_t key_size, state_size;
};

/* What the owner has learned of a partition. */
struct fleet_commit {
    size_t partition;
    uint64_t claim;
    struct fleet_offset offset;
    uint64_t learned; /* since the fleet began */
    uint64_t streams; /* whose states were staged for it, */
    uint64_t serial;  /* under this number; 0: the states are as before */
    bool refused;     /* answered: it is another's by now */
};

/* How a claim ended. */
struct fleet_ended {
    uint64_t claim;
    bool is_over, is_known; /* is_known: there is an offset, */
    struct fleet_offset offset;
};

/* Takes a stream's state; what it is given is valid during the call. */
typedef int fleet_visit(void *context, const struct fleet_row *row, struct error *error);

struct fleet_link;

struct fleet_link_ops {
    void (*close)(struct fleet_link **link);

    /* Become a member, or stay one; the lease begins anew. `info`: JSON, for people. Only join
       checks that this daemon belongs to the fleet: EX_CONFIG. */
    int (*join)(struct fleet_link *link, const char *info, struct error *error);
    int (*renew)(struct fleet_link *link, const char *info, uint64_t *version, struct error *error);

    /* No member any more; what it has should have been released. */
    int (*leave)(struct fleet_link *link, struct error *error);

    /* To be freed. */
    int (*look)(struct fleet_link *link, struct fleet_view *view, struct error *error);

    /* Claim partitions that are nobody's, or of a daemon whose lease is over, as seen in `version`:
       *taken of them have been claimed, all of those that could be; none at all where the fleet has
       changed since. `claims` is (count,); where `partition` is not one of them it has become
       SIZE_MAX. */
    int (*take)(struct fleet_link *link, uint64_t version, struct fleet_claim *claims, size_t count,
                size_t *taken, struct error *error);

    /* What became of claims. */
    int (*ended)(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error);
    int (*settle)(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error);

    /* Bring states of a partition's streams to the broker, in as many calls as one likes. They
       count once they are committed, in place of all that were before. `serial` is at least 1, and
       another each time. */
    int (*stage)(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                 const struct fleet_row *rows, size_t count, struct error *error);

    /* All at once. With `release` the partitions are nobody's afterwards. */
    int (*commit)(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error);

    /* Visit the states that were committed of a partition. */
    int (*states)(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error);

    /* Bring this daemon's parameters to the round that is open, if it has not been in one after
       `last`. *round: in which it is. */
    int (*arrive)(struct fleet_link *link, uint64_t last, const void *parameters, size_t size,
                  uint64_t *round, struct error *error);

    /* Whether the round is closed: when all members that have a partition have arrived, or the
       first has waited as long as a lease. `names`: then, who is in it, in order, with a '\n'
       after each; to be freed. Else NULL. */
    int (*round)(struct fleet_link *link, uint64_t round, char **names, struct error *error);

    /* Somebody's parameters of a round that is closed; to be freed. */
    int (*parameters)(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error);

    /* How many messages each partition has had: (view's partition_count,), UINT64_MAX = unknown. */
    int (*ends)(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error);

    /* For people, member or not. Drain: `name` is to give up what it has; EX_USAGE: it is not
       there. Rebalance: nobody is drained any more. */
    int (*drain)(struct fleet_link *link, const char *name, struct error *error);
    int (*rebalance)(struct fleet_link *link, struct error *error);
};

struct fleet_link {
    const struct fleet_link_ops *ops;
};

#endif
