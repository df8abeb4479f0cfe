#include "journalling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "announce.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/log.h"
#include "common/text.h"
#include "notify.h"
#include "parts.h"
#include "parts/words.h"
#include "run.h"
#include "source.h"
#include "store/parameters_file.h"

enum {
    CHECK_EXTENSION_S = 30, /* requested from the service manager for checking the file */
    CHECK_BYTES_PER_S = 10 << 20,
    CHECK_EXTENSION_MAX_S = 24 * 60 * 60,
    CHECK_WORTH_A_WORD = 256 << 20,
    LOST_TEXT_SIZE = 128,
    DISK_LOW_BYTES = 256 << 20, /* warn below this free space on the filesystem */
};

struct journalling {
    uint64_t duplicates, missing; /* examples sent again, and missing ones */
    uint64_t conflicts, jumps;    /* see enum reject_reason */
    /* producers' streams announced so far, and time of the next announcement */
    uint64_t expired, expiry_due;
    bool disk_is_low; /* a warning has been logged */
    uint64_t oldest;  /* oldest entry when a checkpoint was last written */
};

/* ---- Opening ---- */

static void warn_of_idle_journal(const struct config *config) {
    char path[CONFIG_PATH_SIZE + sizeof "/" JOURNAL_NAME];
    snprintf(path, sizeof path, "%s/%s", config->state_directory, JOURNAL_NAME);
    if (access(path, F_OK) == 0)
        log_warning("state.journal.enabled is false: entries of %s after the checkpoint are "
                    "learned only once it is true",
                    path);
}

/* Opening checks the file; on a slow disk the daemon answers nothing else until that is done. */
static void request_time(const struct config *config) {
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
    notify_status("checking the journal, %" PRIu64 " MB", bytes >> 20);
    notify_extend(seconds < CHECK_EXTENSION_MAX_S ? (unsigned)seconds : CHECK_EXTENSION_MAX_S);
    if (bytes >= CHECK_WORTH_A_WORD)
        log_info("checking the journal, %" PRIu64 " MB", bytes >> 20);
}

static int open_journal(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    const struct model *model = &daemon->model;
    const struct journal_options options = {
        .sync = config->journal.sync,
        .keep = config->journal.keep,
        .input_bytes = model->x_size * sizeof(float),
        .target_bytes = model->y_size * sizeof(float),
        .messages = input_is_message(&model->architecture.input),
        .target_messages = output_is_message(model_output(model, model->sent)),
        .words_bytes = words_lexicons(learner_host(daemon->learner)) ? WIRE_WORDS_MAX : 0,
        .steps_max = model_most_rows(model),
        .name = config->name,
        .digest = config->compatible,
        .before = *daemon->resumed.before ? daemon->resumed.before : NULL,
        .remember = config->examples_socket == EXAMPLES_ROUTER,
        .producers_keep = config->journal.producers.keep,
        .producers_days = config->journal.producers.days,
        .places = config_consumes(config),
        .checkpoint = learner_counters(daemon->learner).position,
        .accept_short = config->journal.accept_short,
    };
    request_time(config);
    if (journal_open(&daemon->journal, config->state_directory, &options, error) == 0)
        return 0;
    if (*daemon->resumed.path)
        error_prefix(
            error, "the checkpoint %s with %" PRIu64 " example%s can be used, but not the journal",
            daemon->resumed.path, daemon->resumed.examples, text_s(daemon->resumed.examples));
    return -1;
}

/* Logs a warning, and keeps it for the event `resumed`. */
static void __attribute__((format(printf, 2, 3)))
warn(struct daemon *daemon, const char *format, ...) {
    char *all = daemon->resumed.warning, text[ERROR_TEXT_SIZE];
    size_t used = strlen(all);
    TEXT_FORMAT(text, sizeof text, format);
    log_warning("%s", text);
    snprintf(all + used, sizeof daemon->resumed.warning - used, "%s%s", used ? "; " : "", text);
}

