#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/log.h"
#include "common/options.h"
#include "common/text.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "model/model.h"
#include "model/parameters.h"
#include "security/security.h"
#include "store/checkpoint.h"
#include "store/journal.h"

struct arguments {
    const char *config;
    struct option_list overrides;
    bool check, state, explain, accept_short;
};

static char key_names[CONFIG_NAMES_SIZE];

static const struct option_row options[] = {
    {"config", 'f', "FILE", "configuration file, see runnel.yaml(5)",
     OPTION_FILE(struct arguments, config)},
    {"set", 's', "KEY=VALUE", "override one key, as in learning.optimizer.rate=0.01",
     OPTION_LIST(struct arguments, overrides, OPTION_LIST_MAX), .complete = COMPLETE_WORDS,
     .words = key_names},
    {"check-config", 0, NULL, "check the configuration and exit",
     OPTION_FLAG(struct arguments, check)},
    {"state", 0, NULL,
     "with --check-config: also check whether a start could continue from the state directory "
     "DIR (default: the configuration's)",
     OPTION_FLAG(struct arguments, state)},
    {"accept-short-journal", 0, NULL, "start even if the end of the journal is missing",
     OPTION_FLAG(struct arguments, accept_short)},
    {"explain", 0, NULL,
     "describe a KEY of the configuration, or list the keys below it, and exit; without KEY "
     "list all keys",
     OPTION_FLAG(struct arguments, explain)},
    OPTIONS_LAST,
};

/* Map a status to the documented exit codes of runneld; other codes of sysexits.h become a
   similar one. */
static int exit_code(int status) {
    switch (status) {
    case EX_NOINPUT:
        return EX_CONFIG;
    case EX_DATAERR:
    case EX_CANTCREAT:
        return EX_IOERR;
    case EX_OSERR:
    case 0:
        return EX_SOFTWARE;
    default:
        return status;
    }
}

static int check_tensors(const struct config *config, const struct architecture *architecture,
                         const char *member, struct error *error) {
    static struct model model;
    model_build(&model, architecture);
    float *values = calloc(model.parameters, sizeof *values);
    int status =
        values ? parameters_load(&model, member, config->initial, values, error)
               : error_set(error, EX_UNAVAILABLE, "out of memory for the tensors of model.initial");
    free(values);
    return status;
}

/* Check that model.initial, if set, contains the tensors of all networks. */
static int check_initial(const struct config *config, struct error *error) {
    if (!*config->initial)
        return 0;
    if (!config->members_given)
        return check_tensors(config, &config->architecture, "", error);
    for (size_t n = 0; n < config->member_count; n++) {
        struct architecture architecture;
        config_member_network(config, n, &architecture);
        if (check_tensors(config, &architecture, config->members[n].name, error))
            return -1;
    }
    return 0;
}

/* Report what a start would do with the state directory, without changing it. */
static int check_state(const struct config *config, const char *directory, struct error *error) {
    struct checkpoint_report report;
    int found = checkpoint_check(directory, config, &report, error);
    if (found < 0)
        return -1;
    if (found && *report.warning)
        log_warning("%s", report.warning);
    uint64_t marked = config->journal.enabled ? journal_marked(directory) : 0;
    bool after = *report.before && marked > report.position;
    if (!found && marked)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: cannot check: no checkpoint of this configuration; only a start "
                         "can check the %" PRIu64 " entries of its journal",
                         directory, marked);
    if (after && !report.held)
        return error_set(error, EX_CONFIG,
                         "the journal in %s has %" PRIu64 " entr%s after the checkpoint, "
                         "learned with another window, stride, rule or optimizer; start with "
                         "the previous values, stop the daemon (runnel-ctl shutdown), then "
                         "change them",
                         directory, marked - report.position,
                         marked - report.position == 1 ? "y" : "ies");
    if (found)
        printf("%s: resumes after %" PRIu64 " example%s%s\n", report.path, report.examples,
               text_s(report.examples),
               after ? "; stop the running daemon first, but do not kill it" : "");
    else
        printf("%s: no state: starts with initial parameters", directory);
    return 0;
}

static int run(const struct arguments *arguments, const char *directory, struct error *error) {
    static struct config config;
    const struct config_source source = {arguments->config, arguments->overrides.values,
                                         arguments->overrides.count};
    if (config_load(&config, source.path, source.overrides, source.override_count, error))
        return -1;
    directory = directory ? directory : config.state_directory;
    if ((!arguments->check || arguments->state) && checkpoint_is_earlier(directory, &config)) {
        if (config_load_earlier(&config, source.path, source.overrides, source.override_count,
                                error))
            return -1;
        log_info("%s was learned with the default of earlier versions, which stays: %s; to change "
                 "it, write the key",
                 directory, config_earlier());
    }
    config.journal.accept_short = arguments->accept_short;
    if (!arguments->check)
        return daemon_run(&config, &source, error);
    if (check_initial(&config, error) || security_check(&config, error) ||
        (arguments->state && check_state(&config, directory, error)))
        return -1;
    printf("%s: ok\n", arguments->config);
    return 0;
}

int main(int argc, char **argv) {
    struct arguments arguments = {0};
    struct error error = {0};
    const struct command_line line = {
        .name = "runneld",
        .operands = "[KEY|DIR]",
        .summary = "Learns from a live stream of examples and publishes statistics.",
        .ending = "Exit status: 0 clean, 64 usage, 69 unavailable, 70 internal, 74 I/O, "
                  "78 configuration.",
        .groups = {{NULL, options, &arguments}},
        .complete = COMPLETE_WORDS,
        .words = key_names,
    };
    char **operands;
    config_names(key_names);
    int code = options_parse(&line, argc, argv, &operands);
    if (code != OPTIONS_GO_ON)
        return code;
    if (arguments.state && !arguments.check)
        return options_complain(&line, "--state requires --check-config");
    if (*operands && !arguments.explain && !arguments.state)
        return options_complain(&line, "unexpected argument '%s'", *operands);
    if (!arguments.config && !arguments.explain)
        return options_complain(&line, "missing option --config=FILE");
    int status = arguments.explain ? config_explain(stdout, *operands ? *operands : "", &error)
                                   : run(&arguments, *operands, &error);
    if (status == 0 && fflush(stdout) == 0)
        return EX_OK;
    if (status == 0)
        error_set(&error, EX_IOERR, "cannot write to standard output");
    log_error("%s", error.text);
    return exit_code(error.status);
}
