#include "fleet_print.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"

enum { TEXT_SIZE = 256, DIGEST_SHOWN = 12 };

/* Messages that are not learned and committed yet; false: unknown. */
static bool lag_of(const struct fleet_view *view, const uint64_t *ends, size_t partition,
                   uint64_t *lag) {
    uint64_t learned = view->partitions[partition].learned;
    *lag = ends[partition] > learned ? ends[partition] - learned : 0;
    return ends[partition] != UINT64_MAX;
}

struct sums {
    size_t partitions;
    uint64_t lag;
    bool known;
};

static struct sums sums_of(const struct fleet_view *view, const uint64_t *ends, int daemon) {
    struct sums sums = {.known = true};
    for (size_t p = 0; p < view->partition_count; p++) {
        uint64_t lag;
        if (view->partitions[p].owner != daemon)
            continue;
        sums.partitions++;
        sums.known &= lag_of(view, ends, p, &lag);
        sums.lag += lag;
    }
    return sums;
}

static const char *state_of(const struct fleet_daemon *daemon, const json_t *info) {
    const char *said = member_string(info, "state");
    return !daemon->living                         ? "gone"
           : daemon->draining                      ? "drained"
           : said && strcmp(said, "draining") == 0 ? "stopping"
           : said                                  ? said
                                                   : "joining";
}

static const char *count_or_unknown(char text[FORMAT_SIZE], bool known, uint64_t count) {
    if (!known)
        return "-";
    return format_grouped(text, (double)count);
}

static void print_daemon(const struct fleet_view *view, const uint64_t *ends, size_t n) {
    const struct fleet_daemon *daemon = &view->daemons[n];
    const struct sums sums = sums_of(view, ends, (int)n);
    json_t *info = json_loads(daemon->info, 0, NULL);
    const char *control = member_string(info, "control");
    double examples = 0, rate = 0;
    char name[TEXT_SIZE], where[TEXT_SIZE], state[TEXT_SIZE], lag[FORMAT_SIZE],
        learned[FORMAT_SIZE], speed[FORMAT_SIZE];
    member_number(info, "examples", &examples);
    member_number(info, "rate", &rate);
    printf("%-20s %-9s %10zu %14s %9s %12s  %s\n", text_copy(name, sizeof name, daemon->name),
           text_copy(state, sizeof state, state_of(daemon, info)), sums.partitions,
           format_grouped(learned, examples), daemon->living ? format_rate(speed, rate) : "-",
           count_or_unknown(lag, sums.known, sums.lag),
           text_copy(where, sizeof where, control ? control : ""));
    json_decref(info);
}

static void print_partition(const struct fleet_view *view, const uint64_t *ends, size_t p) {
    const struct fleet_partition *partition = &view->partitions[p];
    uint64_t lag;
    char name[TEXT_SIZE], learned[FORMAT_SIZE], waits[FORMAT_SIZE], streams[FORMAT_SIZE];
    bool known = lag_of(view, ends, p, &lag);
    printf("%-9zu %-20s %14s %10s %12s\n", p,
           partition->owner < 0
               ? "nobody"
               : text_copy(name, sizeof name, view->daemons[partition->owner].name),
           format_grouped(learned, (double)partition->learned),
           format_grouped(streams, (double)partition->states), count_or_unknown(waits, known, lag));
}

void fleet_print(const char *group, const struct fleet_view *view, const uint64_t *ends) {
    char name[TEXT_SIZE], stream[TEXT_SIZE], digest[TEXT_SIZE];
    printf("fleet %s: stream %s, %zu partition%s, configuration %.*s\n\n",
           text_copy(name, sizeof name, group), text_copy(stream, sizeof stream, view->stream),
           view->partition_count, text_s(view->partition_count), DIGEST_SHOWN,
           text_copy(digest, sizeof digest, view->digest));
    printf("%-20s %-9s %10s %14s %9s %12s  %s\n", "daemon", "state", "partitions", "examples",
           "per s", "lag", "control");
    for (size_t n = 0; n < view->daemon_count; n++)
        print_daemon(view, ends, n);
    printf("\n%-9s %-20s %14s %10s %12s\n", "partition", "daemon", "committed", "streams", "lag");
    for (size_t p = 0; p < view->partition_count; p++)
        print_partition(view, ends, p);
}

static json_t *count_json(bool known, uint64_t count) {
    return known ? json_integer((json_int_t)count) : json_null();
}

static json_t *daemon_json(const struct fleet_view *view, const uint64_t *ends, size_t n) {
    const struct fleet_daemon *daemon = &view->daemons[n];
    const struct sums sums = sums_of(view, ends, (int)n);
    json_t *info = json_loads(daemon->info, 0, NULL);
    json_t *object = json_is_object(info) ? info : json_object();
    json_object_set_new(object, "name", json_string(daemon->name));
    json_object_set_new(object, "state", json_string(state_of(daemon, info)));
    json_object_set_new(object, "living", json_boolean(daemon->living));
    json_object_set_new(object, "draining", json_boolean(daemon->draining));
    json_object_set_new(object, "lease", json_real(daemon->lease));
    json_object_set_new(object, "partitions", json_integer((json_int_t)sums.partitions));
    json_object_set_new(object, "lag", count_json(sums.known, sums.lag));
    if (object != info)
        json_decref(info);
    return object;
}

static json_t *partition_json(const struct fleet_view *view, const uint64_t *ends, size_t p) {
    const struct fleet_partition *partition = &view->partitions[p];
    uint64_t lag;
    bool known = lag_of(view, ends, p, &lag);
    json_t *object = json_object();
    json_object_set_new(object, "daemon",
                        partition->owner < 0 ? json_null()
                                             : json_string(view->daemons[partition->owner].name));
    json_object_set_new(object, "committed", json_integer((json_int_t)partition->learned));
    json_object_set_new(object, "streams", json_integer((json_int_t)partition->states));
    json_object_set_new(object, "lag", count_json(known, lag));
    return object;
}

void fleet_print_json(const char *group, const struct fleet_view *view, const uint64_t *ends) {
    json_t *daemons = json_array(), *partitions = json_array();
    for (size_t n = 0; n < view->daemon_count; n++)
        json_array_append_new(daemons, daemon_json(view, ends, n));
    for (size_t p = 0; p < view->partition_count; p++)
        json_array_append_new(partitions, partition_json(view, ends, p));
    json_t *all = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "group", group, "stream",
                            view->stream, "digest", view->digest, "round", (json_int_t)view->round,
                            "daemons", daemons, "partitions", partitions);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(all);
}
