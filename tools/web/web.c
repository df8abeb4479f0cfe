/* runnel-web: a page that shows daemons learn. See runnel-web(1). */
#include "build-config.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/wire.h"
#include "tools/shared/tool.h"
#include "web_server.h"

#define LISTEN "127.0.0.1:5580"

enum { GO_ON = -1, PATH_SIZE = 4096 };

static const char help[] =
    "Usage: runnel-web [OPTION]...\n"
    "Show running daemons learn: a page with live charts, at http://" LISTEN "/\n"
    "unless --listen says otherwise, with its data as JSON, and /metrics for Prometheus.\n"
    "It only shows: nothing on the page changes anything.\n"
    "\n"
    "  -c, --connect=ENDPOINT   a daemon's statistics socket; may be repeated\n"
    "                           (default " WIRE_STATISTICS ")\n"
    "      --key=FILE           your secret key, where a daemon wants to know who you are\n"
    "      --server-key=KEY     the daemon's public key, or the file that has it\n"
    "  -l, --listen=ADDRESS     ADDRESS:PORT of the page (default " LISTEN ");\n"
    "                           one that other machines reach needs --token\n"
    "  -t, --token=FILE         let in only who knows the token in the file's first line\n"
    "  -H, --history=FILE       keep what is shown in this file (default web.history in\n"
    "                           $XDG_STATE_HOME/runnel, else ~/.local/state/runnel)\n"
    "  -h, --help               print this and end\n"
    "  -V, --version            print the version and end\n"
    "\n"
    "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 66 no token to be read,\n"
    "69 no socket, port or chart library to be had, 74 the history cannot be opened.\n";

struct options {
    const char *endpoints[FEEDS_MAX];
    size_t count;
    struct tool_keys keys;
    const char *history;
    struct server_options server;
};

static int add_endpoint(struct options *o, const char *endpoint) {
    int status = tool_add_endpoint(o->endpoints, &o->count, FEEDS_MAX, endpoint);
    return status == EX_OK ? GO_ON : status;
}

static int take_option(struct options *o, int option) {
    switch (option) {
    case 'c':
        return add_endpoint(o, optarg);
    case 'l':
        o->server.listen = optarg;
        return GO_ON;
    case 't':
        o->server.token_file = optarg;
        return GO_ON;
    case 'H':
        o->history = optarg;
        return GO_ON;
    default:
        return tool_key_option(&o->keys, option) ? GO_ON : tool_common_option(option, help);
    }
}

/* Returns GO_ON, or the exit status. */
static int take_options(struct options *o, int argc, char **argv) {
    static const struct option names[] = {
        {"connect", required_argument, NULL, 'c'},
        {"listen", required_argument, NULL, 'l'},
        {"token", required_argument, NULL, 't'},
        {"history", required_argument, NULL, 'H'},
        TOOL_KEY_OPTIONS,
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct options){.server = {.listen = LISTEN, .chart_file = RUNNEL_CHART_JS}};
    int option, status = GO_ON;
    while (status == GO_ON && (option = getopt_long(argc, argv, "c:l:t:H:hV", names, NULL)) != -1)
        status = take_option(o, option);
    if (status != GO_ON)
        return status;
    if (optind < argc)
        return tool_usage("'%s' is one word too many", argv[optind]);
    if (!tool_keys_ready(&o->keys))
        return EX_USAGE;
    return o->count ? GO_ON : add_endpoint(o, WIRE_STATISTICS);
}

/* A descriptor that is readable when the program is to end. */
static int catch_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Make all directories of the path. */
static void make_directories(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, S_IRWXU);
        *slash = '/';
    }
}

static const char *default_history(char path[PATH_SIZE]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        snprintf(path, PATH_SIZE, "%s/runnel/web.history", state);
    else
        snprintf(path, PATH_SIZE, "%s/.local/state/runnel/web.history", home ? home : "");
    make_directories(path);
    return path;
}

static int open_history(struct history **history, const char *path) {
    char place[PATH_SIZE];
    const struct history_options options = {0};
    if (!path)
        path = default_history(place);
    return history_open(history, path, &options);
}

static void run(struct feeds *feeds, struct server *server, int signals) {
    zmq_pollitem_t items[FEEDS_ITEMS + 2];
    int used = feeds_items(feeds, items);
    items[used++] = (zmq_pollitem_t){.fd = server_descriptor(server), .events = ZMQ_POLLIN};
    items[used++] = (zmq_pollitem_t){.fd = signals, .events = ZMQ_POLLIN};
    while (!items[used - 1].revents) {
        feeds_run(feeds);
        live_tick(feeds->live);
        server_run(server);
        double wait = fmin(feeds_next(feeds), fmin(server_next(server), live_next(feeds->live)));
        zmq_poll(items, used, (long)ceil(wait * 1e3));
    }
}

static int web(const struct options *options, int signals) {
    struct feeds feeds = {0};
    struct history *history = NULL;
    struct server *server = NULL;
    struct live *live = live_open();
    int status = live ? open_history(&history, options->history)
                      : tool_fail(EX_UNAVAILABLE, "memory is short");
    if (status == EX_OK)
        status = feeds_open(&feeds, options->endpoints, options->count, &options->keys.client,
                            history, live);
    if (status == EX_OK)
        status = server_open(&server, &options->server, &feeds);
    if (status == EX_OK) {
        printf("%s\n", server_url(server));
        fflush(stdout);
        run(&feeds, server, signals);
    }
    server_close(&server);
    feeds_close(&feeds);
    history_close(&history);
    live_close(&live);
    return status;
}

int main(int argc, char **argv) {
    struct options options;
    int status = take_options(&options, argc, argv);
    if (status != GO_ON)
        return status;
    int signals = catch_signals();
    if (signals < 0)
        return tool_fail(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    return web(&options, signals);
}
