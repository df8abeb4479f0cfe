#include "replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "learner/example.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "run.h"
#include "settings.h"

#define PROGRESS_INTERVAL NS_PER_SECOND /* between two looks around */

enum { REPLAY_EXTENSION_S = 30 }; /* asked of the service manager each time */

struct replay {
    struct daemon *daemon;
    uint64_t looked; /* around, last */
};

static int replay_command(struct daemon *daemon, const char *text, struct error *error) {
    json_t *request = json_loads(text, 0, NULL);
    const char *name = json_string_value(json_object_get(request, "command"));
    const char *key = json_string_value(json_object_get(request, "key"));
    const char *value = json_string_value(json_object_get(request, "value"));
    const json_t *stream = json_object_get(request, "stream");
    int result;
    if (name && !strcmp(name, "reset"))
        result = settings_reset(daemon, error);
    else if (name && !strcmp(name, "set") && key && value)
        result = settings_replay(daemon, key, value,
                                 json_is_true(json_object_get(request, "configured")), error);
    else if (name && !strcmp(name, "forget") && json_is_string(stream))
        result = learner_forget(daemon->learner, json_string_value(stream),
                                json_string_length(stream), error) < 0;
    else
        result = error_set(error, EX_IOERR,
                           "the journal has a command that this program does not know: %s", text);
    json_decref(request);
    return result ? -1 : 0;
}

/* Say how far it is; let signals and subscribers in. */
static void look_around(struct replay *replay, uint64_t position) {
    struct daemon *daemon = replay->daemon;
    uint64_t now = observe_played(daemon), last = journal_position(daemon->journal);
    if (now < replay->looked + PROGRESS_INTERVAL)
        return;
    replay->looked = now;
    run_take_signals(daemon);
    observe_subscriptions(daemon);
    notify_extend(REPLAY_EXTENSION_S);
    notify_status("replaying the journal: entry %" PRIu64 " of %" PRIu64, position, last);
    log_info("replaying the journal: entry %" PRIu64 " of %" PRIu64, position, last);
}

static int replay_entry(void *context, struct journal_entry *entry, struct error *error) {
    struct replay *replay = context;
    struct daemon *daemon = replay->daemon;
    look_around(replay, entry->position);
    if (run_is_stopping(daemon))
        return error_set(error, EX_TEMPFAIL, "stopped while the journal was replayed");
    if (entry->command) {
        if (replay_command(daemon, entry->command, error))
            return -1;
    } else {
        entry->example.received = observe_played(daemon); /* latencies are those of replaying */
        if (learner_take(daemon->learner, &entry->example, error))
            return -1;
    }
    learner_set_position(daemon->learner, entry->position);
    return 0;
}

static void say_done(struct daemon *daemon, uint64_t done, double seconds, bool stopped) {
    const char *entries = done == 1 ? "entry" : "entries";
    log_info("replayed %" PRIu64 " %s of the journal in %.2f s%s", done, entries, seconds,
             stopped ? ", not all: asked to stop" : "");
    announce_event(daemon, "replayed",
                   json_pack("{s:I, s:f}", "entries", (json_int_t)done, "seconds", seconds),
                   "replayed %" PRIu64 " %s of the journal in %.2f s", done, entries, seconds);
}

int replay_journal(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    uint64_t from = learner_counters(daemon->learner).position;
    uint64_t to = journal_position(daemon->journal), begin = clock_ns();
    struct replay replay = {daemon, begin};
    /* What is replayed begins with the values and rates that learning began with: the configuration
       may have changed by then. */
    if (to == 0 && !*daemon->resumed.path)
        return checkpoints_first(daemon, error);
    if (from == to)
        return 0;
    run_replay(daemon, true);
    log_info("replaying what the journal has after the checkpoint: %" PRIu64 " entries", to - from);
    int result = journal_replay(daemon->journal, from, replay_entry, &replay, error);
    bool stopped = result && run_is_stopping(daemon);
    if (result && !stopped)
        return -1;
    if (learner_flush(daemon->learner, error))
        return run_break(daemon);
    checkpoints_changed(daemon);
    run_replay(daemon, stopped);
    say_done(daemon, learner_counters(daemon->learner).position - from,
             (double)(clock_ns() - begin) / (double)NS_PER_SECOND, stopped);
    return 0;
}
