/* The fleet, for its own files: fleet.c (what is to be done), fleet_move.c (partitions that come
   and go), fleet_states.c (with their streams' states), fleet_rounds.c (averages). */
#ifndef RUNNEL_FLEET_INTERNAL_H
#define RUNNEL_FLEET_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/fleet_held.h"
#include "fleet/fleet_worker.h"

struct carry;
struct daemon;
struct error;

enum share_state {
    SHARE_AWAY,   /* it is not this daemon's */
    SHARE_KEPT,   /* it was, before the daemon was started: whether it is still is not known */
    SHARE_OWNED,  /* it is read */
    SHARE_LEAVES, /* it is read no more, and being released */
    SHARE_LOST    /* another has it, or may have it: how its claim ended is not known */
};

/* A partition. */
struct share {
    enum share_state state;
    uint64_t claim;  /* but of SHARE_AWAY */
    uint32_t number; /* the journal's, of the partition */
    bool whole;      /* what the broker has of its streams' states is not known; else: */
    uint64_t since;  /* that is as of this entry of the journal */
    uint64_t order;  /* where, among those that the broker has, states begin that change here */
    struct fleet_offset published; /* what is committed */
};

struct fleet {
    const struct consume_about *about;
    struct fleet_self self;
    struct fleet_held held;
    struct fleet_worker *worker;
    struct share *shares; /* (count,) */
    size_t count;
    struct fleet_view view; /* the newest, */
    bool has_view;          /* which is of now: no job was asked since */
    bool doubts;            /* the broker may have lost commits */
    bool busy;              /* a job is at the worker's: one at a time */
    uint64_t jobs;          /* that have been done */
    bool committed;         /* all that checkpoints have, but the newest one */
    bool gone;              /* what is left to do is to end */
    uint64_t serial;        /* of states */
    uint64_t *settle;       /* (settle_count,) claims whose end is in the journal */
    size_t settle_count;

    bool averaging;
    double patience;     /* until when, clock_seconds */
    uint64_t average_at; /* examples */
    struct {             /* the round in which others wait for this daemon: */
        uint64_t round;  /* 0: none */
        double seen;     /* since when, clock_seconds */
        uint64_t at;     /* examples then */
        bool passed;
    } waiting;

    char *members, *owners; /* of `status` */
    json_t *differences;    /* what was said of others' rates, by name; NULL: nothing yet */
    bool compared;          /* with those of the view */
    double told;            /* what it says of itself, last; clock_seconds */
    uint64_t taken, released, lost, left_out, adopted, rounds;
};

/* Which partition a stream belongs to. */
size_t fleet_partition_of(const struct daemon *daemon, const char *key, size_t key_size);

/* Give the job to the worker. */
void fleet_ask(struct daemon *daemon, struct fleet_job *job);

/* Do what is next, with a view that is of now, and nothing asked. */
int fleet_act(struct daemon *daemon, struct error *error);

/* Ask for a commit of all that is read; ask for the release of all that leaves, which is read no
   more. */
int fleet_commit(struct daemon *daemon, struct error *error);
int fleet_release(struct daemon *daemon, struct error *error);

/* Averages: the count of examples at which the next one is due; whether it is, and can be asked
   for; ask; the answer; go on without when that does not come. */
uint64_t fleet_next_average(const struct daemon *daemon);
bool fleet_averages_now(const struct daemon *daemon);
int fleet_average(struct daemon *daemon, struct error *error);
int fleet_averaged(struct daemon *daemon, struct fleet_job *job, struct error *error);
void fleet_give_up_averaging(struct daemon *daemon);

/* Let the others not wait, when they do, and this daemon would not come in time. */
void fleet_pass(struct daemon *daemon);

/* What it says of itself: JSON, to be freed; NULL: out of memory. Tell the others, once a second.
 */
char *fleet_info(const struct daemon *daemon);
void fleet_tell(struct daemon *daemon);

/* Its learning rates and clips, to be told (fleet/fleet_rates.h). */
json_t *fleet_own_rates(const struct daemon *daemon);

/* With a view that it has not seen: say once which others learn with another rate or clip. */
void fleet_compare_rates(struct daemon *daemon);

/* A commit of all partitions in a state, with those of their streams' states that the broker has
   not yet; all that was taken is learned and durable afterwards. NULL: -1 from `error`; without
   such a partition a job of none. */
struct fleet_job *fleet_export(struct daemon *daemon, enum share_state state, struct error *error);

/* It is answered. */
int fleet_published(struct daemon *daemon, const struct fleet_job *job, struct error *error);

/* Streams of a partition go on here; `adopted` counts them. -1: the device has failed. */
int fleet_adopt(struct daemon *daemon, size_t partition, struct fleet_states *states,
                uint64_t *adopted, struct error *error);

/* All streams of those partitions (count,) are another's. */
int fleet_forget(struct daemon *daemon, const bool *partitions, struct error *error);

/* The claims are this daemon's, and these the states: read them from now on. */
int fleet_begin(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* The commit with release is answered. */
int fleet_released(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* How the claims of what is lost have ended is answered. */
int fleet_come_back(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* Likewise of what had ended before. */
int fleet_compare_ends(struct daemon *daemon, struct fleet_job *job, struct error *error);

#endif
