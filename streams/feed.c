/* runnel-feed: sends examples to runneld. Options and sources by name; the work is done in
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

/* A daemon takes no example with more steps. */
enum { STEPS_MAX = 4096, OPTIONS_MAX = 64 };

static const struct option COMMON[] = {
    {"bind", required_argument, NULL, 'b'},   {"rate", required_argument, NULL, 'r'},
    {"repeat", required_argument, NULL, 'R'}, {"stream", required_argument, NULL, 's'},
    {"count", required_argument, NULL, 'n'},  {"steps", required_argument, NULL, 'S'},
    {"numbered", no_argument, NULL, 'N'},     {"no-learn", no_argument, NULL, 'L'},
    {"skip-bad", no_argument, NULL, 'k'},     {"print", no_argument, NULL, 'p'},
    {"dry-run", no_argument, NULL, 'p'},      FEED_CALL_OPTIONS,
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

/* As feed_take does it. */
static int take_option(void *context, int code, const char *value, struct feed_error *error) {
    struct call *call = context;
    struct feed_settings *s = &call->settings;
    if (code >= SOURCE_OPTION)
        return call->type->option(call->source, code, value, error);
    switch (code) {
    case 'b':
        s->common.to.endpoint = value;
        s->common.to.bind = true;
        return 0;
    case 's':
        call->stream = value;
        return 0;
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
    default:
        return feed_call_option(&s->common, code, value, error);
    }
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
        if (feed_call_parse(count, arguments, "+:", table, NULL, take_option, call, error) < 0)
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
    if (feed_call_parse(count - 1, arguments + 1, ":", table, call->type->name, take_option, call,
                        error) < 0)
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
    if (s->common.to.router && s->common.to.bind)
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

static int feed(struct call *call, char **operands, int count, struct feed_error *error) {
    struct stream stream;
    struct source *source = call->source;
    struct feed_settings *settings = &call->settings;
    source->forced = call->stream;
    source->numbers = settings->common.to.router;
    source->epoch = settings->common.epoch;
    if (feed_call_start(&settings->common, !settings->print || !isatty(STDOUT_FILENO), error) < 0)
        return -1;
    if (settings->print && settings->rate > 0)
        setvbuf(stdout, NULL, _IOLBF, 0); /* whoever reads wants each example when it comes */
    if (source->type->open(source, operands, count, error) < 0 || check(call, error) < 0)
        return -1;
    const char *key = call->stream ? call->stream : source->label;
    const char *wrong = stream_name(&stream, key, strlen(key));
    if (wrong)
        return feed_fail(error, EX_USAGE, "--stream: '%s' is no name of a stream: %s", key, wrong);
    settings->stream = &stream;
    return feed_run(source, settings, error);
}

int main(int count, char **arguments) {
    struct feed_error error = {0};
    struct call call = {.settings = {.common = {.program = "runnel-feed",
                                                .to.endpoint = WIRE_EXAMPLES,
                                                .epoch = (uint32_t)time(NULL),
                                                .linger = INFINITY,
                                                .wait = INFINITY},
                                     .learn = true,
                                     .repeat = 1,
                                     .steps = 1}};
    char **operands = NULL;
    int left = 0;
    int status = parse(&call, count, arguments, &operands, &left, &error);
    if (status == 0 && call.settings.common.help)
        print_help(call.type);
    else if (status == 0 && call.settings.common.version)
        puts("runnel-feed " PACKAGE_VERSION);
    else if (status == 0)
        status = feed(&call, operands, left, &error);
    if (call.source)
        call.type->close(&call.source);
    return feed_call_end(&call.settings.common, status, &error);
}
