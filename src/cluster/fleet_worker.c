#include "fleet_worker.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/threads.h"

struct fleet_worker {
    const struct fleet_self *self;
    const char *where;
    int event; /* eventfd */
    pthread_t thread;
    bool runs;

    /* Fields of the thread until it has ended. */
    struct fleet_link *link;
    bool joined;
    double joined_at; /* clock_seconds */
    /* how often in a row another process took over the name soon after the join */
    int displaced;
    uint64_t namesake;       /* end of the lease of another daemon with this name */
    int namesake_renewed;    /* how often that lease was renewed */
    double retry;            /* clock_seconds of the next attempt to join; 0: the name is free */
    double due;              /* clock_seconds of the next renewal */
    double look_due;         /* clock_seconds of the next query without a change */
    struct fleet_view known; /* the newest view, copied for the learning thread */
    double pause;            /* seconds to the next retry */

    /* Fields of both threads, protected by the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t something; /* wakes the thread */
    struct fleet_job *asked, *done;
    uint64_t jobs; /* number of finished jobs */
    struct fleet_view view;
    bool seen;     /* the view is new */
    bool look;     /* a view is requested */
    uint64_t pass; /* the round that need not wait for this daemon; 0: none */
    bool closing;  /* the thread has to end */
    bool failed;   /* the thread has ended with an error */
    struct error error;
    double away; /* clock_seconds: since when the broker does not answer; 0: it answers */
    char *info;
};

#define SECOND ((double)NS_PER_SECOND)
#define LOOK_INTERVAL 5.0 /* seconds between queries of other daemons' reports */
#define PAUSE_FIRST 0.05
#define PAUSE_MAX 2.0
#define NAMESAKE_PAUSE 1.0
/* seconds, plus two leases: two daemons with one name have noticed each other by then */
#define SOON 10.0

enum { LOOK_DAEMONS_MAX = 32, DISPLACED_MAX = 3, NAMESAKE_RENEWALS = 2 };

/* ---- Both threads ---- */

static void wake(struct fleet_worker *worker) {
    const uint64_t one = 1;
    if (write(worker->event, &one, sizeof one) != sizeof one && errno != EAGAIN)
        log_warning("cannot write an eventfd: %s", strerror(errno));
}

int fleet_worker_descriptor(const struct fleet_worker *worker) {
    return worker->event;
}

void fleet_worker_set_info(struct fleet_worker *worker, const char *info) {
    char *copy = strdup(info);
    pthread_mutex_lock(&worker->mutex);
    if (copy) {
        free(worker->info);
        worker->info = copy;
    }
    pthread_mutex_unlock(&worker->mutex);
}

void fleet_worker_ask(struct fleet_worker *worker, struct fleet_job *job) {
    struct fleet_job **end;
    pthread_mutex_lock(&worker->mutex);
    for (end = &worker->asked; *end; end = &(*end)->next)
        continue;
    *end = job;
    pthread_cond_signal(&worker->something);
    pthread_mutex_unlock(&worker->mutex);
}

int fleet_worker_poll(struct fleet_worker *worker, struct fleet_job **done, struct fleet_view *view,
                      bool *seen, struct error *error) {
    uint64_t count;
    if (read(worker->event, &count, sizeof count) < 0 && errno != EAGAIN)
        return error_set(error, EX_OSERR, "cannot read an eventfd: %s", strerror(errno));
    pthread_mutex_lock(&worker->mutex);
    int result = worker->failed ? -1 : 0;
    if (result)
        *error = worker->error;
    *done = result ? NULL : worker->done;
    if (*done) {
        worker->done = (*done)->next;
        (*done)->next = NULL;
    }
    *seen = !result && worker->seen;
    if (*seen) {
        *view = worker->view;
        worker->view = (struct fleet_view){0};
        worker->seen = false;
    }
    if (worker->done)
        wake(worker);
    pthread_mutex_unlock(&worker->mutex);
    return result;
}

bool fleet_worker_wait(const struct fleet_worker *worker, double seconds) {
    struct pollfd event = {.fd = worker->event, .events = POLLIN};
    return poll(&event, 1, clock_milliseconds(seconds)) > 0;
}

