#include "settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/error.h"
#include "common/format.h"
#include "common/json_text.h"
#include "common/log.h"
#include "journalling.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "resolved.h"
#include "run.h"

/* The keys that learning depends on and that may change in flight. */
#define RATE_KEY "learning.optimizer.rate"
#define CLIP_KEY "learning.clip"
#define THRESHOLD_KEY "anomaly.threshold"

/* Before one of them, with a name: that of one member alone. */
#define MEMBERS "members."

enum { CHANGES_TEXT_SIZE = 768, KEY_TEXT_SIZE = 128 };

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

static const struct learning *learning_of(const struct config *config, size_t member) {
    return config->members_given && config->member_count ? &config->members[member].learning
                                                         : &config->learning;
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

/* Those that have a rate: where there is no network, the configuration's own counts as one. */
static size_t networks(const struct daemon *daemon) {
    size_t members = learner_members(daemon->learner);
    return members ? members : 1;
}

int settings_replay(struct daemon *daemon, const char *key, const char *value, bool configured,
                    struct error *error) {
    if (!settings_is_learned_with(key))
        return 0;
    if (!strcmp(key, THRESHOLD_KEY) && !learner_watches(daemon->learner))
        return 0; /* it did then */
    if (settings_set(daemon, key, value, error))
        return -1;
    size_t member, count = networks(daemon);
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

/* ---- What the file has changed ---- */

/* Of config_changed; the context is a JSON object. */
static void collect(void *context, const char *key, const char *value) {
    json_object_set_new(context, key, json_of_text(value, strlen(value)));
}

/* A key's value is another than before. */
static void journal_key(struct daemon *daemon, const char *key, double value) {
    char text[FORMAT_SIZE];
    journalling_append_command(daemon,
                               json_pack("{s:s, s:s, s:s, s:b}", "command", "set", "key", key,
                                         "value", format_exact(text, value), "configured", 1));
}

/* One member's is. */
static void journal_value(struct daemon *daemon, size_t member, const char *key, double value) {
    char name[KEY_TEXT_SIZE];
    const char *own =
        learner_members(daemon->learner) ? learner_member_name(daemon->learner, member) : "";
    snprintf(name, sizeof name, "%s%s%s%s", *own ? MEMBERS : "", own, *own ? "." : "", key);
    journal_key(daemon, name, value);
}

/* Rate and clip are learned with, so that they are journalled: what is replayed is learned with
   those that were in force. The checkpoint that a replay begins with says which ones were before,
   the file does not any more; so there must be one. */
static int take_member(struct daemon *daemon, const struct config *wanted, size_t member,
                       struct error *error) {
    const struct learning *learning = learning_of(wanted, member);
    const struct learner_rates rates = learner_rates(daemon->learner, member);
    double rate = learning->optimizer.rate, clip = learning->clip;
    if (rate == rates.configured_rate && clip == rates.configured_clip)
        return 0;
    if (daemon->journal && checkpoints_first(daemon, error))
        return -1;
    if (learner_configure(daemon->learner, member, rate, clip, error))
        return run_break(daemon);
    if (rate != rates.configured_rate)
        journal_value(daemon, member, RATE_KEY, rate);
    if (clip != rates.configured_clip)
        journal_value(daemon, member, CLIP_KEY, clip);
    checkpoints_changed(daemon);
    return 0;
}

/* Alarms depend on it, and so do those of a replay: as with a member's rates. */
static int take_threshold(struct daemon *daemon, const struct config *wanted, struct error *error) {
    double threshold = wanted->anomaly.rule.threshold;
    if (!learner_watches(daemon->learner) ||
        threshold == learner_thresholds(daemon->learner).configured)
        return 0;
    if (daemon->journal && checkpoints_first(daemon, error))
        return -1;
    if (learner_configure_threshold(daemon->learner, threshold, error))
        return run_break(daemon);
    journal_key(daemon, THRESHOLD_KEY, threshold);
    checkpoints_changed(daemon);
    return 0;
}

static int take_learning(struct daemon *daemon, const struct config *wanted, struct error *error) {
    bool predictions = wanted->predictions != PREDICTIONS_NONE;
    if (learner_keep_truths(daemon->learner, predictions, error) ||
        take_threshold(daemon, wanted, error))
        return -1;
    for (size_t m = 0; m < networks(daemon); m++)
        if (take_member(daemon, wanted, m, error))
            return -1;
    return 0;
}

/* "a is 1, b is 2" */
static void write_changes(json_t *changes, char text[CHANGES_TEXT_SIZE]) {
    const char *key;
    json_t *value;
    size_t used = 0;
    snprintf(text, CHANGES_TEXT_SIZE, "no value has changed");
    json_object_foreach(changes, key, value) {
        const char *now = json_string_value(value);
        if (used < CHANGES_TEXT_SIZE)
            used += (size_t)snprintf(text + used, CHANGES_TEXT_SIZE - used, "%s%s is %s",
                                     used ? ", " : "", key, now && *now ? now : "not set");
    }
}

int settings_configure(struct daemon *daemon, struct error *error) {
    struct settings *settings = daemon->settings;
    const struct learner_rates rates = learner_rates(daemon->learner, 0);
    struct config *before = malloc(sizeof *before);
    json_t *changes = json_object();
    char text[CHANGES_TEXT_SIZE];
    int result = -1;
    if (!before || !changes) {
        error_no_memory(error);
    } else if (run_is_replaying(daemon)) {
        result = 0; /* stopped: what comes after the rest of the journal comes another time */
    } else {
        *before = settings->configured;
        if (!settings->configured.members_given) {
            before->learning.optimizer.rate = rates.configured_rate;
            before->learning.clip = rates.configured_clip;
        }
        if (learner_watches(daemon->learner))
            before->anomaly.rule.threshold = learner_thresholds(daemon->learner).configured;
        result = config_reload(&settings->current, before, &settings->configured, collect, changes,
                               error) ||
                         take_learning(daemon, &settings->configured, error)
                     ? -1
                     : 0;
        if (result == 0)
            settings_take_rates(daemon);
        write_changes(changes, text);
        if (result == 0 && json_object_size(changes))
            log_info("the configuration has changed: %s", text);
    }
    free(before);
    json_decref(changes);
    return result;
}

/* ---- Reading it again ---- */

/* What the lists and the key of the daemon have brought. */
struct access {
    size_t cut_off; /* connections */
    bool key_changed;
};

static int renew_sockets(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    return publish_renew(daemon->publish, daemon->security, &config->statistics, error) ||
                   control_renew(daemon->control, daemon->security, &config->control, error) ||
                   ingest_renew(daemon->ingest, daemon->security, &config->examples, error)
               ? -1
               : 0;
}

static int take(struct daemon *daemon, const struct config *wanted, json_t *changes,
                const struct access *access, struct error *error) {
    char text[CHANGES_TEXT_SIZE], key[KEY_TEXT_SIZE] = "";
    if (take_learning(daemon, wanted, error))
        return -1;
    daemon->settings->configured = *wanted;
    settings_take_rates(daemon);
    observe_want_outputs(daemon);
    write_changes(changes, text);
    const char *lists = security_has_keys(daemon->security) ? " and the lists of keys" : "";
    const char *many = access->cut_off == 1 ? "" : "s";
    json_t *details =
        json_pack("{s:O, s:I}", "changed", changes, "cut_off", (json_int_t)access->cut_off);
    if (access->key_changed) {
        snprintf(key, sizeof key, "; the daemon's public key is now %s",
                 security_key(daemon->security));
        json_object_set_new(details, "key", json_string(security_key(daemon->security)));
    }
    log_info("read the configuration%s again: %s; %zu connection%s cut off%s", lists, text,
             access->cut_off, many, key);
    announce_event(daemon, "reloaded", details,
                   "read the configuration%s again: %s; %zu connection%s cut off%s", lists, text,
                   access->cut_off, many, key);
    run_refused_reload(daemon, "");
    announce_status(daemon);
    return access->key_changed ? renew_sockets(daemon, error) : 0;
}

/* `systemctl reload` has ended by now: the manager's status, which is soon updated, is what it can
   show. */
static void refuse(struct daemon *daemon, const struct error *why) {
    run_refused_reload(daemon, why->text);
    announce_status_soon(daemon);
    log_warning("the configuration stays as it was: %s", why->text);
    announce_event(daemon, "reload_failed", NULL, "the configuration stays as it was: %s",
                   why->text);
}

/* Everything is checked before anything is taken; `current` is a copy of the one in force. */
static int read_again(struct daemon *daemon, struct config *wanted, struct config *current,
                      json_t *changes, struct access *access, struct error *why) {
    const struct config_source *source = daemon->settings->source;
    return config_load(wanted, source->path, source->overrides, source->override_count, why) ||
                   config_reload(current, &daemon->settings->configured, wanted, collect, changes,
                                 why) ||
                   security_reload(daemon->security, wanted, &access->cut_off, &access->key_changed,
                                   why)
               ? -1
               : 0;
}

int settings_reload(struct daemon *daemon, struct error *error) {
    struct config *wanted = malloc(2 * sizeof *wanted);
    json_t *changes = json_object();
    struct error why;
    struct access access;
    int result = 0;
    notify_reloading();
    if (!wanted || !changes) {
        error_no_memory(&why);
        refuse(daemon, &why);
        goto done;
    }
    struct config *current = wanted + 1;
    *current = daemon->settings->current;
    if (read_again(daemon, wanted, current, changes, &access, &why)) {
        refuse(daemon, &why);
        goto done;
    }
    daemon->settings->current = *current;
    result = take(daemon, wanted, changes, &access, error);
done:
    notify_ready();
    free(wanted);
    json_decref(changes);
    return result;
}
