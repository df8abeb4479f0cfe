/* Acknowledgements of a ROUTER socket that wait: for the disk, and for the example to be learned
   where prediction and loss are wanted back. They go out in the order of the examples. */
#ifndef RUNNEL_ACKNOWLEDGE_H
#define RUNNEL_ACKNOWLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

struct acknowledge;
struct error;
struct learned;
struct model;

/* Who is to be answered, and about what. */
struct acknowledge_entry {
    const void *peer; /* identity of the client (peer_size,) */
    size_t peer_size;
    const char *key; /* of the stream (key_size,) */
    size_t key_size;
    struct wire_acknowledgement acknowledgement;
    uint64_t example; /* number that it will be learned as, when its result is wanted; else 0 */
    size_t steps;     /* in it */
};

/* The socket must outlive it. */
int acknowledge_open(struct acknowledge **acknowledge, void *socket, const struct model *model,
                     struct error *error);
void acknowledge_close(struct acknowledge **acknowledge);

/* Queue a copy, to be sent once the journal is durable up to its position. -1 (EX_OSERR) when
   out of memory. */
int acknowledge_add(struct acknowledge *acknowledge, const struct acknowledge_entry *entry,
                    struct error *error);

/* Keep what is wanted of an example that has been learned. */
void acknowledge_learned(struct acknowledge *acknowledge, const struct learned *learned);

/* Whether the result of an example that is under way is wanted. */
bool acknowledge_wants_results(const struct acknowledge *acknowledge);

/* Send all that may be sent. A client that has gone is not waited for: it will ask again. */
void acknowledge_send(struct acknowledge *acknowledge, uint64_t durable);

#endif
