/* The partitions of a fleet, and the transfer of their streams' states to and from the broker. A
   commit sends the changes since the last one, or the whole partition. */
#include "shares.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "common/text.h"
#include "daemon/announce.h"
#include "daemon/checkpoints.h"
#include "daemon/journalling.h"
#include "daemon/left_out.h"
#include "daemon/moving.h"
#include "daemon/parts.h"
#include "daemon/rollback.h"
#include "daemon/run.h"
#include "store/carry.h"

/* ---- Partitions ---- */

size_t shares_partition_of(const struct daemon *daemon, const char *key, size_t key_size) {
    return consume_partition_of(daemon->cluster->consume, daemon->cluster->shares->count, key,
                                key_size);
}

int shares_read(struct daemon *daemon, size_t partition, const struct consume_place *after,
                struct error *error) {
    struct journal_place found;
    const char *name = consume_name(daemon->cluster->consume, partition);
    uint32_t number = journal_partition(daemon->journal, name);
    if (!number)
        return error_set(error, EX_UNAVAILABLE,
                         "the journal in %s has the places of %d partitions, and cannot add %s: "
                         "give this daemon its own state.directory",
                         daemon->config->state_directory, JOURNAL_PARTITIONS, name);
    bool known = after || journal_place(daemon->journal, number, &found);
    struct consume_place place = {0};
    if (after)
        place = *after;
    else if (known)
        place = (struct consume_place){found.epoch, found.sequence, found.count};
    daemon->cluster->numbers[partition] = number;
    consume_start(daemon->cluster->consume, partition, known ? &place : NULL);
    return 0;
}

/* ---- File of claims ---- */

/* The file has a partition's claim before its first example is learned, and until the journal has
   all effects of the claim's end. */

enum { MODE = 0600, PARTITION_SIZE = 24, TEMPORARY_SIZE = sizeof((struct shares *)0)->path + 8 };

static int is_damaged(const struct shares *shares, struct error *error) {
    return error_set(error, EX_IOERR,
                     "%s: damaged: restore it with the rest of the state directory, or use another "
                     "state.directory and another name",
                     shares->path);
}

static bool read_offset(json_int_t epoch, json_int_t sequence, struct fleet_offset *offset) {
    *offset = (struct fleet_offset){(uint32_t)epoch, (uint64_t)sequence};
    return epoch >= 0 && epoch <= UINT32_MAX && sequence >= 0;
}

static bool read_claims(struct shares *shares, const json_t *claims) {
    const char *partition;
    json_t *claim;
    json_object_foreach((json_t *)claims, partition, claim) {
        char *end;
        unsigned long long n = strtoull(partition, &end, 10);
        if (*end || n >= shares->count || !json_is_integer(claim) || json_integer_value(claim) <= 0)
            return false;
        shares->list[n].claim = (uint64_t)json_integer_value(claim);
    }
    return true;
}

/* Parses a partition's begin, [] without a commit or [epoch, sequence], and end, [claim, epoch,
   sequence]. Older versions have neither. */
static bool read_share(struct share *share, const json_t *begin, const json_t *end) {
    json_int_t claim = 0, epoch = 0, sequence = 0;
    if (share->claim && begin) {
        share->begin.is_kept = true;
        share->begin.committed = json_array_size(begin) > 0;
        if (!json_is_array(begin) ||
            (share->begin.committed &&
             json_unpack((json_t *)begin, "[I, I!]", &epoch, &sequence)) ||
            !read_offset(epoch, sequence, &share->begin.offset))
            return false;
    }
    if (!end)
        return true;
    if (json_unpack((json_t *)end, "[I, I, I!]", &claim, &epoch, &sequence) || claim < 1)
        return false;
    share->end.claim = (uint64_t)claim;
    return read_offset(epoch, sequence, &share->end.offset);
}

