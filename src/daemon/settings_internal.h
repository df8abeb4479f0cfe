/* What the files settings*.c share: settings.c is what changes in flight, settings_reload.c what
   the file has changed. */
#ifndef RUNNEL_SETTINGS_INTERNAL_H
#define RUNNEL_SETTINGS_INTERNAL_H

#include "config/config.h"
#include "learner/learner.h"
#include "parts.h"

/* The keys that learning depends on and that may change in flight. */
#define RATE_KEY "learning.optimizer.rate"
#define CLIP_KEY "learning.clip"
#define THRESHOLD_KEY "anomaly.threshold"

/* Before one of them, with a name: that of one member alone. */
#define MEMBERS "members."

static inline const struct learning *learning_of(const struct config *config, size_t member) {
    return config->members_given && config->member_count ? &config->members[member].learning
                                                         : &config->learning;
}

/* Those that have a rate: where there is no network, the configuration's own counts as one. */
static inline size_t settings_networks(const struct daemon *daemon) {
    size_t members = learner_members(daemon->learner);
    return members ? members : 1;
}

/* Take these in their places: what is in force, and what was loaded last. NULL: that stays. */
void settings_put(struct daemon *daemon, const struct config *current,
                  const struct config *configured);

#endif
