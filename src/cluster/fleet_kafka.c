#include "fleet_kafka.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <sys/random.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_kafka_client.h"
#include "fleet_rows.h"

#define MS 1e3

enum {
    LOG_PARTITION = 0,
    RESTORE_S = 60, /* for the way to the first snapshot */
    SNAPSHOT_MESSAGES = 10000,
};

/* States of one partition that are not committed yet. */
struct kafka_staged {
    size_t partition;
    uint64_t claim, serial;
    struct fleet_span span;
};

struct kafka {
    struct fleet_link link;
    struct fleet_client client;

    /* The log. */
    rd_kafka_topic_t *log_topic; /* NULL: not read */
    struct fleet_machine *machine;
    int64_t snapshots;                  /* messages from one to the next */
    int64_t next;                       /* offset of the message that comes next */
    int64_t restored;                   /* before that the machine is of long ago */
    bool snapshot_passed, snapshot_due; /* somebody is to write one; this daemon is */
    char run[FLEET_ID_SIZE];
    uint64_t number;  /* of the last command */
    double renew_due; /* clock_seconds */

    struct kafka_staged *staged;
    size_t staged_count;
};

static struct kafka *kafka_of(struct fleet_link *link) {
    return (struct kafka *)link;
}

/* Milliseconds. */
static uint64_t lease_of(const struct kafka *kafka) {
    return (uint64_t)(kafka->client.self->lease * MS);
}

static uint64_t now_ms(void) {
    double now = clock_unix();
    return now > 0 ? (uint64_t)(now * MS) : 0;
}

/* Kafka's first offset is 0: in the log an offset is one more, and 0 says that nothing of the
   partition is learned. False: that. */
static bool from_log(struct fleet_offset *offset) {
    bool some = offset->sequence > 0;
    offset->sequence -= some;
    return some;
}

/* ---- Reading ---- */

static void stop_reading(struct kafka *kafka) {
    if (!kafka->log_topic)
        return;
    rd_kafka_consume_stop(kafka->log_topic, LOG_PARTITION);
    rd_kafka_topic_destroy(kafka->log_topic);
    kafka->log_topic = NULL;
}

static void forget_log(struct kafka *kafka) {
    stop_reading(kafka);
    fleet_machine_close(&kafka->machine);
}

static int start_reading(struct kafka *kafka, int64_t offset, struct error *error) {
    stop_reading(kafka);
    kafka->log_topic = rd_kafka_topic_new(kafka->client.follower, kafka->client.log, NULL);
    kafka->next = offset;
    if (kafka->log_topic && !rd_kafka_consume_start(kafka->log_topic, LOG_PARTITION, offset))
        return 0;
    rd_kafka_resp_err_t code = rd_kafka_last_error();
    if (kafka->log_topic)
        rd_kafka_topic_destroy(kafka->log_topic);
    kafka->log_topic = NULL;
    return kafka_fail(&kafka->client, code, error);
}

static int read_again(struct kafka *kafka, struct error *error) {
    forget_log(kafka);
    return error_set(error, EX_TEMPFAIL, "its topic %s has to be read again", kafka->client.log);
}

/* The next message, within so many milliseconds; NULL: there is none, or with -1 an error. What is
   not there any more was deleted while this daemon was away, or the topic has been made again. */
static int next_message(struct kafka *kafka, int timeout, rd_kafka_message_t **message,
                        struct error *error) {
    rd_kafka_message_t *m = rd_kafka_consume(kafka->log_topic, LOG_PARTITION, timeout);
    *message = NULL;
    if (!m || (!m->err && m->offset >= kafka->next)) {
        *message = m;
        return 0;
    }
    rd_kafka_resp_err_t code = m->err;
    rd_kafka_message_destroy(m);
    if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return read_again(kafka, error);
    if (kafka_is_unknown(code)) {
        forget_log(kafka);
        return kafka_fail(&kafka->client, code, error);
    }
    if (!kafka_refuses(code))
        return 0;
    kafka->client.aim = (struct kafka_aim){"Read", kafka->client.log, kafka->client.self->group};
    return kafka_fail(&kafka->client, code, error);
}

