/* runnel-feed: sends examples to runneld. Options, sources by name, signals; the work is done in
   feed_run.c. */
#include "feed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "feed_progress.h"
#include "feed_run.h"

static const struct source_type *const SOURCES[] = {&source_text, &source_csv,   &source_idx,
                                                    &source_host, &source_synth, &source_json};
enum { SOURCE_COUNT = sizeof SOURCES / sizeof SOURCES[0] };

#define RATE_MAX 1e9
#define SECONDS_MAX 1e6

/* A daemon takes no example with more steps. */
enum { STEPS_MAX = 4096, OPTIONS_MAX = 64 };

static const struct option COMMON[] = {
    {"connect", required_argument, NULL, 'c'}, {"bind", required_argument, NULL, 'b'},
    {"rate", required_argument, NULL, 'r'},    {"repeat", required_argument, NULL, 'R'},
    {"stream", required_argument, NULL, 's'},  {"count", required_argument, NULL, 'n'},
    {"steps", required_argument, NULL, 'S'},   {"numbered", no_argument, NULL, 'N'},
    {"epoch", required_argument, NULL, 'e'},   {"no-learn", no_argument, NULL, 'L'},
    {"wait", required_argument, NULL, 'w'},    {"linger", required_argument, NULL, 'l'},
    {"key", required_argument, NULL, 'K'},     {"server-key", required_argument, NULL, 'Y'},
    {"socket", required_argument, NULL, 'o'},  {"skip-bad", no_argument, NULL, 'k'},
    {"print", no_argument, NULL, 'p'},         {"dry-run", no_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},         {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},          {"version", no_argument, NULL, 'V'},
};
enum { COMMON_COUNT = sizeof COMMON / sizeof COMMON[0] };

static const char COMMON_HELP[] =
    "Options of every source:\n"
    "  --connect ENDPOINT  the daemon's examples socket (default " WIRE_EXAMPLES ")\n"
    "  --bind ENDPOINT     wait there for a daemon that connects\n"
    "  --socket KIND       push (default), or router: every example is numbered, acknowledged\n"
    "                      by the daemon, and sent again until it is\n"
    "  --server-key KEY    the daemon's public key, or the file that has it\n"
    "  --key FILE          your secret key, where the daemon wants to know who you are\n"
    "  --rate N            examples per second (default: no limit; host: 20)\n"
    "  --repeat N          read everything N times, 0 = for ever (default 1)\n"
    "  --count N           stop after N examples\n"
    "  --stream KEY        name of the stream (default: the name of the source)\n"
    "  --steps N           put N steps into one example (text, csv, synth; default 1)\n"
    "  --no-learn          mark examples: predict and score, but do not learn\n"
    "  --numbered          send the header with number and time with every example\n"
    "  --epoch N           the header's epoch (default: the time of the start)\n"
    "  --skip-bad          pass over bad rows and count them, instead of ending\n"
    "  --print, --dry-run  write examples as lines of JSON instead of sending them\n"
    "  --wait SECONDS      give up when no daemon is there by then (default: never)\n"
    "  --linger SECONDS    wait that long for delivery at the end (default: for ever)\n"
    "  --quiet, --verbose  say nothing but errors; say more\n"
    "  --help, --version\n";

struct call {
    struct feed_settings settings;
    const struct source_type *type;
    struct source *source;
    const char *stream;
    const char *key, *server_key;
    bool quiet, verbose, help, version;
    bool rate_given, repeat_given;
};

static void print_help(const struct source_type *only) {
    if (only) {
        printf("runnel-feed %s %s [options]: %s\n\n%s%s", only->name, only->operands, only->summary,
               only->help, only->help[0] ? "\n" : "");
    } else {
        puts("runnel-feed SOURCE [options]: send examples to runneld\n\nSources:");
        for (size_t i = 0; i < SOURCE_COUNT; i++)
            printf("  %-5s %-16s %s\n", SOURCES[i]->name, SOURCES[i]->operands,
                   SOURCES[i]->summary);
        puts("\nEach source has options of its own: runnel-feed SOURCE --help. Files may be\n"
             "compressed with gzip; '-' is standard input.\n");
    }
    fputs(COMMON_HELP, stdout);
}

