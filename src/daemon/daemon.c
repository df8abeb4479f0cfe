#include "daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/error.h"
#include "common/log.h"
#include "daemon_state.h"
#include "notify.h"
#include "report.h"

#define BATCH_TIME (20 * NS_PER_SECOND / 1000) /* between two looks at the other sockets, about */
#define DRAIN_TIME (5 * NS_PER_SECOND)         /* of learning what waits when stopping */
#define SAME_SIGNAL (NS_PER_SECOND / 2)        /* two signals within this are one */

enum {
    BATCH_EXAMPLES = 256,    /* at most in a batch */
    DRAIN_EXAMPLES = 100000, /* at most learned when stopping */
    DRAIN_QUIET_MS = 50,     /* without an example: nothing waits any more */
    REQUESTS_A_TURN = 8,     /* control requests answered between two batches */
    PLAN_BYTES = 1 << 20,    /* of inputs, targets and outputs in one plan, about */
    POLL_MAX_MS = 60000,
};

/* What the loop waits for. */
enum {
    POLL_SIGNALS,
    POLL_DISK,
    POLL_JOURNAL,
    POLL_SECURITY,
    POLL_STATISTICS,
    POLL_CONTROL,
    POLL_EXAMPLES,
    POLL_ITEMS
};

/* --- opening and closing -------------------------------------------------------------------- */

static void daemon_signals(sigset_t *set) {
    struct sigaction hangup;
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP); /* else somebody started the daemon with nohup */
}

static int open_signals(struct daemon *daemon, struct error *error) {
    sigset_t set;
    daemon_signals(&set);
    signal(SIGPIPE, SIG_IGN); /* a log that nobody reads any more is no reason to stop */
    sigprocmask(SIG_BLOCK, &set, NULL);
    daemon->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (daemon->signals < 0)
        return error_set(error, EX_OSERR, "cannot open a signalfd: %s", strerror(errno));
    return 0;
}

/* As many steps as fit into PLAN_BYTES, so that wide outputs do not cost a wide plan. */
static size_t plan_steps(const struct model *model) {
    const struct input *input = &model->architecture.input;
    size_t numbers =
        (input->kind == INPUT_REAL ? input->size : 1) + model->target_size + 2 * model->outputs;
    size_t steps = PLAN_BYTES / (numbers * sizeof(float));
    return steps < 1 ? 1 : steps > BATCH_EXAMPLES ? BATCH_EXAMPLES : steps;
}

static int open_empty(struct daemon *daemon, struct error *error) {
    struct learner_observer observer = daemon_observer(daemon);
    return learner_open_empty(&daemon->learner, daemon->config, &daemon->model, daemon->engine.ops,
                              plan_steps(&daemon->model), &observer, error);
}

static int open_learner(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    if (engines_choose(&daemon->engine, config->device, &daemon->model, error) ||
        checkpoint_open(&daemon->checkpoint, config->state_directory, error))
        return -1;
    if (open_empty(daemon, error) &&
        (!engines_fall_back(&daemon->engine, error) || open_empty(daemon, error)))
        return -1;
    struct checkpoint_report report;
    int loaded = checkpoint_load(daemon->checkpoint, config, daemon->learner, &report, error);
    if (loaded < 0 || (!loaded && learner_start(daemon->learner, error)))
        return -1;
    if (loaded) {
        snprintf(daemon->resumed, sizeof daemon->resumed, "%s", report.path);
        daemon->checkpoint_written = report.time;
        daemon->checkpoint_on_disk = report.examples;
        if (*report.warning)
            log_warning("%s", report.warning);
        snprintf(daemon->resumed_warning, sizeof daemon->resumed_warning, "%s", report.warning);
    }
    daemon->current.learning.optimizer.rate = learner_rate(daemon->learner);
    daemon->current.learning.clip = learner_clip(daemon->learner);
    daemon->checkpoint_examples = learner_counters(daemon->learner).examples;
    daemon->checkpoint_time = daemon_clock();
    return 0;
}