void fleet_worker_pass(struct fleet_worker *worker, uint64_t round) {
    pthread_mutex_lock(&worker->mutex);
    worker->pass = round;
    pthread_mutex_unlock(&worker->mutex);
}

double fleet_worker_away(struct fleet_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    double since = worker->away;
    pthread_mutex_unlock(&worker->mutex);
    return since > 0 ? clock_seconds() - since : 0;
}

/* ---- The thread ---- */

/* Waits until the deadline (CLOCK_MONOTONIC) or until there is work. Locked. */
static void wait_until(struct fleet_worker *worker, double deadline) {
    const struct timespec at = {.tv_sec = (time_t)deadline,
                                .tv_nsec = (long)((deadline - (double)(time_t)deadline) * SECOND)};
    pthread_cond_timedwait(&worker->something, &worker->mutex, &at);
}

static bool is_set(struct fleet_worker *worker, const bool *flag) {
    pthread_mutex_lock(&worker->mutex);
    bool set = *flag;
    pthread_mutex_unlock(&worker->mutex);
    return set;
}

/* Whether the error is not a failure of the broker. If so, reports it to the daemon and stops. */
static bool is_final(struct fleet_worker *worker, const struct error *error) {
    if (error->status == EX_TEMPFAIL)
        return false;
    pthread_mutex_lock(&worker->mutex);
    worker->failed = true;
    worker->error = *error;
    wake(worker);
    pthread_mutex_unlock(&worker->mutex);
    return true;
}

static void is_away(struct fleet_worker *worker, const struct error *error) {
    pthread_mutex_lock(&worker->mutex);
    bool first = worker->away == 0;
    if (first)
        worker->away = clock_seconds();
    worker->pause = first ? PAUSE_FIRST : worker->pause < PAUSE_MAX ? 2 * worker->pause : PAUSE_MAX;
    if (!worker->closing)
        wait_until(worker, clock_seconds() + worker->pause);
    pthread_mutex_unlock(&worker->mutex);
    if (first)
        log_warning("%s: fleet %s is not available: %s; trying again until it answers (learning "
                    "continues, and the journal keeps it)",
                    worker->where, worker->self->group, error->text);
}

static void is_back(struct fleet_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    double since = worker->away;
    worker->away = 0;
    pthread_mutex_unlock(&worker->mutex);
    if (since > 0)
        log_info("%s: fleet %s is available again after %.1f s", worker->where, worker->self->group,
                 clock_seconds() - since);
}

static char *info_of(struct fleet_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    char *info = strdup(worker->info ? worker->info : "{}");
    pthread_mutex_unlock(&worker->mutex);
    return info;
}

/* Another process has joined with the same name and ID. It may be an earlier process of this
   daemon, if the broker has lost data; so this daemon joins again. If both processes run, they
   displace each other in turn until one ends. */
static int is_displaced(struct fleet_worker *worker, struct error *error) {
    const struct fleet_self *self = worker->self;
    bool soon = clock_seconds() - worker->joined_at < SOON + 2 * self->lease;
    worker->displaced = soon ? worker->displaced + 1 : 1;
    if (worker->displaced >= DISPLACED_MAX)
        return error_set(
            error, EX_CONFIG,
            "another daemon with the name %s is in the fleet %s, with a copy of this state "
            "directory: give each daemon its own name (name) and an empty state.directory",
            self->name, self->group);
    log_warning(
        "another daemon with the name %s has joined the fleet %s, with this state directory or a "
        "copy of it; this daemon joins again, and ends if that happens repeatedly",
        self->name, self->group);
    return 0;
}

/* The other daemon may have ended: for instance an earlier process of this daemon, whose state
   directory was emptied. Then its lease is not renewed, except for one renewal on its way. */
static bool waits_for_namesake(struct fleet_worker *worker) {
    const struct fleet_namesake *other = &worker->link->namesake;
    if (!other->end)
        return false;
    if (!worker->namesake)
        log_warning("another daemon with the name %s may be in the fleet %s; waiting %.0f s for "
                    "the end of its lease",
                    worker->self->name, worker->self->group, ceil(other->left));
    else if (other->end > worker->namesake)
        worker->namesake_renewed++;
    worker->namesake = other->end;
    worker->retry = clock_seconds() + fmax(PAUSE_FIRST, fmin(other->left, NAMESAKE_PAUSE));
    return worker->namesake_renewed < NAMESAKE_RENEWALS;
}

