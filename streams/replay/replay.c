/* runnel-replay: sends the examples of a daemon's journal to another daemon. Options; the
   work is done in replay_run.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "replay_run.h"

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e9

static const struct option OPTIONS[] = {
    {"speed", required_argument, NULL, 's'},
    {"from", required_argument, NULL, 'f'},
    {"to", required_argument, NULL, 't'},
    {"control", required_argument, NULL, 'C'},
    FEED_CALL_OPTIONS,
    {0},
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

/* As feed_take does it. */
static int take_option(void *context, int code, const char *value, struct feed_error *error) {
    struct replay_settings *s = context;
    switch (code) {
    case 's':
        return take_speed(s, value, error);
    case 'f':
        return feed_parse_count("--from", value, 1, INT64_MAX, &s->first, error);
    case 't':
        return feed_parse_count("--to", value, 1, INT64_MAX, &s->last, error);
    case 'C':
        s->control = value;
        return 0;
    default:
        return feed_call_option(&s->common, code, value, error);
    }
}

static int parse(struct replay_settings *s, int count, char **arguments, struct feed_error *error) {
    if (feed_call_parse(count, arguments, ":", OPTIONS, NULL, take_option, s, error) < 0)
        return -1;
    if (s->common.help || s->common.version)
        return 0;
    if (count - optind != 1)
        return feed_fail(error, EX_USAGE, "one journal is needed: runnel-replay JOURNAL [options]");
    if (s->control && !s->common.to.router)
        return feed_fail(
            error, EX_USAGE,
            "--control: only with --socket router, whose acknowledgements tell when the "
            "place of a command has come");
    if (s->last < s->first)
        return feed_fail(error, EX_USAGE, "--to: found a position before that of --from");
    s->path = arguments[optind];
    return 0;
}

static int replay(struct replay_settings *settings, struct feed_error *error) {
    return feed_call_start(&settings->common, true, error) < 0 ? -1 : replay_run(settings, error);
}

int main(int count, char **arguments) {
    struct feed_error error = {0};
    struct replay_settings settings = {.common = {.program = "runnel-replay",
                                                  .to.endpoint = WIRE_EXAMPLES,
                                                  .linger = INFINITY,
                                                  .wait = INFINITY},
                                       .speed = INFINITY,
                                       .first = 1,
                                       .last = UINT64_MAX};
    int status = parse(&settings, count, arguments, &error);
    if (status == 0 && settings.common.help)
        fputs(HELP, stdout);
    else if (status == 0 && settings.common.version)
        puts("runnel-replay " PACKAGE_VERSION);
    else if (status == 0)
        status = replay(&settings, &error);
    return feed_call_end(&settings.common, status, &error);
}