static int open_sockets(struct daemon *daemon, struct error *error) {
    daemon->zmq = zmq_ctx_new();
    if (!daemon->zmq)
        return error_set(error, EX_OSERR, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    const struct config *config = daemon->config;
    if (security_open(&daemon->security, daemon->zmq, config, error) ||
        publish_open(&daemon->publish, daemon->zmq, daemon->security, &config->statistics, error) ||
        control_open(&daemon->control, daemon->zmq, daemon->security, &config->control,
                     daemon_commands, daemon, error) ||
        ingest_open(&daemon->ingest, daemon->zmq, daemon->security, config, &daemon->model, error))
        return -1;
    return config->examples_socket == EXAMPLES_ROUTER
               ? acknowledge_open(&daemon->acknowledge, ingest_socket(daemon->ingest),
                                  &daemon->model, error)
               : 0;
}

static void say_hello(const struct daemon *daemon) {
    const struct config *config = daemon->config;
    char summary[REPORT_SUMMARY_SIZE];
    report_summary(&config->architecture, summary);
    log_info("%s: %s; %zu parameters", config->name, summary, daemon->model.parameters);
    const char *why = daemon->engine.why;
    log_info("device %s%s%s%s", learner_device(daemon->learner), *why ? " (" : "", why,
             *why ? ")" : "");
    log_info("examples %s, statistics %s, control %s", ingest_endpoint(daemon->ingest),
             publish_endpoint(daemon->publish), control_endpoint(daemon->control));
    if (*daemon->resumed)
        log_info("resumed after %" PRIu64 " examples from %s", daemon->metrics.examples,
                 daemon->resumed);
    else
        log_info("fresh parameters; checkpoints go to %s", config->state_directory);
}

static void tell_manager(const struct daemon *daemon) {
    const char *refused = daemon->reload_refused;
    notify_status(
        "%s: %" PRIu64 " examples%s%s", daemon_state_name(daemon), daemon->metrics.examples,
        *refused ? "; the configuration that was read again is not in use: " : "", refused);
}

static int daemon_open(struct daemon **opened, const struct config *config,
                       const struct config_source *source, struct error *error) {
    struct daemon *daemon = *opened = calloc(1, sizeof *daemon);
    if (!daemon)
        return error_set(error, EX_OSERR, "no memory to start");
    daemon->config = config;
    daemon->source = source;
    daemon->current = daemon->configured = *config;
    daemon->had_terminal = daemon_has_terminal();
    daemon->signals = -1;
    daemon->started = daemon_clock();
    daemon->budget = 1;
    model_build(&daemon->model, &config->architecture);
    if (open_signals(daemon, error) || open_learner(daemon, error) ||
        daemon_open_journal(daemon, error) || open_sockets(daemon, error))
        return -1;
    daemon_begin_metrics(daemon);
    say_hello(daemon);
    daemon_warn_exposed(config);
    if (daemon_replay(daemon, error) || daemon_configure(daemon, error))
        return -1;
    tell_manager(daemon);
    notify_ready();
    return 0;
}

static void daemon_close(struct daemon **opened) {
    struct daemon *daemon = *opened;
    if (!daemon)
        return;
    acknowledge_close(&daemon->acknowledge);
    ingest_close(&daemon->ingest);
    control_close(&daemon->control);
    publish_close(&daemon->publish);
    security_close(&daemon->security);
    if (daemon->zmq)
        zmq_ctx_term(daemon->zmq);
    learner_close(&daemon->learner);
    journal_close(&daemon->journal);
    checkpoint_close(&daemon->checkpoint);
    if (daemon->signals >= 0)
        close(daemon->signals);
    free(daemon);
    *opened = NULL;
}

/* --- the loop ------------------------------------------------------------------------------- */

void daemon_stop(struct daemon *daemon, const char *reason) {
    if (daemon->stopping)
        return;
    daemon->stopping = true;
    daemon->stop_time = daemon_clock();
    snprintf(daemon->stop_reason, sizeof daemon->stop_reason, "%s", reason);
    log_info("stopping: %s", reason);
    notify_stopping();
    tell_manager(daemon);
    daemon_publish_status(daemon);
}

/* From now on a signal does what it does to any process; but one that means to have the
   configuration read again does not end this one. */
static void release_signals(const struct daemon *daemon) {
    sigset_t set;
    daemon_signals(&set);
    if (daemon_means_reload(daemon))
        sigdelset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void daemon_take_signals(struct daemon *daemon) {
    struct signalfd_siginfo info;
    while (read(daemon->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP && daemon_means_reload(daemon)) {
            daemon->reload_wanted = true;
            continue;
        }
        if (daemon->stopping && daemon_clock() >= daemon->stop_time + SAME_SIGNAL) {
            release_signals(daemon);
            raise((int)info.ssi_signo);
        }
        daemon_stop(daemon, strsignal((int)info.ssi_signo));
    }
}

/* Choose how many examples to take at once so that a batch takes about BATCH_TIME. */
static void choose_budget(struct daemon *daemon, uint64_t elapsed, size_t taken) {
    uint64_t each = elapsed / taken + 1, fitting = BATCH_TIME / each;
    size_t larger = 2 * daemon->budget;
    size_t budget = fitting < larger ? (size_t)fitting : larger;
    daemon->budget = budget < 1 ? 1 : budget > BATCH_EXAMPLES ? BATCH_EXAMPLES : budget;
}

/* Take examples until none waits or the budget is spent, and have them learned. */
static int take_examples(struct daemon *daemon, struct error *error) {
    uint64_t begin = daemon_clock(), now = begin;
    size_t taken = 0;
    for (int got; taken < daemon->budget && daemon_has_room(daemon); taken++) {
        struct example example;
        got = ingest_take(daemon->ingest, now, &example, error);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        if (daemon_take_example(daemon, &example, error))
            goto broken;
        if (!daemon->now_is_stale)
            now = daemon->now;
    }
    if (taken == 0)
        return 0;
    daemon->now_is_stale = true;
    if (learner_flush(daemon->learner, error))
        goto broken;
    daemon_want_outputs(daemon);
    daemon->changed = true;
    daemon->stop_taken += daemon->stopping ? taken : 0;
    choose_budget(daemon, daemon_clock() - begin, taken);
    return 0;
broken:
    daemon->broken = true;
    return -1;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* How long the loop may sleep, ms, rounded up. */
static long poll_timeout(const struct daemon *daemon) {
    if (daemon->stopping)
        return DRAIN_QUIET_MS;
    if (daemon->reload_wanted)
        return 0;
    uint64_t now = daemon_clock();
    uint64_t due = earlier(daemon->status_due, daemon_announcement_due(daemon));
    due = earlier(earlier(due, daemon_checkpoint_due(daemon)), notify_alive_due());
    if (due <= now)
        return 0;
    uint64_t ms = (due - now) / (NS_PER_SECOND / 1000) + 1;
    return ms > POLL_MAX_MS ? POLL_MAX_MS : (long)ms;
}

/* Wait until something is to be done; `idle`: nothing came for as long as the loop may sleep.
   Sockets that are not to be looked at are left out. */
static int wait_for_work(struct daemon *daemon, zmq_pollitem_t items[POLL_ITEMS], bool *idle,
                         struct error *error) {
    bool takes = (daemon->stopping || !daemon->paused) && daemon_has_room(daemon);
    short control = control_waiting(daemon->control) ? 0 : ZMQ_POLLIN;
    items[POLL_SIGNALS] = (zmq_pollitem_t){.fd = daemon->signals, .events = ZMQ_POLLIN};
    items[POLL_DISK] =
        (zmq_pollitem_t){.fd = checkpoint_descriptor(daemon->checkpoint), .events = ZMQ_POLLIN};
    items[POLL_JOURNAL] =
        (zmq_pollitem_t){.fd = daemon_journal_descriptor(daemon), .events = ZMQ_POLLIN};
    items[POLL_SECURITY] =
        (zmq_pollitem_t){.fd = security_descriptor(daemon->security), .events = ZMQ_POLLIN};
    items[POLL_STATISTICS] =
        (zmq_pollitem_t){.socket = publish_socket(daemon->publish), .events = ZMQ_POLLIN};
    items[POLL_CONTROL] =
        (zmq_pollitem_t){.socket = control_socket(daemon->control), .events = control};
    items[POLL_EXAMPLES] =
        (zmq_pollitem_t){.socket = ingest_socket(daemon->ingest), .events = ZMQ_POLLIN};
    int ready = zmq_poll(items, takes ? POLL_ITEMS : POLL_EXAMPLES, poll_timeout(daemon));
    *idle = ready == 0;
    if (ready >= 0 || errno == EINTR)
        return 0;
    return error_set(error, EX_OSERR, "waiting on the sockets failed: %s", zmq_strerror(errno));
}

static int turn(struct daemon *daemon, bool *idle, struct error *error) {
    zmq_pollitem_t items[POLL_ITEMS] = {0};
    if (wait_for_work(daemon, items, idle, error))
        return -1;
    if (items[POLL_SIGNALS].revents)
        daemon_take_signals(daemon);
    if (daemon->reload_wanted && daemon_reload(daemon, error))
        return -1;
    if (items[POLL_STATISTICS].revents)
        daemon_subscriptions(daemon);
    if (items[POLL_CONTROL].revents)
        for (int i = 0; i < REQUESTS_A_TURN && control_handle(daemon->control); i++)
            continue;
    if (daemon->failure.status) {
        *error = daemon->failure;
        return -1;
    }
    if (items[POLL_EXAMPLES].revents && take_examples(daemon, error))
        return -1;
    if (daemon_journal_turn(daemon, error))
        return -1;
    daemon_announce(daemon, false);
    if (daemon_clock() >= daemon->status_due) {
        daemon_watch_disk(daemon);
        daemon_publish_status(daemon);
        tell_manager(daemon);
    }
    notify_alive(); /* nothing waited, or it has been learned: see on_played */
    return daemon_checkpoints(daemon, error);
}

/* Whether a daemon that stops has learned what it can. One that has not learned all of its journal
   again can take nothing more: that comes behind it. What is not acknowledged is sent again: with
   acknowledgements it need not wait for what is on its way. */
static bool drained(const struct daemon *daemon, bool idle) {
    return daemon->stopping && (daemon->replaying || daemon->acknowledge || daemon->paused ||
                                idle || daemon->stop_taken >= DRAIN_EXAMPLES ||
                                daemon_clock() >= daemon->stop_time + DRAIN_TIME);
}

static int loop(struct daemon *daemon, struct error *error) {
    bool idle = false;
    while (!drained(daemon, idle))
        if (turn(daemon, &idle, error))
            return -1;
    return 0;
}

/* Save what was learned, and say goodbye. `failure` is why the loop ended, NULL for a request. */
static int finish(struct daemon *daemon, const struct error *failure, struct error *error) {
    int result = 0;
    notify_stopping();
    daemon_announce(daemon, true);
    daemon_take_signals(daemon);
    release_signals(daemon);
    if (!daemon->broken)
        result = daemon_journal_sync(daemon, error);
    if (!daemon->broken)
        result = daemon_last_checkpoint(daemon, error);
    const char *reason = failure ? failure->text : result ? error->text : daemon->stop_reason;
    notify_status("stopped after %" PRIu64 " examples: %s", daemon->metrics.examples, reason);
    daemon_event(daemon, "stopping", NULL, "stopping after %" PRIu64 " examples: %s",
                 daemon->metrics.examples, reason);
    if (result == 0 && !failure)
        log_info("stopped after %" PRIu64 " examples%s", daemon->metrics.examples,
                 daemon->checkpoint_written > 0 &&
                         daemon->checkpoint_on_disk == daemon->metrics.examples
                     ? "; the checkpoint has them all"
                     : "");
    return result;
}

int daemon_run(const struct config *config, const struct config_source *source,
               struct error *error) {
    struct daemon *daemon;
    int result = daemon_open(&daemon, config, source, error);
    if (result == 0) {
        struct error last = {0};
        result = loop(daemon, error);
        if (finish(daemon, result ? error : NULL, &last) && result == 0) {
            *error = last;
            result = -1;
        }
    }
    daemon_close(&daemon);
    return result;
}
