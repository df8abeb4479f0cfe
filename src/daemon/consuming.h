/* The sources that are brokers (consume.h): an example's place is in the journal with the example,
   and so is that of a dead letter, as a command that does nothing else. */
#ifndef RUNNEL_CONSUMING_H
#define RUNNEL_CONSUMING_H

#include <stdbool.h>
#include <stddef.h>

struct consume_place;
struct daemon;
struct error;
struct status_fields;

/* Read the partition after `after`; NULL: as the journal has it. Outside of a fleet all are read.
 */
int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error);

/* The name of a group, and where it is in each partition: what `status` says of it; false: no
   broker is read. */
bool consuming_report(const struct daemon *daemon, struct status_fields *status);

/* Frees what consuming_report made for the texts of `status`. */
void consuming_reported(struct daemon *daemon);

#endif