static int read_all(struct shares *shares, const char *ours, const json_t *file,
                    struct error *error) {
    const char *id = json_string_value(json_object_get(file, "id"));
    const char *group = json_string_value(json_object_get(file, "group"));
    const json_t *claims = json_object_get(file, "claims");
    if (!id || strlen(id) != FLEET_ID_SIZE - 1 || !group || !json_is_object(claims))
        return is_damaged(shares, error);
    memcpy(shares->id, id, FLEET_ID_SIZE);
    if (strcmp(group, ours) != 0) {
        if (json_object_size(claims) == 0)
            return 0;
        return error_set(error, EX_CONFIG,
                         "%s: this daemon has partitions in the fleet %s, not %s: stop it in that "
                         "fleet first (SIGTERM), or use another state.directory",
                         shares->path, group, ours);
    }
    if (!read_claims(shares, claims))
        return is_damaged(shares, error);
    for (size_t p = 0; p < shares->count; p++) {
        char partition[PARTITION_SIZE];
        snprintf(partition, sizeof partition, "%zu", p);
        if (!read_share(&shares->list[p],
                        json_object_get(json_object_get(file, "began"), partition),
                        json_object_get(json_object_get(file, "ended"), partition)))
            return is_damaged(shares, error);
    }
    return 0;
}

static char *text_of(const struct shares *shares, const char *group) {
    json_t *claims = json_object(), *begins = json_object(), *ends = json_object();
    bool all = true; /* a claim without an entry would be learned again */
    for (size_t p = 0; p < shares->count; p++) {
        const struct share *share = &shares->list[p];
        const struct fleet_offset *begin = &share->begin.offset, *end = &share->end.offset;
        char partition[PARTITION_SIZE];
        snprintf(partition, sizeof partition, "%zu", p);
        if (share->end.claim)
            all &=
                !json_object_set_new(ends, partition,
                                     json_pack("[I, I, I]", (json_int_t)share->end.claim,
                                               (json_int_t)end->epoch, (json_int_t)end->sequence));
        if (share->claim)
            all &= !json_object_set_new(claims, partition, json_integer((json_int_t)share->claim));
        if (share->claim && share->begin.is_kept)
            all &= !json_object_set_new(
                begins, partition,
                share->begin.committed
                    ? json_pack("[I, I]", (json_int_t)begin->epoch, (json_int_t)begin->sequence)
                    : json_array());
    }
    json_t *file = json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", shares->id, "group", group,
                             "claims", claims, "began", begins, "ended", ends);
    char *text = file && all ? json_dumps(file, JSON_INDENT(1)) : NULL;
    json_decref(file);
    return text;
}

static int write_text(const char *path, const char *text) {
    size_t size = strlen(text);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, MODE);
    if (file < 0)
        return -1;
    int result = write(file, text, size) == (ssize_t)size && fsync(file) == 0 ? 0 : -1;
    return close(file) == 0 ? result : -1;
}

/* Writes the file and waits for the disk. Fails with EX_IOERR. */
static int write_file(const struct daemon *daemon, struct error *error) {
    const char *path = daemon->cluster->shares->path;
    char temporary[TEMPORARY_SIZE];
    char *text = text_of(daemon->cluster->shares, consume_about(daemon->cluster->consume)->group);
    if (!text)
        return error_no_memory(error);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    int result = write_text(temporary, text) || rename(temporary, path) || sync_directory_of(path)
                     ? error_set(error, EX_IOERR, "cannot write %s: %s", path, strerror(errno))
                     : 0;
    free(text);
    return result;
}

/* Makes an ID if the file does not exist. */
static int read_file(const struct daemon *daemon, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    if (access(shares->path, F_OK) != 0)
        return fleet_id_draw(shares->id, error) ? -1 : write_file(daemon, error);
    json_t *file = json_load_file(shares->path, 0, NULL);
    int result = file
                     ? read_all(shares, consume_about(daemon->cluster->consume)->group, file, error)
                     : is_damaged(shares, error);
    json_decref(file);
    return result;
}

/* ---- Opening and closing ---- */

