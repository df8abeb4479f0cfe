/* runnel-fleet: shows and moves the partitions of a fleet on Redis or Kafka. See
   runnel-fleet(1). */
#include "build-config.h"

#include <inttypes.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/brokers/kafka_options.h"
#include "cluster/brokers/url.h"
#include "cluster/fleet_link.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/format.h"
#include "common/grid.h"
#include "common/json_member.h"
#include "common/options.h"
#include "common/text.h"

/* ---- Notes ----

   Warnings below the table. */

/* Share of the lease after which a daemon is reported: several renewals have failed by then. */
#define LATE 0.5

enum { TEXT_SIZE = 256, NAMES_SHOWN = 3, VALUES_SHOWN = 4 };

struct notes {
    const struct fleet_view *view;
    json_t *const *infos;
    bool begun;
};

/* Prints an empty line before the first note. */
static void begin(struct notes *notes) {
    if (!notes->begun)
        putchar('\n');
    notes->begun = true;
}

static size_t count_owned(const struct fleet_view *view, size_t daemon) {
    size_t count = 0;
    for (size_t p = 0; p < view->partition_count; p++)
        count += view->partitions[p].owner == (int)daemon;
    return count;
}

/* ---- Late daemons ---- */

static void print_silent(struct notes *notes, size_t d) {
    const struct fleet_daemon *daemon = &notes->view->daemons[d];
    size_t owned = count_owned(notes->view, d);
    char name[TEXT_SIZE], silent[FORMAT_SIZE], left[FORMAT_SIZE];
    double lease;
    if (!daemon->living || owned == 0 || !member_number(notes->infos[d], "lease", &lease) ||
        daemon->lease > LATE * lease)
        return;
    begin(notes);
    printf("no data from %s for %s: its lease ends in %s, and other daemons then take its %zu "
           "partition%s\n",
           text_copy(name, sizeof name, daemon->name),
           format_duration(silent, lease - daemon->lease), format_duration(left, daemon->lease),
           owned, text_s(owned));
}

/* ---- Partitions without a daemon ---- */

static void print_nobodys(struct notes *notes) {
    const struct fleet_view *view = notes->view;
    size_t partitions = 0, there = 0, taking = 0;
    for (size_t d = 0; d < view->daemon_count; d++) {
        there += view->daemons[d].living;
        taking += view->daemons[d].living && !view->daemons[d].draining;
    }
    for (size_t p = 0; p < view->partition_count; p++) {
        int owner = view->partitions[p].owner;
        partitions += owner < 0 || !view->daemons[owner].living;
    }
    if (taking > 0 || partitions == 0)
        return;
    begin(notes);
    printf("%zu partition%s without a daemon: ", partitions, text_s(partitions));
    if (there == 0)
        puts("no daemon is running; start one");
    else
        printf("%s drained; run runnel-fleet rebalance to use %s again, or start another daemon\n",
               there == 1 ? "the only running daemon is" : "all running daemons are",
               there == 1 ? "it" : "them");
}

/* ---- Differing rates ---- */

/* Whether this running daemon is the first with its value of the key; *count: how many have the
   value. */
static bool is_first(const struct notes *notes, const char *key, size_t d, size_t *count) {
    double value = fleet_rate(notes->infos[d], key);
    *count = 0;
    if (isnan(value) || !notes->view->daemons[d].living)
        return false;
    for (size_t n = 0; n < notes->view->daemon_count; n++) {
        bool same = notes->view->daemons[n].living && fleet_rate(notes->infos[n], key) == value;
        if (same && n < d)
            return false;
        *count += same;
    }
    return true;
}

/* Prints "worker-1, worker-2 and 3 more": the daemons with the same value. */
static void print_names(const struct notes *notes, const char *key, size_t d, size_t count) {
    double value = fleet_rate(notes->infos[d], key);
    char name[TEXT_SIZE];
    size_t shown = 0;
    for (size_t n = d; n < notes->view->daemon_count && shown < NAMES_SHOWN; n++)
        if (notes->view->daemons[n].living && fleet_rate(notes->infos[n], key) == value)
            printf("%s%s", shown++ ? ", " : "",
                   text_copy(name, sizeof name, notes->view->daemons[n].name));
    if (count > shown)
        printf(" and %zu more", count - shown);
}

