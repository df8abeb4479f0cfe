/* States of streams that go to the broker, and that come from there. What goes is what has changed
   since the last commit, or all of a partition. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "consuming.h"
#include "damaged.h"
#include "fleet/carry.h"
#include "fleet_internal.h"
#include "journalling.h"
#include "learner/learner.h"
#include "moving.h"
#include "parts.h"
#include "run.h"

/* A state as the broker has it: where it stands among those of its partition, from the least
   recently used, and the blob. */
enum { ORDER_SIZE = sizeof(uint64_t) };

/* A server spends four times as long on laying a state over the one before as on taking one in:
   when more than a quarter of a partition's have changed, all of them cost it less. */
enum { MUCH = 4 };

/* ---- States that leave ---- */

struct export {
    const struct daemon *daemon;
    struct fleet_job *job;
    size_t *at; /* (partitions,) which of the job's commits; SIZE_MAX: none */
    bool whole; /* which of them are asked for: those, or the others */
    unsigned char *copy;
    size_t room;
};

/* The commit of the stream's partition; NULL: it is in none. */
static struct fleet_commit *commit_of(const struct export *export, const char *key,
                                      size_t key_size) {
    size_t at = export->at[fleet_partition_of(export->daemon, key, key_size)];
    return at == SIZE_MAX ? NULL : &export->job->commits[at];
}

static int wants(void *context, const char *key, size_t key_size) {
    const struct export *export = context;
    const struct fleet_commit *commit = commit_of(export, key, key_size);
    return commit && commit->whole == export->whole;
}

static int count_changed(void *context, const char *key, size_t key_size) {
    const struct export *export = context;
    struct fleet_commit *commit = commit_of(export, key, key_size);
    if (commit)
        commit->rows++;
    return 0;
}

static int count_one(void *context, const char *key, size_t key_size) {
    struct fleet_commit *commit = commit_of(context, key, key_size);
    if (commit)
        commit->streams++;
    return 0;
}

static int add_row(struct export *export, const struct fleet_row *row, struct error *error) {
    const struct fleet_commit *commit = commit_of(export, row->key, row->key_size);
    return fleet_states_add(&export->job->states[commit - export->job->commits], row, error);
}

static int export_one(void *context, const char *key, size_t key_size,
                      const struct carry_blob *blob, struct error *error) {
    struct export *export = context;
    const struct fleet_commit *commit = commit_of(export, key, key_size);
    const uint64_t order = blob->order + export->daemon->fleet->shares[commit->partition].order;
    if (export->room < ORDER_SIZE + blob->size) {
        unsigned char *larger = realloc(export->copy, ORDER_SIZE + blob->size);
        if (!larger)
            return error_no_memory(error);
        export->copy = larger;
        export->room = ORDER_SIZE + blob->size;
    }
    memcpy(export->copy, &order, ORDER_SIZE);
    memcpy(export->copy + ORDER_SIZE, blob->bytes, blob->size);
    const struct fleet_row row = {key, export->copy, key_size, ORDER_SIZE + blob->size};
    return add_row(export, &row, error);
}

static int export_gone(void *context, const char *key, size_t key_size, struct error *error) {
    const struct fleet_row row = {.key = key, .key_size = key_size};
    return add_row(context, &row, error);
}

/* From where on the partitions have changed of which not all is asked for; UINT64_MAX: there are
   none. */
static uint64_t since_of(const struct fleet *fleet, const struct fleet_job *job) {
    uint64_t since = UINT64_MAX;
    for (size_t n = 0; n < job->count; n++) {
        const struct share *share = &fleet->shares[job->commits[n].partition];
        if (!job->commits[n].whole && share->since < since)
            since = share->since;
    }
    return since;
}

/* Of which partitions all goes: those of which it is not known what has changed, and those of which
   much has. */
static int choose_whole(struct export *export, struct carry *carry, uint64_t since,
                        struct error *error) {
    const struct carry_visitor each = {.context = export, .wants = count_one};
    const struct carry_visitor changed = {.context = export, .wants = count_changed};
    struct fleet_job *job = export->job;
    if (carry_each(carry, &each, error))
        return -1;
    int status = since < UINT64_MAX ? carry_changed(carry, since, &changed, error) : 0;
    for (size_t n = 0; n < job->count; n++) {
        struct fleet_commit *commit = &job->commits[n];
        commit->whole |= status > 0 || commit->rows * MUCH > commit->streams;
    }
    return status < 0 ? -1 : 0;
}

