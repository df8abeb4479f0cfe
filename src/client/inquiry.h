/* Why does the handshake of a peer with a socket fail? Asked on a thread of its own, since it takes
   time: first what is there (probe.h), then, where both sides have keys, whether sockets of other
   kinds are accepted: encrypted, a peer shows its kind only to those. */
#ifndef RUNNEL_INQUIRY_H
#define RUNNEL_INQUIRY_H

#include <stdbool.h>

struct key_client;

enum finding_kind {
    FINDING_NOTHING,  /* no reason was found: try again */
    FINDING_HINDERED, /* something that may pass */
    FINDING_REFUSED,  /* something that stays until somebody changes it */
};

enum { FINDING_SIZE = 256 };

struct finding {
    enum finding_kind kind;
    char why[FINDING_SIZE]; /* unless nothing: a phrase that begins with who does what */
};

/* Ask and wait for what is found, for at most INQUIRY_SECONDS twice over, or until the descriptor
   `stop` (-1: none) can be read. `type` is that of the socket in question: ZMQ_SUB, _REQ, _PUSH or
   _DEALER. */
#define INQUIRY_SECONDS 2.0
void inquire(struct finding *finding, const char *endpoint, int type, const struct key_client *keys,
             int stop);

/* The same without waiting: endpoint and keys must outlive the inquiry. `over` is an eventfd that
   can be read from when it is over; it stays the caller's. -1 with errno. */
struct inquiry;
int inquiry_open(struct inquiry **inquiry, const char *endpoint, int type,
                 const struct key_client *keys, int over);

/* What was found; NULL while it is not over. */
const struct finding *inquiry_finding(const struct inquiry *inquiry);

/* At any time; waits only for what the thread has in hand, and leaves nothing to read in `over`. */
void inquiry_close(struct inquiry **inquiry);

/* What libzmq itself says of a handshake, as phrases of that kind. */
extern const char *const finding_wants_keys, *const finding_without_keys, *const finding_denied;

#endif
