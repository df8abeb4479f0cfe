#include "relay_queue.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"

enum { BATCH = 200 };

/* Seconds between two attempts. */
#define PAUSE_FIRST 0.25
#define PAUSE_MAX 30.0
#define TEND_SECONDS 1.0

struct queue {
    const struct sink_type *type;
    struct sink *sink;
    const char *broker;
    pthread_t thread;
    bool started;
    int event; /* eventfd: the broker has failed permanently */
    bool memory_reported, room_reported;

    pthread_mutex_t mutex; /* protects all following fields */
    pthread_cond_t changed;
    struct sink_message *ring; /* (room,) `count` messages from `oldest` on */
    size_t room, oldest, count;
    struct queue_counts counts;
    bool closing;
    double until; /* clock_seconds after which unwritten messages are given up */
    bool refused;
    struct error error; /* the failure */

    /* Fields of the thread. */
    struct sink_message batch[BATCH];
    size_t batch_count;
    bool connected;
    double lost_at, pause; /* lost_at 0: the broker is available */
};

static void clear(struct sink_message *message) {
    free(message->topic);
    free(message->key);
    free(message->id);
    free(message->text);
    *message = (struct sink_message){0};
}

/* ---- Thread ---- */

/* Waits on the condition for at most `seconds`. Locked. */
static void wait_changed(struct queue *queue, double seconds) {
    double until = clock_seconds() + seconds;
    struct timespec limit = {.tv_sec = (time_t)until};
    limit.tv_nsec = (long)((until - (double)limit.tv_sec) * (double)NS_PER_SECOND);
    pthread_cond_timedwait(&queue->changed, &queue->mutex, &limit);
}

/* Takes the next batch from the ring. Returns false at the end. */
static bool take_batch(struct queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    if (queue->batch_count == 0 && queue->count == 0 && !queue->closing)
        wait_changed(queue, TEND_SECONDS);
    while (queue->batch_count < BATCH && queue->count > 0) {
        queue->batch[queue->batch_count++] = queue->ring[queue->oldest];
        queue->oldest = (queue->oldest + 1) % queue->room;
        queue->count--;
    }
    bool over = queue->closing && (queue->batch_count == 0 || clock_seconds() >= queue->until);
    pthread_mutex_unlock(&queue->mutex);
    return !over;
}

static void report_too_large(const struct queue *queue, const struct sink_message *message) {
    complain(EX_OK,
             "%s rejects messages of %zu bytes (see its %s); such messages are skipped from now on",
             queue->broker, message->size, queue->type->size_limit);
}

static void finish_batch(struct queue *queue) {
    size_t too_large = 0;
    for (size_t n = 0; n < queue->batch_count; n++) {
        if (queue->batch[n].too_large && too_large++ + queue->counts.too_large == 0)
            report_too_large(queue, &queue->batch[n]);
        clear(&queue->batch[n]);
    }
    pthread_mutex_lock(&queue->mutex);
    queue->counts.written += queue->batch_count - too_large;
    queue->counts.too_large += too_large;
    pthread_mutex_unlock(&queue->mutex);
    queue->batch_count = 0;
}

static void report_available(struct queue *queue) {
    if (queue->lost_at > 0)
        complain(EX_OK, "%s: available again after %.1f s", queue->broker,
                 clock_seconds() - queue->lost_at);
    queue->lost_at = queue->pause = 0;
}

/* Connects if it is time, and writes. */
static int work(struct queue *queue, struct error *error) {
    if (!queue->connected && queue->type->connect(queue->sink, error) < 0)
        return -1;
    queue->connected = true;
    if (queue->batch_count == 0)
        return queue->type->tend ? queue->type->tend(queue->sink, error) : 0;
    if (queue->type->write(queue->sink, queue->batch, queue->batch_count, error) < 0)
        return -1;
    report_available(queue);
    finish_batch(queue);
    return 0;
}

/* Handles a lost broker: reports it once and retries later, or at once after a working
   connection. */
static void pause_work(struct queue *queue, const char *why) {
    bool worked = queue->connected;
    queue->type->disconnect(queue->sink);
    queue->connected = false;
    if (worked && queue->lost_at == 0 && queue->pause == 0) {
        queue->pause = PAUSE_FIRST;
        return;
    }
    if (queue->lost_at == 0) {
        complain(EX_OK, "%s: %s; trying again until it answers", queue->broker, why);
        queue->lost_at = clock_seconds();
    }
    queue->pause = queue->pause > 0 ? fmin(2 * queue->pause, PAUSE_MAX) : PAUSE_FIRST;
    double until = clock_seconds() + queue->pause, left;
    pthread_mutex_lock(&queue->mutex);
    while ((left = until - clock_seconds()) > 0 &&
           !(queue->closing && clock_seconds() >= queue->until))
        wait_changed(queue, left);
    pthread_mutex_unlock(&queue->mutex);
}

