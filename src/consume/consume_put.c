/* From a message to what waits: the example is made and checked here, so that the learning thread
   only learns it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "consume_internal.h"
#include "sockets/decode.h"

#define WAIT_NS (NS_PER_SECOND / 10) /* for room, between two looks */

/* ---- Making ---- */

/* The example, or the reason why it is none. */
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
        made->why = reject(REJECT_SCHEMA, made->text, "a schema is no example");
    made->dead = made->why != REJECT_NOT;
    return 0;
}

/* ---- Copying ---- */

static const void *copy(char **at, const void *bytes, size_t size) {
    char *to = *at;
    if (size)
        memcpy(to, bytes, size);
    *at += size;
    return to;
}

/* What it points to becomes the item's own. */
static int fill(const struct consume *consume, struct consume_item *item,
                const struct consume_read *read, struct error *error) {
    struct example *e = &item->message.example;
    size_t x = e->label || item->message.dead ? 0 : e->steps * consume->input_bytes;
    size_t y = e->y && !item->message.dead ? e->steps * consume->target_bytes : 0;
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

/* ---- Putting ---- */

/* Under the mutex. */
static bool has_room(const struct consume *consume) {
    return consume->waiting < CONSUME_QUEUE &&
           (consume->waiting == 0 || consume->bytes < CONSUME_QUEUE_BYTES);
}

static bool is_read(const struct consume_partition *p) {
    return p->read && p->generation == p->reading;
}

/* Wait for room; meanwhile dead letters are written. 1, locked; 0; -1. */
static int await_room(struct consume *consume, const struct consume_partition *p,
                      struct error *error) {
    for (;;) {
        pthread_mutex_lock(&consume->mutex);
        if (consume->closing || !is_read(p)) {
            pthread_mutex_unlock(&consume->mutex);
            return 0;
        }
        if (has_room(consume))
            return 1;
        pthread_mutex_unlock(&consume->mutex);
        if (consume_bury(consume, error) < 0 ||
            (consume->kind->meanwhile && consume->kind->meanwhile(consume, error) < 0))
            return -1;
        consume_rest(consume, WAIT_NS);
    }
}

static size_t index_of(const struct consume *consume, const struct consume_partition *p) {
    size_t n = 0;
    while (consume->partitions[n] != p)
        n++;
    return n;
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
    item->message.partition = index_of(consume, p);
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
    pthread_mutex_unlock(&consume->mutex);
    *consume->said = '\0';
    return status < 0 ? -1 : 1;
}
