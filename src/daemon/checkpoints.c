#include "checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "announce.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "journalling.h"
#include "learner/changes.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "parts.h"
#include "run.h"

#define POSTPONED_BY NS_PER_SECOND

enum { RESCUE_EXTENSION_S = 600 }; /* requested from the service manager */

/* tries of the last checkpoint to get a descriptor */
enum { LAST_PAUSE_NS = 50000000, LAST_TRIES = 200 };

#define LOOK_INTERVAL NS_PER_SECOND

/* The state of a client's request for a checkpoint. */
enum request { REQUEST_NONE, REQUEST_WAITING, REQUEST_IN_FLIGHT };

struct checkpoints {
    bool changed;      /* something was learned or set since the newest start */
    bool soon;         /* due even if nothing has changed */
    uint64_t examples; /* learned when the newest one was started */
    uint64_t time;     /* the newest start, CLOCK_MONOTONIC in ns */
    double written;    /* Unix time of the newest one on disk, 0 = none */
    uint64_t on_disk;  /* examples in the newest one on disk */
    enum request request;
    uint64_t looked;    /* time of the last check for the files */
    uint64_t postponed; /* do not start before; 0 = not postponed */
    const struct checkpoints_guard *guard;
};

int checkpoints_open(struct daemon *daemon, struct error *error) {
    struct checkpoints *checkpoints = daemon->checkpoints = calloc(1, sizeof *checkpoints);
    if (!checkpoints)
        return error_no_memory(error);
    checkpoints->examples = daemon_examples(daemon);
    checkpoints->time = clock_ns();
    checkpoints->written = daemon->resumed.time;
    checkpoints->on_disk = daemon->resumed.examples;
    return 0;
}

void checkpoints_close(struct daemon *daemon) {
    free(daemon->checkpoints);
    daemon->checkpoints = NULL;
}

void checkpoints_guard(struct daemon *daemon, const struct checkpoints_guard *guard) {
    daemon->checkpoints->guard = guard;
}

static bool may_begin(const struct daemon *daemon) {
    const struct checkpoints_guard *guard = daemon->checkpoints->guard;
    return !guard || guard->may_begin(daemon);
}

void checkpoints_changed(struct daemon *daemon) {
    daemon->checkpoints->changed = true;
}

void checkpoints_begin_again(struct daemon *daemon) {
    daemon->checkpoints->examples = daemon_examples(daemon);
    daemon->checkpoints->changed = true;
}

void checkpoints_soon(struct daemon *daemon) {
    daemon->checkpoints->changed = daemon->checkpoints->soon = true;
}

void checkpoints_discard(struct daemon *daemon) {
    daemon->checkpoints->changed = false;
}

void checkpoints_request(struct daemon *daemon) {
    daemon->checkpoints->request = REQUEST_WAITING;
}

/* ---- Streams whose state cannot be read back ---- */

void checkpoints_forgot(struct daemon *daemon, const char *key, size_t key_size) {
    char quoted[TEXT_QUOTE_SIZE];
    json_t *stream = json_stringn(key, key_size);
    text_quote(quoted, key, key_size);
    /* A list of streams keeps the numbers of their examples. */
    journalling_append_command(daemon, JOURNAL_FORGET,
                               json_pack("{s:s, s:[O]}", "command", "forget", "streams", stream));
    announce_logged(daemon, log_warning, "forget", json_pack("{s:o}", "stream", stream),
                    "forgot stream %s: invalid state; it starts from scratch", quoted);
}

static int check_stream(struct daemon *daemon, uint32_t slot, float *record, struct error *error) {
    char copy[WIRE_KEY_MAX];
    size_t key_size;
    int status = learner_check_stream(daemon->learner, slot, record, error);
    if (status <= 0)
        return status;
    const char *key = streams_key(learner_streams_table(daemon->learner), slot, &key_size);
    memcpy(copy, key, key_size);
    if (learner_forget(daemon->learner, copy, key_size, error) < 0)
        return -1;
    checkpoints_forgot(daemon, copy, key_size);
    return 0;
}

static float *open_record(const struct learner *learner) {
    size_t size = 1;
    for (size_t m = 0; m < learner_members(learner); m++)
        if (learner_record_size(learner, m) > size)
            size = learner_record_size(learner, m);
    return malloc(size * sizeof(float));
}

