#include "take.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "alarms.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/text.h"
#include "consuming.h"
#include "fleet.h"
#include "journalling.h"
#include "common/example.h"
#include "learning.h"
#include "observe.h"
#include "parts.h"
#include "run.h"

#define BATCH_TIME (20 * NS_PER_SECOND / 1000) /* between two looks at the other sockets, about */

bool take_is_wanted(const struct daemon *daemon) {
    return (run_is_stopping(daemon) || !run_is_paused(daemon)) && journalling_has_room(daemon) &&
           fleet_takes(daemon);
}

static int answer(struct daemon *daemon, const struct example *example, enum wire_status status,
                  enum wire_duplicate why, uint64_t position, struct error *error) {
    struct acknowledge_entry entry = {
        .key = example->key,
        .key_size = example->key_size,
        .acknowledgement = {.status = (uint8_t)status,
                            .reason = (uint16_t)why,
                            .epoch = example->epoch,
                            .sequence = example->sequence,
                            .position = position},
        .steps = example->steps,
    };
    entry.peer = ingest_peer(daemon->ingest, &entry.peer_size);
    if (example->result && status == WIRE_ACCEPTED) {
        entry.example = learner_taken(daemon->learner) + 1;
        learner_want_outputs(daemon->learner, true);
    }
    return acknowledge_add(daemon->acknowledge, &entry, error);
}

/* A word beyond a vocabulary that takes no more. */
static bool is_refused(struct daemon *daemon, const struct example *example) {
    char why[REJECT_WHY_SIZE], quoted[TEXT_QUOTE_SIZE];
    const char *word;
    size_t size;
    const char *of = learner_word_refused(daemon->learner, example, &word, &size);
    if (!of)
        return false;
    if (word)
        text_quote(quoted, word, size);
    bool column = daemon->config->architecture.input.column_count && strcmp(of, "output") != 0;
    snprintf(why, sizeof why, "%s is not in the vocabulary of %s%s, which is full",
             word ? quoted : "a number", column ? "x's column " : "model.", of);
    if (daemon->consume)
        consuming_refuse(daemon, REJECT_VOCABULARY, why);
    else
        ingest_reject(daemon->ingest, example, REJECT_VOCABULARY, why);
    return true;
}

/* In a fleet, one that was written to another partition than its stream's. */
static bool is_elsewhere(struct daemon *daemon, const struct example *example) {
    char why[REJECT_WHY_SIZE];
    bool elsewhere = fleet_refuses(daemon, example, why, sizeof why);
    if (elsewhere)
        consuming_refuse(daemon, REJECT_KEY, why);
    return elsewhere;
}

static int take_example(struct daemon *daemon, struct example *example, struct error *error) {
    uint64_t position;
    struct verdict verdict;
    if (journalling_judge(daemon, example, &verdict, error))
        return -1;
    if (verdict.kind == VERDICT_DUPLICATE)
        return answer(daemon, example, WIRE_DUPLICATE, verdict.why, verdict.position, error);
    if (verdict.kind == VERDICT_REJECTED) {
        ingest_reject(daemon->ingest, example, verdict.reason, verdict.text);
        return 0;
    }
    if (is_elsewhere(daemon, example) || is_refused(daemon, example))
        return 0;
    if (verdict.number_ignored)
        example->numbered = false;
    alarms_keep_note(daemon, example);
    if (journalling_append(daemon, example, &position, error) ||
        (daemon->acknowledge && answer(daemon, example, WIRE_ACCEPTED, 0, position, error)) ||
        learner_take(daemon->learner, example, error))
        return -1;
    if (position)
        learner_set_position(daemon->learner, position);
    return 0;
}

/* As many as waited, or fit into the batch; -1 on error. An example is received when the newest
   plan had been played, if one was since `begin`: the clock is not read for each. */
static int take_batch(struct daemon *daemon, size_t batch, uint64_t begin, struct error *error) {
    size_t taken = 0;
    for (; taken < batch && journalling_has_room(daemon); taken++) {
        struct example example;
        uint64_t played = observe_played(daemon);
        uint64_t now = played > begin ? played : begin;
        int got = daemon->consume ? consuming_take(daemon, now, &example, error)
                                  : ingest_take(daemon->ingest, now, &example, error);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        if (take_example(daemon, &example, error))
            return run_break(daemon);
    }
    return (int)taken;
}

/* The next batch, so that it takes about BATCH_TIME. */
static size_t next_batch(size_t batch, uint64_t elapsed, size_t taken) {
    uint64_t each = elapsed / taken + 1, fitting = BATCH_TIME / each;
    size_t next = fitting < 2 * batch ? (size_t)fitting : 2 * batch;
    return next < 1 ? 1 : next > LEARNING_BATCH_MAX ? LEARNING_BATCH_MAX : next;
}

int take_examples(struct daemon *daemon, size_t *batch, struct error *error) {
    uint64_t begin = clock_ns();
    int taken = take_batch(daemon, fleet_batch(daemon, *batch), begin, error);
    if (taken <= 0)
        return taken;
    if (learner_flush(daemon->learner, error))
        return run_break(daemon);
    observe_want_outputs(daemon);
    checkpoints_changed(daemon);
    *batch = next_batch(*batch, clock_ns() - begin, (size_t)taken);
    return 0;
}
