/* Producers for tools/figures/reliability: threads that send examples of random numbers to a
   runneld, as many as it takes or so many a second, and time the acknowledgements. Prints one line
   of JSON. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <zmq.h>

#include "common/wire.h"

enum {
    NS_PER_SECOND = 1000000000,
    NS_PER_MS = 1000000,
    BIN_NS = 10000, /* latencies are counted in steps of this */
    BINS = 100000,  /* the last one also has what is longer: a second */
    PRODUCERS_MAX = 64,
    KEY_SIZE = 32,
    VECTORS = 256,           /* different examples; more than fit into a first cache */
    SENDS_A_TURN = 32,       /* between two looks for acknowledgements */
    STOP_NS = NS_PER_SECOND, /* after the last example: what is not acknowledged then is lost */
};

struct options {
    const char *connect;
    size_t producers, streams, inputs, targets, window;
    double rate, seconds;
    unsigned epoch;
    bool push;
};

struct producer {
    const struct options *options;
    void *zmq;
    pthread_t thread;
    size_t number;
    uint64_t *sequences; /* (streams,) */
    uint64_t *sent_at;   /* (window,): when what is on its way was sent; ns */
    uint64_t *expected;  /* (window,): and its sequence */
    float *numbers;      /* (VECTORS, inputs + targets) */
    uint32_t *bins;      /* (BINS,) latencies */
    uint64_t sent, acknowledged, wrong, longest;
};

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* False: the socket is full. */
static bool send_example(struct producer *p, void *socket) {
    const struct options *o = p->options;
    size_t stream = p->sent % o->streams, vector = o->inputs + o->targets;
    const float *x = p->numbers + (p->sent / o->streams + stream) % VECTORS * vector;
    unsigned char header[WIRE_HEADER_SIZE];
    char key[KEY_SIZE];
    int size = snprintf(key, sizeof key, "%zu-%zu", p->number, stream);
    uint64_t sequence = p->sequences[stream] + 1;
    int wait = o->push ? 0 : ZMQ_DONTWAIT;
    wire_header_pack(&(struct wire_header){.epoch = o->epoch, .sequence = sequence}, header);
    if (zmq_send(socket, key, (size_t)size, wait | ZMQ_SNDMORE) < 0)
        return false;
    zmq_send(socket, x, o->inputs * sizeof *x, ZMQ_SNDMORE);
    zmq_send(socket, x + o->inputs, o->targets * sizeof *x, ZMQ_SNDMORE);
    zmq_send(socket, header, sizeof header, 0);
    p->sequences[stream] = sequence;
    p->expected[p->sent % o->window] = sequence;
    p->sent_at[p->sent % o->window] = clock_ns();
    p->sent++;
    return true;
}

static void count(struct producer *p, uint64_t latency) {
    uint64_t bin = latency / BIN_NS;
    p->bins[bin < BINS ? bin : BINS - 1]++;
    p->longest = latency > p->longest ? latency : p->longest;
}

/* Take the acknowledgements that have come; they are in the order of the examples. */
static void take_acknowledgements(struct producer *p, void *socket) {
    struct wire_acknowledgement a;
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE];
    char key[WIRE_KEY_MAX];
    uint64_t now = 0;
    while (p->acknowledged < p->sent && zmq_recv(socket, key, sizeof key, ZMQ_DONTWAIT) >= 0) {
        int size = zmq_recv(socket, bytes, sizeof bytes, 0);
        size_t at = p->acknowledged % p->options->window;
        bool good =
            size == (int)sizeof bytes && !wire_acknowledgement_unpack(&a, bytes, sizeof bytes);
        p->wrong += !good || a.status != WIRE_ACCEPTED || a.sequence != p->expected[at];
        now = now ? now : clock_ns();
        count(p, now - p->sent_at[at]);
        p->acknowledged++;
    }
}

/* How many examples should have been sent by now. */
static uint64_t due(const struct options *options, uint64_t begin, uint64_t now) {
    if (options->rate <= 0)
        return UINT64_MAX;
    return (uint64_t)((double)(now - begin) * options->rate / (double)options->producers /
                      NS_PER_SECOND) +
           1;
}

static void send_due(struct producer *p, void *socket, uint64_t wanted) {
    for (int n = 0; n < SENDS_A_TURN && p->sent < wanted; n++)
        if (p->sent - p->acknowledged >= p->options->window || !send_example(p, socket))
            return;
}