static uint64_t time_of(const rd_kafka_message_t *m) {
    rd_kafka_timestamp_type_t type;
    int64_t time = rd_kafka_message_timestamp(m, &type);
    return time > 0 ? (uint64_t)time : 0;
}

/* ---- Applying ---- */

/* It is the daemon's to write that renews its lease first after so many messages. */
static void note_snapshot(struct kafka *kafka, const struct fleet_command *command) {
    const char *name = kafka->client.self->name;
    if (!kafka->snapshot_passed || command->kind != FLEET_COMMAND_RENEW)
        return;
    kafka->snapshot_passed = false;
    kafka->snapshot_due =
        name && strcmp(command->name, name) == 0 && strcmp(command->run, kafka->run) == 0;
}

/* A machine that could not apply a command is of no use. */
static int apply(struct kafka *kafka, const rd_kafka_message_t *m, struct fleet_answer *answer,
                 struct error *error) {
    struct fleet_command command;
    uint64_t time = time_of(m);
    int is = fleet_command_decode(m->payload ? m->payload : "", m->len, &command, error);
    *answer = (struct fleet_answer){.verdict = FLEET_REPEATED};
    kafka->next = m->offset + 1;
    kafka->snapshot_passed |= kafka->next % kafka->snapshots == 0;
    if (is > 0)
        fleet_machine_skip(kafka->machine, time);
    if (is == 0) {
        note_snapshot(kafka, &command);
        is = fleet_machine_apply(kafka->machine, time, &command, answer, error);
        fleet_command_free(&command);
    }
    if (is >= 0)
        return 0;
    forget_log(kafka);
    return error_prefix(error, "%s: the topic %s, at offset %" PRId64,
                        kafka->client.options->servers, kafka->client.log, m->offset);
}

static int apply_next(struct kafka *kafka, int timeout, bool *any, struct fleet_answer *answer,
                      struct error *error) {
    rd_kafka_message_t *m;
    if (next_message(kafka, timeout, &m, error))
        return -1;
    *any = m != NULL;
    if (!m)
        return 0;
    int result = apply(kafka, m, answer, error);
    rd_kafka_message_destroy(m);
    return result;
}

/* Up to that offset, which is there. */
static int apply_until(struct kafka *kafka, int64_t end, struct fleet_answer *answer,
                       struct error *error) {
    double deadline = clock_seconds() + KAFKA_ANSWER;
    bool any;
    while (kafka->next < end) {
        if (kafka_listen(&kafka->client, error) ||
            apply_next(kafka, KAFKA_POLL_MS, &any, answer, error))
            return -1;
        if (any)
            deadline = clock_seconds() + KAFKA_ANSWER;
        else if (clock_seconds() > deadline)
            return kafka_fail(&kafka->client, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    }
    return 0;
}

/* ---- From the beginning ---- */

static int has_no_snapshot(const struct kafka *kafka, int64_t low, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s begins at offset %" PRId64 " and has no snapshot: what was "
                     "before, and with it what the fleet knew, was deleted there, as with another "
                     "retention.ms than -1; use another "
                     "examples.kafka.group",
                     kafka->client.options->servers, kafka->client.log, low);
}

/* A snapshot is written after what it is of. */
static int is_of_another_log(const struct kafka *kafka, int64_t offset, uint64_t position,
                             struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s has a snapshot at offset %" PRId64 " which names the offset "
                     "%" PRIu64 ", that comes after it: it is of another log, as of a topic that "
                     "was made again or has lost what it had; use another examples.kafka.group",
                     kafka->client.options->servers, kafka->client.log, offset, position);
}

/* The machine of the snapshot whose last piece is at `offset`. 1: it is there; 0: a later one may
   do, since this is damaged, or of another log (*damage), or the log does not have all that came
   after it: its writer was slow. */
