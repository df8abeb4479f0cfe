/* A fleet on a log, as one member computes it: the commands of the log (fleet_command.h), applied
   in their order, give every member the same machine. What fleet_scripts.h decides inside Redis is
   decided here by the order of the log, with the same outcome.

   It has no network and no clock. Time is the log's: the latest time of a message so far. A lease
   is over when a command with a later time is applied.

   Costs, for M members and P partitions: RENEW, ARRIVE, PASS O(log M), now and then O(M); TAKE,
   COMMIT and SETTLE O(log M) and O(1) for each item; JOIN, LEAVE and closing a round O(M); a view
   O(M + P).

   One thread uses a machine. Functions that allocate say so; all others cannot fail. */
#ifndef RUNNEL_FLEET_MACHINE_H
#define RUNNEL_FLEET_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet_command.h"
#include "fleet_link.h"

struct error;
struct fleet_machine;

/* What a command came to. */
enum fleet_verdict {
    FLEET_DONE,
    FLEET_REPEATED,   /* this number of this run was applied before; nothing is changed */
    FLEET_STALE,      /* of a run that has ended: the daemon has joined with another since */
    FLEET_STRANGER,   /* there is no such member: it has to join first */
    FLEET_NAMESAKE,   /* another daemon has the name (JOIN: and its lease is not over) */
    FLEET_STREAM,     /* JOIN: the fleet learns another stream, */
    FLEET_PARTITIONS, /* has another number of partitions, */
    FLEET_DIGEST,     /* learns with another configuration, */
    FLEET_AVERAGE,    /* or averages at other counts: fleet_machine_fleet says what it has */
    FLEET_ABSENT,     /* DRAIN: the daemon is not there */
};

enum fleet_result {
    FLEET_COMMITTED,  /* now, or like this before */
    FLEET_REFUSED,    /* it is another's */
    FLEET_INCOMPLETE, /* the states are to be published whole; nothing is done */
};

struct fleet_answer {
    enum fleet_verdict verdict;
    uint64_t number; /* RENEW: the version; ARRIVE: the round that it is in */
    /* (count of the command,), until the next command is applied. TAKE: the claim, 0: not taken.
       COMMIT: enum fleet_result. */
    const uint64_t *results;
};

/* 0, or NULL with EX_OSERR. */
struct fleet_machine *fleet_machine_open(struct error *error);
void fleet_machine_close(struct fleet_machine **machine);

/* Apply the next command of the log; `time`: its message's, ms since 1970. 0, or -1 out of memory,
   EX_OSERR: then the machine is of no use any more. */
int fleet_machine_apply(struct fleet_machine *machine, uint64_t time,
                        const struct fleet_command *command, struct fleet_answer *answer,
                        struct error *error);

/* Messages that are no commands count for the time, too. */
void fleet_machine_skip(struct fleet_machine *machine, uint64_t time);

/* ---- What it knows ---- */

uint64_t fleet_machine_time(const struct fleet_machine *machine);
uint64_t fleet_machine_version(const struct fleet_machine *machine);

/* As the first member had it. The stream is NULL while there has been none. */
struct fleet_kind {
    const char *stream, *digest;
    size_t partitions;
    uint64_t every;
};
struct fleet_kind fleet_machine_kind(const struct fleet_machine *machine);

/* The lease of the member with that name. */
struct fleet_namesake fleet_machine_namesake(const struct fleet_machine *machine, const char *name);

/* All of it, as fleet_link.h's `look` gives it, to be freed; leases as of `time` where that is
   later than the machine's (0: as of the machine's). -1: out of memory. */
int fleet_machine_view(const struct fleet_machine *machine, uint64_t time, struct fleet_view *view,
                       struct error *error);

/* What is committed of `claim->partition`, and whose claim it is, or was: fills the rest. False:
   the fleet has no such partition. */
bool fleet_machine_claim(const struct fleet_machine *machine, struct fleet_claim *claim);

/* Where the states of a partition are, a whole publication first: a row counts in place of one of
   the same stream before it. *count 0: there are none. Until the next command is applied. */
struct fleet_publication {
    uint64_t claim, serial, rows;
    char where[FLEET_WHERE_SIZE];
};
enum { FLEET_PUBLICATIONS_MAX = 64 }; /* of a partition: after that it has to be a whole one */
const struct fleet_publication *fleet_machine_states(const struct fleet_machine *machine,
                                                     size_t partition, size_t *count);

/* How `ended->claim` ended: fills the rest. */
void fleet_machine_ended(const struct fleet_machine *machine, struct fleet_ended *ended);

/* A round. DUE: a command ROUND with this lease (ms) would close it at `time`, or at the machine's
   where that is later. Where all have arrived ARRIVE, or PASS, has closed it. CLOSED: `names` are
   those in it, as fleet_link.h's `round` gives them, until the next command is applied. OPEN: else,
   and where it was closed more than 100 rounds ago. */
enum fleet_round_state { FLEET_ROUND_OPEN, FLEET_ROUND_DUE, FLEET_ROUND_CLOSED };
enum fleet_round_state fleet_machine_round(const struct fleet_machine *machine, uint64_t round,
                                           uint64_t lease, uint64_t time, const char **names);

/* Where the parameters of a member of a closed round are, as ARRIVE said; false: it is not in it.
 */
bool fleet_machine_where(const struct fleet_machine *machine, uint64_t round, const char *name,
                         char where[FLEET_WHERE_SIZE]);

/* ---- Snapshots ---- */

/* The machine as it is after the message at offset `position` of the log: bytes, to be freed. NULL:
   out of memory. Two machines that are the same have the same bytes. */
void *fleet_machine_save(const struct fleet_machine *machine, uint64_t position, size_t *size,
                         struct error *error);

/* A machine from such bytes; the log goes on after *position. NULL: they are damaged, EX_DATAERR,
   or a later version's, EX_UNAVAILABLE, or out of memory, EX_OSERR. */
struct fleet_machine *fleet_machine_load(const void *bytes, size_t size, uint64_t *position,
                                         struct error *error);

#endif
