/* GROUP.claims of a fleet on Kafka (fleet_kafka.h): records by key, JSON, of which the newest
   counts; as one daemon, or tool, reads them in their order, and writes more. Errors as of struct
   fleet_link_ops; one thread uses it. */
#ifndef RUNNEL_FLEET_CLAIMS_H
#define RUNNEL_FLEET_CLAIMS_H

#include <jansson.h>

#include "fleet_kafka_client.h"

enum {
    CLAIMS_ROUNDS_KEPT = 8, /* that are closed */
    CLAIMS_KEY_SIZE = 1 + FLEET_NAME_SIZE,
};

/* Keys of GROUP.claims: a letter, and what it is of. */
#define OF_PARTITION "p" /* number: a struct holding */
#define OF_END "e"     /* claim: up to which offset it counts, until its daemon has settled that */
#define OF_DAEMON "d"  /* name: what it says of itself */
#define OF_DRAINED "x" /* name: it is to give up what it has */
#define OF_ARRIVAL "a" /* name: it has come to the round that is open, or will not */
#define OF_ROUND "r"   /* the round that was closed last, with who is in it */

/* A partition. Texts live with its record. */
struct holding {
    json_t *record; /* NULL: none yet */
    uint64_t claim, serial, learned, streams;
    int64_t offset; /* of the newest message that is learned; -1: none */
    const char *name, *id;
    bool is_free;           /* its owner has handed it over */
    bool overlaid;          /* states may have been laid over by ones that do not count */
    bool assigned, leaving; /* to this daemon, by the group; which is to give it up */
};

/* All zeros at first, but for the client (fleet_kafka_client.h). */
struct claims {
    struct fleet_link link;
    struct fleet_client client;
    rd_kafka_topic_t *topic; /* NULL: it is not read */
    int64_t next;            /* offset of the message that comes next */
    size_t span;             /* of the transaction, in this topic */
    bool fenced;             /* the group refused the last one */
    json_t *records;         /* by key, all but those of partitions and rounds */
    struct holding *held;    /* (held_count,) by partition */
    size_t held_count;
    uint64_t version, round;            /* round: the open one, from 1 */
    double arrival;                     /* clock_seconds of the first one to it; 0: none */
    json_t *closed[CLAIMS_ROUNDS_KEPT]; /* (round % CLAIMS_ROUNDS_KEPT) */
};

/* A key: a letter, and a name or a number. */
const char *claims_key(char key[CLAIMS_KEY_SIZE], const char *kind, const char *name);
const char *claims_number_key(char key[CLAIMS_KEY_SIZE], const char *kind, uint64_t number);

/* The record of a daemon, arrival, drain or end; NULL: not found. */
const json_t *claims_find(const struct claims *claims, const char *kind, const char *name);

/* A member of a record: 0, or "", where it has none. */
uint64_t claims_number(const json_t *record, const char *name);
const char *claims_text(const json_t *record, const char *name);

/* Seconds that are left of what a daemon has said of itself; below 0: it may be gone. */
double claims_lease_left(const json_t *daemon);

/* Read what there is: all that was committed before the call (`all`: and what is about to be), or
   at least all that has come. 1: the fleet does not exist. */
int claims_follow(struct claims *claims, struct error *error);
int claims_follow_all(struct claims *claims, struct error *error);

/* A new transaction (claims_join: or the open one), and its span for claims_put. The record is
   taken; NULL: out of memory. To erase: no record counts any more. */
int claims_begin(struct claims *claims, size_t *span, struct error *error);
int claims_join(struct claims *claims, size_t *span, struct error *error);
int claims_put(struct claims *claims, size_t span, const char *key, json_t *record,
               struct error *error);
int claims_erase(struct claims *claims, size_t span, const char *key, struct error *error);

/* Commit it, with the group's offsets (kafka_commit), and read it back: what of it counts is known
   then. */
int claims_commit(struct claims *claims, const rd_kafka_consumer_group_metadata_t *group,
                  const rd_kafka_topic_partition_list_t *offsets, struct error *error);

/* All of that for one record; claims_tell does not read it back. */
int claims_tell(struct claims *claims, const char *key, json_t *record, struct error *error);
int claims_write(struct claims *claims, const char *key, json_t *record, struct error *error);

/* What all daemons of a fleet must have alike: as this one has it, to be freed; as any has said it,
   NULL: none has; and whether this one is of the kind of all others, -1 (EX_CONFIG): it is not. */
json_t *claims_kind_of(const struct fleet_self *self);
const json_t *claims_any_kind(const struct claims *claims);
int claims_judge(const struct claims *claims, struct error *error);

/* After a record that was refused (its claim and serial) the one that counts is written again, for
   whoever begins to read with the refused one once they are compacted. */
int claims_restore(struct claims *claims, size_t partition, uint64_t claim, uint64_t serial,
                   struct error *error);

/* A span as a member of a record. False: not a span. */
json_t *claims_span_json(const struct kafka_span *span);
bool claims_span(const json_t *json, struct kafka_span *span);

/* Averages: functions of struct fleet_link_ops, whose link is a struct claims. */
int claims_arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error);
int claims_pass(struct fleet_link *link, uint64_t round, struct error *error);
int claims_round(struct fleet_link *link, uint64_t round, char **names, struct error *error);
int claims_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error);

/* What is read is forgotten; what follows reads all again. */
void claims_forget(struct claims *claims);

#endif
