/* runnel-feed: sends examples to runneld. This file has the options, the sources by name, and the
   main loop. */
#include "feed.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"
#include "feed_delivery.h"
#include "sources/feed_input.h"

/* ---- Schema ----

   The schema of a source's examples, see docs/reference/protocol.md. */

static json_t *names(const struct source *source, bool y, size_t count) {
    json_t *list = json_array();
    for (size_t k = 0; k < count; k++)
        if (json_array_append_new(list, json_string(source->type->column(source, y, k)))) {
            json_decref(list); /* not UTF-8: then only their number is sent */
            return json_integer((json_int_t)count);
        }
    return list;
}

static const char *dtype(const struct shape *shape) {
    return shape->kind == VALUE_CLASS ? "uint32" : "float32";
}

/* Describes examples with named columns, in any order; the model defines the types. */
static json_t *named(const struct source *source) {
    return json_pack("{s:{s:o, s:i}}", "schema", "names", names(source, false, source->x.count),
                     "targets", (int)source->y.count);
}

/* Describes examples of numbers. */
static json_t *numbered(const struct source *source) {
    json_t *schema = json_pack("{s:{s:s, s:o, s:o}}", "schema", "dtype", dtype(&source->x),
                               "columns", names(source, false, source->x.count), "targets",
                               names(source, true, source->y.count));
    if (schema && source->y.count > 0)
        json_object_set_new(json_object_get(schema, "schema"), "target_dtype",
                            json_string(dtype(&source->y)));
    return schema;
}

/* Returns the message, to be freed; NULL: out of memory. The source's type has `column`. */
static char *schema_of(const struct source *source) {
    json_t *schema = source->named ? named(source) : numbered(source);
    char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    return text;
}

/* ---- Run ----

   The loop of a feeder: it makes examples of steps and sends them at their rate. */

struct feed_settings {
    struct feed_call common;
    bool print;            /* print instead of sending */
    bool numbered;         /* every example has a header */
    bool schema;           /* send the schema first */
    bool learn;            /* false: every example has the flag "do not learn" */
    double rate;           /* examples per second, 0 = no limit */
    uint64_t repeat;       /* passes, 0 = forever */
    uint64_t count;        /* examples, 0 = no limit */
    uint64_t steps;        /* maximum per example */
    struct stream *stream; /* for steps without a stream */
};

/* Without a rate, the time is checked once per this many examples. */
enum { UNPACED_EXAMPLES = 256 };

enum { IDENTITY_SIZE = 64 }; /* "--producer 0123456789abcdef --epoch 4294967295" */

struct feeder {
    struct source *source;
    const struct feed_settings *settings;
    struct delivery delivery;
    uint64_t pass;
    double due; /* CLOCK_MONOTONIC of the next example */

    /* The example that is being collected, always used with --steps above 1. */
    unsigned char *x, *y;
    struct stream *stream;
    size_t steps;
    double time;
};

static double done(const void *context) {
    const struct feeder *feeder = context;
    const struct feed_settings *settings = feeder->settings;
    const struct source *source = feeder->source;
    double counted = NAN, passed = NAN;
    double share = source->type->done ? source->type->done(source)
                   : source->input    ? input_done(source->input)
                                      : NAN;
    if (settings->count)
        counted = (double)feeder->delivery.progress.examples / (double)settings->count;
    if (settings->repeat)
        passed = ((double)feeder->pass + share) / (double)settings->repeat;
    return fmax(counted, passed); /* whichever ends first; the other one if one is NAN */
}

/* A broker numbers the example, and may also deliver it to another feeder. */
static void adopt(struct feeder *feeder, const struct message_number *number,
                  struct runnel_example *example) {
    struct delivery *delivery = &feeder->delivery;
    example->flags |= RUNNEL_SPARSE;
    example->epoch = number->epoch;
    example->sequence = number->sequence;
    delivery->to.fresh = false;
    delivery->to.producer = number->producer;
    if (delivery->sender)
        runnel_sender_identify(delivery->sender, number->producer);
}

