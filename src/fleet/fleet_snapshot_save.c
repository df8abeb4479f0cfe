#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "fleet_machine_internal.h"
#include "fleet_snapshot.h"

enum { ROOM_FIRST = 4096 };

struct out {
    unsigned char *bytes;
    size_t size, room;
    bool failed;
};

static void put_bytes(struct out *out, const void *bytes, size_t size) {
    if (out->room - out->size < size && !out->failed) {
        size_t room = 2 * (out->size + size) + ROOM_FIRST;
        unsigned char *larger = realloc(out->bytes, room);
        out->failed = !larger;
        if (larger) {
            out->bytes = larger;
            out->room = room;
        }
    }
    if (out->failed)
        return;
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void put(struct out *out, uint64_t number) {
    unsigned char bytes[SNAPSHOT_NUMBER_SIZE];
    size_t size = 0;
    for (; number >= SNAPSHOT_MORE; number >>= SNAPSHOT_BITS)
        bytes[size++] = (unsigned char)(number | SNAPSHOT_MORE);
    bytes[size++] = (unsigned char)number;
    put_bytes(out, bytes, size);
}

static void put_text(struct out *out, const char *text) {
    size_t size = strlen(text);
    put(out, size);
    put_bytes(out, text, size);
}

static void put_member(struct out *out, const struct member *member) {
    put_text(out, member->name);
    put_text(out, member->id);
    put_text(out, member->run);
    put_text(out, member->info);
    put_text(out, member->where);
    put(out, member->number);
    put(out, member->is_listed);
    put(out, member->is_leased);
    put(out, member->lease_end);
    put(out, member->draining);
    put(out, member->arrived);
    put(out, member->awaited);
    put(out, member->serial);
    put(out, member->round);
}

static void put_publication(struct out *out, const struct fleet_publication *publication) {
    put(out, publication->claim);
    put(out, publication->serial);
    put(out, publication->rows);
    put_text(out, publication->where);
}

static void put_partition(struct out *out, const struct partition *partition) {
    put(out, partition->owner ? partition->owner->place + 1 : 0);
    put(out, partition->claim);
    put(out, partition->committed);
    if (!partition->committed)
        return;
    put(out, partition->offset.epoch);
    put(out, partition->offset.sequence);
    put(out, partition->learned);
    put(out, partition->streams);
    put(out, partition->serial);
    put(out, partition->by);
    put(out, partition->count);
    for (size_t n = 0; n < partition->count; n++)
        put_publication(out, &partition->states[n]);
}

static int by_claim(const void *a, const void *b) {
    const struct fleet_ended *one = a, *other = b;
    return (one->claim > other->claim) - (one->claim < other->claim);
}

/* In the order of claims, whatever the table's. */
static void put_ended(struct out *out, const struct fleet_claims *ended) {
    struct fleet_ended *sorted = malloc((ended->count + 1) * sizeof *sorted);
    size_t count = 0;
    if (!sorted) {
        out->failed = true;
        return;
    }
    for (size_t n = 0; n < ended->room; n++)
        if (ended->places[n].claim)
            sorted[count++] = ended->places[n];
    qsort(sorted, count, sizeof *sorted, by_claim);
    put(out, count);
    for (size_t n = 0; n < count; n++) {
        put(out, sorted[n].claim);
        put(out, sorted[n].is_known);
        put(out, sorted[n].offset.epoch);
        put(out, sorted[n].offset.sequence);
    }
    free(sorted);
}

static void put_fleet(struct out *out, const struct fleet_machine *machine) {
    put_text(out, machine->stream);
    put_text(out, machine->digest);
    put(out, machine->every);
    put(out, machine->partition_count);
    for (size_t n = 0; n < machine->partition_count; n++)
        put_partition(out, &machine->partitions[n]);
}

static void put_rounds(struct out *out, const struct fleet_machine *machine) {
    put(out, machine->round);
    put(out, machine->since);
    for (size_t n = 0; n < ROUNDS_KEPT; n++) {
        put(out, machine->closed[n].round);
        if (machine->closed[n].round) {
            put_text(out, machine->closed[n].names);
            put_text(out, machine->closed[n].wheres);
        }
    }
}

static void put_hash(struct out *out) {
    unsigned char hash[SNAPSHOT_HASH_SIZE];
    uint64_t number = out->failed ? 0 : hash_bytes(HASH_BEGIN, out->bytes, out->size);
    for (size_t n = 0; n < SNAPSHOT_HASH_SIZE; n++)
        hash[n] = (unsigned char)(number >> 8 * n);
    put_bytes(out, hash, SNAPSHOT_HASH_SIZE);
}

void *fleet_machine_save(const struct fleet_machine *machine, uint64_t position, size_t *size,
                         struct error *error) {
    struct out out = {.bytes = NULL};
    put_bytes(&out, SNAPSHOT_HEAD SNAPSHOT_VERSION, strlen(SNAPSHOT_HEAD SNAPSHOT_VERSION));
    put(&out, position);
    put(&out, machine->time);
    put(&out, machine->version);
    put(&out, machine->claim);
    put(&out, machine->member_count);
    for (size_t n = 0; n < machine->member_count; n++)
        put_member(&out, machine->members[n]);
    put(&out, machine->stream != NULL);
    if (machine->stream)
        put_fleet(&out, machine);
    put_ended(&out, &machine->ended);
    put_rounds(&out, machine);
    put_hash(&out);
    *size = out.size;
    if (!out.failed)
        return out.bytes;
    free(out.bytes);
    error_no_memory(error);
    return NULL;
}