/* Prints "learning.clip differs: 1 (worker-1), 2 (worker-2); ...". */
static void print_key(struct notes *notes, const char *key) {
    size_t values = 0, count;
    char text[FORMAT_SIZE], clean[TEXT_SIZE];
    for (size_t d = 0; d < notes->view->daemon_count; d++)
        values += is_first(notes, key, d, &count);
    if (values < 2)
        return;
    begin(notes);
    printf("%s differs: ", text_copy(clean, sizeof clean, key));
    size_t shown = 0;
    for (size_t d = 0; d < notes->view->daemon_count && shown < VALUES_SHOWN; d++) {
        if (!is_first(notes, key, d, &count))
            continue;
        printf("%s%s (", shown++ ? ", " : "", format_exact(text, fleet_rate(notes->infos[d], key)));
        print_names(notes, key, d, count);
        putchar(')');
    }
    if (values > shown)
        printf(" and %zu more values", values - shown);
    puts("; give all daemons the same value");
}

/* Uses the keys of the first running daemon that reports its rates; all others have the same. */
static void print_rates(struct notes *notes) {
    for (size_t d = 0; d < notes->view->daemon_count; d++) {
        json_t *rates = json_object_get(notes->infos[d], FLEET_RATES), *value;
        const char *key;
        if (!notes->view->daemons[d].living || !json_is_object(rates))
            continue;
        json_object_foreach(rates, key, value) print_key(notes, key);
        return;
    }
}

/* Prints all notes. `infos` is (daemon_count,), the daemons' reports about themselves; NULL:
   none. */
static void fleet_print_notes(const struct fleet_view *view, json_t *const *infos) {
    struct notes notes = {.view = view, .infos = infos};
    for (size_t d = 0; d < view->daemon_count; d++)
        print_silent(&notes, d);
    print_nobodys(&notes);
    print_rates(&notes);
}

/* ---- Output ----

   A fleet as a table or JSON. */

enum { DIGEST_SHOWN = 12 };

/* The remaining messages of a partition. */
struct rest {
    bool lag_known, split_known;
    uint64_t lag;         /* not committed: waiting or uncommitted */
    uint64_t waiting;     /* not learned yet */
    uint64_t uncommitted; /* learned by the owner since its last commit */
};

struct status {
    const struct fleet_view *view;
    const uint64_t *ends;
    json_t **infos;     /* (daemon_count,) the daemons' reports; NULL: none */
    struct rest *rests; /* (partition_count,) */
};

/* Without an owner, or if its lease has ended, all messages after the last commit are learned
   again. */
static bool waiting_of(const struct status *s, size_t p, uint64_t lag, uint64_t *waiting) {
    int owner = s->view->partitions[p].owner;
    char number[FORMAT_SIZE];
    double reported;
    *waiting = lag;
    if (owner < 0 || !s->view->daemons[owner].living)
        return true;
    snprintf(number, sizeof number, "%zu", p);
    if (!member_number(json_object_get(s->infos[owner], "lags"), number, &reported))
        return false;
    if (reported < (double)lag)
        *waiting = (uint64_t)reported;
    return true;
}

static struct rest rest_of(const struct status *s, size_t p) {
    struct rest rest = {.lag_known = s->ends[p] != UINT64_MAX};
    uint64_t learned = s->view->partitions[p].learned;
    rest.lag = rest.lag_known && s->ends[p] > learned ? s->ends[p] - learned : 0;
    rest.split_known = rest.lag_known && waiting_of(s, p, rest.lag, &rest.waiting);
    rest.uncommitted = rest.split_known ? rest.lag - rest.waiting : 0;
    return rest;
}

