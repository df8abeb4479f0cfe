/* The module runnel-cluster.so (daemon/source.h): examples of a broker, and fleets of daemons that
   share its partitions. This header has the module's data of a daemon. Files, from the bottom up:
   brokers/ (messages, addresses, connections); consume.h and one file per broker; fleet_link.h and
   one per broker; fleet_worker.h; shares.h; fleet.h; cluster.c, which is the source. */
#ifndef RUNNEL_CLUSTER_H
#define RUNNEL_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consume.h"

struct field_count;

struct cluster {
    struct consume *consume; /* owned by cluster.c */
    struct fleet *fleet;     /* owned by fleet.c; NULL without fleet.lease */
    struct shares *shares;   /* NULL without fleet.lease */
    /* numbers in the journal; 0 = none; set by shares.c */
    uint32_t numbers[CONSUME_PARTITIONS_MAX];

    /* The rest is set by cluster.c. */
    bool begun;       /* the journal is replayed */
    size_t started;   /* number of partitions started */
    uint64_t durable; /* the journal's position at the last check of places */
    char *places;     /* texts for `status` */
    struct field_count *lags;
};

#endif