static int export_rows(struct export *export, struct carry *carry, struct error *error) {
    const struct carry_visitor changed = {
        .context = export, .wants = wants, .visit = export_one, .gone = export_gone};
    const struct carry_visitor all = {.context = export, .wants = wants, .visit = export_one};
    uint64_t since = since_of(export->daemon->fleet, export->job);
    if (choose_whole(export, carry, since, error))
        return -1;
    since = since_of(export->daemon->fleet, export->job);
    export->whole = false;
    if (since < UINT64_MAX && carry_changed(carry, since, &changed, error))
        return -1;
    export->whole = true;
    return carry_each(carry, &all, error);
}

static bool has_gone(const struct fleet_states *states) {
    for (size_t n = 0; n < states->count; n++)
        if (!states->rows[n].state_size)
            return true;
    return false;
}

/* Where each stream has changed, that is all of them. */
static void finish_rows(struct fleet_job *job) {
    for (size_t n = 0; n < job->count; n++) {
        struct fleet_commit *commit = &job->commits[n];
        fleet_states_done(&job->states[n]);
        commit->rows = job->states[n].count;
        commit->whole |= commit->rows == commit->streams && !has_gone(&job->states[n]);
    }
}

static int export_states(struct daemon *daemon, struct fleet_job *job, size_t *at,
                         struct error *error) {
    struct export export = {.daemon = daemon, .job = job, .at = at};
    struct carry *carry;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = export_rows(&export, carry, error);
    job->position = carry_position(carry);
    carry_close(&carry);
    free(export.copy);
    finish_rows(job);
    return result;
}

static void fill_in(struct daemon *daemon, size_t partition, struct fleet_commit *commit) {
    struct fleet *fleet = daemon->fleet;
    struct share *share = &fleet->shares[partition];
    struct journal_place place = {0};
    journal_place(daemon->journal, share->number, &place);
    *commit = (struct fleet_commit){.partition = partition,
                                    .claim = share->claim,
                                    .offset = {place.epoch, place.sequence},
                                    .base = share->published,
                                    .learned = place.count,
                                    .serial = ++fleet->serial,
                                    .whole = share->whole};
}

static size_t count_of(const struct fleet *fleet, enum share_state state) {
    size_t count = 0;
    for (size_t p = 0; p < fleet->count; p++)
        count += fleet->shares[p].state == state;
    return count;
}

/* From where on what is exported may have changed; 0: all of it. */
static uint64_t oldest_since(const struct fleet *fleet, enum share_state state) {
    uint64_t oldest = UINT64_MAX;
    for (size_t p = 0; p < fleet->count; p++) {
        const struct share *share = &fleet->shares[p];
        uint64_t since = share->whole ? 0 : share->since;
        if (share->state == state && since < oldest)
            oldest = since;
    }
    return oldest;
}

struct fleet_job *fleet_export(struct daemon *daemon, enum share_state state, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t filled = 0, *at = malloc((fleet->count + 1) * sizeof *at);
    struct fleet_job *job = fleet_job_new(FLEET_JOB_COMMIT, count_of(fleet, state));
    if (!at || !job) {
        error_no_memory(error);
        goto fail;
    }
    if (damaged_check(daemon, oldest_since(fleet, state), error) ||
        journalling_sync(daemon, error)) {
        run_break(daemon);
        goto fail;
    }
    for (size_t p = 0; p < fleet->count; p++) {
        at[p] = fleet->shares[p].state == state ? filled : SIZE_MAX;
        if (at[p] != SIZE_MAX)
            fill_in(daemon, p, &job->commits[filled++]);
    }
    if (job->count && export_states(daemon, job, at, error))
        goto fail;
    free(at);
    return job;
fail:
    free(at);
    fleet_job_free(job);
    return NULL;
}

/* ---- States that the broker has ---- */

