/* The journal's part in the daemon: what is taken is written down and acknowledged, and learned
   again after a crash. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/log.h"
#include "daemon_state.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "report.h"

#define PROGRESS_INTERVAL NS_PER_SECOND /* between two looks around while replaying */

enum {
    REPLAY_EXTENSION_S = 30, /* asked of the service manager each time */
    CHECK_EXTENSION_S = 30,
    CHECK_BYTES_PER_S = 10 << 20,
    CHECK_EXTENSION_MAX_S = 24 * 60 * 60,
    CHECK_WORTH_A_WORD = 256 << 20,
    DISK_LOW_BYTES = 256 << 20 /* free on the filesystem: people are warned */
};

/* ---- opening, and learning again ---- */

static void warn_of_idle_journal(const struct config *config) {
    char path[CONFIG_PATH_SIZE + sizeof "/" JOURNAL_NAME];
    snprintf(path, sizeof path, "%s/%s", config->state_directory, JOURNAL_NAME);
    if (access(path, F_OK) == 0)
        log_warning("state.journal.enabled is false: what %s has behind the checkpoint is not "
                    "learned until it is true again",
                    path);
}

/* Opening looks through the file: in what a slow disk needs for that nothing else is heard. */
static void ask_for_time(const struct config *config) {
    static const char *const names[] = {JOURNAL_NAME, JOURNAL_NAME "-wal"};
    char path[CONFIG_PATH_SIZE + sizeof "/" JOURNAL_NAME "-wal"];
    struct stat file;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", config->state_directory, names[i]);
        bytes += stat(path, &file) == 0 ? (uint64_t)file.st_size : 0;
    }
    if (bytes == 0)
        return;
    uint64_t seconds = CHECK_EXTENSION_S + bytes / CHECK_BYTES_PER_S;
    notify_status("looking through the journal, %" PRIu64 " MB", bytes >> 20);
    notify_extend(seconds < CHECK_EXTENSION_MAX_S ? (unsigned)seconds : CHECK_EXTENSION_MAX_S);
    if (bytes >= CHECK_WORTH_A_WORD)
        log_info("looking through the journal, %" PRIu64 " MB", bytes >> 20);
}

int daemon_open_journal(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    if (!config->journal.enabled) {
        warn_of_idle_journal(config);
        return 0;
    }
    const struct architecture *a = &config->architecture;
    size_t inputs = a->input.kind == INPUT_REAL ? a->input.size : 1;
    const struct journal_options options = {
        .sync = config->journal.sync,
        .keep = config->journal.keep,
        .input_bytes = inputs * sizeof(float),
        .target_bytes = daemon->model.target_size * sizeof(float),
        .steps_max = EXAMPLE_STEPS_MAX,
        .name = config->name,
        .digest = config->digest,
    };
    ask_for_time(config);
    if (journal_open(&daemon->journal, config->state_directory, &options, error)) {
        if (*daemon->resumed)
            error_prefix(error, "the checkpoint %s with %" PRIu64 " examples can be used, but",
                         daemon->resumed, daemon->checkpoint_on_disk);
        return -1;
    }
    bool acknowledged;
    if (journal_was_torn(daemon->journal, &acknowledged))
        log_warning("the journal's last transaction was not finished, as when the daemon is killed "
                    "or the power fails while it is written, and is cut off%s",
                    acknowledged ? "" : ": such a one had not been acknowledged");
    uint64_t learned = learner_counters(daemon->learner).position;
    uint64_t written = journal_position(daemon->journal);
    daemon->checkpoint_position = learned;
    if (written >= learned)
        return 0;
    log_warning("the journal ends at entry %" PRIu64 ", before the checkpoint, which has %" PRIu64
                ": it goes on behind that",
                written, learned);
    return journal_begin_behind(daemon->journal, learned, error);
}

/* Keys that nothing is learned with are what the configuration says, as after any start. */
static int replay_set(struct daemon *daemon, const char *key, const char *value, bool configured,
                      struct error *error) {
    bool rate = !strcmp(key, RATE_KEY), clip = !strcmp(key, CLIP_KEY);
    if (!rate && !clip)
        return 0;
    if (daemon_set(daemon, key, value, error))
        return -1;
    struct learner_rates rates = learner_rates(daemon->learner);
    if (configured && rate)
        rates.configured_rate = rates.rate;
    if (configured && clip)
        rates.configured_clip = rates.clip;
    learner_write_rates(daemon->learner, &rates);
    return 0;
}

static int replay_command(struct daemon *daemon, const char *text, struct error *error) {
    json_t *request = json_loads(text, 0, NULL);
    const char *name = json_string_value(json_object_get(request, "command"));
    const char *key = json_string_value(json_object_get(request, "key"));
    const char *value = json_string_value(json_object_get(request, "value"));
    int result;
    if (name && !strcmp(name, "reset"))
        result = daemon_reset(daemon, error);
    else if (name && !strcmp(name, "set") && key && value)
        result = replay_set(daemon, key, value,
                            json_is_true(json_object_get(request, "configured")), error);
    else
        result = error_set(error, EX_IOERR,
                           "the journal has a command that this program does not "
                           "know: %s",
                           text);
    json_decref(request);
    return result ? -1 : 0;
}

