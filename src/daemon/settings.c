/* The configuration in force, and what changes it in flight: `set`, `reset`, and their replay. */
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "checkpoints.h"
#include "common/error.h"
#include "learner/learner_state.h"
#include "observe.h"
#include "resolved.h"
#include "settings_internal.h"

struct settings {
    const struct config_source *source;
    struct config configured; /* as loaded last */
    struct config current;    /* with what has been set in flight */
};

int settings_open(struct daemon *daemon, const struct config *config,
                  const struct config_source *source, struct error *error) {
    struct settings *settings = daemon->settings = calloc(1, sizeof *settings);
    if (!settings)
        return error_no_memory(error);
    settings->source = source;
    settings->configured = settings->current = *config;
    daemon->config = &settings->current;
    return resolved_open(daemon, error);
}

void settings_close(struct daemon *daemon) {
    resolved_close(daemon);
    free(daemon->settings);
    daemon->settings = NULL;
    daemon->config = NULL;
}

void settings_put(struct daemon *daemon, const struct config *current,
                  const struct config *configured) {
    if (current)
        daemon->settings->current = *current;
    if (configured)
        daemon->settings->configured = *configured;
}

const struct config *settings_configured(const struct daemon *daemon) {
    return &daemon->settings->configured;
}

const struct config_source *settings_source(const struct daemon *daemon) {
    return daemon->settings->source;
}

/* ---- In flight ---- */

/* What all members share is told once; else each tells its own, beside what is configured for all.
 */
static void take_members(struct config *current, const struct config *configured,
                         const struct learner *learner) {
    size_t count = learner_members(learner);
    bool rate = count > 0, clip = count > 0;
    const struct learner_rates first =
        count ? learner_rates(learner, 0) : (struct learner_rates){0};
    for (size_t m = 0; m < count; m++) {
        const struct learner_rates rates = learner_rates(learner, m);
        current->members[m].learning.optimizer.rate = rates.rate;
        current->members[m].learning.clip = rates.clip;
        rate &= rates.rate == first.rate;
        clip &= rates.clip == first.clip;
    }
    current->learning.optimizer.rate = rate ? first.rate : configured->learning.optimizer.rate;
    current->learning.clip = clip ? first.clip : configured->learning.clip;
}

void settings_take_rates(struct daemon *daemon) {
    struct config *current = &daemon->settings->current;
    if (current->members_given) {
        take_members(current, &daemon->settings->configured, daemon->learner);
    } else {
        current->learning.optimizer.rate = learner_rate(daemon->learner);
        current->learning.clip = learner_clip(daemon->learner);
    }
    if (learner_watches(daemon->learner))
        current->anomaly.rule.threshold = learner_threshold(daemon->learner);
    config_digest(current);
    resolved_renew(daemon);
}

/* "members.NAME.KEY" is a key of one member: its place, and KEY. Without that, all members and the
   key as it is. -1: there is no such member. */
static int split_key(const struct daemon *daemon, const char *key, size_t *member, const char **own,
                     struct error *error) {
    *member = LEARNER_ALL;
    *own = key;
    if (strncmp(key, MEMBERS, strlen(MEMBERS)) != 0)
        return 0;
    const char *name = key + strlen(MEMBERS);
    size_t length = strcspn(name, ".");
    *member = learner_member_named(daemon->learner, name, length);
    *own = name + length + (name[length] == '.');
    if (*member != LEARNER_ALL)
        return 0;
    return error_set(error, EX_CONFIG, "set: %.60s: there is no such member", key);
}

bool settings_is_learned_with(const char *key) {
    if (!strncmp(key, MEMBERS, strlen(MEMBERS))) {
        key += strlen(MEMBERS);
        key += strcspn(key, ".");
        key += *key == '.';
    }
    return !strcmp(key, RATE_KEY) || !strcmp(key, CLIP_KEY) || !strcmp(key, THRESHOLD_KEY);
}

