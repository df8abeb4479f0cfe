/* The parts of runnel-feed. A source yields steps. feed.c makes examples of them at a given rate,
   and delivery sends or prints them (feed_delivery.h).

   A source is one struct source_type. It reads its options and operands and yields one step after
   the other, independently of sockets, rates and progress. */
#ifndef RUNNEL_FEED_H
#define RUNNEL_FEED_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/brokers/message.h"
#include "common/error.h"
#include "common/options.h"
#include "common/wire.h"

/* `status` of an error that only means that a signal interrupted a wait. */
enum { FEED_INTERRUPTED = 0 };

/* Count of SIGINT, SIGTERM and SIGHUP: 1 asks to finish, more to give up. */
extern volatile sig_atomic_t feed_signals;

/* A wait checks feed_signals and the progress line at least this often. */
enum { FEED_TICK_MS = 250 };

/* Called at least that often while a source waits for input; may be NULL. */
extern void (*feed_meanwhile)(void *context);
extern void *feed_meanwhile_context;

/* For a source's `next`: waits until the descriptor is readable or, with `writable`, writable, at
   most `seconds` or a tick. Meanwhile it handles the daemon's answers and calls `settled`.
   Returns 1 if ready, 0 if not yet, -1 on FEED_INTERRUPTED or if nothing more can be sent. A
   negative descriptor is never ready. */
int feed_await(int descriptor, bool writable, double seconds, struct error *error);

/* The wait of feed_await once a daemon is connected, except for signals. */
extern int (*feed_awaiter)(void *context, int descriptor, bool writable, double seconds,
                           struct error *error);

/* A stream and the number of its sent examples. */
struct stream {
    char key[WIRE_KEY_MAX + 1];
    size_t key_size;
    uint64_t sequence;
};

/* Sets the stream's name. Returns NULL, or the reason why the key is invalid. */
const char *stream_name(struct stream *stream, const char *key, size_t size);

enum value_kind {
    VALUE_REAL,  /* float32, NaN = missing */
    VALUE_CLASS, /* uint32: a symbol or class id, WIRE_NO_CLASS = none */
};

/* Bytes of each number of a step. */
enum { VALUE_SIZE = 4 };
struct shape {
    enum value_kind kind;
    size_t count; /* 0: without y */
};

/* One step of a source; the pointers are valid until the source's next call. */
struct step {
    struct stream *stream; /* NULL: the stream of --stream */
    const void *x;         /* (x.count,), or of a message (atoms, x.count) */
    size_t atoms;          /* of a message; 0: it is not one */
    const void *y;         /* (y.count,) if not 0 */
    double time;           /* Unix time, or 0 */
    /* text for users, UTF-8 of at most WIRE_NOTE_MAX bytes, terminated; or NULL */
    const char *note;
    const void *words; /* of the numbers of x and y that are words, see struct runnel_example */
    size_t words_size;
    bool end;          /* last step of its sequence */
    bool label;        /* a label without x: y is the target of an earlier example */
    uint64_t label_of; /* the number of that example */
    const char *json;  /* a whole example as JSON instead of x and y */
    size_t json_size;
    const struct message_number
        *number;     /* number to send, which is also in the JSON; NULL: runnel-feed numbers it */
    uint32_t epoch;  /* of numbered JSON; the stream has its sequence */
    bool own_number; /* the input contained the number */
};

struct input;

/* Fields of an example in JSON, see sources/payload.h. */
struct field_options {
    struct option_list columns;           /* COLUMN=PATH */
    const char *key, *time, *time_format; /* or NULL */
};

