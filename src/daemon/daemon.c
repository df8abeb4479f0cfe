#include "daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <zmq.h>

#include "alarms.h"
#include "announce.h"
#include "checkpoints.h"
#include "commands.h"
#include "common/address.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "engine/engines.h"
#include "journalling.h"
#include "learning.h"
#include "moving.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "replay.h"
#include "rollback.h"
#include "run.h"
#include "settings.h"
#include "sockets/endpoint.h"
#include "source.h"
#include "take.h"

enum {
    DRAIN_QUIET_MS = 50, /* end draining after this time without an example */
    REQUESTS_A_TURN = 8, /* control requests answered between two batches */
    POLL_MAX_MS = 1000,  /* checkpoints_look is due every second */
};

/* The items of the loop's poll. */
enum {
    POLL_SIGNALS,
    POLL_DISK,
    POLL_JOURNAL,
    POLL_SECURITY,
    POLL_STATISTICS,
    POLL_SOURCE,
    POLL_CONTROL,
    POLL_EXAMPLES,
    POLL_ITEMS
};

/* ---- Opening and closing ---- */

/* Loads the checkpoint, or starts with fresh parameters. */
static int start_learner(struct daemon *daemon, struct error *error) {
    struct checkpoint_report *report = &daemon->resumed;
    int loaded =
        checkpoint_load(daemon->checkpoint, daemon->config, daemon->learner, report, error);
    if (loaded < 0 || (!loaded && learner_start(daemon->learner, error)))
        return -1;
    if (!loaded)
        *report = (struct checkpoint_report){0};
    if (*report->warning)
        log_warning("%s", report->warning);
    if (checkpoint_unlearned(daemon->checkpoint))
        log_info("%s: no progress under the previous configuration; starting from scratch",
                 daemon->config->state_directory);
    settings_update_rates(daemon);
    return 0;
}

/* Each connection uses a descriptor; security.c reserves some for the daemon's own. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        log_warning("cannot raise the limit of file descriptors: %s", strerror(errno));
}

static int open_sockets(struct daemon *daemon, struct error *error) {
    daemon->zmq = zmq_ctx_new();
    if (!daemon->zmq)
        return error_set(error, EX_OSERR, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    zmq_ctx_set(daemon->zmq, ZMQ_IO_THREADS, ENDPOINT_IO_THREADS);
    const struct config *config = daemon->config;
    if (security_open(&daemon->security, daemon->zmq, config, error) ||
        publish_open(&daemon->publish, daemon->zmq, daemon->security, &config->statistics, error) ||
        control_open(&daemon->control, daemon->zmq, daemon->security, &config->control, commands,
                     daemon, error) ||
        ingest_open(&daemon->ingest, daemon->zmq, daemon->security, config, &daemon->model, error))
        return -1;
    return daemon->source->open(daemon, error);
}

static void log_start(const struct daemon *daemon, const char *why) {
    const struct config *config = daemon->config;
    char summary[CONFIG_NETWORKS_SIZE];
    config_networks(config, summary);
    log_info("%s: %s; %zu parameters", config->name, summary, learner_parameters(daemon->learner));
    log_info("device %s%s%s%s", learner_device(daemon->learner), *why ? " (" : "", why,
             *why ? ")" : "");
    log_info("examples %s, statistics %s, control %s", daemon->source->endpoint(daemon),
             publish_endpoint(daemon->publish), control_endpoint(daemon->control));
    if (*daemon->resumed.path)
        log_info("resumed after %" PRIu64 " example%s from %s", daemon_examples(daemon),
                 text_s(daemon_examples(daemon)), daemon->resumed.path);
    else
        log_info("fresh parameters; checkpoints go to %s", config->state_directory);
    if (*learner_watches_not(daemon->learner))
        log_warning("preset: %s: anomaly detection is off: %s",
                    config->preset == PRESET_SYMBOLS ? "symbols" : "forecast",
                    learner_watches_not(daemon->learner));
}

static void warn_exposed(const struct config *config) {
    const struct socket_config *sockets[SOCKET_ROLES] = {&config->examples, &config->statistics,
                                                         &config->control};
    for (size_t i = 0; i < SOCKET_ROLES && !*config->security.secret; i++) {
        bool abstract = address_is_abstract(sockets[i]->endpoint);
        if (!sockets[i]->connect && (abstract || !address_is_local(sockets[i]->endpoint)))
            log_warning("%s: accessible to %s without encryption or authentication, because "
                        "security.insecure is true",
                        sockets[i]->endpoint,
                        abstract ? "every user of this machine" : "other machines");
    }
}

static int open_parts(struct daemon *daemon, const struct config *config,
                      const struct config_source *source, struct error *error) {
    struct engines_choice engine;
    model_build(&daemon->model, &config->architecture);
    daemon->source = source_choose(config, error);
    if (!daemon->source || settings_open(daemon, config, source, error) ||
        announce_open(daemon, commands_status, error) || run_open(daemon, error) ||
        engines_choose(&engine, config->device, config, error) ||
        checkpoint_open(&daemon->checkpoint, config->state_directory, error) ||
        learning_open(daemon, &engine, error) || alarms_open(daemon, error) ||
        observe_open(daemon, error) || start_learner(daemon, error) ||
        checkpoints_open(daemon, error) || journalling_open(daemon, error) ||
        moving_open(daemon, error) || open_sockets(daemon, error))
        return -1;
    observe_begin(daemon);
    log_start(daemon, engine.why);
    warn_exposed(config);
    return 0;
}

/* The journal continues under another configuration. A checkpoint must precede its entries; the
   previous checkpoint was written before the change. */
