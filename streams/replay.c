/* runnel-replay: sends the examples of a daemon's journal to another daemon. Options and signals;
   the work is done in replay_run.c. */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "feed.h"
#include "feed_progress.h"
#include "replay_run.h"

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e9
#define SECONDS_MAX 1e6

static const struct option OPTIONS[] = {
    {"connect", required_argument, NULL, 'c'},    {"socket", required_argument, NULL, 'o'},
    {"speed", required_argument, NULL, 's'},      {"from", required_argument, NULL, 'f'},
    {"to", required_argument, NULL, 't'},         {"epoch", required_argument, NULL, 'e'},
    {"control", required_argument, NULL, 'C'},    {"key", required_argument, NULL, 'K'},
    {"server-key", required_argument, NULL, 'Y'}, {"wait", required_argument, NULL, 'w'},
    {"linger", required_argument, NULL, 'l'},     {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},          {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},          {0},
};

static const char HELP[] =
    "runnel-replay JOURNAL [options]: send the examples of a daemon's journal to another daemon,\n"
    "in the order in which they were learned. JOURNAL is the file journal.sqlite or its "
    "directory.\n"
    "\n"
    "  --connect ENDPOINT  the daemon's examples socket (default " WIRE_EXAMPLES ")\n"
    "  --socket KIND       push (default), or router: every example is acknowledged by the\n"
    "                      daemon, and sent again until it is\n"
    "  --speed SPEED       full (default), original, or a factor: 10 is ten times as fast\n"
    "  --from N, --to N    first and last position (default: all that are there)\n"
    "  --epoch N           number examples anew, in this epoch (default: as in the journal)\n"
    "  --control ENDPOINT  send the journal's commands (set, reset) there, each in its place;\n"
    "                      with --socket router only (default: say that they are left out)\n"
    "  --server-key KEY    the daemon's public key, or the file that has it\n"
    "  --key FILE          your secret key, where the daemon wants to know who you are\n"
    "  --wait SECONDS      give up when no daemon is there by then (default: never)\n"
    "  --linger SECONDS    wait that long for delivery at the end (default: for ever)\n"
    "  --quiet, --verbose  say nothing but errors; say more\n"
    "  --help, --version\n";

struct call {
    struct replay_settings settings;
    const char *key, *server_key;
    bool quiet, verbose, help, version;
};

static int take_speed(struct replay_settings *s, const char *value, struct feed_error *error) {
    s->speed = strcmp(value, "full") == 0 ? INFINITY : 1;
    if (strcmp(value, "full") == 0 || strcmp(value, "original") == 0)
        return 0;
    if (feed_parse_real("--speed", value, SPEED_MIN, SPEED_MAX, &s->speed, error) < 0)
        return feed_fail(error, EX_USAGE,
                         "--speed: found '%s', expected full, original or a factor in %g..%g",
                         value, SPEED_MIN, SPEED_MAX);
    return 0;
}

static int take_number(struct replay_settings *s, int code, const char *value,
                       struct feed_error *error) {
    uint64_t epoch = 0;
    switch (code) {
    case 'f':
        return feed_parse_count("--from", value, 1, INT64_MAX, &s->first, error);
    case 't':
        return feed_parse_count("--to", value, 1, INT64_MAX, &s->last, error);
    case 'w':
        return feed_parse_real("--wait", value, 0, SECONDS_MAX, &s->wait, error);
    case 'l':
        return feed_parse_real("--linger", value, 0, SECONDS_MAX, &s->linger, error);
    default:
        if (feed_parse_count("--epoch", value, 0, UINT32_MAX, &epoch, error) < 0)
            return -1;
        s->epoch = (uint32_t)epoch;
        s->renumber = true;
        return 0;
    }
}

static int take_option(struct call *call, int code, const char *value, struct feed_error *error) {
    struct replay_settings *s = &call->settings;
    switch (code) {
    case 'c':
        s->to.endpoint = value;
        return 0;
    case 'o':
        return sender_parse_socket(&s->to, value, error);
    case 's':
        return take_speed(s, value, error);
    case 'C':
        s->control = value;
        return 0;
    case 'K':
        call->key = value;
        return 0;
    case 'Y':
        call->server_key = value;
        return 0;
    case 'q':
        call->quiet = true;
        return 0;
    case 'v':
        call->verbose = true;
        return 0;
    case 'h':
        call->help = true;
        return 0;
    case 'V':
        call->version = true;
        return 0;
    default:
        return take_number(s, code, value, error);
    }
}

static int parse(struct call *call, int count, char **arguments, struct feed_error *error) {
    struct replay_settings *s = &call->settings;
    int code;
    opterr = 0;
    while ((code = getopt_long(count, arguments, ":", OPTIONS, NULL)) != -1) {
        if (code == ':')
            return feed_fail(error, EX_USAGE, "%s needs a value", arguments[optind - 1]);
        if (code == '?')
            return feed_fail(error, EX_USAGE, "there is no option %s", arguments[optind - 1]);
        if (take_option(call, code, optarg, error) < 0)
            return -1;
    }
    if (call->help || call->version)
        return 0;
    if (count - optind != 1)
        return feed_fail(error, EX_USAGE, "one journal is needed: runnel-replay JOURNAL [options]");
    if (s->control && !s->to.router)
        return feed_fail(
            error, EX_USAGE,
            "--control: only with --socket router, whose acknowledgements tell when the "
            "place of a command has come");
    if (s->last < s->first)
        return feed_fail(error, EX_USAGE, "--to: found a position before that of --from");
    s->path = arguments[optind];
    return 0;
}

static void on_signal(int number) {
    (void)number;
    feed_signals++;
}

static int replay(struct call *call, struct feed_error *error) {
    const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    char why[KEYS_WHY_SIZE];
    if (keys_client(&call->settings.to.keys, call->key, call->server_key, why))
        return feed_fail(error, EX_USAGE, "%s", why);
    progress_start("runnel-replay", call->quiet, call->verbose, true);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaction(caught[i], &action, NULL);
    return replay_run(&call->settings, error);
}

int main(int count, char **arguments) {
    struct feed_error error = {0};
    struct call call = {.settings = {.to.endpoint = WIRE_EXAMPLES,
                                     .speed = INFINITY,
                                     .first = 1,
                                     .last = UINT64_MAX,
                                     .linger = INFINITY,
                                     .wait = INFINITY}};
    int status = parse(&call, count, arguments, &error);
    if (status == 0 && call.help)
        fputs(HELP, stdout);
    else if (status == 0 && call.version)
        puts("runnel-replay " PACKAGE_VERSION);
    else if (status == 0)
        status = replay(&call, &error);
    if (status == 0 || error.status == FEED_INTERRUPTED)
        return EX_OK;
    fprintf(stderr, "runnel-replay: %s\n", error.text);
    if (error.status == EX_USAGE)
        fputs("runnel-replay: try runnel-replay --help\n", stderr);
    return error.status;
}
