/* The current configuration, and its changes at run time: `set`, `reset`, and their replay. */

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
#include "common/text.h"
#include "config/config.h"
#include "journalling.h"
#include "learner/learner.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "observe.h"
#include "parts.h"
#include "parts/anomalies.h"
#include "run.h"

/* The keys that affect learning and can change at run time. */
#define RATE_KEY "learning.optimizer.rate"
#define CLIP_KEY "learning.clip"
#define THRESHOLD_KEY "anomaly.threshold"

/* The prefix of a key that applies to one member. */
#define MEMBERS "members."

static const struct learning *learning_of(const struct config *config, size_t member) {
    return config->members_given && config->member_count ? &config->members[member].learning
                                                         : &config->learning;
}

/* Members that have a rate; without a network, the configuration counts as one. */
static size_t settings_networks(const struct daemon *daemon) {
    size_t members = learner_members(daemon->learner);
    return members ? members : 1;
}

enum { LINE_SIZE = 1024 };

struct settings {
    const struct config_source *source;
    struct config configured; /* the configuration as loaded last */
    struct config current;    /* the same with the values set at run time */
    char *json, *tags;        /* the current configuration as text; NULL: out of memory */
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
    if (daemon->settings) {
        free(daemon->settings->json);
        free(daemon->settings->tags);
    }
    free(daemon->settings);
    daemon->settings = NULL;
    daemon->config = NULL;
}

const struct config_source *settings_source(const struct daemon *daemon) {
    return daemon->settings->source;
}

/* ---- As text ---- */

/* Replaces the text by the output of `print`. */
static void renew(char **text, const struct config *config,
                  int (*print)(FILE *out, const struct config *config, struct error *error)) {
    size_t size;
    struct error error;
    free(*text);
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    bool whole = out && print(out, config, &error) == 0;
    if (out && (fclose(out) || !whole)) {
        free(*text);
        *text = NULL;
    }
}

const char *settings_json(const struct daemon *daemon) {
    return daemon->settings->json;
}

const char *settings_tags(const struct daemon *daemon) {
    return daemon->settings->tags;
}

/* Writes a line of a comment. */
static void write_comment(FILE *out, const char *what, const char *text) {
    char clean[LINE_SIZE];
    fprintf(out, "# %s%s\n", what, text_copy(clean, sizeof clean, text));
}

char *settings_yaml(const struct daemon *daemon) {
    const struct config_source *source = daemon->settings->source;
    char *text = NULL;
    size_t size;
    struct error error;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "# The current configuration of runneld %s, digest %s\n", PACKAGE_VERSION,
            daemon->config->digest);
    write_comment(out, "read from ", source->path);
    for (size_t n = 0; n < source->override_count; n++)
        write_comment(out, "with --set ", source->overrides[n]);
    bool whole = config_print(out, daemon->config, &daemon->settings->configured, &error) == 0;
    if (fclose(out) || !whole) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- In flight ---- */

/* Takes the rates of each member. A value that all members share also becomes the common one. */
static void update_members(struct config *current, const struct config *configured,
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

void settings_update_rates(struct daemon *daemon) {
    struct config *current = &daemon->settings->current;
    if (current->members_given) {
        update_members(current, &daemon->settings->configured, daemon->learner);
    } else {
        current->learning.optimizer.rate = learner_rate(daemon->learner);
        current->learning.clip = learner_clip(daemon->learner);
    }
    if (learner_watches(daemon->learner))
        current->anomaly.rule.threshold =
            anomalies_thresholds(learner_host(daemon->learner)).threshold;
    config_digest(current);
    renew(&daemon->settings->json, current, config_print_json);
    renew(&daemon->settings->tags, current, config_print_tags);
}

/* Splits "members.NAME.KEY" into the number of the member and KEY. Another key stays and applies to
   all members. -1: unknown member. */
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
    return error_set(error, EX_CONFIG, "set: %.60s: unknown member", key);
}

bool settings_is_learned_with(const char *key) {
    if (!strncmp(key, MEMBERS, strlen(MEMBERS))) {
        key += strlen(MEMBERS);
        key += strcspn(key, ".");
        key += *key == '.';
    }
    return !strcmp(key, RATE_KEY) || !strcmp(key, CLIP_KEY) || !strcmp(key, THRESHOLD_KEY);
}

