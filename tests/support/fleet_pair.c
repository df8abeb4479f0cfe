#include "fleet_pair.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fleet_self anna = {.group = "g",
                                .name = "anna",
                                .id = "1",
                                .stream = "s",
                                .digest = "d",
                                .partitions = PARTITIONS,
                                .every = 100,
                                .lease = 3600};
struct fleet_self bert;
struct fleet_link *a, *b;
struct error error;

struct fleet_link *pair_open(const struct fleet_self *self) {
    struct fleet_link *link;
    good(fleet_redis_open(&link, &redis_url, self, &error));
    return link;
}

int pair_begin(void **unused) {
    (void)unused;
    redis_do("FLUSHALL");
    a = pair_open(&anna);
    bert = anna;
    bert.name = "bert";
    bert.id = "2";
    b = pair_open(&bert);
    return 0;
}

int pair_begin_joined(void **unused) {
    pair_begin(unused);
    good(a->ops->join(a, "{}", &error));
    good(b->ops->join(b, "{}", &error));
    return 0;
}

int pair_end(void **unused) {
    (void)unused;
    a->ops->close(&a);
    b->ops->close(&b);
    return 0;
}

void end_lease(const char *name) {
    redis_do("ZADD runnel:{g}:leases 1 %s", name);
}

struct fleet_view look(struct fleet_link *link) {
    struct fleet_view view = {0};
    good(link->ops->look(link, &view, &error));
    return view;
}

size_t take(struct fleet_link *link, struct fleet_claim *claims, size_t first, size_t count) {
    struct fleet_view view = look(link);
    size_t taken;
    for (size_t n = 0; n < count; n++)
        claims[n] =
            (struct fleet_claim){.partition = first + n, .claim = view.partitions[first + n].claim};
    good(link->ops->take(link, claims, count, &taken, &error));
    fleet_view_free(&view);
    return taken;
}

struct fleet_commit learned(const struct fleet_claim *claim, uint64_t sequence) {
    return (struct fleet_commit){.partition = claim->partition,
                                 .claim = claim->claim,
                                 .offset = {.epoch = 7, .sequence = sequence},
                                 .base = claim->offset,
                                 .learned = sequence,
                                 .serial = sequence};
}

void stage(struct fleet_link *link, struct fleet_commit *commit, const char *key,
           const char *state) {
    const struct fleet_row row = {key, state, strlen(key), state ? strlen(state) : 0};
    good(link->ops->stage(link, commit, &row, 1, &error));
    commit->rows++;
}

void commit(struct fleet_link *link, struct fleet_commit *one, bool release) {
    good(link->ops->commit(link, one, 1, release, &error));
}

/* ---- States ---- */

enum { ROWS_MAX = 16, ROW_SIZE = 64 };

struct found {
    char rows[ROWS_MAX][ROW_SIZE];
    size_t count;
};

static int note(void *context, const struct fleet_row *row, struct error *none) {
    struct found *found = context;
    (void)none;
    assert_true(found->count < ROWS_MAX);
    snprintf(found->rows[found->count++], ROW_SIZE, "%.*s=%.*s ", (int)row->key_size,
             (const char *)row->key, (int)row->state_size, (const char *)row->state);
    return 0;
}

static int by_text(const void *one, const void *other) {
    return strcmp(one, other);
}

const char *states(struct fleet_link *link, size_t partition) {
    static char text[ROWS_MAX * ROW_SIZE + 1];
    struct found found = {.count = 0};
    size_t size = 0;
    good(link->ops->states(link, partition, note, &found, &error));
    qsort(found.rows, found.count, ROW_SIZE, by_text);
    *text = '\0';
    for (size_t n = 0; n < found.count; n++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", found.rows[n]);
    return text;
}

struct fleet_ended ended(struct fleet_link *link, size_t partition, uint64_t claim) {
    struct fleet_ended one = {.claim = claim, .partition = partition};
    good(link->ops->ended(link, &one, 1, &error));
    return one;
}

int pair_is_there(void) {
    if (!redis_is_there())
        puts("needs redis-server");
    return redis_is_there();
}
