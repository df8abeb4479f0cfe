/* The broker of the daemon's fleet: the one that examples come from. */
#ifndef RUNNEL_FLEET_BROKER_H
#define RUNNEL_FLEET_BROKER_H

#include <stddef.h>

#include "brokers/kafka_options.h"
#include "brokers/url.h"
#include "config/config.h"
#include "fleet/fleet_link.h"

struct error;

/* What a link needs for as long as it lives. */
struct fleet_broker {
    struct url url;
    struct kafka_options kafka;
    char digest[CONFIG_DIGEST_SIZE + 64]; /* of what is learned, and of what streams are called */
    const char *where;                    /* for people: the broker */
    const char *keeps; /* for people: what it has to be told not to lose what it has answered */
};

/* EX_CONFIG: what is wrong with its address, or with who logs in. */
int fleet_broker_read(struct fleet_broker *broker, const struct config *config,
                      struct error *error);

/* Who this daemon is for the others; `name`, `id` and what else they say is the caller's. */
void fleet_broker_self(const struct fleet_broker *broker, const struct config *config,
                       struct fleet_self *self);

/* EX_UNAVAILABLE: this build does not know the broker. */
int fleet_broker_open(struct fleet_broker *broker, const struct config *config,
                      const struct fleet_self *self, struct fleet_link **link, struct error *error);

#endif
