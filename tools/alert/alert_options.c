#include "alert_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "alert_command.h"
#include "alert_post.h"
#include "common/complain.h"
#include "common/wire.h"
#include "tools/shared/watch_health.h"

#define INTERVAL 60.0  /* seconds */
#define CALM_LEAST 1.0 /* seconds */
#define SATURATED 0.5
#define QUEUE 100.0
#define WAITING 10.0 /* seconds */
#define DISK 256.0   /* MiB, where the daemon warns too */
#define FLOOR 1e-6
#define TIMEOUT 30.0 /* seconds */
#define TIMEOUT_MAX 3600
#define MEGABYTE 1048576.0

/* A number greater than 0 and at most `most`, followed by the character `end`; returns what
   follows it, or NULL. */
static const char *parse_number(const char *text, char end, double most, double *value) {
    char *after;
    double number = strtod(text, &after);
    if (after == text || *after != end || !(number > 0 && number <= most))
        return NULL;
    *value = number;
    return after + (end != '\0');
}

static int take_page_hinkley(void *values, const struct option_row *row, const char *text,
                             struct error *error) {
    const double most = 1e6;
    struct drift_limits *limits = &((struct options *)values)->limits.drift;
    const char *delta = parse_number(text, ',', most, &limits->page_hinkley_lambda);
    if (delta ? parse_number(delta, '\0', most, &limits->page_hinkley_delta) != NULL
              : parse_number(text, '\0', most, &limits->page_hinkley_lambda) != NULL)
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: found '%s', expected LAMBDA or LAMBDA,DELTA, both greater than 0",
                     row->name, text);
}

/* --only: all others off; --except: these off. */
static int take_kinds(void *values, const struct option_row *row, const char *list,
                      struct error *error) {
    struct options *o = values;
    bool only = row->letter == 'o';
    if (only)
        memset(o->watched, 0, sizeof o->watched);
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        enum alert_kind kind = alert_find(at, length);
        if (kind == ALERT_KINDS)
            return error_set(error, EX_USAGE, "--%s: there is no alert '%.*s'; --help has them all",
                             row->name, (int)length, at);
        o->watched[kind] = only;
        at += length;
        if (!*at)
            return 0;
    }
}

/* The first line of the file; NULL with `error` filled. */
static char *read_url(const char *path, struct error *error) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file || getline(&line, &size, file) < 0) {
        error_set(error, EX_USAGE, "cannot read a URL from '%s': %s", path,
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

static int take_url(void *values, const struct option_row *row, const char *text,
                    struct error *error) {
    struct options *o = values;
    free(o->url);
    o->url = NULL;
    if (*text == '@' && !(o->url = read_url(text + 1, error)))
        return -1;
    o->deliver.url = o->url ? o->url : text;
    if (post_is_url(o->deliver.url))
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: expected a URL such as https://example.org/hook, http or https, or "
                     "@FILE with one in it",
                     row->name);
}

#define KINDS                                                                                      \
    "silence restart non-finite rising page-hinkley adwin dead saturated queue rejected journal "  \
    "disk gap input_scale worse_than_baseline anomaly idle"

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, ALERT_DAEMONS), .unique = true},
    KEY_OPTIONS(struct options, keys),
    {"post", 0, "URL", "post each alert there as JSON; @FILE: the URL is in that file",
     OPTION_TAKE(take_url)},
    {"timeout", 0, "SECONDS", "for one command or post (default 30)",
     OPTION_POSITIVE(struct options, deliver.seconds, TIMEOUT_MAX)},
    {"only", 'o', "KINDS", "watch for these alone, with commas between them",
     OPTION_TAKE(take_kinds), .complete = COMPLETE_WORDS, .words = KINDS},
    {"except", 'x', "KINDS", "watch for all but these: " KINDS, OPTION_TAKE(take_kinds),
     .complete = COMPLETE_WORDS, .words = KINDS},
    {"interval", 'i', "SECONDS", "least time between two alerts of a kind (default 60)",
     OPTION_SECONDS(struct options, interval)},
    {"again", 'a', "SECONDS", "remind of what still holds; 0 = never (default 0)",
     OPTION_SECONDS(struct options, again)},
    {"json", 'j', NULL, "print each alert as one line of JSON", OPTION_FLAG(struct options, json)},
    {"quiet", 'q', NULL, "print no alerts", OPTION_FLAG(struct options, quiet)},
    {"replay", 'r', "FILE",
     "say what would have been said of a recording, as runnel-watch --json writes it; - = standard "
     "input",
     OPTION_FILE(struct options, recording)},
    {"verbose", 'v', NULL, "report connections and lost messages on standard error",
     OPTION_FLAG(struct options, verbose)},
    OPTIONS_LAST,
};