static int load(struct kafka *kafka, const struct fleet_pieces *pieces, int64_t low, int64_t offset,
                uint64_t *position, struct error *damage, struct error *error) {
    kafka->machine = fleet_machine_load(pieces->bytes, pieces->size, position, error);
    if (!kafka->machine) {
        bool damaged = error->status == EX_DATAERR;
        error->status = damaged ? EX_UNAVAILABLE : error->status;
        error_prefix(error, "%s: the topic %s", kafka->client.options->servers, kafka->client.log);
        if (damaged)
            *damage = *error;
        return damaged ? 0 : -1;
    }
    if (*position >= (uint64_t)offset)
        is_of_another_log(kafka, offset, *position, damage);
    if (*position + 1 < (uint64_t)low || *position >= (uint64_t)offset)
        fleet_machine_close(&kafka->machine);
    return kafka->machine != NULL;
}

/* The first snapshot that is whole, and with which the log goes on. */
static int find_snapshot(struct kafka *kafka, int64_t low, int64_t high, uint64_t *position,
                         struct error *error) {
    double deadline = clock_seconds() + RESTORE_S;
    struct fleet_pieces pieces = {0};
    struct error damage = {0};
    int found = 0;
    while (found == 0 && kafka->next < high && clock_seconds() < deadline) {
        rd_kafka_message_t *m;
        found = kafka_listen(&kafka->client, error) || next_message(kafka, KAFKA_POLL_MS, &m, error)
                    ? -1
                    : 0;
        if (found < 0 || !m)
            continue;
        kafka->next = m->offset + 1;
        if (fleet_piece_is(m->payload, m->len))
            found = fleet_pieces_add(&pieces, m->payload, m->len);
        if (found < 0)
            error_no_memory(error);
        if (found > 0)
            found = load(kafka, &pieces, low, m->offset, position, &damage, error);
        rd_kafka_message_destroy(m);
    }
    fleet_pieces_free(&pieces);
    if (found != 0)
        return found > 0 ? 0 : -1;
    if (kafka->next < high)
        return kafka_fail(&kafka->client, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    if (!*damage.text)
        return has_no_snapshot(kafka, low, error);
    *error = damage;
    return -1;
}

static int restore(struct kafka *kafka, struct error *error) {
    int64_t low, high;
    uint64_t position;
    kafka->snapshot_passed = kafka->snapshot_due = false;
    if (kafka_offsets(&kafka->client, kafka->client.log, LOG_PARTITION, &low, &high, error) ||
        start_reading(kafka, low, error))
        return -1;
    kafka->restored = high;
    if (low == 0) {
        kafka->machine = fleet_machine_open(error);
        return kafka->machine ? 0 : -1;
    }
    if (find_snapshot(kafka, low, high, &position, error) ||
        start_reading(kafka, (int64_t)position + 1, error)) {
        forget_log(kafka);
        return -1;
    }
    return 0;
}

/* ---- Following ---- */

static int follow(struct kafka *kafka, bool make, struct error *error) {
    struct fleet_answer answer;
    bool any = true;
    int found = kafka_connect(&kafka->client, make, error);
    if (found != 0)
        return found;
    if (!kafka->machine && restore(kafka, error))
        return -1;
    if (kafka->next < kafka->restored && apply_until(kafka, kafka->restored, &answer, error))
        return -1;
    while (any)
        if (apply_next(kafka, 0, &any, &answer, error))
            return -1;
    return 0;
}

static int catch_up(struct kafka *kafka, struct error *error) {
    struct fleet_answer answer;
    int64_t low, high;
    return kafka_offsets(&kafka->client, kafka->client.log, LOG_PARTITION, &low, &high, error) ||
                   apply_until(kafka, high, &answer, error)
               ? -1
               : 0;
}

/* ---- Commands ---- */

static int append(struct kafka *kafka, const void *bytes, size_t size, struct error *error) {
    return kafka_begin(&kafka->client, error) ||
                   kafka_write(&kafka->client, kafka->client.log, LOG_PARTITION, NULL, bytes, size,
                               error) ||
                   kafka_finish(&kafka->client, error)
               ? -1
               : 0;
}

/* A daemon makes the log; a person who is early does not. */
static int there_is_no_fleet(const struct kafka *kafka, struct error *error) {
    return error_set(
        error, EX_UNAVAILABLE,
        "%s: there is no fleet %s: no daemon has joined it, and the topic %s is not there",
        kafka->client.options->servers, kafka->client.self->group, kafka->client.log);
}

static int command_log(struct kafka *kafka, struct fleet_command *command,
                       struct fleet_answer *answer, struct error *error) {
    size_t size;
    int found = follow(kafka, kafka->client.self->name != NULL, error);
    if (found)
        return found > 0 ? there_is_no_fleet(kafka, error) : -1;
    command->name = kafka->client.self->name ? kafka->client.self->name : "";
    command->id = kafka->client.self->id ? kafka->client.self->id : "";
    command->run = kafka->run;
    command->number = ++kafka->number;
    char *bytes = fleet_command_encode(command, &size);
    if (!bytes)
        return error_no_memory(error);
    int result = append(kafka, bytes, size, error);
    free(bytes);
    if (result == 0 && kafka->client.batch.last < kafka->next) /* the topic was made again */
        result = read_again(kafka, error);
    if (result == 0)
        result = apply_until(kafka, kafka->client.batch.last + 1, answer, error);
    if (result == 0 && answer->verdict == FLEET_REPEATED) /* it was not what was written */
        result = error_set(error, EX_TEMPFAIL, "another message is at its place in %s",
                           kafka->client.log);
    return result;
}

/* ---- Snapshots ---- */

static int append_snapshot(struct kafka *kafka, const void *snapshot, size_t size,
                           uint64_t position, struct error *error) {
    unsigned char *piece = malloc(FLEET_PIECE_HEAD + FLEET_PIECE_BYTES);
    int result = piece ? kafka_begin(&kafka->client, error) : error_no_memory(error);
    for (size_t n = 0; n < fleet_piece_count(size) && result == 0; n++) {
        size_t bytes = fleet_piece_write(piece, snapshot, size, position, n);
        result = kafka_write(&kafka->client, kafka->client.log, LOG_PARTITION, NULL, piece, bytes,
                             error);
    }
    free(piece);
    return result || kafka_finish(&kafka->client, error) ? -1 : 0;
}

/* When it fails the log is longer, until the next one. */
static void snapshot(struct kafka *kafka) {
    struct error error;
    size_t size;
    if (!kafka->snapshot_due || !kafka->machine)
        return;
    kafka->snapshot_due = false;
    uint64_t position = (uint64_t)kafka->next - 1;
    void *bytes = fleet_machine_save(kafka->machine, position, &size, &error);
    if (bytes && append_snapshot(kafka, bytes, size, position, &error) == 0)
        kafka_delete_before(&kafka->client, kafka->client.log, LOG_PARTITION, kafka->next);
    else
        log_warning("the fleet %s has no new snapshot: %s", kafka->client.self->group, error.text);
    free(bytes);
}

/* ---- Members ---- */

static int judge_join(struct kafka *kafka, enum fleet_verdict verdict, struct error *error) {
    const struct fleet_self *self = kafka->client.self;
    const struct fleet_kind kind = fleet_machine_kind(kafka->machine);
    const char *at = kafka->client.options->servers;
    switch (verdict) {
    case FLEET_STREAM:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the topic %s, and not %s: two fleets need two "
                         "groups (examples.kafka.group)",
                         self->group, at, kind.stream, self->stream);
    case FLEET_PARTITIONS:
        return error_set(
            error, EX_CONFIG,
            "the fleet %s at %s has %" PRIu64 " partitions, and the topic %s has %zu: what "
            "each stream belongs to has changed; use another examples.kafka.group",
            self->group, at, (uint64_t)kind.partitions, self->stream, self->partitions);
    case FLEET_DIGEST:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns with another configuration (its digest is %s, "
                         "and this daemon's %s): give all daemons of a fleet the same one, or use "
                         "another examples.kafka.group",
                         self->group, at, kind.digest, self->digest);
    case FLEET_AVERAGE:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s averages every %" PRIu64 " examples, and this daemon "
                         "%" PRIu64 " (0: never): give all daemons of a fleet the same "
                         "fleet.average.every, or use another examples.kafka.group",
                         self->group, at, kind.every, self->every);
    default:
        kafka->link.namesake = fleet_machine_namesake(kafka->machine, self->name);
        return fleet_name_is_taken(kafka->client.self, error);
    }
}