/* Tell everybody how far it is; let signals and subscribers in. */
static void look_around(struct daemon *daemon, uint64_t now, uint64_t position) {
    uint64_t last = journal_position(daemon->journal);
    if (now < daemon->replay_told + PROGRESS_INTERVAL)
        return;
    daemon->replay_told = now;
    daemon_take_signals(daemon);
    daemon_subscriptions(daemon);
    notify_extend(REPLAY_EXTENSION_S);
    notify_status("learning again from the journal: entry %" PRIu64 " of %" PRIu64, position, last);
    log_info("learning again from the journal: entry %" PRIu64 " of %" PRIu64, position, last);
}

static int replay_entry(void *context, struct journal_entry *entry, struct error *error) {
    struct daemon *daemon = context;
    look_around(daemon, daemon->now, entry->position);
    if (daemon->stopping)
        return error_set(error, EX_TEMPFAIL, "stopped while learning again from the journal");
    if (entry->command && replay_command(daemon, entry->command, error))
        return -1;
    if (!entry->command) {
        entry->example.received = daemon->now; /* latencies are those of learning it again */
        daemon->taken++;
        if (learner_take(daemon->learner, &entry->example, error))
            return -1;
    }
    learner_set_position(daemon->learner, entry->position);
    return 0;
}

int daemon_replay(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    uint64_t from = learner_counters(daemon->learner).position;
    uint64_t to = journal_position(daemon->journal), begin = daemon_clock();
    /* What is learned again begins with the values and rates that learning began with: the
       configuration may have changed by then. */
    if (to == 0 && !*daemon->resumed)
        return daemon_first_checkpoint(daemon, error);
    if (from == to)
        return 0;
    daemon->replaying = true;
    daemon->now = daemon->replay_told = begin; /* read anew behind each plan */
    publish_mark_replaying(daemon->publish, true);
    log_info("learning again what the journal has behind the checkpoint: %" PRIu64 " entries",
             to - from);
    int result = journal_replay(daemon->journal, from, replay_entry, daemon, error);
    bool stopped = result && daemon->stopping;
    if (result && !stopped)
        return -1;
    if (learner_flush(daemon->learner, error)) {
        daemon->broken = true;
        return -1;
    }
    double seconds = (double)(daemon_clock() - begin) / (double)NS_PER_SECOND;
    uint64_t done = learner_counters(daemon->learner).position - from;
    daemon->changed = true;
    daemon->replaying = stopped;
    publish_mark_replaying(daemon->publish, stopped);
    const char *entries = done == 1 ? "entry" : "entries";
    log_info("learned %" PRIu64 " %s of the journal again in %.2f s%s", done, entries, seconds,
             stopped ? ", not all: asked to stop" : "");
    daemon_event(daemon, "replayed",
                 json_pack("{s:I, s:f}", "entries", (json_int_t)done, "seconds", seconds),
                 "learned %" PRIu64 " %s of the journal again in %.2f s", done, entries, seconds);
    return 0;
}

/* ---- taking examples ---- */

/* Examples that a producer numbered and that never came. */
static void count_missing(struct daemon *daemon, const struct example *example, uint64_t count) {
    daemon->missing +=
        count < INT64_MAX - daemon->missing ? count : 0; /* absurd jumps count nothing */
    daemon_note(&daemon->gaps, count, example->key, example->key_size);
}

/* 1: the example is new. 0: it was taken before, and its stream's newest one is at `position`. */
static int is_new(struct daemon *daemon, const struct example *example, uint64_t *position,
                  enum wire_duplicate *why, struct error *error) {
    uint32_t epoch;
    uint64_t sequence;
    int known = journal_last(daemon->journal, example->key, example->key_size, &epoch, &sequence,
                             position, error);
    if (known < 0)
        return -1;
    if (!known || example->epoch > epoch)
        return 1;
    bool before = example->epoch < epoch || example->sequence <= sequence;
    *why = example->epoch < epoch ? WIRE_OLD_EPOCH : WIRE_OLD_SEQUENCE;
    if (!before && example->sequence > sequence + 1)
        count_missing(daemon, example, example->sequence - sequence - 1);
    return !before;
}

