/* Finds out why the handshake of a socket with its peer fails. A thread of its own does this,
   because it takes time. First it probes the peer (probe.h). If both sides have keys, it then
   tries sockets of other kinds: an encrypted peer shows its kind only to matching sockets. */
#ifndef RUNNEL_INQUIRY_H
#define RUNNEL_INQUIRY_H

struct key_client;

enum finding_kind {
    FINDING_NOTHING,  /* no reason found: try again */
    FINDING_HINDERED, /* the reason may be temporary */
    FINDING_REFUSED,  /* the reason is permanent until someone changes it */
};

enum { FINDING_SIZE = 256 };

struct finding {
    enum finding_kind kind;
    /* empty for FINDING_NOTHING; begins with a subject, as in "the daemon ..." */
    char why[FINDING_SIZE];
};

/* Find the reason within twice INQUIRY_SECONDS, or until the descriptor `stop` (-1: none) is
   readable. `type` is the type of the failing socket: ZMQ_SUB, _REQ, _PUSH or _DEALER. */
#define INQUIRY_SECONDS 2.0
void inquire(struct finding *finding, const char *endpoint, int type, const struct key_client *keys,
             int stop);

/* Start the same inquiry without waiting. The endpoint and keys must outlive it. At its end the
   caller's eventfd `over` becomes readable. Returns -1 with errno on failure. */
struct inquiry;
int inquiry_open(struct inquiry **inquiry, const char *endpoint, int type,
                 const struct key_client *keys, int over);

/* The result; NULL while the inquiry runs. */
const struct finding *inquiry_finding(const struct inquiry *inquiry);

/* May be called at any time. Waits only for the current step of the thread, and clears `over`. */
void inquiry_close(struct inquiry **inquiry);

/* Reasons that libzmq itself reports, in the same form. */
extern const char *const finding_wants_keys, *const finding_without_keys, *const finding_denied;

#endif
