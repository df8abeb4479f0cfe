/* Generated streams, by kind: see feed_synth.h. The same settings and seed give the same bytes. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_synth.h"
#include "streams/feed.h"

static const struct generator *const GENERATORS[] = {
    &generator_sine,   &generator_mackey_glass, &generator_lorenz,
    &generator_adding, &generator_copy,         &generator_drift,
    &generator_slow,   &generator_regimes,      &generator_recall};
enum { GENERATOR_COUNT = sizeof GENERATORS / sizeof GENERATORS[0] };

#define NOISE_MAX 1e6
#define NOT_GIVEN UINT64_MAX

/* The options, before the kind is known. */
struct source_synth {
    struct synth synth;
    bool noise_given;
};

static void set_defaults(struct source *source) {
    struct source_synth *own = (struct source_synth *)source;
    own->synth.seed = 1;
    for (int i = 0; i < SYNTH_SETTINGS; i++)
        own->synth.settings[i] = NOT_GIVEN;
}

#define SETTING(which) OPTION_COUNT(struct source_synth, synth.settings[which], 0, NOT_GIVEN - 1)

/* The first rows are the settings, in the order of the enum. */
static const struct option_row OPTIONS[] = {
    {"size", 0, "N", "numbers in x: sine (default 1), drift (default 4)", SETTING(SYNTH_SIZE)},
    {"length", 0, "N", "adding: shortest sequence (100); copy: symbols to remember (10)",
     SETTING(SYNTH_LENGTH)},
    {"delay", 0, "N", "steps before the answer: copy (20), recall (50); mackey-glass: tau (17)",
     SETTING(SYNTH_DELAY)},
    {"alphabet", 0, "N",
     "symbols to remember: copy (8; input.size is N + 2), recall (4; N + 6); output.size is N",
     SETTING(SYNTH_ALPHABET)},
    {"change", 0, "N",
     "steps between two changes, 0 = never: drift (1000), slow (10000), regimes (3000)",
     SETTING(SYNTH_CHANGE)},
    {"seed", 0, "N", "the same seed gives the same bytes (default 1)",
     OPTION_COUNT(struct source_synth, synth.seed, 0, UINT64_MAX)},
    {"noise", 0, "SD", "normal noise on x (sine, mackey-glass, lorenz) or y (drift, regimes)",
     OPTION_REAL(struct source_synth, synth.noise, 0, NOISE_MAX),
     OPTION_GIVEN(struct source_synth, noise_given)},
    OPTIONS_END,
};

static int find_generator(struct synth *synth, const char *name, struct error *error) {
    for (size_t i = 0; i < GENERATOR_COUNT; i++)
        if (strcmp(GENERATORS[i]->name, name) == 0)
            synth->generator = GENERATORS[i];
    if (!synth->generator)
        return error_set(error, EX_USAGE, "unknown kind '%s'; expected one of %s", name,
                         synth->source.type->command.words);
    return 0;
}

/* Checks that the kind has every given setting, and its range. */
static int settle(struct source_synth *own, struct error *error) {
    struct synth *synth = &own->synth;
    for (int i = 0; i < SYNTH_SETTINGS; i++) {
        const struct synth_range *range = &synth->generator->ranges[i];
        uint64_t *value = &synth->settings[i];
        const char *name = OPTIONS[i].name;
        if (*value == NOT_GIVEN)
            *value = range->preset;
        else if (range->maximum == 0)
            return error_set(error, EX_USAGE, "--%s: not supported by %s", name,
                             synth->generator->name);
        else if (*value < range->minimum || *value > range->maximum)
            return error_set(error, EX_USAGE, "--%s: expected %llu to %llu for %s, got %llu", name,
                             (unsigned long long)range->minimum, (unsigned long long)range->maximum,
                             synth->generator->name, (unsigned long long)*value);
    }
    if (own->noise_given && !synth->generator->noisy)
        return error_set(error, EX_USAGE, "--noise: not supported by %s", synth->generator->name);
    return 0;
}

static int open_synth(struct source *source, char **operands, struct error *error) {
    struct source_synth *own = (struct source_synth *)source;
    struct synth *synth = &own->synth;
    if (find_generator(synth, operands[0], error) < 0 || settle(own, error) < 0)
        return -1;
    const struct generator *kind = synth->generator;
    source->label = kind->name;
    source->x = kind->x;
    source->y = kind->y;
    if (!source->x.count)
        source->x.count = synth->settings[SYNTH_SIZE];
    synth->random = synth->seed;
    synth->state = calloc(1, kind->state + kind->each * synth->settings[kind->of]);
    synth->x = calloc(source->x.count + 1, sizeof *synth->x);
    synth->y = calloc(source->y.count + 1, sizeof *synth->y);
    if (!synth->state || !synth->x || !synth->y)
        return error_no_memory(error);
    if (kind->begin)
        kind->begin(synth);
    return 0;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct synth *synth = (struct synth *)source;
    (void)error;
    synth->generator->next(synth, step);
    synth->steps++;
    step->x = source->x.kind == VALUE_CLASS ? (const void *)&synth->symbol : synth->x;
    step->y = source->y.kind == VALUE_CLASS ? (const void *)&synth->class_id : synth->y;
    return 1;
}

static void close_synth(struct source *source) {
    struct synth *synth = (struct synth *)source;
    free(synth->x);
    free(synth->y);
    free(synth->state);
}

const struct source_type source_synth = {
    .command = {"synth", "KIND",
                "generated: sine, mackey-glass, lorenz, adding, copy, drift, slow, regimes, recall",
                .complete = COMPLETE_WORDS,
                .words = "sine mackey-glass lorenz adding copy drift slow regimes recall",
                .rows = OPTIONS},
    .endless = true,
    .bundles = true,
    .size = sizeof(struct source_synth),
    .set_defaults = set_defaults,
    .open = open_synth,
    .next = next,
    .close = close_synth,
};
