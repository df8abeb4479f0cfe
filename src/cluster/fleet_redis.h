/* A fleet whose daemons know of each other through Redis: fleet_scripts.h says what is kept there.
 */
#ifndef RUNNEL_FLEET_REDIS_H
#define RUNNEL_FLEET_REDIS_H

#include "fleet_link.h"

struct url;

/* Does not connect yet: the first function does that. Both outlive the link. */
int fleet_redis_open(struct fleet_link **link, const struct url *url, const struct fleet_self *self,
                     struct error *error);

#endif
