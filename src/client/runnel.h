/* librunnel: what talks to a runneld. Subscribe to its statistics, ask and command it, feed it
   examples.

   This header is the manual; docs/reference/clients.md has whole programs, docs/reference/protocol.md what travels.
   Compile and link with `pkg-config --cflags --libs runnel`; C99, and usable from C++.

   Errors: functions that can fail return 0, or -1 and fill a struct runnel_error (NULL is allowed):
   one sentence that names the endpoint, key or file and the way out, and an exit status. Sentences
   name what was given as the options of runnel's own programs do: --connect is `endpoint`,
   --server-key and --key are `server_key` and `key`.

   Ownership: x_open gives an object, x_close takes it back and sets the pointer to NULL; closing
   NULL does nothing. Strings that are given need not outlive the call; pointers that are handed out
   are valid until the next call for the same object.

   Threads and loops: an object belongs to one thread at a time; different objects may be used at
   the same time. Nothing is printed, no signal is touched, and no function waits unless it says so:
   a subscriber and a request have one descriptor for poll(2), epoll or a loop of events, a sender
   has a function that is called while it waits. */
#ifndef RUNNEL_RUNNEL_H
#define RUNNEL_RUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t; /* of jansson, for who uses it */

/* One sentence about what went wrong. */
struct runnel_error {
    int status;      /* EX_USAGE, EX_UNAVAILABLE, EX_SOFTWARE, EX_IOERR, ... of <sysexits.h> */
    char text[1024]; /* without newline; printable UTF-8 */
};

/* The version of the library, "0.1.0". */
const char *runnel_version(void);

/* ---- where to, and with which keys ---- */

#define RUNNEL_EXAMPLES "tcp://127.0.0.1:5570" /* default endpoints of a daemon */
#define RUNNEL_STATISTICS "tcp://127.0.0.1:5571"
#define RUNNEL_CONTROL "tcp://127.0.0.1:5572"

/* A daemon that has keys (docs/explanation/security.md) takes connections only of those who know its public
   key, and where it has lists of keys only of those who are on them. Without keys leave both NULL.
 */
struct runnel_peer {
    const char *endpoint;   /* tcp://HOST:PORT, tcp://[IPv6]:PORT, ipc://PATH or ipc://@NAME */
    const char *server_key; /* the daemon's public key: a file, or its 40 characters; or NULL */
    const char *key;        /* file with your own secret key; NULL = one that is used once */
};

/* For sockets of your own: make a libzmq socket that is not connected yet a client with these keys.
   EX_USAGE: a key cannot be read or is none. */
int runnel_keys(void *zmq_socket, const struct runnel_peer *peer, struct runnel_error *error);

/* ---- subscribing ---- */

/* The news of a subscriber. */
enum runnel_kind {
    RUNNEL_NOTHING,      /* no more for now: wait */
    RUNNEL_MESSAGE,      /* of the daemon: topic, text, ... */
    RUNNEL_CONNECTED,    /* a connection was made */
    RUNNEL_DISCONNECTED, /* it has ended; it is made again as soon as can be */
    RUNNEL_HINDERED,     /* nothing will come as things are, `why`; it is tried again */
    RUNNEL_REFUSED,      /* likewise, and it is not tried again */
};

struct runnel_news {
    enum runnel_kind kind;
    const char *why; /* of HINDERED, REFUSED: begins with "the daemon" or "what is there" */

    /* Of a MESSAGE: */
    const char *topic;      /* "status", "loss", "state", "prediction", "event"; or "" */
    const char *text;       /* a JSON object, with a NUL after it; NULL when there is a problem */
    size_t size;            /* of the text, bytes */
    struct json_t *json;    /* the same, parsed by jansson; json_incref keeps it */
    const char *problem;    /* instead of these three: why it is no message; else NULL */
    bool restarted;         /* the daemon was started again since the message before, */
    const char *run;        /* then: its run, */
    const char *run_before; /* and that before */
    uint64_t missed;        /* messages of this topic that were lost right before this one */
    double unheard[2]; /* of loss, with status subscribed to: see struct runnel_gap; else NAN */
};

/* What was learned without a subscriber: a topic that nobody subscribes to does not count its
   messages, but `examples` grows by `every` (of status) from one loss to the next, through restarts
   too. A subscriber keeps one of these; a program that records what came, and resumes from there,
   keeps another. */
