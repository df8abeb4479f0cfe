#include "machine_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include "cluster/fleet_state.h"
#include "common/error.h"
#include "machine_world.h"

enum { RUN_SIZE = 24, MS = 1000 };

struct link {
    struct fleet_link link;
    struct machine_world *world;
    const struct fleet_self *self;
    char run[RUN_SIZE];
    uint64_t number;
};

/* ---- The log ---- */

static struct fleet_command of(struct link *link, enum fleet_command_kind kind) {
    return (struct fleet_command){.kind = kind,
                                  .name = link->self->name,
                                  .id = link->self->id,
                                  .run = link->run,
                                  .number = ++link->number,
                                  .lease = (uint64_t)(link->self->lease * MS),
                                  .stream = link->self->stream,
                                  .digest = link->self->digest,
                                  .every = link->self->every,
                                  .partitions = link->self->partitions};
}

static void append(struct link *link, const struct fleet_command *command,
                   struct fleet_answer *answer) {
    struct fleet_machine *machine = link->world->machine;
    struct fleet_command read;
    struct fleet_answer again;
    struct error error;
    size_t size;
    char *bytes = fleet_command_encode(command, &size);
    assert_non_null(bytes);
    if (fleet_command_decode(bytes, size, &read, &error) ||
        fleet_machine_apply(machine, ++link->world->time, &read, answer, &error))
        fail_msg("%s", error.text);
    free(bytes);
    if (answer->verdict == FLEET_DONE && read.name && machine_find(machine, read.name)) {
        uint64_t *results = copy_of(answer->results, read.count * sizeof *results);
        fleet_machine_apply(machine, link->world->time, &read, &again, &error);
        assert_int_equal(again.verdict, FLEET_REPEATED);
        if (read.count)
            memcpy(machine->results, results, read.count * sizeof *results);
        free(results);
    }
    fleet_command_free(&read);
}

static int judge(enum fleet_verdict verdict, struct error *error) {
    if (verdict == FLEET_DONE)
        return 0;
    return error_set(error,
                     verdict == FLEET_ABSENT  ? EX_USAGE
                     : verdict == FLEET_STALE ? EX_TEMPFAIL
                                              : EX_CONFIG,
                     "refused: %d", (int)verdict);
}

static int do_it(struct link *link, const struct fleet_command *command,
                 struct fleet_answer *answer, struct error *error) {
    append(link, command, answer);
    return judge(answer->verdict, error);
}

/* ---- Members ---- */

static int join(struct fleet_link *opened, const char *info, struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_JOIN);
    struct fleet_answer answer;
    command.info = info;
    return do_it(link, &command, &answer, error);
}

static int renew(struct fleet_link *opened, const char *info, uint64_t *version,
                 struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_RENEW);
    struct fleet_answer answer;
    command.info = info;
    append(link, &command, &answer);
    *version = answer.verdict == FLEET_STALE ? FLEET_DISPLACED : answer.number;
    if (answer.verdict == FLEET_STALE)
        return 0;
    return answer.verdict == FLEET_STRANGER ? 0 : judge(answer.verdict, error);
}

static int leave(struct fleet_link *opened, struct error *error) {
    struct link *link = (struct link *)opened;
    const struct fleet_command command = of(link, FLEET_COMMAND_LEAVE);
    struct fleet_answer answer;
    return do_it(link, &command, &answer, error);
}

static int look(struct fleet_link *opened, struct fleet_view *view, struct error *error) {
    struct link *link = (struct link *)opened;
    fleet_view_free(view);
    return fleet_machine_view(link->world->machine, 0, view, error);
}

/* ---- Claims ---- */

static int take(struct fleet_link *opened, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_TAKE);
    struct fleet_take takes[FLEET_ITEMS_MAX];
    struct fleet_answer answer;
    for (size_t n = 0; n < count; n++)
        takes[n] = (struct fleet_take){claims[n].partition, claims[n].claim};
    command.takes = takes;
    command.count = count;
    *taken = 0;
    if (do_it(link, &command, &answer, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        *taken += answer.results[n] != 0;
        if (answer.results[n])
            fleet_machine_claim(link->world->machine, &claims[n]);
        else
            claims[n].partition = SIZE_MAX;
    }
    return 0;
}