/* Returns 1 if another daemon has the name, and may have ended. */
static int join(struct fleet_worker *worker, const char *info, struct error *error) {
    worker->link->namesake = (struct fleet_namesake){0};
    if (worker->link->ops->join(worker->link, info, error))
        return waits_for_namesake(worker) ? 1 : -1;
    worker->joined = true;
    worker->joined_at = clock_seconds();
    worker->namesake = 0;
    worker->namesake_renewed = 0;
    return 0;
}

/* A broker that has lost data may also have lost this daemon. Returns as `join` does. */
static int join_or_renew(struct fleet_worker *worker, const char *info, uint64_t *version,
                         struct error *error) {
    for (int tries = 0; tries < 2; tries++) {
        int joined = worker->joined ? 0 : join(worker, info, error);
        if (joined)
            return joined;
        if (worker->link->ops->renew(worker->link, info, version, error))
            return -1;
        if (*version > 0 && *version != FLEET_DISPLACED)
            return 0;
        worker->joined = false;
        if (*version == FLEET_DISPLACED) {
            if (is_displaced(worker, error))
                return -1;
            continue;
        }
        log_warning("%s: this daemon is no longer in the fleet %s (the server has lost data); "
                    "joining again",
                    worker->where, worker->self->group);
    }
    return error_set(error, EX_TEMPFAIL, "the server does not know this daemon");
}

static int keep_the_lease(struct fleet_worker *worker, uint64_t *version, struct error *error) {
    char *info = info_of(worker);
    int result = info ? join_or_renew(worker, info, version, error) : error_no_memory(error);
    free(info);
    return result;
}

/* In a small fleet, also reads the other daemons' reports now and then. */
static int look(struct fleet_worker *worker, struct error *error) {
    struct fleet_view copy;
    double now = clock_seconds();
    if (now >= worker->look_due)
        fleet_view_free(&worker->known);
    bool all = worker->known.version == 0;
    if (worker->link->ops->look(worker->link, &worker->known, error) ||
        fleet_view_copy(&worker->known, &copy, error))
        return -1;
    if (worker->known.daemon_count > LOOK_DAEMONS_MAX)
        worker->look_due = HUGE_VAL;
    else if (all || worker->look_due == HUGE_VAL)
        worker->look_due = now + LOOK_INTERVAL;
    pthread_mutex_lock(&worker->mutex);
    copy.anew |= worker->seen && worker->view.anew;
    fleet_view_free(&worker->view);
    copy.jobs = worker->jobs;
    worker->view = copy;
    worker->seen = true;
    worker->look = false;
    wake(worker);
    pthread_mutex_unlock(&worker->mutex);
    return 0;
}

static int pass(struct fleet_worker *worker, struct error *error) {
    pthread_mutex_lock(&worker->mutex);
    uint64_t round = worker->pass;
    pthread_mutex_unlock(&worker->mutex);
    if (round && worker->link->ops->pass(worker->link, round, error))
        return -1;
    pthread_mutex_lock(&worker->mutex);
    if (worker->pass == round)
        worker->pass = 0;
    pthread_mutex_unlock(&worker->mutex);
    return 0;
}

/* Renews the lease during a long job, if it is due. Returns as struct fleet_link_ops' functions
   do. */
static int fleet_worker_renew(struct fleet_worker *worker, struct error *error) {
    uint64_t version;
    double now = clock_seconds();
    bool wanted = is_set(worker, &worker->look);
    if (now < worker->retry || (now < worker->due && !wanted))
        return 0;
    worker->retry = 0;
    int kept = keep_the_lease(worker, &version, error);
    if (kept > 0)
        return 0;
    if (kept < 0 || pass(worker, error))
        return -1;
    worker->due = now + fleet_renewal(worker->self->lease);
    wanted |= version != worker->known.version || now >= worker->look_due;
    return wanted ? look(worker, error) : 0;
}

