/* What is there at an endpoint? A libzmq socket whose handshake fails learns the reason only by
   chance: its peer may close the connection before the reason, or even its greeting, has arrived.
   So the peer is asked: over a socket of the system's own, with the greeting of ZMTP 3 (ZeroMQ RFC
   23), byte by byte as far as the answer needs it:

     1. the first 11 bytes of a greeting, which make a ZMTP 3 peer send its own 64 and nothing else:
        its mechanism says whether it wants keys;
     2. the rest of ours, for no keys: a peer that has none sends READY with its kind of socket.

   It says nothing of itself beyond that, and leaves before it would be a peer. */
#ifndef RUNNEL_PROBE_H
#define RUNNEL_PROBE_H

enum probe_answer {
    PROBE_NOBODY,  /* no connection: there is no listener, or the endpoint cannot be asked */
    PROBE_CLOSES,  /* it takes the connection and closes it without a whole greeting */
    PROBE_SILENT,  /* it takes the connection and says nothing, or too little, in time */
    PROBE_FOREIGN, /* it says what is no greeting of ZMTP 3 */
    PROBE_PLAIN,   /* it speaks without keys (mechanism NULL) */
    PROBE_CURVE,   /* it wants keys */
    PROBE_OTHER,   /* it wants another mechanism, such as PLAIN or GSSAPI */
};

enum { PROBE_TYPE_SIZE = 16 };

struct probe {
    enum probe_answer answer;
    char type[PROBE_TYPE_SIZE]; /* PROBE_PLAIN: "REP", "XPUB", ...; "" when it did not say */
};

/* Ask the listener at tcp://HOST:PORT or ipc://PATH (ipc://@NAME: abstract), for at most
   `seconds`, or until there is something to read on the descriptor `stop` (-1: none). Blocks; a
   name of a host is looked up with the system's resolver, which has limits of its own. */
void probe_ask(struct probe *probe, const char *endpoint, double seconds, int stop);

#endif
