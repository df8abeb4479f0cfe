#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <sys/random.h>

#include "common/error.h"
#include "common/json_member.h"
#include "fleet_link.h"

void fleet_view_free(struct fleet_view *view) {
    for (size_t n = 0; n < view->daemon_count; n++) {
        free(view->daemons[n].name);
        free(view->daemons[n].info);
    }
    free(view->daemons);
    free(view->partitions);
    free(view->stream);
    free(view->digest);
    *view = (struct fleet_view){0};
}

static char *copy_of(const char *text) {
    return strdup(text ? text : "");
}

static int copy_daemons(const struct fleet_view *view, struct fleet_view *copy) {
    copy->daemons = calloc(view->daemon_count + 1, sizeof *copy->daemons);
    if (!copy->daemons)
        return -1;
    for (size_t n = 0; n < view->daemon_count; n++) {
        struct fleet_daemon *daemon = &copy->daemons[copy->daemon_count++];
        *daemon = view->daemons[n];
        daemon->name = copy_of(view->daemons[n].name);
        daemon->info = copy_of(view->daemons[n].info);
        if (!daemon->name || !daemon->info)
            return -1;
    }
    return 0;
}

static int copy_partitions(const struct fleet_view *view, struct fleet_view *copy) {
    copy->partitions = calloc(view->partition_count + 1, sizeof *copy->partitions);
    if (!copy->partitions)
        return -1;
    copy->partition_count = view->partition_count;
    if (view->partition_count)
        memcpy(copy->partitions, view->partitions,
               view->partition_count * sizeof *copy->partitions);
    return 0;
}

int fleet_view_copy(const struct fleet_view *view, struct fleet_view *copy, struct error *error) {
    *copy = (struct fleet_view){.version = view->version,
                                .round = view->round,
                                .arrived = view->arrived,
                                .anew = view->anew,
                                .jobs = view->jobs};
    bool good = (!view->stream || (copy->stream = strdup(view->stream))) &&
                (!view->digest || (copy->digest = strdup(view->digest))) &&
                copy_daemons(view, copy) == 0 && copy_partitions(view, copy) == 0;
    if (good)
        return 0;
    fleet_view_free(copy);
    return error_no_memory(error);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct fleet_daemon *)a)->name, ((const struct fleet_daemon *)b)->name);
}

void fleet_view_sort(struct fleet_view *view) {
    qsort(view->daemons, view->daemon_count, sizeof *view->daemons, by_name);
}

int fleet_view_find(const struct fleet_view *view, const char *name) {
    const struct fleet_daemon wanted = {.name = (char *)(uintptr_t)name};
    const struct fleet_daemon *found =
        view->daemon_count
            ? bsearch(&wanted, view->daemons, view->daemon_count, sizeof *view->daemons, by_name)
            : NULL;
    return found ? (int)(found - view->daemons) : -1;
}

void fleet_groups_add(struct fleet_groups *groups, const char *key, size_t size, const char *begin,
                      const char *end) {
    size_t before = strlen(begin), after = strlen(end);
    if (size <= before + after || size - before - after > FLEET_GROUP_MAX ||
        memcmp(key, begin, before) != 0 || memcmp(key + size - after, end, after) != 0)
        return;
    char name[FLEET_GROUP_MAX + 1] = "";
    memcpy(name, key + before, size - before - after);
    for (size_t n = 0; n < groups->count; n++)
        if (strcmp(groups->names[n], name) == 0)
            return;
    groups->more = groups->more || groups->count == FLEET_GROUPS_MAX;
    if (groups->count < FLEET_GROUPS_MAX)
        strcpy(groups->names[groups->count++], name);
}

int fleet_draw(void *bytes, size_t size, struct error *error) {
    return getrandom(bytes, size, 0) == (ssize_t)size
               ? 0
               : error_set(error, EX_OSERR, "cannot generate random numbers: %s", strerror(errno));
}

