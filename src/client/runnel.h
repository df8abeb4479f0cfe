/* librunnel: clients of runneld. Subscribe to its statistics, send requests to it, and feed it
   examples.

   This header is the manual. docs/reference/clients.md has complete programs, and
   docs/reference/protocol.md describes the messages. Compile and link with `pkg-config --cflags
   --libs runnel`. C99, also usable from C++.

   Errors: functions that can fail return 0, or -1 and fill a struct runnel_error (NULL is
   allowed) with one sentence and an exit status. The sentence names the endpoint, key or file,
   and a way out. It names parameters as runnel's programs name their options: --connect is
   `endpoint`, --server-key and --key are `server_key` and `key`.

   Ownership: x_open creates an object; x_close frees it and sets the pointer to NULL. Closing
   NULL does nothing. String arguments need not outlive the call. Returned pointers are valid
   until the next call with the same object.

   Threads and loops: one thread at a time may use an object; different objects may be used at
   the same time. The library prints nothing and does not touch signals. No function waits unless
   its comment mentions it. A subscriber and a request have one descriptor for poll(2), epoll or
   an event loop. A sender calls a function of yours while it waits. */
#ifndef RUNNEL_RUNNEL_H
#define RUNNEL_RUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t; /* defined by jansson; needed only by programs that use it */

/* One sentence about a failure. */
struct runnel_error {
    int status;      /* EX_USAGE, EX_UNAVAILABLE, EX_SOFTWARE, EX_IOERR, ... of <sysexits.h> */
    char text[1024]; /* without newline; printable UTF-8 */
};

/* The version of the library, "0.1.0". */
const char *runnel_version(void);

/* ---- Endpoint and keys ---- */

#define RUNNEL_EXAMPLES "tcp://127.0.0.1:5570" /* default endpoints of a daemon */
#define RUNNEL_STATISTICS "tcp://127.0.0.1:5571"
#define RUNNEL_CONTROL "tcp://127.0.0.1:5572"

/* A daemon with keys (docs/explanation/security.md) accepts only clients that have its public
   key, and with lists of keys only clients on these lists. Without keys leave both NULL. */
struct runnel_peer {
    const char *endpoint;   /* tcp://HOST:PORT, tcp://[IPv6]:PORT, ipc://PATH or ipc://@NAME */
    const char *server_key; /* public key of the daemon: a file, or its 40 characters; or NULL */
    const char *key;        /* file with your secret key; NULL = a generated key */
};

/* For your own sockets: make a libzmq socket that is not connected yet a client with these keys.
   EX_USAGE: a key is invalid or cannot be read. */
int runnel_keys(void *zmq_socket, const struct runnel_peer *peer, struct runnel_error *error);

/* ---- Subscribing ---- */

/* News of a subscriber. */
enum runnel_kind {
    RUNNEL_NOTHING,      /* no more news: wait */
    RUNNEL_MESSAGE,      /* a message of the daemon: topic, text, ... */
    RUNNEL_CONNECTED,    /* connected to the daemon */
    RUNNEL_DISCONNECTED, /* disconnected; the subscriber connects again as soon as possible */
    RUNNEL_HINDERED,     /* cannot connect, see `why`; the subscriber keeps trying */
    RUNNEL_REFUSED,      /* cannot connect, see `why`; the subscriber stops trying */
};

struct runnel_news {
    enum runnel_kind kind;
    const char *why; /* reason of HINDERED and REFUSED: begins with "the daemon" or "the peer" */

    /* The fields below are for MESSAGE. */
    const char *topic;      /* "status", "loss", "state", "prediction", "event"; or "" */
    const char *text;       /* a JSON object, followed by a NUL; NULL with a `problem` */
    size_t size;            /* bytes of `text` */
    struct json_t *json;    /* `text`, parsed by jansson; json_incref keeps it */
    const char *problem;    /* why the message is invalid; else NULL */
    bool restarted;         /* the daemon has restarted since the previous message */
    const char *run;        /* the new run */
    const char *run_before; /* the previous run */
    uint64_t missed;        /* messages of this topic lost immediately before this one */
    /* The unheard range of a `loss` with a subscription to `status`, see struct runnel_gap; else
       NAN. */
    double unheard[2];
};

/* Examples that were learned without a subscriber. The daemon does not count messages of a topic
   without subscribers, but `examples` grows by `every` (in `status`) between two `loss`
   messages, across restarts too. A subscriber keeps a runnel_gap. A program that records
   messages and resumes from its records keeps another. */
