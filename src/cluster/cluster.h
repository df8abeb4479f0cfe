/* The module runnel-cluster.so (daemon/source.h): examples of a broker, and fleets of daemons that
   share its partitions out. Here is what the module keeps for a daemon; its files are, from the
   ground up, brokers/ (messages, addresses, connections), consume.h and one file for each broker,
   fleet_link.h and one for each, fleet_worker.h, shares.h, fleet.h, and cluster.c,
   which is the source. */
#ifndef RUNNEL_CLUSTER_H
#define RUNNEL_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consume.h"

struct field_count;

struct cluster {
    struct consume *consume;                  /* cluster.c's */
    struct fleet *fleet;                      /* NULL without fleet.lease; fleet.c's */
    struct shares *shares;                    /* NULL likewise */
    uint32_t numbers[CONSUME_PARTITIONS_MAX]; /* the journal's; 0 = none; shares.c writes them */

    /* cluster.c's: */
    bool begun;       /* what the journal had is learned */
    size_t started;   /* of all partitions, one after the other */
    uint64_t durable; /* the journal's position when places were last looked at */
    char *places;     /* texts of `status` */
    struct field_count *lags;
};

#endif
