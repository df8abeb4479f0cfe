/* runnel-bench: measures how fast a configuration learns on this machine, and the least possible
   time. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "bench_report.h"
#include "bench_socket.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/options.h"
#include "common/text.h"
#include "config/config.h"
#include "engine/cuda_module.h"
#include "engine/engines.h"
#include "learner/learner.h"

enum { BENCH_MEMBERS_SIZE = 4096 };

/* Whether the members are those of preset: forecast. */
static bool are_of_preset(const struct config *config) {
    return config->preset && config->member_count == 2 &&
           !strcmp(config->members[0].name, "change") && !strcmp(config->members[1].name, "level");
}

/* The override for several networks: "members=[{name: m1, set: {seed: 7}}, ...]". The first has
   the configuration's seed, and each further one the next. -1 (EX_CONFIG): the configuration
   lists members (except those of preset: forecast), or does not support them. */
static int bench_members(const struct config *config, const char *path, size_t count,
                         char text[BENCH_MEMBERS_SIZE], struct error *error) {
    if (!input_has_experts(&config->architecture.input))
        return error_set(error, EX_CONFIG,
                         "%s: --members requires model.input.scale: forecast; add --set "
                         "model.input.scale=forecast and --set model.output.target=next",
                         path);
    if (config->members_given && !are_of_preset(config))
        return error_set(
            error, EX_CONFIG,
            "%s: the configuration lists members, which --members replaces; remove one of the two",
            path);
    snprintf(text, BENCH_MEMBERS_SIZE, "members=[");
    for (size_t n = 0; n < count; n++)
        text_append(text, BENCH_MEMBERS_SIZE, "%s{name: m%zu, set: {seed: %" PRIu64 "}}",
                    n ? ", " : "", n + 1, config->seed + n);
    text_append(text, BENCH_MEMBERS_SIZE, "]");
    return 0;
}

enum {
    PLAN = 64, /* queued examples, without --plan */
    PLAN_MAX = 10000,
    EXAMPLES = 2000, /* learned before any measurement, without --examples */
    ROUNDS_MIN = 3,
    STREAMS = 1,
    DEVICE_SIZE = 64, /* size of an override of the device */
};
#define EXAMPLES_MAX 1000000000000

static const double SECONDS = 5, SLICE = 0.05, LONG_SLICE = 0.2, SOCKET_SLICE = 0.5,
                    MICROSECONDS = 1e6;

struct arguments {
    const char *config;
    struct option_list overrides;
    double seconds;
    uint64_t examples, plan, members;
    bool socket, json;
    const char *bind, *daemon;
    const char *parameters;          /* output file; NULL: measure */
    char device[DEVICE_SIZE];        /* an override, in `overrides` if given */
    char making[BENCH_MEMBERS_SIZE]; /* the override of --members */
};

