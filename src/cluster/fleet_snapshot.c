/* A machine as bytes: a line that says what they are and which version, numbers of 7 bits a byte
   from the lowest, texts after their sizes, and at the end the FNV-1a hash of all before. One
   function for each thing both writes and reads it, so that both have the same order. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/hash.h"
#include "fleet_state.h"

#define HEAD "runnel fleet machine "
#define FORM "1\n"

enum {
    HASH_SIZE = 8,
    BITS = 7,
    MORE = 1 << BITS, /* another byte follows */
    NUMBER_SIZE = 10, /* of 64 bits */
    ROOM_FIRST = 4096,
    /* Bytes that each has at least, so that counts can be believed. */
    MEMBER_SIZE_MIN = 12,
    PUBLICATION_SIZE_MIN = 4,
    ENDED_SIZE_MIN = 4
};

/* What commands can bring, and what only counts them, so that it can go on counting. */
#define NUMBER_MAX ((uint64_t)INT64_MAX)
#define COUNT_MAX (NUMBER_MAX / 2)

/* Bytes that are written, or read: after the first thing that is not as it should be, all that is
   read is zero. */
struct snapshot {
    bool reads, bad, no_memory;
    const unsigned char *at, *end;
    unsigned char *bytes;
    size_t size, room;
};

/* ---- Bytes, numbers, texts ---- */

