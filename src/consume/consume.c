#include "consume.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "build-config.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "consume_internal.h"
#include "model/model.h"
#include "sockets/decode.h"

#define CLOSE_NS (3 * NS_PER_SECOND) /* for telling the broker what is durable */

enum {
    BLOCK_KEPT = 65536, /* bytes of an item that stay when it is empty */
    CLOSE_LOOK_NS = 2000000,
};

/* ---- Opening ---- */

static const struct consume_kind *kind_of(const struct config *config, struct error *error) {
    bool redis = *config->consume.redis.stream != 0;
#ifdef RUNNEL_REDIS
    if (redis)
        return &consume_redis;
#endif
#ifdef RUNNEL_KAFKA
    if (!redis)
        return &consume_kafka;
#endif
    error_set(error, EX_UNAVAILABLE,
              "examples.%s: this runneld was built without %s, which it needs to read from there; "
              "runnel-feed of a build that has it can feed it",
              redis ? "redis" : "kafka",
              redis ? "hiredis (libhiredis-dev)" : "librdkafka (librdkafka-dev)");
    return NULL;
}

static int start(struct consume *consume, struct error *error) {
    pthread_condattr_t monotonic;
    sigset_t all, before;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&consume->mutex, NULL);
    pthread_cond_init(&consume->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    consume->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (consume->event < 0 || consume->kind->open(consume, error))
        return consume->event < 0
                   ? error_set(error, EX_OSERR, "examples: no eventfd: %s", strerror(errno))
                   : -1;
    sigfillset(&all); /* signals are the learning thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&consume->thread, NULL, consume_thread, consume);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    consume->started = status == 0;
    return status ? error_set(error, EX_OSERR, "the thread that reads %s cannot be started: %s",
                              consume->endpoint, strerror(status))
                  : 0;
}

static int open_mapping(struct consume *consume, struct error *error) {
    struct mapping_options options;
    config_mapping(consume->config, consume->fields, &options);
    options.say = log_info;
    return mapping_open(&consume->mapping, &options, error);
}

int consume_open(struct consume **opened, const struct config *config, const struct model *model,
                 struct error *error) {
    const struct consume_kind *kind = kind_of(config, error);
    *opened = NULL;
    if (!kind)
        return -1;
    struct consume *consume = *opened = calloc(1, sizeof *consume);
    if (!consume)
        return error_no_memory(error);
    const struct input *input = &config->architecture.input;
    consume->config = config;
    consume->kind = kind;
    consume->commits = true;
    consume->event = -1;
    consume->input_bytes = (input_is_real(input) ? input->size : 1) * sizeof(float);
    consume->target_bytes = model->target_size * sizeof(float);
    if (decoder_open(&consume->decoder, model, true, error) == 0 &&
        open_mapping(consume, error) == 0 && start(consume, error) == 0)
        return 0;
    consume_close(opened);
    return -1;
}

static void stop(struct consume *consume) {
    pthread_mutex_lock(&consume->mutex);
    consume->closing = true;
    pthread_cond_signal(&consume->changed);
    pthread_mutex_unlock(&consume->mutex);
    uint64_t until = clock_ns() + CLOSE_NS;
    while (!atomic_load(&consume->ended) && clock_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = CLOSE_LOOK_NS}, NULL);
    pthread_mutex_lock(&consume->mutex);
    if (consume->kind->interrupt)
        consume->kind->interrupt(consume);
    pthread_mutex_unlock(&consume->mutex);
    pthread_join(consume->thread, NULL);
}

void consume_close(struct consume **closed) {
    struct consume *consume = *closed;
    if (!consume)
        return;
    if (consume->started)
        stop(consume);
    consume->kind->close(consume);
    for (size_t n = 0; n < CONSUME_QUEUE; n++)
        free(consume->items[n].block);
    for (size_t n = 0; n < consume->count; n++)
        free(consume->partitions[n]);
    message_text_free(&consume->text);
    mapping_close(&consume->mapping);
    decoder_close(&consume->decoder);
    if (consume->event >= 0)
        close(consume->event);
    free(consume);
    *closed = NULL;
}

int consume_descriptor(const struct consume *consume) {
    return consume->event;
}

void consume_print(const struct consume *consume, const struct consume_place *place,
                   char text[CONSUME_PLACE_SIZE]) {
    consume->kind->print(place, text);
}

const char *consume_endpoint(const struct consume *consume) {
    return consume->endpoint;
}

void consume_announce(struct consume *consume) {
    const uint64_t one = 1;
    while (write(consume->event, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* ---- Partitions ---- */

struct consume_partition *consume_add(struct consume *consume, const char *kind, const char *name) {
    struct consume_partition *added =
        consume->count < CONSUME_PARTITIONS_MAX ? calloc(1, sizeof *added) : NULL;
    if (!added)
        return NULL;
    snprintf(added->name, sizeof added->name, "%s:%s", kind, name);
    added->stream = added->name + strlen(kind) + 1;
    added->producer = hash_bytes(HASH_BEGIN, added->name, strlen(added->name) + 1);
    added->producer += added->producer == 0;
    added->lag = -1;
    consume->partitions[consume->count++] = added;
    return added;
}

static struct consume_partition *of(const struct consume *consume, size_t partition) {
    return consume->partitions[partition];
}

static void lock(const struct consume *consume) {
    pthread_mutex_lock((pthread_mutex_t *)&consume->mutex);
}

static void unlock(const struct consume *consume) {
    pthread_mutex_unlock((pthread_mutex_t *)&consume->mutex);
}

size_t consume_partitions(const struct consume *consume) {
    lock(consume);
    size_t count = consume->count;
    unlock(consume);
    return count;
}

const char *consume_name(const struct consume *consume, size_t partition) {
    return of(consume, partition)->name;
}

uint64_t consume_producer(const struct consume *consume, size_t partition) {
    return of(consume, partition)->producer;
}

void consume_start(struct consume *consume, size_t partition, const struct consume_place *after) {
    static const struct consume_place none;
    struct consume_partition *p = of(consume, partition);
    lock(consume);
    p->read = true;
    p->generation++;
    p->known = after != NULL;
    p->start = p->taken = p->durable = after ? *after : none;
    p->lag = -1;
    pthread_cond_signal(&consume->changed);
    unlock(consume);
}

void consume_stop(struct consume *consume, size_t partition) {
    lock(consume);
    of(consume, partition)->read = false;
    pthread_cond_signal(&consume->changed);
    unlock(consume);
}

bool consume_is_read(const struct consume *consume, size_t partition) {
    return of(consume, partition)->read; /* only this thread writes it */
}

/* ---- Messages ---- */

static struct consume_item *oldest(struct consume *consume) {
    return &consume->items[consume->head];
}

/* Whether its partition is still read as it was when this was. */
static bool is_wanted(const struct consume *consume, const struct consume_item *item) {
    const struct consume_partition *p = of(consume, item->message.partition);
    return p->read && p->generation == item->generation;
}

static void drop(struct consume *consume) {
    struct consume_item *item = oldest(consume);
    consume->bytes -= item->bytes;
    if (item->capacity > BLOCK_KEPT) {
        free(item->block);
        item->block = NULL;
        item->capacity = 0;
    }
    consume->head = (consume->head + 1) % CONSUME_QUEUE;
    consume->waiting--;
    consume->given = false;
    consume->dead = DEAD_NONE;
    if (consume->waiting == 0 || consume->waiting == CONSUME_QUEUE / 2)
        pthread_cond_signal(&consume->changed);
}

/* Under the mutex: what is to be given, or NULL. */
static struct consume_item *next(struct consume *consume) {
    if (consume->dead == DEAD_WANTED) /* the thread reads the oldest */
        return NULL;
    if (consume->given && consume->dead == DEAD_NONE)
        drop(consume);
    while (consume->waiting && !is_wanted(consume, oldest(consume)))
        drop(consume);
    if (!consume->waiting)
        return NULL;
    if (oldest(consume)->message.dead && consume->dead == DEAD_NONE) {
        consume->dead = DEAD_WANTED;
        pthread_cond_signal(&consume->changed);
    }
    return consume->dead == DEAD_WANTED ? NULL : oldest(consume);
}

int consume_take(struct consume *consume, struct consume_message *message, struct error *error) {
    uint64_t events;
    lock(consume);
    struct consume_item *item = next(consume);
    int status = item != NULL;
    if (item) {
        struct consume_partition *p = of(consume, item->message.partition);
        *message = item->message;
        p->taken = message->place;
        p->dead += message->dead;
        consume->given = true;
        consume->dead = DEAD_NONE;
    } else {
        while (read(consume->event, &events, sizeof events) < 0 && errno == EINTR)
            ;
        if (consume->failure.status)
            status = error_set(error, consume->failure.status, "%s", consume->failure.text);
    }
    unlock(consume);
    return status;
}

void consume_refuse(struct consume *consume, enum reject_reason why, const char *text) {
    lock(consume);
    struct consume_message *message = &oldest(consume)->message;
    message->dead = true;
    message->why = why;
    snprintf(message->text, sizeof message->text, "%s", text);
    consume->dead = DEAD_WANTED;
    pthread_cond_signal(&consume->changed);
    unlock(consume);
}

/* ---- What is durable ---- */

void consume_durable(struct consume *consume, size_t partition, const struct consume_place *place) {
    struct consume_partition *p = of(consume, partition);
    lock(consume);
    bool moved = p->durable.epoch != place->epoch || p->durable.sequence != place->sequence;
    p->durable = *place;
    unlock(consume);
    if (moved && consume->hook)
        consume->hook(consume->hook_context, partition, place);
}

void consume_on_durable(struct consume *consume, consume_moved *hook, void *context) {
    consume->hook = hook;
    consume->hook_context = context;
}

void consume_commits(struct consume *consume, bool commits) {
    lock(consume);
    consume->commits = commits;
    unlock(consume);
}

/* ---- What there is to know ---- */

void consume_figures(const struct consume *consume, size_t partition,
                     struct consume_figures *figures) {
    const struct consume_partition *p = of(consume, partition);
    lock(consume);
    *figures = (struct consume_figures){.name = p->stream,
                                        .read = p->read,
                                        .taken = p->taken,
                                        .durable = p->durable,
                                        .lag = p->lag,
                                        .dead = p->dead,
                                        .lost = p->lost};
    unlock(consume);
}

double consume_away(const struct consume *consume) {
    lock(consume);
    uint64_t since = consume->since;
    unlock(consume);
    return since ? (double)(clock_ns() - since) / (double)NS_PER_SECOND : 0;
}