/* The common part of all sources; each source's struct begins with it. */
struct source {
    const struct source_type *type;
    struct input *input; /* the file that it reads (sources/feed_input.h), or NULL */
    struct shape x, y;   /* set by open; zeros: each example has its own */
    const char *label;   /* the stream's name unless --stream gives another: the command's name */
    const char *forced;  /* the key of --stream, or NULL; set before open */
    bool numbers;        /* number JSON without numbers; set before open */
    uint32_t epoch;      /* the epoch for that */
    uint64_t producer;   /* the producer for that, 0 = none */
    bool producer_given; /* use the producer even for JSON with its own numbers */
    /* the epoch is from --epoch, or 0 with --producer: other calls may use it */
    bool epoch_given;
    bool once;     /* it cannot be read a second time; set by open */
    bool labels;   /* some steps are labels; set by open */
    bool messages; /* an x is a message; set by open */
    bool named;    /* x is an object with named columns; set by open */
    bool skip_bad; /* --skip-bad is given */
    bool strict;   /* end if the daemon rejects an example */
    struct field_options fields;
    struct pending *pending; /* a broker's messages to acknowledge (sources/broker.h), or NULL */
    uint64_t skipped;        /* bad rows skipped */
};

struct source_type {
    struct command_row command; /* "csv", its operands and options, which fill its own struct */
    const char *missing;        /* the library that this build lacks, or NULL */
    const char *notes;          /* notes for --help below the options, or NULL */
    double rate;                /* default of --rate, examples per second; 0 = no limit */
    bool live;                  /* steps are samples of a running system */
    bool spans;                 /* a sample covers the time since the one before, or open */
    bool endless;               /* it has no end, and no passes to repeat */
    bool ready;                 /* its examples are JSON, sent unchanged */
    bool maps;                  /* --field maps other JSON to examples */
    bool bundles;               /* supports --steps */

    size_t size; /* of its struct */
    /* Sets the defaults that are not 0, or NULL. */
    void (*set_defaults)(struct source *source);
    /* Takes the operands, terminated by NULL, and prepares the first step. */
    int (*open)(struct source *source, char **operands, struct error *error);
    /* Returns 1 and a step, 0 at the end of the pass, or -1 on an error. */
    int (*next)(struct source *source, struct step *step, struct error *error);
    /* Returns to the first step for pass number `pass`, from 0. NULL if endless. */
    int (*rewind)(struct source *source, uint64_t pass, struct error *error);
    /* Returns the name of number `k` of x or y for the schema. NULL: they have no names. */
    const char *(*column)(const struct source *source, bool y, size_t k);
    /* Returns the finished share of the pass, 0..1; NULL: that of the input, if any. */
    double (*done)(const struct source *source);
    void (*close)(struct source *source); /* without the struct itself */
    /* Only of a source that acknowledges messages to a broker: the first `count` steps are safe at
       the daemon, or finally rejected by it. Called in order, also within feed_await, and a last
       time before `close`; it must not wait. Such a source connects in `next`, so that it takes no
       message before a daemon is connected. The default of --socket is router for it. */
    void (*settled)(struct source *source, uint64_t count);
};

extern const struct source_type source_text, source_csv, source_idx, source_host, source_synth,
    source_json, source_lines, source_prometheus, source_http, source_mqtt, source_redis,
    source_kafka, source_nats, source_journal;

/* Handles the daemon's answers while a source waits. Returns -1 on a signal (FEED_INTERRUPTED). A
   source's own loops call it at least every FEED_TICK_MS. */
int feed_tick(struct error *error);

/* Waits for `seconds` in the same way. */
int feed_wait(double seconds, struct error *error);

/* A server that a source reads from. A failure is reported once, retried after growing pauses, and
   its end is reported. */
struct retry {
    const char *server; /* name for messages, without a password; set it first */
    double since;       /* clock_seconds of the first failure; 0 = available */
    double pause;       /* seconds until the next retry */
};

/* Reports a failure with the reason `why`, a clause ("connection refused"), unless already
   reported. Then waits, longer each time. Returns -1 on FEED_INTERRUPTED. */
int retry_wait(struct retry *retry, const char *why, struct error *error);

/* Does the same without a wait, for a library that retries by itself. */
void retry_failed(struct retry *retry, const char *why);

/* Reports that the server is available again, if it was not. */
void retry_back(struct retry *retry);

/* Prints a message on stderr, without breaking the progress line: feed_print unless --quiet,
   feed_detail only with --verbose. */
void feed_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void feed_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
