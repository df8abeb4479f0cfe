/* runnel-feed: sends examples to runneld. Options and sources by name; the work is done in
   feed_run.c. */
#include "feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "feed_run.h"

#define RATE_MAX 1e9

/* A daemon takes no example with more steps. */
enum { STEPS_MAX = 4096 };

static const struct command_row *const SOURCES[] = {
    &source_text.command,       &source_csv.command,   &source_idx.command,
    &source_host.command,       &source_synth.command, &source_json.command,
    &source_lines.command,      &source_mqtt.command,  &source_redis.command,
    &source_kafka.command,      &source_nats.command,  &source_journal.command,
    &source_prometheus.command, &source_http.command,  NULL};

struct call {
    struct feed_settings settings;
    const struct source_type *type;
    struct source *source;
    const char *stream;
    bool repeat_given, skip_bad;
};

static int take_endpoint(void *values, const struct option_row *row, const char *text,
                         struct error *error) {
    struct destination *to = &((struct call *)values)->settings.common.to;
    (void)error;
    to->endpoint = text;
    to->bind = row->letter != 'c';
    return 0;
}

/* The other way to say a rate. */
static int take_every(void *values, const struct option_row *row, const char *text,
                      struct error *error) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 1 / RATE_MAX && seconds <= OPTION_SECONDS_MAX))
        return error_set(error, EX_USAGE, "--%s: found '%s', expected seconds", row->name, text);
    ((struct call *)values)->settings.rate = 1 / seconds;
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's examples socket (default " WIRE_EXAMPLES ")",
     OPTION_TAKE(take_endpoint)},
    {"bind", 0, "ENDPOINT", "wait there for a daemon that connects", OPTION_TAKE(take_endpoint)},
    {"rate", 0, "N", "examples per second (default: no limit; host: 20, prometheus: 1/15)",
     OPTION_REAL(struct call, settings.rate, 0, RATE_MAX)},
    {"every", 0, "SECONDS", "an example in so many seconds: --rate 1/SECONDS",
     OPTION_TAKE(take_every)},
    {"repeat", 0, "N", "read everything N times, 0 = forever (default 1)",
     OPTION_COUNT(struct call, settings.repeat, 0, UINT64_MAX),
     OPTION_GIVEN(struct call, repeat_given)},
    {"count", 0, "N", "stop after N examples",
     OPTION_COUNT(struct call, settings.count, 1, UINT64_MAX)},
    {"stream", 0, "KEY", "name of the stream (default: the name of the source)",
     OPTION_TEXT(struct call, stream)},
    {"steps", 0, "N", "put N steps into one example (text, lines, csv, synth; default 1)",
     OPTION_COUNT(struct call, settings.steps, 1, STEPS_MAX)},
    {"schema", 0, NULL,
     "say first what examples have: with --socket router a daemon of another model refuses them "
     "at once (csv, host, lines, prometheus)",
     OPTION_FLAG(struct call, settings.schema)},
    {"no-learn", 0, NULL, "mark examples: predict and score, but do not learn",
     OPTION_CLEAR(struct call, settings.learn)},
    {"numbered", 0, NULL, "send the header with number and time with every example",
     OPTION_FLAG(struct call, settings.numbered)},
    FEED_CALL_EPOCH(struct call, settings.common,
                    "the header's epoch (default: the time of the start)"),
    FEED_CALL_PRODUCER(struct call, settings.common,
                       "whose numbers these are, up to 16 hexadecimal digits; the epoch is then 0 "
                       "(default: a new one for each call, none with --epoch)"),
    {"skip-bad", 0, NULL, "skip bad rows and count them, instead of ending",
     OPTION_FLAG(struct call, skip_bad)},
    {"print", 0, NULL, "write examples as lines of JSON instead of sending them",
     OPTION_FLAG(struct call, settings.print)},
    {"dry-run", 0, NULL, "the same", OPTION_FLAG(struct call, settings.print)},
    FEED_CALL_OPTIONS(struct call, settings.common),
    OPTIONS_LAST,
};

/* Without a source only --help and --version are a whole call. */
static int parse_alone(struct command_line *line, int count, char **arguments) {
    char names[OPTIONS_NAMES_SIZE], **operands;
    int status = options_parse(line, count, arguments, &operands);
    return status == OPTIONS_GO_ON
               ? options_complain(line, "the source comes first: %s", options_names(names, line))
               : status;
}