struct runnel_gap {
    double every;  /* examples between two loss messages; NAN = unknown: no gaps are found */
    double newest; /* examples of the newest loss message; NAN = none yet */
};

/* Process a status, or a loss. runnel_gap_loss returns true if examples were learned unheard,
   and stores the range of their numbers. */
void runnel_gap_status(struct runnel_gap *gap, double every, double examples);
bool runnel_gap_loss(struct runnel_gap *gap, double examples, double unheard[2]);

struct runnel_subscriber;

/* Subscribe to the topics, a list that ends with NULL (NULL itself: all five). The daemon may
   start later, stop, and restart. EX_USAGE: no endpoint, or a key cannot be read;
   EX_UNAVAILABLE: no sockets. */
int runnel_subscriber_open(struct runnel_subscriber **subscriber, const struct runnel_peer *peer,
                           const char *const *topics, struct runnel_error *error);
void runnel_subscriber_close(struct runnel_subscriber **subscriber);

/* A descriptor that is readable while there may be news. After NOTHING it becomes readable with
   the next news. The subscriber owns it. */
int runnel_subscriber_descriptor(const struct runnel_subscriber *subscriber);

/* The next news, without waiting. */
enum runnel_kind runnel_subscriber_next(struct runnel_subscriber *subscriber,
                                        struct runnel_news *news);

/* Stop parsing messages: `json` is NULL, the text may not be JSON, and the fields read from it
   (restarted, missed, unheard) are not set. For programs that forward messages, or discard many. */
void runnel_subscriber_unparsed(struct runnel_subscriber *subscriber);

/* Wait for news, at most `seconds` (negative: forever), or until a signal arrives. True if there
   may be news. */
bool runnel_subscriber_wait(struct runnel_subscriber *subscriber, double seconds);

/* Check whether messages arrive. Returns -1 and fills the error (EX_UNAVAILABLE) without a
 * connection, or without a message for `seconds` (a daemon sends `status` every 10); else 0. */
int runnel_subscriber_check(const struct runnel_subscriber *subscriber, double seconds,
                            struct runnel_error *error);

/* ---- Control ---- */

struct runnel_reply {
    const char *text;    /* the reply, a JSON object, followed by a NUL */
    size_t size;         /* bytes of `text` */
    struct json_t *json; /* `text`, parsed by jansson; json_incref keeps it */
    const void *bytes;   /* the second frame, for `export`: a safetensors file; else NULL */
    size_t bytes_size;
};

struct runnel_request;

/* Begin a request to the control socket: `text` is one JSON object, for example {"command":
   "status"}. It times out after `seconds`. EX_USAGE: no endpoint, or a key cannot be read;
   EX_UNAVAILABLE: no sockets. */
int runnel_request_open(struct runnel_request **request, const struct runnel_peer *peer,
                        const char *text, double seconds, struct runnel_error *error);
void runnel_request_close(struct runnel_request **request);

/* A descriptor that is readable when runnel_request_next should be called. The request owns it. */
int runnel_request_descriptor(const struct runnel_request *request);

/* Seconds until the timeout: the longest useful wait of a poll. */
double runnel_request_left(const struct runnel_request *request);

/* Continue the request without waiting. Returns 0 while it runs, 1 with the reply, and -1 on
   failure. EX_UNAVAILABLE: no daemon, no answer, or an invalid one. EX_SOFTWARE: the daemon
   rejected the request or failed; the error contains its sentence, and `reply` its text, if any. */
int runnel_request_next(struct runnel_request *request, struct runnel_reply *reply,
                        struct runnel_error *error);

/* Wait until the request has ended, ignoring signals: 0 with the reply, or -1. */
int runnel_request_wait(struct runnel_request *request, struct runnel_reply *reply,
                        struct runnel_error *error);

/* Whether the request was sent. If it then fails, the daemon may still have executed it. */
bool runnel_request_sent(const struct runnel_request *request);

/* Send another request over the same connection, after a reply (also one with EX_SOFTWARE). */
int runnel_request_again(struct runnel_request *request, const char *text, double seconds,
                         struct runnel_error *error);

/* ---- Feeding ---- */