/* Returns the oldest job, which stays in the queue until it is finished. */
static struct fleet_job *first_job(struct fleet_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    struct fleet_job *job = worker->asked;
    pthread_mutex_unlock(&worker->mutex);
    return job;
}

static void job_is_done(struct fleet_worker *worker, struct fleet_job *job) {
    struct fleet_job **end;
    pthread_mutex_lock(&worker->mutex);
    worker->asked = job->next;
    worker->jobs++;
    job->next = NULL;
    for (end = &worker->done; *end; end = &(*end)->next)
        continue;
    *end = job;
    worker->look = true;
    wake(worker);
    pthread_mutex_unlock(&worker->mutex);
}

enum {
    ROWS_A_RENEWAL = 4096, /* states between two checks of the lease */
    ROUND_PAUSE_MS = 5,    /* between two queries of an open round */
    ROUND_PAUSE_MAX_MS = 100,
    MS = 1000000,
};

/* ---- Jobs ---- */

struct fleet_job *fleet_job_new(enum fleet_job_kind kind, size_t count) {
    struct fleet_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    size_t room = count ? count : 1;
    *job = (struct fleet_job){.kind = kind,
                              .count = count,
                              .claims = calloc(room, sizeof *job->claims),
                              .commits = calloc(room, sizeof *job->commits),
                              .ended = calloc(room, sizeof *job->ended),
                              .settled = calloc(room, sizeof *job->settled),
                              .states = calloc(room, sizeof *job->states)};
    if (job->claims && job->commits && job->ended && job->settled && job->states)
        return job;
    fleet_job_free(job);
    return NULL;
}

static void free_states(struct fleet_states *states) {
    free(states->rows);
    free(states->bytes);
    *states = (struct fleet_states){0};
}

void fleet_job_free(struct fleet_job *job) {
    if (!job)
        return;
    for (size_t n = 0; job->states && n < job->count; n++)
        free_states(&job->states[n]);
    free(job->claims);
    free(job->commits);
    free(job->ended);
    free(job->settled);
    free(job->states);
    free(job->parameters);
    free(job);
}

/* ---- States ---- */

static int make_room(struct fleet_states *states, size_t more, struct error *error) {
    return array_reserve(&states->rows, &states->row_room, states->count + 1,
                         sizeof *states->rows) &&
                   array_reserve(&states->bytes, &states->room, states->size + more, 1)
               ? 0
               : error_no_memory(error);
}

int fleet_states_add(struct fleet_states *states, const struct fleet_row *row,
                     struct error *error) {
    if (make_room(states, row->key_size + row->state_size, error))
        return -1;
    struct fleet_row *copy = &states->rows[states->count++];
    *copy = *row;
    if (row->key_size)
        memcpy(states->bytes + states->size, row->key, row->key_size);
    states->size += row->key_size;
    if (row->state_size)
        memcpy(states->bytes + states->size, row->state, row->state_size);
    states->size += row->state_size;
    return 0;
}

void fleet_states_done(struct fleet_states *states) {
    unsigned char *at = states->bytes;
    for (size_t n = 0; n < states->count; n++) {
        struct fleet_row *row = &states->rows[n];
        row->key = at;
        row->state = at + row->key_size;
        at += row->key_size + row->state_size;
    }
}

static int keep_state(void *context, const struct fleet_row *row, struct error *error) {
    return fleet_states_add(context, row, error);
}

/* ---- Running jobs ---- */

static int fetch_states(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    struct fleet_link *link = worker->link;
    for (size_t n = 0; n < job->count; n++) {
        struct fleet_states *states = &job->states[n];
        if (job->claims[n].partition == SIZE_MAX)
            continue;
        free_states(states); /* from an interrupted attempt */
        if (fleet_worker_renew(worker, error) ||
            link->ops->states(link, job->claims[n].partition, keep_state, states, error))
            return -1;
        fleet_states_done(states);
    }
    return 0;
}

/* After a lost answer, or without the states, the claims already belong to this daemon; the next
   view shows them. */