/* Whether each of the networks that are meant can have the rate. */
static int check_rate(const struct daemon *daemon, const char *key, size_t member,
                      const struct config *wanted, struct error *error) {
    char why[CONFIG_WHY_SIZE];
    size_t members = learner_members(daemon->learner);
    for (size_t m = 0; !strcmp(key, RATE_KEY) && m < (members ? members : 1); m++) {
        const char *name = members ? learner_member_name(daemon->learner, m) : "";
        if ((member == LEARNER_ALL || member == m) &&
            !config_rate_fits(&learning_of(wanted, m)->optimizer, wanted->learning.optimizer.rate,
                              why))
            return error_set(error, EX_CONFIG, "set: %s%s%s%s: %s", *name ? MEMBERS : "", name,
                             *name ? "." : "", key, why);
    }
    return 0;
}

static int apply(struct daemon *daemon, const char *key, size_t member, const struct config *wanted,
                 struct error *error) {
    double rate = wanted->learning.optimizer.rate, clip = wanted->learning.clip;
    if (!strcmp(key, RATE_KEY) && learner_set_rate(daemon->learner, member, rate, error))
        return -1;
    if (!strcmp(key, CLIP_KEY) && learner_set_clip(daemon->learner, member, clip, error))
        return -1;
    if (!strcmp(key, THRESHOLD_KEY) && !learner_watches(daemon->learner))
        return error_set(error, EX_CONFIG,
                         "set: %s: this daemon does not look for anomalies; start it with "
                         "anomaly.enabled: true",
                         key);
    if (!strcmp(key, THRESHOLD_KEY) &&
        learner_set_threshold(daemon->learner, wanted->anomaly.rule.threshold, error))
        return -1;
    daemon->settings->current = *wanted;
    settings_take_rates(daemon);
    checkpoints_changed(daemon);
    return 0;
}

int settings_set(struct daemon *daemon, const char *key, const char *value, struct error *error) {
    struct config *wanted = malloc(sizeof *wanted);
    if (!wanted)
        return error_set(error, EX_OSERR, "out of memory: %s was not set; try again later", key);
    *wanted = daemon->settings->current;
    size_t member;
    const char *own;
    int result = split_key(daemon, key, &member, &own, error) ||
                         config_set(wanted, own, value, error) ||
                         check_rate(daemon, own, member, wanted, error) ||
                         apply(daemon, own, member, wanted, error)
                     ? -1
                     : 0;
    free(wanted);
    return result;
}

int settings_replay(struct daemon *daemon, const char *key, const char *value, bool configured,
                    struct error *error) {
    if (!settings_is_learned_with(key))
        return 0;
    if (!strcmp(key, THRESHOLD_KEY) && !learner_watches(daemon->learner))
        return 0; /* it did then */
    if (settings_set(daemon, key, value, error))
        return -1;
    size_t member, count = settings_networks(daemon);
    const char *own;
    if (!configured)
        return 0;
    if (split_key(daemon, key, &member, &own, error))
        return -1;
    if (!strcmp(own, THRESHOLD_KEY)) {
        double threshold = learner_threshold(daemon->learner);
        learner_write_thresholds(daemon->learner,
                                 &(struct learner_thresholds){threshold, threshold});
        return 0;
    }
    for (size_t m = 0; m < count; m++) {
        struct learner_rates rates = learner_rates(daemon->learner, m);
        if (member != LEARNER_ALL && member != m)
            continue;
        if (!strcmp(own, RATE_KEY))
            rates.configured_rate = rates.rate;
        else
            rates.configured_clip = rates.clip;
        learner_write_rates(daemon->learner, m, &rates);
    }
    return 0;
}

static int reset_member(struct daemon *daemon, const char *name, struct error *error) {
    size_t member = learner_member_named(daemon->learner, name, strlen(name));
    if (member == SIZE_MAX) {
        error_set(error, EX_USAGE, "reset: there is no member %.60s", name);
        return 1;
    }
    int result = learner_reset_member(daemon->learner, member, error);
    if (result == 0) {
        settings_take_rates(daemon);
        checkpoints_changed(daemon);
    }
    return result;
}

int settings_reset(struct daemon *daemon, const char *member, struct error *error) {
    if (member)
        return reset_member(daemon, member, error);
    int result = learner_reset(daemon->learner, error);
    if (result)
        return result;
    settings_take_rates(daemon);
    observe_begin(daemon);
    checkpoints_begin_again(daemon);
    return 0;
}
