#include "experiment_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "build-config.h"
#include "common/clock.h"
#include "common/error.h"
#include "config/config.h"
#include "experiment_progress.h"
#include "experiment_run.h"
#include "engine/engines.h"

enum { WAIT_MS = 100 /* between two looks at a signal, and at the progress */ };

/* What a worker has for the thread that keeps the results. */
struct done {
    struct experiment_outcome outcome;
    struct planned_run *run;
    char *configuration;
    struct error error; /* of a run that has failed */
};

struct worker {
    struct pool *pool;
    size_t number;
    pthread_t thread;
    bool started;
    bool ready; /* `done` is there to be taken */
    struct run_watch watch;
    struct done done;
};

struct pool {
    const struct pool_options *options;
    struct progress *progress;
    pthread_mutex_t lock;  /* of all that follows */
    pthread_cond_t change; /* something is ready, or has been taken */
    size_t next;           /* run of the plan */
    size_t working;        /* threads */
    struct worker *workers;
    pthread_mutex_t loading; /* configurations and engines */
    pthread_mutex_t device;  /* a GPU: one run at a time */
};

/* ---- A worker ---- */

static struct planned_run *next_run(struct pool *pool) {
    struct experiment_plan *plan = pool->options->plan;
    struct planned_run *run = NULL;
    while (!run && pool->next < plan->run_count && !*pool->options->stop) {
        run = &plan->runs[pool->next++];
        if (run->over || run->left_out)
            run = NULL;
    }
    return run;
}

/* All of it, as YAML. */
static int print_config(const struct config *config, char **text, struct error *error) {
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return error_no_memory(error);
    int result = config_print(out, config, NULL, error);
    return fclose(out) == 0 ? result : error_no_memory(error);
}

static int load(struct pool *pool, const struct planned_run *run, struct config *config,
                struct engines_choice *engine, char **text, struct error *error) {
    pthread_mutex_lock(&pool->loading);
    int result = plan_load(pool->options->plan, run, config, error) ||
                         engines_choose(engine, config->device, config, error) ||
                         print_config(config, text, error)
                     ? -1
                     : 0;
    pthread_mutex_unlock(&pool->loading);
    return result;
}

/* As run_play. */
static int play(struct worker *worker, struct planned_run *run) {
    struct pool *pool = worker->pool;
    const struct experiment_spec *spec = pool->options->plan->spec;
    const struct run_options options = {.recent = spec->recent,
                                        .points = spec->points,
                                        .keep = spec->keep,
                                        .beside = pool->options->jobs > 1,
                                        .stop = pool->options->stop};
    struct done *done = &worker->done;
    struct engines_choice engine;
    struct config *config = calloc(1, sizeof *config);
    *done = (struct done){.run = run};
    if (!config)
        return error_no_memory(&done->error);
    int result = load(pool, run, config, &engine, &done->configuration, &done->error);
    bool device = result == 0 && engine.ops != &cpu_engine;
    if (device)
        pthread_mutex_lock(&pool->device);
    if (result == 0)
        result = run_play(config, &engine, &pool->options->examples[run->stream], &options,
                          &worker->watch, &done->outcome, &done->error);
    if (device)
        pthread_mutex_unlock(&pool->device);
    free(config);
    return result;
}

