/* What a daemon tells the others of itself, and what `status` says of the fleet. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fields.h"
#include "fleet.h"
#include "fleet/fleet_command.h"
#include "fleet/fleet_rates.h"
#include "fleet_internal.h"
#include "observe.h"
#include "parts.h"
#include "run.h"

#define TELL_INTERVAL 1.0 /* seconds */

enum { NUMBER_SIZE = 24, PARTITIONS_TOLD = 1024 /* by `status` */ };

/* "3": 17, how much waits of each partition that is read here. */
static json_t *lags_of(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->fleet;
    json_t *lags = json_object();
    for (size_t p = 0; p < fleet->count; p++) {
        struct consume_figures figures;
        char name[NUMBER_SIZE];
        if (fleet->shares[p].state != SHARE_OWNED)
            continue;
        consume_figures(daemon->consume, p, &figures);
        snprintf(name, sizeof name, "%zu", p);
        if (figures.lag >= 0)
            json_object_set_new(lags, name, json_integer((json_int_t)figures.lag));
    }
    return lags;
}

char *fleet_info(const struct daemon *daemon) {
    json_t *info = json_pack("{s:s, s:s, s:I, s:f, s:f, s:o, s:o}", "control",
                             control_endpoint(daemon->control), "state", run_state(daemon),
                             "examples", (json_int_t)daemon_examples(daemon), "rate",
                             observe_speed(daemon), "lease", daemon->fleet->self.lease, "lags",
                             lags_of(daemon), FLEET_RATES, fleet_own_rates(daemon));
    char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;
    if (text && strlen(text) > FLEET_INFO_MAX) { /* a log takes no more: it is less for people */
        free(text);
        json_object_del(info, "lags");
        text = json_dumps(info, JSON_COMPACT);
    }
    json_decref(info);
    return text;
}

void fleet_tell(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    double now = clock_seconds();
    if (now < fleet->told + TELL_INTERVAL)
        return;
    fleet->told = now;
    fleet_compare_rates(daemon);
    char *info = fleet_info(daemon);
    if (info)
        fleet_worker_tell(fleet->worker, info);
    free(info);
}

static const char *state_of(const struct fleet_daemon *member, const json_t *info) {
    const char *said = json_string_value(json_object_get(info, "state"));
    return !member->living ? "gone" : member->draining ? "drained" : said ? said : "joining";
}

static json_t *member_json(const struct fleet_view *view, size_t d, const json_t *info) {
    size_t partitions = 0;
    for (size_t p = 0; p < view->partition_count; p++)
        partitions += view->partitions[p].owner == (int)d;
    json_t *member = json_pack("{s:s, s:I}", "state", state_of(&view->daemons[d], info),
                               "partitions", (json_int_t)partitions);
    json_object_set(member, "examples", json_object_get(info, "examples"));
    json_object_set(member, "rate", json_object_get(info, "rate"));
    return member;
}

/* What its owner has said that waits. */
static json_t *owner_json(const struct fleet_view *view, size_t p, json_t *const *infos) {
    const struct fleet_partition *partition = &view->partitions[p];
    char name[NUMBER_SIZE];
    snprintf(name, sizeof name, "%zu", p);
    const json_t *info = partition->owner < 0 ? NULL : infos[partition->owner];
    json_t *lag = json_object_get(json_object_get(info, "lags"), name);
    return json_pack("{s:s?, s:I, s:O?}", "daemon",
                     partition->owner < 0 ? NULL : view->daemons[partition->owner].name,
                     "committed", (json_int_t)partition->learned, "lag", lag);
}

static void write_texts(struct fleet *fleet, json_t *const *infos) {
    const struct fleet_view *view = &fleet->view;
    json_t *members = json_object(), *owners = json_array();
    for (size_t d = 0; d < view->daemon_count; d++)
        json_object_set_new(members, view->daemons[d].name, member_json(view, d, infos[d]));
    for (size_t p = 0; p < view->partition_count; p++)
        json_array_append_new(owners, owner_json(view, p, infos));
    fleet->members = json_dumps(members, JSON_COMPACT);
    fleet->owners =
        view->partition_count <= PARTITIONS_TOLD ? json_dumps(owners, JSON_COMPACT) : NULL;
    json_decref(members);
    json_decref(owners);
}

/* The texts of `status`, which live until the next one. */
static void make_texts(struct fleet *fleet) {
    const struct fleet_view *view = &fleet->view;
    json_t **infos = calloc(view->daemon_count + 1, sizeof(json_t *));
    free(fleet->members);
    free(fleet->owners);
    fleet->members = fleet->owners = NULL;
    for (size_t d = 0; infos && d < view->daemon_count; d++)
        infos[d] = json_loads(view->daemons[d].info, 0, NULL);
    if (infos)
        write_texts(fleet, infos);
    for (size_t d = 0; infos && d < view->daemon_count; d++)
        json_decref(infos[d]);
    free(infos);
}

bool fleet_report(struct daemon *daemon, struct status_fields *status) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return false;
    make_texts(fleet);
    for (size_t d = 0; d < fleet->view.daemon_count; d++)
        status->fleet_daemons += fleet->view.daemons[d].living;
    for (size_t p = 0; p < fleet->count; p++)
        status->fleet_partitions += fleet->shares[p].state == SHARE_OWNED;
    status->fleet_group = fleet->self.group;
    status->fleet_of = fleet->count;
    status->fleet_taken = fleet->taken;
    status->fleet_released = fleet->released;
    status->fleet_lost = fleet->lost;
    status->fleet_adopted = fleet->adopted;
    status->fleet_replayed = fleet->left_out;
    status->fleet_averages = fleet->rounds;
    status->fleet_round = daemon->config->fleet.average_every > 0 && fleet->view.round > 0
                              ? (double)fleet->view.round
                              : NAN;
    status->fleet_away = fleet->worker ? fleet_worker_away(fleet->worker) : 0;
    status->fleet_members = fleet->members;
    status->fleet_owners = fleet->owners;
    return true;
}