static int take_number(struct call *call, int code, const char *value, struct feed_error *error) {
    struct feed_settings *s = &call->settings;
    uint64_t epoch = 0;
    switch (code) {
    case 'r':
        call->rate_given = true;
        return feed_parse_real("--rate", value, 0, RATE_MAX, &s->rate, error);
    case 'R':
        call->repeat_given = true;
        return feed_parse_count("--repeat", value, 0, UINT64_MAX, &s->repeat, error);
    case 'n':
        return feed_parse_count("--count", value, 1, UINT64_MAX, &s->count, error);
    case 'S':
        return feed_parse_count("--steps", value, 1, STEPS_MAX, &s->steps, error);
    case 'e':
        if (feed_parse_count("--epoch", value, 0, UINT32_MAX, &epoch, error) < 0)
            return -1;
        s->epoch = (uint32_t)epoch;
        return 0;
    case 'w':
        return feed_parse_real("--wait", value, 0, SECONDS_MAX, &s->wait, error);
    default:
        return feed_parse_real("--linger", value, 0, SECONDS_MAX, &s->linger, error);
    }
}

static int take_option(struct call *call, int code, const char *value, struct feed_error *error) {
    struct feed_settings *s = &call->settings;
    switch (code) {
    case 'c':
    case 'b':
        s->to.endpoint = value;
        s->to.bind = code == 'b';
        return 0;
    case 'o':
        return sender_parse_socket(&s->to, value, error);
    case 's':
        call->stream = value;
        return 0;
    case 'K':
        call->key = value;
        return 0;
    case 'Y':
        call->server_key = value;
        return 0;
    case 'N':
        s->numbered = true;
        return 0;
    case 'L':
        s->learn = false;
        return 0;
    case 'k':
        call->source->skip_bad = true;
        return 0;
    case 'p':
        s->print = true;
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
        return take_number(call, code, value, error);
    }
}

