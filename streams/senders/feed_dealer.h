/* The DEALER socket of a client that must know when its connection breaks: libzmq never connects
   again by itself, and goes on behind what a broken connection has swallowed. Every connection has
   a socket of its own. */
#ifndef RUNNEL_FEED_DEALER_H
#define RUNNEL_FEED_DEALER_H

#include <stdbool.h>

#include "common/keys.h"

struct dealer;
struct error;
struct key_client;

/* As outlet_open; it only connects. `endpoint` must outlive it too. */
int dealer_open(struct dealer **dealer, const char *endpoint, const struct key_client *keys,
                struct error *error);
void dealer_close(struct dealer **dealer);

/* The socket; NULL between two connections. */
void *dealer_socket(const struct dealer *dealer);

/* The handshake is done, and dealer_drop is not. */
bool dealer_connected(const struct dealer *dealer);

/* Look how the connection does, without waiting. True: it, or the try to make one, is over, and
   dealer_drop is due. */
bool dealer_hear(struct dealer *dealer);

/* End the connection; the next one comes after a while, which grows until dealer_useful is called:
   something has come back. */
void dealer_drop(struct dealer *dealer);
void dealer_useful(struct dealer *dealer);

/* Begin the next connection if it is time: 1, else 0. -1 (EX_UNAVAILABLE) when the daemon has
   refused the last one for good. */
int dealer_renew(struct dealer *dealer, struct error *error);

/* Wait for one tick, or until there is something to hear or to receive or, with `room`, the queue
   has room. Errors: EX_IOERR. */
int dealer_wait(struct dealer *dealer, bool room, struct error *error);

#endif
