#include "build-config.h"

#include "alert_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "alert_command.h"
#include "alert_post.h"
#include "common/wire.h"

#define SILENCE 15.0   /* seconds: a daemon sends `status` every 10 */
#define INTERVAL 60.0  /* seconds */
#define CALM_LEAST 1.0 /* seconds */
#define SATURATED 0.5
#define QUEUE 100.0
#define WAITING 10.0           /* seconds */
#define DISK (256 * 1048576.0) /* bytes, where the daemon warns too */
#define FLOOR 1e-6
#define TIMEOUT 30.0 /* seconds */
#define MEGABYTE 1048576.0

static const char help[] =
    "Usage: runnel-alert [OPTION]... [--] [COMMAND [ARGUMENT]...]\n"
    "Watch running runnelds and say when something is wrong with one, and when it is over.\n"
    "COMMAND is run for each alert: with the alert as JSON on its standard input and in\n"
    "the environment as RUNNEL_ALERT_KIND, RUNNEL_ALERT_TEXT, ...\n"
    "\n"
    "  -c, --connect=ENDPOINT  a daemon's statistics socket; may be repeated\n"
    "                          (default " WIRE_STATISTICS ")\n"
    "      --key=FILE          your secret key, where the daemons want to know who you are\n"
    "      --server-key=KEY    the daemons' public key, or the file that has it\n"
    "      --post=URL          post each alert there as JSON; @FILE: the URL is in that file\n"
    "      --timeout=SECONDS   for one command or post (default 30)\n"
    "  -o, --only=KINDS        watch for these alone, with commas between them\n"
    "  -x, --except=KINDS      watch for all but these\n"
    "                          silence restart non-finite rising page-hinkley adwin dead\n"
    "                          saturated queue rejected journal disk gap\n"
    "  -i, --interval=SECONDS  least time between two alerts of a kind (default 60)\n"
    "  -a, --again=SECONDS     remind of what still holds; 0 = never (default 0)\n"
    "  -j, --json              print each alert as one line of JSON\n"
    "  -q, --quiet             print no alerts\n"
    "  -r, --replay=FILE       say what would have been said of a recording, as\n"
    "                          runnel-watch --json writes it; - = standard input\n"
    "  -v, --verbose           tell on standard error of connections and of lost messages\n"
    "  -h, --help              print this and end\n"
    "  -V, --version           print the version and end\n"
    "\n"
    "Limits:\n"
    "  -s, --silence=SECONDS   without a message; 0 = never (default 15)\n"
    "      --saturated=SHARE   of the units of a layer (default 0.5)\n"
    "      --queue=EXAMPLES    that wait to be learned (default 100)\n"
    "      --waiting=SECONDS   that an example waits for the journal's disk (default 10)\n"
    "      --disk=MB           free for the journal (default 256)\n"
    "      --floor=LOSS        losses below count as this (default: a hundredth of what the\n"
    "                          loss was in the beginning, and 1e-6)\n"
    "      --page-hinkley=LAMBDA[,DELTA]  in standard deviations (default 15,0.5)\n"
    "      --adwin=DELTA       (default 0.002)\n"
    "\n"
    "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 66 no recording, 69 no\n"
    "sockets to be had, 74 standard output takes no more.\n";

enum {
    OPTION_POST = TOOL_SERVER_KEY + 1,
    OPTION_TIMEOUT,
    OPTION_SATURATED,
    OPTION_QUEUE,
    OPTION_WAITING,
    OPTION_DISK,
    OPTION_FLOOR,
    OPTION_PAGE_HINKLEY,
    OPTION_ADWIN,
};

static const struct option names[] = {
    {"connect", required_argument, NULL, 'c'},
    TOOL_KEY_OPTIONS,
    {"post", required_argument, NULL, OPTION_POST},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"only", required_argument, NULL, 'o'},
    {"except", required_argument, NULL, 'x'},
    {"interval", required_argument, NULL, 'i'},
    {"again", required_argument, NULL, 'a'},
    {"json", no_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},
    {"replay", required_argument, NULL, 'r'},
    {"silence", required_argument, NULL, 's'},
    {"saturated", required_argument, NULL, OPTION_SATURATED},
    {"queue", required_argument, NULL, OPTION_QUEUE},
    {"waiting", required_argument, NULL, OPTION_WAITING},
    {"disk", required_argument, NULL, OPTION_DISK},
    {"floor", required_argument, NULL, OPTION_FLOOR},
    {"page-hinkley", required_argument, NULL, OPTION_PAGE_HINKLEY},
    {"adwin", required_argument, NULL, OPTION_ADWIN},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* A number greater than 0 and at most `most`, followed by the character `end`; returns what is
   behind it, or NULL. */
static const char *parse_number(const char *text, char end, double most, double *value) {
    char *after;
    double number = strtod(text, &after);
    if (after == text || *after != end || !(number > 0 && number <= most))
        return NULL;
    *value = number;
    return after + (end != '\0');
}

static int take_number(const char *name, double most, double *value) {
    if (parse_number(optarg, '\0', most, value))
        return OPTIONS_GO_ON;
    return tool_usage("--%s is '%s', but must be a number greater than 0, at most %g", name, optarg,
                      most);
}

static int take_seconds(const char *name, double *value) {
    return tool_parse_seconds(optarg, value)
               ? OPTIONS_GO_ON
               : tool_usage("--%s is '%s', but must be seconds, 0 or more", name, optarg);
}