static int save_changed(struct daemon *daemon, struct error *error) {
    if (!*daemon->resumed.before)
        return 0;
    checkpoints_changed(daemon);
    return checkpoints_last(daemon, error);
}

static int daemon_open(struct daemon **opened, const struct config *config,
                       const struct config_source *source, struct error *error) {
    struct daemon *daemon = *opened = calloc(1, sizeof *daemon);
    if (!daemon)
        return error_no_memory(error);
    if (open_parts(daemon, config, source, error) || replay_journal(daemon, error) ||
        checkpoint_set_aside(daemon->checkpoint, error) || save_changed(daemon, error) ||
        settings_configure(daemon, error) || rollback_at_start(daemon, error) ||
        (daemon->source->begin && daemon->source->begin(daemon, error)))
        return -1;
    run_notify_manager(daemon);
    notify_ready();
    return 0;
}

static void daemon_close(struct daemon **opened) {
    struct daemon *daemon = *opened;
    if (!daemon)
        return;
    if (daemon->source)
        daemon->source->close(daemon);
    ingest_close(&daemon->ingest);
    control_close(&daemon->control);
    publish_close(&daemon->publish);
    security_close(&daemon->security);
    if (daemon->zmq)
        zmq_ctx_term(daemon->zmq);
    moving_close(daemon);
    learning_close(daemon);
    journalling_close(daemon);
    checkpoints_close(daemon);
    checkpoint_close(&daemon->checkpoint);
    observe_close(daemon);
    run_close(daemon);
    alarms_close(daemon);
    announce_close(daemon);
    settings_close(daemon);
    free(daemon);
    *opened = NULL;
}

/* ---- The loop ---- */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Returns how long the loop may sleep, in ms, rounded up. */
static long poll_timeout(const struct daemon *daemon) {
    if (run_is_stopping(daemon))
        return DRAIN_QUIET_MS;
    if (run_wants_reload(daemon))
        return 0;
    uint64_t now = clock_ns();
    uint64_t due =
        earlier(earlier(announce_due(daemon), checkpoints_due(daemon)), notify_alive_due());
    if (due <= now)
        return 0;
    uint64_t ms = (due - now) / (NS_PER_SECOND / 1000) + 1;
    return ms > POLL_MAX_MS ? POLL_MAX_MS : (long)ms;
}

/* Waits until there is work; `idle`: none came in the time that the loop may sleep. Sockets that
   must not be polled are left out. */
