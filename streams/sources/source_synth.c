/* Generated streams, by kind: see feed_synth.h. The same settings and seed give the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_synth.h"
#include "streams/feed.h"

static const struct generator *const GENERATORS[] = {&generator_sine,   &generator_mackey_glass,
                                                     &generator_lorenz, &generator_adding,
                                                     &generator_copy,   &generator_drift};
enum { GENERATOR_COUNT = sizeof GENERATORS / sizeof GENERATORS[0] };

#define NOISE_MAX 1e6

/* The first options are the settings, in their order. */
enum { OPTION_SEED = SOURCE_OPTION + SYNTH_SETTINGS, OPTION_NOISE };

static const struct option OPTIONS[] = {
    {"size", required_argument, NULL, SOURCE_OPTION + SYNTH_SIZE},
    {"length", required_argument, NULL, SOURCE_OPTION + SYNTH_LENGTH},
    {"delay", required_argument, NULL, SOURCE_OPTION + SYNTH_DELAY},
    {"alphabet", required_argument, NULL, SOURCE_OPTION + SYNTH_ALPHABET},
    {"change", required_argument, NULL, SOURCE_OPTION + SYNTH_CHANGE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"noise", required_argument, NULL, OPTION_NOISE},
    {0},
};

/* What was given on the command line, before the kind was known. */
struct source_synth {
    struct synth synth;
    bool given[SYNTH_SETTINGS], noise_given;
};

static struct source *create(void) {
    struct source_synth *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->synth.seed = 1;
    return &own->synth.source;
}

static void option_name(char name[32], int code) {
    for (const struct option *option = OPTIONS; option->name; option++)
        if (option->val == code)
            snprintf(name, 32, "--%s", option->name);
}

static int option(struct source *source, int code, const char *value, struct feed_error *error) {
    struct source_synth *own = (struct source_synth *)source;
    if (code == OPTION_SEED)
        return feed_parse_count("--seed", value, 0, UINT64_MAX, &own->synth.seed, error);
    if (code == OPTION_NOISE) {
        own->noise_given = true;
        return feed_parse_real("--noise", value, 0, NOISE_MAX, &own->synth.noise, error);
    }
    char name[32];
    int setting = code - SOURCE_OPTION;
    option_name(name, code);
    own->given[setting] = true;
    return feed_parse_count(name, value, 0, UINT64_MAX, &own->synth.settings[setting], error);
}

static int find_generator(struct synth *synth, const char *name, struct feed_error *error) {
    for (size_t i = 0; i < GENERATOR_COUNT; i++)
        if (strcmp(GENERATORS[i]->name, name) == 0)
            synth->generator = GENERATORS[i];
    if (!synth->generator)
        return feed_fail(error, EX_USAGE,
                         "there is no kind '%s'; expected sine, mackey-glass, lorenz, adding, copy "
                         "or drift",
                         name);
    return 0;
}

/* Every setting must be one of the kind, and within its range. */
static int settle(struct source_synth *own, struct feed_error *error) {
    struct synth *synth = &own->synth;
    for (int i = 0; i < SYNTH_SETTINGS; i++) {
        const struct synth_range *range = &synth->generator->ranges[i];
        uint64_t *value = &synth->settings[i];
        char name[32];
        option_name(name, SOURCE_OPTION + i);
        if (!own->given[i])
            *value = range->preset;
        else if (range->maximum == 0)
            return feed_fail(error, EX_USAGE, "%s means nothing to %s", name,
                             synth->generator->name);
        else if (*value < range->minimum || *value > range->maximum)
            return feed_fail(error, EX_USAGE, "%s: found %llu, %s takes %llu..%llu", name,
                             (unsigned long long)*value, synth->generator->name,
                             (unsigned long long)range->minimum,
                             (unsigned long long)range->maximum);
    }
    if (own->noise_given && !synth->generator->noisy)
        return feed_fail(error, EX_USAGE, "--noise means nothing to %s", synth->generator->name);
    return 0;
}

static int open_synth(struct source *source, char **operands, int count, struct feed_error *error) {
    struct source_synth *own = (struct source_synth *)source;
    struct synth *synth = &own->synth;
    if (source_operands(source, count, 1, 1, error) < 0 ||
        find_generator(synth, operands[0], error) < 0 || settle(own, error) < 0)
        return -1;
    source->label = synth->generator->name;
    synth->random.state = synth->seed;
    if (synth->generator->open(synth, error) < 0)
        return -1;
    synth->x = calloc(source->x.count + 1, sizeof *synth->x);
    synth->y = calloc(source->y.count + 1, sizeof *synth->y);
    return synth->x && synth->y ? 0 : feed_no_memory(error);
}

static int next(struct source *source, struct step *step, struct feed_error *error) {
    struct synth *synth = (struct synth *)source;
    (void)error;
    synth->generator->next(synth, step);
    synth->steps++;
    step->x = source->x.kind == VALUE_CLASS ? (const void *)&synth->symbol : synth->x;
    step->y = source->y.kind == VALUE_CLASS ? (const void *)&synth->class : synth->y;
    return 1;
}

static void close_synth(struct source **source) {
    struct synth *synth = (struct synth *)*source;
    free(synth->x);
    free(synth->y);
    free(synth->state);
    free(synth);
    *source = NULL;
}

const struct source_type source_synth = {
    .name = "synth",
    .operands = "KIND",
    .summary = "generated: sine, mackey-glass, lorenz, adding, copy, drift",
    .help =
        "  --seed N            the same seed, the same bytes (default 1)\n"
        "  --noise SD          normal noise on x (sine, mackey-glass, lorenz) or y (drift)\n"
        "  --size N            numbers in x: sine (default 1), drift (default 4)\n"
        "  --length N          adding: shortest sequence (100); copy: symbols to remember (10)\n"
        "  --delay N           copy: steps before the answer (20); mackey-glass: tau (17)\n"
        "  --alphabet N        copy: different symbols (8); input.size is N + 2, output.size N\n"
        "  --change N          drift: steps between two changes, 0 = never (1000)\n",
    .options = OPTIONS,
    .endless = true,
    .bundles = true,
    .create = create,
    .option = option,
    .open = open_synth,
    .next = next,
    .close = close_synth,
};