/* Nobody will ask for what has changed before the first of the partitions was committed. */
static int settle_changes(struct daemon *daemon, uint64_t newest, struct error *error) {
    const struct fleet *fleet = daemon->fleet;
    struct carry *carry;
    for (size_t p = 0; p < fleet->count; p++) {
        const struct share *share = &fleet->shares[p];
        if (share->state == SHARE_OWNED && !share->whole && share->since < newest)
            newest = share->since;
    }
    if (carry_open(&carry, daemon->config, daemon->learner, NULL, error))
        return -1;
    carry_settle(carry, newest);
    carry_close(&carry);
    return 0;
}

int fleet_published(struct daemon *daemon, const struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_commit *commit = &job->commits[n];
        struct share *share = &fleet->shares[commit->partition];
        share->whole = commit->refused || commit->incomplete;
        share->since = job->position;
        if (!share->whole)
            share->published = commit->offset;
    }
    return job->count ? settle_changes(daemon, job->position, error) : 0;
}

/* ---- States that come ---- */

static uint64_t order_of(const struct fleet_row *row) {
    uint64_t order = 0;
    if (row->state_size >= ORDER_SIZE)
        memcpy(&order, row->state, ORDER_SIZE);
    return order;
}

static int by_order(const void *a, const void *b) {
    uint64_t one = order_of(a), other = order_of(b);
    return (one > other) - (one < other);
}

/* Whether the state is that of the stream under whose name it was published: another may be of a
   partition that is another daemon's. 1: it is not, or it is none. */
static int is_its_own(const struct carry *carry, const struct fleet_row *row, struct error *error) {
    const char *key;
    size_t key_size;
    int result = carry_look(carry, (const unsigned char *)row->state + ORDER_SIZE,
                            row->state_size - ORDER_SIZE, &key, &key_size, error);
    if (result)
        return result;
    return key_size == row->key_size && memcmp(key, row->key, key_size) == 0
               ? 0
               : (error_set(error, EX_DATAERR, "the state is another stream's"), 1);
}

/* A state that is not understood is one of a stream that is new here. */
static int adopt(struct daemon *daemon, struct carry *carry, const struct fleet_row *row,
                 uint64_t *adopted, struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    int result = row->state_size < ORDER_SIZE
                     ? (error_set(error, EX_DATAERR, "the state is too short"), 1)
                     : is_its_own(carry, row, error);
    if (result == 0)
        result = carry_adopt(carry, (const unsigned char *)row->state + ORDER_SIZE,
                             row->state_size - ORDER_SIZE, error);
    moving_lost(daemon, carry);
    if (result > 0)
        log_warning("stream %s begins anew here: %s", text_quote(quoted, row->key, row->key_size),
                    error->text);
    *adopted += result == 0;
    return result < 0 ? -1 : 0;
}

int fleet_adopt(struct daemon *daemon, size_t partition, struct fleet_states *states,
                uint64_t *adopted, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct share *share = &fleet->shares[partition];
    struct carry *carry;
    int result = 0;
    share->whole = false;
    share->order = 0;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    if (states->count)
        qsort(states->rows, states->count, sizeof *states->rows, by_order);
    for (size_t n = 0; n < states->count && result == 0; n++)
        result = adopt(daemon, carry, &states->rows[n], adopted, error);
    if (states->count) /* what changes here comes after all of these */
        share->order = order_of(&states->rows[states->count - 1]) + 1;
    share->since = carry_position(carry);
    carry_close(&carry);
    return result;
}

/* ---- Streams that are another's ---- */

struct chosen {
    const struct daemon *daemon;
    const bool *partitions;
};

static int is_chosen(void *context, const char *key, size_t key_size) {
    const struct chosen *chosen = context;
    return chosen->partitions[fleet_partition_of(chosen->daemon, key, key_size)];
}

int fleet_forget(struct daemon *daemon, const bool *partitions, struct error *error) {
    struct chosen chosen = {daemon, partitions};
    const struct carry_visitor visitor = {.context = &chosen, .wants = is_chosen};
    struct carry *carry;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = carry_forget(carry, &visitor, error);
    carry_close(&carry);
    return result;
}
