/* False alarms of the novelty score, on streams without events: a table of the number of alarms
   by threshold (docs/measurements/anomalies.md). Uses the daemon's score and alarms without a
   daemon, on streams without times. Results depend only on the seed. */
#include <inttypes.h>
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
    THRESHOLDS = 6,
    DEGREES = 3,
    SEASON = 288,
    BEGIN = 5000,
    EARLY = 60000,
    STEPS_MAX = 1 << 30
};

#define THRESHOLD_FIRST 1.5
#define THRESHOLD_STEP 0.5
#define AUTOREGRESSION 0.9
#define SWING 3.0
#define NOISE 0.5

struct options {
    uint64_t seed, steps, memory;
    struct alarm_rule rule;
};

/* ---- Streams ---- */

static double white(struct noise *noise, uint64_t t) {
    (void)t;
    return normal(noise);
}

static double autoregressive(struct noise *noise, uint64_t t) {
    (void)t;
    return noise->last = AUTOREGRESSION * noise->last + normal(noise);
}

static double seasonal(struct noise *noise, uint64_t t) {
    return SWING * sin(2 * M_PI * (double)(t % SEASON) / SEASON) + NOISE * normal(noise);
}

static double heavy(struct noise *noise, uint64_t t) {
    (void)t;
    double squares = 0;
    for (int n = 0; n < DEGREES; n++)
        squares += pow(normal(noise), 2);
    return normal(noise) / sqrt(squares / DEGREES);
}

static const struct {
    const char *name;
    double (*next)(struct noise *noise, uint64_t t);
} streams[] = {
    {"white: normal", white},
    {"AR(1), 0.9", autoregressive},
    {"seasonal: 3 sin, every 288 steps, and noise of 0.5", seasonal},
    {"heavy tails: Student's t, 3 degrees of freedom", heavy},
};

/* ---- Alarms ---- */

struct alarms {
    uint64_t early;             /* alarms in the first EARLY steps, at the first threshold */
    uint64_t later[THRESHOLDS]; /* after the first BEGIN */
};

static void count_alarms(const struct options *o, size_t stream, struct novelty *novelty,
                         float *floats, struct alarms *alarms) {
    struct noise noise = {.state = o->seed};
    struct alarm states[THRESHOLDS] = {0};
    novelty_begin(novelty, o->seed);
    for (uint64_t t = 0; t < o->steps; t++) {
        double x = (float)streams[stream].next(&noise, t);
        double score = novelty_take(novelty, floats, o->memory, x, 0);
        for (size_t n = 0; n < THRESHOLDS; n++) {
            struct alarm_rule rule = o->rule;
            rule.threshold = THRESHOLD_FIRST + THRESHOLD_STEP * (double)n;
            bool raised = alarm_raised(&states[n], &rule, score, t);
            alarms->early += raised && n == 0 && t < EARLY;
            alarms->later[n] += raised && t >= BEGIN;
        }
    }
}

static int run(const struct options *o) {
    struct novelty *novelty = malloc(sizeof *novelty);
    float *floats = calloc(novelty_floats(o->memory), sizeof *floats);
    if (!novelty || !floats)
        return complain(EX_OSERR, "out of memory");
    printf("| stream |");
    for (size_t n = 0; n < THRESHOLDS; n++)
        printf(" %.1f |", THRESHOLD_FIRST + THRESHOLD_STEP * (double)n);
    printf(" in the first %d, %.1f |\n|---|--:|--:|--:|--:|--:|--:| --: |\n", EARLY,
           THRESHOLD_FIRST);
    for (size_t stream = 0; stream < sizeof streams / sizeof *streams; stream++) {
        struct alarms alarms = {0};
        count_alarms(o, stream, novelty, floats, &alarms);
        printf("| %s |", streams[stream].name);
        for (size_t n = 0; n < THRESHOLDS; n++)
            printf(" %" PRIu64 " |", alarms.later[n]);
        printf(" %" PRIu64 " |\n", alarms.early);
        fflush(stdout);
    }
    free(floats);
    free(novelty);
    return EX_OK;
}

static const struct option_row rows[] = {
    {"seed", 0, "N", "seed of the streams and the memory (default 1)",
     OPTION_COUNT(struct options, seed, 1, UINT32_MAX)},
    {"steps", 0, "N", "steps of each stream (default 1000000)",
     OPTION_COUNT(struct options, steps, 1, STEPS_MAX)},
    {"memory", 0, "N", "contexts of the memory (default 4000)",
     OPTION_COUNT(struct options, memory, 1, UINT16_MAX)},
    {"rest", 0, "STEPS", "pause after an alarm in steps (default 100)",
     OPTION_REAL(struct options, rule.rest, 0, 1e9)},
    {"fatigue", 0, "N", "amount that an alarm adds to the threshold (default 0.2)",
     OPTION_REAL(struct options, rule.fatigue, 0, 1e9)},
    {"recovery", 0, "STEPS", "steps in which fatigue decays (default 700)",
     OPTION_REAL(struct options, rule.recovery, 1, 1e9)},
    OPTIONS_LAST,
};

int main(int argc, char **argv) {
    struct options o = {.seed = 1, .steps = 1000000, .memory = 4000};
    o.rule = (struct alarm_rule){.rest = 100, .fatigue = 0.2, .recovery = 700};
    const struct command_line line = {
        .name = "false-alarms",
        .operands = "",
        .summary = "Count false alarms on streams without events, by threshold.",
        .groups = {{NULL, rows, &o}},
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    return status == OPTIONS_GO_ON ? run(&o) : status;
}