/* Checks whether the rate is valid for each network concerned. */
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
        return error_set(
            error, EX_CONFIG,
            "set: %s: anomaly detection is off; start the daemon with anomaly.enabled: true", key);
    if (!strcmp(key, THRESHOLD_KEY) && *wanted->anomaly.rate)
        return error_set(error, EX_CONFIG,
                         "set: %s: cannot be combined with anomaly.rate; remove one of them", key);
    if (!strcmp(key, THRESHOLD_KEY) &&
        learner_set_threshold(daemon->learner, wanted->anomaly.rule.threshold, error))
        return -1;
    daemon->settings->current = *wanted;
    settings_update_rates(daemon);
    checkpoints_changed(daemon);
    return 0;
}

int settings_set(struct daemon *daemon, const char *key, const char *value, struct error *error) {
    struct config *wanted = malloc(sizeof *wanted);
    if (!wanted)
        return error_set(error, EX_OSERR, "cannot set %s: out of memory; try again later", key);
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
    if (!strcmp(key, THRESHOLD_KEY) &&
        (!learner_watches(daemon->learner) || *daemon->config->anomaly.rate))
        return 0; /* it applied then */
    if (settings_set(daemon, key, value, error))
        return -1;
    size_t member, count = settings_networks(daemon);
    const char *own;
    if (!configured)
        return 0;
    if (split_key(daemon, key, &member, &own, error))
        return -1;
    if (!strcmp(own, THRESHOLD_KEY)) {
        double threshold = anomalies_thresholds(learner_host(daemon->learner)).threshold;
        anomalies_set_thresholds(learner_host(daemon->learner),
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
        error_set(error, EX_USAGE, "reset: unknown member %.60s", name);
        return 1;
    }
    int result = learner_reset_member(daemon->learner, member, error);
    if (result == 0) {
        settings_update_rates(daemon);
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
    settings_update_rates(daemon);
    observe_begin(daemon);
    checkpoints_begin_again(daemon);
    return 0;
}

/* The sizes of lists and sentences in an event's text: see report. */
enum {
    CHANGES_TEXT_SIZE = 256,
    KEYS_SIZE = 160,
    WAITING_TEXT_SIZE = 800,
    KEY_TEXT_SIZE = 128,
    CLOSED_TEXT_SIZE = 48
};

/* ---- Changes of the file: since the checkpoint, at a start, and at SIGHUP ---- */

/* JSON objects, by enum config_way. */
struct changes {
    json_t *keys[CONFIG_WAYS];
};

static int changes_open(struct changes *changes) {
    bool good = true;
    for (size_t n = 0; n < CONFIG_WAYS; n++)
        good &= (changes->keys[n] = json_object()) != NULL;
    return good ? 0 : -1;
}

static void changes_close(struct changes *changes) {
    for (size_t n = 0; n < CONFIG_WAYS; n++)
        json_decref(changes->keys[n]);
}

/* For config_changed; the context is a struct changes. */
static void collect(void *context, enum config_way way, const char *key, const char *value) {
    struct changes *changes = context;
    json_object_set_new(changes->keys[way], key, json_of_text(value, strlen(value)));
}

/* Appends the changed value of a key to the journal. */
static void journal_key(struct daemon *daemon, const char *key, double value) {
    char text[FORMAT_SIZE];
    journalling_append_command(daemon, JOURNAL_SET,
                               json_pack("{s:s, s:s, s:s, s:b}", "command", "set", "key", key,
                                         "value", format_exact(text, value), "configured", 1));
}

/* Appends the changed value of one member's key. */
static void journal_value(struct daemon *daemon, size_t member, const char *key, double value) {
    char name[KEY_TEXT_SIZE];
    const char *own =
        learner_members(daemon->learner) ? learner_member_name(daemon->learner, member) : "";
    snprintf(name, sizeof name, "%s%s%s%s", *own ? MEMBERS : "", own, *own ? "." : "", key);
    journal_key(daemon, name, value);
}

/* Rate and clip affect learning, so a change is journalled: a replay uses the values of that time.
   The file no longer has the earlier values, so a checkpoint must contain them. */
static int apply_member(struct daemon *daemon, const struct config *wanted, size_t member,
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

/* The threshold affects the alarms of a replay, so it is journalled like a member's rates. */
static int apply_threshold(struct daemon *daemon, const struct config *wanted,
                           struct error *error) {
    double threshold = wanted->anomaly.rule.threshold;
    if (!learner_watches(daemon->learner) ||
        threshold == anomalies_thresholds(learner_host(daemon->learner)).configured)
        return 0;
    if (daemon->journal && checkpoints_first(daemon, error))
        return -1;
    if (learner_configure_threshold(daemon->learner, threshold, error))
        return run_break(daemon);
    journal_key(daemon, THRESHOLD_KEY, threshold);
    checkpoints_changed(daemon);
    return 0;
}

static int apply_learning(struct daemon *daemon, const struct config *wanted, struct error *error) {
    bool predictions = wanted->predictions != PREDICTIONS_NONE;
    if (learner_keep_truths(daemon->learner, predictions, error) ||
        apply_threshold(daemon, wanted, error))
        return -1;
    for (size_t m = 0; m < settings_networks(daemon); m++)
        if (apply_member(daemon, wanted, m, error))
            return -1;
    return 0;
}

/* Appends to a list unless it would exceed `most` bytes; then appends the count of the rest. */
static size_t write_key(char *text, size_t used, size_t most, const char *item, size_t left) {
    const char *comma = used ? ", " : "";
    enum { MORE_SIZE = sizeof ", and 1000 more" };
    if (used + strlen(comma) + strlen(item) + MORE_SIZE < most)
        return used + (size_t)snprintf(text + used, most - used, "%s%s", comma, item);
    snprintf(text + used, most - used, "%s%zu more", used ? ", and " : "", left);
    return SIZE_MAX;
}

/* Writes "a is 1, b is 2". */
static void write_changes(json_t *changes, char text[CHANGES_TEXT_SIZE]) {
    const char *key;
    json_t *value;
    size_t used = 0, left = json_object_size(changes);
    snprintf(text, CHANGES_TEXT_SIZE, "no value has changed");
    json_object_foreach(changes, key, value) {
        char item[CHANGES_TEXT_SIZE];
        const char *now = json_string_value(value);
        snprintf(item, sizeof item, "%s is %s", key, now && *now ? now : "not set");
        if ((used = write_key(text, used, CHANGES_TEXT_SIZE, item, left--)) == SIZE_MAX)
            break;
    }
}

/* Appends "; HOW: a, b" for keys that are not applied, where `what` is HOW they can change. */
static void write_waiting(json_t *keys, const char *what, char text[WAITING_TEXT_SIZE]) {
    const char *key;
    json_t *value;
    char list[KEYS_SIZE];
    size_t used = 0, left = json_object_size(keys), begin = strlen(text);
    if (!left)
        return;
    json_object_foreach(keys, key, value) {
        if ((used = write_key(list, used, sizeof list, key, left--)) == SIZE_MAX)
            break;
    }
    snprintf(text + begin, WAITING_TEXT_SIZE - begin, "; %s: %s", what, list);
}

int settings_configure(struct daemon *daemon, struct error *error) {
    const struct config *configured = &daemon->settings->configured;
    const struct learner_rates rates = learner_rates(daemon->learner, 0);
    struct config *before = malloc(3 * sizeof *before);
    struct changes changes;
    char text[CHANGES_TEXT_SIZE];
    int result = -1;
    if (changes_open(&changes) || !before) {
        error_no_memory(error);
    } else if (run_is_replaying(daemon)) {
        result = 0; /* the next start handles the rest of the journal and this */
    } else {
        struct config *current = before + 1;
        *current = *daemon->config;
        *before = *configured;
        if (!configured->members_given) {
            before->learning.optimizer.rate = rates.configured_rate;
            before->learning.clip = rates.configured_clip;
        }
        if (learner_watches(daemon->learner))
            before->anomaly.rule.threshold =
                anomalies_thresholds(learner_host(daemon->learner)).configured;
        config_reload(current, before + 2, before, configured, collect, &changes);
        daemon->settings->current = *current;
        result = apply_learning(daemon, configured, error);
        if (result == 0)
            settings_update_rates(daemon);
        write_changes(changes.keys[CONFIG_APPLIED], text);
        if (result == 0 && json_object_size(changes.keys[CONFIG_APPLIED]))
            log_info("the configuration has changed: %s", text);
    }
    free(before);
    changes_close(&changes);
    return result;
}

/* ---- Reloading ---- */

/* Changes in the lists of keys and the daemon's key. */
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

static void report(struct daemon *daemon, struct changes *changes, const struct access *access) {
    char text[CHANGES_TEXT_SIZE], key[KEY_TEXT_SIZE] = "", waiting[WAITING_TEXT_SIZE] = "";
    char all[ERROR_TEXT_SIZE], closed[CLOSED_TEXT_SIZE] = "";
    json_t *const *keys = changes->keys;
    write_changes(keys[CONFIG_APPLIED], text);
    write_waiting(keys[CONFIG_REFUSED],
                  "not applied, and a restart would reject the learned state (start with another "
                  "state.directory; to keep parameters of the same shape, run `runnel-ctl export "
                  "FILE` now and set model.initial: FILE)",
                  waiting);
    write_waiting(keys[CONFIG_RESTART],
                  json_object_get(keys[CONFIG_RESTART], "state.directory")
                      ? "not applied until a restart, which uses the state in that directory (move "
                        "this one there)"
                      : "not applied until a restart",
                  waiting);
    write_waiting(keys[CONFIG_FRESH], "read only before anything is learned", waiting);
    json_t *details =
        json_pack("{s:O, s:O, s:O, s:O, s:I}", "changed", keys[CONFIG_APPLIED], "restart",
                  keys[CONFIG_RESTART], "refused", keys[CONFIG_REFUSED], "ignored",
                  keys[CONFIG_FRESH], "cut_off", (json_int_t)access->cut_off);
    if (access->key_changed) {
        snprintf(key, sizeof key, "; new public key of the daemon: %s",
                 security_key(daemon->security));
        json_object_set_new(details, "key", json_string(security_key(daemon->security)));
    }
    if (access->cut_off)
        snprintf(closed, sizeof closed, "; %zu connection%s closed", access->cut_off,
                 text_s(access->cut_off));
    snprintf(all, sizeof all, "reloaded the configuration%s: %s%s%s%s",
             security_has_keys(daemon->security) ? " and the lists of keys" : "", text, closed, key,
             waiting);
    announce_logged(daemon, *waiting ? log_warning : log_info, "reloaded", details, "%s", all);
    run_refused_reload(daemon, waiting);
    announce_status(daemon);
}

/* `configured`: the file, except for keys that cannot change. */
static int apply_reload(struct daemon *daemon, const struct config *configured,
                        struct changes *changes, const struct access *access, struct error *error) {
    if (apply_learning(daemon, configured, error))
        return -1;
    daemon->settings->configured = *configured;
    settings_update_rates(daemon);
    observe_want_outputs(daemon);
    report(daemon, changes, access);
    return access->key_changed ? renew_sockets(daemon, error) : 0;
}

/* `systemctl reload` has already ended, and can show only the manager's status. */
static void refuse(struct daemon *daemon, const struct error *why) {
    struct error all = *why;
    error_prefix(&all, "; the reloaded configuration is not in use");
    run_refused_reload(daemon, all.text);
    announce_status_soon(daemon);
    announce_logged(daemon, log_warning, "reload_failed", NULL,
                    "cannot reload, the configuration is unchanged: %s", why->text);
}

int settings_reload(struct daemon *daemon, struct error *error) {
    const struct config_source *source = daemon->settings->source;
    struct config *wanted = malloc(3 * sizeof *wanted);
    struct changes changes;
    struct error why;
    struct access access;
    int result = 0;
    notify_reloading();
    if (changes_open(&changes) || !wanted) {
        error_no_memory(&why);
        refuse(daemon, &why);
        goto done;
    }
    struct config *current = wanted + 1, *configured = wanted + 2;
    *current = *daemon->config;
    bool bad = (daemon->config->earlier.used ? config_load_earlier : config_load)(
        wanted, source->path, source->overrides, source->override_count, &why);
    if (!bad) {
        config_reload(current, configured, &daemon->settings->configured, wanted, collect,
                      &changes);
        bad = security_reload(daemon->security, configured, &access.cut_off, &access.key_changed,
                              &why);
    }
    if (bad) {
        refuse(daemon, &why);
        goto done;
    }
    daemon->settings->current = *current;
    result = apply_reload(daemon, configured, &changes, &access, error);
done:
    notify_ready();
    free(wanted);
    changes_close(&changes);
    return result;
}