static void warn_torn(struct daemon *daemon, const struct journal_found *found) {
    bool known = found->marked && found->marked <= found->newest;
    warn(daemon,
         "discarded the unfinished last transaction of the journal, after a kill or a loss of "
         "power during a write%s",
         known ? "; " JOURNAL_MARK_NAME " shows that it was not acknowledged" : "");
}

/* A journal that was moved away is one way to continue without it. */
static void warn_new(struct daemon *daemon, uint64_t learned, uint64_t marked) {
    char lost[LOST_TEXT_SIZE] = "";
    if (marked > learned)
        snprintf(lost, sizeof lost, "acknowledged entries %" PRIu64 " to %" PRIu64 " are lost; ",
                 learned + 1, marked);
    if (learned || marked)
        warn(daemon,
             "%s/%s not found: started a new journal after entry %" PRIu64
             ", the last in the checkpoint; %sthe sequences of streams are lost, so examples that "
             "are sent again are learned again",
             daemon->config->state_directory, JOURNAL_NAME, learned, lost);
}

static void warn_short(struct daemon *daemon, const struct journal_found *found, uint64_t learned) {
    const char *why = daemon->config->journal.accept_short
                          ? "as accepted"
                          : "after a loss of power without state.journal.sync: full";
    if (found->newest < learned)
        warn(daemon,
             "the journal ends at entry %" PRIu64 ", before the checkpoint's entry %" PRIu64
             ": continuing after the checkpoint, %s; examples between them are learned again if "
             "they are sent again",
             found->newest, learned, why);
    else if (found->newest < found->marked)
        warn(daemon,
             "the journal ends at entry %" PRIu64 ", but entries up to %" PRIu64
             " were acknowledged: they are lost, %s",
             found->newest, found->marked, why);
}

/* Checks that journal, mark and checkpoint belong together, or that accept_short allows
   otherwise. */
static int continue_at_checkpoint(struct daemon *daemon, struct error *error) {
    uint64_t learned = learner_counters(daemon->learner).position;
    struct journal_found found = journal_found(daemon->journal);
    if (found.torn)
        warn_torn(daemon, &found);
    if (found.is_new)
        warn_new(daemon, learned, found.marked);
    else
        warn_short(daemon, &found, learned);
    if (found.newest < learned && journal_skip_to(daemon->journal, learned, error))
        return -1;
    return journal_mark(daemon->journal, error);
}

int journalling_open(struct daemon *daemon, struct error *error) {
    daemon->journalling = calloc(1, sizeof *daemon->journalling);
    if (!daemon->journalling)
        return error_no_memory(error);
    if (!daemon->config->journal.enabled) {
        warn_of_idle_journal(daemon->config);
        return 0;
    }
    return open_journal(daemon, error) ? -1 : continue_at_checkpoint(daemon, error);
}

void journalling_close(struct daemon *daemon) {
    journal_close(&daemon->journal);
    free(daemon->journalling);
    daemon->journalling = NULL;
}

/* ---- Appending ---- */

bool journalling_has_room(const struct daemon *daemon) {
    return !daemon->journal || journal_has_room(daemon->journal);
}

/* Counts the missing numbers of a producer after `newest`. */
static void count_missing(struct daemon *daemon, const struct example *example, uint64_t newest) {
    uint64_t count = example->sequence - newest - 1;
    count -= ingest_rejected_numbers(daemon->ingest, example, newest + 1, example->sequence - 1);
    if (count == 0)
        return;
    struct journalling *journalling = daemon->journalling;
    journalling->missing += count < INT64_MAX - journalling->missing ? count : 0;
    announce_count(daemon, ANNOUNCE_GAP, count, example->key, example->key_size, example->time);
}

/* Checks a number up to `newest`. Two senders with the same identity use each number twice: the
   second must not get an acknowledgement for other contents. */