/* Examples learned without a fleet have no claims, so the fleet would learn them again. */
static int check_alone(const struct daemon *daemon, struct error *error) {
    const struct shares *shares = daemon->cluster->shares;
    struct journal_place place;
    if (access(shares->path, F_OK) == 0)
        return 0;
    for (size_t p = 0; p < shares->count; p++) {
        const char *name = consume_name(daemon->cluster->consume, p);
        if (journal_place(daemon->journal, journal_partition(daemon->journal, name), &place))
            return error_set(
                error, EX_CONFIG,
                "fleet.lease: a daemon without a fleet has learned %s in state.directory %s, and "
                "the fleet %s would learn all of it again; use another state.directory (runnel-ctl "
                "export and import transfer the parameters), or remove fleet.lease",
                strchr(name, ':') + 1, daemon->config->state_directory,
                consume_about(daemon->cluster->consume)->group);
    }
    return 0;
}

int shares_open(struct daemon *daemon, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    shares->serial = clock_unix() > 0 ? (uint64_t)(clock_unix() * 1e6) : 0;
    shares->count = consume_partitions(daemon->cluster->consume);
    shares->list = calloc(shares->count + 1, sizeof *shares->list);
    if (!shares->list)
        return error_no_memory(error);
    snprintf(shares->path, sizeof shares->path, "%s/" SHARES_FILE, daemon->config->state_directory);
    if (check_alone(daemon, error) || read_file(daemon, error))
        return -1;
    for (size_t p = 0; p < shares->count; p++) {
        struct share *share = &shares->list[p];
        share->number =
            journal_partition(daemon->journal, consume_name(daemon->cluster->consume, p));
        share->state = share->claim ? SHARE_KEPT : SHARE_AWAY;
        share->whole = true;
    }
    return 0;
}

void shares_close(struct shares *shares) {
    free(shares->settle);
    free(shares->list);
}

/* A state at the broker: its rank from the least recently used stream of its partition, and the
   blob. */
enum { ORDER_SIZE = sizeof(uint64_t) };

/* Replacing a state costs a server four times as much as adding one. If more than a quarter of a
   partition has changed, sending it whole costs less. */
enum { MUCH = 4 };

/* ---- Export of states ---- */

struct export {
    const struct daemon *daemon;
    struct fleet_job *job;
    size_t *at; /* (partitions,) index of the job's commit; SIZE_MAX: none */
    bool whole; /* whether to visit the partitions that are exported whole, or the others */
    unsigned char *copy;
    size_t room;
};

/* Returns the commit of the stream's partition, or NULL. */
static struct fleet_commit *commit_of(const struct export *export, const char *key,
                                      size_t key_size) {
    size_t at = export->at[shares_partition_of(export->daemon, key, key_size)];
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
    const uint64_t order =
        blob->order + export->daemon->cluster->shares->list[commit->partition].order;
    if (!array_reserve(&export->copy, &export->room, ORDER_SIZE + blob->size, 1))
        return error_no_memory(error);
    memcpy(export->copy, &order, ORDER_SIZE);
    memcpy(export->copy + ORDER_SIZE, blob->bytes, blob->size);
    const struct fleet_row row = {key, export->copy, key_size, ORDER_SIZE + blob->size};
    return add_row(export, &row, error);
}

static int export_gone(void *context, const char *key, size_t key_size, struct error *error) {
    const struct fleet_row row = {.key = key, .key_size = key_size};
    return add_row(context, &row, error);
}

/* Returns the least `since` of the partitions that are not exported whole; UINT64_MAX: none. */
static uint64_t since_of(const struct shares *shares, const struct fleet_job *job) {
    uint64_t since = UINT64_MAX;
    for (size_t n = 0; n < job->count; n++) {
        const struct share *share = &shares->list[job->commits[n].partition];
        if (!job->commits[n].whole && share->since < since)
            since = share->since;
    }
    return since;
}

/* Chooses the partitions to export whole: those with unknown or many changes. */
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
    uint64_t since = since_of(export->daemon->cluster->shares, export->job);
    if (choose_whole(export, carry, since, error))
        return -1;
    since = since_of(export->daemon->cluster->shares, export->job);
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

/* Sorts the rows by the last change; call it after all rows are added. */
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
    struct shares *shares = daemon->cluster->shares;
    struct share *share = &shares->list[partition];
    struct journal_place place = {0};
    journal_place(daemon->journal, share->number, &place);
    *commit = (struct fleet_commit){.partition = partition,
                                    .claim = share->claim,
                                    .offset = {place.epoch, place.sequence},
                                    .base = share->published,
                                    .learned = place.count,
                                    .serial = ++shares->serial,
                                    .whole = share->whole};
}