/* Sends an example of `stream`; sets its header. */
static int send_example(struct feeder *feeder, struct stream *stream,
                        const struct message_number *number, struct runnel_example *example,
                        size_t steps, bool end, double time, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    bool numbered =
        settings->numbered || settings->common.to.kind == RUNNEL_ROUTER || feeder->source->labels;
    example->key = stream->key;
    example->key_size = stream->key_size;
    bool several = settings->steps > 1 && !settings->print; /* the header announces several steps */
    example->headed = numbered || several || !settings->learn || end || time != 0 ||
                      example->note || example->words_size;
    example->flags |=
        (uint8_t)((end ? RUNNEL_END : 0) | (settings->learn ? 0 : RUNNEL_DO_NOT_LEARN));
    if (!example->json)
        example->epoch = (uint32_t)settings->common.epoch;
    if (!number)
        example->sequence = stream->sequence;
    else
        adopt(feeder, number, example);
    example->time = numbered && time == 0 ? clock_unix() : time;
    if (delivery_send(&feeder->delivery, example, steps, error) < 0)
        return -1;
    stream->sequence++;
    return 0;
}

/* Sends the collected steps, if any. */
static int flush(struct feeder *feeder, bool end, struct error *error) {
    const struct source *source = feeder->source;
    size_t steps = feeder->steps;
    if (steps == 0)
        return 0;
    struct runnel_example example = {.x = feeder->x,
                                     .y = source->y.count ? feeder->y : NULL,
                                     .x_size = steps * source->x.count * VALUE_SIZE,
                                     .y_size = steps * source->y.count * VALUE_SIZE};
    feeder->steps = 0;
    return send_example(feeder, feeder->stream, NULL, &example, steps, end, feeder->time, error);
}

/* Whether --count is reached. */
static bool enough(const struct feeder *feeder) {
    return feeder->settings->count && feeder->delivery.progress.examples >= feeder->settings->count;
}

/* Collects several steps per example: it ends when it is full, its sequence ends or the stream
   changes. */
static int bundle(struct feeder *feeder, const struct step *step, struct stream *stream,
                  struct error *error) {
    size_t x_size = feeder->source->x.count * VALUE_SIZE;
    size_t y_size = feeder->source->y.count * VALUE_SIZE;
    if (feeder->steps > 0 && feeder->stream != stream && flush(feeder, false, error) < 0)
        return -1;
    if (enough(feeder))
        return 0;
    if (feeder->steps == 0)
        feeder->time = step->time;
    feeder->stream = stream;
    memcpy(feeder->x + feeder->steps * x_size, step->x, x_size);
    if (y_size)
        memcpy(feeder->y + feeder->steps * y_size, step->y, y_size);
    feeder->steps++;
    return step->end || feeder->steps == feeder->settings->steps ? flush(feeder, step->end, error)
                                                                 : 0;
}

/* Converts a step to an example without a header. */
static struct runnel_example example_of(const struct feeder *feeder, const struct step *step) {
    const struct source *source = feeder->source;
    struct runnel_example example = {
        .x = step->x, .epoch = step->epoch, .json = step->json, .json_size = step->json_size};
    if (step->label) {
        example.flags = RUNNEL_LABEL;
        example.label_sequence = step->label_of;
        example.label_epoch = (uint32_t)feeder->settings->common.epoch;
    } else {
        example.x_size = (step->atoms ? step->atoms : 1) * source->x.count * VALUE_SIZE;
    }
    if (step->words_size) {
        example.flags |= RUNNEL_WORDS;
        example.words = step->words;
        example.words_size = step->words_size;
    }
    if (step->note) {
        example.flags |= RUNNEL_NOTE;
        example.note = step->note;
        example.note_size = strlen(step->note);
    }
    if (source->y.count && step->y) {
        example.y = step->y;
        example.y_size = source->y.count * VALUE_SIZE;
    }
    return example;
}

static int take(struct feeder *feeder, const struct step *step, struct error *error) {
    struct stream *stream = step->stream ? step->stream : feeder->settings->stream;
    if (feeder->settings->steps > 1 && !step->json)
        return bundle(feeder, step, stream, error);
    if (step->own_number) /* it may have been sent before */
        feeder->delivery.to.fresh = false;
    if (step->label && feeder->settings->rate > 0) /* a label is sent at once */
        feeder->due -= 1 / feeder->settings->rate;
    struct runnel_example example = example_of(feeder, step);
    return send_example(feeder, stream, step->number, &example, 1, step->end, step->time, error);
}