/* Whether the member may do what it asked for: -1. */
static int judge(const struct kafka *kafka, const struct fleet_answer *answer,
                 struct error *error) {
    if (answer->verdict == FLEET_NAMESAKE)
        return fleet_name_is_taken(kafka->client.self, error);
    if (answer->verdict == FLEET_STALE)
        return error_set(error, EX_TEMPFAIL, "another daemon of this one's name has joined since");
    if (answer->verdict == FLEET_STRANGER)
        return error_set(error, EX_TEMPFAIL, "it does not know this daemon any more");
    return 0;
}

static int ask(struct kafka *kafka, struct fleet_command *command, struct fleet_answer *answer,
               struct error *error) {
    if (command_log(kafka, command, answer, error))
        return -1;
    int result = judge(kafka, answer, error);
    if (result) /* what has become of the membership is asked for at once */
        kafka->renew_due = 0;
    return result;
}

static void is_renewed(struct kafka *kafka, double since) {
    kafka->renew_due = since + kafka->client.self->lease / FLEET_RENEWALS_A_LEASE;
}

static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_JOIN,
                                    .stream = kafka->client.self->stream,
                                    .digest = kafka->client.self->digest,
                                    .info = info,
                                    .lease = lease_of(kafka),
                                    .every = kafka->client.self->every,
                                    .partitions = kafka->client.self->partitions};
    double since = clock_seconds();
    if (command_log(kafka, &command, &answer, error))
        return -1;
    if (answer.verdict != FLEET_DONE)
        return judge_join(kafka, answer.verdict, error);
    is_renewed(kafka, since);
    return 0;
}