static int status_open(struct status *s, const struct fleet_view *view, const uint64_t *ends,
                       struct error *error) {
    *s = (struct status){.view = view, .ends = ends};
    s->infos = calloc(view->daemon_count + 1, sizeof(json_t *));
    s->rests = calloc(view->partition_count + 1, sizeof *s->rests);
    if (!s->infos || !s->rests)
        return error_no_memory(error);
    for (size_t d = 0; d < view->daemon_count; d++)
        s->infos[d] = json_loads(view->daemons[d].info, 0, NULL);
    for (size_t p = 0; p < view->partition_count; p++)
        s->rests[p] = rest_of(s, p);
    return 0;
}

static void status_close(struct status *s) {
    for (size_t d = 0; s->infos && d < s->view->daemon_count; d++)
        json_decref(s->infos[d]);
    free(s->infos);
    free(s->rests);
}

enum { OF_NOBODY = -1, OF_ALL = -2 };

/* Adds up the partitions of one daemon, of none, or all. */
static size_t sum_of(const struct status *s, int owner, struct rest *sum) {
    size_t count = 0;
    *sum = (struct rest){.lag_known = true, .split_known = true};
    for (size_t p = 0; p < s->view->partition_count; p++) {
        const struct rest *rest = &s->rests[p];
        if (owner != OF_ALL && s->view->partitions[p].owner != owner)
            continue;
        count++;
        sum->lag_known &= rest->lag_known;
        sum->split_known &= rest->split_known;
        sum->lag += rest->lag;
        sum->waiting += rest->waiting;
        sum->uncommitted += rest->uncommitted;
    }
    return count;
}

static const char *state_of(const struct fleet_daemon *daemon, const json_t *info) {
    const char *state = member_string(info, "state");
    return !daemon->living                           ? "gone"
           : daemon->draining                        ? "drained"
           : state && strcmp(state, "draining") == 0 ? "stopping"
           : state                                   ? state
                                                     : "joining";
}

/* ---- Table ---- */

static const char *count_or_unknown(char text[FORMAT_SIZE], bool known, uint64_t count) {
    if (!known)
        return "-";
    return format_grouped(text, (double)count);
}

/* Like state_of, but a daemon that hands over is draining until it has no partition left. */
static const char *state_for_people(const struct fleet_daemon *daemon, const json_t *info,
                                    size_t partitions) {
    return daemon->living && daemon->draining && partitions > 0 ? "draining"
                                                                : state_of(daemon, info);
}

static void put_row(struct grid *grid, size_t row, const char *who, const char *learned,
                    size_t partitions, const struct rest *rest) {
    char waiting[FORMAT_SIZE], uncommitted[FORMAT_SIZE];
    grid_put(grid, row, "%s\t%zu\t%s\t%s\t%s", who, partitions, learned,
             count_or_unknown(waiting, rest->split_known, rest->waiting),
             count_or_unknown(uncommitted, rest->split_known, rest->uncommitted));
}

static void put_daemon(struct grid *grid, const struct status *s, size_t d) {
    enum { CONTROL = 7 };
    const struct fleet_daemon *daemon = &s->view->daemons[d];
    const json_t *info = s->infos[d];
    const char *control = member_string(info, "control");
    double examples = 0, rate = 0;
    char name[TEXT_SIZE], state[TEXT_SIZE], who[2 * TEXT_SIZE], count[FORMAT_SIZE],
        speed[FORMAT_SIZE], learned[2 * FORMAT_SIZE];
    struct rest sum;
    size_t partitions = sum_of(s, (int)d, &sum);
    member_number(info, "examples", &examples);
    member_number(info, "rate", &rate);
    snprintf(who, sizeof who, "%s\t%s", text_copy(name, sizeof name, daemon->name),
             text_copy(state, sizeof state, state_for_people(daemon, info, partitions)));
    snprintf(learned, sizeof learned, "%s\t%s", format_grouped(count, examples),
             daemon->living ? format_rate(speed, rate) : "-");
    put_row(grid, d, who, learned, partitions, &sum);
    text_copy(grid_text(grid, d, CONTROL), GRID_TEXT_SIZE, control ? control : "");
}