/* Prepares a step: waits for its time, and checks signals and the progress line. */
static int prepare(struct feeder *feeder, struct error *error) {
    double rate = feeder->settings->rate;
    if (feed_signals)
        return error_set(error, FEED_INTERRUPTED, "interrupted");
    if (rate > 0 && feeder->steps == 0) {
        if (delivery_pause(&feeder->delivery, &feeder->due, error) < 0)
            return -1;
        feeder->due += 1 / rate;
    }
    bool look = feeder->delivery.progress.examples % UNPACED_EXAMPLES == 0;
    return rate > 0 || look ? delivery_listen(&feeder->delivery, error) : 0;
}

static int run_pass(struct feeder *feeder, struct error *error) {
    struct source *source = feeder->source;
    while (!enough(feeder)) {
        struct step step = {0};
        if (prepare(feeder, error) < 0)
            return -1;
        int status = source->type->next(source, &step, error);
        if (status < 0) {
            struct error ignored; /* an error of the source takes precedence */
            flush(feeder, false, &ignored);
            return -1;
        }
        if (status == 0)
            return flush(feeder, false, error);
        if (take(feeder, &step, error) < 0)
            return -1;
    }
    return 0;
}

static int run_passes(struct feeder *feeder, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    struct source *source = feeder->source;
    for (feeder->pass = 0; !enough(feeder); feeder->pass++) {
        uint64_t before = feeder->delivery.progress.examples;
        if (run_pass(feeder, error) < 0)
            return -1;
        if (feeder->delivery.progress.examples == before && !source->type->endless)
            return error_set(error, EX_DATAERR, "it contains no examples");
        if (settings->repeat && feeder->pass + 1 >= settings->repeat)
            break;
        if (!enough(feeder) && source->type->rewind(source, feeder->pass + 1, error) < 0)
            return -1;
    }
    return 0;
}

static int send_schema(struct feeder *feeder, struct error *error) {
    char *text = schema_of(feeder->source);
    int status = text ? delivery_schema(&feeder->delivery, text, error) : error_no_memory(error);
    free(text);
    return status;
}

/* Waits for the daemon, then sends. */
static int start(struct feeder *feeder, struct error *error) {
    const struct feed_settings *settings = feeder->settings;
    if (delivery_open(&feeder->delivery, settings->common.wait, error) < 0)
        return -1;
    if (settings->schema && send_schema(feeder, error) < 0)
        return -1;
    feeder->due = clock_seconds();
    if (feeder->source->type->spans && settings->rate > 0)
        feeder->due += 1 / settings->rate; /* the first sample covers the time since open */
    return run_passes(feeder, error);
}

/* A source may have an error after many good examples. */
static void count_good(const struct feeder *feeder, struct error *error) {
    unsigned long long examples = feeder->delivery.progress.examples;
    if (error->status == EX_DATAERR && examples > 0)
        text_append(error->text, sizeof error->text, "; %llu good example%s before it %s %s",
                    examples, text_s(examples), examples == 1 ? "was" : "were",
                    feeder->settings->print ? "printed" : "sent");
}

/* Prints the options that send the same examples with the same numbers again. */
static void print_identity(const struct feeder *feeder, char text[IDENTITY_SIZE]) {
    const struct feed_call *common = &feeder->settings->common;
    *text = '\0';
    if (common->to.producer)
        text_append(text, IDENTITY_SIZE, "--producer %llx ",
                    (unsigned long long)common->to.producer);
    text_append(text, IDENTITY_SIZE, "--epoch %lu", (unsigned long)common->epoch);
}

/* Another call can send the unacknowledged and remaining examples, unless they were samples. */
static void report_epoch(const struct feeder *feeder, int status, bool interrupted,
                         struct error *error) {
    char identity[IDENTITY_SIZE];
    bool again = feeder->settings->common.to.kind == RUNNEL_ROUTER && !feeder->settings->print;
    if (feeder->source->type->live || feeder->source->type->settled)
        return; /* the broker keeps unacknowledged messages */
    print_identity(feeder, identity);
    if (status < 0 && error->status == EX_TEMPFAIL)
        text_append(error->text, sizeof error->text,
                    "; to learn them, repeat the call with %s (nothing is learned twice)",
                    identity);
    else if (status == 0 && interrupted && again && feeder->delivery.progress.examples > 0)
        feed_print(
            "interrupted; to learn the rest, repeat the call with %s (nothing is learned twice)",
            identity);
}

