/* The gain of streams of one shape that share a memory (anomaly.share), in a fleet of which some
   begin later: a table of false alarms, of the first score of a new stream, and of the number of
   abnormal spans found, with separate memories and with a shared one
   (docs/measurements/anomalies.md). Uses the daemon's score and alarms without a daemon. Results
   depend only on the seed. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "anomaly/alarm.h"
#include "anomaly/novelty.h"
#include "common/complain.h"
#include "common/options.h"
#include "noise.h"

enum {
    STREAMS = 50,
    NEW = 10,     /* streams that begin later, */
    BEGIN = 3000, /* at this step, */
    STEPS = 6000, /* steps of a stream */
    SEASON = 288, /* steps */
    EARLY = 1000, /* first steps of a stream that begins with the others, */
    FIRST = 300,  /* first steps of a stream that begins later */
    KINDS = 4,    /* kinds of abnormal spans, one of each in each stream */
    SPAN = 60,    /* steps of a span */
    AFTER = 62,   /* steps until it has left the recent values */
    WITHIN = 400, /* steps in which it begins */
    PHASES = 20,  /* steps between streams */
    FASTER = 36,  /* steps */
};

#define THRESHOLD 1.5
#define LEVELS 1000.0 /* of streams, from 0 */
#define SCALES 1.5    /* exponent of normal deviations */
#define SWING 3.0
#define SECOND_SWING 1.2
#define NOISE 0.4
#define MEMORY_OF_NOISE 0.7
#define SHIFT 4.0
#define PER 10000.0
#define PERCENT 100.0

static const unsigned kind_begins[KINDS] = {3300, 4200, 4800, 5400};

struct options {
    uint64_t seed, seeds, memory;
};

struct stream {
    struct novelty novelty;
    float *floats;
    struct noise noise;
    struct alarm alarm;
    double level, scale;
    unsigned phase, taken, spans[KINDS];
    bool found[KINDS];
};

/* Sums over seeds; [1]: for streams that begin later. */
struct counts {
    double early, first, first_score, streams[2];
    double others[2], others_steps[2], found[2][KINDS];
};

/* A span moved by half a season, raised, of another period, moved again; KINDS: as usual. */
static double next(struct stream *stream, unsigned t, unsigned kind) {
    double angle = 2 * M_PI * ((t + stream->phase) % SEASON) / SEASON;
    double noise = stream->noise.last =
        MEMORY_OF_NOISE * stream->noise.last + normal(&stream->noise);
    if (kind == 0 || kind == 3)
        angle += M_PI;
    double y = SWING * sin(angle) + SECOND_SWING * sin(2 * angle + 1);
    if (kind == 2)
        y = SWING * sin(2 * M_PI * (t % FASTER) / FASTER);
    return stream->level + stream->scale * (y + NOISE * noise + (kind == 1 ? SHIFT : 0));
}

static void begin(const struct options *o, uint64_t seed, struct stream *streams) {
    for (unsigned n = 0; n < STREAMS; n++) {
        struct stream *stream = &streams[n];
        float *floats = stream->floats;
        *stream = (struct stream){.floats = floats, .noise = {.state = seed * STREAMS + n}};
        novelty_begin(&stream->novelty, o->seed);
        stream->level = LEVELS * uniform(&stream->noise);
        stream->scale = exp(SCALES * normal(&stream->noise));
        stream->phase = (unsigned)(PHASES * uniform(&stream->noise));
        for (unsigned k = 0; k < KINDS; k++)
            stream->spans[k] = kind_begins[k] + (unsigned)(WITHIN * uniform(&stream->noise));
    }
}

static void count(struct stream *stream, bool later, unsigned kind, bool after, double score,
                  struct counts *counts) {
    const struct alarm_rule rule = {
        .threshold = THRESHOLD, .rest = 100, .fatigue = 0.2, .recovery = 700};
    bool raised = alarm_raised(&stream->alarm, &rule, score, stream->taken);
    if (later && stream->taken == 0)
        counts->first_score += FIRST;
    if (later && stream->taken < FIRST && !isnan(score))
        counts->first_score--;
    if (kind < KINDS && raised && !stream->found[kind]) {
        stream->found[kind] = true;
        counts->found[later][kind]++;
    }
    if (kind < KINDS || after)
        return;
    counts->others[later] += raised;
    counts->others_steps[later]++;
    counts->early += raised && !later && stream->taken < EARLY;
    counts->first += raised && later && stream->taken < FIRST;
}