static void refuse(struct queue *queue, const struct error *error) {
    const uint64_t one = 1;
    pthread_mutex_lock(&queue->mutex);
    queue->refused = true;
    queue->error = *error;
    pthread_mutex_unlock(&queue->mutex);
    if (write(queue->event, &one, sizeof one) < 0)
        return; /* it is already readable */
}

static void *run(void *context) {
    struct queue *queue = context;
    struct error error;
    while (take_batch(queue)) {
        if (work(queue, &error) == 0)
            continue;
        if (error.status != EX_TEMPFAIL) {
            refuse(queue, &error);
            break;
        }
        pause_work(queue, error.text);
    }
    queue->type->disconnect(queue->sink);
    return NULL;
}

/* ---- Queue ---- */

static int start(struct queue *queue, struct error *error) {
    sigset_t all, before;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->mutex, NULL);
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    queue->started = pthread_create(&queue->thread, NULL, run, queue) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return queue->started ? 0 : error_set(error, EX_OSERR, "cannot start a thread");
}

int queue_open(struct queue **result, const struct sink_type *type, struct sink *sink,
               const char *broker, size_t room, struct error *error) {
    struct queue *queue = *result = calloc(1, sizeof *queue);
    if (!queue)
        return error_no_memory(error);
    queue->type = type;
    queue->sink = sink;
    queue->broker = broker;
    queue->room = room;
    queue->ring = calloc(room, sizeof *queue->ring);
    queue->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!queue->ring || queue->event < 0)
        return error_no_memory(error);
    return start(queue, error);
}

static void drop(struct queue *queue, struct sink_message *message) {
    clear(message);
    pthread_mutex_lock(&queue->mutex);
    queue->counts.dropped++;
    pthread_mutex_unlock(&queue->mutex);
    if (!queue->memory_reported)
        complain(EX_OK, "out of memory: dropping messages");
    queue->memory_reported = true;
}

void queue_add(struct queue *queue, const char *topic, const char *key, const char *id,
               char *text) {
    struct sink_message oldest = {0}, message = {.topic = strdup(topic),
                                                 .key = key ? strdup(key) : NULL,
                                                 .id = id ? strdup(id) : NULL,
                                                 .text = text,
                                                 .size = strlen(text)};
    if (!message.topic || (key && !message.key) || (id && !message.id)) {
        drop(queue, &message);
        return;
    }
    pthread_mutex_lock(&queue->mutex);
    if (queue->count == queue->room) {
        oldest = queue->ring[queue->oldest];
        queue->oldest = (queue->oldest + 1) % queue->room;
        queue->count--;
    }
    queue->ring[(queue->oldest + queue->count++) % queue->room] = message;
    bool first = oldest.text && !queue->room_reported;
    queue->room_reported |= first;
    queue->counts.dropped += oldest.text != NULL;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    clear(&oldest);
    if (first)
        complain(
            EX_OK,
            "%s: %zu messages queued, the maximum of --buffer; dropping the oldest from now on",
            queue->broker, queue->room);
}

int queue_descriptor(const struct queue *queue) {
    return queue->event;
}

int queue_close(struct queue **pointer, double seconds, struct queue_counts *counts,
                struct error *error) {
    struct queue *queue = *pointer;
    *counts = (struct queue_counts){0};
    if (!queue)
        return 0;
    if (queue->started) {
        pthread_mutex_lock(&queue->mutex);
        queue->closing = true;
        queue->until = clock_seconds() + seconds;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->mutex);
        pthread_join(queue->thread, NULL);
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->mutex);
    }
    *counts = queue->counts;
    counts->left = queue->count + queue->batch_count;
    for (; queue->count > 0; queue->count--, queue->oldest = (queue->oldest + 1) % queue->room)
        clear(&queue->ring[queue->oldest]);
    while (queue->batch_count > 0)
        clear(&queue->batch[--queue->batch_count]);
    int status =
        queue->refused ? error_set(error, queue->error.status, "%s", queue->error.text) : 0;
    if (queue->event >= 0)
        close(queue->event);
    free(queue->ring);
    free(queue);
    *pointer = NULL;
    return status;
}
