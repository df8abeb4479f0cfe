/* Claims, and the states that go with them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "fleet_kafka_internal.h"

static int no_sense(const struct kafka *kafka, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s is not that of this fleet; use another examples.kafka.group",
                     kafka->options->servers, kafka->log);
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
    if (kafka_ask(kafka, &command, &answer, error))
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
            claims[n].committed &= kafka_from_log(&claims[n].offset);
        *taken += is_taken;
    }
    return 0;
}

int kafka_take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
               struct error *error) {
    *taken = 0;
    for (size_t n = 0; n < count; n += FLEET_ITEMS_MAX)
        if (take_some(kafka_of(link), claims + n, items(count - n), taken, error))
            return -1;
    return 0;
}

int kafka_ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (kafka_follow(kafka, true, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        struct fleet_claim now = {.partition = claims[n].partition};
        fleet_machine_ended(kafka->machine, &claims[n]);
        if (!claims[n].is_over && fleet_machine_claim(kafka->machine, &now)) {
            claims[n].is_lost = now.claim != claims[n].claim;
            claims[n].is_known = now.committed;
            claims[n].offset = now.offset;
        }
        claims[n].is_known &= kafka_from_log(&claims[n].offset);
    }
    return 0;
}

int kafka_settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                 struct error *error) {
    struct fleet_answer answer;
    for (size_t n = 0; n < count; n += FLEET_ITEMS_MAX) {
        struct fleet_command command = {.kind = FLEET_COMMAND_SETTLE,
                                        .settled = (uint64_t *)(uintptr_t)(claims + n),
                                        .count = count - n < FLEET_ITEMS_MAX ? count - n
                                                                             : FLEET_ITEMS_MAX};
        if (kafka_ask(kafka_of(link), &command, &answer, error))
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
int kafka_stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                const struct fleet_row *rows, size_t count, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (count == 0)
        return 0;
    if (kafka_follow(kafka, true, error)) {
        forget_staged(kafka);
        return -1;
    }
    struct kafka_staged *staged = find_staged(kafka, partition, claim, serial);
    if (!staged && !(staged = add_staged(kafka, partition, claim, serial)))
        return error_no_memory(error);
    if (kafka_write_rows(kafka, (int32_t)partition, rows, count, &staged->span, error) == 0)
        return 0;
    forget_staged(kafka);
    return -1;
}

/* ---- Commits ---- */

/* As the log has it: kafka_from_log. */
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
            rd_kafka_topic_partition_list_add(list, kafka->self->stream,
                                              (int32_t)commits[n].partition)
                ->offset = (int64_t)commits[n].learned;
    if (list->cnt)
        rd_kafka_commit(kafka->reader, list, 1);
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
        kafka_delete_before(kafka, kafka->states, (int32_t)commit->partition, span.first);
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
        result = kafka_ask(kafka, &command, &answer, error);
    free(learned);
    for (size_t n = 0; n < count && result == 0; n++) {
        commits[n].refused = answer.results[n] == FLEET_REFUSED;
        commits[n].incomplete = answer.results[n] == FLEET_INCOMPLETE;
        delete_old(kafka, &commits[n]);
    }
    return result;
}

int kafka_commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
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

int kafka_states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_claim claim = {.partition = partition};
    size_t count;
    if (kafka_follow(kafka, true, error))
        return -1;
    if (!fleet_machine_claim(kafka->machine, &claim))
        return no_sense(kafka, error);
    const struct fleet_publication *list = fleet_machine_states(kafka->machine, partition, &count);
    return claim.committed
               ? kafka_visit(kafka, partition, list, count, claim.states, visit, context, error)
               : 0;
}
