/* The daemon's insides, for daemon*.c alone: daemon.c opens, closes and holds the loop,
   daemon_publish.c tells subscribers, daemon_commands.c does what the control socket asks for,
   daemon_checkpoint.c decides when to write a checkpoint, daemon_reload.c reads the configuration
   again. */
#ifndef RUNNEL_DAEMON_STATE_H
#define RUNNEL_DAEMON_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "common/fields.h"
#include "common/wire.h"
#include "config/config.h"
#include "journal/journal.h"
#include "learner/engines.h"
#include "learner/learner.h"
#include "metrics.h"
#include "model/model.h"
#include "sockets/acknowledge.h"
#include "sockets/control.h"
#include "sockets/ingest.h"
#include "sockets/publish.h"
#include "sockets/security.h"

#define NS_PER_SECOND 1000000000ull

/* The keys that learning depends on and that may change in flight. */
#define RATE_KEY "learning.optimizer.rate"
#define CLIP_KEY "learning.clip"

/* A checkpoint that a client asked for. */
enum asked_checkpoint { ASKED_NOT, ASKED_WANTED, ASKED_IN_FLIGHT };

/* What has happened since it was last announced. */
struct daemon_notice {
    uint64_t count, announced; /* announced: when */
    size_t key_size;
    char key[WIRE_KEY_MAX]; /* the newest one's stream */
};

struct daemon {
    const struct config *config;        /* as loaded at the start */
    const struct config_source *source; /* where it can be read again */
    struct config configured;           /* as loaded last */
    struct config current;              /* with what has been set in flight */
    struct model model;
    struct engines_choice engine;

    void *zmq;
    int signals; /* signalfd */
    struct checkpoint *checkpoint;
    struct learner *learner;
    struct ingest *ingest;
    struct publish *publish;
    struct control *control;
    struct security *security;       /* NULL without security.secret */
    struct journal *journal;         /* NULL without state.journal */
    struct acknowledge *acknowledge; /* NULL unless examples.socket is router */

    uint64_t started; /* all times are CLOCK_MONOTONIC in ns */
    bool paused;
    bool had_terminal;                    /* that can go away */
    bool reload_wanted;                   /* the configuration is to be read again */
    char reload_refused[ERROR_TEXT_SIZE]; /* why it stayed as it was the last time; "" = it did not
                                           */
    bool stopping;                        /* no example is taken once what waits has been */
    uint64_t stop_time;                   /* when stopping began */
    uint64_t stop_taken;                  /* examples taken since */
    char stop_reason[128];                /* why, for people */
    bool broken;          /* learner or disk has failed: nothing more can be saved */
    struct error failure; /* of a command that broke the daemon; status 0 = none */

    struct metrics metrics;
    uint64_t taken;    /* examples taken since the start of learning */
    uint64_t now;      /* when the newest plan had been played, if not stale */
    bool now_is_stale; /* the next observed example reads the clock */
    uint64_t loss_due; /* number of the example after which `loss` is due */
    uint64_t status_due;
    bool started_told; /* the event `started` has found a subscriber */
    struct daemon_notice skipped, forgotten, gaps;
    size_t budget; /* examples taken before the loop looks around again */

    char resumed[CHECKPOINT_PATH_SIZE];    /* path of the checkpoint gone on from, "" = none */
    char resumed_warning[ERROR_TEXT_SIZE]; /* what its readers should know, "" = nothing */
    bool changed;                 /* something was learned or set since the newest checkpoint */
    uint64_t checkpoint_examples; /* learned when it was started */
    uint64_t checkpoint_time;     /* when it was started */
    double checkpoint_written;    /* Unix time of the newest one on disk, 0 = none */
    uint64_t checkpoint_on_disk;  /* examples in that one */
    enum asked_checkpoint asked;

    bool replaying;               /* learning again from the journal */
    uint64_t replay_told;         /* when its progress was told last */
    uint64_t duplicates, missing; /* examples that came again, and that never came */
    uint64_t checkpoint_position; /* in the journal, of the newest checkpoint on disk */
    uint64_t starting_position;   /* of the one that is being written */
    bool disk_is_low;             /* it was said */
};

uint64_t daemon_clock(void);

/* Stop taking examples and end the loop once those that wait are learned. */
void daemon_stop(struct daemon *daemon, const char *reason);

/* daemon_publish.c */

/* The learner's observer; its context is the daemon. */
struct learner_observer daemon_observer(struct daemon *daemon);

/* Begin the running figures anew: at start and after a reset. */
void daemon_begin_metrics(struct daemon *daemon);

