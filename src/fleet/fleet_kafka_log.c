/* The log of commands: followed from its beginning, or from a snapshot, and written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_kafka_internal.h"
#include "fleet_pieces.h"

enum {
    LOG_PARTITION = 0,
    RESTORE_S = 60, /* for the way to the first snapshot */
};

/* ---- Reading ---- */

static void stop_reading(struct kafka *kafka) {
    if (!kafka->log_topic)
        return;
    rd_kafka_consume_stop(kafka->log_topic, LOG_PARTITION);
    rd_kafka_topic_destroy(kafka->log_topic);
    kafka->log_topic = NULL;
}

void kafka_forget_log(struct kafka *kafka) {
    stop_reading(kafka);
    fleet_machine_close(&kafka->machine);
}

static int start_reading(struct kafka *kafka, int64_t offset, struct error *error) {
    stop_reading(kafka);
    kafka->log_topic = rd_kafka_topic_new(kafka->follower, kafka->log, NULL);
    kafka->next = offset;
    if (kafka->log_topic && !rd_kafka_consume_start(kafka->log_topic, LOG_PARTITION, offset))
        return 0;
    rd_kafka_resp_err_t code = rd_kafka_last_error();
    if (kafka->log_topic)
        rd_kafka_topic_destroy(kafka->log_topic);
    kafka->log_topic = NULL;
    return kafka_fail(kafka, code, error);
}

static int read_again(struct kafka *kafka, struct error *error) {
    kafka_forget_log(kafka);
    return error_set(error, EX_TEMPFAIL, "its topic %s has to be read again", kafka->log);
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
        kafka_forget_log(kafka);
        return kafka_fail(kafka, code, error);
    }
    if (!kafka_refuses(code))
        return 0;
    kafka->aim = (struct kafka_aim){"Read", kafka->log, kafka->self->group};
    return kafka_fail(kafka, code, error);
}

static uint64_t time_of(const rd_kafka_message_t *m) {
    rd_kafka_timestamp_type_t type;
    int64_t time = rd_kafka_message_timestamp(m, &type);
    return time > 0 ? (uint64_t)time : 0;
}

/* ---- Applying ---- */

/* It is the daemon's to write that renews its lease first after so many messages. */
static void note_snapshot(struct kafka *kafka, const struct fleet_command *command) {
    const char *name = kafka->self->name;
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
    kafka_forget_log(kafka);
    return error_prefix(error, "%s: the topic %s, at offset %" PRId64, kafka->options->servers,
                        kafka->log, m->offset);
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
        if (kafka_listen(kafka, error) || apply_next(kafka, KAFKA_POLL_MS, &any, answer, error))
            return -1;
        if (any)
            deadline = clock_seconds() + KAFKA_ANSWER;
        else if (clock_seconds() > deadline)
            return kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
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
                     kafka->options->servers, kafka->log, low);
}

/* A snapshot is written after what it is of. */
static int is_of_another_log(const struct kafka *kafka, int64_t offset, uint64_t position,
                             struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s has a snapshot at offset %" PRId64 " which names the offset "
                     "%" PRIu64 ", that comes after it: it is of another log, as of a topic that "
                     "was made again or has lost what it had; use another examples.kafka.group",
                     kafka->options->servers, kafka->log, offset, position);
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
        error_prefix(error, "%s: the topic %s", kafka->options->servers, kafka->log);
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
        found =
            kafka_listen(kafka, error) || next_message(kafka, KAFKA_POLL_MS, &m, error) ? -1 : 0;
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
        return kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    if (!*damage.text)
        return has_no_snapshot(kafka, low, error);
    *error = damage;
    return -1;
}

static int restore(struct kafka *kafka, struct error *error) {
    int64_t low, high;
    uint64_t position;
    kafka->snapshot_passed = kafka->snapshot_due = false;
    if (kafka_offsets(kafka, kafka->log, LOG_PARTITION, &low, &high, error) ||
        start_reading(kafka, low, error))
        return -1;
    kafka->restored = high;
    if (low == 0) {
        kafka->machine = fleet_machine_open(error);
        return kafka->machine ? 0 : -1;
    }
    if (find_snapshot(kafka, low, high, &position, error) ||
        start_reading(kafka, (int64_t)position + 1, error)) {
        kafka_forget_log(kafka);
        return -1;
    }
    return 0;
}

