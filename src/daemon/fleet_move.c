/* Partitions that come, go, and turn out to be another's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/unaligned.h"
#include "consuming.h"
#include "fleet/carry.h"
#include "fleet_internal.h"
#include "journal/journal.h"
#include "journalling.h"
#include "learner/learner.h"
#include "left_out.h"
#include "parts.h"
#include "rollback.h"
#include "run.h"

/* ---- Coming ---- */

static json_t *partition_command(const struct daemon *daemon, const struct fleet_claim *claim) {
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "command", "partition", "name",
                     consume_name(daemon->consume, claim->partition), "claim",
                     (json_int_t)claim->claim, "epoch", (json_int_t)claim->offset.epoch, "sequence",
                     (json_int_t)claim->offset.sequence, "count", (json_int_t)claim->learned);
}

static int begin_one(struct daemon *daemon, const struct fleet_claim *claim,
                     struct fleet_states *states, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    uint64_t adopted = 0;
    /* The journal's row of it is what is committed, whatever that was. */
    const struct journal_place place = {
        .epoch = claim->offset.epoch, .sequence = claim->offset.sequence, .count = claim->learned};
    journalling_append_place(daemon, JOURNAL_PARTITION, partition_command(daemon, claim),
                             fleet->shares[claim->partition].number, &place);
    if (fleet_adopt(daemon, claim->partition, states, &adopted, error))
        return -1;
    fleet->shares[claim->partition].claim = claim->claim;
    fleet->held.claims[claim->partition] = claim->claim;
    fleet->held.begins[claim->partition] =
        (struct fleet_held_begin){true, claim->committed, claim->offset};
    fleet->adopted += adopted;
    fleet->taken++;
    log_info("partition %s: learned here from now on, %" PRIu64 " stream%s taken over",
             consume_title(daemon->consume, claim->partition), adopted, text_s(adopted));
    return 0;
}

static int read_from_now_on(struct daemon *daemon, const struct fleet_claim *claim,
                            struct error *error) {
    const struct consume_place place = {
        .epoch = claim->offset.epoch, .sequence = claim->offset.sequence, .count = claim->learned};
    daemon->fleet->shares[claim->partition].state = SHARE_OWNED;
    daemon->fleet->shares[claim->partition].published = claim->offset;
    return consuming_start(daemon, claim->partition, &place, error);
}

/* A claim that is not in the file has no example in the journal: with a kill in between all of this
   is done again. */
int fleet_begin(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t begun = 0, streams = 0;
    double since = clock_seconds();
    if (learner_flush(daemon->learner, error))
        return run_break(daemon);
    for (size_t n = 0; n < job->count; n++)
        if (job->claims[n].partition != SIZE_MAX) {
            if (begin_one(daemon, &job->claims[n], &job->states[n], error))
                return run_break(daemon);
            begun++;
            streams += job->states[n].count;
        }
    if (begun == 0)
        return 0;
    if (journalling_sync(daemon, error) || fleet_held_write(&fleet->held, error))
        return run_break(daemon);
    for (size_t n = 0; n < job->count; n++)
        if (job->claims[n].partition != SIZE_MAX &&
            read_from_now_on(daemon, &job->claims[n], error))
            return run_break(daemon);
    checkpoints_changed(daemon);
    announce_event(daemon, "partitions",
                   json_pack("{s:I, s:I, s:f}", "taken", (json_int_t)begun, "streams",
                             (json_int_t)streams, "seconds", clock_seconds() - since),
                   "%zu partition%s taken with %zu stream%s", begun, text_s(begun), streams,
                   text_s(streams));
    announce_status_soon(daemon);
    return 0;
}

/* ---- Going ---- */

static int settle_later(struct fleet *fleet, uint64_t claim, struct error *error) {
    uint64_t *larger = realloc(fleet->settle, (fleet->settle_count + 1) * sizeof *fleet->settle);
    if (!larger)
        return error_no_memory(error);
    fleet->settle = larger;
    fleet->settle[fleet->settle_count++] = claim;
    return 0;
}

/* Partitions whose end is known: their streams are forgotten, and then the claims. */
static int let_go(struct daemon *daemon, const bool *chosen, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    if (fleet_forget(daemon, chosen, error) || journalling_sync(daemon, error))
        return run_break(daemon);
    for (size_t p = 0; p < fleet->count; p++)
        if (chosen[p]) {
            if (settle_later(fleet, fleet->shares[p].claim, error))
                return run_break(daemon);
            fleet->held.claims[p] = 0;
            fleet->shares[p].state = SHARE_AWAY;
        }
    checkpoints_changed(daemon);
    announce_status_soon(daemon);
    return fleet_held_write(&fleet->held, error) ? run_break(daemon) : 0;
}