/* The log is not written more often than it has to be. */
static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {
        .kind = FLEET_COMMAND_RENEW, .info = info, .lease = lease_of(kafka)};
    double since = clock_seconds();
    if (follow(kafka, true, error))
        return -1;
    if (since >= kafka->renew_due) {
        if (command_log(kafka, &command, &answer, error))
            return -1;
        *version = 0;
        if (answer.verdict == FLEET_STALE)
            *version = FLEET_DISPLACED;
        if (answer.verdict == FLEET_STRANGER || answer.verdict == FLEET_STALE)
            return 0;
        if (judge(kafka, &answer, error))
            return -1;
        is_renewed(kafka, since);
        snapshot(kafka);
    }
    *version = fleet_machine_version(kafka->machine);
    return 0;
}

static int leave(struct fleet_link *link, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_LEAVE};
    return command_log(kafka_of(link), &command, &answer, error);
}

/* Who is no member has to read the log to its end; that may have been long ago. */
static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    bool member = kafka->client.self->name != NULL;
    fleet_view_free(view);
    int found = follow(kafka, member, error);
    if (found)
        return found > 0 ? 0 : -1;
    if (!member && catch_up(kafka, error))
        return -1;
    if (fleet_machine_view(kafka->machine, member ? 0 : now_ms(), view, error))
        return -1;
    for (size_t n = 0; n < view->partition_count; n++)
        view->partitions[n].committed &= from_log(&view->partitions[n].offset);
    return 0;
}

static int no_sense(const struct kafka *kafka, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s is not that of this fleet; use another examples.kafka.group",
                     kafka->client.options->servers, kafka->client.log);
}

/* ---- Claims ---- */

static size_t items(size_t left) {
    return left < FLEET_ITEMS_MAX ? left : FLEET_ITEMS_MAX;
}

/* Those that an earlier try of the same job could not claim are left out. */
static int take_some(struct kafka *kafka, struct fleet_claim *claims, size_t count, size_t *taken,
                     struct error *error) {
    struct fleet_answer answer;
    struct fleet_take takes[FLEET_ITEMS_MAX];
    struct fleet_command command = {.kind = FLEET_COMMAND_TAKE, .takes = takes};
    for (size_t n = 0; n < count; n++)
        if (claims[n].partition != SIZE_MAX)
            takes[command.count++] = (struct fleet_take){claims[n].partition, claims[n].claim};
    if (command.count == 0)
        return 0;
    if (ask(kafka, &command, &answer, error))
        return -1;
    for (size_t n = 0, asked = 0; n < count; n++) {
        if (claims[n].partition == SIZE_MAX)
            continue;
        bool is_taken = answer.results[asked++] != 0;
        if (!is_taken)
            claims[n].partition = SIZE_MAX;
        else if (!fleet_machine_claim(kafka->machine, &claims[n]))
            return no_sense(kafka, error);
        else
            claims[n].committed &= from_log(&claims[n].offset);
        *taken += is_taken;
    }
    return 0;
}