/* ---- Following ---- */

int kafka_follow(struct kafka *kafka, bool make, struct error *error) {
    struct fleet_answer answer;
    bool any = true;
    int found = kafka_connect(kafka, make, error);
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

int kafka_catch_up(struct kafka *kafka, struct error *error) {
    struct fleet_answer answer;
    int64_t low, high;
    return kafka_offsets(kafka, kafka->log, LOG_PARTITION, &low, &high, error) ||
                   apply_until(kafka, high, &answer, error)
               ? -1
               : 0;
}

/* ---- Commands ---- */

static int append(struct kafka *kafka, const void *bytes, size_t size, struct error *error) {
    return kafka_begin(kafka, error) ||
                   kafka_write(kafka, kafka->log, LOG_PARTITION, NULL, bytes, size, error) ||
                   kafka_finish(kafka, error)
               ? -1
               : 0;
}

/* A daemon makes the log; a person who is early does not. */
static int there_is_no_fleet(const struct kafka *kafka, struct error *error) {
    return error_set(
        error, EX_UNAVAILABLE,
        "%s: there is no fleet %s: no daemon has joined it, and the topic %s is not there",
        kafka->options->servers, kafka->self->group, kafka->log);
}

int kafka_command(struct kafka *kafka, struct fleet_command *command, struct fleet_answer *answer,
                  struct error *error) {
    size_t size;
    int found = kafka_follow(kafka, kafka->self->name != NULL, error);
    if (found)
        return found > 0 ? there_is_no_fleet(kafka, error) : -1;
    command->name = kafka->self->name ? kafka->self->name : "";
    command->id = kafka->self->id ? kafka->self->id : "";
    command->run = kafka->run;
    command->number = ++kafka->number;
    char *bytes = fleet_command_encode(command, &size);
    if (!bytes)
        return error_no_memory(error);
    int result = append(kafka, bytes, size, error);
    free(bytes);
    if (result == 0 && kafka->batch.last < kafka->next) /* the topic was made again */
        result = read_again(kafka, error);
    if (result == 0)
        result = apply_until(kafka, kafka->batch.last + 1, answer, error);
    if (result == 0 && answer->verdict == FLEET_REPEATED) /* it was not what was written */
        result = error_set(error, EX_TEMPFAIL, "another message is at its place in %s", kafka->log);
    return result;
}

/* ---- Snapshots ---- */

static int append_snapshot(struct kafka *kafka, const void *snapshot, size_t size,
                           uint64_t position, struct error *error) {
    unsigned char *piece = malloc(FLEET_PIECE_HEAD + FLEET_PIECE_BYTES);
    int result = piece ? kafka_begin(kafka, error) : error_no_memory(error);
    for (size_t n = 0; n < fleet_piece_count(size) && result == 0; n++) {
        size_t bytes = fleet_piece_write(piece, snapshot, size, position, n);
        result = kafka_write(kafka, kafka->log, LOG_PARTITION, NULL, piece, bytes, error);
    }
    free(piece);
    return result || kafka_finish(kafka, error) ? -1 : 0;
}

/* When it fails the log is longer, until the next one. */
void kafka_snapshot(struct kafka *kafka) {
    struct error error;
    size_t size;
    if (!kafka->snapshot_due || !kafka->machine)
        return;
    kafka->snapshot_due = false;
    uint64_t position = (uint64_t)kafka->next - 1;
    void *bytes = fleet_machine_save(kafka->machine, position, &size, &error);
    if (bytes && append_snapshot(kafka, bytes, size, position, &error) == 0)
        kafka_delete_before(kafka, kafka->log, LOG_PARTITION, kafka->next);
    else
        log_warning("the fleet %s has no new snapshot: %s", kafka->self->group, error.text);
    free(bytes);
}
