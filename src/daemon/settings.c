#include "settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "checkpoints.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/log.h"
#include "journalling.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "run.h"

/* The keys that learning depends on and that may change in flight. */
#define RATE_KEY "learning.optimizer.rate"
#define CLIP_KEY "learning.clip"

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
    return 0;
}

void settings_close(struct daemon *daemon) {
    free(daemon->settings);
    daemon->settings = NULL;
    daemon->config = NULL;
}

/* ---- In flight ---- */

void settings_take_rates(struct daemon *daemon) {
    struct config *current = &daemon->settings->current;
    current->learning.optimizer.rate = learner_rate(daemon->learner);
    current->learning.clip = learner_clip(daemon->learner);
}

bool settings_is_learned_with(const char *key) {
    return !strcmp(key, RATE_KEY) || !strcmp(key, CLIP_KEY);
}

static int apply(struct daemon *daemon, const struct config *wanted, struct error *error) {
    double rate = wanted->learning.optimizer.rate, clip = wanted->learning.clip;
    if (rate != learner_rate(daemon->learner) && learner_set_rate(daemon->learner, rate, error))
        return -1;
    if (clip != learner_clip(daemon->learner) && learner_set_clip(daemon->learner, clip, error))
        return -1;
    daemon->settings->current = *wanted;
    checkpoints_changed(daemon);
    return 0;
}

int settings_set(struct daemon *daemon, const char *key, const char *value, struct error *error) {
    struct config *wanted = malloc(sizeof *wanted);
    if (!wanted)
        return error_set(error, EX_OSERR, "out of memory: %s was not set; try again later", key);
    *wanted = daemon->settings->current;
    int result = config_set(wanted, key, value, error) || apply(daemon, wanted, error) ? -1 : 0;
    free(wanted);
    return result;
}

int settings_replay(struct daemon *daemon, const char *key, const char *value, bool configured,
                    struct error *error) {
    if (!settings_is_learned_with(key))
        return 0;
    if (settings_set(daemon, key, value, error))
        return -1;
    struct learner_rates rates = learner_rates(daemon->learner);
    if (configured && !strcmp(key, RATE_KEY))
        rates.configured_rate = rates.rate;
    if (configured && !strcmp(key, CLIP_KEY))
        rates.configured_clip = rates.clip;
    learner_write_rates(daemon->learner, &rates);
    return 0;
}

int settings_reset(struct daemon *daemon, struct error *error) {
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

/* Rate and clip are learned with, so that they are journalled: what is replayed is learned with
   those that were in force. The checkpoint that a replay begins with says which ones were before,
   the file does not any more; so there must be one. */
static int take_learning(struct daemon *daemon, const struct config *wanted, json_t *changes,
                         struct error *error) {
    const char *key;
    json_t *value;
    if (!json_object_get(changes, RATE_KEY) && !json_object_get(changes, CLIP_KEY))
        return 0;
    if (daemon->journal && checkpoints_first(daemon, error))
        return -1;
    if (learner_configure(daemon->learner, wanted->learning.optimizer.rate, wanted->learning.clip,
                          error))
        return run_break(daemon);
    json_object_foreach(changes, key, value) {
        if (settings_is_learned_with(key))
            journalling_append_command(daemon,
                                       json_pack("{s:s, s:s, s:O, s:b}", "command", "set", "key",
                                                 key, "value", value, "configured", 1));
    }
    checkpoints_changed(daemon);
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
    const struct learner_rates rates = learner_rates(daemon->learner);
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
        before->learning.optimizer.rate = rates.configured_rate;
        before->learning.clip = rates.configured_clip;
        result = config_reload(&settings->current, before, &settings->configured, collect, changes,
                               error) ||
                         take_learning(daemon, &settings->configured, changes, error)
                     ? -1
                     : 0;
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
    if (take_learning(daemon, wanted, changes, error))
        return -1;
    daemon->settings->configured = *wanted;
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