static void check_old(struct daemon *daemon, const struct example *example,
                      struct verdict *verdict) {
    if (journal_seen(daemon->journal, example) != JOURNAL_SEEN_OTHER) {
        verdict->kind = VERDICT_DUPLICATE;
        daemon->journalling->duplicates++;
        return;
    }
    verdict->kind = VERDICT_REJECTED;
    verdict->reason = REJECT_CONFLICT;
    daemon->journalling->conflicts++;
    snprintf(
        verdict->text, sizeof verdict->text,
        "number %" PRIu64 " of epoch %" PRIu32
        " was already used for other contents; check whether two senders use the identity %" PRIx64,
        example->sequence, example->epoch, example->producer);
}

/* Without acknowledgements nothing is sent again, and numbers only count lost examples. */
static void check_jump(struct daemon *daemon, const struct example *example, uint64_t newest,
                       struct verdict *verdict) {
    daemon->journalling->jumps++;
    if (!daemon->acknowledge) {
        verdict->number_ignored = true;
        return;
    }
    verdict->kind = VERDICT_REJECTED;
    verdict->reason = REJECT_SEQUENCE_JUMP;
    snprintf(verdict->text, sizeof verdict->text,
             "number %" PRIu64 " is more than examples.max_jump, %" PRIu64 ", above %" PRIu64
             ", the newest of its stream and producer",
             example->sequence, daemon->config->max_jump, newest);
}

int journalling_check(struct daemon *daemon, const struct example *example, struct verdict *verdict,
                      struct error *error) {
    uint32_t epoch;
    uint64_t newest, most = daemon->config->max_jump;
    verdict->kind = VERDICT_NEW; /* the other fields belong to the other kinds */
    verdict->number_ignored = false;
    if (!daemon->journal || !example->numbered || example->partition)
        return 0;
    int known = journal_last(daemon->journal, example->key, example->key_size, example->producer,
                             &epoch, &newest, &verdict->position, error);
    if (known < 0)
        return -1;
    if (!known || example->epoch > epoch)
        return 0;
    verdict->why = example->epoch < epoch ? WIRE_OLD_EPOCH : WIRE_OLD_SEQUENCE;
    if (example->epoch < epoch || example->sequence <= newest) {
        if (daemon->acknowledge)
            check_old(daemon, example, verdict);
    } else if (example->sparse) {
        return 0;
    } else if (most && example->sequence - newest > most) {
        check_jump(daemon, example, newest, verdict);
    } else if (example->sequence > newest + 1) {
        count_missing(daemon, example, newest);
    }
    return 0;
}

int journalling_append(struct daemon *daemon, const struct example *example, uint64_t *position,
                       struct error *error) {
    *position = daemon->journal ? journal_append_example(daemon->journal, example) : 0;
    if (!daemon->journal || *position > 0)
        return 0;
    return error_set(error, EX_SOFTWARE, "the journal cannot store an example of %zu steps",
                     example->steps);
}

void journalling_append_command(struct daemon *daemon, enum journal_kind kind, json_t *command) {
    char *text = daemon->journal ? json_dumps(command, JSON_COMPACT) : NULL;
    if (text)
        learner_set_position(daemon->learner, journal_append_command(daemon->journal, kind, text));
    free(text);
    json_decref(command);
}

void journalling_append_place(struct daemon *daemon, enum journal_kind kind, json_t *command,
                              uint32_t partition, const struct journal_place *place) {
    char *text = json_dumps(command, JSON_COMPACT);
    if (text)
        learner_set_position(daemon->learner,
                             journal_append_place(daemon->journal, kind, text, partition, place));
    free(text);
    json_decref(command);
}

/* ---- Durable entries ---- */

/* After a failure of the journal a checkpoint would contain examples that are not acknowledged. */
static int settle(struct daemon *daemon, int failed, struct error *error) {
    return failed ? run_break(daemon) : daemon->source->settle(daemon, error);
}