static int answer(struct daemon *daemon, const struct example *example, enum wire_status status,
                  enum wire_duplicate why, uint64_t position, struct error *error) {
    struct acknowledge_entry entry = {
        .key = example->key,
        .key_size = example->key_size,
        .acknowledgement = {.status = (uint8_t)status,
                            .reason = (uint16_t)why,
                            .epoch = example->epoch,
                            .sequence = example->sequence,
                            .position = position},
        .steps = example->steps,
    };
    entry.peer = ingest_peer(daemon->ingest, &entry.peer_size);
    if (example->result && status == WIRE_ACCEPTED) {
        entry.example = daemon->taken + 1;
        learner_want_outputs(daemon->learner, true);
    }
    return acknowledge_add(daemon->acknowledge, &entry, error);
}

int daemon_take_example(struct daemon *daemon, const struct example *example, struct error *error) {
    uint64_t position = 0;
    enum wire_duplicate why;
    if (daemon->journal && example->numbered) {
        int new = is_new(daemon, example, &position, &why, error);
        if (new < 0)
            return -1;
        if (!new && daemon->acknowledge) {
            daemon->duplicates++;
            return answer(daemon, example, WIRE_DUPLICATE, why, position, error);
        }
    }
    if (daemon->journal) {
        position = journal_append_example(daemon->journal, example);
        if (position == 0)
            return error_set(error, EX_SOFTWARE, "the journal cannot hold an example of %zu steps",
                             example->steps);
    }
    if (daemon->acknowledge && answer(daemon, example, WIRE_ACCEPTED, 0, position, error))
        return -1;
    daemon->taken++;
    daemon->now_is_stale = true;
    if (learner_take(daemon->learner, example, error))
        return -1;
    if (daemon->journal)
        learner_set_position(daemon->learner, position);
    return 0;
}

bool daemon_has_room(const struct daemon *daemon) {
    return !daemon->journal || journal_has_room(daemon->journal);
}

void daemon_journal_command(struct daemon *daemon, json_t *command) {
    char *text = daemon->journal ? json_dumps(command, JSON_COMPACT) : NULL;
    if (text)
        learner_set_position(daemon->learner, journal_append_command(daemon->journal, text));
    free(text);
    json_decref(command);
}

/* ---- what has become durable ---- */

int daemon_journal_turn(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    if (journal_poll(daemon->journal, error)) {
        daemon->broken = true; /* a checkpoint would hold what is not acknowledged */
        return -1;
    }
    acknowledge_send(daemon->acknowledge, journal_durable(daemon->journal));
    return 0;
}

int daemon_journal_sync(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    if (journal_sync(daemon->journal, error)) {
        daemon->broken = true;
        return -1;
    }
    acknowledge_send(daemon->acknowledge, journal_durable(daemon->journal));
    return 0;
}

/* Entries behind the previous checkpoint stay, so that it can be gone on from when the newest is
   damaged. */
void daemon_journal_checkpointed(struct daemon *daemon) {
    if (!daemon->journal)
        return;
    journal_prune(daemon->journal, daemon->checkpoint_position);
    daemon->checkpoint_position = daemon->starting_position;
}

int daemon_journal_descriptor(const struct daemon *daemon) {
    return daemon->journal ? journal_descriptor(daemon->journal) : -1;
}

void daemon_watch_disk(struct daemon *daemon) {
    struct journal_figures f;
    if (!daemon->journal)
        return;
    journal_figures(daemon->journal, &f);
    if (f.free_bytes < DISK_LOW_BYTES && !daemon->disk_is_low) {
        log_warning("the filesystem of %s has only %" PRIu64 " MB free: the journal will fail",
                    daemon->config->state_directory, f.free_bytes >> 20);
        daemon_event(daemon, "disk", NULL, "only %" PRIu64 " MB are free for the journal",
                     f.free_bytes >> 20);
    }
    daemon->disk_is_low = f.free_bytes < DISK_LOW_BYTES;
}

/* As in the configuration. */
static struct field_choice keep_choice(uint64_t keep) {
    return keep == JOURNAL_KEEP_CHECKPOINT ? (struct field_choice){"checkpoint", 0}
           : keep == JOURNAL_KEEP_ALL      ? (struct field_choice){"all", 0}
                                           : (struct field_choice){NULL, keep};
}

bool daemon_report_journal(struct daemon *daemon, struct status_fields *status) {
    static const char *const sync[] = {
        [JOURNAL_FULL] = "full", [JOURNAL_NORMAL] = "normal", [JOURNAL_OFF] = "off"};
    struct journal_figures f;
    if (!daemon->journal)
        return false;
    journal_figures(daemon->journal, &f);
    status->journal_position = f.position;
    status->journal_durable = f.durable;
    status->journal_oldest = f.oldest;
    status->journal_entries = f.entries;
    status->journal_bytes = f.bytes;
    status->journal_free_bytes = f.free_bytes;
    status->journal_waiting = f.waiting;
    status->journal_replaying = daemon->replaying;
    status->journal_duplicates = daemon->duplicates;
    status->journal_missing = daemon->missing;
    status->journal_sync = sync[daemon->config->journal.sync];
    status->journal_keep = keep_choice(daemon->config->journal.keep);
    return true;
}