/* The kind of socket: examples.socket in the daemon's configuration. */
enum runnel_sending {
    /* pull: the result of an example is unknown, and examples in transit are lost when the
       daemon ends. */
    RUNNEL_PUSH,
    /* router: the daemon acknowledges each numbered example once it is durable, and learns it
       once. The sender repeats it until then. */
    RUNNEL_ROUTER,
};

enum runnel_flag {
    RUNNEL_END = 1,          /* last of its sequence: reset the stream's state afterwards */
    RUNNEL_DO_NOT_LEARN = 2, /* predict and score, but do not learn */
    /* The numbers come from another source and only increase: a gap before this one is not
       counted as missing, and no gap is too wide. */
    RUNNEL_SPARSE = 16,
    RUNNEL_WORDS = 32, /* some symbols or classes are words; requires `headed` */
    /* The example has a note for people, shown with its alarms and never learned; requires
       `headed`. A daemon older than notes rejects it. */
    RUNNEL_NOTE = 64,
    /* A label: y contains the targets of an earlier example, for a daemon with target: later.
       x_size is 0; requires `headed`. */
    RUNNEL_LABEL = 8,
};

/* One example; docs/reference/protocol.md defines its bytes. With a router it is `headed`, and
   its number is greater than that of the previous example of its stream. */
struct runnel_example {
    const char *key; /* name of the stream: UTF-8, at most 255 bytes */
    size_t key_size;
    const void *x, *y;     /* float32 or uint32, little-endian; y NULL = none */
    size_t x_size, y_size; /* bytes */
    bool headed;           /* the fields up to `time` are sent */
    uint8_t flags;         /* a set of enum runnel_flag */
    uint32_t epoch;        /* increases when the numbers start again */
    uint64_t sequence;     /* number of the example */
    double time;           /* Unix time, or 0 */
    /* The whole example as JSON, in place of x, y and header. With a router, key, epoch and
       sequence must equal those in the JSON. */
    const char *json;
    size_t json_size;
    uint32_t
        /* The numbers of the labelled example with RUNNEL_LABEL; it has the same key and
           producer. */
        label_epoch;
    uint64_t label_sequence;
    /* The words with RUNNEL_WORDS: for each number 0xFFFFFFFE of x and y a byte with the size of
       its word, and the word. */
    const void *words;
    size_t words_size;
    /* The note with RUNNEL_NOTE: UTF-8 without NUL, at most 1000 bytes. */
    const char *note;
    size_t note_size;
};

/* Reports of a sender. */
enum runnel_report_kind {
    RUNNEL_REPORT_HINDERED, /* no peer, see `why`; reported once, the sender keeps trying */
    /* A connection has ended with examples in transit: a push may lose them, a router sends them
       again. */
    RUNNEL_REPORT_LOST,
    RUNNEL_REPORT_BACK, /* router: connected again after `seconds`; examples are sent again */
    /* Router: no answer for `seconds`, because the daemon is paused or the connection is dead.
       The sender connects again. */
    RUNNEL_REPORT_SILENT,
    /* Router: connections end repeatedly without an answer, for example because examples are
       larger than the daemon's limit. */
    RUNNEL_REPORT_FRUITLESS,
    RUNNEL_REPORT_ACKNOWLEDGED, /* router: the example is durable, at `position` of the journal */
    RUNNEL_REPORT_DUPLICATE, /* router: the daemon already has the example, or it is `outdated` */
    /* router: the example is not learned, see `why` (docs/reference/protocol.md) */
    RUNNEL_REPORT_REJECTED,
};

struct runnel_report {
    enum runnel_report_kind kind;
    const char *why;
    double seconds;
    /* The fields below are for the last three kinds. */
    const char *key; /* (key_size,) not terminated */
    size_t key_size;
    uint32_t epoch;
    uint64_t sequence, position;
    /* the daemon has a greater epoch of its stream: it may never have been learned */
    bool outdated;
    /* A duplicate that was sent only once: another sender with the same producer, or an earlier
       run of this one, has used its number. */
    bool foreign;
    /* The daemon's explanation of a rejection; NULL = only `why` is known. */
    const char *sentence;
};

/* All zeros: a push that connects and reports nothing. */
struct runnel_sender_options {
    enum runnel_sending kind;
    bool bind;     /* bind to the endpoint and wait for a daemon that connects; not for a router */
    size_t window; /* router: largest number of unacknowledged examples; 0 = 10000 */

