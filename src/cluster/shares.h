/* The partitions of a fleet at this daemon: taken, handed over or lost, with the states of their
   streams. fleet.h decides; this module does it and writes it to the journal.

   Functions return 0, or -1 if the daemon cannot continue. */
#ifndef RUNNEL_SHARES_H
#define RUNNEL_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster.h"
#include "config/config.h"
#include "fleet_worker.h"

struct daemon;
struct error;

enum share_state {
    SHARE_AWAY,   /* not owned by this daemon */
    SHARE_KEPT,   /* owned before the restart; the current owner is unknown */
    SHARE_OWNED,  /* read by this daemon */
    SHARE_LEAVES, /* not read any more, and being released */
    SHARE_LOST    /* another daemon may own it; the end of the claim is unknown */
};

/* A partition. */
struct share {
    enum share_state state;
    uint64_t claim;                /* 0 = none */
    uint32_t number;               /* the partition's number in the journal */
    bool whole;                    /* it is unknown which states the broker has */
    uint64_t since;                /* otherwise: the journal entry of those states */
    uint64_t order;                /* the rank after all states of the broker */
    struct fleet_offset published; /* the last commit */
    struct {                       /* the commit when the claim began */
        bool is_kept;              /* false: an older version made the claim without it */
        bool committed;
        struct fleet_offset offset;
    } begin;
    struct share_end {  /* the newest claim that ended, and the end of its valid examples */
        uint64_t claim; /* 0 = none */
        struct fleet_offset offset;
    } end;
};

#define SHARES_FILE "fleet.json"

struct shares {
    struct share *list; /* (count,); NULL: the number of partitions is not known yet */
    size_t count;
    char path[CONFIG_PATH_SIZE + sizeof "/" SHARES_FILE]; /* file of claims, begins and ends */
    char id[FLEET_ID_SIZE]; /* ID of the state directory, made with the file */
    uint64_t serial;        /* serial of staged states */
    uint64_t *settle;       /* (settle_count,) claims whose end is in the journal */
    size_t settle_count;
    uint64_t taken, released, lost, left_out, adopted;
};

/* Fills the shares (all zeros) once the number of partitions is known. */
int shares_open(struct daemon *daemon, struct error *error);
void shares_close(struct shares *shares);

/* Starts reading a partition, with or without a fleet, after `after`. NULL: after the journal's
   place, or as consume_start does. */
int shares_read(struct daemon *daemon, size_t partition, const struct consume_place *after,
                struct error *error);

/* Returns the partition of a stream. */
size_t shares_partition_of(const struct daemon *daemon, const char *key, size_t key_size);

/* Makes a commit of all partitions in a state, with the states that the broker does not have yet.
   All messages taken so far are then learned and durable. Returns NULL with -1 in `error`, or an
   empty job without such a partition. */
struct fleet_job *shares_export(struct daemon *daemon, enum share_state state, struct error *error);

/* Handles the answer to a commit, and to a release: 1 if some have to be released again. */
int shares_published(struct daemon *daemon, const struct fleet_job *job, struct error *error);
int shares_released(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* Starts reading newly claimed partitions with these states. */
int shares_begin(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* Handles the ends of lost claims and of earlier claims. */
int shares_come_back(struct daemon *daemon, struct fleet_job *job, struct error *error);
int shares_compare_ends(struct daemon *daemon, struct fleet_job *job, struct error *error);

#endif