static int take(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    size_t taken;
    if (worker->link->ops->take(worker->link, job->claims, job->count, &taken, error))
        return -1;
    if (fetch_states(worker, job, error) == 0)
        return 0;
    for (size_t n = 0; n < job->count; n++)
        job->claims[n].partition = SIZE_MAX;
    return error->status == EX_TEMPFAIL ? 0 : -1;
}

static int stage(struct fleet_worker *worker, const struct fleet_commit *commit,
                 const struct fleet_states *states, struct error *error) {
    struct fleet_link *link = worker->link;
    for (size_t n = 0; n < states->count; n += ROWS_A_RENEWAL) {
        size_t left = states->count - n;
        if (fleet_worker_renew(worker, error) ||
            link->ops->stage(link, commit, states->rows + n,
                             left < ROWS_A_RENEWAL ? left : ROWS_A_RENEWAL, error))
            return -1;
    }
    return 0;
}

static int commit(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    for (size_t n = 0; n < job->count; n++)
        if (stage(worker, &job->commits[n], &job->states[n], error))
            return -1;
    return worker->link->ops->commit(worker->link, job->commits, job->count, job->release, error);
}

/* ---- Rounds ---- */

/* Returns the members of the round. NULL without an error: it was not closed in time. */
static int wait_for_round(struct fleet_worker *worker, uint64_t round, char **names,
                          struct error *error) {
    double end = clock_seconds() + 2 * worker->self->lease;
    long pause = ROUND_PAUSE_MS;
    for (;;) {
        const struct timespec rest = {.tv_nsec = pause * MS};
        if (fleet_worker_renew(worker, error) ||
            worker->link->ops->round(worker->link, round, names, error))
            return -1;
        if (*names || clock_seconds() > end)
            return 0;
        nanosleep(&rest, NULL);
        pause = pause * 2 < ROUND_PAUSE_MAX_MS ? pause * 2 : ROUND_PAUSE_MAX_MS;
    }
}

/* Sums as doubles in the order of the calls; all zeros at first. */
struct fleet_average {
    double *sums; /* (count,) */
    size_t count, added;
};

static void add_to(struct fleet_average *average, const float *values) {
    for (size_t n = 0; n < average->count; n++)
        average->sums[n] += (double)values[n];
    average->added++;
}

/* Rounds once. */
static void write_mean(const struct fleet_average *average, float *values) {
    for (size_t n = 0; n < average->count; n++)
        values[n] = (float)(average->sums[n] / (double)average->added);
}

static int add_one(struct fleet_worker *worker, uint64_t round, const char *name,
                   struct fleet_average *average, struct error *error) {
    void *bytes;
    size_t size;
    if (worker->link->ops->parameters(worker->link, round, name, &bytes, &size, error))
        return -1;
    int result = size == average->count * sizeof(float)
                     ? 0
                     : error_set(error, EX_UNAVAILABLE,
                                 "%s has %zu bytes of parameters, but this daemon %zu", name, size,
                                 average->count * sizeof(float));
    if (result == 0)
        add_to(average, bytes);
    free(bytes);
    return result;
}

static int add_all(struct fleet_worker *worker, uint64_t round, char *names,
                   struct fleet_average *average, struct error *error) {
    char *rest;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        if (fleet_worker_renew(worker, error) || add_one(worker, round, name, average, error))
            return -1;
    return 0;
}

static int average(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    struct fleet_average sums = {.count = job->parameter_count};
    uint64_t round;
    char *names = NULL;
    job->alone = true;
    if (worker->link->ops->arrive(worker->link, job->serial, job->parameters,
                                  job->parameter_count * sizeof *job->parameters, &round, error) ||
        wait_for_round(worker, round, &names, error))
        return -1;
    if (!names)
        return 0;
    sums.sums = calloc(job->parameter_count, sizeof *sums.sums);
    int result = sums.sums ? add_all(worker, round, names, &sums, error) : error_no_memory(error);
    if (result == 0) {
        job->round = round;
        job->alone = sums.added < 2;
        if (!job->alone)
            write_mean(&sums, job->parameters);
    }
    free(sums.sums);
    free(names);
    return result;
}

