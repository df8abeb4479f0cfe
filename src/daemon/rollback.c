#include "rollback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "journalling.h"
#include "learner/learner_state.h"
#include "left_out.h"
#include "notify.h"
#include "parts.h"
#include "replay.h"
#include "run.h"
#include "settings.h"

#define ROLLBACK_FILE "rollback.json"

/* ---- The request ---- */

/* The goal of a rollback: an entry, a time, or the earliest possible state. */
struct goal {
    bool has_position, has_time;
    uint64_t position;
    double time;
    bool dry_run; /* do not change anything */
};

static int read_goal(const json_t *request, struct goal *goal, struct error *error) {
    const json_t *to = json_object_get(request, "to"), *time = json_object_get(request, "to_time");
    *goal = (struct goal){
        .has_position = to != NULL,
        .has_time = time != NULL,
        .position = (uint64_t)json_integer_value(to),
        .time = json_number_value(time),
        .dry_run = json_is_true(json_object_get(request, "dry_run")),
    };
    if ((to && (!json_is_integer(to) || json_integer_value(to) < 0)) ||
        (time && !json_is_number(time)) || (to && time))
        return error_set(
            error, EX_USAGE,
            "rollback: expected either a position in the journal ({\"to\": 4711}) or a Unix "
            "time ({\"to_time\": 1700000000.5})");
    return 0;
}

static int check_request(const struct daemon *daemon, const struct goal *goal,
                         const struct rollback *rollback, struct error *error) {
    uint64_t newest = journal_position(daemon->journal);
    if (!goal->has_position && !goal->has_time && !rollback_chooses(rollback))
        return error_set(
            error, EX_USAGE,
            "rollback: expected a position or time to go back to, examples to leave out, or both: "
            "{\"command\": \"rollback\", \"to\": 4711, \"without\": [\"sensor-7\"]}");
    if (goal->has_position && goal->position >= newest)
        return error_set(error, EX_USAGE,
                         "nothing to roll back after entry %" PRIu64
                         ": the journal ends with entry %" PRIu64,
                         goal->position, newest);
    for (size_t i = 0; i < rollback->span_count; i++)
        if (rollback->spans[i].first > newest)
            return error_set(error, EX_USAGE,
                             "entry %" PRIu64 " not found: the journal ends with entry %" PRIu64,
                             rollback->spans[i].first, newest);
    return 0;
}

/* ---- The checkpoint ---- */

static uint64_t earliest_span(const struct rollback *rollback) {
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < rollback->span_count; i++)
        if (rollback->spans[i].first < first)
            first = rollback->spans[i].first;
    return first;
}

/* Returns whether the checkpoint contains no entry that is to be left out. */
static bool is_before(const struct checkpoint_kept *kept, const struct goal *goal,
                      const struct rollback *rollback) {
    if (goal->has_position)
        return kept->position <= goal->position;
    if (goal->has_time)
        return kept->position == 0 || kept->time <= goal->time;
    return kept->position < earliest_span(rollback);
}

/* Finds the newest checkpoint before all entries to leave out. Entries of streams and partitions
   can be anywhere, so for these it is the oldest checkpoint. */
static int find_begin(const struct daemon *daemon, const struct goal *goal,
                      const struct rollback *rollback, uint64_t *begin, struct error *error) {
    struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1];
    struct journal_figures journal;
    bool anywhere = !goal->has_position && !goal->has_time &&
                    (json_array_size(rollback->streams) > 0 || rollback->partition_count > 0);
    size_t oldest = SIZE_MAX, found = SIZE_MAX;
    journal_figures(daemon->journal, &journal);
    size_t count = checkpoint_list(daemon->checkpoint, kept);
    for (size_t i = 0; i < count && kept[i].position + 1 >= journal.oldest; i++) {
        oldest = i;
        if (is_before(&kept[i], goal, rollback) && (anywhere || found == SIZE_MAX))
            found = i;
    }
    if (found != SIZE_MAX) {
        *begin = kept[found].position;
        return 0;
    }
    if (oldest == SIZE_MAX)
        return error_set(error, EX_UNAVAILABLE, "cannot roll back: no checkpoint found");
    return error_set(error, EX_UNAVAILABLE,
                     "cannot roll back before entry %" PRIu64
                     ", where the oldest checkpoint ends (state.checkpoint.keep and "
                     "state.journal.keep limit how far back a rollback goes)",
                     kept[oldest].position);
}