static int print_daemons(const struct status *s) {
    struct rest sum;
    struct grid grid;
    size_t row = s->view->daemon_count;
    if (grid_open(
            &grid, row + 2, 0,
            "-daemon\t-state\tpartitions\texamples\texamples/s\twaiting\tuncommitted\t-control"))
        return -1;
    for (size_t d = 0; d < row; d++)
        put_daemon(&grid, s, d);
    size_t free = sum_of(s, OF_NOBODY, &sum);
    if (free > 0)
        put_row(&grid, row++, "nobody\t", "\t", free, &sum);
    size_t all = sum_of(s, OF_ALL, &sum);
    put_row(&grid, row++, "all\t", "\t", all, &sum);
    grid.row_count = row;
    grid_print(&grid, stdout, 0, grid_width());
    grid_close(&grid);
    return 0;
}

static int print_partitions(const struct status *s) {
    struct grid grid;
    if (grid_open(&grid, s->view->partition_count, 0,
                  "-partition\t-daemon\tcommitted\tstreams\twaiting\tuncommitted"))
        return -1;
    for (size_t p = 0; p < s->view->partition_count; p++) {
        const struct fleet_partition *partition = &s->view->partitions[p];
        const struct rest *rest = &s->rests[p];
        char name[TEXT_SIZE] = "nobody", counts[4][FORMAT_SIZE];
        if (partition->owner >= 0)
            text_copy(name, sizeof name, s->view->daemons[partition->owner].name);
        grid_put(&grid, p, "%zu\t%s\t%s\t%s\t%s\t%s", p, name,
                 format_grouped(counts[0], (double)partition->learned),
                 format_grouped(counts[1], (double)partition->states),
                 count_or_unknown(counts[2], rest->split_known, rest->waiting),
                 count_or_unknown(counts[3], rest->split_known, rest->uncommitted));
    }
    putchar('\n');
    grid_print(&grid, stdout, 0, grid_width());
    grid_close(&grid);
    return 0;
}

/* Prints the number of averages, and how many daemons wait for the next one. */
static void print_averages(const struct fleet_view *view) {
    if (view->round > 1 || view->arrived > 0)
        printf(", %" PRIu64 " average%s of parameters", view->round - 1, text_s(view->round - 1));
    if (view->arrived > 0)
        printf(" (%zu daemon%s wait%s for the next)", view->arrived, text_s(view->arrived),
               view->arrived == 1 ? "s" : "");
}

/* `partitions`: prints a line for each partition, too. Returns 0, or -1. */
static int fleet_print(const char *group, const struct status *s, bool partitions,
                       struct error *error) {
    const struct fleet_view *view = s->view;
    char name[TEXT_SIZE], stream[TEXT_SIZE], digest[TEXT_SIZE];
    printf("fleet %s: stream %s, %zu partition%s, configuration %.*s",
           text_copy(name, sizeof name, group), text_copy(stream, sizeof stream, view->stream),
           view->partition_count, text_s(view->partition_count), DIGEST_SHOWN,
           text_copy(digest, sizeof digest, view->digest));
    print_averages(view);
    printf("\n\n");
    if (print_daemons(s) || (partitions && print_partitions(s)))
        return error_no_memory(error);
    fleet_print_notes(view, s->infos);
    return 0;
}

/* ---- JSON ---- */