static int take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error) {
    *taken = 0;
    for (size_t n = 0; n < count; n += FLEET_ITEMS_MAX)
        if (take_some(kafka_of(link), claims + n, items(count - n), taken, error))
            return -1;
    return 0;
}

static int ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (follow(kafka, true, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        struct fleet_claim now = {.partition = claims[n].partition};
        fleet_machine_ended(kafka->machine, &claims[n]);
        if (!claims[n].is_over && fleet_machine_claim(kafka->machine, &now)) {
            claims[n].is_lost = now.claim != claims[n].claim;
            claims[n].is_known = now.committed;
            claims[n].offset = now.offset;
        }
        claims[n].is_known &= from_log(&claims[n].offset);
    }
    return 0;
}

static int settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct fleet_answer answer;
    for (size_t n = 0; n < count; n += FLEET_ITEMS_MAX) {
        struct fleet_command command = {.kind = FLEET_COMMAND_SETTLE,
                                        .settled = (uint64_t *)(uintptr_t)(claims + n),
                                        .count = count - n < FLEET_ITEMS_MAX ? count - n
                                                                             : FLEET_ITEMS_MAX};
        if (ask(kafka_of(link), &command, &answer, error))
            return -1;
    }
    return 0;
}

/* ---- States ---- */

static void forget_staged(struct kafka *kafka) {
    kafka->staged_count = 0;
}

static struct kafka_staged *find_staged(struct kafka *kafka, size_t partition, uint64_t claim,
                                        uint64_t serial) {
    for (size_t n = 0; n < kafka->staged_count; n++) {
        struct kafka_staged *staged = &kafka->staged[n];
        if (staged->partition == partition && staged->claim == claim && staged->serial == serial)
            return staged;
    }
    return NULL;
}

static struct kafka_staged *add_staged(struct kafka *kafka, size_t partition, uint64_t claim,
                                       uint64_t serial) {
    struct kafka_staged *staged =
        realloc(kafka->staged, (kafka->staged_count + 1) * sizeof *staged);
    if (!staged)
        return NULL;
    kafka->staged = staged;
    staged += kafka->staged_count++;
    *staged = (struct kafka_staged){.partition = partition, .claim = claim, .serial = serial};
    return staged;
}

/* After a failure all is staged again, with another tag: what came of this try is in no span. */
static int stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (count == 0)
        return 0;
    if (follow(kafka, true, error)) {
        forget_staged(kafka);
        return -1;
    }
    struct kafka_staged *staged = find_staged(kafka, partition, claim, serial);
    if (!staged && !(staged = add_staged(kafka, partition, claim, serial)))
        return error_no_memory(error);
    if (kafka_write_rows(&kafka->client, (int32_t)partition, rows, count, &staged->span, error) ==
        0)
        return 0;
    forget_staged(kafka);
    return -1;
}

/* ---- Commits ---- */

/* As the log has it: from_log. */
static uint64_t learned_up_to(const struct fleet_commit *commit) {
    return commit->learned ? commit->offset.sequence + 1 : 0;
}

static int fill_in(struct kafka *kafka, const struct fleet_commit *commit,
                   struct fleet_learned *learned, struct error *error) {
    *learned = (struct fleet_learned){.partition = commit->partition,
                                      .claim = commit->claim,
                                      .offset = {.sequence = learned_up_to(commit)},
                                      .learned = commit->learned,
                                      .streams = commit->streams,
                                      .serial = commit->serial,
                                      .rows = commit->rows,
                                      .whole = commit->whole};
    if (!commit->serial || !commit->rows)
        return 0;
    const struct kafka_staged *staged =
        find_staged(kafka, commit->partition, commit->claim, commit->serial);
    if (!staged)
        return error_set(error, EX_TEMPFAIL, "states that it was given are gone");
    fleet_span_print(&staged->span, learned->where);
    return 0;
}