static int ended(struct fleet_link *opened, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct link *link = (struct link *)opened;
    (void)error;
    for (size_t n = 0; n < count; n++)
        fleet_machine_ended(link->world->machine, &claims[n]);
    return 0;
}

static int settle(struct fleet_link *opened, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_SETTLE);
    struct fleet_answer answer;
    command.settled = (uint64_t *)claims;
    command.count = count;
    return do_it(link, &command, &answer, error);
}

/* ---- Commits ---- */

/* What was staged, newest first; STAGED_MAX: it is not there. */
static size_t find_staged(const struct machine_world *world, size_t partition, uint64_t claim,
                          uint64_t serial) {
    for (size_t n = world->staged_count; n-- > 0;)
        if (world->staged[n].partition == partition && world->staged[n].claim == claim &&
            world->staged[n].serial == serial)
            return n;
    return STAGED_MAX;
}

static int stage(struct fleet_link *opened, size_t partition, uint64_t claim, uint64_t serial,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct machine_world *world = ((struct link *)opened)->world;
    (void)error;
    assert_true(world->staged_count < STAGED_MAX);
    struct staged *staged = &world->staged[world->staged_count++];
    *staged = (struct staged){partition, claim, serial, count, calloc(count + 1, sizeof *rows)};
    assert_non_null(staged->rows);
    for (size_t n = 0; n < count; n++)
        staged->rows[n] = (struct fleet_row){copy_of(rows[n].key, rows[n].key_size),
                                             copy_of(rows[n].state, rows[n].state_size),
                                             rows[n].key_size, rows[n].state_size};
    return 0;
}

static int commit(struct fleet_link *opened, struct fleet_commit *commits, size_t count,
                  bool release, struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_COMMIT);
    struct fleet_learned *learned = calloc(count + 1, sizeof *learned);
    struct fleet_answer answer;
    for (size_t n = 0; n < count; n++) {
        const struct fleet_commit *one = &commits[n];
        learned[n] = (struct fleet_learned){.partition = one->partition,
                                            .claim = one->claim,
                                            .offset = one->offset,
                                            .learned = one->learned,
                                            .streams = one->streams,
                                            .serial = one->serial,
                                            .rows = one->rows,
                                            .whole = one->whole};
        size_t where = find_staged(link->world, one->partition, one->claim, one->serial);
        snprintf(learned[n].where, FLEET_WHERE_SIZE, "%zu", where);
    }
    command.commits = learned;
    command.count = count;
    command.release = release;
    int result = do_it(link, &command, &answer, error);
    for (size_t n = 0; result == 0 && n < count; n++) {
        commits[n].refused = answer.results[n] == FLEET_REFUSED;
        commits[n].incomplete = answer.results[n] == FLEET_INCOMPLETE;
    }
    free(learned);
    return result;
}

static bool same_key(const struct fleet_row *one, const struct fleet_row *other) {
    return one->key_size == other->key_size && memcmp(one->key, other->key, one->key_size) == 0;
}

/* A row counts where no later one is of the same stream, and it is not forgotten. */
static bool counts(const struct machine_world *world, const size_t *found, size_t count, size_t n,
                   size_t row) {
    const struct fleet_row *own = &world->staged[found[n]].rows[row];
    for (size_t m = n + 1; m < count; m++)
        for (size_t r = 0; r < world->staged[found[m]].count; r++)
            if (same_key(own, &world->staged[found[m]].rows[r]))
                return false;
    return own->state_size > 0;
}

