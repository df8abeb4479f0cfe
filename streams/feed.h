/* What runnel-feed is made of: a source yields steps; feed.c bundles them into examples, paces
   them and hands them to delivery or prints them (feed_delivery.h).

   A source is one struct source_type. It reads its options and operands, yields one step after the
   other, and knows neither sockets nor pacing nor progress. */
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

/* `status` of an error that is none: it was only a signal that cut a wait short. */
enum { FEED_INTERRUPTED = 0 };

/* How often SIGINT, SIGTERM or SIGHUP came: 1 asks to finish, more to give up. */
extern volatile sig_atomic_t feed_signals;

/* No wait is longer than this before it looks at feed_signals, and at the progress line. */
enum { FEED_TICK_MS = 250 };

/* Called, unless NULL, at least that often while a source waits for its input. */
extern void (*feed_meanwhile)(void *context);
extern void *feed_meanwhile_context;

/* Wait, in a source's `next`, until the descriptor is readable or, with `writable`, can be written
   to, but not longer than so many seconds or a tick. Meanwhile what was sent is looked after, and
   `settled` is called. 1: it is ready. 0: not, or not yet. -1: FEED_INTERRUPTED, or why nothing
   more can be sent. A descriptor below 0 is none. */
int feed_await(int descriptor, bool writable, double seconds, struct error *error);

/* How feed_await waits once there is a daemon: as it, but for signals. */
extern int (*feed_awaiter)(void *context, int descriptor, bool writable, double seconds,
                           struct error *error);

/* A stream and how many of its examples have been sent. */
struct stream {
    char key[WIRE_KEY_MAX + 1];
    size_t key_size;
    uint64_t sequence;
};

/* Name the stream. NULL, or a phrase that says why the key is none. */
const char *stream_name(struct stream *stream, const char *key, size_t size);

enum value_kind {
    VALUE_REAL,  /* float32, NaN = missing */
    VALUE_CLASS, /* uint32: a symbol or class id, WIRE_NO_CLASS = none */
};

/* The numbers of one step, four bytes each. */
enum { VALUE_SIZE = 4 };
struct shape {
    enum value_kind kind;
    size_t count; /* 0: none, there is no y */
};

/* One step, as a source yields it; the pointers are valid until the source's next call. */
struct step {
    struct stream *stream; /* NULL: the stream of --stream */
    const void *x;         /* (x.count,) */
    const void *y;         /* (y.count,) when that is not 0 */
    double time;           /* Unix time, or 0 */
    const char *note;  /* for people, UTF-8 of at most WIRE_NOTE_MAX bytes, terminated; or NULL */
    bool end;          /* last step of its sequence */
    bool label;        /* it has no x: y is the target of the example of the stream */
    uint64_t label_of; /* with this number */
    const char *json;  /* instead of x and y: a whole example as JSON */
    size_t json_size;
    const struct message_number
        *number;     /* that it is sent with, which JSON has in it; NULL: ours */
    uint32_t epoch;  /* of JSON that is numbered; its sequence is the stream's */
    bool own_number; /* it came with the number */
};

/* Where JSON has what an example needs: sources/payload.h. */
struct field_options {
    struct option_list columns;           /* COLUMN=PATH */
    const char *key, *time, *time_format; /* or NULL */
};

/* What all sources have; each one's own struct begins with it. */
struct source {
    const struct source_type *type;
    struct shape x, y;   /* set by open; zeros: each example says it */
    const char *label;   /* the stream's key unless --stream says another: the command's name */
    const char *forced;  /* the key of --stream, or NULL; set before open */
    bool numbers;        /* JSON gets epoch and number where it has none; set before open */
    uint32_t epoch;      /* of these */
    uint64_t producer;   /* likewise, 0 = none */
    bool producer_given; /* it is that of JSON with numbers of its own, too */
    bool epoch_given;    /* by --epoch, or 0 with --producer: it is not that of this call alone */
    bool once;           /* it cannot be read a second time; set by open */
    bool labels;         /* some steps are labels; set by open */
    bool named;          /* x is an object of columns by name; set by open */
    bool skip_bad;       /* --skip-bad was given */
    bool strict;         /* an example that the daemon rejects is an error at once */
    struct field_options fields;
    struct pending *pending; /* of a broker: messages to acknowledge (sources/broker.h); or NULL */
    uint64_t skipped;        /* bad rows skipped */
};

struct source_type {
    struct command_row command; /* "csv", its operands and options, which fill its own struct */
    const char *missing;        /* why this build has it in name only; or NULL */
    const char *notes;          /* for --help, below its options; or NULL */
    double rate;                /* examples per second unless --rate says another; 0 = no limit */
    bool live;                  /* steps are samples of something that runs by itself, */
    bool spans;                 /* each of which covers the time since the one before, or open */
    bool endless;               /* it has no passes that could be repeated */
    bool ready;                 /* its examples are JSON, and sent as they are */
    bool maps;                  /* --field makes examples of other JSON */
    bool bundles;               /* --steps may put several steps into one example */

    /* Allocate the source with its defaults; NULL when out of memory. */
    struct source *(*create)(void);
    /* Take the operands, ended by NULL, and get ready for the first step. */
    int (*open)(struct source *source, char **operands, struct error *error);
    /* 1: a step. 0: the pass is over. -1: an error. */
    int (*next)(struct source *source, struct step *step, struct error *error);
    /* Back to the first step, for pass number `pass` (from 0). NULL when endless. */
    int (*rewind)(struct source *source, uint64_t pass, struct error *error);
    /* The name of number `k` of x or y, for the schema. NULL: they have none. */
    const char *(*column)(const struct source *source, bool y, size_t k);
    /* Share of the pass that is done, 0..1; NAN when unknown. May be NULL. */
    double (*done)(const struct source *source);
    void (*close)(struct source **source);
    /* Of a source that acknowledges what it yields to a broker; else NULL. The first `count` steps
       that `next` has yielded are settled: safe at the daemon, or rejected by it for good. Called
       in their order, from feed_await too, once more before `close`; must not wait. Such a source
       connects in `next`, so that nothing is taken before a daemon is there, and --socket is
       router unless it is given. */
    void (*settled)(struct source *source, uint64_t count);
};

extern const struct source_type source_text, source_csv, source_idx, source_host, source_synth,
    source_json, source_lines, source_prometheus, source_http, source_mqtt, source_redis,
    source_kafka, source_nats, source_journal;

/* A source waits: look after what was sent. -1: a signal has come (FEED_INTERRUPTED). For loops of
   a source's own, at least once in FEED_TICK_MS. */
int feed_tick(struct error *error);

/* The same for so many seconds. */
int feed_wait(double seconds, struct error *error);

/* A server that a source reads from and that is not there: said once, tried again after pauses that
   grow, and said when it is back. */
struct retry {
    const char *server; /* as sentences name it: without a password; set it before the rest */
    double since;       /* clock_seconds of the first failure; 0 = it answers */
    double pause;       /* the next one, seconds */
};

/* It does not answer, and `why`, a clause ("connection refused"): say so unless that was said, then
   wait, longer each time. -1: FEED_INTERRUPTED. */
int retry_wait(struct retry *retry, const char *why, struct error *error);

/* The same for a library that tries again by itself: no wait. */
void retry_failed(struct retry *retry, const char *why);

/* It answers: say so if it did not before. */
void retry_back(struct retry *retry);

/* One sentence for people, on stderr, which does not tear the progress line apart: `say` unless
   --quiet, `detail` with --verbose only. */
void feed_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void feed_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