static void add_rest(json_t *object, const struct rest *rest) {
    const struct {
        const char *name;
        bool known;
        uint64_t count;
    } rows[] = {{"lag", rest->lag_known, rest->lag},
                {"waiting", rest->split_known, rest->waiting},
                {"uncommitted", rest->split_known, rest->uncommitted}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_object_set_new(object, rows[i].name,
                            rows[i].known ? json_integer((json_int_t)rows[i].count) : json_null());
}

static json_t *daemon_json(const struct status *s, int d) {
    const struct fleet_daemon *daemon = &s->view->daemons[d];
    struct rest sum;
    size_t partitions = sum_of(s, d, &sum);
    json_t *object = json_is_object(s->infos[d]) ? json_copy(s->infos[d]) : json_object();
    json_object_set_new(object, "name", json_string(daemon->name));
    json_object_set_new(object, "state", json_string(state_of(daemon, s->infos[d])));
    json_object_set_new(object, "living", json_boolean(daemon->living));
    json_object_set_new(object, "draining", json_boolean(daemon->draining));
    json_object_set_new(object, "lease", json_real(daemon->lease));
    json_object_set_new(object, "partitions", json_integer((json_int_t)partitions));
    add_rest(object, &sum);
    return object;
}

static json_t *partition_json(const struct status *s, size_t p) {
    const struct fleet_partition *partition = &s->view->partitions[p];
    json_t *object = json_object();
    json_object_set_new(
        object, "daemon",
        partition->owner < 0 ? json_null() : json_string(s->view->daemons[partition->owner].name));
    json_object_set_new(object, "committed", json_integer((json_int_t)partition->learned));
    json_object_set_new(object, "streams", json_integer((json_int_t)partition->states));
    add_rest(object, &s->rests[p]);
    return object;
}

static int fleet_print_json(const char *group, const struct status *s, struct error *error) {
    const struct fleet_view *view = s->view;
    json_t *daemons = json_array(), *partitions = json_array();
    for (size_t d = 0; d < view->daemon_count; d++)
        json_array_append_new(daemons, daemon_json(s, (int)d));
    for (size_t p = 0; p < view->partition_count; p++)
        json_array_append_new(partitions, partition_json(s, p));
    json_t *all = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "group", group, "stream",
                            view->stream, "digest", view->digest, "round", (json_int_t)view->round,
                            "daemons", daemons, "partitions", partitions);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text)
        return error_no_memory(error);
    puts(text);
    free(text);
    return 0;
}

/* ---- Program ---- */

#ifdef RUNNEL_KAFKA
#    include "cluster/fleet_kafka.h"
#endif

struct options {
    const char *url, *group;
    struct kafka_options kafka; /* user and password also apply to Redis */
    bool json, partitions;
};

static const struct option_row rows[] = {
    {"url", 'u', "URL", "the server: " REDIS_URL_FORM " (default " REDIS_URL ")",
     OPTION_TEXT(struct options, url)},
    {"kafka", 'k', "HOST:PORT,...", "servers of a Kafka cluster, instead of Redis",
     OPTION_TEXT(struct options, kafka.servers)},
    {"group", 'g', "NAME", "the fleet: the group of its daemons (default runnel)",
     OPTION_TEXT(struct options, group)},
    {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(struct options, kafka.user)},
    {"password-file", 0, "FILE", "log in with the password in the first line of FILE",
     OPTION_FILE(struct options, kafka.password_file)},
    {"setting", 0, "NAME=VALUE",
     "with --kafka: a librdkafka setting, such as security.protocol=ssl; may be repeated",
     OPTION_LIST(struct options, kafka.settings, OPTION_LIST_MAX)},
    {"partitions", 'p', NULL, "status: also print a line for each partition",
     OPTION_FLAG(struct options, partitions)},
    {"json", 'j', NULL, "status: print everything as one line of JSON",
     OPTION_FLAG(struct options, json)},
    OPTIONS_LAST,
};

static const struct command_row status_row = {
    .name = "status",
    .operands = "",
    .summary = "list the daemons of the fleet and their partitions"};
static const struct command_row drain_row = {
    .name = "drain",
    .operands = "NAME",
    .summary = "let a daemon hand over all its partitions and accept no others"};
static const struct command_row rebalance_row = {
    .name = "rebalance",
    .operands = "",
    .summary = "use drained daemons again, and distribute the partitions among all daemons"};
static const struct command_row move_row = {
    .name = "move",
    .operands = "TOPIC",
    .summary =
        "once, for a Kafka fleet of an older runnel: let this version continue from its commits"};
static const struct command_row *const commands[] = {&status_row, &drain_row, &rebalance_row,
                                                     &move_row, NULL};