static int parse_options(struct call *call, int count, char **arguments, const char *letters,
                         const struct option *table, struct feed_error *error) {
    int code;
    opterr = 0;
    optind = 0;
    while ((code = getopt_long(count, arguments, letters, table, NULL)) != -1) {
        const char *given = arguments[optind - 1];
        if (code == ':')
            return feed_fail(error, EX_USAGE, "%s needs a value", given);
        if (code == '?')
            return feed_fail(error, EX_USAGE, "there is no option %s%s%s", given,
                             call->type ? " of " : "", call->type ? call->type->name : "");
        int status = code >= SOURCE_OPTION ? call->type->option(call->source, code, optarg, error)
                                           : take_option(call, code, optarg, error);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int find_source(struct call *call, const char *name, struct feed_error *error) {
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        if (strcmp(SOURCES[i]->name, name) == 0)
            call->type = SOURCES[i];
    if (!call->type)
        return feed_fail(error, EX_USAGE,
                         "there is no source '%s'; expected text, csv, idx, host, synth or json",
                         name);
    call->source = call->type->create();
    if (!call->source)
        return feed_no_memory(error);
    call->source->type = call->type;
    call->settings.rate = call->type->rate;
    return 0;
}

/* `[source] [options] [operands]`; operands are left at *operands. */
static int parse(struct call *call, int count, char **arguments, char ***operands, int *left,
                 struct feed_error *error) {
    struct option table[OPTIONS_MAX + 1] = {0};
    if (count < 2)
        return feed_fail(error, EX_USAGE, "which source? text, csv, idx, host, synth or json");
    if (arguments[1][0] == '-') { /* --help and --version stand alone */
        memcpy(table, COMMON + COMMON_COUNT - 2, 2 * sizeof table[0]);
        if (parse_options(call, count, arguments, "+:", table, error) < 0)
            return feed_fail(error, EX_USAGE,
                             "the source comes first: text, csv, idx, host, synth or json");
        return 0;
    }
    if (find_source(call, arguments[1], error) < 0)
        return -1;
    size_t used = COMMON_COUNT;
    memcpy(table, COMMON, sizeof COMMON);
    for (const struct option *own = call->type->options; own->name && used < OPTIONS_MAX; own++)
        table[used++] = *own;
    if (parse_options(call, count - 1, arguments + 1, ":", table, error) < 0)
        return -1;
    *operands = arguments + 1 + optind;
    *left = count - 1 - optind;
    return 0;
}

/* What options ask of the source must be something that it can do. */
static int check(const struct call *call, struct feed_error *error) {
    const struct feed_settings *s = &call->settings;
    const struct source_type *type = call->type;
    if (s->steps > 1 && !type->bundles)
        return feed_fail(error, EX_USAGE, "--steps: not with %s", type->name);
    if (s->to.router && s->to.bind)
        return feed_fail(error, EX_USAGE,
                         "--bind: not with --socket router, which connects to the daemon");
    if (type == &source_json && (s->numbered || !s->learn))
        return feed_fail(error, EX_USAGE, "--numbered, --no-learn: json sends lines as they are");
    if (type->endless && call->repeat_given)
        return feed_fail(error, EX_USAGE, "--repeat: %s never ends; see --count", type->name);
    if (type->live && s->rate == 0)
        return feed_fail(error, EX_USAGE, "--rate: found 0, expected examples per second");
    if (call->source->once && s->repeat != 1)
        return feed_fail(error, EX_USAGE, "--repeat: a pipe cannot be read a second time");
    return 0;
}

static void on_signal(int number) {
    (void)number;
    feed_signals++;
}

static void catch_signals(void) {
    const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaction(caught[i], &action, NULL);
}

static int feed(struct call *call, char **operands, int count, struct feed_error *error) {
    struct stream stream;
    struct source *source = call->source;
    char why[KEYS_WHY_SIZE];
    source->forced = call->stream;
    source->numbers = call->settings.to.router;
    source->epoch = call->settings.epoch;
    if (keys_client(&call->settings.to.keys, call->key, call->server_key, why))
        return feed_fail(error, EX_USAGE, "%s", why);
    progress_start("runnel-feed", call->quiet, call->verbose,
                   !call->settings.print || !isatty(STDOUT_FILENO));
    if (call->settings.print && call->settings.rate > 0)
        setvbuf(stdout, NULL, _IOLBF, 0); /* whoever reads wants each example when it comes */
    catch_signals();
    if (source->type->open(source, operands, count, error) < 0 || check(call, error) < 0)
        return -1;
    const char *key = call->stream ? call->stream : source->label;
    const char *wrong = stream_name(&stream, key, strlen(key));
    if (wrong)
        return feed_fail(error, EX_USAGE, "--stream: '%s' is no name of a stream: %s", key, wrong);
    call->settings.stream = &stream;
    return feed_run(source, &call->settings, error);
}

int main(int count, char **arguments) {
    struct feed_error error = {0};
    struct call call = {.settings = {.to.endpoint = WIRE_EXAMPLES,
                                     .learn = true,
                                     .repeat = 1,
                                     .steps = 1,
                                     .epoch = (uint32_t)time(NULL),
                                     .linger = INFINITY,
                                     .wait = INFINITY}};
    char **operands = NULL;
    int left = 0;
    int status = parse(&call, count, arguments, &operands, &left, &error);
    if (status == 0 && call.help)
        print_help(call.type);
    else if (status == 0 && call.version)
        puts("runnel-feed " PACKAGE_VERSION);
    else if (status == 0)
        status = feed(&call, operands, left, &error);
    if (call.source)
        call.type->close(&call.source);
    if (status == 0 || error.status == FEED_INTERRUPTED)
        return EX_OK;
    fprintf(stderr, "runnel-feed: %s\n", error.text);
    if (error.status == EX_USAGE)
        fputs("runnel-feed: try runnel-feed --help\n", stderr);
    return error.status;
}