static size_t count_of(const struct shares *shares, enum share_state state) {
    size_t count = 0;
    for (size_t p = 0; p < shares->count; p++)
        count += shares->list[p].state == state;
    return count;
}

/* Returns since when the exported states may have changed; 0: unknown. */
static uint64_t oldest_since(const struct shares *shares, enum share_state state) {
    uint64_t oldest = UINT64_MAX;
    for (size_t p = 0; p < shares->count; p++) {
        const struct share *share = &shares->list[p];
        uint64_t since = share->whole ? 0 : share->since;
        if (share->state == state && since < oldest)
            oldest = since;
    }
    return oldest;
}

struct fleet_job *shares_export(struct daemon *daemon, enum share_state state,
                                struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    size_t filled = 0, *at = malloc((shares->count + 1) * sizeof *at);
    struct fleet_job *job = fleet_job_new(FLEET_JOB_COMMIT, count_of(shares, state));
    if (!at || !job) {
        error_no_memory(error);
        goto fail;
    }
    if (checkpoints_check(daemon, oldest_since(shares, state), error) ||
        journalling_sync(daemon, error)) {
        run_break(daemon);
        goto fail;
    }
    for (size_t p = 0; p < shares->count; p++) {
        at[p] = shares->list[p].state == state ? filled : SIZE_MAX;
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

/* ---- Committed states ---- */

/* Forgets changes before the oldest commit of all partitions. */
static int settle_changes(struct daemon *daemon, uint64_t newest, struct error *error) {
    const struct shares *shares = daemon->cluster->shares;
    struct carry *carry;
    for (size_t p = 0; p < shares->count; p++) {
        const struct share *share = &shares->list[p];
        if (share->state == SHARE_OWNED && !share->whole && share->since < newest)
            newest = share->since;
    }
    if (carry_open(&carry, daemon->config, daemon->learner, NULL, error))
        return -1;
    carry_settle(carry, newest);
    carry_close(&carry);
    return 0;
}

int shares_published(struct daemon *daemon, const struct fleet_job *job, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_commit *commit = &job->commits[n];
        struct share *share = &shares->list[commit->partition];
        share->whole = commit->refused || commit->incomplete;
        share->since = job->position;
        if (!share->whole)
            share->published = commit->offset;
    }
    return job->count ? settle_changes(daemon, job->position, error) : 0;
}

/* ---- Import of states ---- */

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

/* Checks that a state belongs to the stream under whose key it was published: another stream may be
   in another daemon's partition. Returns 1 if it does not. */
static int is_its_own(const struct carry *carry, const struct fleet_row *row, struct error *error) {
    const char *key;
    size_t key_size;
    int result = carry_look(carry, (const unsigned char *)row->state + ORDER_SIZE,
                            row->state_size - ORDER_SIZE, &key, &key_size, error);
    if (result)
        return result;
    return key_size == row->key_size && memcmp(key, row->key, key_size) == 0
               ? 0
               : (error_set(error, EX_DATAERR, "the state belongs to another stream"), 1);
}

/* A stream with an invalid state starts from scratch. */
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
        log_warning("stream %s starts from scratch here: %s",
                    text_quote(quoted, row->key, row->key_size), error->text);
    *adopted += result == 0;
    return result < 0 ? -1 : 0;
}

static int adopt_all(struct daemon *daemon, size_t partition, struct fleet_states *states,
                     uint64_t *adopted, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    struct share *share = &shares->list[partition];
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
    if (states->count) /* later changes must rank after these */
        share->order = order_of(&states->rows[states->count - 1]) + 1;
    share->since = carry_position(carry);
    carry_close(&carry);
    return result;
}

/* ---- Streams of other daemons ---- */

struct chosen {
    const struct daemon *daemon;
    const bool *partitions;
};

static int is_chosen(void *context, const char *key, size_t key_size) {
    const struct chosen *chosen = context;
    return chosen->partitions[shares_partition_of(chosen->daemon, key, key_size)];
}

