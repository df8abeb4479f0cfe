#include "build-config.h"

#include "alert_deliver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "alert_command.h"
#include "alert_post.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/json_member.h"

enum { POST_TRIES = 4, POST_WAIT = 2 }; /* 2, 4 and 8 s between them */

struct deliver {
    const struct deliver_options *options;
    pthread_t thread;
    pthread_mutex_t mutex; /* over what follows */
    pthread_cond_t changed;
    bool ending;
    json_t *waiting[DELIVER_WAITING]; /* a ring */
    size_t first, count, lost;
};

/* Until the time is up; returns early, with true, when it is to end. */
static bool pause_for(struct deliver *d, int seconds) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    pthread_mutex_lock(&d->mutex);
    int result = 0;
    while (!d->ending && result != ETIMEDOUT)
        result = pthread_cond_clockwait(&d->changed, &d->mutex, CLOCK_MONOTONIC, &end);
    bool ending = d->ending;
    pthread_mutex_unlock(&d->mutex);
    return ending;
}

static void post(struct deliver *d, const json_t *alert) {
    struct error error;
    bool again = true;
    for (int attempt = 1, wait = POST_WAIT; again; attempt++, wait *= 2) {
        if (post_send(d->options->url, alert, d->options->seconds, &again, &error) == 0)
            return;
        if (!again || attempt == POST_TRIES || pause_for(d, wait))
            break;
    }
    complain(EX_OK, "%s; this alert is not delivered: %s", error.text,
             member_string(alert, "text"));
}

static void handle(struct deliver *d, const json_t *alert) {
    struct error error;
    if (d->options->command &&
        command_run(d->options->command, alert, d->options->seconds, &error) < 0)
        complain(EX_OK, "%s; the alert was: %s", error.text, member_string(alert, "text"));
    if (d->options->url)
        post(d, alert);
}

/* The oldest alert; NULL when it is to end and none waits. */
static json_t *take(struct deliver *d, size_t *lost) {
    pthread_mutex_lock(&d->mutex);
    while (d->count == 0 && !d->ending)
        pthread_cond_wait(&d->changed, &d->mutex);
    json_t *alert = d->count > 0 ? d->waiting[d->first] : NULL;
    if (alert) {
        d->first = (d->first + 1) % DELIVER_WAITING;
        d->count--;
    }
    *lost = d->lost;
    d->lost = 0;
    pthread_mutex_unlock(&d->mutex);
    return alert;
}

static void *work(void *context) {
    struct deliver *d = context;
    json_t *alert;
    size_t lost;
    while ((alert = take(d, &lost))) {
        if (lost > 0)
            complain(EX_OK, "%zu alerts are not delivered: too many came at once", lost);
        handle(d, alert);
        json_decref(alert);
    }
    return NULL;
}

int deliver_open(struct deliver **deliver, const struct deliver_options *options) {
    struct deliver *d = calloc(1, sizeof *d);
    if (!d)
        return complain(EX_UNAVAILABLE, "out of memory");
    d->options = options;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&d->thread, NULL, work, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(d);
        return complain(EX_UNAVAILABLE, "cannot start a thread: %s", strerror(error));
    }
    *deliver = d;
    return EX_OK;
}

void deliver_close(struct deliver **deliver) {
    struct deliver *d = *deliver;
    if (!d)
        return;
    pthread_mutex_lock(&d->mutex);
    d->ending = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    free(d);
    *deliver = NULL;
}

void deliver_add(struct deliver *d, json_t *alert) {
    pthread_mutex_lock(&d->mutex);
    if (d->count == DELIVER_WAITING) {
        json_decref(d->waiting[d->first]);
        d->first = (d->first + 1) % DELIVER_WAITING;
        d->count--;
        d->lost++;
    }
    d->waiting[(d->first + d->count++) % DELIVER_WAITING] = alert;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}
