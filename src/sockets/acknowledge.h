/* Acknowledgements of a ROUTER socket. They wait for the disk and, if prediction and loss are
   requested, for the example to be learned. They are sent in the order of the examples. */
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

/* The recipient and content of an acknowledgement. */
struct acknowledge_entry {
    const void *peer; /* identity of the client (peer_size,) */
    size_t peer_size;
    const char *key; /* name of the stream (key_size,) */
    size_t key_size;
    struct wire_acknowledgement acknowledgement;
    uint64_t example; /* number that it will be learned as, if its result is requested; else 0 */
    size_t steps;     /* steps of the example */
    const double *levels; /* (level_count,) of the requested quantiles */
    size_t level_count;
};

/* The socket must outlive it. */
int acknowledge_open(struct acknowledge **acknowledge, void *socket, const struct model *model,
                     struct error *error);
void acknowledge_close(struct acknowledge **acknowledge);

/* Queue a copy, to be sent once the journal is durable up to its position. -1 (EX_OSERR): out of
   memory. */
int acknowledge_add(struct acknowledge *acknowledge, const struct acknowledge_entry *entry,
                    struct error *error);

/* Store the requested result of a learned example. */
void acknowledge_learned(struct acknowledge *acknowledge, const struct learned *learned);

/* Whether the result of a pending example is requested. */
bool acknowledge_wants_results(const struct acknowledge *acknowledge);

/* Send all acknowledgements up to the durable position. Those for clients that are gone are
   dropped: the client will ask again. */
void acknowledge_send(struct acknowledge *acknowledge, uint64_t durable);

#endif
