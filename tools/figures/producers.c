/* Producers for tools/figures/reliability: threads that send examples of random numbers to a
   runneld, at full speed or at a rate, and time the acknowledgements. Prints one line of JSON. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/options.h"
#include "common/quantile.h"
#include "runnel.h"

enum {
    NS_PER_MS = 1000000,
    BIN_NS = 10000, /* width of a bin of latencies */
    BINS = 100000,  /* the last one also counts longer latencies: a second */
    PRODUCERS_MAX = 64,
    WINDOW_MAX = 1000000,
    KEY_SIZE = 32,
    VECTORS = 256,     /* different examples; more than fit into a first cache */
    SENDS_A_TURN = 32, /* between two checks for acknowledgements */
};

/* Wait after the last example, also on a busy machine: unacknowledged examples are lost then. */
#define STOP_SECONDS 30.0
#define TURN_SECONDS 0.001

struct options {
    const char *connect;
    uint64_t producers, streams, inputs, targets, window, epoch;
    double rate, seconds;
    bool push;
};

struct producer {
    const struct options *options;
    pthread_t thread;
    size_t number;
    uint64_t end;        /* clock_ns */
    uint64_t *sequences; /* (streams,) */
    uint64_t *sent_at;   /* (window,): when unacknowledged examples were sent; ns */
    uint64_t *expected;  /* (window,): and their sequences */
    float *numbers;      /* (VECTORS, inputs + targets) */
    uint32_t *bins;      /* (BINS,) latencies */
    uint64_t sent, acknowledged, wrong, longest;
};

static void count(struct producer *p, uint64_t latency) {
    uint64_t bin = latency / BIN_NS;
    p->bins[bin < BINS ? bin : BINS - 1]++;
    p->longest = latency > p->longest ? latency : p->longest;
}

/* Acknowledgements have the order of the examples. */
static void take_report(void *context, const struct runnel_report *report) {
    struct producer *p = context;
    size_t at = p->acknowledged % p->options->window;
    if (report->kind < RUNNEL_REPORT_ACKNOWLEDGED)
        return;
    p->wrong += report->kind != RUNNEL_REPORT_ACKNOWLEDGED || report->sequence != p->expected[at];
    count(p, clock_ns() - p->sent_at[at]);
    p->acknowledged++;
}

static bool tick(void *context, bool connected) {
    const struct producer *p = context;
    (void)connected;
    return clock_ns() < p->end + (uint64_t)(STOP_SECONDS * NS_PER_SECOND);
}

/* -1: the time is over, or the daemon has ended. */
static int send_example(struct producer *p, struct runnel_sender *sender) {
    const struct options *o = p->options;
    size_t stream = p->sent % o->streams, vector = o->inputs + o->targets, at = p->sent % o->window;
    const float *x = p->numbers + (p->sent / o->streams + stream) % VECTORS * vector;
    char key[KEY_SIZE];
    const struct runnel_example example = {
        .key = key,
        .key_size = (size_t)snprintf(key, sizeof key, "%zu-%zu", p->number, stream),
        .x = x,
        .y = x + o->inputs,
        .x_size = o->inputs * sizeof *x,
        .y_size = o->targets * sizeof *x,
        .headed = true,
        .epoch = (uint32_t)o->epoch,
        .sequence = p->sequences[stream] + 1,
    };
    /* waits until the previous example in this place of the rings is acknowledged */
    while (!o->push && p->sent - p->acknowledged >= o->window)
        if (runnel_sender_poll(sender, TURN_SECONDS, NULL) || !tick(p, true))
            return -1;
    p->expected[at] = example.sequence;
    p->sent_at[at] = clock_ns();
    if (runnel_send(sender, &example, NULL))
        return -1;
    p->sequences[stream]++;
    p->sent++;
    return 0;
}

/* Number of examples due by now. */
static uint64_t due(const struct options *options, uint64_t begin, uint64_t now) {
    if (options->rate <= 0)
        return UINT64_MAX;
    return (uint64_t)((double)(now - begin) * options->rate / (double)options->producers /
                      NS_PER_SECOND) +
           1;
}

static void send_all(struct producer *p, struct runnel_sender *sender) {
    const struct options *o = p->options;
    uint64_t begin = clock_ns(), now = begin;
    int status = 0;
    p->end = begin + (uint64_t)(o->seconds * NS_PER_SECOND);
    for (; status == 0 && now < p->end; now = clock_ns()) {
        uint64_t wanted = due(o, begin, now);
        bool early = p->sent >= wanted;
        for (int n = 0; status == 0 && n < SENDS_A_TURN && p->sent < wanted; n++)
            status = send_example(p, sender);
        if (status == 0)
            status = runnel_sender_poll(sender, early ? TURN_SECONDS : 0, NULL);
    }
    runnel_sender_flush(sender, STOP_SECONDS, NULL);
}

