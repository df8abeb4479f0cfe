/* What a machine keeps: members, partitions, rounds. All of it is in a snapshot (fleet_snapshot.c),
   but what is marked. */
#ifndef RUNNEL_FLEET_STATE_H
#define RUNNEL_FLEET_STATE_H

#include "fleet_machine.h"

enum { ROUNDS_KEPT = 100 };

/* Who has joined. Who has left is forgotten as soon as nothing is known of it any more. */
struct member {
    char *name, *id, *run, *info;
    uint64_t number; /* of its last command in this run */
    bool is_listed;  /* it has not left */
    bool is_leased;
    uint64_t lease_end; /* ms, with is_leased */
    bool draining;
    bool arrived; /* in the open round */
    bool awaited; /* there: it lives, has a partition, and has neither arrived nor passed */
    uint64_t serial, round;       /* of its last arrival, 0: none; and in which round that is */
    char where[FLEET_WHERE_SIZE]; /* with `arrived` */
    size_t owned;                 /* not kept: partitions */
    size_t place;                 /* not kept: in `members` */
};

struct partition {
    struct member *owner; /* NULL: nobody */
    uint64_t claim;
    bool committed; /* the rest is known: */
    struct fleet_offset offset;
    uint64_t learned, streams;
    uint64_t serial, by; /* of the last commit that brought states: its claim; 0: none did */
    size_t count, room;  /* room: not kept */
    struct fleet_publication *states;
};

/* Texts with a '\n' after each. */
struct closed_round {
    uint64_t round; /* 0: none */
    char *names, *wheres;
};

/* Claims that have ended, each with the offset at which it did: a table by their numbers. All
   zeros is an empty one. Of an entry `is_over` is always true; claim 0 is a free place. */
struct fleet_claims {
    struct fleet_ended *places; /* (room,) a power of two, never full */
    size_t count, room;
};

struct fleet_machine {
    uint64_t time, version, claim;
    char *stream, *digest; /* NULL: the fleet has never been */
    uint64_t every;
    uint64_t round, since;   /* since: when the first arrived, with arrived > 0 */
    struct member **members; /* (member_count,) by name */
    size_t member_count, member_room;
    struct partition *partitions; /* (partition_count,) */
    size_t partition_count;
    struct fleet_claims ended;
    struct closed_round closed[ROUNDS_KEPT]; /* by the round modulo that */
    uint64_t lease_first;                    /* not kept: no lease ends before */
    size_t arrived, awaited;                 /* not kept: members */
    uint64_t *results;                       /* not kept */
    size_t results_room;
};

/* The entry of a claim, until the next change; NULL: it has not ended. */
const struct fleet_ended *fleet_claims_find(const struct fleet_claims *claims, uint64_t claim);

/* Add a claim, or change it. -1: out of memory. */
int fleet_claims_put(struct fleet_claims *claims, const struct fleet_ended *ended);
void fleet_claims_remove(struct fleet_claims *claims, uint64_t claim);

/* The first member whose name is not before this one; the member of the name, or NULL. */
size_t machine_place(const struct fleet_machine *machine, const char *name);
struct member *machine_find(const struct fleet_machine *machine, const char *name);

/* A new member in its place, with the name; NULL: out of memory. */
struct member *machine_add(struct fleet_machine *machine, const char *name);
void machine_remove(struct fleet_machine *machine, struct member *member);

/* The fleet's kind and its partitions. -1: out of memory. */
int machine_found(struct fleet_machine *machine, const struct fleet_kind *kind);

static inline bool machine_lives(const struct member *member, uint64_t time) {
    return member->is_leased && member->lease_end > time;
}

#endif
