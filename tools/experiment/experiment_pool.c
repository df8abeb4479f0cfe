#include "experiment_pool.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/text.h"
#include "config/config.h"
#include "engine/engines.h"
#include "experiment_run.h"

/* ---- Progress: a line that is redrawn, or one line per run ---- */

enum { LINE_SIZE = 512, WIDTH = 80 };
static const double INTERVAL = 0.25;
static const char PROGRAM[] = "runnel-experiment";

/* The cost of a message of a variant on a stream. */
struct cost {
    double seconds;
    uint64_t messages;
};

struct work {
    const struct planned_run *run; /* NULL: none */
    const struct run_watch *watch;
    double begun;
};

struct progress {
    struct pool_options options;
    bool terminal, drawn;
    double shown;
    struct cost *costs; /* (variants, streams) */
    struct cost all;
    struct work *work;  /* (jobs,) */
    uint64_t *messages; /* (streams,) */
    bool *reported;     /* (streams,) whether rejected messages were reported */
    size_t total, over, left, turn;
};

static struct cost *cost_of(const struct progress *p, const struct planned_run *run) {
    return &p->costs[run->variant * p->options.plan->spec->stream_count + run->stream];
}

static void clear_line(struct progress *p) {
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

static void progress_close(struct progress **progress) {
    struct progress *p = *progress;
    *progress = NULL;
    if (!p)
        return;
    clear_line(p);
    free(p->messages);
    free(p->reported);
    free(p->costs);
    free(p->work);
    free(p);
}

/* NULL: out of memory. */
static struct progress *progress_open(const struct pool_options *options) {
    struct progress *p = calloc(1, sizeof *p);
    const struct experiment_spec *spec = options->plan->spec;
    if (!p)
        return NULL;
    p->options = *options;
    p->terminal = isatty(STDERR_FILENO) == 1 && !options->quiet;
    p->total = options->plan->run_count;
    p->left = plan_left(options->plan);
    for (size_t n = 0; n < options->plan->run_count; n++)
        p->over += options->plan->runs[n].over;
    p->costs = calloc(spec->variant_count * spec->stream_count + 1, sizeof *p->costs);
    p->work = calloc(options->jobs + 1, sizeof *p->work);
    p->messages = calloc(spec->stream_count + 1, sizeof *p->messages);
    p->reported = calloc(spec->stream_count + 1, sizeof *p->reported);
    if (!p->costs || !p->work || !p->messages || !p->reported)
        progress_close(&p);
    for (size_t n = 0; p && n < spec->stream_count; n++)
        p->messages[n] = options->examples[n].count;
    return p;
}

/* ---- Time left ---- */

static void add_cost(struct cost *cost, double seconds, uint64_t messages) {
    cost->seconds += seconds;
    cost->messages += messages;
}

/* Seconds for that many messages of the run: from other runs of its variant, or else from all;
   NaN: unknown. */
static double seconds_for(const struct progress *p, const struct planned_run *run,
                          const struct cost *now, double messages) {
    const struct cost *cost = cost_of(p, run);
    if (!cost->messages)
        cost = p->all.messages ? &p->all : now;
    return cost->messages ? messages * cost->seconds / (double)cost->messages : NAN;
}

static double time_left(const struct progress *p) {
    struct cost now = {0};
    double at = clock_seconds(), sum = 0;
    for (size_t n = 0; n < p->options.jobs; n++)
        if (p->work[n].run)
            add_cost(&now, at - p->work[n].begun, atomic_load(&p->work[n].watch->messages));
    for (size_t n = 0; n < p->options.plan->run_count; n++) {
        const struct planned_run *run = &p->options.plan->runs[n];
        if (!run->over && !run->left_out)
            sum += seconds_for(p, run, &now, (double)p->messages[run->stream]);
    }
    for (size_t n = 0; n < p->options.jobs; n++)
        if (p->work[n].run)
            sum -= seconds_for(p, p->work[n].run, &now,
                               (double)atomic_load(&p->work[n].watch->messages));
    return fmax(sum / (double)(p->options.jobs < p->left ? p->options.jobs : p->left), 0);
}

/* ---- Output ---- */

/* "etth1, rate 1e-3, seed 2": with one stream without its name. */
static const char *name_of(const struct progress *p, const struct planned_run *run,
                           char text[LINE_SIZE]) {
    const struct experiment_spec *spec = p->options.plan->spec;
    bool several = spec->stream_count > 1;
    snprintf(text, LINE_SIZE, "%s%s%s, seed %lld", several ? spec->streams[run->stream].name : "",
             several ? ", " : "", spec->variants[run->variant].name, (long long)run->seed);
    return text;
}

/* A run has begun on that worker; `watch` has its progress until it ends. NULL: it was stopped. */
static void progress_begin(struct progress *p, size_t worker, const struct planned_run *run,
                           const struct run_watch *watch) {
    p->work[worker] = (struct work){watch ? run : NULL, watch, clock_seconds()};
}

static void report_end(struct progress *p, const struct planned_run *run,
                       const struct experiment_outcome *over) {
    const struct experiment_run *outcome = &over->run;
    char name[LINE_SIZE], line[2 * LINE_SIZE], figure[LINE_SIZE] = "";
    const struct experiment_figures *f = &outcome->figures;
    if (outcome->state == EXPERIMENT_FAILED)
        snprintf(figure, sizeof figure, "failed: %.400s", outcome->error);
    else if (isfinite(f->skill))
        snprintf(figure, sizeof figure, "loss %.5g, skill %.4g", f->mean, f->skill);
    else
        snprintf(figure, sizeof figure, "loss %.5g", f->mean);
    snprintf(line, sizeof line, "%s: %zu of %zu: %s: %s%s, %.1f s", PROGRAM, p->over, p->total,
             name_of(p, run, name), figure,
             outcome->state == EXPERIMENT_NONFINITE ? " (not finite)" : "", outcome->seconds);
    text_clean(line);
    fprintf(stderr, "%s\n", line);
}

/* Once per stream. */
static void report_rejected(struct progress *p, const struct planned_run *run,
                            const struct experiment_outcome *outcome) {
    char line[2 * LINE_SIZE];
    if (!outcome->run.rejected || p->reported[run->stream])
        return;
    p->reported[run->stream] = true;
    snprintf(line, sizeof line,
             "%s: stream %s: %llu of %llu messages were rejected, the first as %s", PROGRAM,
             p->options.plan->spec->streams[run->stream].name,
             (unsigned long long)outcome->run.rejected,
             (unsigned long long)p->messages[run->stream], outcome->rejected);
    text_clean(line);
    fprintf(stderr, "%s\n", line);
}

static void progress_over(struct progress *p, size_t worker, const struct planned_run *run,
                          const struct experiment_outcome *outcome) {
    uint64_t messages = p->messages[run->stream];
    p->work[worker].run = NULL;
    add_cost(cost_of(p, run), outcome->run.seconds, messages);
    add_cost(&p->all, outcome->run.seconds, messages);
    p->over++;
    p->left -= p->left > 0;
    if (p->options.quiet)
        return;
    clear_line(p);
    report_end(p, run, outcome);
    report_rejected(p, run, outcome);
}

static size_t terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH;
}

