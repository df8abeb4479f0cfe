/* A fleet, for people and for programs. */
#ifndef RUNNEL_FLEET_PRINT_H
#define RUNNEL_FLEET_PRINT_H

#include <stdbool.h>

#include "fleet/fleet_link.h"

/* `ends` as that of struct fleet_link_ops; `partitions`: a line for each of these, too. 0, or -1.
 */
int fleet_print(const char *group, const struct fleet_view *view, const uint64_t *ends,
                bool partitions, struct error *error);
int fleet_print_json(const char *group, const struct fleet_view *view, const uint64_t *ends,
                     struct error *error);

#endif