/* For people who look with Kafka's tools: it decides nothing. */
static void tell_group(struct kafka *kafka, const struct fleet_commit *commits, size_t count) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count + 1);
    for (size_t n = 0; n < count; n++)
        if (!commits[n].refused && !commits[n].incomplete && commits[n].learned)
            rd_kafka_topic_partition_list_add(list, kafka->client.self->stream,
                                              (int32_t)commits[n].partition)
                ->offset = (int64_t)commits[n].learned;
    if (list->cnt)
        rd_kafka_commit(kafka->client.reader, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
}

/* States before those that count now are nobody's. These are not always what was staged last: when
   the answer to the same commit was lost, what was staged for that counts. */
static void delete_old(struct kafka *kafka, const struct fleet_commit *commit) {
    size_t count;
    struct fleet_span span;
    const struct fleet_publication *list =
        fleet_machine_states(kafka->machine, commit->partition, &count);
    if (commit->whole && !commit->refused && !commit->incomplete && count > 0 &&
        fleet_span_scan(list[0].where, &span))
        kafka_delete_before(&kafka->client, kafka->client.states, (int32_t)commit->partition,
                            span.first);
}

static int commit_some(struct kafka *kafka, struct fleet_commit *commits, size_t count,
                       bool release, struct error *error) {
    struct fleet_answer answer;
    struct fleet_learned *learned = calloc(count, sizeof *learned);
    if (!learned)
        return error_no_memory(error);
    struct fleet_command command = {
        .kind = FLEET_COMMAND_COMMIT, .commits = learned, .count = count, .release = release};
    int result = 0;
    for (size_t n = 0; n < count && result == 0; n++)
        result = fill_in(kafka, &commits[n], &learned[n], error);
    if (result == 0)
        result = ask(kafka, &command, &answer, error);
    free(learned);
    for (size_t n = 0; n < count && result == 0; n++) {
        commits[n].refused = answer.results[n] == FLEET_REFUSED;
        commits[n].incomplete = answer.results[n] == FLEET_INCOMPLETE;
        delete_old(kafka, &commits[n]);
    }
    return result;
}

static int commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error) {
    struct kafka *kafka = kafka_of(link);
    int result = 0;
    for (size_t n = 0; n < count && result == 0; n += FLEET_ITEMS_MAX)
        result = commit_some(kafka, commits + n, items(count - n), release, error);
    if (result == 0)
        tell_group(kafka, commits, count);
    forget_staged(kafka);
    return result;
}

static int states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_claim claim = {.partition = partition};
    size_t count;
    if (follow(kafka, true, error))
        return -1;
    if (!fleet_machine_claim(kafka->machine, &claim))
        return no_sense(kafka, error);
    const struct fleet_publication *list = fleet_machine_states(kafka->machine, partition, &count);
    return claim.committed ? kafka_visit(&kafka->client, partition, list, count, claim.states,
                                         visit, context, error)
                           : 0;
}

/* ---- Averages ---- */

static int arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_span span = {0};
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_ARRIVE, .serial = serial};
    if (follow(kafka, true, error) ||
        kafka_write_bytes(&kafka->client, parameters, size, &span, error))
        return -1;
    fleet_span_print(&span, command.where);
    if (ask(kafka, &command, &answer, error))
        return -1;
    *round = answer.number;
    return 0;
}

static int pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_PASS, .round = round};
    return ask(kafka_of(link), &command, &answer, error);
}

static int round_of(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {
        .kind = FLEET_COMMAND_ROUND, .round = round, .lease = lease_of(kafka)};
    const char *text = NULL;
    *names = NULL;
    if (follow(kafka, true, error))
        return -1;
    enum fleet_round_state state =
        fleet_machine_round(kafka->machine, round, lease_of(kafka), now_ms(), &text);
    if (state == FLEET_ROUND_DUE) {
        if (ask(kafka, &command, &answer, error))
            return -1;
        state = fleet_machine_round(kafka->machine, round, lease_of(kafka), 0, &text);
    }
    if (state == FLEET_ROUND_CLOSED && !(*names = strdup(text)))
        return error_no_memory(error);
    return 0;
}