static void run_fleet(const struct options *o, struct stream *streams,
                      const struct novelty_memory *shared, struct counts *counts) {
    for (unsigned t = 0; t < STEPS; t++)
        for (unsigned n = 0; n < STREAMS; n++) {
            struct stream *stream = &streams[n];
            bool later = n >= STREAMS - NEW, after = false;
            unsigned kind = KINDS;
            if (later && t < BEGIN)
                continue;
            for (unsigned k = 0; k < KINDS; k++) {
                unsigned since = t - stream->spans[k];
                kind = t >= stream->spans[k] && since < SPAN ? k : kind;
                after |= t >= stream->spans[k] && since < SPAN + AFTER;
            }
            double x = (float)next(stream, t, kind);
            if (shared && stream->taken == 0)
                novelty_join(&stream->novelty, shared->novelty);
            double score =
                shared ? novelty_take_shared(&stream->novelty, stream->floats, shared, x, 0, true)
                       : novelty_take(&stream->novelty, stream->floats, o->memory, x, 0);
            count(stream, later, kind, after, score, counts);
            stream->taken++;
        }
    counts->streams[0] += STREAMS - NEW;
    counts->streams[1] += NEW;
}

static void print(const char *name, const struct counts *c) {
    printf("| %s | %.2f | %.2f |", name, c->early / c->streams[0],
           PER * c->others[0] / c->others_steps[0]);
    for (unsigned k = 0; k < KINDS; k++)
        printf(" %.0f%s", PERCENT * c->found[0][k] / c->streams[0], k + 1 < KINDS ? "," : " |");
    printf(" %.0f | %.2f |", c->first_score / c->streams[1], c->first / c->streams[1]);
    for (unsigned k = 0; k < KINDS; k++)
        printf(" %.0f%s", PERCENT * c->found[1][k] / c->streams[1], k + 1 < KINDS ? "," : " |\n");
    fflush(stdout);
}

static int run(const struct options *o) {
    struct stream *streams = calloc(STREAMS, sizeof *streams);
    struct novelty shared;
    const struct novelty_memory memory = {&shared, calloc(novelty_floats(o->memory), sizeof(float)),
                                          o->memory};
    bool whole = streams && memory.floats;
    for (unsigned n = 0; whole && n < STREAMS; n++)
        whole = (streams[n].floats = calloc(novelty_floats(o->memory), sizeof(float))) != NULL;
    if (!whole)
        return complain(EX_OSERR, "out of memory");
    struct counts own = {0}, together = {0};
    for (uint64_t seed = o->seed; seed < o->seed + o->seeds; seed++) {
        begin(o, seed, streams);
        run_fleet(o, streams, NULL, &own);
        begin(o, seed, streams);
        novelty_begin(&shared, o->seed);
        run_fleet(o, streams, &memory, &together);
    }
    printf(
        "| memory | false in the first %d | false in 10,000 | found, %% | new: first score | new: "
        "false in the first %d | new: found, %% |\n|---|--:|--:|--:|--:|--:|--:|\n",
        EARLY, FIRST);
    print("each its own", &own);
    print("shared", &together);
    for (unsigned n = 0; n < STREAMS; n++)
        free(streams[n].floats);
    free(memory.floats);
    free(streams);
    return EX_OK;
}

static const struct option_row rows[] = {
    {"seed", 0, "N", "first seed (default 1)", OPTION_COUNT(struct options, seed, 1, UINT32_MAX)},
    {"seeds", 0, "N", "number of fleets (default 6)",
     OPTION_COUNT(struct options, seeds, 1, UINT16_MAX)},
    {"memory", 0, "N", "contexts of one memory (default 4000)",
     OPTION_COUNT(struct options, memory, 1, UINT16_MAX)},
    OPTIONS_LAST,
};

int main(int argc, char **argv) {
    struct options o = {.seed = 1, .seeds = 6, .memory = 4000};
    const struct command_line line = {
        .name = "shared-memory",
        .operands = "",
        .summary = "Count the alarms of streams of one shape, with a memory each and with a shared "
                   "memory.",
        .groups = {{NULL, rows, &o}},
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    return status == OPTIONS_GO_ON ? run(&o) : status;
}