static int forget(struct daemon *daemon, const bool *partitions, struct error *error) {
    struct chosen chosen = {daemon, partitions};
    const struct carry_visitor visitor = {.context = &chosen, .wants = is_chosen};
    struct carry *carry;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = carry_forget(carry, &visitor, error);
    carry_close(&carry);
    return result;
}

/* ---- Taking partitions ---- */

static json_t *partition_command(const struct daemon *daemon, const struct fleet_claim *claim) {
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "command", "partition", "name",
                     consume_name(daemon->cluster->consume, claim->partition), "claim",
                     (json_int_t)claim->claim, "epoch", (json_int_t)claim->offset.epoch, "sequence",
                     (json_int_t)claim->offset.sequence, "count", (json_int_t)claim->learned);
}

static int begin_one(struct daemon *daemon, const struct fleet_claim *claim,
                     struct fleet_states *states, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    uint64_t adopted = 0;
    /* The committed place replaces the journal's own. */
    const struct journal_place place = {
        .epoch = claim->offset.epoch, .sequence = claim->offset.sequence, .count = claim->learned};
    journalling_append_place(daemon, JOURNAL_PARTITION, partition_command(daemon, claim),
                             shares->list[claim->partition].number, &place);
    if (adopt_all(daemon, claim->partition, states, &adopted, error))
        return -1;
    struct share *share = &shares->list[claim->partition];
    share->claim = claim->claim;
    share->begin.is_kept = true;
    share->begin.committed = claim->committed;
    share->begin.offset = claim->offset;
    shares->adopted += adopted;
    shares->taken++;
    log_info("partition %s: learned here from now on, with %" PRIu64 " stream%s",
             consume_title(daemon->cluster->consume, claim->partition), adopted, text_s(adopted));
    return 0;
}

static int read_from_now_on(struct daemon *daemon, const struct fleet_claim *claim,
                            struct error *error) {
    const struct consume_place place = {claim->offset.epoch, claim->offset.sequence,
                                        claim->learned};
    daemon->cluster->shares->list[claim->partition].state = SHARE_OWNED;
    daemon->cluster->shares->list[claim->partition].published = claim->offset;
    return shares_read(daemon, claim->partition, &place, error);
}

/* A claim without an entry in the file has no example in the journal. After a kill, all of this is
   repeated. */
int shares_begin(struct daemon *daemon, struct fleet_job *job, struct error *error) {
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
    if (journalling_sync(daemon, error) || write_file(daemon, error))
        return run_break(daemon);
    for (size_t n = 0; n < job->count; n++)
        if (job->claims[n].partition != SIZE_MAX &&
            read_from_now_on(daemon, &job->claims[n], error))
            return run_break(daemon);
    checkpoints_changed(daemon);
    announce_event(daemon, "partitions",
                   json_pack("{s:I, s:I, s:f}", "taken", (json_int_t)begun, "streams",
                             (json_int_t)streams, "seconds", clock_seconds() - since),
                   "took over %zu partition%s with %zu stream%s", begun, text_s(begun), streams,
                   text_s(streams));
    announce_status_soon(daemon);
    return 0;
}

/* ---- Handing over ---- */

static int settle_later(struct shares *shares, uint64_t claim, struct error *error) {
    uint64_t *larger = realloc(shares->settle, (shares->settle_count + 1) * sizeof *shares->settle);
    if (!larger)
        return error_no_memory(error);
    shares->settle = larger;
    shares->settle[shares->settle_count++] = claim;
    return 0;
}

/* Removes the streams of partitions with a settled end, and then the claims. */
static int let_go(struct daemon *daemon, const bool *chosen, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    if (forget(daemon, chosen, error) || journalling_sync(daemon, error))
        return run_break(daemon);
    for (size_t p = 0; p < shares->count; p++)
        if (chosen[p]) {
            if (settle_later(shares, shares->list[p].claim, error))
                return run_break(daemon);
            shares->list[p].claim = 0;
            shares->list[p].state = SHARE_AWAY;
        }
    checkpoints_changed(daemon);
    announce_status_soon(daemon);
    return write_file(daemon, error) ? run_break(daemon) : 0;
}