struct runnel_gap {
    double every;  /* examples between two loss messages; NAN = not known yet: nothing is a gap */
    double newest; /* examples in the newest one; NAN = none yet */
};

/* Take in a status, and a loss: true, and the numbers of examples between which others were
   learned, when nothing was heard of those. */
void runnel_gap_status(struct runnel_gap *gap, double every, double examples);
bool runnel_gap_loss(struct runnel_gap *gap, double examples, double unheard[2]);

struct runnel_subscriber;

/* Subscribe to the topics, a list that ends with NULL (NULL itself: all five). The daemon may come
   later, go, and come back. EX_USAGE: no endpoint, or a key cannot be read; EX_UNAVAILABLE: no
   sockets. */
int runnel_subscriber_open(struct runnel_subscriber **subscriber, const struct runnel_peer *peer,
                           const char *const *topics, struct runnel_error *error);
void runnel_subscriber_close(struct runnel_subscriber **subscriber);

/* Readable as long as there may be news; after NOTHING it is not, until there are. Owned by the
   subscriber. */
int runnel_subscriber_descriptor(const struct runnel_subscriber *subscriber);

/* The next of the news, without waiting. */
enum runnel_kind runnel_subscriber_next(struct runnel_subscriber *subscriber,
                                        struct runnel_news *news);

/* From now on messages are not parsed: `json` is NULL, the text is not known to be JSON, and what
   is read from it (restarted, missed, unheard) is not known. For who passes them on, or not all. */
void runnel_subscriber_unparsed(struct runnel_subscriber *subscriber);

/* Wait for news, at most that many seconds (negative: forever), or until a signal comes. True when
   there may be some. */
bool runnel_subscriber_wait(struct runnel_subscriber *subscriber, double seconds);

/* Why nothing comes, in one sentence: -1 with the error filled (EX_UNAVAILABLE), when there is
   no connection or no message for `seconds` (a daemon sends `status` every 10); 0 when all is
   well. */
int runnel_subscriber_check(const struct runnel_subscriber *subscriber, double seconds,
                            struct runnel_error *error);

/* ---- asking and commanding ---- */

struct runnel_reply {
    const char *text;    /* the reply, a JSON object, and a NUL after it */
    size_t size;         /* bytes */
    struct json_t *json; /* the same, parsed by jansson; json_incref keeps it */
    const void *bytes;   /* the second frame, of `export`: a safetensors file; else NULL */
    size_t bytes_size;
};

struct runnel_request;

/* Begin a request to the control socket: `text` is one JSON object, {"command": "status"} for
   example. It ends by itself after so many seconds. EX_USAGE: no endpoint, or a key cannot be read;
   EX_UNAVAILABLE: no sockets. */
int runnel_request_open(struct runnel_request **request, const struct runnel_peer *peer,
                        const char *text, double seconds, struct runnel_error *error);
void runnel_request_close(struct runnel_request **request);

/* Readable when runnel_request_next may have something to do. Owned by the request. */
int runnel_request_descriptor(const struct runnel_request *request);

/* Seconds until its time is over: as long as a poll may wait at most. */
double runnel_request_left(const struct runnel_request *request);

/* Continue as far as possible without waiting. 0: not finished. 1: the reply is there. -1: it has
   failed, EX_UNAVAILABLE: no daemon was reached, or no answer, or one that no daemon gives;
   EX_SOFTWARE: the daemon refused or failed, and this is what it said. Then `reply` has the text if
   one came. */
int runnel_request_next(struct runnel_request *request, struct runnel_reply *reply,
                        struct runnel_error *error);

/* The same, waiting until it has ended, past signals: 0 with the reply, or -1. */
int runnel_request_wait(struct runnel_request *request, struct runnel_reply *reply,
                        struct runnel_error *error);

/* Whether the daemon has got it: if it then comes to nothing, it may have been done all the same.
 */
bool runnel_request_sent(const struct runnel_request *request);

/* A further request over the same connection, once there is a reply (also one of EX_SOFTWARE). */
int runnel_request_again(struct runnel_request *request, const char *text, double seconds,
                         struct runnel_error *error);

/* ---- feeding ---- */

/* How examples travel: what the daemon's configuration says in examples.socket. */
enum runnel_sending {
    RUNNEL_PUSH,   /* pull: the fate of an example is unknown, and what is in transit when the
                      daemon ends is lost */
    RUNNEL_ROUTER, /* router: each example has a number, is acknowledged once it is safe on disk,
                      and sent again until it is; the daemon learns it once */
};

