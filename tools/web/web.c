/* runnel-web: a web page that shows running daemons. See runnel-web(1). */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/wire.h"
#include "web_server.h"

#define LISTEN "127.0.0.1:5580"

enum { PATH_SIZE = 4096 };

struct options {
    struct option_list endpoints;
    struct key_options keys;
    const char *history, *recording;
    bool forecasts;
    const char *experiment; /* an operand */
    struct server_options server;
};

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, FEEDS_MAX), .unique = true},
    KEY_OPTIONS(struct options, keys),
    {"listen", 'l', "ADDRESS",
     "ADDRESS:PORT of the page (default " LISTEN
     "); an address that other machines can reach requires --token",
     OPTION_TEXT(struct options, server.listen)},
    {"token", 't', "FILE", "require the token in the first line of FILE",
     OPTION_FILE(struct options, server.token_file)},
    {"history", 'H', "FILE",
     "keep the history in FILE (default: web.history in $XDG_STATE_HOME/runnel or "
     "~/.local/state/runnel)",
     OPTION_FILE(struct options, history)},
    {"forecasts", 'f', NULL,
     "add the newest value, forecast, 90% interval and quantiles of each stream and column to "
     "/metrics",
     OPTION_FLAG(struct options, forecasts)},
    {"recording", 'r', "FILE",
     "show a recording of runnel-record or runnel-web (read-only) instead of daemons",
     OPTION_FILE(struct options, recording)},
    OPTIONS_LAST,
};

/* Returns a descriptor that is readable after a signal that ends the program. */
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

/* Creates all directories of the path. */
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

static int open_history(struct history **history, const struct options *options) {
    char place[PATH_SIZE];
    const struct history_options all = {0};
    const char *path = options->history;
    if (options->experiment)
        return EX_OK;
    if (options->recording)
        return history_open(history, options->recording, NULL);
    if (!path)
        path = default_history(place);
    return history_open(history, path, &all);
}

static int open_feeds(struct feeds *feeds, const struct options *options, struct history *history,
                      struct live *live) {
    static const char *const usual[] = {WIRE_STATISTICS};
    const struct option_list *named = &options->endpoints;
    if (options->recording) {
        feeds_open_recording(feeds, options->recording, history, live);
        return EX_OK;
    }
    if (!named->count)
        return feeds_open(feeds, usual, 1, false, &options->keys, history, live);
    return feeds_open(feeds, named->values, named->count, true, &options->keys, history, live);
}

static void run(struct feeds *feeds, struct server *server, int signals) {
    struct pollfd items[FEEDS_MAX * FEED_ITEMS + 2] = {
        {.fd = signals, .events = POLLIN}, {.fd = server_descriptor(server), .events = POLLIN}};
    while (!items[0].revents) {
        feeds_run(feeds);
        live_tick(feeds->live);
        server_run(server);
        double wait = fmin(feeds_next(feeds), fmin(server_next(server), live_next(feeds->live)));
        poll(items, 2 + feeds_items(feeds, items + 2), clock_milliseconds(wait));
    }
}

static int web(const struct options *options, int signals) {
    struct feeds feeds = {0};
    struct experiment experiment = {0};
    struct history *history = NULL;
    struct server *server = NULL;
    struct live *live = live_open();
    int status = live ? open_history(&history, options) : complain(EX_UNAVAILABLE, "out of memory");
    if (status == EX_OK && options->experiment)
        status = feeds_open_experiment(&feeds, options->experiment, &experiment, live);
    else if (status == EX_OK)
        status = open_feeds(&feeds, options, history, live);
    feeds.exports_forecasts = options->forecasts;
    if (status == EX_OK)
        status = server_open(&server, &options->server, &feeds);
    if (status == EX_OK) {
        printf("%s\n", server_url(server));
        fflush(stdout);
        run(&feeds, server, signals);
    }
    server_close(&server);
    feeds_close(&feeds);
    experiment_close(&experiment);
    history_close(&history);
    live_close(&live);
    return status;
}

int main(int argc, char **argv) {
    struct options options = {.server = {.listen = LISTEN, .chart_file = RUNNEL_CHART_JS}};
    const struct command_line line = {
        .name = "runnel-web",
        .operands = "[RESULTS]",
        .summary =
            "Show running daemons on a web page with live charts, by default at http://" LISTEN
            "/, with its data as JSON and with /metrics for Prometheus. With RESULTS, the "
            "directory of an experiment or the results.sqlite in it, show the runs of this "
            "experiment instead, even while it runs. The page is read-only: it cannot change a "
            "daemon.",
        .ending =
            "Ctrl-C ends the program. Exit status: 0 success, 64 usage error, 65 RESULTS are "
            "invalid or damaged, 66 RESULTS not found or cannot read the token, 69 cannot open a "
            "socket or port, or chart library not found, 74 cannot open the history or recording.",
        .groups = {{NULL, rows, &options}},
        .complete = COMPLETE_FILE,
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    if (!key_options_ready(&options.keys))
        return EX_USAGE;
    options.experiment = operands[0];
    if (options.experiment && (options.recording || options.endpoints.count || options.history))
        return complain_usage("RESULTS cannot be used together with -c, -r or -H");
    if (options.recording && (options.endpoints.count || options.history))
        return complain_usage("-r cannot be used together with -c or -H");
    int signals = catch_signals();
    if (signals < 0)
        return complain(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    return web(&options, signals);
}
