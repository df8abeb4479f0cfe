/* SIGHUP: the configuration is read again while the daemon runs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/json_text.h"
#include "common/log.h"
#include "daemon_state.h"
#include "learner/learner_state.h"
#include "notify.h"
#include "report.h"

enum { CHANGES_TEXT_SIZE = 768 };

bool daemon_has_terminal(void) {
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (terminal < 0)
        return false;
    close(terminal);
    return true;
}

/* A terminal that is closed sends SIGHUP too, and who closes it means to end what runs there. */
bool daemon_means_reload(const struct daemon *daemon) {
    return !daemon->had_terminal || daemon_has_terminal();
}

/* --- taking what has changed ------------------------------------------------------------------ */

/* Of config_changed; the context is a JSON object. */
static void collect(void *context, const char *key, const char *value) {
    json_object_set_new(context, key, json_of_text(value, strlen(value)));
}

/* Rate and clip are learned with, so that they are written down: what is replayed is learned with
   those that were in force. The checkpoint that a replay begins with says which ones were before,
   the file does not any more; so there must be one. */
static int take_learning(struct daemon *daemon, const struct config *wanted, json_t *changes,
                         struct error *error) {
    const char *key;
    json_t *value;
    if (!json_object_get(changes, RATE_KEY) && !json_object_get(changes, CLIP_KEY))
        return 0;
    if (daemon->journal && daemon_first_checkpoint(daemon, error))
        return -1;
    if (learner_configure(daemon->learner, wanted->learning.optimizer.rate, wanted->learning.clip,
                          error)) {
        daemon->broken = true;
        return -1;
    }
    json_object_foreach(changes, key, value) {
        if (!strcmp(key, RATE_KEY) || !strcmp(key, CLIP_KEY))
            daemon_journal_command(daemon, json_pack("{s:s, s:s, s:O, s:b}", "command", "set",
                                                     "key", key, "value", value, "configured", 1));
    }
    daemon->changed = true;
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

int daemon_configure(struct daemon *daemon, struct error *error) {
    const struct learner_rates rates = learner_rates(daemon->learner);
    struct config *before = malloc(sizeof *before);
    json_t *changes = json_object();
    char text[CHANGES_TEXT_SIZE];
    int result = -1;
    if (!before || !changes) {
        error_set(error, EX_OSERR, "no memory to start");
    } else if (daemon->replaying) {
        result = 0; /* stopped: what comes behind the rest of the journal comes another time */
    } else {
        *before = *daemon->config;
        before->learning.optimizer.rate = rates.configured_rate;
        before->learning.clip = rates.configured_clip;
        result = config_reload(&daemon->current, before, daemon->config, collect, changes, error) ||
                         take_learning(daemon, daemon->config, changes, error)
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

/* --- reading again ---------------------------------------------------------------------------- */

static int take(struct daemon *daemon, const struct config *wanted, json_t *changes, size_t cut_off,
                struct error *error) {
    char text[CHANGES_TEXT_SIZE];
    if (take_learning(daemon, wanted, changes, error))
        return -1;
    daemon->configured = *wanted;
    daemon_plan_loss(daemon);
    daemon_want_outputs(daemon);
    write_changes(changes, text);
    const char *lists = daemon->security ? " and the lists of keys" : "";
    const char *many = cut_off == 1 ? "" : "s";
    log_info("read the configuration%s again: %s; %zu connection%s cut off", lists, text, cut_off,
             many);
    daemon_event(daemon, "reloaded",
                 json_pack("{s:O, s:I}", "changed", changes, "cut_off", (json_int_t)cut_off),
                 "read the configuration%s again: %s; %zu connection%s cut off", lists, text,
                 cut_off, many);
    *daemon->reload_refused = '\0';
    daemon_publish_status(daemon);
    return 0;
}

/* `systemctl reload` has gone by now: the status, which is told at once, is what it can show. */
static void refuse(struct daemon *daemon, const struct error *why) {
    snprintf(daemon->reload_refused, sizeof daemon->reload_refused, "%s", why->text);
    daemon->status_due = daemon_clock();
    log_warning("the configuration stays as it was: %s", why->text);
    daemon_event(daemon, "reload_failed", NULL, "the configuration stays as it was: %s", why->text);
}

/* Everything is looked at before anything is taken; `current` is a copy of daemon->current. */
static int read_again(struct daemon *daemon, struct config *wanted, struct config *current,
                      json_t *changes, size_t *cut_off, struct error *why) {
    const struct config_source *source = daemon->source;
    return config_load(wanted, source->path, source->overrides, source->override_count, why) ||
                   config_reload(current, &daemon->configured, wanted, collect, changes, why) ||
                   security_reload(daemon->security, wanted, cut_off, why)
               ? -1
               : 0;
}

int daemon_reload(struct daemon *daemon, struct error *error) {
    struct config *wanted = malloc(2 * sizeof *wanted);
    json_t *changes = json_object();
    struct error why;
    size_t cut_off;
    int result = 0;
    daemon->reload_wanted = false;
    notify_reloading();
    if (!wanted || !changes) {
        error_set(&why, EX_OSERR, "no memory to read it again");
        refuse(daemon, &why);
        goto done;
    }
    struct config *current = wanted + 1;
    *current = daemon->current;
    if (read_again(daemon, wanted, current, changes, &cut_off, &why)) {
        refuse(daemon, &why);
        goto done;
    }
    daemon->current = *current;
    result = take(daemon, wanted, changes, cut_off, error);
done:
    notify_ready();
    free(wanted);
    json_decref(changes);
    return result;
}