static int states(struct fleet_link *opened, size_t partition, fleet_visit *visit, void *context,
                  struct error *error) {
    const struct machine_world *world = ((struct link *)opened)->world;
    size_t count, found[FLEET_PUBLICATIONS_MAX];
    const struct fleet_publication *published =
        fleet_machine_states(world->machine, partition, &count);
    for (size_t n = 0; n < count; n++)
        found[n] = strtoul(published[n].where, NULL, 10);
    for (size_t n = 0; n < count; n++)
        for (size_t row = 0; row < world->staged[found[n]].count; row++)
            if (counts(world, found, count, n, row) &&
                visit(context, &world->staged[found[n]].rows[row], error))
                return -1;
    return 0;
}

/* ---- Rounds ---- */

static int arrive(struct fleet_link *opened, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct link *link = (struct link *)opened;
    struct machine_world *world = link->world;
    struct fleet_command command = of(link, FLEET_COMMAND_ARRIVE);
    struct fleet_answer answer;
    assert_true(world->parameter_count < STAGED_MAX);
    command.serial = serial;
    snprintf(command.where, sizeof command.where, "%zu", world->parameter_count);
    world->parameters[world->parameter_count++] =
        (struct fleet_row){.state = copy_of(parameters, size), .state_size = size};
    if (do_it(link, &command, &answer, error))
        return -1;
    *round = answer.number;
    return 0;
}

static int pass(struct fleet_link *opened, uint64_t round, struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_PASS);
    struct fleet_answer answer;
    command.round = round;
    return do_it(link, &command, &answer, error);
}

static int round_of(struct fleet_link *opened, uint64_t round, char **names, struct error *error) {
    struct link *link = (struct link *)opened;
    struct fleet_command command = of(link, FLEET_COMMAND_ROUND);
    struct fleet_answer answer;
    const char *found = NULL;
    command.round = round;
    if (fleet_machine_round(link->world->machine, round, command.lease, link->world->time,
                            &found) == FLEET_ROUND_DUE) {
        if (do_it(link, &command, &answer, error))
            return -1;
        assert_int_equal(fleet_machine_round(link->world->machine, round, command.lease, 0, &found),
                         FLEET_ROUND_CLOSED);
    }
    *names = found ? strdup(found) : NULL;
    return 0;
}

static int parameters_of(struct fleet_link *opened, uint64_t round, const char *name, void **bytes,
                         size_t *size, struct error *error) {
    const struct machine_world *world = ((struct link *)opened)->world;
    char where[FLEET_WHERE_SIZE];
    *bytes = NULL;
    if (!fleet_machine_where(world->machine, round, name, where))
        return error_set(error, EX_UNAVAILABLE, "there are none");
    const struct fleet_row *found = &world->parameters[strtoul(where, NULL, 10)];
    *size = found->state_size;
    *bytes = copy_of(found->state, found->state_size);
    return 0;
}

/* ---- People ---- */

static int drain(struct fleet_link *opened, const char *name, struct error *error) {
    const struct fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .target = name};
    struct fleet_answer answer;
    return do_it((struct link *)opened, &command, &answer, error);
}

static int rebalance(struct fleet_link *opened, struct error *error) {
    const struct fleet_command command = {.kind = FLEET_COMMAND_REBALANCE};
    struct fleet_answer answer;
    return do_it((struct link *)opened, &command, &answer, error);
}

/* ---- Opening and closing ---- */

static void close_link(struct fleet_link **link) {
    free(*link);
    *link = NULL;
}

static const struct fleet_link_ops machine_ops = {
    .close = close_link,
    .join = join,
    .renew = renew,
    .leave = leave,
    .look = look,
    .take = take,
    .ended = ended,
    .settle = settle,
    .stage = stage,
    .commit = commit,
    .states = states,
    .arrive = arrive,
    .pass = pass,
    .round = round_of,
    .parameters = parameters_of,
    .drain = drain,
    .rebalance = rebalance,
};

int machine_link_open(struct fleet_link **opened, struct machine_world *world,
                      const struct fleet_self *self) {
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return -1;
    link->link.ops = &machine_ops;
    link->world = world;
    link->self = self;
    snprintf(link->run, sizeof link->run, "%llu", (unsigned long long)++world->runs);
    *opened = &link->link;
    return 0;
}
