#include "learning.h"

#include <inttypes.h>

#include "common/log.h"
#include "engine/engines.h"
#include "observe.h"
#include "parts.h"
#include "settings.h"

int learning_open(struct daemon *daemon, struct engines_choice *engine, struct error *error) {
    const struct learner_observer observer = observe_learner(daemon);
    while (learner_open_empty(&daemon->learner, daemon->config, &daemon->model, engine->ops,
                              LEARNING_BATCH_MAX, &observer, error))
        if (!engines_fall_back(engine, error))
            return -1;
    daemon->engine = engine->ops;
    return 0;
}

void learning_close(struct daemon *daemon) {
    learner_close(&daemon->learner);
}

static int open_at(struct daemon *daemon, const struct checkpoint_kept *kept,
                   struct learner **learner, struct error *error) {
    const struct learner_observer observer = observe_learner(daemon);
    struct checkpoint_report report;
    if (learner_open_empty(learner, daemon->config, &daemon->model, daemon->engine,
                           LEARNING_BATCH_MAX, &observer, error))
        return -1;
    if (checkpoint_load_kept(daemon->checkpoint, kept, daemon->config, *learner, &report, error)) {
        learner_close(learner);
        return -1;
    }
    if (*report.warning)
        log_warning("%s", report.warning);
    return 0;
}

/* Restarts figures and rates for the learner that is now in use. */
static void take(struct daemon *daemon, struct learner *learner) {
    daemon->learner = learner;
    settings_update_rates(daemon);
    observe_begin(daemon);
}

int learning_go_back(struct daemon *daemon, const struct checkpoint_kept *kept,
                     struct learner **before, struct error *error) {
    struct learner *learner;
    if (!before)
        learner_close(&daemon->learner);
    if (open_at(daemon, kept, &learner, error))
        return -1;
    if (before)
        *before = daemon->learner;
    take(daemon, learner);
    log_info("going back to %s, which ends with entry %" PRIu64, kept->name, kept->position);
    return 0;
}

void learning_keep(struct daemon *daemon, struct learner **before) {
    learner_close(before);
    observe_begin(daemon);
}

void learning_undo(struct daemon *daemon, struct learner **before) {
    learner_close(&daemon->learner);
    take(daemon, *before);
    *before = NULL;
}
