/* Finds out what listens at an endpoint. A libzmq socket whose handshake fails learns the reason
   only by chance: its peer may close the connection before the reason, or even its greeting, has
   arrived. The probe connects with a plain socket and sends the greeting of ZMTP 3 (ZeroMQ RFC
   23), as much as it needs:
     1. the first 11 bytes, which make a ZMTP 3 peer send its own 64 bytes and nothing else:
        its mechanism shows whether it requires keys;
     2. the rest of a greeting without keys: a peer without keys sends READY with its kind of
        socket.
   It sends nothing else, and closes the connection before the handshake completes. */
#ifndef RUNNEL_PROBE_H
#define RUNNEL_PROBE_H

enum probe_answer {
    PROBE_NOBODY,  /* no connection: no listener, or an endpoint that cannot be probed */
    PROBE_CLOSES,  /* accepts the connection and closes it before a whole greeting */
    PROBE_SILENT,  /* accepts the connection and sends too little in time */
    PROBE_FOREIGN, /* sends something other than a ZMTP 3 greeting */
    PROBE_PLAIN,   /* has no keys (mechanism NULL) */
    PROBE_CURVE,   /* requires keys */
    PROBE_OTHER,   /* requires another mechanism, such as PLAIN or GSSAPI */
};

enum { PROBE_TYPE_SIZE = 16 };

struct probe {
    enum probe_answer answer;
    /* socket type for PROBE_PLAIN: "REP", "XPUB", ...; "" if not received */
    char type[PROBE_TYPE_SIZE];
};

/* Probe the listener at tcp://HOST:PORT or ipc://PATH (ipc://@NAME: abstract), for at most
   `seconds`, or until the descriptor `stop` (-1: none) is readable. Blocks. The system's
   resolver, which has its own timeouts, looks up host names. */
void probe_ask(struct probe *probe, const char *endpoint, double seconds, int stop);

#endif