enum runnel_flag {
    RUNNEL_END = 1,          /* last of its sequence: forget the stream's state afterwards */
    RUNNEL_DO_NOT_LEARN = 2, /* predict and score, but do not learn */
    RUNNEL_SPARSE = 16,      /* the numbers were given by somebody else, and only rise: a gap before
                                this one is not counted as missing, and none is too wide */
    RUNNEL_WORDS = 32,       /* some symbols or classes are words; it is `headed` */
    RUNNEL_NOTE = 64, /* a note for people goes along, shown with alarms of the example and never
                         learned; it is `headed`. A daemon older than notes rejects it */
    RUNNEL_LABEL = 8, /* no example of its own: y are the targets of an earlier one, of a daemon
                         with target: later. x_size is 0, and it is `headed` */
};

/* One example; what its bytes are, docs/reference/protocol.md says. With a router it is `headed`, and its
   number is greater than that of the example before it in its stream. */
struct runnel_example {
    const char *key; /* of the stream: UTF-8, at most 255 bytes */
    size_t key_size;
    const void *x, *y;     /* float32 or uint32, little-endian; y NULL = none */
    size_t x_size, y_size; /* bytes */
    bool headed;           /* these go along: */
    uint8_t flags;         /* enum runnel_flag, or-ed */
    uint32_t epoch;        /* grows when numbers start again */
    uint64_t sequence;     /* the number */
    double time;           /* Unix time, or 0 */
    const char *json;      /* instead of x, y and header: the whole example. With a router, key, */
    size_t json_size;      /* epoch and sequence are those in it */
    uint32_t
        label_epoch; /* with RUNNEL_LABEL, and else not read: the numbers of the example that */
    uint64_t label_sequence; /* it is for, of the same key and producer */
    const void *words; /* with RUNNEL_WORDS, and else not read: of each number of x and y that */
    size_t words_size; /* is 0xFFFFFFFE a byte with the size of its word, and the word */
    const char *note;  /* with RUNNEL_NOTE, and else not read: UTF-8 without NUL, of at most 1000 */
    size_t note_size;  /* bytes */
};

/* What a sender reports. */
enum runnel_report_kind {
    RUNNEL_REPORT_HINDERED,  /* there is no peer, `why`; reported once, and tried again */
    RUNNEL_REPORT_LOST,      /* a connection has ended with examples on their way: of a push they
                                may be lost, a router sends them again */
    RUNNEL_REPORT_BACK,      /* router: connected again after `seconds`, and sent them again */
    RUNNEL_REPORT_SILENT,    /* router: no answer for `seconds`, as of a daemon that is paused, or
                                a dead connection; connecting again */
    RUNNEL_REPORT_FRUITLESS, /* router: connections end again and again without an answer, as
                                when examples are larger than any that the daemon takes */
    RUNNEL_REPORT_ACKNOWLEDGED, /* router: the example is safe, at `position` of the journal */
    RUNNEL_REPORT_DUPLICATE,    /* router: the daemon had it before, or `outdated` */
    RUNNEL_REPORT_REJECTED,     /* router: it will not be learned, `why` (docs/reference/protocol.md) */
};

struct runnel_report {
    enum runnel_report_kind kind;
    const char *why;
    double seconds;
    /* Of the last three: the example. */
    const char *key; /* (key_size,) not terminated */
    size_t key_size;
    uint32_t epoch;
    uint64_t sequence, position;
    bool outdated; /* its stream has a greater epoch there: it may never have been learned */
    bool foreign;  /* a duplicate that was sent only once: another sender with this identity, or an
                      earlier run of this one, had used its number */
    const char *sentence; /* of a rejection: what the daemon found, in words; NULL = it says only
                             `why` */
};

/* All zeros: a push that connects and reports nothing. */
struct runnel_sender_options {
    enum runnel_sending kind;
    bool bind;     /* wait at the endpoint for a daemon that connects; not with a router */
    size_t window; /* router: examples that may wait for their answers; 0 = 10000 */

    /* Called from within the functions below, and may be NULL. `tick`: at least four times a second
       while one of them waits; when it returns false, that ends with RUNNEL_STOPPED. The close of a
       push calls it only when a signal comes: give it a finite linger. */
    void (*tell)(void *context, const struct runnel_report *report);
    bool (*tick)(void *context, bool connected);
    void *context;
};

