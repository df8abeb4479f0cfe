/* The topic GROUP.claims of a fleet on Kafka (fleet_kafka.h): JSON records, of which the newest of
   a key counts. Daemons and tools read them in order and append more. Errors are those of struct
   fleet_link_ops; one thread uses it. */
#ifndef RUNNEL_FLEET_CLAIMS_H
#define RUNNEL_FLEET_CLAIMS_H

#include <jansson.h>

#include "fleet_kafka_client.h"

enum {
    CLAIMS_ROUNDS_KEPT = 8, /* closed rounds */
    CLAIMS_KEY_SIZE = 1 + FLEET_NAME_SIZE,
};

/* Keys of GROUP.claims: a letter and a name or number. */
#define OF_PARTITION "p" /* number of a partition: a struct holding */
/* number of a claim: the offset where it ended, until its daemon has settled it */
#define OF_END "e"
#define OF_DAEMON "d"  /* daemon name: its report about itself */
#define OF_DRAINED "x" /* daemon name: it has to hand over all partitions */
#define OF_ARRIVAL "a" /* daemon name: it has arrived in the open round, or passes it */
#define OF_ROUND "r"   /* the last closed round and its members */

/* A partition. Its texts live as long as its record. */
struct holding {
    json_t *record; /* NULL: none yet */
    uint64_t claim, serial, learned, streams;
    int64_t offset; /* offset of the newest learned message; -1: none */
    const char *name, *id;
    bool is_free;           /* its owner has released it */
    bool overlaid;          /* states that do not count may have overwritten others */
    bool assigned, leaving; /* the group has assigned it to this daemon; it has to be released */
};

/* All zeros at first, except the client (fleet_kafka_client.h). */
struct claims {
    struct fleet_link link;
    struct fleet_client client;
    rd_kafka_topic_t *topic; /* NULL: not being read */
    int64_t next;            /* offset of the next message */
    size_t span;             /* the transaction's span in this topic */
    bool fenced;             /* the group rejected the last commit */
    json_t *records;         /* by key, except partitions and rounds */
    struct holding *held;    /* (held_count,) by partition */
    size_t held_count;
    uint64_t version, round;            /* round: the open one, from 1 */
    double arrival;                     /* clock_seconds of the first arrival; 0: none */
    json_t *closed[CLAIMS_ROUNDS_KEPT]; /* (round % CLAIMS_ROUNDS_KEPT) */
};

/* Prints a key: a letter, and a name or number. */
const char *claims_key(char key[CLAIMS_KEY_SIZE], const char *kind, const char *name);
const char *claims_number_key(char key[CLAIMS_KEY_SIZE], const char *kind, uint64_t number);

/* Finds a record of a daemon, arrival, drain or end; NULL: not found. */
const json_t *claims_find(const struct claims *claims, const char *kind, const char *name);

/* Returns a member of a record; 0 or "" if it is missing. */
uint64_t claims_number(const json_t *record, const char *name);
const char *claims_text(const json_t *record, const char *name);

/* Returns the seconds left of a daemon's lease, by its report; below 0: it may be gone. */
double claims_lease_left(const json_t *daemon);

/* Reads all records committed before the call (`all`: open transactions, too), or at least all that
   have arrived. Returns 1 if the fleet does not exist. */
int claims_follow(struct claims *claims, struct error *error);
int claims_follow_all(struct claims *claims, struct error *error);

/* Starts a transaction (claims_join: or uses the open one), and its span for claims_put. claims_put
   takes the record; NULL: out of memory. claims_erase appends a tombstone. */
int claims_begin(struct claims *claims, size_t *span, struct error *error);
int claims_join(struct claims *claims, size_t *span, struct error *error);
int claims_put(struct claims *claims, size_t span, const char *key, json_t *record,
               struct error *error);
int claims_erase(struct claims *claims, size_t span, const char *key, struct error *error);

/* Commits with the group's offsets (kafka_commit) and reads the result back, so that it is known
   which records count. */
int claims_commit(struct claims *claims, const rd_kafka_consumer_group_metadata_t *group,
                  const rd_kafka_topic_partition_list_t *offsets, struct error *error);

/* Does all of this for one record. claims_append does not read it back. */
int claims_append(struct claims *claims, const char *key, json_t *record, struct error *error);
int claims_write(struct claims *claims, const char *key, json_t *record, struct error *error);

/* The settings that all daemons of a fleet share: of this daemon, to be freed; as recorded by any
   daemon, NULL if none has; and the check of both, which fails with EX_CONFIG if they differ. */
json_t *claims_kind_of(const struct fleet_self *self);
const json_t *claims_any_kind(const struct claims *claims);
int claims_check(const struct claims *claims, struct error *error);

/* After a rejected record (with its claim and serial), writes the record that counts again. A later
   reader may see the rejected one first, once the topic is compacted. */
int claims_restore(struct claims *claims, size_t partition, uint64_t claim, uint64_t serial,
                   struct error *error);

/* Converts a span to a member of a record, and back; returns false if it is not a span. */
json_t *claims_span_json(const struct kafka_span *span);
bool claims_span(const json_t *json, struct kafka_span *span);

/* Averages: functions of struct fleet_link_ops whose link is a struct claims. */
int claims_arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error);
int claims_pass(struct fleet_link *link, uint64_t round, struct error *error);
int claims_round(struct fleet_link *link, uint64_t round, char **names, struct error *error);
int claims_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error);

/* Forgets all records; the next call reads them again. */
void claims_forget(struct claims *claims);

#endif
