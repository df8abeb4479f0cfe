#include "consume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/threads.h"
#include "consume_ops.h"
#include "model/model.h"
#include "sockets/decode.h"

#define CLOSE_NS (3 * NS_PER_SECOND) /* time limit for the last report to the broker */

enum {
    BLOCK_KEPT = 65536, /* bytes that an empty item keeps */
    CLOSE_LOOK_NS = 2000000,
};

/* ---- Partitions ---- */

static void lock(const struct consume *consume) {
    pthread_mutex_lock((pthread_mutex_t *)&consume->mutex);
}

static void unlock(const struct consume *consume) {
    pthread_mutex_unlock((pthread_mutex_t *)&consume->mutex);
}

struct consume_partition *consume_add(struct consume *consume, int32_t number) {
    const struct consume_ops *ops = consume->ops;
    struct consume_partition *added =
        consume->count < CONSUME_PARTITIONS_MAX ? calloc(1, sizeof *added) : NULL;
    if (!added)
        return NULL;
    size_t size = sizeof added->name;
    if (number < 0)
        snprintf(added->name, size, "%s:%s", ops->kind, consume->about.stream);
    else
        snprintf(added->name, size, "%s:%s%s%" PRId32 "%s", ops->kind, consume->about.stream,
                 ops->before, number, ops->after);
    added->stream = added->name + strlen(ops->kind) + 1;
    added->number = (int32_t)consume->count;
    added->producer = hash_bytes(HASH_BEGIN, added->name, strlen(added->name) + 1);
    added->producer += added->producer == 0;
    added->lag = -1;
    consume->partitions[consume->count++] = added;
    return added;
}