static int wait_for_work(struct daemon *daemon, zmq_pollitem_t items[POLL_ITEMS], bool *idle,
                         struct error *error) {
    const struct source_ops *source = daemon->source;
    short control = control_waiting(daemon->control) ? 0 : ZMQ_POLLIN;
    const int descriptors[] = {
        [POLL_SIGNALS] = run_descriptor(daemon),
        [POLL_DISK] = checkpoint_descriptor(daemon->checkpoint),
        [POLL_JOURNAL] = daemon->journal ? journal_descriptor(daemon->journal) : -1,
        [POLL_SECURITY] = security_descriptor(daemon->security),
        [POLL_STATISTICS] = publish_descriptor(daemon->publish),
        [POLL_SOURCE] = source->descriptor ? source->descriptor(daemon) : -1,
    };
    for (int n = POLL_SIGNALS; n <= POLL_SOURCE; n++)
        items[n] = (zmq_pollitem_t){.fd = descriptors[n], .events = ZMQ_POLLIN};
    items[POLL_CONTROL] =
        (zmq_pollitem_t){.socket = control_socket(daemon->control), .events = control};
    bool wanted = take_is_wanted(daemon);
    if (wanted)
        source->poll(daemon, &items[POLL_EXAMPLES]);
    int count = wanted ? POLL_ITEMS : POLL_EXAMPLES;
    int ready = zmq_poll(items, count, poll_timeout(daemon));
    *idle = ready == 0;
    if (ready >= 0 || errno == EINTR)
        return 0;
    return error_set(error, EX_OSERR, "cannot wait for the sockets: %s", zmq_strerror(errno));
}

static int turn(struct daemon *daemon, size_t *batch, bool *idle, struct error *error) {
    zmq_pollitem_t items[POLL_ITEMS] = {0};
    if (wait_for_work(daemon, items, idle, error))
        return -1;
    if (items[POLL_SIGNALS].revents)
        run_handle_signals(daemon);
    if (run_accept_reload(daemon) && settings_reload(daemon, error))
        return -1;
    if (items[POLL_STATISTICS].revents)
        observe_subscriptions(daemon);
    if (items[POLL_CONTROL].revents)
        for (int i = 0; i < REQUESTS_A_TURN && control_handle(daemon->control); i++)
            continue;
    if (run_failure(daemon, error))
        return -1;
    if (items[POLL_EXAMPLES].events && !items[POLL_EXAMPLES].revents && daemon->source->idle)
        daemon->source->idle(daemon);
    if (items[POLL_EXAMPLES].revents && take_examples(daemon, batch, error))
        return -1;
    if (journalling_turn(daemon, error) ||
        (daemon->source->turn && daemon->source->turn(daemon, error)) ||
        checkpoints_look(daemon, error))
        return -1;
    observe_turn(daemon);
    announce_counted(daemon, false);
    if (announce_status_is_due(daemon)) {
        journalling_watch_disk(daemon);
        announce_status(daemon);
        run_notify_manager(daemon);
    }
    notify_alive(); /* no example is waiting, or a batch was learned */
    return checkpoints_turn(daemon, error);
}

static int loop(struct daemon *daemon, struct error *error) {
    size_t batch = 1;
    bool idle = false;
    while (!run_is_drained(daemon, idle))
        if (turn(daemon, &batch, &idle, error))
            return -1;
    return 0;
}

/* Saves the learned state and announces the end. `failure` is the reason, NULL after a request. */
static int finish(struct daemon *daemon, struct error *failure, struct error *error) {
    int result = 0;
    notify_stopping();
    announce_counted(daemon, true);
    run_handle_signals(daemon);
    run_release_signals(daemon);
    if (!run_is_broken(daemon))
        result = journalling_sync(daemon, error);
    if (!run_is_broken(daemon) && !failure && daemon->source->hand_over)
        result = daemon->source->hand_over(daemon, error);
    if (!run_is_broken(daemon) && result == 0)
        result = checkpoints_last(daemon, error);
    if (run_is_broken(daemon))
        checkpoints_rescue(daemon, failure ? failure : error);
    uint64_t examples = daemon_examples(daemon);
    const char *reason = failure ? failure->text : result ? error->text : run_stop_reason(daemon);
    notify_status("stopped after %" PRIu64 " example%s: %s", examples, text_s(examples), reason);
    announce_event(daemon, "stopping", NULL, "stopping after %" PRIu64 " example%s: %s", examples,
                   text_s(examples), reason);
    if (result == 0 && !failure)
        log_info("stopped after %" PRIu64 " example%s%s", examples, text_s(examples),
                 checkpoints_have_all(daemon) ? "; all are in the checkpoint" : "");
    return result;
}

int daemon_run(const struct config *config, const struct config_source *source,
               struct error *error) {
    struct daemon *daemon;
    raise_descriptor_limit();
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