/* The objects to measure. */
struct bench {
    struct arguments *arguments;
    struct config config;
    struct model model;
    struct engines_choice engine;
    struct cuda_figures gpu;
    struct bench_data data;
    struct bench_learner *learner;
    struct config lone_config; /* the first member alone, with --members */
    struct bench_learner *lone;
    struct bench_split *split;
    struct bench_socket *socket;
    struct bench_report report;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* ---- The command line ---- */

static int take_device(void *values, const struct option_row *row, const char *text,
                       struct error *error) {
    struct arguments *a = values;
    if (snprintf(a->device, DEVICE_SIZE, "device=%s", text) >= DEVICE_SIZE ||
        a->overrides.count == OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "--%s: expected auto, cpu, cuda or cuda:N, got '%s'",
                         row->name, text);
    a->overrides.values[a->overrides.count++] = a->device;
    return 0;
}

static char key_names[CONFIG_NAMES_SIZE];

static const struct option_row rows[] = {
    {"config", 'f', "FILE", "configuration file, see runnel.yaml(5)",
     OPTION_FILE(struct arguments, config), .required = true},
    {"set", 's', "KEY=VALUE", "override one key",
     OPTION_LIST(struct arguments, overrides, OPTION_LIST_MAX), .complete = COMPLETE_WORDS,
     .words = key_names},
    {"device", 0, "NAME", "device to measure: auto, cpu, cuda or cuda:N (the configuration's)",
     OPTION_TAKE(take_device), .complete = COMPLETE_WORDS, .words = "auto cpu cuda"},
    {"seconds", 0, "S", "duration of the measurement (5)",
     OPTION_SECONDS(struct arguments, seconds)},
    {"examples", 0, "N", "learn N examples first and check memory (2000)",
     OPTION_COUNT(struct arguments, examples, 1, EXAMPLES_MAX)},
    {"plan", 0, "N", "length of the queue for queued examples (64)",
     OPTION_COUNT(struct arguments, plan, 1, PLAN_MAX)},
    {"members", 0, "K",
     "measure K networks of the configuration (1 to 64) as members of one daemon, and one of them "
     "alone (requires model.input.scale: forecast)",
     OPTION_COUNT(struct arguments, members, 1, CONFIG_MEMBERS_MAX)},
    {"socket", 0, NULL, "also measure through the socket of a runneld",
     OPTION_FLAG(struct arguments, socket)},
    {"bind", 0, "ENDPOINT", "address of that socket (tcp://127.0.0.1:*)",
     OPTION_TEXT(struct arguments, bind)},
    {"daemon", 0, "PROGRAM", "path of runneld (in the directory of this program)",
     OPTION_FILE(struct arguments, daemon)},
    {"json", 'j', NULL, "print JSON", OPTION_FLAG(struct arguments, json)},
    {"parameters", 0, "FILE", "learn the examples and write the parameters, without measuring",
     OPTION_FILE(struct arguments, parameters)},
    OPTIONS_LAST,
};

/* ---- Measuring ---- */

static bool on_gpu(const struct bench *b) {
    return b->engine.ops != &cpu_engine;
}

static int open_learner(struct bench *b, struct error *error) {
    size_t plan = b->arguments->plan;
    if (engines_choose(&b->engine, b->config.device, &b->config, error))
        return -1;
    for (;;) {
        if (bench_learner_open(&b->learner, &b->config, &b->model, b->engine.ops, &b->data, plan,
                               error) == 0)
            return 0;
        if (!engines_fall_back(&b->engine, error))
            return -1;
    }
}

static int load(struct bench *b, struct error *error) {
    const struct arguments *a = b->arguments;
    return config_load(&b->config, a->config, a->overrides.values, a->overrides.count, error);
}

/* Loads again with the members' override for --members. */
static int load_all(struct bench *b, struct error *error) {
    struct arguments *a = b->arguments;
    if (load(b, error))
        return -1;
    if (!a->members)
        return 0;
    if (bench_members(&b->config, a->config, a->members, a->making, error))
        return -1;
    if (a->overrides.count == OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "--members: too many --set options; remove some");
    a->overrides.values[a->overrides.count++] = a->making;
    return load(b, error);
}

static int open_bench(struct bench *b, struct error *error) {
    if (load_all(b, error))
        return -1;
    b->config.learning.max_streams = STREAMS;
    model_build(&b->model, &b->config.architecture);
    if (bench_data_open(&b->data, &b->model, b->config.seed))
        return error_set(error, EX_OSERR, "out of memory for examples");
    return open_learner(b, error);
}

/* The first member as a single network. */
static int open_lone(struct bench *b, struct error *error) {
    b->lone_config = b->config;
    b->lone_config.member_count = 1;
    return bench_learner_open(&b->lone, &b->lone_config, &b->model, b->engine.ops, &b->data,
                              b->arguments->plan, error);
}

/* CUDA's libraries allocate memory themselves. */
static size_t memory_bound(const struct bench *b) {
    return on_gpu(b) ? 0
                     : bench_memory_bound(&b->config, &b->model, STREAMS, b->arguments->members);
}

/* Learns, and measures the memory growth after the first tenth. Runs before anything else is
   opened, so that the resident memory is the learner's. */
static int measure_memory(struct bench *b, struct error *error) {
    struct bench_memory *m = &b->report.memory;
    uint64_t first = b->arguments->examples / 10 + 1, others = b->arguments->examples;
    size_t together = b->arguments->plan;
    if (bench_learner_run(b->learner, first, together, error))
        return -1;
    struct resident resident = bench_resident(getpid());
    uint64_t allocations = bench_allocations();
    size_t heap = bench_heap();
    for (uint64_t done = 0; done < others && !interrupted; done += together)
        if (bench_learner_run(b->learner, together, together, error))
            return -1;
    m->allocations = bench_allocations() - allocations;
    m->heap_growth = (long)bench_heap() - (long)heap;
    m->examples = others;
    m->resident = bench_resident(getpid());
    m->resident_growth = (long)m->resident.now - (long)resident.now;
    m->bound = memory_bound(b);
    m->skipped = bench_learner_learned(b->learner).skipped;
    return 0;
}

static int open_gpu(struct bench *b, struct error *error) {
    const struct cuda_module *module = engines_cuda(error);
    if (!module || module->measure(b->config.device, &b->gpu, error))
        return -1;
    b->report.gpu = &b->gpu;
    b->report.scope = bench_learner_scope(b->learner);
    return 0;
}

static int open_cpu(struct bench *b, struct error *error) {
    char instructions[32];
    bench_learner_instructions(b->learner, instructions, sizeof instructions);
    machine_open(&b->report.machine, instructions);
    /* the parts' time needs an engine's x and targets, which messages and rankings have no data for
     */
    b->report.split = !b->arguments->members && b->model.chain_count == 1 &&
                      !(b->config.members_given && !b->config.member_count);
    return b->report.split
               ? bench_split_open(&b->split, &b->config, &b->model, &b->data, instructions, error)
               : 0;
}

static int open_others(struct bench *b, struct error *error) {
    const struct arguments *a = b->arguments;
    if ((on_gpu(b) ? open_gpu : open_cpu)(b, error) || (a->members && open_lone(b, error)))
        return -1;
    const struct bench_socket_options options = {a->daemon, a->config, a->overrides.values,
                                                 a->overrides.count, a->bind};
    return a->socket
               ? bench_socket_open(&b->socket, &options, &b->config.architecture, &b->data, error)
               : 0;
}

static int measure_socket(struct bench *b, struct error *error) {
    double example;
    struct bench_memory *m = &b->report.daemon;
    if (bench_socket_time(b->socket, SOCKET_SLICE, &example, error))
        return -1;
    series_add(&b->report.parts[PART_SOCKET], example * MICROSECONDS);
    struct resident resident = bench_socket_resident(b->socket);
    if (m->examples)
        m->resident_growth += (long)resident.now - (long)m->resident.now;
    m->resident = resident;
    m->examples = bench_socket_examples(b->socket);
    m->bound = memory_bound(b);
    return 0;
}

static void measure_split(struct bench *b) {
    struct series *us = b->report.parts;
    const struct split_series parts = {&us[PART_FORWARD_SINGLE], &us[PART_FORWARD_QUEUED],
                                       &us[PART_BACKWARD], &us[PART_OPTIMIZER]};
    bench_split_time(b->split, SLICE, &parts);
}

/* Measures everything once, in turn, so that other load on the machine disturbs all measurements
   equally. */
static int measure_round(struct bench *b, struct error *error) {
    struct series *us = b->report.parts;
    double slice = b->socket ? LONG_SLICE : SLICE;
    size_t plan = b->arguments->plan;
    if ((!on_gpu(b) && machine_round(&b->report.machine, error)) ||
        bench_learner_time(b->learner, slice, 1, &us[PART_SINGLE], error) ||
        bench_learner_time(b->learner, slice, plan, &us[PART_QUEUED], error) ||
        bench_learner_latency(b->learner, SLICE, &b->report.latencies, error))
        return -1;
    if (b->lone && (bench_learner_time(b->lone, slice, 1, &us[PART_LONE_SINGLE], error) ||
                    bench_learner_time(b->lone, slice, plan, &us[PART_LONE_QUEUED], error)))
        return -1;
    if (b->split)
        measure_split(b);
    b->report.rounds++;
    return b->socket ? measure_socket(b, error) : 0;
}

/* Learns exactly --examples examples: the output depends only on the command. */
static int export_parameters(struct bench *b, struct error *error) {
    const struct arguments *a = b->arguments;
    if (open_bench(b, error) || bench_learner_run(b->learner, a->examples, a->plan, error))
        return -1;
    return bench_learner_export(b->learner, a->parameters, error);
}

static int measure(struct bench *b, struct error *error) {
    if (open_bench(b, error) || measure_memory(b, error) || open_others(b, error))
        return -1;
    double end = clock_seconds() + b->arguments->seconds;
    while (!interrupted && (b->report.rounds < ROUNDS_MIN || clock_seconds() < end))
        if (measure_round(b, error))
            return -1;
    if (interrupted)
        return error_set(error, EX_TEMPFAIL, "interrupted");
    return 0;
}

static void print(struct bench *b) {
    b->report.config = &b->config;
    b->report.model = &b->model;
    b->report.plan = b->arguments->plan;
    b->report.members = b->arguments->members;
    b->report.threads = bench_engine_threads(b->learner);
    b->report.learned = bench_learner_learned(b->learner);
    b->report.device = bench_learner_device(b->learner);
    b->report.why = b->engine.why;
    if (b->arguments->json)
        bench_report_json(&b->report);
    else
        bench_report_text(&b->report);
}

static void close_bench(struct bench *b) {
    bench_socket_close(&b->socket);
    bench_split_close(&b->split);
    bench_learner_close(&b->learner);
    bench_learner_close(&b->lone);
    bench_data_close(&b->data);
    machine_close(&b->report.machine);
}

static int run(struct arguments *arguments) {
    static struct bench bench;
    struct error error = {0};
    bench.arguments = arguments;
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    int status =
        arguments->parameters ? export_parameters(&bench, &error) : measure(&bench, &error);
    if (status == 0 && !arguments->parameters)
        print(&bench);
    close_bench(&bench);
    if (status == 0)
        return EX_OK;
    fprintf(stderr, "runnel-bench: %s\n", error.text);
    return error.status == EX_NOINPUT ? EX_CONFIG : error.status ? error.status : EX_SOFTWARE;
}

int main(int argc, char **argv) {
    struct arguments arguments = {
        .seconds = SECONDS,
        .examples = EXAMPLES,
        .plan = PLAN,
        .bind = "tcp://127.0.0.1:*",
    };
    const struct command_line line = {
        .name = "runnel-bench",
        .operands = "",
        .summary = "Measures the time that a configuration takes to learn one example, and the "
                   "least time that this machine needs.",
        .ending = "Exit status: 0 success, 64 usage, 69 unavailable, 70 internal error, 71 out of "
                  "memory, 74 I/O error, 75 interrupted, 78 configuration.",
        .groups = {{NULL, rows, &arguments}},
    };
    char **operands;
    config_names(key_names);
    int status = options_parse(&line, argc, argv, &operands);
    return status == OPTIONS_GO_ON ? run(&arguments) : status;
}
