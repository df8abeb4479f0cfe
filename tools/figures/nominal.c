/* Rates of p and of alarms on streams without events, over nominal, and alarms by threshold: the
   tables of docs/measurements/anomalies.md. Uses the daemon's novelty, level and p without a
   daemon, on streams without times. Results depend only on the seed. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "anomaly/anomaly.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/options.h"
#include "noise.h"

enum {
    RATES = 3,      /* 1 in 1,000, 10,000 and 100,000 steps */
    THRESHOLDS = 4, /* before the threshold of the default, which the cap limits */
    COLUMNS = 8,
    FACTORS = 3, /* of these columns */
    DEGREES = 3,
    SEASON = 288,
    BEGIN = 5000,
    MEMORY = 4000,
    REST = 100,
    CAP_STEPS = 20000,
    CAP_EVERY = 5000,
    STEPS_MAX = 1 << 30
};

#define AUTOREGRESSION 0.9
#define SWING 3.0
#define NOISE 0.5

static const double thresholds[THRESHOLDS + 1] = {1.5, 2, 2.5, 4, 1.5};

struct options {
    uint64_t seed, steps;
};

/* ---- Streams ---- */

static double heavy(struct noise *noise) {
    double squares = 0;
    for (int n = 0; n < DEGREES; n++)
        squares += pow(normal(noise), 2);
    return normal(noise) / sqrt(squares / DEGREES);
}

static const struct kind {
    const char *name;
    double (*noise)(struct noise *noise);
    double autoregression, swing, scale;
    size_t columns;
} streams[] = {
    {"white: normal", normal, 0, 0, 1, 1},
    {"AR(1), 0.9", normal, AUTOREGRESSION, 0, 1, 1},
    {"season of 288 and noise", normal, 0, SWING, NOISE, 1},
    {"Student's t, 3 degrees", heavy, 0, 0, 1, 1},
    {"8 columns: AR(1)", normal, AUTOREGRESSION, 0, 1, COLUMNS},
    {"8 columns: AR(1) of Student's t", heavy, AUTOREGRESSION, 0, 1, COLUMNS},
};

/* Several columns are mixtures of common factors, and noise. */
static void next(const struct kind *kind, struct noise *noise, double *factors, uint64_t t,
                 float *x) {
    for (size_t k = 0; k < (kind->columns > 1 ? FACTORS : 1); k++)
        factors[k] = kind->autoregression * factors[k] + kind->scale * kind->noise(noise);
    *x = (float)(kind->swing * sin(2 * M_PI * (double)(t % SEASON) / SEASON) + *factors);
    for (size_t k = 0; kind->columns > 1 && k < kind->columns; k++)
        x[k] =
            (float)(factors[k % FACTORS] + NOISE * factors[(k + 1) % FACTORS] + kind->noise(noise));
}

/* ---- Alarms ---- */

struct counts {
    double rates[2 * RATES] /* of p, of alarms */, by_threshold[THRESHOLDS + 1], first;
};

struct alarms {
    struct alarm by_rate[RATES], by_threshold[2 * (THRESHOLDS + 1)];
};

/* As the daemon does; by threshold novelty and level each have their alarms. */
static void count_step(struct counts *counts, struct alarms *alarms,
                       const struct anomaly_rarity *rarity, const double *scores, uint64_t t) {
    bool rare = rarity->steps < CAP_STEPS || rarity->p >= rarity->base + log10(CAP_EVERY);
    for (int n = 0; n < RATES; n++) {
        struct alarm_rule by = {.threshold = rarity->base + 3 + n, .rest = REST, .recovery = 1};
        bool raised = alarm_raised(&alarms->by_rate[n], &by, rarity->p, t);
        counts->rates[n] += t >= BEGIN && rarity->p >= 3 + n;
        counts->rates[RATES + n] += t >= BEGIN && raised;
    }
    for (int n = 0; n < 2 * (THRESHOLDS + rare); n++) {
        struct alarm_rule by = {thresholds[n / 2], REST, .fatigue = 0.2, .recovery = 700};
        bool capped = n / 2 == THRESHOLDS;
        if (!alarm_raised(&alarms->by_threshold[n], &by, scores[n % 2], t))
            continue;
        counts->by_threshold[n / 2] += t >= (capped ? CAP_STEPS : BEGIN);
        counts->first += capped && t < CAP_STEPS;
    }
}

static int count(const struct options *o, const struct kind *kind, struct counts *counts) {
    const struct anomaly_options options = {.slots = 1,
                                            .columns = kind->columns,
                                            .memory = MEMORY,
                                            .has_errors = true,
                                            .seed = o->seed,
                                            .accept = MEMORY};
    struct alarms alarms = {0};
    struct noise noise = {.state = o->seed};
    double factors[FACTORS] = {0}, scores[2];
    struct anomaly *anomaly;
    struct error error;
    float x[COLUMNS];
    if (anomaly_open(&anomaly, &options, &error))
        return complain(EX_OSERR, "%s", error.text);
    anomaly_join(anomaly, 0, ANOMALY_ALONE);
    anomaly_begin(anomaly, 0);
    for (uint64_t t = 0; t < o->steps; t++) {
        next(kind, &noise, factors, t, x);
        anomaly_clear(anomaly);
        scores[0] = anomaly_take(anomaly, 0, x, 0) - log10((double)kind->columns);
        scores[1] = kind->columns > 1 ? anomaly_level(anomaly) : NAN;
        const struct anomaly_rarity rarity = anomaly_rarity(anomaly, 0, REST);
        count_step(counts, &alarms, &rarity, scores, t);
    }
    anomaly_close(&anomaly);
    return EX_OK;
}

static int run(const struct options *o) {
    double steps = (double)(o->steps - BEGIN), later = (double)(o->steps - CAP_STEPS);
    puts("| stream | p 3 | 4 | 5 | 1 in 1,000 | 10,000 | 100,000 "
         "| 1.5 | 2.0 | 2.5 | 4.0 | first 20,000 | then |\n"
         "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (size_t n = 0; n < sizeof streams / sizeof *streams; n++) {
        struct counts counts = {0};
        if (count(o, &streams[n], &counts))
            return EX_OSERR;
        printf("| %s |", streams[n].name);
        for (int r = 0; r < 2 * RATES; r++)
            printf(" %.2f |", counts.rates[r] / steps * pow(10, 3 + r % RATES));
        for (int r = 0; r < THRESHOLDS; r++)
            printf(" %.0f |", counts.by_threshold[r] / steps * 1e6);
        printf(" %.0f | %.2f |\n", counts.first,
               counts.by_threshold[THRESHOLDS] / later * CAP_EVERY);
        fflush(stdout);
    }
    return EX_OK;
}

static const struct option_row rows[] = {
    {"seed", 0, "N", "seed of the streams and the memory (default 1)",
     OPTION_COUNT(struct options, seed, 1, UINT32_MAX)},
    {"steps", 0, "N", "steps of each stream (default 1000000)",
     OPTION_COUNT(struct options, steps, CAP_STEPS + 1, STEPS_MAX)},
    OPTIONS_LAST,
};

int main(int argc, char **argv) {
    struct options o = {.seed = 1, .steps = 1000000};
    const struct command_line line = {
        .name = "nominal",
        .operands = "",
        .summary = "Compare rates of p and of alarms with nominal, on streams without events.",
        .groups = {{NULL, rows, &o}},
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    return status == OPTIONS_GO_ON ? run(&o) : status;
}
