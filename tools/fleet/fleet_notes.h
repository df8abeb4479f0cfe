/* What people should know of a fleet beside who has what. */
#ifndef RUNNEL_FLEET_NOTES_H
#define RUNNEL_FLEET_NOTES_H

#include <jansson.h>

#include "fleet/fleet_link.h"

/* A line for each, after an empty one; nothing where all is well. `infos` is (daemon_count,), what
   each daemon says of itself; NULL: nothing. */
void fleet_print_notes(const struct fleet_view *view, json_t *const *infos);

#endif
