#include "take.h"

#include <stdio.h>
#include <string.h>

#include "alarms.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/example.h"
#include "common/text.h"
#include "journalling.h"
#include "learning.h"
#include "observe.h"
#include "parts.h"
#include "parts/words.h"
#include "run.h"
#include "source.h"

/* about the time between two visits to the other sockets */
#define BATCH_TIME (20 * NS_PER_SECOND / 1000)

static size_t allowed(const struct daemon *daemon, size_t batch) {
    return daemon->source->batch ? daemon->source->batch(daemon, batch) : batch;
}

bool take_is_wanted(const struct daemon *daemon) {
    return (run_is_stopping(daemon) || !run_is_paused(daemon)) && journalling_has_room(daemon) &&
           allowed(daemon, 1) > 0;
}

static int reject_example(struct daemon *daemon, const struct example *example,
                          enum reject_reason reason, const char *why, struct error *error) {
    const struct source_answer answer = {.status = WIRE_REJECTED, .reason = reason, .text = why};
    return daemon->source->answer(daemon, example, &answer, error);
}

/* Returns whether the example has a word that a full vocabulary does not contain. */
static bool is_refused(const struct daemon *daemon, const struct example *example,
                       char why[REJECT_WHY_SIZE]) {
    char quoted[TEXT_QUOTE_SIZE];
    const char *word;
    size_t size;
    const char *of = words_refused(learner_host(daemon->learner), example, &word, &size);
    if (!of)
        return false;
    if (word)
        text_quote(quoted, word, size);
    bool column = daemon->config->architecture.input.column_count && strcmp(of, "output") != 0;
    snprintf(why, REJECT_WHY_SIZE, "unknown word %s: the vocabulary of %s%s is full",
             word ? quoted : "(a number)", column ? "x's column " : "model.", of);
    return true;
}

static int take_example(struct daemon *daemon, struct example *example, struct error *error) {
    struct source_answer accepted = {.status = WIRE_ACCEPTED};
    struct verdict verdict;
    char why[REJECT_WHY_SIZE];
    if (journalling_check(daemon, example, &verdict, error))
        return -1;
    if (verdict.kind == VERDICT_DUPLICATE) {
        const struct source_answer known = {
            .status = WIRE_DUPLICATE, .why = verdict.why, .position = verdict.position};
        return daemon->source->answer(daemon, example, &known, error);
    }
    if (verdict.kind == VERDICT_REJECTED)
        return reject_example(daemon, example, verdict.reason, verdict.text, error);
    if (is_refused(daemon, example, why))
        return reject_example(daemon, example, REJECT_VOCABULARY, why, error);
    if (verdict.number_ignored)
        example->numbered = false;
    alarms_keep_note(daemon, example);
    if (journalling_append(daemon, example, &accepted.position, error) ||
        daemon->source->answer(daemon, example, &accepted, error) ||
        learner_take(daemon->learner, example, error))
        return -1;
    if (accepted.position)
        learner_set_position(daemon->learner, accepted.position);
    return 0;
}

/* Takes the waiting examples, at most `batch`, and returns their number; -1 on error. To save
   reading the clock, an example's time of receipt is when the newest plan since `begin` had been
   played. */
static int take_batch(struct daemon *daemon, size_t batch, uint64_t begin, struct error *error) {
    size_t taken = 0;
    for (; taken < batch && journalling_has_room(daemon); taken++) {
        struct example example;
        uint64_t played = observe_played(daemon);
        uint64_t now = played > begin ? played : begin;
        int got = daemon->source->take(daemon, now, &example, error);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        if (take_example(daemon, &example, error))
            return run_break(daemon);
    }
    return (int)taken;
}

/* Returns a batch size that takes about BATCH_TIME. */
static size_t next_batch(size_t batch, uint64_t elapsed, size_t taken) {
    uint64_t each = elapsed / taken + 1, fitting = BATCH_TIME / each;
    size_t next = fitting < 2 * batch ? (size_t)fitting : 2 * batch;
    return next < 1 ? 1 : next > LEARNING_BATCH_MAX ? LEARNING_BATCH_MAX : next;
}

int take_examples(struct daemon *daemon, size_t *batch, struct error *error) {
    uint64_t begin = clock_ns();
    int taken = take_batch(daemon, allowed(daemon, *batch), begin, error);
    if (taken <= 0)
        return taken;
    if (learner_flush(daemon->learner, error))
        return run_break(daemon);
    observe_want_outputs(daemon);
    checkpoints_changed(daemon);
    *batch = next_batch(*batch, clock_ns() - begin, (size_t)taken);
    return 0;
}