/* Releases incomplete partitions again, with all states. */
int shares_released(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    size_t streams = 0, released = 0;
    bool again = false;
    bool *chosen = calloc(shares->count + 1, sizeof *chosen);
    if (!chosen)
        return error_no_memory(error);
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_commit *commit = &job->commits[n];
        bool good = !commit->refused && !commit->incomplete;
        shares->list[commit->partition].state = commit->refused ? SHARE_LOST : SHARE_LEAVES;
        chosen[commit->partition] = good;
        if (good)
            shares->list[commit->partition].end = (struct share_end){commit->claim, commit->offset};
        released += good;
        streams += good ? commit->streams : 0;
        again |= commit->incomplete;
    }
    int result = released ? let_go(daemon, chosen, error) : 0;
    free(chosen);
    shares->released += released;
    if (result == 0 && released) {
        log_info("handed over %zu partition%s with %zu stream%s", released, text_s(released),
                 streams, text_s(streams));
        announce_event(daemon, "partitions",
                       json_pack("{s:I, s:I}", "released", (json_int_t)released, "streams",
                                 (json_int_t)streams),
                       "handed over %zu partition%s with %zu stream%s", released, text_s(released),
                       streams, text_s(streams));
    }
    return result == 0 ? again : result;
}

/* ---- Lost partitions ---- */

static bool is_later(struct fleet_offset one, struct fleet_offset other) {
    return one.epoch != other.epoch ? one.epoch > other.epoch : one.sequence > other.sequence;
}

/* Finds the end of the examples that count; false: none count. If the broker has lost a claim, it
   has lost its commits: examples since its beginning do not count, nor those after the start of a
   later claim. */
static bool find_end(const struct daemon *daemon, const struct fleet_ended *ended,
                     struct fleet_offset *end) {
    const struct shares *shares = daemon->cluster->shares;
    const struct share *share = &shares->list[ended->partition];
    *end = ended->offset;
    if (!ended->is_over && !ended->is_lost)
        log_warning("partition %s is no longer assigned to this daemon; examples since the last "
                    "commit are rolled back",
                    consume_title(daemon->cluster->consume, ended->partition));
    if (!ended->is_lost)
        return ended->is_known;
    log_warning("claim %" PRIu64 " of partition %s not found at %s, which has lost acknowledged "
                "data (data is only safe with %s); examples since the claim are rolled back",
                ended->claim, consume_title(daemon->cluster->consume, ended->partition),
                consume_about(daemon->cluster->consume)->where,
                consume_about(daemon->cluster->consume)->keeps);
    if (share->begin.is_kept && share->begin.committed && is_later(*end, share->begin.offset))
        *end = share->begin.offset;
    return ended->is_known && (!share->begin.is_kept || share->begin.committed);
}

static json_t *beyond_end(const struct daemon *daemon, size_t partition, bool some,
                          struct fleet_offset end) {
    if (!some)
        end = (struct fleet_offset){.sequence = ROLLBACK_ALL};
    return json_pack("[I, I, I, s]",
                     (json_int_t)consume_producer(daemon->cluster->consume, partition),
                     (json_int_t)end.epoch, (json_int_t)end.sequence,
                     consume_name(daemon->cluster->consume, partition));
}

/* Adds the examples of a lost partition to roll back. Returns -1 if out of memory. */
static int add_beyond(const struct daemon *daemon, const struct fleet_ended *ended, json_t *list) {
    const size_t partition = ended->partition;
    struct journal_place place;
    struct fleet_offset end;
    bool some = find_end(daemon, ended, &end);
    daemon->cluster->shares->list[partition].end =
        some ? (struct share_end){ended->claim, end} : (struct share_end){0};
    if (!journal_place(daemon->journal, daemon->cluster->shares->list[partition].number, &place) ||
        !(some ? is_later((struct fleet_offset){place.epoch, place.sequence}, end)
               : place.count || place.sequence || place.epoch))
        return 0;
    return json_array_append_new(list, beyond_end(daemon, partition, some, end));
}

