#include "machine_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/fleet_state.h"
#include "common/error.h"
#include "machine_link.h"

#define TIME_FIRST 1800000000000 /* ms */

void *copy_of(const void *bytes, size_t size) {
    void *copy = malloc(size + 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, bytes, size);
    return copy;
}

int machine_world_open(struct machine_world **opened) {
    struct machine_world *world = *opened = calloc(1, sizeof *world);
    struct error error;
    if (!world)
        return -1;
    world->time = TIME_FIRST;
    world->machine = fleet_machine_open(&error);
    world->staged = calloc(STAGED_MAX, sizeof *world->staged);
    world->parameters = calloc(STAGED_MAX, sizeof *world->parameters);
    return world->machine && world->staged && world->parameters ? 0 : -1;
}

static void free_rows(struct fleet_row *rows, size_t count) {
    for (size_t n = 0; n < count; n++) {
        free((void *)rows[n].key);
        free((void *)rows[n].state);
    }
    free(rows);
}

void machine_world_close(struct machine_world **closed) {
    struct machine_world *world = *closed;
    for (size_t n = 0; n < world->staged_count; n++)
        free_rows(world->staged[n].rows, world->staged[n].count);
    free_rows(world->parameters, world->parameter_count);
    free(world->staged);
    fleet_machine_close(&world->machine);
    free(world);
    *closed = NULL;
}

void machine_first_claim(struct machine_world *world, uint64_t claim) {
    world->machine->claim = claim - 1;
}

void machine_end_lease(struct machine_world *world, const char *name) {
    struct member *member = machine_find(world->machine, name);
    assert_non_null(member);
    member->is_leased = true; /* as ZADD has it */
    member->lease_end = 1;
    world->machine->lease_first = 0;
}

void machine_round_is_old(struct machine_world *world) {
    world->machine->since = 1;
}

void machine_save_and_load(struct machine_world *world) {
    struct error error;
    uint64_t position;
    size_t size;
    void *bytes = fleet_machine_save(world->machine, 1, &size, &error);
    fleet_machine_close(&world->machine);
    world->machine = fleet_machine_load(bytes, size, &position, &error);
    assert_non_null(world->machine);
    free(bytes);
}