/* ---- The entries to leave out ---- */

enum { SIGNALS_EVERY = 1024 }; /* entries between two checks */

int rollback_check_signals(struct daemon *daemon, uint64_t *entries, struct error *error) {
    notify_alive();
    if (++*entries % SIGNALS_EVERY == 0)
        run_handle_signals(daemon);
    if (run_is_stopping(daemon))
        return error_set(error, EX_TEMPFAIL, "stopped before the rollback");
    return 0;
}

struct scan {
    struct daemon *daemon;
    uint64_t entries;
    const struct goal *goal;
    struct rollback *rollback;
    struct left_out *list;
    bool began; /* entries from here on are later than the goal */
};

static int scan_entry(void *context, struct journal_entry *entry, struct error *error) {
    struct scan *scan = context;
    struct rollback *rollback = scan->rollback;
    if (rollback_check_signals(scan->daemon, &scan->entries, error))
        return -1;
    if (entry->kind == JOURNAL_ROLLBACK)
        return left_out_note(scan->list, entry, error);
    if (!scan->began && scan->goal->has_time && entry->time <= scan->goal->time) {
        rollback->after = entry->position;
        return 0;
    }
    scan->began = true;
    if (!rollback->first && rollback_has(rollback, entry))
        rollback->first = entry->position;
    return 0;
}

/* Fills in the rollback, and collects the rollbacks after its checkpoint. */
static int scan(struct daemon *daemon, const struct goal *goal, struct rollback *rollback,
                struct left_out *list, struct error *error) {
    struct scan scan = {.daemon = daemon, .goal = goal, .rollback = rollback, .list = list};
    uint64_t begin = 0;
    if (find_begin(daemon, goal, rollback, &begin, error))
        return -1;
    rollback->after = goal->has_position ? goal->position : begin;
    rollback->position = journal_position(daemon->journal) + 1;
    if (journal_replay(daemon->journal, begin, scan_entry, &scan, error))
        return -1;
    if (rollback->first)
        return 0;
    return error_set(
        error, EX_USAGE, "nothing to leave out: after entry %" PRIu64 " the journal has %s",
        rollback->after, rollback_chooses(rollback) ? "no such stream or entry" : "no entry");
}

/* ---- The rollback ---- */

json_t *rollback_details(const struct rollback_report *r) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "position",
                     (json_int_t)r->position, "after", (json_int_t)r->after, "first",
                     (json_int_t)r->first, "restored", (json_int_t)r->restored, "replayed",
                     (json_int_t)r->replayed, "left_out", (json_int_t)r->examples,
                     "commands_left_out", (json_int_t)r->commands, "seconds", r->seconds);
}

static void announce_rollback(struct daemon *daemon, const struct rollback_report *r) {
    announce_logged(daemon, log_info, "rollback", rollback_details(r),
                    "rollback: left out %" PRIu64 " example%s and %" PRIu64
                    " command%s from entry %" PRIu64 " on; restored the state up to entry %" PRIu64
                    " and replayed %" PRIu64 " %s in %.2f s",
                    r->examples, text_s(r->examples), r->commands, text_s(r->commands), r->first,
                    r->restored, r->replayed, r->replayed == 1 ? "entry" : "entries", r->seconds);
    announce_status(daemon);
}