/* Hand it over, and wait until it has been taken: its texts are the worker's. */
static void hand_over(struct worker *worker) {
    struct pool *pool = worker->pool;
    pthread_mutex_lock(&pool->lock);
    worker->ready = true;
    pthread_cond_broadcast(&pool->change);
    while (worker->ready)
        pthread_cond_wait(&pool->change, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void work_on(struct worker *worker, struct planned_run *run) {
    atomic_store(&worker->watch.messages, 0);
    atomic_store(&worker->watch.mean, 0);
    int result = play(worker, run);
    if (result < 0)
        worker->done.outcome.run.state = EXPERIMENT_FAILED;
    if (result != 1)
        hand_over(worker);
    run_clear(&worker->done.outcome);
    free(worker->done.configuration);
    worker->done.configuration = NULL;
}

static void *work(void *context) {
    struct worker *worker = context;
    struct pool *pool = worker->pool;
    pthread_mutex_lock(&pool->lock);
    for (struct planned_run *run; (run = next_run(pool));) {
        progress_begin(pool->progress, worker->number, run, &worker->watch);
        pthread_mutex_unlock(&pool->lock);
        work_on(worker, run);
        pthread_mutex_lock(&pool->lock);
    }
    progress_begin(pool->progress, worker->number, NULL, NULL);
    pool->working--;
    pthread_cond_broadcast(&pool->change);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- The thread that keeps the results ---- */

/* "cpu avx2, compiler 12.2.0, libc 2.36" */
static bool is_processor(const char *device) {
    return device && strncmp(device, "cpu ", strlen("cpu ")) == 0;
}

/* The first run that is over says what computes; runs of another machine are not mixed. */
static int check_device(struct pool *pool, const struct experiment_run *row, struct error *error) {
    const struct pool_options *options = pool->options;
    struct experiment_plan *plan = options->plan;
    if (!is_processor(row->device) || plan->checked)
        return 0;
    if (plan->device && strcmp(plan->device, row->device) != 0)
        return error_set(error, EX_DATAERR,
                         "%s has runs of \"%.100s\", and this is \"%.100s\", whose last bits are "
                         "others: choose another directory with -o, or throw the results away with "
                         "--again",
                         experiment_store_path(options->store), plan->device, row->device);
    char isa[32];
    const char *begin = row->device + strlen("cpu ");
    snprintf(isa, sizeof isa, "%.*s", (int)strcspn(begin, ","), begin);
    plan->checked = true;
    return experiment_store_say(options->store, "device", row->device, error) ||
                   experiment_store_say(options->store, "isa", isa, error)
               ? -1
               : 0;
}

static int keep(struct pool *pool, struct worker *worker, struct error *error) {
    const struct pool_options *options = pool->options;
    struct done *done = &worker->done;
    struct experiment_outcome outcome = done->outcome;
    struct experiment_run *row = &outcome.run;
    row->variant = options->plan->variant_numbers[done->run->variant];
    row->stream = options->plan->stream_numbers[done->run->stream];
    row->seed = done->run->seed;
    row->digest = done->run->digest;
    row->configuration = done->configuration;
    row->data = options->examples[done->run->stream].digest;
    row->version = PACKAGE_VERSION;
    row->error = NULL;
    if (row->state == EXPERIMENT_FAILED) {
        row->error = done->error.text;
        row->figures = experiment_no_figures;
    }
    if (check_device(pool, row, error) || experiment_store_put(options->store, &outcome, error))
        return -1;
    if (row->error && !pool->options->failures->count++)
        pool->options->failures->first = done->error;
    done->run->over = true;
    progress_over(pool->progress, worker->number, done->run, &outcome);
    return 0;
}

static struct worker *find_ready(struct pool *pool) {
    for (size_t n = 0; n < pool->options->jobs; n++)
        if (pool->workers[n].ready)
            return &pool->workers[n];
    return NULL;
}

static void wait_for_change(struct pool *pool) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * (long)(NS_PER_SECOND / 1000);
    until.tv_sec += until.tv_nsec / (long)NS_PER_SECOND;
    until.tv_nsec %= (long)NS_PER_SECOND;
    pthread_cond_timedwait(&pool->change, &pool->lock, &until);
}

/* Until all threads have ended. The lock is held while a run is put into the store: a few
   milliseconds in which only threads without work wait. */
static int keep_all(struct pool *pool, struct error *error) {
    int result = 0;
    pthread_mutex_lock(&pool->lock);
    while (pool->working > 0) {
        struct worker *worker = find_ready(pool);
        progress_show(pool->progress);
        if (!worker) {
            wait_for_change(pool);
            continue;
        }
        if (result == 0 && keep(pool, worker, error)) {
            result = -1;
            *pool->options->stop = 1;
        }
        worker->ready = false;
        pthread_cond_broadcast(&pool->change);
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}

/* ---- Opening and closing ---- */

/* Signals are for the thread that keeps the results. */
static int start(struct pool *pool, struct error *error) {
    sigset_t all, before;
    int reason = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&pool->lock);
    for (size_t n = 0; n < pool->options->jobs && reason == 0; n++) {
        struct worker *worker = &pool->workers[n];
        worker->pool = pool;
        worker->number = n;
        reason = pthread_create(&worker->thread, NULL, work, worker);
        worker->started = reason == 0;
        pool->working += worker->started;
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason == 0)
        return 0;
    *pool->options->stop = 1;
    return error_set(error, EX_OSERR, "cannot start a thread: %s", strerror(reason));
}

static int open_progress(struct pool *pool, struct error *error) {
    const struct pool_options *options = pool->options;
    const struct progress_options about = {.plan = options->plan,
                                           .examples = options->examples,
                                           .jobs = options->jobs,
                                           .quiet = options->quiet};
    pool->progress = progress_open(&about);
    return pool->progress ? 0 : error_no_memory(error);
}

int pool_run(const struct pool_options *options, struct error *error) {
    struct pool pool = {.options = options};
    pthread_condattr_t monotonic;
    pool.workers = calloc(options->jobs, sizeof *pool.workers);
    if (!pool.workers || open_progress(&pool, error)) {
        free(pool.workers);
        return error_no_memory(error);
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool.change, &monotonic);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.loading, NULL);
    pthread_mutex_init(&pool.device, NULL);
    struct error ignored;
    int result = start(&pool, error);
    if (keep_all(&pool, result ? &ignored : error))
        result = -1;
    for (size_t n = 0; n < options->jobs; n++)
        if (pool.workers[n].started)
            pthread_join(pool.workers[n].thread, NULL);
    progress_close(&pool.progress);
    free(pool.workers);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_destroy(&pool.change);
    pthread_mutex_destroy(&pool.lock);
    pthread_mutex_destroy(&pool.loading);
    pthread_mutex_destroy(&pool.device);
    return result;
}