static void put_bytes(struct snapshot *s, const void *bytes, size_t size) {
    if (s->room - s->size < size && !s->bad) {
        size_t room = 2 * (s->size + size) + ROOM_FIRST;
        unsigned char *larger = realloc(s->bytes, room);
        s->no_memory = s->bad = !larger;
        if (larger) {
            s->bytes = larger;
            s->room = room;
        }
    }
    if (s->bad)
        return;
    memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static void put(struct snapshot *s, uint64_t number) {
    unsigned char bytes[NUMBER_SIZE];
    size_t size = 0;
    for (; number >= MORE; number >>= BITS)
        bytes[size++] = (unsigned char)(number | MORE);
    bytes[size++] = (unsigned char)number;
    put_bytes(s, bytes, size);
}

static uint64_t get(struct snapshot *s, uint64_t max) {
    uint64_t number = 0;
    for (unsigned n = 0; n < NUMBER_SIZE && s->at < s->end && !s->bad; n++) {
        const unsigned char byte = *s->at++;
        number |= (uint64_t)(byte & (MORE - 1)) << BITS * n;
        if (byte & MORE)
            continue;
        s->bad = number > max;
        return s->bad ? 0 : number;
    }
    s->bad = true;
    return 0;
}

/* A number that is at most `max`; what is read, or the one that is written. */
static uint64_t number(struct snapshot *s, uint64_t value, uint64_t max) {
    if (s->reads)
        return get(s, max);
    put(s, value);
    return value;
}

static void count(struct snapshot *s, uint64_t *value, uint64_t max) {
    *value = number(s, *value, max);
}

static void flag(struct snapshot *s, bool *value) {
    *value = number(s, *value, 1);
}

/* How many things follow, each of at least so many bytes. */
static size_t length(struct snapshot *s, size_t value, size_t each) {
    return number(s, value, s->reads ? (uint64_t)(s->end - s->at) / each : 0);
}

/* In place of the one that is there. Lines: such as end with '\n'; else a text has none. */
static void text(struct snapshot *s, char **value, uint64_t max, bool lines) {
    size_t size = length(s, s->reads ? 0 : strlen(*value), 1);
    if (!s->reads) {
        put_bytes(s, *value, size);
        return;
    }
    char *read = s->bad || size > max ? NULL : malloc(size + 1);
    if (!read) {
        s->no_memory |= !s->bad && size <= max;
        s->bad = true;
        return;
    }
    memcpy(read, s->at, size);
    read[size] = '\0';
    s->at += size;
    for (size_t n = 0; n < size; n++)
        s->bad |= (unsigned char)read[n] < ' ' && !(lines && read[n] == '\n');
    s->bad |= lines && size > 0 && read[size - 1] != '\n';
    free(*value);
    *value = read;
}

static void where(struct snapshot *s, char value[FLEET_WHERE_SIZE]) {
    char *read = s->reads ? NULL : value;
    text(s, &read, FLEET_WHERE_SIZE - 1, false);
    if (s->reads && read)
        memcpy(value, read, strlen(read) + 1);
    if (s->reads)
        free(read);
}

static void offset(struct snapshot *s, struct fleet_offset *value) {
    value->epoch = (uint32_t)number(s, value->epoch, UINT32_MAX);
    count(s, &value->sequence, NUMBER_MAX);
}

/* ---- Members ---- */

/* Names rise. */
static struct member *add_member(struct snapshot *s, struct fleet_machine *machine,
                                 const char *name) {
    struct member *member = NULL;
    if (name && machine_place(machine, name) == machine->member_count)
        s->no_memory |= !(member = machine_add(machine, name));
    if (!member || member->place + 1 != machine->member_count) {
        s->bad = true;
        return NULL;
    }
    return member;
}

static void member(struct snapshot *s, struct fleet_machine *machine, size_t n) {
    char *name = s->reads ? NULL : machine->members[n]->name;
    text(s, &name, FLEET_NAME_SIZE - 1, false);
    struct member *m = s->reads ? add_member(s, machine, name) : machine->members[n];
    if (s->reads)
        free(name);
    if (!m)
        return;
    text(s, &m->id, FLEET_ID_SIZE - 1, false);
    text(s, &m->run, FLEET_ID_SIZE - 1, false);
    text(s, &m->info, FLEET_INFO_MAX, false);
    where(s, m->where);
    count(s, &m->number, NUMBER_MAX);
    flag(s, &m->is_listed);
    flag(s, &m->is_leased);
    count(s, &m->lease_end, NUMBER_MAX);
    flag(s, &m->draining);
    flag(s, &m->arrived);
    flag(s, &m->awaited);
    count(s, &m->serial, NUMBER_MAX);
    count(s, &m->round, NUMBER_MAX);
    if (s->reads) {
        machine->arrived += m->arrived;
        machine->awaited += m->awaited;
    }
}

/* ---- Partitions ---- */

static void make_publications(struct snapshot *s, struct partition *partition, size_t count) {
    s->bad |= count > FLEET_PUBLICATIONS_MAX;
    if (s->bad || count == 0)
        return;
    partition->states = calloc(count, sizeof *partition->states);
    if (partition->states)
        partition->count = partition->room = count;
    else
        s->no_memory = s->bad = true;
}

static void publications(struct snapshot *s, struct partition *partition) {
    size_t found = length(s, partition->count, PUBLICATION_SIZE_MIN);
    if (s->reads)
        make_publications(s, partition, found);
    for (size_t n = 0; n < partition->count; n++) {
        struct fleet_publication *publication = &partition->states[n];
        count(s, &publication->claim, NUMBER_MAX);
        count(s, &publication->serial, NUMBER_MAX);
        count(s, &publication->rows, NUMBER_MAX);
        where(s, publication->where);
    }
}

static void partition(struct snapshot *s, struct fleet_machine *machine, struct partition *p) {
    size_t owner = number(s, p->owner ? p->owner->place + 1 : 0, machine->member_count);
    count(s, &p->claim, machine->claim);
    if (s->reads && owner) {
        p->owner = machine->members[owner - 1];
        p->owner->owned++;
        s->bad |= p->claim == 0;
    }
    flag(s, &p->committed);
    if (!p->committed)
        return;
    offset(s, &p->offset);
    count(s, &p->learned, NUMBER_MAX);
    count(s, &p->streams, NUMBER_MAX);
    count(s, &p->serial, NUMBER_MAX);
    count(s, &p->by, NUMBER_MAX);
    publications(s, p);
}

static void fleet(struct snapshot *s, struct fleet_machine *machine) {
    struct fleet_kind kind = fleet_machine_kind(machine);
    char *stream = machine->stream, *digest = machine->digest;
    text(s, &stream, FLEET_TEXT_MAX, false);
    text(s, &digest, FLEET_TEXT_MAX, false);
    count(s, &kind.every, NUMBER_MAX);
    kind.partitions = number(s, kind.partitions, FLEET_PARTITIONS_MAX);
    kind.stream = stream;
    kind.digest = digest;
    if (s->reads && !s->bad && machine_found(machine, &kind))
        s->no_memory = s->bad = true;
    if (s->reads) {
        free(stream);
        free(digest);
    }
    for (size_t n = 0; !s->bad && n < kind.partitions; n++)
        partition(s, machine, &machine->partitions[n]);
}

/* ---- Claims that have ended ---- */

static int by_claim(const void *a, const void *b) {
    const struct fleet_ended *one = a, *other = b;
    return (one->claim > other->claim) - (one->claim < other->claim);
}

/* (count,) in the order of claims, whatever the table's; to be freed. */
static struct fleet_ended *sort_ended(struct snapshot *s, const struct fleet_claims *claims) {
    struct fleet_ended *sorted = malloc((claims->count + 1) * sizeof *sorted);
    size_t count = 0;
    s->no_memory |= !sorted;
    s->bad |= !sorted;
    for (size_t n = 0; sorted && n < claims->room; n++)
        if (claims->places[n].claim)
            sorted[count++] = claims->places[n];
    if (sorted)
        qsort(sorted, count, sizeof *sorted, by_claim);
    return sorted;
}

static void ended(struct snapshot *s, struct fleet_machine *machine) {
    struct fleet_ended *sorted = s->reads ? NULL : sort_ended(s, &machine->ended);
    size_t found = length(s, machine->ended.count, ENDED_SIZE_MIN);
    for (size_t n = 0; !s->bad && n < found; n++) {
        struct fleet_ended one = sorted ? sorted[n] : (struct fleet_ended){.is_over = true};
        count(s, &one.claim, machine->claim);
        flag(s, &one.is_known);
        offset(s, &one.offset);
        s->bad |= one.claim == 0;
        if (s->reads && !s->bad && fleet_claims_put(&machine->ended, &one))
            s->no_memory = s->bad = true;
    }
    free(sorted);
}

/* ---- Rounds ---- */

static size_t lines_of(const char *text) {
    size_t lines = 0;
    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

static void rounds(struct snapshot *s, struct fleet_machine *machine) {
    count(s, &machine->round, COUNT_MAX);
    count(s, &machine->since, COUNT_MAX);
    s->bad |= machine->round == 0;
    for (size_t n = 0; !s->bad && n < ROUNDS_KEPT; n++) {
        struct closed_round *closed = &machine->closed[n];
        count(s, &closed->round, machine->round - 1);
        if (closed->round == 0)
            continue;
        text(s, &closed->names, SIZE_MAX, true);
        text(s, &closed->wheres, SIZE_MAX, true);
        s->bad |=
            closed->round % ROUNDS_KEPT != n || lines_of(closed->names) != lines_of(closed->wheres);
    }
}

/* ---- The machine ---- */

/* What counts as not kept in fleet_state.h is computed, or found when it is needed. */
static void machine_bytes(struct snapshot *s, struct fleet_machine *machine, uint64_t *position) {
    bool is_there = machine->stream != NULL;
    count(s, position, INT64_MAX - 1); /* an offset of Kafka's, and one comes after it */
    count(s, &machine->time, COUNT_MAX);
    count(s, &machine->version, COUNT_MAX);
    count(s, &machine->claim, COUNT_MAX);
    size_t members = length(s, machine->member_count, MEMBER_SIZE_MIN);
    for (size_t n = 0; !s->bad && n < members; n++)
        member(s, machine, n);
    flag(s, &is_there);
    if (is_there)
        fleet(s, machine);
    ended(s, machine);
    rounds(s, machine);
}

void *fleet_machine_save(const struct fleet_machine *machine, uint64_t position, size_t *size,
                         struct error *error) {
    struct snapshot s = {.reads = false};
    unsigned char hash[HASH_SIZE];
    put_bytes(&s, HEAD FORM, strlen(HEAD FORM));
    machine_bytes(&s, (struct fleet_machine *)(uintptr_t)machine, &position); /* is not changed */
    uint64_t number = s.bad ? 0 : hash_bytes(HASH_BEGIN, s.bytes, s.size);
    for (size_t n = 0; n < HASH_SIZE; n++)
        hash[n] = (unsigned char)(number >> 8 * n);
    put_bytes(&s, hash, HASH_SIZE);
    *size = s.size;
    if (!s.bad)
        return s.bytes;
    free(s.bytes);
    error_no_memory(error);
    return NULL;
}

static bool is_whole(const unsigned char *bytes, size_t size) {
    uint64_t hash = 0;
    for (size_t n = 0; n < HASH_SIZE; n++)
        hash |= (uint64_t)bytes[size - HASH_SIZE + n] << 8 * n;
    return hash == hash_bytes(HASH_BEGIN, bytes, size - HASH_SIZE);
}

static int check(const unsigned char *bytes, size_t size, struct error *error) {
    const size_t head = strlen(HEAD), version = strlen(FORM);
    if (size < head + version + HASH_SIZE || memcmp(bytes, HEAD, head) != 0 ||
        !is_whole(bytes, size))
        return error_set(error, EX_DATAERR, "a snapshot of the fleet is damaged");
    if (memcmp(bytes + head, FORM, version) != 0)
        return error_set(
            error, EX_UNAVAILABLE,
            "a snapshot of the fleet is of a later version of runnel: give all daemons "
            "of the fleet the same version");
    return 0;
}

struct fleet_machine *fleet_machine_load(const void *bytes, size_t size, uint64_t *position,
                                         struct error *error) {
    if (check(bytes, size, error))
        return NULL;
    struct snapshot s = {.reads = true,
                         .at = (const unsigned char *)bytes + strlen(HEAD FORM),
                         .end = (const unsigned char *)bytes + size - HASH_SIZE};
    struct fleet_machine *machine = fleet_machine_open(error);
    if (!machine)
        return NULL;
    machine_bytes(&s, machine, position);
    if (!s.bad && s.at == s.end)
        return machine;
    if (s.no_memory)
        error_no_memory(error);
    else
        error_set(error, EX_DATAERR, "a snapshot of the fleet is damaged");
    fleet_machine_close(&machine);
    return NULL;
}
