/* What may differ between the daemons of a fleet of all that decides what is learned: learning
   rates and clips, which are set while they run, and the lease. Each says its own with the rest
   that it says of itself (fleet_link.h: info), as members of the object `learning`, by their keys:

     {"learning.optimizer.rate": 0.001, "learning.clip": 1}

   or, of a configuration with members, "members.NAME.learning.clip" of each. A daemon of an older
   version does not say it. */
#ifndef RUNNEL_FLEET_RATES_H
#define RUNNEL_FLEET_RATES_H

#include <stdbool.h>

#include <jansson.h>

#define FLEET_RATES "learning"

/* What a daemon says of a key; NAN: nothing. `info` may be NULL. */
double fleet_rate(const json_t *info, const char *key);

/* The first key that both say, and not alike; NULL: there is none. It lives as long as `one`. */
const char *fleet_rates_differ(const json_t *one, const json_t *other);

#endif
