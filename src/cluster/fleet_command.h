/* What changes a fleet on a log: one command is one message, which all members read and apply in
   the same order (fleet_machine.h). As bytes it is JSON, for people who look with a broker's tools:

     {"v":1,"do":"take","name":"worker-1","id":"..","run":"..","number":17,"takes":[[3,41],[4,0]]}

   An item of `takes` is [partition, claim]; of `commits` [partition, claim, epoch, sequence,
   learned, streams, serial, rows, whole (0 or 1), where]; of `settled` a claim. Numbers are below
   2^63.

   What a member does not know is skipped by all members alike: members of an object that have
   another name, and messages that are no commands. Only a greater "v" is an error: from there on
   members of two versions could come to two ends. */
#ifndef RUNNEL_FLEET_COMMAND_H
#define RUNNEL_FLEET_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet_link.h"

struct error;

enum {
    FLEET_COMMAND_VERSION = 1,
    FLEET_WHERE_SIZE = 81,      /* with '\0' */
    FLEET_ITEMS_MAX = 2048,     /* of one command, which is below 1 MB: more are several */
    FLEET_INFO_MAX = 64 * 1024, /* bytes */
    FLEET_TEXT_MAX = 1024,      /* bytes of any other text */
};

enum fleet_command_kind {
    FLEET_COMMAND_JOIN,      /* lease, stream, digest, every, partitions, info */
    FLEET_COMMAND_RENEW,     /* lease, info (NULL: as before) */
    FLEET_COMMAND_LEAVE,     /* nothing more */
    FLEET_COMMAND_TAKE,      /* takes */
    FLEET_COMMAND_COMMIT,    /* commits, release */
    FLEET_COMMAND_SETTLE,    /* settled */
    FLEET_COMMAND_ARRIVE,    /* serial, where */
    FLEET_COMMAND_PASS,      /* round */
    FLEET_COMMAND_ROUND,     /* round, lease: close it where that is due */
    FLEET_COMMAND_DRAIN,     /* target; for this one and the next nobody need be a member */
    FLEET_COMMAND_REBALANCE, /* nothing more */
    FLEET_COMMAND_KINDS
};

/* A partition that is free, or whose owner's lease is over, by the claim that it had when it was
   looked at: it is taken only where nobody has claimed it since. */
struct fleet_take {
    size_t partition;
    uint64_t claim;
};

/* What the owner has learned of a partition, as struct fleet_commit of fleet_link.h. */
struct fleet_learned {
    size_t partition;
    uint64_t claim;
    struct fleet_offset offset;
    uint64_t learned, streams;
    uint64_t serial, rows; /* of a publication of states; serial 0: there is none */
    bool whole;
    char where[FLEET_WHERE_SIZE]; /* the publication is: for who reads it, opaque here */
};

/* Texts and lists are the command's own where fleet_command_decode made it, and of whoever else
   made it else. What a kind does not name is not looked at. */
struct fleet_command {
    enum fleet_command_kind kind;

    /* Whose it is. A run is one life of the daemon's link: it is random, and begins with JOIN.
       Commands of a run are numbered from 1: one that comes to the log twice counts once. */
    const char *name, *id, *run;
    uint64_t number;

    const char *stream, *digest, *info, *target;
    uint64_t lease; /* ms */
    uint64_t every; /* examples between two rounds; 0: there are none */
    uint64_t partitions;

    size_t count; /* of the list that the kind has, at most FLEET_ITEMS_MAX */
    struct fleet_take *takes;
    struct fleet_learned *commits;
    uint64_t *settled; /* claims */
    bool release;

    uint64_t serial, round;       /* serial: another for each arrival of a member */
    char where[FLEET_WHERE_SIZE]; /* the parameters are: opaque here, too */

    void *root; /* what decoding keeps */
};

/* As bytes, to be freed; NULL: out of memory. */
char *fleet_command_encode(const struct fleet_command *command, size_t *size);

/* 0; 1: it is no command, and `error` has a clause that says why (all members skip it); -1: out of
   memory, EX_OSERR, or a later version's, EX_UNAVAILABLE. After 0 it is to be freed. */
int fleet_command_decode(const void *bytes, size_t size, struct fleet_command *command,
                         struct error *error);
void fleet_command_free(struct fleet_command *command);

#endif
