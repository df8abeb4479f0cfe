/* runnel-fleet: the daemons that share a stream of Redis. See runnel-fleet(1). */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/options.h"
#include "common/text.h"
#include "fleet/fleet_redis.h"
#include "fleet_print.h"

struct options {
    const char *url, *group, *user, *password_file;
    bool json;
};

static const struct option_row rows[] = {
    {"url", 'u', "URL", "the server: " REDIS_URL_FORM " (default " REDIS_URL ")",
     OPTION_TEXT(struct options, url)},
    {"group", 'g', "NAME", "the fleet: examples.redis.group of its daemons (default runnel)",
     OPTION_TEXT(struct options, group)},
    {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(struct options, user)},
    {"password-file", 0, "FILE", "log in with the first line of FILE",
     OPTION_FILE(struct options, password_file)},
    {"json", 'j', NULL, "status: print one line of JSON", OPTION_FLAG(struct options, json)},
    OPTIONS_LAST,
};

static const struct command_row status_row = {
    .name = "status", .operands = "", .summary = "who is in the fleet, and who has what"};
static const struct command_row drain_row = {
    .name = "drain",
    .operands = "NAME",
    .summary = "a daemon hands over all that it has, in order, and takes nothing more"};
static const struct command_row rebalance_row = {
    .name = "rebalance", .operands = "", .summary = "drained daemons take part again"};
static const struct command_row *const commands[] = {&status_row, &drain_row, &rebalance_row, NULL};

static int print_status(const struct options *options, struct fleet_link *link,
                        struct error *error) {
    struct fleet_view view;
    if (link->ops->look(link, &view, error))
        return -1;
    uint64_t *ends = calloc(view.partition_count + 1, sizeof *ends);
    int result = ends ? 0 : error_no_memory(error);
    if (result == 0 && !view.stream)
        result = error_set(error, EX_UNAVAILABLE,
                           "there is no fleet %s: no daemon has joined it; --group names another",
                           options->group);
    if (result == 0)
        result = link->ops->ends(link, &view, ends, error);
    if (result == 0 && options->json)
        fleet_print_json(options->group, &view, ends);
    else if (result == 0)
        fleet_print(options->group, &view, ends);
    free(ends);
    fleet_view_free(&view);
    return result;
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    char clean[FLEET_NAME_SIZE];
    if (link->ops->drain(link, name, error))
        return -1;
    printf("%s hands over what it has; status shows when it has nothing left\n",
           text_copy(clean, sizeof clean, name));
    return 0;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    if (link->ops->rebalance(link, error))
        return -1;
    puts("partitions are shared out among all daemons that are there");
    return 0;
}

static int act(const struct options *options, const struct command_row *command, char **operands,
               struct error *error) {
    struct url url;
    struct fleet_link *link;
    const struct fleet_self self = {.group = options->group};
    if (strlen(options->group) > FLEET_GROUP_MAX)
        return error_set(error, EX_USAGE, "--group: a name has at most %d bytes", FLEET_GROUP_MAX);
    if (url_parse(&url, "--url", options->url, REDIS_URL_SCHEMES, REDIS_URL_FORM, error) ||
        url_login(&url, options->user, options->password_file, error) ||
        fleet_redis_open(&link, &url, &self, error))
        return -1;
    int result = command == &drain_row       ? drain(link, operands[0], error)
                 : command == &rebalance_row ? rebalance(link, error)
                                             : print_status(options, link, error);
    link->ops->close(&link);
    if (result && error->status == EX_TEMPFAIL) {
        error->status = EX_UNAVAILABLE;
        error_prefix(error, "%s is not there (--url names another)", url.name);
    }
    return result;
}

int main(int argc, char **argv) {
    struct options options = {.url = REDIS_URL, .group = "runnel"};
    struct command_line line = {
        .name = "runnel-fleet",
        .operands = "[COMMAND [ARGUMENT]...]",
        .summary = "Show and move what the daemons of a fleet have (default: status).",
        .ending = "Exit status: 0 done, 64 usage, 69 no server or no fleet, 77 wrong credentials.",
        .commands_heading = "Commands:",
        .commands = commands,
        .groups = {{NULL, rows, &options}},
    };
    char **operands;
    struct error error;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
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
