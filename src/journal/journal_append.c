/* Appending: what is known of each stream's numbers, and an entry's way into the queue. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "journal_internal.h"
#include "common/streams.h"

/* ---- Streams ---- */

/* Whether a stream more can be remembered: one is forgotten only when the file has it. */
static bool key_has_room(const struct journal *journal) {
    return streams_count(journal->keys) < JOURNAL_KEYS ||
           journal->lasts[streams_oldest(journal->keys)].position <= atomic_load(&journal->durable);
}

/* The slot of the key, or STREAMS_NONE. What is judged is mostly what is appended next: its key and
   slot are kept. */
static uint32_t find(struct journal *journal, const char *key, size_t key_size, uint64_t producer) {
    struct journal_key *judged = &journal->judged;
    journal_key(judged, key, key_size, producer);
    return journal->judged_slot = streams_find(journal->keys, judged->bytes, judged->size);
}

static uint32_t find_again(struct journal *journal, const char *key, size_t key_size,
                           uint64_t producer) {
    const struct journal_key *judged = &journal->judged;
    bool same = judged->size == sizeof producer + key_size &&
                memcmp(judged->bytes, &producer, sizeof producer) == 0 &&
                memcmp(judged->bytes + sizeof producer, key, key_size) == 0;
    return same ? journal->judged_slot : find(journal, key, key_size, producer);
}

/* The slot of the key that was judged, as the most recently used. There must be room. */
static uint32_t remember(struct journal *journal) {
    const struct journal_key *judged = &journal->judged;
    if (journal->judged_slot != STREAMS_NONE) {
        streams_touch(journal->keys, journal->judged_slot);
        return journal->judged_slot;
    }
    if (streams_count(journal->keys) == JOURNAL_KEYS)
        streams_remove(journal->keys, streams_oldest(journal->keys));
    return journal->judged_slot = streams_add(journal->keys, judged->bytes, judged->size);
}

int journal_last(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                 uint32_t *epoch, uint64_t *sequence, uint64_t *position, struct error *error) {
    struct journal_last last;
    uint32_t slot = find(journal, key, key_size, producer);
    if (slot != STREAMS_NONE) {
        last = journal->lasts[slot];
    } else {
        int found = journal_look_up(journal, key, key_size, producer, &last, error);
        if (found != 1)
            return found;
        if (key_has_room(journal))
            journal->lasts[remember(journal)] = last;
    }
    *epoch = last.epoch;
    *sequence = last.sequence;
    *position = last.position;
    return 1;
}

/* ---- Appending ---- */

bool journal_has_room(struct journal *journal) {
    pthread_mutex_lock(&journal->mutex);
    bool room = journal_queue_place(&journal->queue, journal_queue_size(journal->largest)) ||
                journal->failed;
    pthread_mutex_unlock(&journal->mutex);
    return room && key_has_room(journal);
}

/* Under the mutex: wait for a place; NULL when the journal has failed. */
static struct journal_record *wait_for_place(struct journal *journal, size_t size) {
    struct journal_record *place = NULL;
    while (!journal->failed &&
           (!key_has_room(journal) || !(place = journal_queue_place(&journal->queue, size)))) {
        journal->hurry = true;
        pthread_cond_signal(&journal->work);
        pthread_cond_wait(&journal->done, &journal->mutex);
    }
    return journal->failed ? NULL : place;
}

/* Under the mutex. The journal's thread is woken when it may be asleep, and when it need not wait
   any longer. */
static void put(struct journal *journal, const struct journal_record *record) {
    journal_queue_put(&journal->queue, record);
    size_t count = journal->queue.count;
    if (count == 1 || count == JOURNAL_BATCH_ENTRIES)
        pthread_cond_signal(&journal->work);
}

/* A large record is written while the journal's thread goes on: nobody else uses its place. */
static void write_record(struct journal *journal, struct journal_record *place,
                         const struct journal_record *record) {
    enum { LARGE = 16384 };
    if (record->size >= LARGE)
        pthread_mutex_unlock(&journal->mutex);
    journal_queue_write(place, record);
    if (record->size >= LARGE)
        pthread_mutex_lock(&journal->mutex);
}

/* The time of day is asked for some hundred times a second, and not for each of as many entries as
   there may be. */