/* `SOURCE [OPTION]... [OPERAND]...`; the source is created. OPTIONS_GO_ON or the exit status. */
static int parse(struct call *call, struct command_line *line, int count, char **arguments,
                 char ***operands) {
    line->groups[0] = (struct option_group){"Options of every source:", OPTIONS, call};
    if (count < 2 || arguments[1][0] == '-')
        return parse_alone(line, count, arguments);
    line->command = options_command(line, arguments[1]);
    if (!line->command)
        return EX_USAGE;
    call->type = (const struct source_type *)line->command;
    if (call->type->missing) {
        fprintf(stderr, "%s: %s\n", line->name, call->type->missing);
        return EX_UNAVAILABLE;
    }
    call->source = call->type->create();
    if (!call->source) {
        fprintf(stderr, "%s: out of memory\n", line->name);
        return EX_OSERR;
    }
    call->source->type = call->type;
    call->settings.rate = call->type->rate;
    if (call->type->settled)
        call->settings.common.to.kind = RUNNEL_ROUTER;
    line->commands = NULL;
    line->summary = line->command->summary;
    line->ending = call->type->notes;
    if (line->command->rows) {
        line->groups[1] = line->groups[0];
        line->groups[0] = (struct option_group){NULL, line->command->rows, call->source};
    }
    int status = options_parse(line, count - 1, arguments + 1, operands);
    call->source->skip_bad = call->skip_bad;
    return status;
}

/* What options ask of the source must be something that it can do. */
static int check(const struct call *call, struct error *error) {
    const struct feed_settings *s = &call->settings;
    const struct source_type *type = call->type;
    if (s->steps > 1 && !type->bundles)
        return error_set(error, EX_USAGE, "--steps: not with %s", type->command.name);
    if (s->common.to.kind == RUNNEL_ROUTER && s->common.to.bind)
        return error_set(error, EX_USAGE,
                         "--bind: not with --socket router, which connects to the daemon");
    if (s->schema && !type->column)
        return error_set(error, EX_USAGE, "--schema: not with %s, whose numbers have no names",
                         type->command.name);
    if (type->ready && (s->numbered || !s->learn))
        return error_set(error, EX_USAGE, "--numbered, --no-learn: %s sends %s as they are",
                         type->command.name, type->settled ? "examples" : "lines");
    if (type->endless && call->repeat_given)
        return error_set(error, EX_USAGE, "--repeat: %s never ends; see --count",
                         type->command.name);
    if (type->live && type->rate > 0 && s->rate == 0)
        return error_set(error, EX_USAGE, "--rate: found 0, expected examples per second");
    if (call->source->labels && s->steps > 1)
        return error_set(error, EX_USAGE, "--steps: not with --label-file: an example is a row");
    if (call->source->once && s->repeat != 1)
        return error_set(error, EX_USAGE, "--repeat: a pipe cannot be read a second time");
    return 0;
}

/* Numbers begin at 0 in every call: those of another call are told apart by the producer, unless an
   epoch or a producer says that it is the same data again. */
static void identify(struct call *call) {
    struct feed_call *common = &call->settings.common;
    if (common->producer && !common->epoch_given)
        common->epoch = 0;
    common->to.fresh = !common->producer && !common->epoch_given && !call->settings.print;
    if (common->to.fresh)
        common->to.producer = runnel_producer();
    call->source->epoch = (uint32_t)common->epoch;
    call->source->producer = common->to.producer;
    call->source->producer_given = common->producer != NULL;
    call->source->epoch_given = common->epoch_given || common->producer;
}

static int feed(struct call *call, char **operands, struct error *error) {
    struct stream stream;
    struct source *source = call->source;
    struct feed_settings *settings = &call->settings;
    source->forced = call->stream;
    source->numbers = settings->common.to.kind == RUNNEL_ROUTER;
    if (feed_call_start(&settings->common, "runnel-feed",
                        !settings->print || !isatty(STDOUT_FILENO), error) < 0)
        return -1;
    identify(call);
    if (settings->print && (settings->rate > 0 || call->type->endless))
        setvbuf(stdout, NULL, _IOLBF, 0); /* readers get each example when it comes */
    if (source->type->open(source, operands, error) < 0 || check(call, error) < 0)
        return -1;
    const char *key = call->stream ? call->stream : source->label;
    const char *wrong = stream_name(&stream, key, strlen(key));
    if (wrong)
        return error_set(error, EX_USAGE, "--stream: '%s' is no name of a stream: %s", key, wrong);
    settings->stream = &stream;
    if (settings->schema && !settings->print && settings->common.to.kind == RUNNEL_PUSH)
        feed_say("--schema: with --socket push the daemon only counts and announces that examples "
                 "do not fit its model; with --socket router it refuses them at once");
    return feed_run(source, settings, error);
}

int main(int count, char **arguments) {
    struct error error = {0};
    struct call call = {.settings = {.common = {FEED_CALL_DEFAULTS, .epoch = (uint32_t)time(NULL)},
                                     .learn = true,
                                     .repeat = 1,
                                     .steps = 1}};
    struct command_line line = {
        .name = "runnel-feed",
        .operands = "SOURCE",
        .summary = "Send examples to runneld.",
        .ending = "Each source has options of its own: runnel-feed SOURCE --help. Files may be "
                  "compressed with gzip; '-' is standard input.",
        .commands_heading = "Sources",
        .commands = SOURCES,
        .command_first = true,
    };
    char **operands;
    int status = parse(&call, &line, count, arguments, &operands);
    if (status == OPTIONS_GO_ON)
        status = feed_call_end(&line, feed(&call, operands, &error), &error);
    if (call.source)
        call.type->close(&call.source);
    return status;
}
