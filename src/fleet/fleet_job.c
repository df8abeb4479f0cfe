#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "fleet_average.h"
#include "fleet_worker_internal.h"

enum {
    ROWS_A_RENEWAL = 4096, /* of states, between two looks at the lease */
    ROOM_FIRST = 1 << 16,  /* bytes */
    ROUND_PAUSE_MS = 5,    /* between two looks at a round that is open */
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

void fleet_job_free(struct fleet_job *job) {
    if (!job)
        return;
    for (size_t n = 0; job->states && n < job->count; n++)
        fleet_states_free(&job->states[n]);
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
    if (states->count == states->row_room) {
        size_t room = states->row_room ? 2 * states->row_room : ROWS_A_RENEWAL;
        struct fleet_row *rows = realloc(states->rows, room * sizeof *rows);
        if (!rows)
            return error_no_memory(error);
        states->rows = rows;
        states->row_room = room;
    }
    if (states->room - states->size < more) {
        size_t room = states->room ? states->room : ROOM_FIRST;
        while (room - states->size < more)
            room *= 2;
        unsigned char *bytes = realloc(states->bytes, room);
        if (!bytes)
            return error_no_memory(error);
        states->bytes = bytes;
        states->room = room;
    }
    return 0;
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

void fleet_states_free(struct fleet_states *states) {
    free(states->rows);
    free(states->bytes);
    *states = (struct fleet_states){0};
}

static int keep_state(void *context, const struct fleet_row *row, struct error *error) {
    return fleet_states_add(context, row, error);
}

/* ---- Doing them ---- */

static int fetch_states(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
    struct fleet_link *link = worker->link;
    for (size_t n = 0; n < job->count; n++) {
        struct fleet_states *states = &job->states[n];
        if (job->claims[n].partition == SIZE_MAX)
            continue;
        fleet_states_free(states); /* of a try that was cut short */
        if (fleet_worker_renew(worker, error) ||
            link->ops->states(link, job->claims[n].partition, keep_state, states, error))
            return -1;
        fleet_states_done(states);
    }
    return 0;
}

/* When the answer was lost, or states could not be fetched, the claims are this daemon's already:
   the next view says so. */
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
            link->ops->stage(link, commit->partition, commit->claim, commit->serial,
                             states->rows + n, left < ROWS_A_RENEWAL ? left : ROWS_A_RENEWAL,
                             error))
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

/* The names of those in it; NULL with 0: it was not closed in time. */
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

static int add_one(struct fleet_worker *worker, uint64_t round, const char *name,
                   struct fleet_average *average, struct error *error) {
    void *bytes;
    size_t size;
    if (worker->link->ops->parameters(worker->link, round, name, &bytes, &size, error))
        return -1;
    int result = size == average->count * sizeof(float)
                     ? 0
                     : error_set(error, EX_UNAVAILABLE,
                                 "%s has %zu bytes of parameters, and this daemon %zu", name, size,
                                 average->count * sizeof(float));
    if (result == 0)
        fleet_average_add(average, bytes);
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
        job->members = sums.added;
        job->alone = sums.added < 2;
        if (!job->alone)
            fleet_average_mean(&sums, job->parameters);
    }
    free(sums.sums);
    free(names);
    return result;
}

int fleet_job_do(struct fleet_worker *worker, struct fleet_job *job, struct error *error) {
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