/* `status` of an error that is none: tick has returned false. */
#define RUNNEL_STOPPED 0

/* What has become of the examples. */
struct runnel_counts {
    uint64_t sent;         /* taken by runnel_send; the others are a router's: */
    uint64_t acknowledged; /* safe; */
    uint64_t duplicates;   /* of these, what the daemon had before, */
    uint64_t outdated;     /* of the duplicates, those of the newest epoch that was sent, whose
                              streams have a greater one there: they were never learned */
    uint64_t rejected;
    const char *reason; /* of the first rejection */
    uint64_t foreign;   /* of the duplicates, those that were sent only once */
};

struct runnel_sender;

/* Connect, or bind; options may be NULL. The daemon may come later, go, and come back. EX_USAGE: no
   endpoint, or a key cannot be read; EX_UNAVAILABLE: an endpoint that cannot be had; EX_OSERR: no
   sockets, out of memory. */
int runnel_sender_open(struct runnel_sender **sender, const struct runnel_peer *peer,
                       const struct runnel_sender_options *options, struct runnel_error *error);

/* Whose numbers those of the examples sent from now on are: they count for each stream and
   producer. 0, as long as nothing is said: of nobody in particular; then two senders must not send
   a stream with the same epoch and numbers. A sender that starts its numbers anew in each run draws
   one with runnel_producer, a random one that is not 0. One that is started again to send the same
   examples with the same numbers, which are then not learned twice, must say the same producer.
   JSON says its own (docs/reference/protocol.md). */
void runnel_sender_identify(struct runnel_sender *sender, uint64_t producer);
uint64_t runnel_producer(void);

bool runnel_sender_connected(const struct runnel_sender *sender);

/* Wait until somebody is connected, at most that many seconds (INFINITY: forever). EX_UNAVAILABLE
   then, and when the daemon refuses this client for good: all that follow find out, too. */
int runnel_sender_wait(struct runnel_sender *sender, double seconds, struct runnel_error *error);

/* Say first what the examples are: `text` is a schema (docs/reference/protocol.md),
   {"schema": {"dtype": "float32", "columns": ["a", "b"]}}. A push sends it once, now; a router at
   the beginning of each connection, and when the daemon answers that such examples do not fit, the
   function then running ends with EX_DATAERR and its sentence. A daemon that knows no schemas
   counts it as rejected. The text is copied. */
int runnel_sender_schema(struct runnel_sender *sender, const char *text,
                         struct runnel_error *error);

/* Send an example, or keep it to be sent as soon as it can be: it is copied. Waits while there is
   no room. After RUNNEL_STOPPED it was not taken. */
int runnel_send(struct runnel_sender *sender, const struct runnel_example *example,
                struct runnel_error *error);

/* Look after what was sent: take in answers, connect again, send again. For those who do not send
   for a while, and now and then for those who do. Waits at most that many seconds (0: not at all)
   until there is something to do. */
int runnel_sender_poll(struct runnel_sender *sender, double seconds, struct runnel_error *error);

/* The same for those who wait for something else too: it also returns when the descriptor is
   readable or, with `writable`, can be written to. 1: it is so. 0: not. */
int runnel_sender_poll_with(struct runnel_sender *sender, int descriptor, bool writable,
                            double seconds, struct runnel_error *error);

/* How many examples are settled: each of the first so many that were sent has been answered,
   however (struct runnel_counts). Of a push: how many were sent. */
uint64_t runnel_sender_settled(const struct runnel_sender *sender);

/* With a router: wait until everything is answered, at most that many seconds; EX_TEMPFAIL says how
   much is not. */
int runnel_sender_flush(struct runnel_sender *sender, double seconds, struct runnel_error *error);

const struct runnel_counts *runnel_sender_counts(const struct runnel_sender *sender);

/* Wait at most that many seconds until everything has been delivered, with a router: answered, and
   close. -1: EX_UNAVAILABLE, the newest examples may not have arrived; EX_TEMPFAIL, as
   runnel_sender_flush has it: the same examples with the same numbers may be sent again, and
   nothing is learned twice. */
int runnel_sender_close(struct runnel_sender **sender, double linger, struct runnel_error *error);

#ifdef __cplusplus
}
#endif

#endif