static int print_status(const struct options *options, struct fleet_link *link,
                        const struct fleet_view *view, struct error *error) {
    struct status status = {0};
    uint64_t *ends = calloc(view->partition_count + 1, sizeof *ends);
    int result = ends ? link->ops->ends(link, view, ends, error) : error_no_memory(error);
    if (result == 0)
        result = status_open(&status, view, ends, error);
    if (result == 0)
        result = options->json ? fleet_print_json(options->group, &status, error)
                               : fleet_print(options->group, &status, options->partitions, error);
    status_close(&status);
    free(ends);
    return result;
}

/* Counts the daemons that can take partitions, without the named one (NULL: all). */
static size_t count_taking(const struct fleet_view *view, const char *without) {
    size_t count = 0;
    for (size_t d = 0; d < view->daemon_count; d++) {
        const struct fleet_daemon *daemon = &view->daemons[d];
        count +=
            daemon->living && (!without || (!daemon->draining && strcmp(daemon->name, without)));
    }
    return count;
}

static int drain(struct fleet_link *link, const struct fleet_view *view, const char *name,
                 struct error *error) {
    char clean[TEXT_SIZE];
    const int which = fleet_view_find(view, name);
    const size_t partitions = which < 0 ? 0 : count_owned(view, (size_t)which);
    const size_t others = count_taking(view, name);
    if (link->ops->drain(link, name, error))
        return -1;
    text_copy(clean, sizeof clean, name);
    if (others == 0)
        printf("%s is drained, but no other daemon can take partitions: until one can, it keeps "
               "its %zu and learns them\n",
               clean, partitions);
    else if (which >= 0 && view->daemons[which].draining)
        printf("%s was already drained; %zu partition%s left\n", clean, partitions,
               text_s(partitions));
    else
        printf("%s is handing over its %zu partition%s; status shows when none are left\n", clean,
               partitions, text_s(partitions));
    return 0;
}

static int rebalance(struct fleet_link *link, const struct fleet_view *view, struct error *error) {
    char clean[TEXT_SIZE];
    size_t there = count_taking(view, NULL);
    if (link->ops->rebalance(link, error))
        return -1;
    for (size_t d = 0; d < view->daemon_count; d++)
        if (view->daemons[d].living && view->daemons[d].draining)
            printf("%s takes partitions again\n",
                   text_copy(clean, sizeof clean, view->daemons[d].name));
    if (there == 0)
        puts("no daemon is running; partitions are distributed when daemons join");
    else
        printf("%zu partition%s %s distributed among %zu daemon%s\n", view->partition_count,
               text_s(view->partition_count), view->partition_count == 1 ? "is" : "are", there,
               text_s(there));
    return 0;
}

/* Names the existing fleets, if the broker can list them. */
static int no_fleet(const struct options *options, struct fleet_link *link, struct error *error) {
    struct fleet_groups groups = {0};
    struct error unsaid;
    char names[TEXT_SIZE] = "", clean[TEXT_SIZE];
    if (link->ops->groups(link, &groups, &unsaid))
        groups.count = 0;
    for (size_t n = 0; n < groups.count; n++)
        text_append(names, sizeof names, "%s%s", n ? ", " : "", groups.names[n]);
    text_copy(clean, sizeof clean, names);
    return groups.count
               ? error_set(error, EX_UNAVAILABLE,
                           "fleet not found: %s: no daemon has joined it; existing fleet%s: %s%s "
                           "(set --group)",
                           options->group, text_s(groups.count), clean, groups.more ? ", ..." : "")
               : error_set(error, EX_UNAVAILABLE,
                           "fleet not found: %s: no daemon has joined it; set another --group",
                           options->group);
}

static int move(const struct options *options, struct fleet_link *link, const char *stream,
                struct error *error) {
    size_t count;
    if (!link->ops->move)
        return error_set(error, EX_USAGE, "move: requires a fleet on Kafka (--kafka)");
    if (link->ops->move(link, stream, &count, error))
        return -1;
    printf("the fleet %s continues after the commits of %zu partition%s of %s: start its daemons\n",
           options->group, count, text_s(count), stream);
    return 0;
}