int fleet_id_draw(char id[FLEET_ID_SIZE], struct error *error) {
    uint64_t random[2];
    if (fleet_draw(random, sizeof random, error))
        return -1;
    snprintf(id, FLEET_ID_SIZE, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

int fleet_name_is_taken(const struct fleet_self *self, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "another daemon with the name %s is in the fleet %s: give each daemon its own "
                     "name (name) and its own state.directory",
                     self->name, self->group);
}

/* ---- Rates ---- */

double fleet_rate(const json_t *info, const char *key) {
    double value;
    return member_number(json_object_get(info, FLEET_RATES), key, &value) ? value : NAN;
}

const char *fleet_rates_differ(const json_t *one, const json_t *other) {
    json_t *rates = json_object_get(one, FLEET_RATES), *value;
    const char *key;
    json_object_foreach(rates, key, value) {
        double mine = fleet_rate(one, key), its = fleet_rate(other, key);
        if (!isnan(mine) && !isnan(its) && mine != its)
            return key;
    }
    return NULL;
}

/* ---- Assignment of partitions to daemons ---- */

static size_t count_above(size_t daemons, const size_t *has, size_t limit) {
    size_t count = 0;
    for (size_t d = 0; d < daemons; d++)
        count += has[d] > limit;
    return count;
}

/* Gives one more to the daemons that own the most, so that fewer partitions move; among equals, to
   the first. */
static void share_out(size_t partitions, size_t daemons, const size_t *has, size_t *room) {
    size_t least = partitions / daemons, more = partitions % daemons;
    size_t limit = 0, high = partitions; /* limit: at most `more` daemons own more */
    while (limit < high) {
        size_t middle = limit + (high - limit) / 2;
        if (count_above(daemons, has, middle) <= more)
            high = middle;
        else
            limit = middle + 1;
    }
    size_t equals = more - count_above(daemons, has, limit);
    for (size_t d = 0; d < daemons; d++) {
        bool is_equal = has[d] == limit && equals > 0;
        room[d] = least + (has[d] > limit || is_equal);
        equals -= is_equal;
    }
}

void fleet_assign(size_t partitions, size_t daemons, const int *owner, int *to, size_t *room) {
    size_t *has = room + daemons, next = 0;
    for (size_t d = 0; d < daemons; d++)
        has[d] = 0;
    for (size_t p = 0; p < partitions; p++) {
        to[p] = owner[p];
        if (to[p] != FLEET_NOBODY)
            has[to[p]]++;
    }
    if (daemons == 0)
        return;
    share_out(partitions, daemons, has, room);
    for (size_t p = 0; p < partitions; p++)
        if (to[p] != FLEET_NOBODY && room[to[p]] > 0)
            room[to[p]]--;
        else
            to[p] = FLEET_NOBODY;
    for (size_t p = 0; p < partitions; p++) {
        if (to[p] != FLEET_NOBODY)
            continue;
        while (room[next] == 0)
            next = (next + 1) % daemons;
        to[p] = (int)next;
        room[next]--;
        next = (next + 1) % daemons;
    }
}

int fleet_assign_view(struct fleet_view *view, struct error *error) {
    const size_t partitions = view->partition_count, daemons = view->daemon_count;
    int *owner = calloc(2 * partitions + 2 * daemons + 1, sizeof *owner), count = 0;
    size_t *room = calloc(2 * daemons + 1, sizeof *room);
    if (!owner || !room) {
        free(owner);
        free(room);
        return error_no_memory(error);
    }
    int *to = owner + partitions, *number = to + partitions, *daemon = number + daemons;
    for (size_t d = 0; d < daemons; d++) {
        const bool takes_part = view->daemons[d].living && !view->daemons[d].draining;
        number[d] = takes_part ? count : FLEET_NOBODY;
        if (takes_part)
            daemon[count++] = (int)d;
    }
    for (size_t p = 0; p < partitions; p++)
        owner[p] = view->partitions[p].owner < 0 ? FLEET_NOBODY : number[view->partitions[p].owner];
    fleet_assign(partitions, (size_t)count, owner, to, room);
    for (size_t p = 0; p < partitions; p++)
        view->partitions[p].to = count == 0              ? view->partitions[p].owner
                                 : to[p] == FLEET_NOBODY ? -1
                                                         : daemon[to[p]];
    free(owner);
    free(room);
    return 0;
}
