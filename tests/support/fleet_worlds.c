#include "fleet_worlds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/fleet_redis.h"
#include "redis_server.h"

enum { TEXT_SIZE = 16384 };

#define SELF(its_name, its_id, its_digest)                                                         \
    {                                                                                              \
        .group = "g", .name = its_name, .id = its_id, .stream = "s", .digest = its_digest,         \
        .partitions = PARTITIONS, .every = 10, .lease = 3600                                       \
    }
const struct fleet_self selves[ACTORS] = {
    [ANNA] = SELF("anna", "1", "d"),         [BERT] = SELF("bert", "2", "d"),
    [CARL] = SELF("carl", "3", "d"),         [OTHER_ANNA] = SELF("anna", "4", "d"),
    [COPY_OF_ANNA] = SELF("anna", "1", "d"), [ZOE] = SELF("zoe", "5", "d"),
    [EVE] = SELF("eve", "6", "e"),
};

struct machine_world *world;
struct fleet_link *links[ACTORS][WORLDS];
size_t step;
const char *doing;

static uint64_t versions[WORLDS];

/* ---- Comparing ---- */

void same_text(const char *const text[WORLDS]) {
    if (strcmp(text[REDIS], text[MACHINE]) != 0)
        differ("Redis:\n%s\nthe machine:\n%s", text[REDIS], text[MACHINE]);
}

void same_number(const char *what, uint64_t redis, uint64_t machine) {
    if (redis != machine)
        differ("%s: Redis %" PRIu64 ", the machine %" PRIu64, what, redis, machine);
}

bool same_result(const int result[WORLDS], const struct error error[WORLDS]) {
    if (result[REDIS] != result[MACHINE] ||
        (result[REDIS] && error[REDIS].status != error[MACHINE].status))
        differ("Redis: %d, %s; the machine: %d, %s", result[REDIS],
               result[REDIS] ? error[REDIS].text : "", result[MACHINE],
               result[MACHINE] ? error[MACHINE].text : "");
    return result[REDIS] == 0;
}

static void write_view(const struct fleet_view *view, char text[TEXT_SIZE]) {
    size_t size = (size_t)snprintf(text, TEXT_SIZE, "%s %s round %" PRIu64 ", %zu arrived\n",
                                   view->stream ? view->stream : "-",
                                   view->digest ? view->digest : "-", view->round, view->arrived);
    for (size_t n = 0; n < view->daemon_count; n++) {
        const struct fleet_daemon *daemon = &view->daemons[n];
        size += (size_t)snprintf(text + size, TEXT_SIZE - size, "%s%s%s %s\n", daemon->name,
                                 daemon->living ? " lives" : "",
                                 daemon->draining ? " is drained" : "", daemon->info);
    }
    for (size_t n = 0; n < view->partition_count; n++) {
        const struct fleet_partition *p = &view->partitions[n];
        size += (size_t)snprintf(text + size, TEXT_SIZE - size,
                                 "%zu: %d claim %" PRIu64 ", %d %" PRIu32 "-%" PRIu64 " %" PRIu64
                                 " examples, %" PRIu64 " states\n",
                                 n, p->owner, p->claim, p->committed, p->offset.epoch,
                                 p->offset.sequence, p->learned, p->states);
    }
}

struct fleet_view worlds_look(void) {
    static char text[WORLDS][TEXT_SIZE];
    struct fleet_view view[WORLDS] = {{0}, {0}};
    struct error error;
    for (int w = 0; w < WORLDS; w++) {
        if (links[ZOE][w]->ops->look(links[ZOE][w], &view[w], &error))
            differ("%s", error.text);
        write_view(&view[w], text[w]);
    }
    same_text((const char *const[WORLDS]){text[REDIS], text[MACHINE]});
    fleet_view_free(&view[REDIS]);
    return view[MACHINE];
}

void same_versions(void) {
    struct error error;
    bool changed[WORLDS];
    for (int w = 0; w < WORLDS; w++) {
        uint64_t version;
        if (links[ZOE][w]->ops->renew(links[ZOE][w], "{}", &version, &error))
            differ("%s", error.text);
        changed[w] = version != versions[w];
        versions[w] = version;
    }
    same_number("the version has changed", changed[REDIS], changed[MACHINE]);
}

static int note(void *context, const struct fleet_row *row, struct error *none) {
    struct found *found = context;
    (void)none;
    assert_true(found->count < KEYS);
    snprintf(found->row[found->count++], sizeof *found->row, "%.*s=%.*s", (int)row->key_size,
             (const char *)row->key, (int)row->state_size, (const char *)row->state);
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

struct found states(size_t partition) {
    struct found found[WORLDS] = {{0}, {0}};
    struct error error;
    for (int w = 0; w < WORLDS; w++) {
        if (links[ZOE][w]->ops->states(links[ZOE][w], partition, note, &found[w], &error))
            differ("%s", error.text);
        qsort(found[w].row, found[w].count, sizeof *found[w].row, by_text);
    }
    same_number("states", found[REDIS].count, found[MACHINE].count);
    for (size_t n = 0; n < found[REDIS].count; n++)
        same_text((const char *const[WORLDS]){found[REDIS].row[n], found[MACHINE].row[n]});
    return found[MACHINE];
}

void same_claims(uint64_t newest_claim, const size_t *partitions) {
    for (uint64_t claim = CLAIM_FIRST; claim <= newest_claim; claim++) {
        const struct fleet_ended one = {.claim = claim,
                                        .partition = partitions[claim - CLAIM_FIRST]};
        struct fleet_ended ended[WORLDS] = {one, one};
        struct error error;
        for (int w = 0; w < WORLDS; w++)
            if (links[ZOE][w]->ops->ended(links[ZOE][w], &ended[w], 1, &error))
                differ("%s", error.text);
        same_number("over", ended[REDIS].is_over, ended[MACHINE].is_over);
        if (!ended[REDIS].is_over)
            continue;
        same_number("known", ended[REDIS].is_known, ended[MACHINE].is_known);
        if (ended[REDIS].is_known)
            same_number("ended at", ended[REDIS].offset.sequence, ended[MACHINE].offset.sequence);
    }
}

/* ---- Opening and closing ---- */

void worlds_open(void) {
    struct error error;
    redis_do("FLUSHALL");
    assert_int_equal(machine_world_open(&world), 0);
    for (size_t n = 0; n < ACTORS; n++)
        if (fleet_redis_open(&links[n][REDIS], &redis_url, &selves[n], &error) ||
            machine_link_open(&links[n][MACHINE], world, &selves[n]))
            fail_msg("%s", error.text);
    versions[REDIS] = versions[MACHINE] = 0;
    machine_first_claim(world, CLAIM_FIRST);
    redis_do("HSET runnel:{g}:fleet claim %" PRIu64, CLAIM_FIRST - 1);
}

void worlds_close(void) {
    for (size_t n = 0; n < ACTORS; n++)
        for (int w = 0; w < WORLDS; w++)
            links[n][w]->ops->close(&links[n][w]);
    machine_world_close(&world);
}
