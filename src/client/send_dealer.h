/* The DEALER socket of a client that must know when its connection breaks: libzmq never connects
   again by itself, and would resume after what a broken connection has swallowed. Every connection
   has a socket of its own. */
#ifndef RUNNEL_SEND_DEALER_H
#define RUNNEL_SEND_DEALER_H

#include <stdbool.h>

struct dealer;
struct error;
struct peer;
struct send_hooks;
struct send_other;

/* As push_open; it only connects. Peer and hooks must outlive it. */
int dealer_open(struct dealer **dealer, const struct peer *peer, const struct send_hooks *hooks,
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

/* Wait so many seconds at most, or until there is an event or something to receive or, with `room`,
   the queue has room, or `other` (NULL: none) is ready. Errors: EX_IOERR. */
int dealer_wait(struct dealer *dealer, double seconds, bool room, struct send_other *other,
                struct error *error);

#endif