static const struct option_row limits[] = {
    {"silence", 's', "SECONDS", "without a message; 0 = never (default 15)",
     OPTION_SECONDS(struct options, limits.silence)},
    {"idle", 0, "SECONDS", "in which no example was learned; 0 = never (default 0)",
     OPTION_SECONDS(struct options, limits.idle)},
    {"saturated", 0, "SHARE", "of the units of a layer (default 0.5)",
     OPTION_POSITIVE(struct options, limits.saturated, 1)},
    {"queue", 0, "EXAMPLES", "that wait to be learned (default 100)",
     OPTION_POSITIVE(struct options, limits.queue, 1e9)},
    {"waiting", 0, "SECONDS", "that an example waits for the journal's disk (default 10)",
     OPTION_POSITIVE(struct options, limits.waiting, 1e6)},
    {"disk", 0, "MB", "free for the journal (default 256)",
     OPTION_POSITIVE(struct options, megabytes, 1e9)},
    {"floor", 0, "LOSS",
     "losses below count as this (default: a hundredth of what the loss was in the beginning, and "
     "1e-6)",
     OPTION_POSITIVE(struct options, limits.drift.floor, 1e6),
     OPTION_GIVEN(struct options, limits.drift.fixed)},
    {"page-hinkley", 0, "LAMBDA[,DELTA]", "in standard deviations (default 15,0.5)",
     OPTION_TAKE(take_page_hinkley)},
    {"adwin", 0, "DELTA", "(default 0.002)",
     OPTION_POSITIVE(struct options, limits.drift.adwin_delta, 1)},
    OPTIONS_END,
};

static int settle(struct options *o, char **words) {
    if (o->recording && o->endpoints.count > 0)
        return complain_usage("--replay and --connect exclude each other");
    if (*words)
        o->deliver.command = words;
    if (*words && !command_exists(*words))
        return complain_usage("there is no program '%s' to run", *words);
    if (!key_options_ready(&o->keys))
        return EX_USAGE;
    if (!o->endpoints.count)
        o->endpoints.values[o->endpoints.count++] = WIRE_STATISTICS;
    o->limits.calm = fmax(o->interval, CALM_LEAST);
    o->limits.disk = o->megabytes * MEGABYTE;
    return OPTIONS_GO_ON;
}

int options_take(struct options *o, int argc, char **argv) {
    const struct command_line line = {
        .name = "runnel-alert",
        .operands = "[COMMAND [ARGUMENT]...]",
        .summary =
            "Watch running runnelds and say when something is wrong with one, and when it is over. "
            "COMMAND is run for each alert: with the alert as JSON on its standard input and in "
            "the environment as RUNNEL_ALERT_KIND, RUNNEL_ALERT_TEXT, ...",
        .ending = "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 66 no recording, 69 "
                  "no sockets to be had, 74 standard output takes no more.",
        .groups = {{NULL, rows, o}, {"Limits:", limits, o}},
        .complete = COMPLETE_PROGRAM,
        .options_first = true,
    };
    *o = (struct options){
        .limits = {.drift = {PAGE_HINKLEY_DELTA, PAGE_HINKLEY_LAMBDA, ADWIN_DELTA, FLOOR, false},
                   .silence = HEALTH_SILENCE,
                   .saturated = SATURATED,
                   .queue = QUEUE,
                   .waiting = WAITING},
        .megabytes = DISK,
        .interval = INTERVAL,
        .deliver.seconds = TIMEOUT,
    };
    memset(o->watched, true, sizeof o->watched);
    char **words;
    int status = options_parse(&line, argc, argv, &words);
    return status == OPTIONS_GO_ON ? settle(o, words) : status;
}

void options_clear(struct options *o) {
    free(o->url);
}
