#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "build-config.h"
#include "common/error.h"
#include "common/log.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "model/model.h"
#include "model/parameters.h"
#include "sockets/security.h"

static const char usage[] = "usage: runneld --config FILE [--set KEY=VALUE]... [--check-config]\n"
                            "       runneld --version | --help\n";

static const char help[] =
    "Learns from a live stream of examples and publishes statistics while it does.\n"
    "\n"
    "  -c, --config FILE     the configuration, see runnel.yaml(5)\n"
    "  -s, --set KEY=VALUE   override one key, e.g. learning.optimizer.rate=0.01\n"
    "      --check-config    check the configuration and exit\n"
    "      --version         print the version and exit\n"
    "  -h, --help            print this and exit\n"
    "\n"
    "Exit status: 0 clean, 64 usage, 69 unavailable, 70 internal, 74 I/O, 78 configuration.\n";

struct arguments {
    const char *config;
    const char **overrides; /* (override_count,), room for one per argument */
    size_t override_count;
    bool check;
};

/* The exit codes that runneld promises; others of sysexits.h come near one of them. */
static int exit_code(int status) {
    switch (status) {
    case EX_NOINPUT:
        return EX_CONFIG;
    case EX_DATAERR:
    case EX_NOPERM:
    case EX_CANTCREAT:
        return EX_IOERR;
    case EX_OSERR:
    case 0:
        return EX_SOFTWARE;
    default:
        return status;
    }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct arguments *arguments) {
    enum { OPTION_CHECK = 256, OPTION_VERSION };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"set", required_argument, NULL, 's'},
        {"check-config", no_argument, NULL, OPTION_CHECK},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "c:s:h", options, NULL)) != -1;) {
        switch (option) {
        case 'c':
            arguments->config = optarg;
            break;
        case 's':
            arguments->overrides[arguments->override_count++] = optarg;
            break;
        case OPTION_CHECK:
            arguments->check = true;
            break;
        case OPTION_VERSION:
            puts("runneld " PACKAGE_VERSION);
            return EX_OK;
        case 'h':
            printf("%s\n%s", usage, help);
            return EX_OK;
        default:
            fputs(usage, stderr);
            return EX_USAGE;
        }
    }
    if (arguments->config && optind == argc)
        return -1;
    if (optind < argc)
        fprintf(stderr, "runneld: unexpected argument '%s'\n%s", argv[optind], usage);
    else
        fprintf(stderr, "runneld: --config FILE is missing\n%s", usage);
    return EX_USAGE;
}

/* Whether model.initial, if there is one, holds this model's tensors. */
static int check_initial(const struct config *config, struct error *error) {
    static struct model model;
    if (!*config->initial)
        return 0;
    model_build(&model, &config->architecture);
    float *values = calloc(model.parameters, sizeof *values);
    int status = values ? parameters_load(&model, config->initial, values, error)
                        : error_set(error, EX_UNAVAILABLE,
                                    "there is not enough memory for the tensors of model.initial");
    free(values);
    return status;
}

static int run(const struct arguments *arguments, struct error *error) {
    static struct config config;
    if (config_load(&config, arguments->config, arguments->overrides, arguments->override_count,
                    error))
        return -1;
    const struct config_source source = {arguments->config, arguments->overrides,
                                         arguments->override_count};
    if (!arguments->check)
        return daemon_run(&config, &source, error);
    if (check_initial(&config, error) || security_check(&config, error))
        return -1;
    printf("%s: ok\n", arguments->config);
    return 0;
}

int main(int argc, char **argv) {
    struct arguments arguments = {.overrides = calloc((size_t)argc, sizeof(char *))};
    struct error error = {0};
    if (!arguments.overrides)
        return EX_SOFTWARE;
    int code = parse(argc, argv, &arguments);
    if (code < 0) {
        code = EX_OK;
        if (run(&arguments, &error)) {
            log_error("%s", error.text);
            code = exit_code(error.status);
        }
    }
    free(arguments.overrides);
    return code;
}
