#include "replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/example.h"
#include "common/log.h"
#include "common/text.h"
#include "feedback.h"
#include "learner/learner_state.h"
#include "learning.h"
#include "moving.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "run.h"
#include "settings.h"
#include "sockets/decode.h"
#include "store/parameters_file.h"

#define PROGRESS_INTERVAL NS_PER_SECOND /* between two checks of signals and subscribers */

enum { REPLAY_EXTENSION_S = 30 }; /* requested from the service manager each time */

struct replay {
    struct daemon *daemon;
    struct decoder *decoder; /* used by learn_rest */
    uint64_t looked;         /* time of the last check */
    struct left_out *list;
    const struct rollback *counted; /* see replay_without */
    struct replayed replayed;
    bool again; /* a rollback that was not in the list has ended the replay */
};

/* Adds the rollback to the list. The learned state is then wrong, and learning begins again. */
static int note_rollback(struct replay *replay, const json_t *command, uint64_t position,
                         struct error *error) {
    struct rollback rollback;
    if (left_out_contains(replay->list, position))
        return 0;
    if (rollback_read(&rollback, command, position, error))
        return -1;
    if (left_out_add(replay->list, &rollback, error)) {
        rollback_release(&rollback);
        return -1;
    }
    replay->again = true;
    return error_set(error, EX_TEMPFAIL, "the journal has another rollback");
}

static int replay_forget(struct daemon *daemon, const json_t *stream, struct error *error) {
    return learner_forget(daemon->learner, json_string_value(stream), json_string_length(stream),
                          error) < 0;
}

/* Forgets streams that have moved to another daemon. */
static int replay_moved(struct daemon *daemon, const json_t *streams, struct error *error) {
    size_t n;
    json_t *stream;
    if (!json_is_array(streams))
        return error_set(error, EX_IOERR, "invalid `forget` in the journal: missing streams");
    json_array_foreach(streams, n, stream) {
        if (json_is_string(stream) && replay_forget(daemon, stream, error))
            return -1;
    }
    return 0;
}

static int replay_set(struct daemon *daemon, const json_t *request, struct error *error) {
    const char *key = json_string_value(json_object_get(request, "key"));
    const char *value = json_string_value(json_object_get(request, "value"));
    if (!key || !value)
        return error_set(error, EX_IOERR, "invalid `set` in the journal: missing key or value");
    return settings_replay(daemon, key, value, json_is_true(json_object_get(request, "configured")),
                           error);
}

static int replay_request(struct replay *replay, const struct journal_entry *entry,
                          const json_t *request, struct error *error) {
    struct daemon *daemon = replay->daemon;
    const json_t *stream = json_object_get(request, "stream");
    switch (entry->kind) {
    case JOURNAL_RESET:
        return settings_reset(daemon, json_string_value(json_object_get(request, "member")), error);
    case JOURNAL_SET:
        return replay_set(daemon, request, error);
    case JOURNAL_FORGET:
        return json_is_string(stream)
                   ? replay_forget(daemon, stream, error)
                   : replay_moved(daemon, json_object_get(request, "streams"), error);
    case JOURNAL_ADOPT:
        return moving_replay_adopt(daemon, request, error);
    case JOURNAL_IMPORT:
        return moving_replay_import(daemon, request, error);
    case JOURNAL_SKIP:
    case JOURNAL_PARTITION: /* has only a place */
        return 0;
    case JOURNAL_FEEDBACK:
        return feedback_replay(daemon, request, error);
    case JOURNAL_SILENCE:
        return feedback_replay_silence(daemon, request, error);
    case JOURNAL_ROLLBACK:
        return note_rollback(replay, request, entry->position, error);
    case JOURNAL_EXAMPLE:
    case JOURNAL_COMMAND:
    case JOURNAL_KINDS:
        break;
    }
    return error_set(error, EX_IOERR, "unknown command in the journal: %s", entry->command);
}

static int replay_command(struct replay *replay, const struct journal_entry *entry,
                          struct error *error) {
    json_t *request = json_loads(entry->command, 0, NULL);
    int result = request ? replay_request(replay, entry, request, error)
                         : error_set(error, EX_IOERR,
                                     "invalid command at position %" PRIu64
                                     " of the journal, or out of memory",
                                     entry->position);
    json_decref(request);
    return result ? -1 : 0;
}

/* Returns whether the entry is left out, and counts it. */
static bool leave_out(struct replay *replay, const struct journal_entry *entry) {
    struct left_out *list = replay->list;
    bool others = false;
    if (list->count == 0)
        return false;
    for (size_t i = 0; i < list->count && !others; i++)
        others = list->rollbacks[i] != replay->counted && rollback_has(list->rollbacks[i], entry);
    if (others || !replay->counted || !rollback_has(replay->counted, entry))
        return others;
    replay->replayed.examples += !entry->command;
    replay->replayed.commands += entry->command != NULL;
    return true;
}