int checkpoints_check(struct daemon *daemon, uint64_t since, struct error *error) {
    const struct streams *streams = learner_streams_table(daemon->learner);
    const struct changes *changes = learner_changes(daemon->learner);
    bool known = since > 0 && changes && since >= changes_known(changes);
    int status = learner_flush(daemon->learner, error);
    float *record = open_record(daemon->learner);
    if (status == 0 && !record)
        status = error_no_memory(error);
    for (uint32_t slot = streams_oldest(streams), newer; slot != STREAMS_NONE && status == 0;
         slot = newer) {
        newer = streams_newer(streams, slot);
        if (!known || changes_of(changes, slot) > since)
            status = check_stream(daemon, slot, record, error);
    }
    free(record);
    return status;
}

/* ---- Writing ---- */

static json_t *details_of(const struct checkpoint_report *report) {
    return json_pack("{s:o, s:I, s:I, s:o}", "path",
                     json_of_text(report->path, strlen(report->path)), "examples",
                     (json_int_t)report->examples, "bytes", (json_int_t)report->bytes, "seconds",
                     json_of_number(report->seconds));
}

/* A checkpoint is safe on disk. */
static void written(struct daemon *daemon, const struct checkpoint_report *report) {
    struct checkpoints *checkpoints = daemon->checkpoints;
    checkpoints->written = report->time;
    checkpoints->on_disk = report->examples;
    journalling_checkpoint_written(daemon);
    json_t *details = details_of(report);
    json_object_set_new(details, "steps", json_integer((json_int_t)report->steps));
    announce_event(daemon, "checkpoint", details,
                   "checkpoint of %" PRIu64 " example%s, %" PRIu64 " bytes in %.3f s",
                   report->examples, text_s(report->examples), report->bytes, report->seconds);
    if (checkpoints->request == REQUEST_IN_FLIGHT) {
        log_info("wrote the requested checkpoint of %" PRIu64 " example%s", report->examples,
                 text_s(report->examples));
        control_reply(daemon->control, details_of(report), NULL);
        checkpoints->request = REQUEST_NONE;
    }
}

static int failed(struct daemon *daemon, const struct error *error) {
    if (daemon->checkpoints->request != REQUEST_NONE)
        control_reply(daemon->control, NULL, error);
    daemon->checkpoints->request = REQUEST_NONE;
    return run_break(daemon);
}

/* Unauthenticated connections use all descriptors; they will end. */
static int postpone(struct daemon *daemon, const struct error *error) {
    struct checkpoints *checkpoints = daemon->checkpoints;
    if (checkpoints->postponed == 0)
        announce_logged(daemon, log_warning, "postponed", NULL, "checkpoint postponed: %s",
                        error->text);
    if (checkpoints->request == REQUEST_WAITING) {
        control_reply(daemon->control, NULL, error);
        checkpoints->request = REQUEST_NONE;
    }
    checkpoints->postponed = clock_ns() + POSTPONED_BY;
    return 0;
}

/* A checkpoint must not contain examples that the journal can lose: they would be learned twice. */
static int start(struct daemon *daemon, struct error *error) {
    struct checkpoints *checkpoints = daemon->checkpoints;
    if (checkpoints_check(daemon, 0, error) || journalling_sync(daemon, error) ||
        (checkpoints->guard && checkpoints->guard->begins(daemon, error)))
        return failed(daemon, error);
    if (checkpoint_start(daemon->checkpoint, daemon->config, daemon->learner, error))
        return error->status == EX_TEMPFAIL ? postpone(daemon, error) : failed(daemon, error);
    checkpoints->postponed = 0;
    checkpoints->changed = checkpoints->soon = false;
    checkpoints->examples = daemon_examples(daemon);
    checkpoints->time = clock_ns();
    if (checkpoints->request == REQUEST_WAITING)
        checkpoints->request = REQUEST_IN_FLIGHT;
    return 0;
}

int checkpoints_look(struct daemon *daemon, struct error *error) {
    uint64_t now = clock_ns();
    if (now < daemon->checkpoints->looked + LOOK_INTERVAL)
        return 0;
    daemon->checkpoints->looked = now;
    if (checkpoint_look(daemon->checkpoint, error) ||
        (daemon->journal && journal_look(daemon->journal, error)))
        return run_break(daemon);
    return 0;
}

uint64_t checkpoints_due(const struct daemon *daemon) {
    double seconds = daemon->config->checkpoint.seconds;
    if (!daemon->checkpoints->changed || seconds <= 0 || checkpoint_busy(daemon->checkpoint) ||
        !may_begin(daemon))
        return UINT64_MAX;
    uint64_t due = daemon->checkpoints->time + (uint64_t)(seconds * (double)NS_PER_SECOND);
    return due > daemon->checkpoints->postponed ? due : daemon->checkpoints->postponed;
}