static double time_of(struct journal *journal, uint64_t now) {
    static const uint64_t often = NS_PER_SECOND / 200;
    if (journal->day_asked == 0 || now - journal->day_asked >= often) {
        journal->day = clock_unix();
        journal->day_asked = now;
    }
    return journal->day + (double)(now - journal->day_asked) / (double)NS_PER_SECOND;
}

/* The record's bytes after it, in this order; `record` has their sizes. */
static uint64_t append(struct journal *journal, struct journal_record *record) {
    record->position = ++journal->appended;
    record->appended = clock_ns();
    record->time = time_of(journal, record->appended);
    record->size = journal_queue_size(journal_record_bytes(record));
    pthread_mutex_lock(&journal->mutex);
    struct journal_record *place = wait_for_place(journal, record->size);
    if (place) {
        write_record(journal, place, record);
        put(journal, place);
    }
    pthread_mutex_unlock(&journal->mutex);
    return record->position;
}

/* Every field is given: to clear the whole first would cost as much as all of this. */
static struct journal_record record_of(const struct journal *journal,
                                       const struct example *example) {
    bool numbered = example->numbered, label = example->label;
    return (struct journal_record){
        .position = 0,
        .time = 0,
        .appended = 0,
        .stamp = isnan(example->time) ? 0 : example->time + 0.0, /* 0 is unknown, NaN no time */
        .sequence = numbered ? example->sequence : 0,
        /* A label without a number names its example by this producer all the same. */
        .producer = numbered || label ? example->producer : 0,
        .epoch = numbered ? example->epoch : 0,
        .kind = JOURNAL_EXAMPLE,
        .flags =
            (uint8_t)((example->end ? WIRE_END : 0) | (example->learn ? 0 : WIRE_DO_NOT_LEARN) |
                      (label ? WIRE_LABEL : 0) | (example->sparse ? WIRE_SPARSE : 0) |
                      (example->words_size ? WIRE_WORDS : 0)),
        .numbered = numbered,
        .label = {example->label_epoch, example->label_sequence},
        .steps = example->steps,
        .key_size = example->key_size,
        .x_size = label ? 0 : example->steps * journal->input_bytes,
        .y_size = example->y ? example->steps * journal->target_bytes : 0,
        .words_size = example->words_size,
        .key = example->key_size ? example->key : "",
        .x = example->x,
        .y = example->y,
        .words = example->words,
        .partition = example->partition,
        .count = example->count,
        .size = 0,
    };
}

enum journal_seen journal_seen(const struct journal *journal, const struct example *example) {
    if (!journal->recent)
        return JOURNAL_SEEN_UNKNOWN;
    const struct journal_record record = record_of(journal, example);
    return journal_recent_find(journal->recent, &record);
}

/* What is known of the stream's numbers in memory. */
static void note(struct journal *journal, const struct journal_record *record) {
    find_again(journal, record->key, record->key_size, record->producer);
    if (key_has_room(journal))
        journal->lasts[remember(journal)] =
            (struct journal_last){record->epoch, record->sequence, record->position};
    if (journal->recent)
        journal_recent_put(journal->recent, record);
}

uint64_t journal_append_example(struct journal *journal, const struct example *example) {
    struct journal_record record = record_of(journal, example);
    if (record.key_size > WIRE_KEY_MAX || journal_record_bytes(&record) > journal->largest)
        return 0;
    uint64_t position = append(journal, &record);
    if (record.numbered && !record.partition)
        note(journal, &record);
    return position;
}

static uint64_t append_command(struct journal *journal, enum journal_kind kind, const char *text,
                               uint32_t partition, const struct journal_place *place) {
    struct journal_record record = {.kind = (uint8_t)kind,
                                    .key = "",
                                    .x = text,
                                    .x_size = strlen(text) + 1,
                                    .partition = partition,
                                    .epoch = place->epoch,
                                    .sequence = place->sequence,
                                    .count = place->count};
    return record.x_size > JOURNAL_COMMAND_BYTES ? 0 : append(journal, &record);
}

uint64_t journal_append_command(struct journal *journal, enum journal_kind kind, const char *text) {
    static const struct journal_place none;
    return append_command(journal, kind, text, 0, &none);
}

uint64_t journal_append_place(struct journal *journal, enum journal_kind kind, const char *text,
                              uint32_t partition, const struct journal_place *place) {
    return append_command(journal, kind, text, partition, place);
}