/* One of the active runs, another each time. */
static const struct work *next_work(struct progress *p) {
    for (size_t n = 0; n < p->options.jobs; n++) {
        const struct work *work = &p->work[(p->turn + n) % p->options.jobs];
        if (!work->run)
            continue;
        p->turn = (p->turn + n + 1) % p->options.jobs;
        return work;
    }
    return NULL;
}

/* Draws the line, a few times per second. */
static void progress_show(struct progress *p) {
    enum { SLOWLY = 8 }; /* redraws until another active run is shown */
    static size_t drawn;
    char line[2 * LINE_SIZE], name[LINE_SIZE], left[FORMAT_SIZE];
    double now = clock_seconds();
    if (!p->terminal || now < p->shown + INTERVAL)
        return;
    p->shown = now;
    size_t turn = p->turn;
    const struct work *work = next_work(p);
    if (++drawn % SLOWLY)
        p->turn = turn;
    snprintf(line, sizeof line, "%zu of %zu runs, %s left", p->over, p->total,
             format_left(left, time_left(p)));
    if (work) {
        double mean = atomic_load(&work->watch->mean);
        double share =
            (double)atomic_load(&work->watch->messages) / (double)p->messages[work->run->stream];
        text_append(line, sizeof line, "; %s: %.0f%%", name_of(p, work->run, name), 100 * share);
        if (isfinite(mean))
            text_append(line, sizeof line, ", loss %.4g", mean);
    }
    size_t width = terminal_width();
    char shown[2 * LINE_SIZE];
    text_copy(shown, width < sizeof shown ? width : sizeof shown, line);
    fprintf(stderr, "\r\033[K%s", shown);
    fflush(stderr);
    p->drawn = true;
}

