/* What machine_link.c has in place of a broker. */
#ifndef RUNNEL_TESTS_MACHINE_WORLD_H
#define RUNNEL_TESTS_MACHINE_WORLD_H

#include "cluster/fleet_machine.h"

enum { STAGED_MAX = 1 << 16 };

/* Rows under their number, from which they are found again ("where"). */
struct staged {
    size_t partition;
    uint64_t claim, serial;
    size_t count;
    struct fleet_row *rows; /* (count,) with bytes of their own */
};

/* Bytes of parameters likewise. */
struct machine_world {
    struct fleet_machine *machine;
    uint64_t time, runs;
    size_t staged_count, parameter_count;
    struct staged *staged;
    struct fleet_row *parameters; /* state, state_size */
};

/* Bytes of its own; fails the running test when there is no memory. */
void *copy_of(const void *bytes, size_t size);

#endif
