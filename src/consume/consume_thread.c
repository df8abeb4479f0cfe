/* The thread that reads: it does what is next at the broker, and where that fails it says so once,
   waits, longer each time, and connects again. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/threads.h"
#include "consume_internal.h"

#define PAUSE_FIRST (NS_PER_SECOND / 4)
#define PAUSE_MAX (30 * NS_PER_SECOND)

/* ---- Troubles ---- */

void consume_answers(struct consume *consume, bool reads) {
    pthread_mutex_lock(&consume->mutex);
    uint64_t since = consume->since;
    consume->since = 0;
    consume->answered |= reads;
    pthread_mutex_unlock(&consume->mutex);
    consume->pause = PAUSE_FIRST;
    consume->connected = true;
    if (since)
        log_info("%s: back after %.1f s", consume->endpoint,
                 (double)(clock_ns() - since) / (double)NS_PER_SECOND);
}

void consume_is_away(struct consume *consume, const char *why) {
    pthread_mutex_lock(&consume->mutex);
    bool news = !consume->since;
    if (news)
        consume->since = clock_ns();
    pthread_mutex_unlock(&consume->mutex);
    if (news)
        log_warning("%s: %s; trying again until it answers", consume->endpoint, why);
}

/* What the daemon can do nothing about ends it, unless the broker has already been read: who has
   changed a password, or a key's type, may change it back. EX_DATAERR ends it always, and so does
   EX_USAGE: only a key of the configuration can decide. */
static void fail(struct consume *consume, const struct error *error) {
    pthread_mutex_lock(&consume->mutex);
    bool answered = consume->answered;
    bool usage = error->status == EX_USAGE, final = usage || error->status == EX_DATAERR;
    if (!answered || final)
        consume->failure = *error;
    if (final)
        consume->failure.status = usage ? EX_CONFIG : EX_UNAVAILABLE;
    pthread_mutex_unlock(&consume->mutex);
    if (!answered || final)
        consume_announce(consume);
    else if (strcmp(consume->said, error->text) != 0)
        log_warning("%s; trying again", error->text);
    snprintf(consume->said, sizeof consume->said, "%s", error->text);
}

static void recover(struct consume *consume, const struct error *error) {
    consume->kind->disconnect(consume);
    bool worked = consume->connected;
    consume->connected = false;
    if (worked && error->status == EX_TEMPFAIL) /* a connection ends now and then */
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
    pthread_mutex_lock(&consume->mutex);
    if (!consume->closing && consume->dead != DEAD_WANTED)
        pthread_cond_timedwait(&consume->changed, &consume->mutex, &time);
    pthread_mutex_unlock(&consume->mutex);
}

bool consume_is_closing(struct consume *consume) {
    pthread_mutex_lock(&consume->mutex);
    bool closing = consume->closing || consume->failure.status;
    pthread_mutex_unlock(&consume->mutex);
    return closing;
}

bool consume_is_empty(struct consume *consume) {
    pthread_mutex_lock(&consume->mutex);
    bool empty = consume->waiting == 0;
    pthread_mutex_unlock(&consume->mutex);
    return empty;
}

bool consume_is_new(struct consume *consume) {
    bool known = false;
    pthread_mutex_lock(&consume->mutex);
    for (size_t n = 0; n < consume->count; n++)
        known |= consume->partitions[n]->known;
    pthread_mutex_unlock(&consume->mutex);
    return !known;
}

bool consume_wanted(struct consume *consume, struct consume_partition *p, bool *begins,
                    bool *known) {
    pthread_mutex_lock(&consume->mutex);
    bool read = p->read;
    *begins = read && p->reading != p->generation;
    *known = p->known;
    if (*begins) {
        p->reading = p->generation;
        p->at = p->start;
        p->counted = p->start.count > 0;
        p->committed = (struct consume_place){0};
        p->grouped = p->short_said = p->is_short = false;
    }
    pthread_mutex_unlock(&consume->mutex);
    return read;
}

/* ---- Dead letters ---- */

int consume_bury(struct consume *consume, struct error *error) {
    pthread_mutex_lock(&consume->mutex);
    bool wanted = consume->dead == DEAD_WANTED;
    const struct consume_item *item = &consume->items[consume->head];
    pthread_mutex_unlock(&consume->mutex);
    if (!wanted)
        return 0;
    /* The item stays as it is: only consume_take drops it, which waits, or consume_stop's caller
       does; then the letter was written for nothing. */
    if (consume->kind->bury(consume, item, error) < 0)
        return -1;
    pthread_mutex_lock(&consume->mutex);
    if (consume->dead == DEAD_WANTED && item == &consume->items[consume->head])
        consume->dead = DEAD_WRITTEN;
    pthread_mutex_unlock(&consume->mutex);
    consume_announce(consume);
    return 0;
}

/* ---- The thread ---- */

void *consume_thread(void *context) {
    struct consume *consume = context;
    struct error error;
    threads_unpin();
    consume->pause = PAUSE_FIRST;
    while (!consume_is_closing(consume))
        if (consume->kind->turn(consume, &error) < 0)
            recover(consume, &error);
    consume->kind->disconnect(consume);
    atomic_store(&consume->ended, true);
    return NULL;
}