static bool is_due(const struct daemon *daemon) {
    uint64_t count = daemon->config->checkpoint.examples;
    uint64_t learned = daemon_examples(daemon) - daemon->checkpoints->examples;
    if (daemon->checkpoints->request == REQUEST_WAITING)
        return true;
    return ((daemon->checkpoints->soon || (count && learned >= count)) &&
            clock_ns() >= daemon->checkpoints->postponed) ||
           clock_ns() >= checkpoints_due(daemon);
}

int checkpoints_turn(struct daemon *daemon, struct error *error) {
    if (checkpoint_busy(daemon->checkpoint)) {
        struct checkpoint_report report;
        int result = checkpoint_poll(daemon->checkpoint, &report, error);
        if (result < 0)
            return failed(daemon, error);
        if (result == 0)
            return 0;
        written(daemon, &report);
    }
    return is_due(daemon) && may_begin(daemon) ? start(daemon, error) : 0;
}

int checkpoints_settle(struct daemon *daemon, struct error *error) {
    struct checkpoint_report report;
    int result = checkpoint_finish(daemon->checkpoint, &report, error);
    if (result < 0)
        return failed(daemon, error);
    if (result > 0)
        written(daemon, &report);
    return 0;
}

/* Returns false after the last try. */
static bool wait_for_descriptor(int *tries) {
    static const struct timespec pause = {.tv_nsec = LAST_PAUSE_NS};
    if (++*tries > LAST_TRIES)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

int checkpoints_last(struct daemon *daemon, struct error *error) {
    for (int tries = 0;;) {
        if (checkpoints_settle(daemon, error))
            return -1;
        if (!daemon->checkpoints->changed && daemon->checkpoints->request != REQUEST_WAITING)
            return 0;
        if (!may_begin(daemon))
            return 0;
        if (start(daemon, error))
            return -1;
        if (daemon->checkpoints->postponed && !wait_for_descriptor(&tries)) {
            error->status = EX_IOERR;
            return failed(daemon, error);
        }
    }
}

/* The disk can have room now, even if writing the journal again failed. */
static int write_without_journal(struct daemon *daemon, struct error *error) {
    struct checkpoint_report report;
    if (checkpoint_finish(daemon->checkpoint, NULL, error) < 0 ||
        checkpoint_start(daemon->checkpoint, daemon->config, daemon->learner, error))
        return -1;
    return checkpoint_finish(daemon->checkpoint, &report, error) < 0 ? -1 : 0;
}

static const char *rescue(struct daemon *daemon) {
    struct error error;
    if (!journal_is_removed(daemon->journal))
        return "examples acknowledged since the last checkpoint may be lost; check the state "
               "directory, and let no other program change it, before the next start";
    notify_extend(RESCUE_EXTENSION_S);
    if (journal_save(daemon->journal, &error) == 0)
        return "wrote the journal again, nothing is lost; start the daemon again";
    log_warning("%s", error.text);
    if (write_without_journal(daemon, &error) == 0)
        return "wrote a last checkpoint with everything learned, but cannot write the journal "
               "again: move its -wal file away and start the daemon again; examples that were not "
               "acknowledged may be learned twice when they are sent again";
    log_warning("%s", error.text);
    return "examples acknowledged since the last checkpoint are lost";
}

void checkpoints_rescue(struct daemon *daemon, struct error *failure) {
    if (!daemon->journal || !journal_look(daemon->journal, NULL) ||
        checkpoint_look(daemon->checkpoint, failure))
        return;
    const char *what = rescue(daemon);
    size_t used = strlen(failure->text);
    snprintf(failure->text + used, sizeof failure->text - used, "; %s", what);
}

int checkpoints_first(struct daemon *daemon, struct error *error) {
    if (daemon->checkpoints->written > 0)
        return 0;
    daemon->checkpoints->changed = true;
    return checkpoints_last(daemon, error);
}

bool checkpoints_report(const struct daemon *daemon, struct status_fields *status) {
    status->checkpoint_examples = daemon->checkpoints->on_disk;
    status->checkpoint_time = daemon->checkpoints->written;
    return daemon->checkpoints->written > 0;
}

bool checkpoints_have_all(const struct daemon *daemon) {
    const struct checkpoints *checkpoints = daemon->checkpoints;
    return checkpoints->written > 0 && checkpoints->on_disk == daemon_examples(daemon);
}
