#include <inttypes.h>
#include <string.h>

#include "common/error.h"
#include "common/json_text.h"
#include "common/log.h"
#include "daemon_state.h"
#include "report.h"

static json_t *fields(const struct checkpoint_report *report) {
    return json_pack("{s:o, s:I, s:I, s:o}", "path",
                     json_of_text(report->path, strlen(report->path)), "examples",
                     (json_int_t)report->examples, "bytes", (json_int_t)report->bytes, "seconds",
                     json_of_number(report->seconds));
}

/* Tell everybody about a checkpoint that is safe on disk. */
static void written(struct daemon *daemon, const struct checkpoint_report *report) {
    daemon->checkpoint_written = report->time;
    daemon->checkpoint_on_disk = report->examples;
    daemon_journal_checkpointed(daemon);
    json_t *details = fields(report);
    json_object_set_new(details, "steps", json_integer((json_int_t)report->steps));
    daemon_event(daemon, "checkpoint", details,
                 "checkpoint of %" PRIu64 " examples, %" PRIu64 " bytes in %.3f s",
                 report->examples, report->bytes, report->seconds);
    if (daemon->asked == ASKED_IN_FLIGHT) {
        log_info("checkpoint of %" PRIu64 " examples, as asked", report->examples);
        control_reply(daemon->control, fields(report), NULL);
        daemon->asked = ASKED_NOT;
    }
}

static int failed(struct daemon *daemon, const struct error *error) {
    daemon->broken = true;
    if (daemon->asked != ASKED_NOT)
        control_reply(daemon->control, NULL, error);
    daemon->asked = ASKED_NOT;
    return -1;
}

/* A checkpoint must not know examples that the journal may lose: they will be sent again. */
static int start(struct daemon *daemon, struct error *error) {
    if (learner_flush(daemon->learner, error) || daemon_journal_sync(daemon, error))
        return failed(daemon, error);
    daemon->starting_position = learner_counters(daemon->learner).position;
    if (checkpoint_start(daemon->checkpoint, &daemon->current, daemon->learner, error))
        return failed(daemon, error);
    daemon->changed = false;
    daemon->checkpoint_examples = learner_counters(daemon->learner).examples;
    daemon->checkpoint_time = daemon_clock();
    if (daemon->asked == ASKED_WANTED)
        daemon->asked = ASKED_IN_FLIGHT;
    return 0;
}

uint64_t daemon_checkpoint_due(const struct daemon *daemon) {
    double seconds = daemon->current.checkpoint.seconds;
    if (!daemon->changed || seconds <= 0 || checkpoint_busy(daemon->checkpoint))
        return UINT64_MAX;
    return daemon->checkpoint_time + (uint64_t)(seconds * (double)NS_PER_SECOND);
}

static bool due(const struct daemon *daemon) {
    uint64_t count = daemon->current.checkpoint.examples;
    uint64_t learned = daemon->metrics.examples - daemon->checkpoint_examples;
    return daemon->asked == ASKED_WANTED || (count && learned >= count) ||
           daemon_clock() >= daemon_checkpoint_due(daemon);
}

int daemon_checkpoints(struct daemon *daemon, struct error *error) {
    if (checkpoint_busy(daemon->checkpoint)) {
        struct checkpoint_report report;
        int result = checkpoint_poll(daemon->checkpoint, &report, error);
        if (result < 0)
            return failed(daemon, error);
        if (result == 0)
            return 0;
        written(daemon, &report);
    }
    return due(daemon) ? start(daemon, error) : 0;
}

int daemon_last_checkpoint(struct daemon *daemon, struct error *error) {
    struct checkpoint_report report;
    for (;;) {
        int result = checkpoint_finish(daemon->checkpoint, &report, error);
        if (result < 0)
            return failed(daemon, error);
        if (result > 0)
            written(daemon, &report);
        if (!daemon->changed && daemon->asked != ASKED_WANTED)
            return 0;
        if (start(daemon, error))
            return -1;
    }
}

int daemon_first_checkpoint(struct daemon *daemon, struct error *error) {
    if (daemon->checkpoint_written > 0)
        return 0;
    daemon->changed = true;
    return daemon_last_checkpoint(daemon, error);
}