/* What is incomplete is released once more, with all of its states. */
int fleet_released(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t streams = 0, released = 0;
    bool again = false;
    bool *chosen = calloc(fleet->count + 1, sizeof *chosen);
    if (!chosen)
        return error_no_memory(error);
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_commit *commit = &job->commits[n];
        bool good = !commit->refused && !commit->incomplete;
        fleet->shares[commit->partition].state = commit->refused ? SHARE_LOST : SHARE_LEAVES;
        chosen[commit->partition] = good;
        if (good)
            fleet->held.ends[commit->partition] =
                (struct fleet_held_end){commit->claim, commit->offset};
        released += good;
        streams += good ? commit->streams : 0;
        again |= commit->incomplete;
    }
    int result = released ? let_go(daemon, chosen, error) : 0;
    free(chosen);
    fleet->released += released;
    if (result == 0 && released) {
        log_info("handed over %zu partition%s with %zu stream%s", released, text_s(released),
                 streams, text_s(streams));
        announce_event(daemon, "partitions",
                       json_pack("{s:I, s:I}", "released", (json_int_t)released, "streams",
                                 (json_int_t)streams),
                       "%zu partition%s handed over with %zu stream%s", released, text_s(released),
                       streams, text_s(streams));
    }
    return result == 0 && again ? fleet_release(daemon, error) : result;
}

/* ---- Lost ---- */

static bool is_later(struct fleet_offset one, struct fleet_offset other) {
    return one.epoch != other.epoch ? one.epoch > other.epoch : one.sequence > other.sequence;
}

/* Where what counts ends; false: nothing counts. A broker that has lost a claim has lost all of its
   commits: nothing counts since it began, nor beyond what others began with afterwards. */
static bool find_end(const struct daemon *daemon, const struct fleet_ended *ended,
                     struct fleet_offset *end) {
    const struct fleet *fleet = daemon->fleet;
    const struct fleet_held_begin *begin = &fleet->held.begins[ended->partition];
    *end = ended->offset;
    if (!ended->is_over && !ended->is_lost)
        log_warning("partition %s belongs to an earlier name of this daemon: examples since the "
                    "last commit are left out",
                    consume_title(daemon->consume, ended->partition));
    if (!ended->is_lost)
        return ended->is_known;
    log_warning("claim %" PRIu64 " of partition %s not found at %s: it has lost what it "
                "had answered, as without %s; examples since the claim began are left out",
                ended->claim, consume_title(daemon->consume, ended->partition), fleet->about->where,
                fleet->about->keeps);
    if (begin->is_kept && begin->committed && is_later(*end, begin->offset))
        *end = begin->offset;
    return ended->is_known && (!begin->is_kept || begin->committed);
}

static json_t *beyond_end(const struct daemon *daemon, size_t partition, bool some,
                          struct fleet_offset end) {
    if (!some)
        end = (struct fleet_offset){.sequence = ROLLBACK_ALL};
    return json_pack("[I, I, I, s]", (json_int_t)consume_producer(daemon->consume, partition),
                     (json_int_t)end.epoch, (json_int_t)end.sequence,
                     consume_name(daemon->consume, partition));
}

/* Add what is to be left out of a lost partition; -1: no memory. */
static int add_beyond(const struct daemon *daemon, const struct fleet_ended *ended, json_t *list) {
    const size_t partition = ended->partition;
    struct journal_place place;
    struct fleet_offset end;
    bool some = find_end(daemon, ended, &end);
    daemon->fleet->held.ends[partition] =
        some ? (struct fleet_held_end){ended->claim, end} : (struct fleet_held_end){0};
    if (!journal_place(daemon->journal, daemon->fleet->shares[partition].number, &place) ||
        !(some ? is_later((struct fleet_offset){place.epoch, place.sequence}, end)
               : place.count || place.sequence || place.epoch))
        return 0;
    return json_array_append_new(list, beyond_end(daemon, partition, some, end));
}