static struct consume_partition *of(const struct consume *consume, size_t partition) {
    return consume->partitions[partition];
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

const char *consume_title(const struct consume *consume, size_t partition) {
    return of(consume, partition)->stream;
}

/* Parses the number in "STREAM.3" or "TOPIC[3]". Returns SIZE_MAX for another name. */
static size_t number_in(const struct consume *consume, const char *name, size_t size) {
    const char *stream = consume->about.stream;
    const size_t length = strlen(stream);
    char text[CONSUME_NAME_SIZE];
    if (size <= length || size >= sizeof text || memcmp(name, stream, length) != 0)
        return SIZE_MAX;
    snprintf(text, sizeof text, "%.*s", (int)(size - length - 1), name + length + 1);
    const size_t number = strtoul(text, NULL, 10);
    const int written = snprintf(text, sizeof text, "%s%s%zu%s", stream, consume->ops->before,
                                 number, consume->ops->after);
    return (size_t)written == size && memcmp(name, text, size) == 0 ? number : SIZE_MAX;
}

bool consume_calls_so(const struct consume *consume, const char *name) {
    const char *kind = consume->ops->kind, *rest = name + strlen(kind) + 1;
    return strncmp(name, kind, strlen(kind)) == 0 && name[strlen(kind)] == ':' &&
           (strcmp(rest, consume->about.stream) == 0 ||
            number_in(consume, rest, strlen(rest)) != SIZE_MAX);
}

size_t consume_partition_of(const struct consume *consume, size_t count, const char *key,
                            size_t key_size) {
    const size_t number = number_in(consume, key, key_size);
    return number < count ? number : consume->ops->choose(consume->config, key, key_size, count);
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

/* Whether the partition is still read in the same generation as the item. */
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

/* Returns the next item, or NULL. Locked. */
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
    eventfd_t events;
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
        eventfd_read(consume->event, &events);
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

/* ---- Durable places and status ---- */

void consume_durable(struct consume *consume, size_t partition, const struct consume_place *place) {
    struct consume_partition *p = of(consume, partition);
    lock(consume);
    p->durable = *place;
    unlock(consume);
}

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

#define WAIT_NS (NS_PER_SECOND / 10) /* between two checks for room */

/* ---- Decoding and copying ---- */

/* Decodes the example, or sets the reason why the message is not one. */
static int make(struct consume *consume, const struct consume_read *read,
                struct consume_message *made, struct error *error) {
    struct message message = read->message;
    const struct message_number number = {read->partition->producer, read->place.epoch,
                                          read->place.sequence};
    char why[MESSAGE_WHY_SIZE];
    message.number = &number;
    *made = (struct consume_message){.place = read->place, .why = REJECT_JSON};
    int status = read->why ? 0 : 1;
    if (status > 0 && consume->mapping)
        status = mapping_message(consume->mapping, &message, why, error);
    if (status > 0)
        status = message_example(&consume->text, &message, NULL, message_broker_number, NULL, why,
                                 error);
    if (status < 0)
        return -1;
    if (status == 0) {
        made->dead = true;
        snprintf(made->text, sizeof made->text, "%s", read->why ? read->why : why);
        made->example = (struct example){.key = message.key, .key_size = message.key_size};
        return 0;
    }
    const struct frame frame = {consume->text.text, consume->text.size};
    made->why = decode(consume->decoder, &frame, 1, &made->example, made->text);
    if (made->why == REJECT_NOT && made->example.steps == 0)
        made->why = reject(REJECT_SCHEMA, made->text, "a schema is not an example");
    made->dead = made->why != REJECT_NOT;
    return 0;
}

static const void *copy(char **at, const void *bytes, size_t size) {
    char *to = *at;
    if (size)
        memcpy(to, bytes, size);
    *at += size;
    return to;
}

/* Copies the example's memory into the item. */
static int fill(const struct consume *consume, struct consume_item *item,
                const struct consume_read *read, struct error *error) {
    struct example *e = &item->message.example;
    size_t x = item->message.dead ? 0 : example_inputs(e) * consume->input_bytes;
    size_t y = item->message.dead ? 0 : example_targets(e) * consume->target_bytes;
    size_t words = item->message.dead ? 0 : e->words_size;
    size_t note = item->message.dead ? 0 : e->note_size;
    item->bytes = e->key_size + x + y + words + note + read->raw_key_size + read->raw_size;
    if (item->bytes > item->capacity || !item->block) {
        char *block = realloc(item->block, item->bytes + 1);
        if (!block)
            return error_no_memory(error);
        item->block = block;
        item->capacity = item->bytes + 1;
    }
    char *at = item->block;
    e->key = copy(&at, e->key, e->key_size);
    e->x = copy(&at, e->x, x);
    e->y = y ? copy(&at, e->y, y) : NULL;
    e->words = words ? copy(&at, e->words, words) : NULL;
    e->words_size = words;
    e->note = copy(&at, e->note, note);
    e->note_size = note;
    item->raw_key = copy(&at, read->raw_key, read->raw_key_size);
    item->raw = copy(&at, read->raw, read->raw_size);
    item->raw_key_size = read->raw_key ? read->raw_key_size : 0;
    item->raw_size = read->raw_size;
    return 0;
}

/* ---- Queue ---- */

/* Locked. */
static bool has_room(const struct consume *consume) {
    return consume->waiting < CONSUME_QUEUE &&
           (consume->waiting == 0 || consume->bytes < CONSUME_QUEUE_BYTES);
}

/* Waits for room and writes dead letters meanwhile. Returns 1 (locked), 0 or -1. */
static int await_room(struct consume *consume, const struct consume_partition *p,
                      struct error *error) {
    for (;;) {
        lock(consume);
        if (consume->closing || !p->read || p->generation != p->reading) {
            unlock(consume);
            return 0;
        }
        if (has_room(consume))
            return 1;
        unlock(consume);
        if (consume_bury(consume, error) < 0 || consume->ops->meanwhile(consume, error) < 0)
            return -1;
        consume_rest(consume, WAIT_NS);
    }
}

int consume_put(struct consume *consume, const struct consume_read *read, struct error *error) {
    struct consume_partition *p = read->partition;
    struct consume_message made;
    if (make(consume, read, &made, error) < 0)
        return -1;
    int room = await_room(consume, p, error);
    if (room <= 0)
        return room;
    struct consume_item *item = &consume->items[(consume->head + consume->waiting) % CONSUME_QUEUE];
    item->message = made;
    item->message.partition = (size_t)p->number;
    item->generation = p->reading;
    int status = fill(consume, item, read, error);
    if (status == 0) {
        struct example *e = &item->message.example;
        e->numbered = e->sparse = true;
        e->producer = p->producer;
        e->epoch = read->place.epoch;
        e->sequence = read->place.sequence;
        e->count = read->place.count;
        consume->bytes += item->bytes;
        if (consume->waiting++ == 0)
            consume_announce(consume);
        p->at = read->place;
    }
    unlock(consume);
    *consume->reported = '\0';
    return status < 0 ? -1 : 1;
}

#define PAUSE_FIRST (NS_PER_SECOND / 4)
#define PAUSE_MAX (30 * NS_PER_SECOND)

/* ---- Failures ---- */

void consume_answers(struct consume *consume, bool reads) {
    lock(consume);
    uint64_t since = consume->since;
    consume->since = 0;
    consume->answered |= reads;
    unlock(consume);
    consume->pause = PAUSE_FIRST;
    consume->connected = true;
    if (since)
        log_info("%s: available again after %.1f s", consume->endpoint,
                 (double)(clock_ns() - since) / (double)NS_PER_SECOND);
}

void consume_is_away(struct consume *consume, const char *why) {
    lock(consume);
    bool news = !consume->since;
    if (news)
        consume->since = clock_ns();
    unlock(consume);
    if (news)
        log_warning("%s: %s; trying again until it answers", consume->endpoint, why);
}

/* A failure that the daemon cannot repair ends it, unless the broker was read before: an
   administrator may restore a password or a key's type. EX_DATAERR and EX_USAGE always end it. */
static void fail(struct consume *consume, const struct error *error) {
    lock(consume);
    bool answered = consume->answered;
    bool usage = error->status == EX_USAGE, final = usage || error->status == EX_DATAERR;
    if (!answered || final)
        consume->failure = *error;
    if (final)
        consume->failure.status = usage ? EX_CONFIG : EX_UNAVAILABLE;
    unlock(consume);
    if (!answered || final)
        consume_announce(consume);
    else if (strcmp(consume->reported, error->text) != 0)
        log_warning("%s; trying again", error->text);
    snprintf(consume->reported, sizeof consume->reported, "%s", error->text);
}

static void recover(struct consume *consume, const struct error *error) {
    consume->ops->disconnect(consume);
    bool worked = consume->connected;
    consume->connected = false;
    if (worked && error->status == EX_TEMPFAIL) /* connections break now and then */
        return;
    if (error->status == EX_TEMPFAIL)
        consume_is_away(consume, error->text);
    else
        fail(consume, error);
    uint64_t end = clock_ns() + consume->pause, now;
    consume->pause = 2 * consume->pause < PAUSE_MAX ? 2 * consume->pause : PAUSE_MAX;
    while (!consume_is_closing(consume) && (now = clock_ns()) < end)
        consume_rest(consume, end - now);
}

/* ---- Waiting ---- */

void consume_rest(struct consume *consume, uint64_t ns) {
    uint64_t until = clock_ns() + ns;
    const struct timespec time = {.tv_sec = (time_t)(until / NS_PER_SECOND),
                                  .tv_nsec = (long)(until % NS_PER_SECOND)};
    lock(consume);
    if (!consume->closing && consume->dead != DEAD_WANTED)
        pthread_cond_timedwait(&consume->changed, &consume->mutex, &time);
    unlock(consume);
}

bool consume_is_closing(struct consume *consume) {
    lock(consume);
    bool closing = consume->closing || consume->failure.status;
    unlock(consume);
    return closing;
}

bool consume_is_empty(struct consume *consume) {
    lock(consume);
    bool empty = consume->waiting == 0;
    unlock(consume);
    return empty;
}

bool consume_is_new(struct consume *consume) {
    bool known = false;
    lock(consume);
    for (size_t n = 0; n < consume->count; n++)
        known |= consume->partitions[n]->known;
    unlock(consume);
    return !known;
}

bool consume_wanted(struct consume *consume, struct consume_partition *p, bool *begins,
                    bool *known) {
    lock(consume);
    bool read = p->read;
    *begins = read && p->reading != p->generation;
    *known = p->known;
    if (*begins) {
        p->reading = p->generation;
        p->at = p->start;
        p->counted = p->start.count > 0;
        p->committed = (struct consume_place){0};
        p->grouped = p->short_reported = p->is_short = false;
    }
    unlock(consume);
    return read;
}

/* ---- Dead letters, and the thread ---- */

int consume_bury(struct consume *consume, struct error *error) {
    lock(consume);
    bool wanted = consume->dead == DEAD_WANTED;
    const struct consume_item *item = &consume->items[consume->head];
    unlock(consume);
    if (!wanted)
        return 0;
    /* The item does not change meanwhile: only consume_take drops it, and that waits. If the caller
       of consume_stop drops it, the letter is superfluous. */
    if (consume->ops->bury(consume, item, error) < 0)
        return -1;
    lock(consume);
    if (consume->dead == DEAD_WANTED && item == &consume->items[consume->head])
        consume->dead = DEAD_WRITTEN;
    unlock(consume);
    consume_announce(consume);
    return 0;
}

static void *read_on(void *context) {
    struct consume *consume = context;
    struct error error;
    threads_unpin();
    consume->pause = PAUSE_FIRST;
    while (!consume_is_closing(consume))
        if (consume->ops->turn(consume, &error) < 0)
            recover(consume, &error);
    consume->ops->disconnect(consume);
    atomic_store(&consume->ended, true);
    return NULL;
}

/* ---- Opening ---- */

static int start(struct consume *consume, struct error *error) {
    pthread_mutex_init(&consume->mutex, NULL);
    threads_condition(&consume->changed);
    consume->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (consume->event < 0)
        return error_set(error, EX_OSERR, "examples: cannot create an eventfd: %s",
                         strerror(errno));
    if (consume->ops->open(consume, error))
        return -1;
    snprintf(consume->endpoint, sizeof consume->endpoint, "%.*s %.*s", CONSUME_NAME_SIZE / 2 - 1,
             consume->about.where, CONSUME_NAME_SIZE / 2 - 1, consume->about.stream);
    consume->about.endpoint = consume->endpoint;
    int status = threads_start(&consume->thread, read_on, consume);
    consume->started = status == 0;
    return status ? error_set(error, EX_OSERR, "cannot start the thread that reads %s: %s",
                              consume->endpoint, strerror(status))
                  : 0;
}

static int open_mapping(struct consume *consume, struct error *error) {
    struct mapping_options options;
    config_mapping(consume->config, consume->fields, &options);
    options.report = log_info;
    return mapping_open(&consume->mapping, &options, error);
}

int consume_open(struct consume **opened, const struct consume_ops *ops,
                 const struct config *config, const struct model *model, struct error *error) {
    struct consume *consume = *opened = calloc(1, sizeof *consume);
    if (!consume)
        return error_no_memory(error);
    consume->config = config;
    consume->ops = ops;
    consume->event = -1;
    consume->input_bytes = model->x_size * sizeof(float);
    consume->target_bytes = model->y_size * sizeof(float);
    if (decoder_open(&consume->decoder, model, true, error) == 0 &&
        open_mapping(consume, error) == 0 && start(consume, error) == 0)
        return 0;
    consume_close(opened);
    return -1;
}

static void stop(struct consume *consume) {
    lock(consume);
    consume->closing = true;
    pthread_cond_signal(&consume->changed);
    unlock(consume);
    uint64_t until = clock_ns() + CLOSE_NS;
    while (!atomic_load(&consume->ended) && clock_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = CLOSE_LOOK_NS}, NULL);
    lock(consume);
    if (consume->ops->interrupt)
        consume->ops->interrupt(consume);
    unlock(consume);
    pthread_join(consume->thread, NULL);
}

void consume_close(struct consume **closed) {
    struct consume *consume = *closed;
    if (!consume)
        return;
    if (consume->started)
        stop(consume);
    consume->ops->close(consume);
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
    consume->ops->print(place, text);
}

const struct consume_about *consume_about(const struct consume *consume) {
    return &consume->about;
}

int consume_link(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                 struct error *error) {
    return consume->ops->link(consume, self, link, error);
}

void consume_announce(struct consume *consume) {
    eventfd_write(consume->event, 1);
}