static void settled(void *context, uint64_t count) {
    struct source *source = context;
    source->type->settled(source, count);
}

/* Runs an opened source to its end or to a signal, and prints the summary. */
static int feed_run(struct source *source, const struct feed_settings *settings,
                    struct error *error) {
    struct feeder feeder = {.source = source, .settings = settings};
    feeder.delivery = (struct delivery){.to = settings->common.to,
                                        .print = settings->print,
                                        .x = &source->x,
                                        .y = &source->y,
                                        .linger = settings->common.linger,
                                        .done = done,
                                        .context = &feeder,
                                        .settled = source->type->settled ? settled : NULL,
                                        .source = source,
                                        .strict = source->strict,
                                        .maps = source->type->maps};
    feeder.x = malloc(settings->steps * source->x.count * VALUE_SIZE + 1);
    feeder.y = malloc(settings->steps * source->y.count * VALUE_SIZE + 1);
    int status = feeder.x && feeder.y ? start(&feeder, error) : error_no_memory(error);
    bool failed = status < 0, interrupted = failed && error->status == FEED_INTERRUPTED;
    status = delivery_close(&feeder.delivery, status, source->skipped, error);
    if (failed && !delivery_refused(&feeder.delivery))
        count_good(&feeder, error);
    report_epoch(&feeder, status, interrupted, error);
    free(feeder.x);
    free(feeder.y);
    return status;
}

/* ---- Program ---- */

#define RATE_MAX 1e9

/* A daemon rejects examples with more steps. */
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

static int set_endpoint(void *values, const struct option_row *row, const char *text,
                        struct error *error) {
    struct destination *to = &((struct call *)values)->settings.common.to;
    (void)error;
    to->endpoint = text;
    to->bind = row->letter != 'c';
    return 0;
}

/* Parses a rate as seconds per example. */
static int parse_every(void *values, const struct option_row *row, const char *text,
                       struct error *error) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 1 / RATE_MAX && seconds <= OPTION_SECONDS_MAX))
        return error_set(error, EX_USAGE, "--%s: expected seconds, got '%s'", row->name, text);
    ((struct call *)values)->settings.rate = 1 / seconds;
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's examples socket (default " WIRE_EXAMPLES ")",
     OPTION_TAKE(set_endpoint)},
    {"bind", 0, "ENDPOINT", "wait at this address for a daemon that connects",
     OPTION_TAKE(set_endpoint)},
    {"rate", 0, "N", "examples per second (default: no limit; host: 20, prometheus: 1/15)",
     OPTION_REAL(struct call, settings.rate, 0, RATE_MAX)},
    {"every", 0, "SECONDS", "send an example at this interval: --rate 1/SECONDS",
     OPTION_TAKE(parse_every)},
    {"repeat", 0, "N", "read the input N times; 0 = forever (default 1)",
     OPTION_COUNT(struct call, settings.repeat, 0, UINT64_MAX),
     OPTION_GIVEN(struct call, repeat_given)},
    {"count", 0, "N", "stop after N examples",
     OPTION_COUNT(struct call, settings.count, 1, UINT64_MAX)},
    {"stream", 0, "KEY", "name of the stream (default: the source's name)",
     OPTION_TEXT(struct call, stream)},
    {"steps", 0, "N", "put N steps into one example (text, lines, csv, synth; default 1)",
     OPTION_COUNT(struct call, settings.steps, 1, STEPS_MAX)},
    {"schema", 0, NULL,
     "first send the schema of the examples: with --socket router, a daemon with another model "
     "rejects them, and none is sent (csv, host, lines, prometheus)",
     OPTION_FLAG(struct call, settings.schema)},
    {"no-learn", 0, NULL, "mark examples to be predicted and scored, but not learned",
     OPTION_CLEAR(struct call, settings.learn)},
    {"numbered", 0, NULL, "send the header with number and time in every example",
     OPTION_FLAG(struct call, settings.numbered)},
    FEED_CALL_EPOCH(struct call, settings.common,
                    "epoch of the header (default: the time of the start)"),
    FEED_CALL_PRODUCER(struct call, settings.common,
                       "producer of the numbers, up to 16 hexadecimal digits, with epoch 0 "
                       "(default: a new producer for each call; none with --epoch)"),
    {"skip-bad", 0, NULL, "skip and count bad rows instead of ending",
     OPTION_FLAG(struct call, skip_bad)},
    {"print", 0, NULL, "print examples as JSON lines instead of sending them",
     OPTION_FLAG(struct call, settings.print)},
    {"dry-run", 0, NULL, "same as --print", OPTION_FLAG(struct call, settings.print)},
    FEED_CALL_OPTIONS(struct call, settings.common),
    OPTIONS_LAST,
};