static void *produce(void *context) {
    struct producer *p = context;
    const struct options *o = p->options;
    void *socket = zmq_socket(p->zmq, o->push ? ZMQ_PUSH : ZMQ_DEALER);
    int linger = o->push ? -1 : 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (!socket || zmq_connect(socket, o->connect)) {
        fprintf(stderr, "producers: %s: %s\n", o->connect, zmq_strerror(errno));
        return NULL;
    }
    uint64_t begin = clock_ns(), end = begin + (uint64_t)(o->seconds * NS_PER_SECOND), now = begin;
    for (; now < end + STOP_NS && (now < end || p->acknowledged < p->sent); now = clock_ns()) {
        uint64_t before = p->sent + p->acknowledged;
        if (now < end)
            send_due(p, socket, due(o, begin, now));
        if (o->push)
            p->acknowledged = p->sent;
        else
            take_acknowledgements(p, socket);
        zmq_pollitem_t item = {.socket = socket, .events = o->push ? 0 : ZMQ_POLLIN};
        if (p->sent + p->acknowledged == before)
            zmq_poll(&item, 1, 1);
    }
    zmq_close(socket);
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

/* The latency, ms, that the share of all stayed below. */
static double quantile(const uint32_t *bins, uint64_t all, double share) {
    uint64_t below = 0;
    size_t bin = 0;
    while (bin < BINS - 1 && (double)(below += bins[bin]) < share * (double)all)
        bin++;
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
           sum.sent, sum.acknowledged, sum.wrong, quantile(sum.bins, sum.acknowledged, 0.5),
           quantile(sum.bins, sum.acknowledged, 0.99), (double)sum.longest / NS_PER_MS);
    return sum.wrong || sum.acknowledged < sum.sent ? EX_PROTOCOL : EX_OK;
}

static int run(const struct options *o) {
    static struct producer producers[PRODUCERS_MAX];
    void *zmq = zmq_ctx_new();
    for (size_t n = 0; n < o->producers; n++) {
        producers[n] = (struct producer){.options = o, .zmq = zmq, .number = n};
        if (!allocate(&producers[n], o) ||
            pthread_create(&producers[n].thread, NULL, produce, &producers[n])) {
            fputs("producers: out of memory, or no thread can be started\n", stderr);
            return EX_OSERR;
        }
    }
    for (size_t n = 0; n < o->producers; n++)
        pthread_join(producers[n].thread, NULL);
    zmq_ctx_term(zmq);
    return report(o, producers);
}

static const char usage[] =
    "usage: producers --connect ENDPOINT [--push] [--producers 4] [--streams 1] [--inputs 8]\n"
    "                 [--targets 8] [--window 256] [--rate 0] [--seconds 5] [--epoch 0]\n";

int main(int argc, char **argv) {
    struct options o = {
        .producers = 4, .streams = 1, .inputs = 8, .targets = 8, .window = 256, .seconds = 5};
    static const struct option options[] = {
        {"connect", required_argument, NULL, 'c'},
        {"push", no_argument, NULL, 'p'},
        {"producers", required_argument, NULL, 'n'},
        {"streams", required_argument, NULL, 's'},
        {"inputs", required_argument, NULL, 'i'},
        {"targets", required_argument, NULL, 't'},
        {"window", required_argument, NULL, 'w'},
        {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 'd'},
        {"epoch", required_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        size_t *size = option == 'n'   ? &o.producers
                       : option == 's' ? &o.streams
                       : option == 'i' ? &o.inputs
                       : option == 't' ? &o.targets
                       : option == 'w' ? &o.window
                                       : NULL;
        if (size)
            *size = strtoul(optarg, NULL, 10);
        else if (option == 'c')
            o.connect = optarg;
        else if (option == 'p')
            o.push = true;
        else if (option == 'r')
            o.rate = strtod(optarg, NULL);
        else if (option == 'd')
            o.seconds = strtod(optarg, NULL);
        else if (option == 'e')
            o.epoch = (unsigned)strtoul(optarg, NULL, 10);
        else
            o.connect = NULL, optind = argc;
    }
    if (!o.connect || !o.producers || o.producers > PRODUCERS_MAX || !o.streams || !o.window) {
        fputs(usage, stderr);
        return EX_USAGE;
    }
    return run(&o);
}
