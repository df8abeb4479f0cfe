/* Partitions that the daemon reads (consume.h), each from its place in the journal on. */
#ifndef RUNNEL_CONSUMING_H
#define RUNNEL_CONSUMING_H

#include <stddef.h>

#include "cluster.h"

struct daemon;

/* Read the partition after `after`; NULL: as the journal has it. Outside of a fleet all are read.
 */
int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error);

#endif
