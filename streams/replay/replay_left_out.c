#include "replay_left_out.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "replay_journal.h"

/* One partition of one rollback: examples of the producer between two entries, numbered after. */
struct beyond {
    uint64_t after, position;
    uint64_t producer, sequence;
    uint32_t epoch;
};

struct replay_left_out {
    const char *path;
    struct beyond *list;
    size_t count;
    uint64_t *unsent; /* positions, from the first on */
    size_t unsent_count, unsent_room;
};

/* ---- Those of the journal ---- */

static bool read_partition(const json_t *partition, struct beyond *to) {
    const json_t *producer = json_array_get(partition, 0), *epoch = json_array_get(partition, 1);
    const json_t *sequence = json_array_get(partition, 2);
    to->producer = (uint64_t)json_integer_value(producer);
    to->epoch = (uint32_t)json_integer_value(epoch);
    to->sequence = (uint64_t)json_integer_value(sequence);
    return json_is_integer(producer) && json_is_integer(epoch) && json_is_integer(sequence);
}

static int add_all(struct replay_left_out *left_out, const json_t *rollback, uint64_t position,
                   struct error *error) {
    const json_t *partitions = json_object_get(rollback, "beyond");
    size_t n, size = json_array_size(partitions);
    json_t *partition;
    if (size == 0)
        return 0;
    struct beyond *larger =
        realloc(left_out->list, (left_out->count + size) * sizeof *left_out->list);
    if (!larger)
        return error_no_memory(error);
    left_out->list = larger;
    json_array_foreach(partitions, n, partition) {
        struct beyond beyond = {.position = position};
        beyond.after = (uint64_t)json_integer_value(json_object_get(rollback, "to"));
        if (!read_partition(partition, &beyond))
            return error_set(error, EX_DATAERR,
                             "%s: entry %llu is a rollback that this program does not understand",
                             left_out->path, (unsigned long long)position);
        left_out->list[left_out->count++] = beyond;
    }
    return 0;
}

/* What it leaves out must not have been sent by an earlier call. */
static int take_rollback(struct replay_left_out *left_out, const struct replay_entry *entry,
                         uint64_t oldest, uint64_t first, struct error *error) {
    json_t *rollback = json_loads(entry->command, 0, NULL);
    uint64_t begins = (uint64_t)json_integer_value(json_object_get(rollback, "first"));
    int status = add_all(left_out, rollback, entry->position, error);
    if (status == 0 && json_array_size(json_object_get(rollback, "beyond")) && begins >= oldest &&
        begins < first)
        status = error_set(error, EX_DATAERR,
                           "%s: entry %llu leaves out examples from entry %llu on, which another "
                           "daemon of the fleet has learned, and those before --from %llu may have "
                           "been sent: replay from entry %llu on to a daemon that has none of them",
                           left_out->path, (unsigned long long)entry->position,
                           (unsigned long long)begins, (unsigned long long)first,
                           (unsigned long long)oldest);
    json_decref(rollback);
    return status;
}

static int look_at(struct replay_left_out *left_out, struct replay_journal *journal,
                   uint64_t position, uint64_t first, struct error *error) {
    struct replay_entry entry;
    if (replay_journal_read(journal, position, &entry, error))
        return -1;
    if (entry.kind != JOURNAL_ROLLBACK)
        return 0;
    return take_rollback(left_out, &entry, replay_journal_oldest(journal), first, error);
}

static int look_through(struct replay_left_out *left_out, struct replay_journal *journal,
                        uint64_t first, uint64_t last, struct error *error) {
    uint64_t from = first, begin = 0, end = 0;
    int found = 1;
    while (from <= last && found > 0) {
        found = replay_journal_find(journal, from, JOURNAL_ROLLBACK, &begin, &end, error);
        for (; found > 0 && begin <= end && begin <= last; begin++)
            if (look_at(left_out, journal, begin, first, error))
                return -1;
        from = end + 1;
    }
    return found < 0 ? -1 : 0;
}

int replay_left_out_open(struct replay_left_out **left_out, struct replay_journal *journal,
                         const char *path, uint64_t first, uint64_t last, struct error *error) {
    struct replay_left_out *opened = *left_out = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->path = path;
    if (look_through(opened, journal, first, last, error) == 0)
        return 0;
    replay_left_out_close(left_out);
    return -1;
}

void replay_left_out_close(struct replay_left_out **left_out) {
    if (*left_out) {
        free((*left_out)->list);
        free((*left_out)->unsent);
    }
    free(*left_out);
    *left_out = NULL;
}

/* ---- An entry ---- */

static bool is_beyond(const struct beyond *beyond, const struct replay_entry *entry) {
    const struct wire_header *header = &entry->header;
    if (entry->position <= beyond->after || entry->position >= beyond->position ||
        !entry->numbered || header->producer != beyond->producer)
        return false;
    return header->epoch != beyond->epoch ? header->epoch > beyond->epoch
                                          : header->sequence > beyond->sequence;
}

bool replay_left_out_has(const struct replay_left_out *left_out, const struct replay_entry *entry) {
    for (size_t n = 0; n < left_out->count; n++)
        if (entry->command ? left_out->list[n].position == entry->position
                           : is_beyond(&left_out->list[n], entry))
            return true;
    return false;
}

int replay_left_out_note(struct replay_left_out *left_out, uint64_t position, struct error *error) {
    if (left_out->unsent_count == left_out->unsent_room) {
        size_t room = 2 * left_out->unsent_room + 64;
        uint64_t *larger = realloc(left_out->unsent, room * sizeof *larger);
        if (!larger)
            return error_no_memory(error);
        left_out->unsent = larger;
        left_out->unsent_room = room;
    }
    left_out->unsent[left_out->unsent_count++] = position;
    return 0;
}

/* ---- Positions elsewhere ---- */

/* How many before a position were not sent. */
static uint64_t count_before(const struct replay_left_out *left_out, uint64_t position) {
    size_t low = 0, high = left_out->unsent_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (left_out->unsent[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first entry that was sent at or after one; the last at or before one. */
static json_t *from_on(const struct replay_left_out *left_out, const json_t *position) {
    uint64_t at = (uint64_t)json_integer_value(position);
    return json_integer((json_int_t)(at - count_before(left_out, at)));
}

static json_t *up_to(const struct replay_left_out *left_out, const json_t *position) {
    uint64_t at = (uint64_t)json_integer_value(position);
    return json_integer((json_int_t)(at - count_before(left_out, at + 1)));
}

char *replay_left_out_rollback(const struct replay_left_out *left_out, const char *command) {
    json_t *rollback = json_loads(command, 0, NULL);
    json_t *spans = json_object_get(rollback, "spans"), *span;
    size_t n;
    if (json_object_get(rollback, "to"))
        json_object_set_new(rollback, "to", up_to(left_out, json_object_get(rollback, "to")));
    if (json_object_get(rollback, "first"))
        json_object_set_new(rollback, "first",
                            from_on(left_out, json_object_get(rollback, "first")));
    json_array_foreach(spans, n, span) {
        json_array_set_new(span, 0, from_on(left_out, json_array_get(span, 0)));
        json_array_set_new(span, 1, up_to(left_out, json_array_get(span, 1)));
    }
    char *text = rollback ? json_dumps(rollback, JSON_COMPACT) : strdup(command);
    json_decref(rollback);
    return text;
}