/* Reports progress, and handles signals and subscribers. */
static void report_progress(struct replay *replay, uint64_t position) {
    struct daemon *daemon = replay->daemon;
    uint64_t now = observe_played(daemon), last = journal_position(daemon->journal);
    if (now < replay->looked + PROGRESS_INTERVAL)
        return;
    replay->looked = now;
    run_handle_signals(daemon);
    observe_subscriptions(daemon);
    notify_extend(REPLAY_EXTENSION_S);
    notify_status("replaying the journal: entry %" PRIu64 " of %" PRIu64, position, last);
    log_info("replaying the journal: entry %" PRIu64 " of %" PRIu64, position, last);
}

static int replay_example(struct replay *replay, struct journal_entry *entry, struct error *error) {
    char why[REJECT_WHY_SIZE], stream[TEXT_QUOTE_SIZE];
    if (decode_check(replay->decoder, &entry->example, why))
        return error_set(
            error, EX_IOERR,
            "cannot replay entry %" PRIu64 " of the journal (stream %s, sequence %" PRIu64
            "): %s; restore a copy (runnel-ctl restore), or move the state directory away",
            entry->position, text_quote(stream, entry->example.key, entry->example.key_size),
            entry->example.sequence, why);
    entry->example.received = observe_played(replay->daemon); /* latencies of the replay */
    return learner_take(replay->daemon->learner, &entry->example, error);
}

static int replay_entry(void *context, struct journal_entry *entry, struct error *error) {
    struct replay *replay = context;
    struct daemon *daemon = replay->daemon;
    report_progress(replay, entry->position);
    if (run_is_stopping(daemon))
        return error_set(error, EX_TEMPFAIL, "stopped while replaying the journal");
    bool rollback = entry->kind == JOURNAL_ROLLBACK;
    if (!rollback && leave_out(replay, entry)) {
        learner_set_position(daemon->learner, entry->position);
        return 0;
    }
    replay->replayed.entries += !rollback;
    if (rollback) /* the entries it leaves out change streams */
        learner_all_changed(daemon->learner);
    if (entry->command ? replay_command(replay, entry, error)
                       : replay_example(replay, entry, error))
        return -1;
    learner_set_position(daemon->learner, entry->position);
    return 0;
}

static void report_done(struct daemon *daemon, uint64_t done, double seconds, bool stopped) {
    const char *entries = done == 1 ? "entry" : "entries";
    log_info("replayed %" PRIu64 " %s of the journal in %.2f s%s", done, entries, seconds,
             stopped ? "; stopped before the end" : "");
    announce_event(daemon, "replayed",
                   json_pack("{s:I, s:f}", "entries", (json_int_t)done, "seconds", seconds),
                   "replayed %" PRIu64 " %s of the journal in %.2f s", done, entries, seconds);
}

/* Learns all entries after those in the learner. */
static int learn_rest(struct replay *replay, struct error *error) {
    struct daemon *daemon = replay->daemon;
    uint64_t from = learner_counters(daemon->learner).position;
    replay->replayed = (struct replayed){0};
    replay->again = false;
    if (decoder_open(&replay->decoder, &daemon->model, true, error))
        return -1;
    int status = journal_replay(daemon->journal, from, replay_entry, replay, error);
    decoder_close(&replay->decoder);
    return status ? -1 : learner_flush(daemon->learner, error);
}

/* ---- From an older checkpoint ---- */

int replay_choose(const struct daemon *daemon, const struct left_out *list,
                  struct checkpoint_kept *kept, struct error *error) {
    struct checkpoint_kept all[CHECKPOINT_KEEP_MAX + 1];
    struct journal_figures journal;
    uint64_t first = UINT64_MAX, by = 0;
    journal_figures(daemon->journal, &journal);
    size_t count = checkpoint_list(daemon->checkpoint, all);
    for (size_t i = 0; i < count; i++)
        if (all[i].position + 1 >= journal.oldest && left_out_allows(list, all[i].position)) {
            *kept = all[i];
            return 0;
        }
    for (size_t i = 0; i < list->count; i++)
        if (list->rollbacks[i]->first < first) {
            first = list->rollbacks[i]->first;
            by = list->rollbacks[i]->position;
        }
    return error_set(error, EX_IOERR,
                     "the rollback at entry %" PRIu64
                     " of the journal leaves out entries from entry %" PRIu64
                     " on, but %s has no usable checkpoint older than that entry: restore one "
                     "that belongs to the journal",
                     by, first, daemon->config->state_directory);
}

