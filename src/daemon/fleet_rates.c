/* Whether the others of the fleet learn with the same rates and clips, which alone may differ. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"
#include "common/log.h"
#include "common/text.h"
#include "config/config.h"
#include "fleet/fleet_rates.h"
#include "fleet_internal.h"
#include "parts.h"

enum { TEXT_SIZE = 256 };

/* "learning.clip", or of a member "members.NAME.learning.clip". One that has none (`auto`) is left
   out. */
static void add_rates(json_t *rates, const char *prefix, const struct learning *learning) {
    char key[TEXT_SIZE];
    snprintf(key, sizeof key, "%slearning.optimizer.rate", prefix);
    json_object_set_new(rates, key, json_real(learning->optimizer.rate));
    snprintf(key, sizeof key, "%slearning.clip", prefix);
    json_object_set_new(rates, key, json_real(learning->clip));
}

json_t *fleet_own_rates(const struct daemon *daemon) {
    const struct config *config = daemon->config;
    json_t *rates = json_pack("{s:f}", "fleet.lease", config->fleet.lease);
    if (!config->members_given)
        add_rates(rates, "", &config->learning);
    for (size_t m = 0; config->members_given && m < config->member_count; m++) {
        char prefix[TEXT_SIZE / 2];
        snprintf(prefix, sizeof prefix, "members.%s.", config->members[m].name);
        add_rates(rates, prefix, &config->members[m].learning);
    }
    return rates;
}

/* "worker-2 learns with learning.clip 2, and this daemon with 1". */
static json_t *difference(const struct fleet_daemon *member, const json_t *mine,
                          const json_t *its) {
    const char *key = fleet_rates_differ(mine, its);
    char name[TEXT_SIZE], theirs[FORMAT_SIZE], own[FORMAT_SIZE];
    if (!member->living || !key)
        return NULL;
    return json_sprintf(
        "%s learns with %s %s, and this daemon with %s", text_copy(name, sizeof name, member->name),
        key, format_exact(theirs, fleet_rate(its, key)), format_exact(own, fleet_rate(mine, key)));
}

/* By name, of all that differ. */
static json_t *differences(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->fleet;
    const struct fleet_view *view = &fleet->view;
    json_t *mine = json_pack("{s:o}", FLEET_RATES, fleet_own_rates(daemon)), *all = json_object();
    for (size_t d = 0; d < view->daemon_count; d++) {
        if (strcmp(view->daemons[d].name, fleet->self.name) == 0)
            continue;
        json_t *its = json_loads(view->daemons[d].info, 0, NULL);
        json_t *text = difference(&view->daemons[d], mine, its);
        if (text)
            json_object_set_new(all, view->daemons[d].name, text);
        json_decref(its);
    }
    json_decref(mine);
    return all;
}

void fleet_compare_rates(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    const char *name, *first = NULL;
    char group[TEXT_SIZE], more[TEXT_SIZE] = "";
    size_t news = 0;
    if (fleet->compared)
        return;
    fleet->compared = true;
    json_t *now = differences(daemon), *text;
    json_object_foreach(now, name, text) {
        if (json_equal(text, json_object_get(fleet->differences, name)))
            continue;
        first = first ? first : json_string_value(text);
        news++;
    }
    if (news > 1)
        snprintf(more, sizeof more, " (and %zu more daemon%s with another one than this)", news - 1,
                 text_s(news - 1));
    if (news)
        log_warning("of the fleet %s, %s%s: give all daemons the same value",
                    text_copy(group, sizeof group, fleet->self.group), first, more);
    json_decref(fleet->differences);
    fleet->differences = now;
}