/* As rollback_perform. */
static int roll_back(struct daemon *daemon, json_t *list, struct error *error) {
    struct rollback_report report = {0};
    json_t *request = json_pack("{s:O}", "beyond", list);
    if (!request)
        return error_no_memory(error);
    int result = rollback_perform(daemon, request, &report, error);
    json_decref(request);
    daemon->fleet->left_out += result == 0 ? report.examples : 0;
    return result && error->status == EX_USAGE ? 0 : result; /* dead letters alone */
}

static int leave_out(struct daemon *daemon, json_t *list, struct error *error) {
    int result = roll_back(daemon, list, error);
    if (result == 0)
        return 0;
    if (run_is_stopping(daemon)) /* the next start does it */
        return 1;
    error_prefix(error,
                 "partitions are another daemon's by now, and what was learned of them since "
                 "cannot be taken back");
    return run_break(daemon);
}

/* The claims that are over, in `chosen`; those that are not are owned as before. */
static int sort_out(struct daemon *daemon, const struct fleet_job *job, bool *chosen, json_t *list,
                    struct error *error) {
    struct fleet *fleet = daemon->fleet;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        const struct share *share = &fleet->shares[ended->partition];
        if (share->state != SHARE_LOST || share->claim != ended->claim)
            continue;
        chosen[ended->partition] = true;
        if (add_beyond(daemon, ended, list))
            return error_no_memory(error);
    }
    return 0;
}

int fleet_come_back(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    bool *chosen = calloc(fleet->count + 1, sizeof *chosen);
    if (!chosen)
        return error_no_memory(error);
    if (learner_flush(daemon->learner, error) || journalling_sync(daemon, error)) {
        free(chosen);
        return run_break(daemon);
    }
    json_t *list = json_array();
    size_t over = 0;
    int result = sort_out(daemon, job, chosen, list, error);
    for (size_t n = 0; n < job->count; n++)
        over += job->ended[n].is_over;
    if (over && json_array_size(list))
        log_warning(
            "%zu partition%s another daemon's: this one was away for longer than fleet.lease; "
            "what it learned of %s since the last commit is left out",
            over, over == 1 ? " is" : "s are", over == 1 ? "it" : "them");
    else if (over) /* it may have handed them over, and ended before it noted that */
        log_info("%zu partition%s not this daemon's any more: all of %s is committed", over,
                 over == 1 ? " is" : "s are", over == 1 ? "it" : "them");
    if (result == 0 && json_array_size(list))
        result = leave_out(daemon, list, error);
    if (result == 0)
        result = let_go(daemon, chosen, error);
    if (result > 0)
        result = 0;
    fleet->lost += job->count;
    json_decref(list);
    free(chosen);
    return result;
}

/* ---- Handed over, and lost ---- */

/* Whether something of a partition that had ended is to be left out. */
static bool is_beyond(const struct fleet *fleet, const struct fleet_ended *ended) {
    return !ended->is_known || is_later(fleet->held.ends[ended->partition].offset, ended->offset);
}

/* Once all of it is left out: until then a start has to find it again. */
static int keep_ends(struct fleet *fleet, const struct fleet_job *job, struct error *error) {
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        if (is_beyond(fleet, ended))
            fleet->held.ends[ended->partition] =
                ended->is_known ? (struct fleet_held_end){ended->claim, ended->offset}
                                : (struct fleet_held_end){0};
    }
    return fleet_held_write(&fleet->held, error);
}

int fleet_compare_ends(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    json_t *list = json_array();
    int result = 0;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        if (is_beyond(fleet, ended) &&
            json_array_append_new(
                list, beyond_end(daemon, ended->partition, ended->is_known, ended->offset)))
            result = error_no_memory(error);
        if (ended->is_over && settle_later(fleet, ended->claim, error))
            result = -1;
    }
    const size_t count = json_array_size(list);
    if (result == 0 && count) {
        log_warning("%s has lost commits of %zu partition%s that this daemon had handed over, as "
                    "without %s: examples beyond what it still has are left out",
                    fleet->about->where, count, text_s(count), fleet->about->keeps);
        result = learner_flush(daemon->learner, error) || journalling_sync(daemon, error)
                     ? -1
                     : roll_back(daemon, list, error);
    }
    json_decref(list);
    if (result > 0 && run_is_stopping(daemon)) /* the next start does it */
        return 0;
    if (result > 0)
        log_warning("these examples are learned a second time by others: %s", error->text);
    if (result < 0 || (count && keep_ends(fleet, job, error)))
        return run_break(daemon);
    return 0;
}