/* Work out after which example `loss` is due. */
void daemon_plan_loss(struct daemon *daemon);

/* Count what has happened to a stream, to be announced with the next of its kind. */
void daemon_note(struct daemon_notice *notice, uint64_t count, const char *key, size_t key_size);

/* Ask the learner for outputs if anybody wants them. */
void daemon_want_outputs(struct daemon *daemon);

/* Publish an event; `details` (may be NULL) is taken over, its members are added. */
void daemon_event(struct daemon *daemon, const char *kind, json_t *details, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void daemon_publish_status(struct daemon *daemon);
const char *daemon_state_name(const struct daemon *daemon);

/* Examples taken and not told about yet. */
size_t daemon_queued(const struct daemon *daemon);

/* Take new subscriptions, and give what they are owed. */
void daemon_subscriptions(struct daemon *daemon);

/* Announce rejections and skipped updates that are due. */
void daemon_announce(struct daemon *daemon, bool all);

/* When the next announcement may be made, CLOCK_MONOTONIC in ns; UINT64_MAX without one. */
uint64_t daemon_announcement_due(const struct daemon *daemon);

/* Add the fields of topic `status`. */
void daemon_report_status(struct daemon *daemon, struct json_text *text);

/* daemon_security.c */

/* Announce failed handshakes that are due. */
void daemon_announce_security(struct daemon *daemon, bool all);

/* Warn of sockets that stand open to other machines without keys. */
void daemon_warn_exposed(const struct config *config);

/* daemon_reload.c */

/* Put the rate and clip of the file in place of those that were configured when what has been
   loaded and replayed was learned. */
int daemon_configure(struct daemon *daemon, struct error *error);

/* What SIGHUP asks for is to read the configuration again, and not to stop. */
bool daemon_has_terminal(void);
bool daemon_means_reload(const struct daemon *daemon);

/* Read the configuration again and take all of it, or nothing; say which. -1 when the daemon cannot
   go on. */
int daemon_reload(struct daemon *daemon, struct error *error);

/* daemon.c */
void daemon_take_signals(struct daemon *daemon);

/* daemon_journal.c */

/* Open the journal, if there is to be one; the checkpoint has been loaded. */
int daemon_open_journal(struct daemon *daemon, struct error *error);

/* Learn what the journal has behind the checkpoint. Also 0 when it was asked to stop meanwhile. */
int daemon_replay(struct daemon *daemon, struct error *error);

/* Write an example down, unless it came before, and have it learned. */
int daemon_take_example(struct daemon *daemon, const struct example *example, struct error *error);

/* Whether an example can be taken without waiting for the disk. */
bool daemon_has_room(const struct daemon *daemon);

/* Write down a command that has changed learning; the object is taken over. A `set` says
   "configured" when the configuration itself has changed: a reset goes back to that. */
void daemon_journal_command(struct daemon *daemon, json_t *command);

/* Acknowledge what has become durable; -1 when the journal has failed. */
int daemon_journal_turn(struct daemon *daemon, struct error *error);

/* The same, once everything is durable. */
int daemon_journal_sync(struct daemon *daemon, struct error *error);

/* A checkpoint is safe on disk: what lies behind the one before it may go. */
void daemon_journal_checkpointed(struct daemon *daemon);

/* For zmq_poll; -1 without a journal. */
int daemon_journal_descriptor(const struct daemon *daemon);

/* Warn when the journal's disk is nearly full. */
void daemon_watch_disk(struct daemon *daemon);

/* What `status` says of it; NULL without a journal. */
bool daemon_report_journal(struct daemon *daemon, struct status_fields *status);

/* daemon_commands.c */

/* Set a key to a value as one would write it in the file. */
int daemon_set(struct daemon *daemon, const char *key, const char *value, struct error *error);

/* The command reset, but its entry in the journal and its answer. Returns as learner_reset. */
int daemon_reset(struct daemon *daemon, struct error *error);
extern const struct control_command daemon_commands[];

/* daemon_checkpoint.c */

/* Start a checkpoint if one is due or asked for, and take the result of one that has ended. */
int daemon_checkpoints(struct daemon *daemon, struct error *error);

/* When one is due by time; UINT64_MAX: not by time, nothing has changed, or one
   is being written. */
uint64_t daemon_checkpoint_due(const struct daemon *daemon);

/* Write one and wait for it, unless there is one on disk. */
int daemon_first_checkpoint(struct daemon *daemon, struct error *error);

/* Write the last one, unless nothing has changed, and wait for it. */
int daemon_last_checkpoint(struct daemon *daemon, struct error *error);

#endif