static void *produce(void *context) {
    struct producer *p = context;
    const struct options *o = p->options;
    const struct runnel_peer peer = {.endpoint = o->connect};
    const struct runnel_sender_options options = {.kind = o->push ? RUNNEL_PUSH : RUNNEL_ROUTER,
                                                  .window = o->window,
                                                  .report = take_report,
                                                  .tick = tick,
                                                  .context = p};
    struct runnel_sender *sender;
    struct runnel_error error;
    p->end = clock_ns() + (uint64_t)(o->seconds * NS_PER_SECOND);
    if (runnel_sender_open(&sender, &peer, &options, &error)) {
        complain(error.status, "%s", error.text);
        return NULL;
    }
    if (runnel_sender_wait(sender, o->seconds, &error) == 0)
        send_all(p, sender);
    else
        complain(error.status, "%s", error.text);
    if (o->push)
        p->acknowledged = p->sent;
    runnel_sender_close(&sender, o->push ? INFINITY : 0, NULL);
    return NULL;
}

static bool allocate(struct producer *p, const struct options *o) {
    size_t numbers = VECTORS * (o->inputs + o->targets);
    p->sequences = calloc(o->streams, sizeof *p->sequences);
    p->sent_at = calloc(o->window, sizeof *p->sent_at);
    p->expected = calloc(o->window, sizeof *p->expected);
    p->numbers = calloc(numbers, sizeof *p->numbers);
    p->bins = calloc(BINS, sizeof *p->bins);
    if (!p->sequences || !p->sent_at || !p->expected || !p->numbers || !p->bins)
        return false;
    for (size_t n = 0; n < numbers; n++)
        p->numbers[n] = (float)(rand() / (double)RAND_MAX - 0.5);
    return true;
}

/* The latency, ms, at or below which that share of all is. */
static double latency(const struct producer *sum, double share) {
    size_t bin = quantile_bin(sum->bins, BINS - 1, sum->acknowledged, share);
    return (double)(bin + 1) * BIN_NS / NS_PER_MS;
}

static int report(const struct options *o, struct producer *producers) {
    struct producer sum = producers[0];
    for (size_t n = 1; n < o->producers; n++) {
        const struct producer *p = &producers[n];
        sum.sent += p->sent;
        sum.acknowledged += p->acknowledged;
        sum.wrong += p->wrong;
        sum.longest = p->longest > sum.longest ? p->longest : sum.longest;
        for (size_t bin = 0; bin < BINS; bin++)
            sum.bins[bin] += p->bins[bin];
    }
    printf("{\"sent\": %" PRIu64 ", \"acknowledged\": %" PRIu64 ", \"wrong\": %" PRIu64
           ", \"p50\": %.2f, \"p99\": %.2f, \"max\": %.2f}\n",
           sum.sent, sum.acknowledged, sum.wrong, latency(&sum, 0.5), latency(&sum, 0.99),
           (double)sum.longest / NS_PER_MS);
    return sum.wrong || sum.acknowledged < sum.sent ? EX_PROTOCOL : EX_OK;
}

static int run(const struct options *o) {
    static struct producer producers[PRODUCERS_MAX];
    for (size_t n = 0; n < o->producers; n++) {
        producers[n] = (struct producer){.options = o, .number = n};
        if (!allocate(&producers[n], o) ||
            pthread_create(&producers[n].thread, NULL, produce, &producers[n]))
            return complain(EX_OSERR, "out of memory, or cannot start a thread");
    }
    for (size_t n = 0; n < o->producers; n++)
        pthread_join(producers[n].thread, NULL);
    return report(o, producers);
}

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's examples socket",
     OPTION_TEXT(struct options, connect), .required = true},
    {"push", 0, NULL, "send to a pull socket (default: router)", OPTION_FLAG(struct options, push)},
    {"producers", 0, "N", "threads (default 4)",
     OPTION_COUNT(struct options, producers, 1, PRODUCERS_MAX)},
    {"streams", 0, "N", "streams of each thread (default 1)",
     OPTION_COUNT(struct options, streams, 1, UINT32_MAX)},
    {"inputs", 0, "N", "numbers in x (default 8)",
     OPTION_COUNT(struct options, inputs, 1, UINT16_MAX)},
    {"targets", 0, "N", "numbers in y (default 8)",
     OPTION_COUNT(struct options, targets, 0, UINT16_MAX)},
    {"window", 0, "N", "unacknowledged examples per thread (default 256)",
     OPTION_COUNT(struct options, window, 1, WINDOW_MAX)},
    {"rate", 0, "N", "examples per second in total; 0 = no limit (default 0)",
     OPTION_REAL(struct options, rate, 0, 1e9)},
    {"seconds", 0, "S", "duration (default 5)", OPTION_SECONDS(struct options, seconds)},
    {"epoch", 0, "N", "(default 0)", OPTION_COUNT(struct options, epoch, 0, UINT32_MAX)},
    OPTIONS_LAST,
};

int main(int argc, char **argv) {
    struct options o = {
        .producers = 4, .streams = 1, .inputs = 8, .targets = 8, .window = 256, .seconds = 5};
    const struct command_line line = {
        .name = "producers",
        .operands = "",
        .summary = "Send examples of random numbers, and time their acknowledgements.",
        .groups = {{NULL, rows, &o}},
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    return status == OPTIONS_GO_ON ? run(&o) : status;
}