/* Returns as rollback_perform does. */
static int roll_back(struct daemon *daemon, json_t *list, struct error *error) {
    struct rollback_report report = {0};
    json_t *request = json_pack("{s:O}", "beyond", list);
    if (!request)
        return error_no_memory(error);
    int result = rollback_perform(daemon, request, &report, error);
    json_decref(request);
    daemon->cluster->shares->left_out += result == 0 ? report.examples : 0;
    return result && error->status == EX_USAGE ? 0 : result; /* there were only dead letters */
}

static int leave_out(struct daemon *daemon, json_t *list, struct error *error) {
    int result = roll_back(daemon, list, error);
    if (result == 0)
        return 0;
    if (run_is_stopping(daemon)) /* the next start does it */
        return 1;
    error_prefix(
        error,
        "partitions belong to other daemons now, but their examples cannot be rolled back here");
    return run_break(daemon);
}

/* Finds the claims that have ended, in `chosen`; the others stay owned. */
static int sort_out(struct daemon *daemon, const struct fleet_job *job, bool *chosen, json_t *list,
                    struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        const struct share *share = &shares->list[ended->partition];
        if (share->state != SHARE_LOST || share->claim != ended->claim)
            continue;
        chosen[ended->partition] = true;
        if (add_beyond(daemon, ended, list))
            return error_no_memory(error);
    }
    return 0;
}

int shares_come_back(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    bool *chosen = calloc(shares->count + 1, sizeof *chosen);
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
        log_warning("lost %zu partition%s to another daemon, since this daemon was unavailable for "
                    "longer than fleet.lease; rolled back the examples of %s since the last commit",
                    over, text_s(over), over == 1 ? "it" : "them");
    else if (over) /* they may have been handed over before a kill */
        log_info("%zu partition%s not owned any more; everything of %s was committed", over,
                 over == 1 ? " is" : "s are", over == 1 ? "it" : "them");
    if (result == 0 && json_array_size(list))
        result = leave_out(daemon, list, error);
    if (result == 0)
        result = let_go(daemon, chosen, error);
    if (result > 0)
        result = 0;
    shares->lost += job->count;
    json_decref(list);
    free(chosen);
    return result;
}

/* ---- Handed over and lost ---- */

/* Whether examples after a partition's end have to be rolled back. */
static bool is_beyond(const struct shares *shares, const struct fleet_ended *ended) {
    return !ended->is_known || is_later(shares->list[ended->partition].end.offset, ended->offset);
}

/* Saves the ends after the rollback; until then the next start finds them again. */
static int keep_ends(struct daemon *daemon, const struct fleet_job *job, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        if (is_beyond(shares, ended))
            shares->list[ended->partition].end =
                ended->is_known ? (struct share_end){ended->claim, ended->offset}
                                : (struct share_end){0};
    }
    return write_file(daemon, error);
}

int shares_compare_ends(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct shares *shares = daemon->cluster->shares;
    json_t *list = json_array();
    int result = 0;
    for (size_t n = 0; n < job->count; n++) {
        const struct fleet_ended *ended = &job->ended[n];
        if (is_beyond(shares, ended) &&
            json_array_append_new(
                list, beyond_end(daemon, ended->partition, ended->is_known, ended->offset)))
            result = error_no_memory(error);
        if (ended->is_over && settle_later(shares, ended->claim, error))
            result = -1;
    }
    const size_t count = json_array_size(list);
    if (result == 0 && count) {
        log_warning("%s has lost commits of %zu partition%s that this daemon had handed over (data "
                    "is only safe with %s); examples after the remaining commits are rolled back",
                    consume_about(daemon->cluster->consume)->where, count, text_s(count),
                    consume_about(daemon->cluster->consume)->keeps);
        result = learner_flush(daemon->learner, error) || journalling_sync(daemon, error)
                     ? -1
                     : roll_back(daemon, list, error);
    }
    json_decref(list);
    if (result > 0 && run_is_stopping(daemon)) /* the next start does it */
        return 0;
    if (result > 0)
        log_warning("other daemons learn these examples again: %s", error->text);
    if (result < 0 || (count && keep_ends(daemon, job, error)))
        return run_break(daemon);
    return 0;
}
