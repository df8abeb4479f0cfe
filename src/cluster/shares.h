/* A fleet's partitions, as this daemon has them: they come, go, and turn out to be another's, each
   with the states of its streams. fleet.h decides which; here that is done, and is in the journal.

   Functions return 0 or -1: the daemon cannot continue. */
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
    SHARE_AWAY,   /* it is not this daemon's */
    SHARE_KEPT,   /* it was, before the daemon was started: whether it is still is not known */
    SHARE_OWNED,  /* it is read */
    SHARE_LEAVES, /* it is read no more, and being released */
    SHARE_LOST    /* another has it, or may have it: how its claim ended is not known */
};

/* A partition. */
struct share {
    enum share_state state;
    uint64_t claim;  /* 0 = none */
    uint32_t number; /* the journal's, of the partition */
    bool whole;      /* what the broker has of its streams' states is not known; else: */
    uint64_t since;  /* that is as of this entry of the journal */
    uint64_t order;  /* where, among those that the broker has, states begin that change here */
    struct fleet_offset published; /* what is committed */
    struct {                       /* what was committed when the claim began */
        bool is_kept;              /* false: an older version made the claim, and kept no offset */
        bool committed;
        struct fleet_offset offset;
    } begin;
    struct share_end {  /* the newest claim that ended: how far what was learned here counts */
        uint64_t claim; /* 0 = none */
        struct fleet_offset offset;
    } end;
};

#define SHARES_FILE "fleet.json"

struct shares {
    struct share *list; /* (count,); NULL: it is not known yet how many partitions there are */
    size_t count;
    char path[CONFIG_PATH_SIZE +
              sizeof "/" SHARES_FILE]; /* claims, begins and ends over a restart */
    char id[FLEET_ID_SIZE];            /* of the state directory, made when the file is */
    uint64_t serial;                   /* of states */
    uint64_t *settle;                  /* (settle_count,) claims whose end is in the journal */
    size_t settle_count;
    uint64_t taken, released, lost, left_out, adopted;
};

/* The broker has said how many partitions there are: fill in shares, which are all zeros. */
int shares_open(struct daemon *daemon, struct error *error);
void shares_close(struct shares *shares);

/* Read a partition from now on, in a fleet or without one: after `after`, NULL: after what the
   journal has of it, or as consume_start has it. */
int shares_read(struct daemon *daemon, size_t partition, const struct consume_place *after,
                struct error *error);

/* Which partition a stream belongs to. */
size_t shares_partition_of(const struct daemon *daemon, const char *key, size_t key_size);

/* A commit of all partitions in a state, with those of their streams' states that the broker has
   not yet; all that was taken is learned and durable afterwards. NULL: -1 from `error`; without
   such a partition a job of none. */
struct fleet_job *shares_export(struct daemon *daemon, enum share_state state, struct error *error);

/* It is answered; and that with release: 1, some are to be released again. */
int shares_published(struct daemon *daemon, const struct fleet_job *job, struct error *error);
int shares_released(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* The claims are this daemon's, and these the states: read them from now on. */
int shares_begin(struct daemon *daemon, struct fleet_job *job, struct error *error);

/* How the claims of what is lost have ended is answered; and of what had ended before. */
int shares_come_back(struct daemon *daemon, struct fleet_job *job, struct error *error);
int shares_compare_ends(struct daemon *daemon, struct fleet_job *job, struct error *error);

#endif