    /* Callbacks from within the functions below; may be NULL. `tick` is called at least four
       times a second while one of them waits. If it returns false, the function ends with
       RUNNEL_STOPPED. The close of a push calls `tick` only after a signal: use a finite linger. */
    void (*report)(void *context, const struct runnel_report *report);
    bool (*tick)(void *context, bool connected);
    void *context;
};

/* `status` of an error that only means that tick has returned false. */
#define RUNNEL_STOPPED 0

/* Results of the examples. */
struct runnel_counts {
    uint64_t sent;         /* accepted by runnel_send; the other fields are for a router */
    uint64_t acknowledged; /* durable */
    uint64_t duplicates;   /* acknowledged examples that the daemon already had */
    /* Duplicates of the newest epoch sent whose streams have a greater epoch in the daemon: they
       were never learned. */
    uint64_t outdated;
    uint64_t rejected;
    const char *reason; /* reason of the first rejection */
    uint64_t foreign;   /* duplicates that were sent only once */
};

struct runnel_sender;

/* Connect, or bind; options may be NULL. The daemon may start later, stop, and restart.
   EX_USAGE: no endpoint, or a key cannot be read; EX_UNAVAILABLE: the endpoint is not available;
   EX_OSERR: no sockets, out of memory. */
int runnel_sender_open(struct runnel_sender **sender, const struct runnel_peer *peer,
                       const struct runnel_sender_options *options, struct runnel_error *error);

/* Set the producer of the following examples: their numbers count for each stream and producer.
   The default 0 means no producer; two senders must then not use the same epoch and numbers in a
   stream. A sender that restarts its numbers in each run should use runnel_producer, which
   returns a random number other than 0. A sender that sends the same examples again must use the
   same producer, so that they are not learned twice. JSON contains its own producer
   (docs/reference/protocol.md). */
void runnel_sender_identify(struct runnel_sender *sender, uint64_t producer);
uint64_t runnel_producer(void);

bool runnel_sender_connected(const struct runnel_sender *sender);

/* Wait until a peer is connected, at most `seconds` (INFINITY: forever). EX_UNAVAILABLE: timed out,
   or the daemon permanently refuses this client; the functions below also report the latter. */
int runnel_sender_wait(struct runnel_sender *sender, double seconds, struct runnel_error *error);

/* Declare the examples before the first: `text` is a schema (docs/reference/protocol.md),
   {"schema": {"dtype": "float32", "columns": ["a", "b"]}}. A push sends it once, now; a router
   sends it at the beginning of each connection, and no example before the daemon's answer. If the
   daemon answers that such examples do not fit, the current function of a router ends with
   EX_DATAERR and the daemon's sentence. A daemon without support for schemas counts it as rejected.
   The text is copied. */
int runnel_sender_schema(struct runnel_sender *sender, const char *text,
                         struct runnel_error *error);

/* Send an example, or queue a copy of it. Waits while the queue is full. After RUNNEL_STOPPED it
   was not accepted. */
int runnel_send(struct runnel_sender *sender, const struct runnel_example *example,
                struct runnel_error *error);

/* Process answers, connect again, and send again. Call it while you do not send, and
   occasionally while you do. Waits at most `seconds` (0: not at all) for something to do. */
int runnel_sender_poll(struct runnel_sender *sender, double seconds, struct runnel_error *error);

/* Works like runnel_sender_poll, but also returns when the descriptor is readable or, with
   `writable`, writable. Returns 1 if it is, else 0. */
int runnel_sender_poll_with(struct runnel_sender *sender, int descriptor, bool writable,
                            double seconds, struct runnel_error *error);

/* The number n such that each of the first n examples sent has an answer of any kind (struct
   runnel_counts). For a push: the number of examples sent. */
uint64_t runnel_sender_settled(const struct runnel_sender *sender);

/* Router: wait until everything is answered, at most `seconds`. EX_TEMPFAIL contains the number
   of unanswered examples. */
int runnel_sender_flush(struct runnel_sender *sender, double seconds, struct runnel_error *error);

const struct runnel_counts *runnel_sender_counts(const struct runnel_sender *sender);

/* Wait at most `seconds` until everything is delivered (router: answered), then close. Returns
   -1 with EX_UNAVAILABLE if the newest examples may be lost, or with EX_TEMPFAIL as
   runnel_sender_flush. The same examples may then be sent again with the same numbers: the
   daemon learns nothing twice. */
int runnel_sender_close(struct runnel_sender **sender, double linger, struct runnel_error *error);

#ifdef __cplusplus
}
#endif

#endif