enum { WAIT_MS = 100 /* between two checks for signals, with progress */ };

/* Results of a worker for the thread that stores them. */
struct done {
    struct experiment_outcome outcome;
    struct planned_run *run;
    char *configuration;
    struct error error; /* of a failed run */
};

struct worker {
    struct workers *pool;
    size_t number;
    pthread_t thread;
    bool started;
    bool ready; /* `done` is ready */
    struct run_watch watch;
    struct done done;
};

struct workers {
    const struct pool_options *options;
    struct progress *progress;
    pthread_mutex_t lock;  /* protects all fields below */
    pthread_cond_t change; /* something is ready, or was taken */
    size_t next;           /* run of the plan */
    size_t working;        /* threads */
    struct worker *workers;
    pthread_mutex_t loading; /* protects configurations and engines */
    pthread_mutex_t device;  /* a GPU: one run at a time */
};

/* ---- A worker ---- */

static struct planned_run *next_run(struct workers *pool) {
    struct experiment_plan *plan = pool->options->plan;
    struct planned_run *run = NULL;
    while (!run && pool->next < plan->run_count && !*pool->options->stop) {
        run = &plan->runs[pool->next++];
        if (run->over || run->left_out)
            run = NULL;
    }
    return run;
}

/* The whole configuration as YAML. */
static int print_config(const struct config *config, char **text, struct error *error) {
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return error_no_memory(error);
    int result = config_print(out, config, NULL, error);
    return fclose(out) == 0 ? result : error_no_memory(error);
}

static int load(struct workers *pool, const struct planned_run *run, struct config *config,
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
    struct workers *pool = worker->pool;
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

/* Passes its results on, and waits until they are stored: the texts belong to the worker. */
static void hand_over(struct worker *worker) {
    struct workers *pool = worker->pool;
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
    struct workers *pool = worker->pool;
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

/* ---- The thread that stores the results ---- */

/* "cpu avx2, compiler 12.2.0, libc 2.36" */
static bool is_processor(const char *device) {
    return device && strncmp(device, "cpu ", strlen("cpu ")) == 0;
}

/* The first finished run sets the device; runs of another machine are not mixed. */
static int check_device(struct workers *pool, const struct experiment_run *row,
                        struct error *error) {
    const struct pool_options *options = pool->options;
    struct experiment_plan *plan = options->plan;
    if (!is_processor(row->device) || plan->checked)
        return 0;
    if (plan->device && strcmp(plan->device, row->device) != 0)
        return error_set(error, EX_DATAERR,
                         "%s has runs of \"%.100s\", but \"%.100s\" computes different bits; "
                         "choose another directory with -o, or discard the results with --again",
                         experiment_store_path(options->store), plan->device, row->device);
    char isa[32];
    const char *begin = row->device + strlen("cpu ");
    snprintf(isa, sizeof isa, "%.*s", (int)strcspn(begin, ","), begin);
    plan->checked = true;
    return experiment_store_set(options->store, "device", row->device, error) ||
                   experiment_store_set(options->store, "isa", isa, error)
               ? -1
               : 0;
}

static int keep(struct workers *pool, struct worker *worker, struct error *error) {
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

static struct worker *find_ready(struct workers *pool) {
    for (size_t n = 0; n < pool->options->jobs; n++)
        if (pool->workers[n].ready)
            return &pool->workers[n];
    return NULL;
}

static void wait_for_change(struct workers *pool) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * (long)(NS_PER_SECOND / 1000);
    until.tv_sec += until.tv_nsec / (long)NS_PER_SECOND;
    until.tv_nsec %= (long)NS_PER_SECOND;
    pthread_cond_timedwait(&pool->change, &pool->lock, &until);
}

/* Stores results until all threads have ended. The lock is held while a run is stored: a few
   milliseconds in which only threads without work wait. */
static int keep_all(struct workers *pool, struct error *error) {
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

/* The thread that stores the results handles signals. */
static int start(struct workers *pool, struct error *error) {
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

static int open_progress(struct workers *pool, struct error *error) {
    pool->progress = progress_open(pool->options);
    return pool->progress ? 0 : error_no_memory(error);
}

int pool_run(const struct pool_options *options, struct error *error) {
    struct workers pool = {.options = options};
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