static int parameters_of(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                         size_t *size, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_span span;
    char where[FLEET_WHERE_SIZE];
    unsigned char *found;
    *bytes = NULL;
    if (follow(kafka, true, error))
        return -1;
    if (!fleet_machine_where(kafka->machine, round, name, where) || !fleet_span_scan(where, &span))
        return error_set(error, EX_UNAVAILABLE,
                         "%s has the parameters of %s in round %" PRIu64 " no more",
                         kafka->client.options->servers, name, round);
    int result =
        kafka_read(&kafka->client, kafka->client.parameters, 0, &span, &found, size, error);
    *bytes = found;
    return result;
}

/* ---- People ---- */

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (kafka_connect(&kafka->client, false, error) < 0)
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int64_t low, high;
        if (kafka_offsets(&kafka->client, view->stream, (int32_t)n, &low, &high, error))
            return -1;
        ends[n] = high >= 0 ? (uint64_t)high : UINT64_MAX;
    }
    return 0;
}

static int groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    return kafka_groups(&kafka_of(link)->client, groups, error);
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer = {.verdict = FLEET_ABSENT};
    struct fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .target = name};
    if (command_log(kafka, &command, &answer, error) < 0)
        return -1;
    return answer.verdict == FLEET_ABSENT
               ? error_set(error, EX_USAGE, "there is no daemon %s in the fleet %s now", name,
                           kafka->client.self->group)
               : 0;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_REBALANCE};
    return command_log(kafka_of(link), &command, &answer, error) < 0 ? -1 : 0;
}

/* ---- Opening and closing ---- */

static void close_kafka(struct fleet_link **link) {
    struct kafka *kafka = kafka_of(*link);
    if (kafka) {
        forget_log(kafka);
        kafka_disconnect(&kafka->client);
        free(kafka->staged);
    }
    free(kafka);
    *link = NULL;
}

static const struct fleet_link_ops kafka_ops = {
    .close = close_kafka,
    .join = join,
    .renew = renew,
    .leave = leave,
    .look = look,
    .take = take,
    .ended = ended,
    .settle = settle,
    .stage = stage,
    .commit = commit,
    .states = states,
    .arrive = arrive,
    .pass = pass,
    .round = round_of,
    .parameters = parameters_of,
    .ends = ends,
    .groups = groups,
    .drain = drain,
    .rebalance = rebalance,
};

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static int name_topics(struct kafka *kafka, struct error *error) {
    const char *group = kafka->client.self->group;
    size_t size = strlen(group);
    if (size == 0 || size > FLEET_GROUP_MAX || strspn(group, LETTERS) != size)
        return error_set(error, EX_CONFIG,
                         "the fleet %s needs the topics %s.fleet, %s.states and %s.parameters, "
                         "which Kafka cannot have: give its group (examples.kafka.group) at most "
                         "%d letters, digits, '.', '_' and '-'",
                         group, group, group, group, FLEET_GROUP_MAX);
    snprintf(kafka->client.log, sizeof kafka->client.log, "%s.fleet", group);
    snprintf(kafka->client.states, sizeof kafka->client.states, "%s.states", group);
    snprintf(kafka->client.parameters, sizeof kafka->client.parameters, "%s.parameters", group);
    return 0;
}

/* A run, and tags, that nobody else in the fleet has. */
static int draw(struct kafka *kafka, struct error *error) {
    if (getrandom(&kafka->client.tag, sizeof kafka->client.tag, 0) != sizeof kafka->client.tag)
        return error_set(error, EX_OSERR, "there are no random numbers: %s", strerror(errno));
    return fleet_id_draw(kafka->run, error);
}

int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error) {
    struct kafka *kafka = calloc(1, sizeof *kafka);
    *link = NULL;
    if (!kafka)
        return error_no_memory(error);
    kafka->link.ops = &kafka_ops;
    kafka->client.options = options;
    kafka->client.self = self;
    kafka->snapshots = SNAPSHOT_MESSAGES;
    if (name_topics(kafka, error) || draw(kafka, error)) {
        free(kafka);
        return -1;
    }
    *link = &kafka->link;
    return 0;
}

void fleet_kafka_snapshots(struct fleet_link *link, int64_t messages) {
    kafka_of(link)->snapshots = messages;
}
