#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/hash.h"
#include "fleet_machine_internal.h"
#include "fleet_snapshot.h"

/* Bytes that each has at least, so that counts can be believed. */
enum { MEMBER_SIZE_MIN = 12, PUBLICATION_SIZE_MIN = 4, ENDED_SIZE_MIN = 4 };

/* What commands can bring, and what only counts them, so that it can go on counting. */
#define NUMBER_MAX ((uint64_t)INT64_MAX)
#define COUNT_MAX (NUMBER_MAX / 2)

/* After the first thing that is not as it should be, all is zero. */
struct in {
    const unsigned char *at, *end;
    bool bad, no_memory;
};

static uint64_t get(struct in *in, uint64_t max) {
    uint64_t number = 0;
    for (unsigned n = 0; n < SNAPSHOT_NUMBER_SIZE && in->at < in->end && !in->bad; n++) {
        const unsigned char byte = *in->at++;
        number |= (uint64_t)(byte & (SNAPSHOT_MORE - 1)) << SNAPSHOT_BITS * n;
        if (byte & SNAPSHOT_MORE)
            continue;
        in->bad = number > max;
        return in->bad ? 0 : number;
    }
    in->bad = true;
    return 0;
}

static bool get_flag(struct in *in) {
    return get(in, 1);
}

/* How many things follow, each of at least so many bytes. */
static size_t get_count(struct in *in, size_t each) {
    return get(in, (uint64_t)(in->end - in->at) / each);
}

/* To be freed; NULL: there is none. Lines: such as end with '\n'; else a text has none. */
static char *get_text(struct in *in, uint64_t max, bool lines) {
    size_t size = get_count(in, 1);
    char *text = in->bad || size > max ? NULL : malloc(size + 1);
    if (!text) {
        in->no_memory |= !in->bad && size <= max;
        in->bad = true;
        return NULL;
    }
    memcpy(text, in->at, size);
    text[size] = '\0';
    in->at += size;
    for (size_t n = 0; n < size; n++)
        in->bad |= (unsigned char)text[n] < ' ' && !(lines && text[n] == '\n');
    in->bad |= lines && size > 0 && text[size - 1] != '\n';
    return text;
}

static void get_where(struct in *in, char where[FLEET_WHERE_SIZE]) {
    char *text = get_text(in, FLEET_WHERE_SIZE - 1, false);
    if (text)
        memcpy(where, text, strlen(text) + 1);
    free(text);
}

static void replace(char **text, char *with) {
    if (!with)
        return;
    free(*text);
    *text = with;
}

static void get_member(struct in *in, struct fleet_machine *machine) {
    char *name = get_text(in, FLEET_NAME_SIZE - 1, false);
    struct member *member = NULL;
    if (name && machine_place(machine, name) == machine->member_count)
        in->no_memory |= !(member = machine_add(machine, name));
    free(name);
    if (!member || member->place + 1 != machine->member_count) {
        in->bad = true;
        return;
    }
    replace(&member->id, get_text(in, FLEET_ID_SIZE - 1, false));
    replace(&member->run, get_text(in, FLEET_ID_SIZE - 1, false));
    replace(&member->info, get_text(in, FLEET_INFO_MAX, false));
    get_where(in, member->where);
    member->number = get(in, NUMBER_MAX);
    member->is_listed = get_flag(in);
    member->is_leased = get_flag(in);
    member->lease_end = get(in, NUMBER_MAX);
    member->draining = get_flag(in);
    member->arrived = get_flag(in);
    member->awaited = get_flag(in);
    member->serial = get(in, NUMBER_MAX);
    member->round = get(in, NUMBER_MAX);
    machine->arrived += member->arrived;
    machine->awaited += member->awaited;
}

static void get_publications(struct in *in, struct partition *partition) {
    partition->count = get_count(in, PUBLICATION_SIZE_MIN);
    in->bad |= partition->count > FLEET_PUBLICATIONS_MAX;
    if (in->bad || partition->count == 0) {
        partition->count = 0;
        return;
    }
    partition->states = calloc(partition->count, sizeof *partition->states);
    if (!partition->states) {
        partition->count = 0;
        in->no_memory = in->bad = true;
        return;
    }
    partition->room = partition->count;
    for (size_t n = 0; n < partition->count; n++) {
        struct fleet_publication *publication = &partition->states[n];
        publication->claim = get(in, NUMBER_MAX);
        publication->serial = get(in, NUMBER_MAX);
        publication->rows = get(in, NUMBER_MAX);
        get_where(in, publication->where);
    }
}

