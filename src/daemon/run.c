#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#include "announce.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "notify.h"
#include "parts.h"
#include "source.h"

#define DRAIN_TIME (5 * NS_PER_SECOND)  /* limit for learning the waiting examples when stopping */
#define SAME_SIGNAL (NS_PER_SECOND / 2) /* two signals within this time are one */

enum {
    DRAIN_EXAMPLES = 100000, /* examples learned at most when stopping */
    REASON_SIZE = 128,
};

struct run {
    int signals;       /* a signalfd */
    bool had_terminal; /* the terminal can disappear */
    bool reload_wanted;
    char refused[ERROR_TEXT_SIZE]; /* see run_refused_reload */
    uint64_t started;
    bool paused, replaying, stopping, broken;
    uint64_t stop_time;  /* start of stopping */
    uint64_t stop_taken; /* examples taken by then */
    char stop_reason[REASON_SIZE];
    struct error failure; /* status 0 = none */
};

/* ---- Signals ---- */

static void handled_signals(sigset_t *set) {
    struct sigaction hangup;
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP); /* not ignored, as under nohup */
}

static bool has_terminal(void) {
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (terminal < 0)
        return false;
    close(terminal);
    return true;
}

/* A terminal that is closed also sends SIGHUP, to end the programs that run in it. */
static bool hangup_means_reload(const struct run *run) {
    return !run->had_terminal || has_terminal();
}

int run_open(struct daemon *daemon, struct error *error) {
    struct run *run = daemon->run = calloc(1, sizeof *run);
    sigset_t set;
    if (!run)
        return error_no_memory(error);
    run->started = clock_ns();
    run->had_terminal = has_terminal();
    handled_signals(&set);
    signal(SIGPIPE, SIG_IGN); /* keep learning when the reader of the log has ended */
    sigprocmask(SIG_BLOCK, &set, NULL);
    run->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (run->signals < 0)
        return error_set(error, EX_OSERR, "cannot open a signalfd: %s", strerror(errno));
    return 0;
}

void run_close(struct daemon *daemon) {
    if (daemon->run && daemon->run->signals >= 0)
        close(daemon->run->signals);
    free(daemon->run);
    daemon->run = NULL;
}

int run_descriptor(const struct daemon *daemon) {
    return daemon->run->signals;
}

void run_release_signals(struct daemon *daemon) {
    sigset_t set;
    handled_signals(&set);
    if (hangup_means_reload(daemon->run))
        sigdelset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void run_handle_signals(struct daemon *daemon) {
    struct run *run = daemon->run;
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP && hangup_means_reload(run)) {
            run->reload_wanted = true;
            continue;
        }
        if (run->stopping && clock_ns() >= run->stop_time + SAME_SIGNAL) {
            run_release_signals(daemon);
            raise((int)info.ssi_signo);
        }
        run_stop(daemon, strsignal((int)info.ssi_signo));
    }
}

bool run_wants_reload(const struct daemon *daemon) {
    return daemon->run->reload_wanted;
}

bool run_accept_reload(struct daemon *daemon) {
    bool wanted = daemon->run->reload_wanted;
    daemon->run->reload_wanted = false;
    return wanted;
}

/* ---- The state ---- */

const char *run_state(const struct daemon *daemon) {
    const struct run *run = daemon->run;
    return run->stopping    ? "draining"
           : run->replaying ? "replaying"
           : run->paused    ? "paused"
                            : "learning";
}

void run_refused_reload(struct daemon *daemon, const char *why) {
    snprintf(daemon->run->refused, sizeof daemon->run->refused, "%s", why);
}

void run_notify_manager(const struct daemon *daemon) {
    const char *refused = daemon->run->refused;
    uint64_t examples = daemon_examples(daemon);
    notify_status("%s: %" PRIu64 " example%s%s", run_state(daemon), examples, text_s(examples),
                  refused);
}

double run_uptime(const struct daemon *daemon) {
    return (double)(clock_ns() - daemon->run->started) / (double)NS_PER_SECOND;
}

bool run_pause(struct daemon *daemon, bool paused) {
    bool changed = paused != daemon->run->paused;
    daemon->run->paused = paused;
    return changed;
}

bool run_is_paused(const struct daemon *daemon) {
    return daemon->run->paused;
}

void run_replay(struct daemon *daemon, bool replaying) {
    daemon->run->replaying = replaying;
    publish_mark_replaying(daemon->publish, replaying);
}

bool run_is_replaying(const struct daemon *daemon) {
    return daemon->run->replaying;
}

/* ---- The end ---- */

void run_stop(struct daemon *daemon, const char *reason) {
    struct run *run = daemon->run;
    if (run->stopping)
        return;
    run->stopping = true;
    run->stop_time = clock_ns();
    run->stop_taken = learner_taken(daemon->learner);
    snprintf(run->stop_reason, sizeof run->stop_reason, "%s", reason);
    log_info("stopping: %s", reason);
    notify_stopping();
    run_notify_manager(daemon);
    announce_status(daemon);
}

bool run_is_stopping(const struct daemon *daemon) {
    return daemon->run->stopping;
}

const char *run_stop_reason(const struct daemon *daemon) {
    return daemon->run->stop_reason;
}

/* A daemon that has not replayed all of its journal cannot accept new examples. Examples that are
   not acknowledged or not in the journal are sent or read again, so neither case waits for them. */
bool run_is_drained(const struct daemon *daemon, bool idle) {
    const struct run *run = daemon->run;
    return run->stopping &&
           (run->replaying || daemon->source->repeats(daemon) || run->paused || idle ||
            learner_taken(daemon->learner) >= run->stop_taken + DRAIN_EXAMPLES ||
            clock_ns() >= run->stop_time + DRAIN_TIME);
}

int run_break(struct daemon *daemon) {
    daemon->run->broken = true;
    return -1;
}

bool run_is_broken(const struct daemon *daemon) {
    return daemon->run->broken;
}

int run_fail(struct daemon *daemon, const struct error *error) {
    daemon->run->failure = *error;
    return -1;
}

int run_abort(struct daemon *daemon, const struct error *error) {
    run_break(daemon);
    return run_fail(daemon, error);
}

int run_failure(const struct daemon *daemon, struct error *error) {
    if (!daemon->run->failure.status)
        return 0;
    *error = daemon->run->failure;
    return -1;
}