int journalling_forget(struct daemon *daemon, json_t *command, const char *key, size_t key_size,
                       struct error *error) {
    char *text = json_dumps(command, JSON_COMPACT);
    uint64_t position = 0;
    json_decref(command);
    if (!text)
        return error_no_memory(error);
    if (daemon->journal)
        position = journal_forget(daemon->journal, text, key, key_size, error);
    free(text);
    if (!daemon->journal)
        return 0;
    if (position)
        learner_set_position(daemon->learner, position);
    return settle(daemon, !position, error);
}

/* Announces at most once a second; the next `status` announces the rest. */
static void announce_expired(struct daemon *daemon) {
    struct journalling *journalling = daemon->journalling;
    uint64_t expired = journal_expired(daemon->journal), now;
    if (expired == journalling->expired || (now = clock_ns()) < journalling->expiry_due)
        return;
    uint64_t count = expired - journalling->expired;
    journalling->expired = expired;
    journalling->expiry_due = now + NS_PER_SECOND;
    log_info("dropped the sequences of %" PRIu64 " idle streams of producers (state.journal."
             "producers)",
             count);
    announce_event(
        daemon, "producers_expired", json_pack("{s:I}", "count", (json_int_t)count),
        "dropped the sequences of %" PRIu64
        " idle streams of producers: examples that are sent again are no longer recognized",
        count);
}

int journalling_turn(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    announce_expired(daemon);
    return settle(daemon, journal_poll(daemon->journal, error), error);
}

int journalling_sync(struct daemon *daemon, struct error *error) {
    if (!daemon->journal)
        return 0;
    return settle(daemon, journal_sync(daemon->journal, error), error);
}

/* Keeps entries after the oldest checkpoint: a rollback, or a start with damaged newer checkpoints,
   resumes from it. */
void journalling_checkpoint_written(struct daemon *daemon) {
    struct journal_figures f;
    if (!daemon->journal)
        return;
    journal_prune(daemon->journal, checkpoint_oldest(daemon->checkpoint));
    journal_figures(daemon->journal, &f);
    if (f.oldest > 1)
        checkpoint_drop_first(daemon->checkpoint);
    if (f.oldest != daemon->journalling->oldest)
        parameters_file_drop(daemon->config->state_directory, f.oldest);
    daemon->journalling->oldest = f.oldest;
}

/* ---- Reports ---- */

void journalling_watch_disk(struct daemon *daemon) {
    struct journal_figures f;
    if (!daemon->journal)
        return;
    announce_expired(daemon);
    journal_figures(daemon->journal, &f);
    bool low = f.free_bytes < DISK_LOW_BYTES;
    if (low && !daemon->journalling->disk_is_low) {
        log_warning("the filesystem of %s has only %" PRIu64
                    " MB free; make room before the journal fails",
                    daemon->config->state_directory, f.free_bytes >> 20);
        announce_event(daemon, "disk", NULL, "the journal has only %" PRIu64 " MB of free space",
                       f.free_bytes >> 20);
    }
    daemon->journalling->disk_is_low = low;
}

/* Writes the value as in the configuration. */
static struct field_choice keep_choice(uint64_t keep) {
    return keep == JOURNAL_KEEP_CHECKPOINT ? (struct field_choice){"checkpoint", 0}
           : keep == JOURNAL_KEEP_ALL      ? (struct field_choice){"all", 0}
                                           : (struct field_choice){NULL, keep};
}

bool journalling_report(const struct daemon *daemon, struct status_fields *status) {
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
    status->journal_replaying = run_is_replaying(daemon);
    status->journal_duplicates = daemon->journalling->duplicates;
    status->journal_missing = daemon->journalling->missing;
    status->journal_conflicts = daemon->journalling->conflicts;
    status->journal_sequence_jumps = daemon->journalling->jumps;
    status->journal_producers = f.producers;
    status->journal_expired = f.expired;
    status->journal_sync = sync[daemon->config->journal.sync];
    status->journal_keep = keep_choice(daemon->config->journal.keep);
    return true;
}