/* Handles a call without a source: only --help and --version are allowed. */
static int parse_alone(struct command_line *line, int count, char **arguments) {
    char names[OPTIONS_NAMES_SIZE], **operands;
    int status = options_parse(line, count, arguments, &operands);
    return status == OPTIONS_GO_ON
               ? options_complain(line, "expected a source first: %s", options_names(names, line))
               : status;
}

/* Parses `SOURCE [OPTION]... [OPERAND]...` and creates the source. Returns OPTIONS_GO_ON or the
   exit status. */
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
    call->source = calloc(1, call->type->size);
    if (!call->source) {
        fprintf(stderr, "%s: out of memory\n", line->name);
        return EX_OSERR;
    }
    if (call->type->set_defaults)
        call->type->set_defaults(call->source);
    call->source->type = call->type;
    call->source->label = call->type->command.name;
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

/* Checks that the source supports the options. */
static int check(const struct call *call, struct error *error) {
    const struct feed_settings *s = &call->settings;
    const struct source_type *type = call->type;
    if (s->steps > 1 && !type->bundles)
        return error_set(error, EX_USAGE, "--steps: not supported by %s", type->command.name);
    if (s->common.to.kind == RUNNEL_ROUTER && s->common.to.bind)
        return error_set(
            error, EX_USAGE,
            "--bind: not supported with --socket router, which connects to the daemon");
    if (s->schema && !type->column)
        return error_set(error, EX_USAGE,
                         "--schema: not supported by %s, whose numbers have no names",
                         type->command.name);
    if (type->ready && (s->numbered || !s->learn))
        return error_set(error, EX_USAGE,
                         "--numbered, --no-learn: not supported by %s, which sends %s unchanged",
                         type->command.name, type->settled ? "examples" : "lines");
    if (type->endless && call->repeat_given)
        return error_set(error, EX_USAGE,
                         "--repeat: not supported by %s, which never ends; use --count",
                         type->command.name);
    if (type->live && type->rate > 0 && s->rate == 0)
        return error_set(error, EX_USAGE, "--rate: expected examples per second, got 0");
    if (call->source->messages && s->steps > 1)
        return error_set(error, EX_USAGE,
                         "--steps: not supported with --message, where an example is one line");
    if (call->source->labels && s->steps > 1)
        return error_set(error, EX_USAGE,
                         "--steps: not supported with --label-file, where an example is one row");
    if (call->source->once && s->repeat != 1)
        return error_set(error, EX_USAGE, "--repeat: cannot read a pipe a second time");
    return 0;
}

/* Numbers begin at 0 in every call. The producer distinguishes calls, unless --epoch or --producer
   marks the same data. */
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
        setvbuf(stdout, NULL, _IOLBF, 0); /* readers get each example at once */
    if (source->type->open(source, operands, error) < 0 || check(call, error) < 0)
        return -1;
    const char *key = call->stream ? call->stream : source->label;
    const char *wrong = stream_name(&stream, key, strlen(key));
    if (wrong)
        return error_set(error, EX_USAGE, "--stream: invalid stream name '%s': %s", key, wrong);
    settings->stream = &stream;
    if (settings->schema && !settings->print && settings->common.to.kind == RUNNEL_PUSH)
        feed_print("--schema: with --socket push, the daemon only counts and reports examples that "
                   "do not fit its model; with --socket router, it rejects them at once");
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
        .ending = "Each source has its own options: runnel-feed SOURCE --help. Files may be "
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
        call.type->close(call.source);
    free(call.source);
    return status;
}