/* Learns until no new rollback is found. The daemon's learner belongs to the replay. */
static int learn_without(struct replay *replay, struct checkpoint_kept *kept, struct error *error) {
    struct daemon *daemon = replay->daemon;
    int result;
    while ((result = learn_rest(replay, error)) && replay->again)
        if (replay_choose(daemon, replay->list, kept, error) ||
            learning_go_back(daemon, kept, NULL, error))
            return -1;
    return result;
}

int replay_without(struct daemon *daemon, struct left_out *list, const struct rollback *counted,
                   struct checkpoint_kept *kept, struct replayed *replayed, struct error *error) {
    struct replay replay = {
        .daemon = daemon, .looked = clock_ns(), .list = list, .counted = counted};
    struct learner *before;
    if (replay_choose(daemon, list, kept, error) || learning_go_back(daemon, kept, &before, error))
        return -1;
    run_replay(daemon, true);
    int result =
        learn_without(&replay, kept, error) || checkpoint_go_back(daemon->checkpoint, kept, error)
            ? -1
            : 0;
    run_replay(daemon, false);
    if (result)
        learning_undo(daemon, &before);
    else
        learning_keep(daemon, &before);
    checkpoints_begin_again(daemon);
    *replayed = replay.replayed;
    return result;
}

/* ---- At a start ---- */

static int collect(void *context, struct journal_entry *entry, struct error *error) {
    struct replay *replay = context;
    notify_alive();
    if (entry->kind != JOURNAL_ROLLBACK)
        return 0;
    if (replay_command(replay, entry, error) && !replay->again)
        return -1;
    return 0;
}

/* Collects the rollbacks after the checkpoint. If there is one, chooses the checkpoint that they do
   not affect in place of the loaded one. */
static int find_rollbacks(struct replay *replay, struct checkpoint_kept *kept,
                          struct error *error) {
    struct daemon *daemon = replay->daemon;
    uint64_t from = learner_counters(daemon->learner).position;
    int found = journal_has_kind(daemon->journal, from, JOURNAL_ROLLBACK, error);
    if (found <= 0)
        return found;
    if (journal_replay(daemon->journal, from, collect, replay, error))
        return -1;
    if (replay->list->count == 0)
        return 0;
    return replay_choose(daemon, replay->list, kept, error) ||
                   learning_go_back(daemon, kept, NULL, error)
               ? -1
               : 0;
}

/* The replay is incomplete; the next start continues. If entries learned now are left out later, do
   not write a checkpoint: it would replace the one to go back to. */
static int stop_replay(struct replay *replay, struct error *error) {
    struct daemon *daemon = replay->daemon;
    if (learner_flush(daemon->learner, error))
        return run_break(daemon);
    if (replay->list->count)
        checkpoints_discard(daemon);
    else
        checkpoints_changed(daemon);
    return 0;
}

static int replay_rest(struct replay *replay, struct error *error) {
    struct daemon *daemon = replay->daemon;
    struct checkpoint_kept kept = {0};
    uint64_t begin = clock_ns();
    run_replay(daemon, true);
    if (find_rollbacks(replay, &kept, error))
        return -1;
    uint64_t count = journal_position(daemon->journal) - learner_counters(daemon->learner).position;
    log_info("replaying the entries of the journal after the checkpoint: %" PRIu64 " %s", count,
             count == 1 ? "entry" : "entries");
    int result = learn_without(replay, &kept, error);
    bool stopped = result && run_is_stopping(daemon);
    if (result && (!stopped || stop_replay(replay, error)))
        return -1;
    run_replay(daemon, stopped);
    report_done(daemon, replay->replayed.entries,
                (double)(clock_ns() - begin) / (double)NS_PER_SECOND, stopped);
    if (stopped)
        return 0;
    checkpoints_changed(daemon);
    if (replay->list->count == 0)
        return 0;
    checkpoints_begin_again(daemon);
    checkpoints_soon(daemon);
    return checkpoint_go_back(daemon->checkpoint, &kept, error);
}

static int replay_all(struct daemon *daemon, struct error *error) {
    /* A replay begins with the initial parameters and rates: the configuration may have changed
       since, so a checkpoint must record them. */
    if (journal_position(daemon->journal) == 0 && !*daemon->resumed.path &&
        checkpoints_first(daemon, error))
        return -1;
    checkpoint_keep_first(daemon->checkpoint);
    if (learner_counters(daemon->learner).position == journal_position(daemon->journal))
        return 0;
    struct left_out list = {0};
    struct replay replay = {.daemon = daemon, .looked = clock_ns(), .list = &list};
    int result = replay_rest(&replay, error);
    left_out_free(&list);
    return result;
}

int replay_journal(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    int result = replay_all(daemon, error);
    if (result == 0)
        parameters_file_sweep(daemon->config->state_directory, journal_position(daemon->journal));
    return result;
}
