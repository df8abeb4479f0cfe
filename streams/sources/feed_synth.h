/* Generated streams for source_synth.c: signals whose next value is predicted, without y
   (feed_signals.c), and tasks with a target (feed_tasks.c). Their numbers depend only on the
   settings and the seed. */
#ifndef RUNNEL_FEED_SYNTH_H
#define RUNNEL_FEED_SYNTH_H

#include <stddef.h>
#include <stdint.h>

#include "common/random.h"
#include "streams/feed.h"

/* The settings that generators share; each generator defines their meaning. */
enum synth_setting {
    SYNTH_SIZE,
    SYNTH_LENGTH,
    SYNTH_DELAY,
    SYNTH_ALPHABET,
    SYNTH_CHANGE,
    SYNTH_SETTINGS,
};

struct synth {
    struct source source;
    const struct generator *generator;
    uint64_t seed;
    uint64_t settings[SYNTH_SETTINGS];
    double noise; /* standard deviation of normal noise on x (drift, regimes: on y) */

    uint64_t random;
    uint64_t steps;            /* steps so far */
    float *x, *y;              /* the newest step of real numbers, in the source's shapes */
    uint32_t symbol, class_id; /* the newest step of classes */
    void *state;               /* the generator's own state; freed with free() */
};

/* Range of a setting; `maximum` 0: the generator does not have it. */
struct synth_range {
    uint64_t minimum, maximum, preset;
};

struct generator {
    const char *name;
    struct synth_range ranges[SYNTH_SETTINGS];
    bool noisy;        /* supports --noise */
    struct shape x, y; /* x.count 0: --size */

    /* Bytes of the state: these, and `each` for each unit of the setting `of`. */
    size_t state, each;
    enum synth_setting of;

    /* Sets the state, which is zeros. May be NULL. */
    void (*begin)(struct synth *synth);
    void (*next)(struct synth *synth, struct step *step);
};

extern const struct generator generator_sine, generator_mackey_glass, generator_lorenz,
    generator_adding, generator_copy, generator_drift, generator_slow, generator_regimes,
    generator_recall;

#endif