static void get_partition(struct in *in, struct fleet_machine *machine, size_t n) {
    struct partition *partition = &machine->partitions[n];
    size_t owner = get(in, machine->member_count);
    partition->claim = get(in, machine->claim);
    if (owner) {
        partition->owner = machine->members[owner - 1];
        partition->owner->owned++;
        in->bad |= partition->claim == 0;
    }
    partition->committed = get_flag(in);
    if (!partition->committed)
        return;
    partition->offset.epoch = (uint32_t)get(in, UINT32_MAX);
    partition->offset.sequence = get(in, NUMBER_MAX);
    partition->learned = get(in, NUMBER_MAX);
    partition->streams = get(in, NUMBER_MAX);
    partition->serial = get(in, NUMBER_MAX);
    partition->by = get(in, NUMBER_MAX);
    get_publications(in, partition);
}

static void get_fleet(struct in *in, struct fleet_machine *machine) {
    char *stream = get_text(in, FLEET_TEXT_MAX, false),
         *digest = get_text(in, FLEET_TEXT_MAX, false);
    const uint64_t every = get(in, NUMBER_MAX);
    const size_t partitions = get(in, FLEET_PARTITIONS_MAX);
    const struct fleet_kind kind = {stream, digest, partitions, every};
    if (!in->bad && machine_found(machine, &kind))
        in->no_memory = in->bad = true;
    free(stream);
    free(digest);
    for (size_t n = 0; !in->bad && n < partitions; n++)
        get_partition(in, machine, n);
}

static void get_ended(struct in *in, struct fleet_machine *machine) {
    size_t count = get_count(in, ENDED_SIZE_MIN);
    for (size_t n = 0; !in->bad && n < count; n++) {
        struct fleet_ended ended = {.is_over = true};
        ended.claim = get(in, machine->claim);
        ended.is_known = get_flag(in);
        ended.offset.epoch = (uint32_t)get(in, UINT32_MAX);
        ended.offset.sequence = get(in, NUMBER_MAX);
        in->bad |= ended.claim == 0;
        if (!in->bad && fleet_claims_put(&machine->ended, &ended))
            in->no_memory = in->bad = true;
    }
}

static size_t lines_of(const char *text) {
    size_t lines = 0;
    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

static void get_rounds(struct in *in, struct fleet_machine *machine) {
    machine->round = get(in, COUNT_MAX);
    machine->since = get(in, COUNT_MAX);
    in->bad |= machine->round == 0;
    for (size_t n = 0; !in->bad && n < ROUNDS_KEPT; n++) {
        struct closed_round *closed = &machine->closed[n];
        closed->round = get(in, machine->round - 1);
        if (closed->round == 0)
            continue;
        closed->names = get_text(in, SIZE_MAX, true);
        closed->wheres = get_text(in, SIZE_MAX, true);
        in->bad |=
            closed->round % ROUNDS_KEPT != n || lines_of(closed->names) != lines_of(closed->wheres);
    }
}

/* What counts as not kept in fleet_machine_internal.h is computed, or found when it is needed. */
static void get_machine(struct in *in, struct fleet_machine *machine, uint64_t *position) {
    *position = get(in, INT64_MAX - 1); /* an offset of Kafka's, and one comes after it */
    machine->time = get(in, COUNT_MAX);
    machine->version = get(in, COUNT_MAX);
    machine->claim = get(in, COUNT_MAX);
    size_t members = get_count(in, MEMBER_SIZE_MIN);
    for (size_t n = 0; !in->bad && n < members; n++)
        get_member(in, machine);
    if (get_flag(in))
        get_fleet(in, machine);
    get_ended(in, machine);
    get_rounds(in, machine);
    in->bad |= in->at != in->end;
}

static bool is_whole(const unsigned char *bytes, size_t size) {
    uint64_t hash = 0;
    for (size_t n = 0; n < SNAPSHOT_HASH_SIZE; n++)
        hash |= (uint64_t)bytes[size - SNAPSHOT_HASH_SIZE + n] << 8 * n;
    return hash == hash_bytes(HASH_BEGIN, bytes, size - SNAPSHOT_HASH_SIZE);
}

static int check(const unsigned char *bytes, size_t size, struct error *error) {
    const size_t head = strlen(SNAPSHOT_HEAD), version = strlen(SNAPSHOT_VERSION);
    if (size < head + version + SNAPSHOT_HASH_SIZE || memcmp(bytes, SNAPSHOT_HEAD, head) != 0 ||
        !is_whole(bytes, size))
        return error_set(error, EX_DATAERR, "a snapshot of the fleet is damaged");
    if (memcmp(bytes + head, SNAPSHOT_VERSION, version) != 0)
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
    struct in in = {.at = (const unsigned char *)bytes + strlen(SNAPSHOT_HEAD SNAPSHOT_VERSION),
                    .end = (const unsigned char *)bytes + size - SNAPSHOT_HASH_SIZE};
    struct fleet_machine *machine = fleet_machine_open(error);
    if (!machine)
        return NULL;
    get_machine(&in, machine, position);
    if (!in.bad)
        return machine;
    if (in.no_memory)
        error_no_memory(error);
    else
        error_set(error, EX_DATAERR, "a snapshot of the fleet is damaged");
    fleet_machine_close(&machine);
    return NULL;
}