/* ---- The loop ---- */

/* Repeating a partly finished job does no harm. */
static int fleet_job_do(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    struct fleet_link *link = worker->link;
    switch (job->kind) {
    case FLEET_JOB_TAKE:
        return take(worker, job, error);
    case FLEET_JOB_BEGIN:
        return fetch_states(worker, job, error);
    case FLEET_JOB_COMMIT:
        return commit(worker, job, error);
    case FLEET_JOB_ENDED:
        return link->ops->ended(link, job->ended, job->count, error);
    case FLEET_JOB_SETTLE:
        return link->ops->settle(link, job->settled, job->count, error);
    case FLEET_JOB_AVERAGE:
        return average(worker, job, error);
    }
    return 0;
}

static int do_one(struct fleet_worker *worker, struct error *error) {
    struct fleet_job *job;
    if (fleet_worker_renew(worker, error))
        return -1;
    if (!(job = first_job(worker)))
        return 0;
    if (fleet_job_do(worker, job, error)) {
        if (error->status == EX_TEMPFAIL)
            return -1;
        job->failed = true;
        job->error = *error;
    }
    job_is_done(worker, job);
    return 0;
}

static void wait_for_work(struct fleet_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    if (!worker->asked && !worker->closing && (!worker->look || worker->retry))
        wait_until(worker, worker->retry ? worker->retry : worker->due);
    pthread_mutex_unlock(&worker->mutex);
}

static void *run(void *context) {
    struct fleet_worker *worker = context;
    struct error error = {0};
    threads_unpin();
    while (!is_set(worker, &worker->closing)) {
        if (do_one(worker, &error) == 0) {
            is_back(worker);
            wait_for_work(worker);
        } else if (is_final(worker, &error)) {
            break;
        } else {
            is_away(worker, &error);
        }
    }
    return NULL;
}

/* ---- Opening and closing ---- */

static int start(struct fleet_worker *worker, struct error *error) {
    pthread_mutex_init(&worker->mutex, NULL);
    threads_condition(&worker->something);
    worker->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->event < 0)
        return error_set(error, EX_OSERR, "cannot create an eventfd: %s", strerror(errno));
    worker->runs = pthread_create(&worker->thread, NULL, run, worker) == 0;
    return worker->runs ? 0 : error_set(error, EX_OSERR, "cannot start a thread for the fleet");
}

int fleet_worker_open(struct fleet_worker **opened, struct fleet_link *link,
                      const struct fleet_self *self, const char *where, const char *info,
                      struct error *error) {
    struct fleet_worker *worker = *opened = calloc(1, sizeof *worker);
    if (!worker) {
        link->ops->close(&link);
        return error_no_memory(error);
    }
    worker->link = link;
    worker->self = self;
    worker->where = where;
    worker->look = true;
    worker->info = info ? strdup(info) : NULL;
    return start(worker, error);
}

static void free_jobs(struct fleet_job *job) {
    while (job) {
        struct fleet_job *next = job->next;
        fleet_job_free(job);
        job = next;
    }
}

void fleet_worker_close(struct fleet_worker **closed, bool leave) {
    struct fleet_worker *worker = *closed;
    struct error error;
    if (!worker)
        return;
    if (worker->runs) {
        pthread_mutex_lock(&worker->mutex);
        worker->closing = true;
        pthread_cond_signal(&worker->something);
        pthread_mutex_unlock(&worker->mutex);
        pthread_join(worker->thread, NULL);
    }
    if (leave && worker->joined && !worker->failed && worker->away == 0 &&
        worker->link->ops->leave(worker->link, &error))
        log_warning("cannot notify the fleet %s that this daemon leaves: %s", worker->self->group,
                    error.text);
    worker->link->ops->close(&worker->link);
    free_jobs(worker->asked);
    free_jobs(worker->done);
    fleet_view_free(&worker->view);
    fleet_view_free(&worker->known);
    free(worker->info);
    if (worker->event >= 0)
        close(worker->event);
    pthread_mutex_destroy(&worker->mutex);
    pthread_cond_destroy(&worker->something);
    free(worker);
    *closed = NULL;
}
