/* runnel-fleet: the daemons that share a stream of Redis, or a topic of Kafka. See runnel-fleet(1).
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/kafka_options.h"
#include "brokers/redis_url.h"
#include "brokers/url.h"
#include "build-config.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/options.h"
#include "common/text.h"
#include "fleet/fleet_link.h"
#include "fleet_print.h"

#ifdef RUNNEL_KAFKA
#    include "fleet/fleet_kafka.h"
#endif
#ifdef RUNNEL_REDIS
#    include "fleet/fleet_redis.h"
#endif

enum { TEXT_SIZE = 256 };

struct options {
    const char *url, *group;
    struct kafka_options kafka; /* user and password are Redis's, too */
    bool json, partitions;
};

static const struct option_row rows[] = {
    {"url", 'u', "URL", "the server: " REDIS_URL_FORM " (default " REDIS_URL ")",
     OPTION_TEXT(struct options, url)},
    {"kafka", 'k', "HOST:PORT,...", "in place of Redis, servers of a cluster of Kafka",
     OPTION_TEXT(struct options, kafka.servers)},
    {"group", 'g', "NAME", "the fleet: the group of its daemons (default runnel)",
     OPTION_TEXT(struct options, group)},
    {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(struct options, kafka.user)},
    {"password-file", 0, "FILE", "log in with the first line of FILE",
     OPTION_FILE(struct options, kafka.password_file)},
    {"setting", 0, "NAME=VALUE",
     "with --kafka: a setting of librdkafka's, as security.protocol=ssl; may be repeated",
     OPTION_LIST(struct options, kafka.settings, OPTION_LIST_MAX)},
    {"partitions", 'p', NULL, "status: a line for each partition, too",
     OPTION_FLAG(struct options, partitions)},
    {"json", 'j', NULL, "status: print one line of JSON, with all of it",
     OPTION_FLAG(struct options, json)},
    OPTIONS_LAST,
};

static const struct command_row status_row = {
    .name = "status", .operands = "", .summary = "who is in the fleet, and who has what"};
static const struct command_row drain_row = {
    .name = "drain",
    .operands = "NAME",
    .summary = "a daemon hands over all that it has, in order, and takes nothing more"};
static const struct command_row rebalance_row = {
    .name = "rebalance",
    .operands = "",
    .summary = "drained daemons take part again: partitions are shared out among all"};
static const struct command_row *const commands[] = {&status_row, &drain_row, &rebalance_row, NULL};

static int print_status(const struct options *options, struct fleet_link *link,
                        const struct fleet_view *view, struct error *error) {
    uint64_t *ends = calloc(view->partition_count + 1, sizeof *ends);
    int result = ends ? link->ops->ends(link, view, ends, error) : error_no_memory(error);
    if (result == 0)
        result = options->json
                     ? fleet_print_json(options->group, view, ends, error)
                     : fleet_print(options->group, view, ends, options->partitions, error);
    free(ends);
    return result;
}

/* How many can have partitions, without the one of that name (NULL: with all). */
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
    size_t partitions = 0, others = count_taking(view, name);
    int which = fleet_view_find(view, name);
    if (link->ops->drain(link, name, error))
        return -1;
    text_copy(clean, sizeof clean, name);
    for (size_t p = 0; p < view->partition_count; p++)
        partitions += which >= 0 && view->partitions[p].owner == which;
    if (others == 0)
        printf("%s is drained, but no other daemon takes partitions now: until one does it keeps "
               "its %zu and learns them\n",
               clean, partitions);
    else if (which >= 0 && view->daemons[which].draining)
        printf("%s was drained already, and has %zu partition%s left\n", clean, partitions,
               text_s(partitions));
    else
        printf("%s hands over its %zu partition%s: status shows when it has none left\n", clean,
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
            printf("%s was drained, and takes part again\n",
                   text_copy(clean, sizeof clean, view->daemons[d].name));
    if (there == 0)
        puts("no daemon is there now: partitions are shared out when some are");
    else
        printf("%zu partition%s %s shared out among %zu daemon%s\n", view->partition_count,
               text_s(view->partition_count), view->partition_count == 1 ? "is" : "are", there,
               text_s(there));
    return 0;
}

/* Which there are in place of the one that is not: a broker that does not say changes nothing. */
static int no_fleet(const struct options *options, struct fleet_link *link, struct error *error) {
    struct fleet_groups groups = {0};
    struct error unsaid;
    char names[TEXT_SIZE] = "", clean[TEXT_SIZE];
    if (link->ops->groups(link, &groups, &unsaid))
        groups.count = 0;
    for (size_t n = 0, used = 0; n < groups.count && used < sizeof names; n++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", n ? ", " : "",
                                 groups.names[n]);
    text_copy(clean, sizeof clean, names);
    return groups.count ? error_set(error, EX_UNAVAILABLE,
                                    "there is no fleet %s: no daemon has joined it; there %s %s%s: "
                                    "--group names one",
                                    options->group, groups.count == 1 ? "is" : "are", clean,
                                    groups.more ? ", ..." : "")
                        : error_set(error, EX_UNAVAILABLE,
                                    "there is no fleet %s: no daemon has joined it; --group "
                                    "names another",
                                    options->group);
}

/* What the command does in a fleet that has been. */
static int command_run(const struct options *options, const struct command_row *command,
                       char **operands, struct fleet_link *link, struct error *error) {
    struct fleet_view view = {0};
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
    (void)self, (void)link; /* of a build that knows neither broker */
    if (options->kafka.servers) {
#ifdef RUNNEL_KAFKA
        return fleet_kafka_open(link, &options->kafka, self, error);
#else
        return error_set(error, EX_UNAVAILABLE, "this runnel-fleet was built without librdkafka");
#endif
    }
    if (url_parse(url, "--url", options->url, REDIS_URL_SCHEMES, REDIS_URL_FORM, error) ||
        url_login(url, options->kafka.user, options->kafka.password_file, error))
        return -1;
#ifdef RUNNEL_REDIS
    return fleet_redis_open(link, url, self, error);
#else
    return error_set(error, EX_UNAVAILABLE, "this runnel-fleet was built without hiredis");
#endif
}

/* What would be ignored. */
static int check_broker(struct options *options) {
    if (options->kafka.servers && options->url)
        return complain_usage("--url is a server of Redis, and --kafka are servers of Kafka: a "
                              "fleet is at one of them, give that alone");
    if (!options->kafka.servers && options->kafka.settings.count > 0)
        return complain_usage("--setting is for librdkafka, and wants --kafka, which is not given");
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
        return error_set(error, EX_USAGE, "--group: a name has at most %d bytes", FLEET_GROUP_MAX);
    if (open_link(options, &self, &url, &link, error))
        return -1;
    int result = command_run(options, command, operands, link, error);
    link->ops->close(&link);
    if (result && error->status == EX_TEMPFAIL) {
        bool kafka = options->kafka.servers != NULL;
        error->status = EX_UNAVAILABLE;
        error_prefix(error, "%s is not there (%s names another)",
                     kafka ? options->kafka.servers : url.name, kafka ? "--kafka" : "--url");
    }
    return result;
}

int main(int argc, char **argv) {
    struct options options = {.group = "runnel"};
    struct command_line line = {
        .name = "runnel-fleet",
        .operands = "[COMMAND [ARGUMENT]...]",
        .summary = "Show and move what the daemons of a fleet have (default: status).",
        .ending =
            "Exit status: 0 done, 64 usage, 69 no server or no fleet, 77 wrong credentials, 78 "
            "a wrong --setting.",
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
