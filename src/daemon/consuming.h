/* The broker that the daemon reads itself (consume.h), and what of it is learned: an example's
   place is in the journal with the example, and so is that of a dead letter, as a command that does
   nothing else. Without examples.redis or examples.kafka all of it does nothing. */
#ifndef RUNNEL_CONSUMING_H
#define RUNNEL_CONSUMING_H

#include <stdbool.h>
#include <stdint.h>

#include "sockets/frames.h"

struct daemon;
struct error;
struct example;
struct status_fields;

/* The journal has been opened. Nothing is read before consuming_begin: what the journal has is
   learned. EX_CONFIG: the journal has partitions that would be read no more. */
int consuming_open(struct daemon *daemon, struct error *error);
int consuming_begin(struct daemon *daemon, struct error *error);
void consuming_close(struct daemon *daemon);

/* Read the partition after `after`; NULL: as the journal has it. consuming_begin does it with all.
 */
struct consume_place;
int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error);

/* The partition's number in the journal (journal_partition); 0: it was never started. */
uint32_t consuming_number(const struct daemon *daemon, size_t partition);

/* The newest place of the partition that was appended to the journal; false: none has been since it
   was started, and `place` is where it was. */
bool consuming_place(const struct daemon *daemon, size_t partition, struct consume_place *place);

/* For zmq_poll. */
int consuming_descriptor(const struct daemon *daemon);

/* The next example, never waiting; `now` becomes its `received`. 1: valid until the next call; 0;
   -1: the broker cannot be read. */
int consuming_take(struct daemon *daemon, uint64_t now, struct example *example,
                   struct error *error);

/* The example that consuming_take gave last is not learned, but a dead letter. */
void consuming_refuse(struct daemon *daemon, enum reject_reason reason, const char *why);

/* Partitions that have become known are read; what is durable, the broker is told. */
int consuming_turn(struct daemon *daemon, struct error *error);

/* The name of a group, and where it is in each partition: what `status` says of it; false: no
   broker is read. */
bool consuming_report(const struct daemon *daemon, struct status_fields *status);

/* Frees what consuming_report made for the texts of `status`. */
void consuming_reported(struct daemon *daemon);

#endif
