/* Streams whose state has numbers that could not be read again. */
#ifndef RUNNEL_DAMAGED_H
#define RUNNEL_DAMAGED_H

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct error;

/* Before states are written to a checkpoint or go elsewhere: of the streams that have changed after
   that entry of the journal, 0 = all, each with an invalid state is forgotten, and begins anew. -1:
   the device has failed, or out of memory. */
int damaged_check(struct daemon *daemon, uint64_t since, struct error *error);

/* The state of the stream was forgotten: the journal gets an entry, and there is an event. */
void damaged_announce(struct daemon *daemon, const char *key, size_t key_size);

#endif
