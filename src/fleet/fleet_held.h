/* What a daemon of a fleet remembers of its claims over a restart: DIRECTORY/fleet.json. It has a
   partition's claim from before the first example of it is taken until after what the claim's end
   has changed is in the journal. */
#ifndef RUNNEL_FLEET_HELD_H
#define RUNNEL_FLEET_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "fleet_link.h"

struct error;

#define FLEET_HELD_NAME "fleet.json"

/* What was committed of a partition when a claim began. */
struct fleet_held_begin {
    bool is_kept; /* false: an older version made the claim, and kept no offset */
    bool committed;
    struct fleet_offset offset;
};

/* The newest claim that ended: how far what this daemon learned of the partition counts. */
struct fleet_held_end {
    uint64_t claim; /* 0 = none */
    struct fleet_offset offset;
};

struct fleet_held {
    char path[CONFIG_PATH_SIZE + sizeof "/" FLEET_HELD_NAME];
    char id[FLEET_ID_SIZE]; /* of the state directory, made when the file is */
    char group[FLEET_GROUP_MAX + 1];
    uint64_t *claims;                /* (count,) by partition; 0 = none */
    struct fleet_held_begin *begins; /* (count,) with claims */
    struct fleet_held_end *ends;     /* (count,) */
    size_t count;
};

/* Whether a daemon with that state directory has been one of a fleet. */
bool fleet_held_is_there(const char *directory);

/* Read the file; where there is none, make an id. EX_IOERR: it is damaged; EX_CONFIG: its claims
   are in another group. */
int fleet_held_open(struct fleet_held *held, const char *directory, const char *group, size_t count,
                    struct error *error);
void fleet_held_close(struct fleet_held *held);

/* Waits for the disk. EX_IOERR. */
int fleet_held_write(const struct fleet_held *held, struct error *error);

#endif