/* The new state is complete; this entry makes it permanent. */
static int journal_rollback(struct daemon *daemon, const struct rollback *rollback,
                            struct error *error) {
    learner_all_changed(daemon->learner);
    journalling_append_command(daemon, JOURNAL_ROLLBACK, rollback_command(rollback));
    if (journalling_sync(daemon, error))
        return -1;
    checkpoints_soon(daemon);
    return settings_configure(daemon, error);
}

/* `rollback` is the newest of the list. */
static int perform(struct daemon *daemon, struct left_out *list, bool dry_run,
                   struct rollback_report *report, struct error *error) {
    const struct rollback *rollback = list->rollbacks[list->count - 1];
    struct checkpoint_kept kept;
    struct replayed replayed = {0};
    double begun = clock_seconds();
    *report = (struct rollback_report){.after = rollback->after, .first = rollback->first};
    if (replay_choose(daemon, list, &kept, error))
        return 1;
    report->restored = kept.position;
    if (dry_run)
        return 0;
    log_info("rollback: leaving out entries of the journal from entry %" PRIu64 " on",
             rollback->first);
    if (replay_without(daemon, list, rollback, &kept, &replayed, error))
        return 1;
    report->restored = kept.position;
    report->position = rollback->position;
    report->replayed = replayed.entries;
    report->examples = replayed.examples;
    report->commands = replayed.commands;
    if (journal_rollback(daemon, rollback, error))
        return -1;
    report->seconds = clock_seconds() - begun;
    announce_rollback(daemon, report);
    return 0;
}

/* Acknowledges all examples that were taken, before anything changes. */
int rollback_prepare(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return error_set(error, EX_UNAVAILABLE, "a rollback requires state.journal.enabled: true"),
               1;
    if (checkpoints_settle(daemon, error) || learner_flush(daemon->learner, error) ||
        journalling_sync(daemon, error))
        return run_break(daemon);
    /* The journal's thread drops entries that no checkpoint needs; the entries after the chosen
       checkpoint must still exist when they are read. */
    journal_hold(daemon->journal);
    return 0;
}

void rollback_finish(struct daemon *daemon) {
    journal_let_go(daemon->journal);
}

int rollback_perform(struct daemon *daemon, const json_t *request, struct rollback_report *report,
                     struct error *error) {
    struct left_out list = {0};
    struct rollback rollback = {0};
    struct goal goal;
    int result = rollback_prepare(daemon, error);
    if (result)
        return result;
    result = 1;
    if (read_goal(request, &goal, error) || rollback_choose(&rollback, request, error) ||
        check_request(daemon, &goal, &rollback, error) ||
        scan(daemon, &goal, &rollback, &list, error) || left_out_add(&list, &rollback, error))
        rollback_release(&rollback);
    else
        result = perform(daemon, &list, goal.dry_run, report, error);
    left_out_free(&list);
    rollback_finish(daemon);
    return result;
}

int rollback_at_start(struct daemon *daemon, struct error *error) {
    char path[CHECKPOINT_PATH_SIZE];
    struct rollback_report report;
    snprintf(path, sizeof path, "%s/" ROLLBACK_FILE, daemon->config->state_directory);
    if (access(path, F_OK) || run_is_stopping(daemon))
        return 0;
    json_t *request = json_load_file(path, 0, NULL);
    int result = rollback_perform(daemon, request, &report, error);
    json_decref(request);
    /* Nothing has changed: the next start tries again. */
    if (run_is_stopping(daemon) && (result > 0 || (result && error->status == EX_TEMPFAIL)))
        return 0;
    if (result) {
        error_prefix(
            error,
            "cannot perform the rollback requested in %s; remove the file to start without it",
            path);
        return -1;
    }
    if (unlink(path))
        return error_set(error, EX_IOERR, "cannot remove %s: %s", path, strerror(errno));
    /* The checkpoint syncs the directory: after a loss of power the request must not return and
       apply to newer entries. */
    return checkpoints_last(daemon, error);
}
