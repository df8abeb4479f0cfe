/* A fleet, for people and for programs. */
#ifndef RUNNEL_FLEET_PRINT_H
#define RUNNEL_FLEET_PRINT_H

#include "fleet/fleet_link.h"

/* `ends` as that of struct fleet_link_ops. */
void fleet_print(const char *group, const struct fleet_view *view, const uint64_t *ends);
void fleet_print_json(const char *group, const struct fleet_view *view, const uint64_t *ends);

#endif
