#include "experiment_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "config/config.h"
#include "daemon/learning.h"
#include "experiment_course.h"
#include "experiment_memory.h"
#include "experiment_spec.h"
#include "engine/engines.h"
#include "learner/learner.h"
#include "learner/learner_export.h"
#include "sockets/decode.h"

enum { LOOK = 64 /* messages between two looks at what others want */ };

struct run {
    struct config *config;
    const struct examples *examples;
    const struct run_options *options;
    struct model model;
    struct decoder *decoder;
    struct learner *learner;
    struct course *course;
    uint64_t rejected;
    char why[EXPERIMENT_WHY_SIZE]; /* the first of them was */
    double started, seconds, cpu_seconds;
};

static void on_learned(void *context, const struct learned *learned) {
    struct run *run = context;
    course_add(run->course, learned);
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    (void)context;
    (void)key;
    (void)key_size;
}

static void count_rejection(struct run *run, const char *reason, const char *why) {
    if (run->rejected++ == 0)
        snprintf(run->why, sizeof run->why, "%s: %s", reason, why);
}

/* A label that changes nothing counts as one that was rejected, as in a daemon. */
static void on_refused(void *context, const struct example *label, enum label_refusal reason,
                       const char *why) {
    (void)label;
    count_rejection(context, learner_label_refusal(reason), why);
}

/* ---- Opening and closing ---- */

static int open_learner(struct run *run, struct engines_choice *engine, struct error *error) {
    const struct learner_observer observer = {
        .context = run, .learned = on_learned, .forgotten = on_forgotten, .refused = on_refused};
    while (learner_open(&run->learner, run->config, &run->model, engine->ops, LEARNING_BATCH_MAX,
                        &observer, error))
        if (!engines_fall_back(engine, error))
            return -1;
    return 0;
}

/* Runs side by side would each take the machine, and pin their threads to the same CPUs. */
static void share_machine(struct config *config) {
    if (!config->threads.count)
        config->threads.count = 1;
    strcpy(config->threads.pin, "false");
}

static int open_run(struct run *run, struct engines_choice *engine, struct error *error) {
    const struct course_options options = {
        .messages = run->examples->count,
        .points = run->options->points,
        .recent = run->options->recent,
        .keep_losses = run->options->keep & SPEC_LOSSES,
        .keep_weights = run->options->keep & SPEC_WEIGHTS,
    };
    run->config->predictions = PREDICTIONS_NONE; /* nobody reads them, and no bit depends on it */
    run->config->anomaly.enabled = false;        /* likewise */
    if (run->options->beside)
        share_machine(run->config);
    model_build(&run->model, &run->config->architecture);
    return decoder_open(&run->decoder, &run->model, run->config->many_steps, error) ||
                   open_learner(run, engine, error) ||
                   course_open(&run->course, &options, &run->model, run->learner, error)
               ? -1
               : 0;
}

static void close_run(struct run *run) {
    course_close(&run->course);
    learner_close(&run->learner);
    decoder_close(&run->decoder);
    free(run);
}

/* ---- Learning ---- */

/* As a daemon's PULL socket takes it: ingest_take, then take_example. */
static int take_message(struct run *run, size_t n, struct error *error) {
    struct frame frames[MESSAGE_FRAMES_MAX];
    struct example example;
    char why[REJECT_WHY_SIZE];
    const char *word;
    size_t word_size;
    size_t count = examples_message(run->examples, n, frames);
    enum reject_reason reason = decode(run->decoder, frames, count, &example, why);
    if (reason == REJECT_NOT && example.steps == 0) /* a schema that fits */
        return 0;
    example.received = 0;
    if (reason == REJECT_NOT && learner_word_refused(run->learner, &example, &word, &word_size))
        reason = reject(REJECT_VOCABULARY, why, "a word is in no vocabulary, which is full");
    if (reason == REJECT_NOT)
        return learner_take(run->learner, &example, error);
    count_rejection(run, reject_name(reason), why);
    return 0;
}

/* The messages up to `end`. */
static int take_messages(struct run *run, size_t *next, size_t end, struct run_watch *watch,
                         struct error *error) {
    for (; *next < end; (*next)++) {
        if (*next % LOOK == 0) {
            if (*run->options->stop)
                return 1;
            atomic_store_explicit(&watch->messages, *next, memory_order_relaxed);
            atomic_store_explicit(&watch->mean, course_mean(run->course), memory_order_relaxed);
        }
        if (take_message(run, *next, error))
            return -1;
    }
    return learner_flush(run->learner, error);
}

static double thread_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / NS_PER_SECOND;
}

static int learn(struct run *run, struct run_watch *watch, struct error *error) {
    double begin = clock_seconds(), cpu = thread_seconds();
    size_t next = 0;
    int result = 0;
    run->started = clock_unix();
    while (next < run->examples->count && result == 0) {
        result = take_messages(run, &next, course_next(run->course, next), watch, error);
        if (result == 0)
            result = course_reach(run->course, next, error);
    }
    run->seconds = clock_seconds() - begin;
    run->cpu_seconds = thread_seconds() - cpu;
    return result;
}

/* ---- The outcome ---- */

static int put_parameters(struct run *run, struct experiment_outcome *outcome,
                          struct error *error) {
    struct safetensors_memory memory;
    if (!(run->options->keep & SPEC_PARAMETERS))
        return 0;
    if (learner_export(run->learner, run->config->compatible, &memory, error))
        return -1;
    outcome->parameters = memory.bytes;
    outcome->parameters_size = memory.size;
    return 0;
}

static int put_outcome(struct run *run, struct experiment_outcome *outcome, struct error *error) {
    struct learner_counters counters = learner_counters(run->learner);
    struct experiment_run *row = &outcome->run;
    row->device = strdup(learner_device(run->learner));
    row->parameters = learner_parameters(run->learner);
    row->examples = counters.examples;
    row->steps = counters.steps;
    row->updates = counters.updates;
    row->skipped = counters.skipped;
    row->rejected = run->rejected;
    row->started = run->started;
    row->seconds = run->seconds;
    row->cpu_seconds = run->cpu_seconds;
    memcpy(outcome->rejected, run->why, sizeof outcome->rejected);
    if (!row->device)
        return error_no_memory(error);
    if (row->examples == 0)
        return error_set(
            error, EX_DATAERR,
            "all %zu messages are rejected, the first as %s: does the configuration fit "
            "the stream?",
            run->examples->count, run->why);
    return course_finish(run->course, outcome, error) || put_parameters(run, outcome, error) ? -1
                                                                                             : 0;
}

int run_play(struct config *config, struct engines_choice *engine, const struct examples *examples,
             const struct run_options *options, struct run_watch *watch,
             struct experiment_outcome *outcome, struct error *error) {
    struct run *run = calloc(1, sizeof *run);
    *outcome = (struct experiment_outcome){0};
    if (!run)
        return error_no_memory(error);
    run->config = config;
    run->examples = examples;
    run->options = options;
    int result = open_run(run, engine, error);
    if (result == 0)
        result = learn(run, watch, error);
    if (result == 0)
        result = put_outcome(run, outcome, error);
    close_run(run);
    return result;
}

static void release(const void *memory) {
    free((void *)(uintptr_t)memory);
}

void run_clear(struct experiment_outcome *outcome) {
    release(outcome->run.device);
    release(outcome->run.losses_digest);
    release(outcome->run.parameters_digest);
    release(outcome->points);
    release(outcome->columns);
    release(outcome->experts);
    release(outcome->losses);
    release(outcome->weights);
    release(outcome->parameters);
    *outcome = (struct experiment_outcome){0};
}