/* Runs the command on an existing fleet. */
static int command_run(const struct options *options, const struct command_row *command,
                       char **operands, struct fleet_link *link, struct error *error) {
    struct fleet_view view = {0};
    if (command == &move_row)
        return move(options, link, operands[0], error);
    if (link->ops->look(link, &view, error))
        return -1;
    int result = !view.stream                ? no_fleet(options, link, error)
                 : command == &drain_row     ? drain(link, &view, operands[0], error)
                 : command == &rebalance_row ? rebalance(link, &view, error)
                                             : print_status(options, link, &view, error);
    fleet_view_free(&view);
    return result;
}

static int open_link(const struct options *options, const struct fleet_self *self, struct url *url,
                     struct fleet_link **link, struct error *error) {
    (void)self, (void)link; /* for a build without both brokers */
    if (options->kafka.servers) {
#ifdef RUNNEL_KAFKA
        return fleet_kafka_open(link, &options->kafka, self, error);
#else
        return error_set(error, EX_UNAVAILABLE,
                         "--kafka: this runnel-fleet was built without librdkafka; install "
                         "librdkafka-dev and build with configure --with-kafka");
#endif
    }
    if (url_parse(url, "--url", options->url, REDIS_URL_SCHEMES, REDIS_URL_FORM, error) ||
        url_login(url, options->kafka.user, options->kafka.password_file, error))
        return -1;
#ifdef RUNNEL_REDIS
    return fleet_redis_open(link, url, self, error);
#else
    return error_set(
        error, EX_UNAVAILABLE,
        "this runnel-fleet was built without hiredis; for a fleet on Kafka use --kafka HOST:PORT, "
        "for one on Redis install libhiredis-dev and build with configure --with-redis");
#endif
}

/* Rejects options that would have no effect. */
static int check_broker(struct options *options) {
    if (options->kafka.servers && options->url)
        return complain_usage("--url (a Redis server) and --kafka exclude each other");
    if (!options->kafka.servers && options->kafka.settings.count > 0)
        return complain_usage("--setting: requires --kafka");
    if (!options->url)
        options->url = REDIS_URL;
    return OPTIONS_GO_ON;
}

static int act(const struct options *options, const struct command_row *command, char **operands,
               struct error *error) {
    struct url url = {0};
    struct fleet_link *link;
    const struct fleet_self self = {.group = options->group};
    if (strlen(options->group) > FLEET_GROUP_MAX)
        return error_set(error, EX_USAGE, "--group: may have at most %d bytes", FLEET_GROUP_MAX);
    if (open_link(options, &self, &url, &link, error))
        return -1;
    int result = command_run(options, command, operands, link, error);
    link->ops->close(&link);
    if (result && error->status == EX_TEMPFAIL) {
        bool kafka = options->kafka.servers != NULL;
        error->status = EX_UNAVAILABLE;
        error_prefix(error, "%s: server not available (%s names another)",
                     kafka ? options->kafka.servers : url.name, kafka ? "--kafka" : "--url");
    }
    return result;
}

int main(int argc, char **argv) {
    struct options options = {.group = "runnel"};
    struct command_line line = {
        .name = "runnel-fleet",
        .operands = "[COMMAND [ARGUMENT]...]",
        .summary = "Show and move the partitions of a fleet's daemons (default: status).",
        .ending = "Exit status: 0 done, 64 usage, 69 no server or fleet found, 77 access denied, "
                  "78 invalid --setting.",
        .commands_heading = "Commands",
        .commands = commands,
        .groups = {{NULL, rows, &options}},
    };
    char **operands;
    struct error error;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    if ((status = check_broker(&options)) != OPTIONS_GO_ON)
        return status;
    line.command = *operands ? options_command(&line, *operands) : &status_row;
    if (!line.command)
        return EX_USAGE;
    operands += *operands != NULL;
    if ((status = options_operands(&line, operands)) != OPTIONS_GO_ON)
        return status;
    if (act(&options, line.command, operands, &error))
        return complain_error(&error);
    return complain_output();
}