static int take_page_hinkley(struct drift_limits *limits) {
    const double most = 1e6;
    const char *delta = parse_number(optarg, ',', most, &limits->page_hinkley_lambda);
    if (delta ? parse_number(delta, '\0', most, &limits->page_hinkley_delta) != NULL
              : parse_number(optarg, '\0', most, &limits->page_hinkley_lambda) != NULL)
        return OPTIONS_GO_ON;
    return tool_usage("--page-hinkley is '%s', but must be LAMBDA or LAMBDA,DELTA, both greater "
                      "than 0",
                      optarg);
}

/* --only: all others off; --except: these off. */
static int take_kinds(struct options *o, const char *list, bool only) {
    if (only)
        memset(o->watched, 0, sizeof o->watched);
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        enum alert_kind kind = alert_find(at, length);
        if (kind == ALERT_KINDS)
            return tool_usage("there is no alert '%.*s'; --help has them all", (int)length, at);
        o->watched[kind] = only;
        at += length;
        if (!*at)
            return OPTIONS_GO_ON;
    }
}

/* The first line of the file. */
static char *read_url(const char *path) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file || getline(&line, &size, file) < 0) {
        tool_fail(EX_USAGE, "cannot read a URL from '%s': %s", path,
                  file && !ferror(file) ? "it is empty" : strerror(errno));
        free(line);
        line = NULL;
    }
    if (line)
        line[strcspn(line, " \t\r\n")] = '\0';
    if (file)
        fclose(file);
    return line;
}

static int take_url(struct options *o) {
    free(o->url);
    o->url = NULL;
    if (*optarg == '@' && !(o->url = read_url(optarg + 1)))
        return EX_USAGE;
    o->deliver.url = o->url ? o->url : optarg;
    if (post_is_url(o->deliver.url))
        return OPTIONS_GO_ON;
    return tool_usage(
        "--post takes a URL such as https://example.org/hook, http or https, or @FILE "
        "with one in it");
}

static int take_endpoint(struct options *o) {
    int status = tool_add_endpoint(o->endpoints, &o->daemons, ALERT_DAEMONS, optarg);
    return status == EX_OK ? OPTIONS_GO_ON : status;
}

static int take_limit(struct options *o, int option) {
    struct limits *limits = &o->limits;
    double megabytes = 0;
    int status;
    switch (option) {
    case 's':
        return take_seconds("silence", &limits->silence);
    case OPTION_SATURATED:
        return take_number("saturated", 1, &limits->saturated);
    case OPTION_QUEUE:
        return take_number("queue", 1e9, &limits->queue);
    case OPTION_WAITING:
        return take_number("waiting", 1e6, &limits->waiting);
    case OPTION_DISK:
        status = take_number("disk", 1e9, &megabytes);
        limits->disk = megabytes * MEGABYTE;
        return status;
    case OPTION_FLOOR:
        limits->drift.fixed = true;
        return take_number("floor", 1e6, &limits->drift.floor);
    case OPTION_PAGE_HINKLEY:
        return take_page_hinkley(&limits->drift);
    case OPTION_ADWIN:
        return take_number("adwin", 1, &limits->drift.adwin_delta);
    default:
        return tool_key_option(&o->keys, option) ? OPTIONS_GO_ON : tool_common_option(option, help);
    }
}

static int take_option(struct options *o, int option) {
    switch (option) {
    case 'c':
        return take_endpoint(o);
    case 'r':
        o->recording = optarg;
        return OPTIONS_GO_ON;
    case OPTION_POST:
        return take_url(o);
    case OPTION_TIMEOUT:
        return take_number("timeout", 3600, &o->deliver.seconds);
    case 'o':
    case 'x':
        return take_kinds(o, optarg, option == 'o');
    case 'i':
        return take_seconds("interval", &o->interval);
    case 'a':
        return take_seconds("again", &o->again);
    case 'j':
        o->json = true;
        return OPTIONS_GO_ON;
    case 'q':
        o->quiet = true;
        return OPTIONS_GO_ON;
    case 'v':
        o->verbose = true;
        return OPTIONS_GO_ON;
    default:
        return take_limit(o, option);
    }
}

static int settle(struct options *o, char **words) {
    if (o->recording && o->daemons > 0)
        return tool_usage("--replay and --connect exclude each other");
    if (*words)
        o->deliver.command = words;
    if (*words && !command_exists(*words))
        return tool_usage("there is no program '%s' to run", *words);
    if (!tool_keys_ready(&o->keys))
        return EX_USAGE;
    if (o->daemons == 0)
        o->endpoints[o->daemons++] = WIRE_STATISTICS;
    o->limits.calm = fmax(o->interval, CALM_LEAST);
    return OPTIONS_GO_ON;
}

int options_take(struct options *o, int argc, char **argv) {
    *o = (struct options){
        .limits = {.drift = {PAGE_HINKLEY_DELTA, PAGE_HINKLEY_LAMBDA, ADWIN_DELTA, FLOOR, false},
                   .silence = SILENCE,
                   .saturated = SATURATED,
                   .queue = QUEUE,
                   .waiting = WAITING,
                   .disk = DISK},
        .interval = INTERVAL,
        .deliver.seconds = TIMEOUT,
    };
    memset(o->watched, true, sizeof o->watched);
    int option, status = OPTIONS_GO_ON;
    /* +: what follows the command is the command's. */
    while (status == OPTIONS_GO_ON &&
           (option = getopt_long(argc, argv, "+c:r:o:x:i:a:s:jqvhV", names, NULL)) != -1)
        status = take_option(o, option);
    return status == OPTIONS_GO_ON ? settle(o, argv + optind) : status;
}

void options_clear(struct options *o) {
    free(o->url);
}
