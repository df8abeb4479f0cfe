/* Tasks: streams with a target. */
#include <math.h>
#include <stdlib.h>

#include "feed_synth.h"

enum { LENGTH_MAX = 100000, SIZE_MAX_DRIFT = 1 << 16 };

/* Whether the task changes before this step; --verbose reports each change. */
static bool changes(const struct synth *synth) {
    uint64_t change = synth->settings[SYNTH_CHANGE];
    if (!change || synth->steps == 0 || synth->steps % change != 0)
        return false;
    feed_detail("the concept changes at step %llu (change %llu)",
                (unsigned long long)synth->steps + 1, (unsigned long long)(synth->steps / change));
    return true;
}

/* Draws normal weights of units with so many inputs. */
static void draw(struct synth *synth, double *weights, size_t count, double gain, size_t inputs) {
    for (size_t i = 0; i < count; i++)
        weights[i] = gain * random_normal(&synth->random) / sqrt((double)inputs);
}

/* ---- Adding: remember two numbers ----

   The adding problem of Hochreiter and Schmidhuber (1997), experiment 4. A sequence has
   T..T + T/10 steps (T: --length). x = (value uniform in -1..1, marker): the marker is 1 at two
   steps, one of the first ten and another one of the first T/2 - 1; it is -1 at the first and at
   the last step, else 0. If the first step is chosen for a mark, it
   keeps its -1 and counts as 0. y is 0.5 + (X1 + X2) / 4 at the last step, where X1 and X2 are
   the marked values, and NaN before. */

enum { ADDING_INPUTS = 2, ADDING_FIRST_MARKS = 10, ADDING_LENGTH = 100 };

struct adding {
    uint64_t length, position, first, second; /* of the current sequence */
    double sum;                               /* of the marked values */
};

static void adding_begin(struct synth *synth, struct adding *adding) {
    uint64_t shortest = synth->settings[SYNTH_LENGTH];
    adding->position = 0;
    adding->sum = 0;
    adding->length = shortest + random_below(&synth->random, shortest / 10 + 1);
    adding->first = random_below(&synth->random, ADDING_FIRST_MARKS);
    /* One of the first T/2 - 1 steps that is not marked yet. */
    adding->second = random_below(&synth->random, shortest / 2 - 1);
    adding->second += adding->second >= adding->first;
}

static void adding_next(struct synth *synth, struct step *step) {
    struct adding *adding = synth->state;
    if (adding->position == adding->length || adding->length == 0)
        adding_begin(synth, adding);
    uint64_t t = adding->position++;
    double value = random_uniform(&synth->random, -1, 1);
    bool last = adding->position == adding->length;
    bool marked = t > 0 && (t == adding->first || t == adding->second);
    if (marked)
        adding->sum += value;
    synth->x[0] = (float)value;
    synth->x[1] = marked ? 1 : t == 0 || last ? -1 : 0;
    synth->y[0] = last ? (float)(0.5 + adding->sum / 4) : NAN;
    step->end = last;
}

const struct generator generator_adding = {
    .name = "adding",
    .ranges = {[SYNTH_LENGTH] = {2 * ADDING_FIRST_MARKS, LENGTH_MAX, ADDING_LENGTH}},
    .x = {VALUE_REAL, ADDING_INPUTS},
    .y = {VALUE_REAL, 1},
    .state = sizeof(struct adding),
    .next = adding_next,
};

/* ---- Copy: remember symbols ----

   The copying task of Arjovsky, Shah and Bengio (2016), after Hochreiter and Schmidhuber (1997). A
   sequence is L random symbols of 0..A-1, D - 1 blanks (symbol A), a delimiter (A + 1) and L
   blanks: 2 L + D steps (L: --length, D: --delay, A: --alphabet). y is the L symbols in order at
   the last L steps, and missing before. The model has input.size A + 2 and output.size A. */

enum { COPY_LENGTH = 10, COPY_DELAY = 20, COPY_ALPHABET = 8 };

struct copy {
    uint64_t position;
    uint32_t symbols[]; /* (L,) of the current sequence */
};

static void copy_next(struct synth *synth, struct step *step) {
    struct copy *copy = synth->state;
    uint64_t length = synth->settings[SYNTH_LENGTH], delay = synth->settings[SYNTH_DELAY];
    uint32_t alphabet = (uint32_t)synth->settings[SYNTH_ALPHABET];
    uint64_t t = copy->position++, answers = length + delay;
    if (t < length)
        copy->symbols[t] = (uint32_t)random_below(&synth->random, alphabet);
    synth->symbol = t < length ? copy->symbols[t] : t == answers - 1 ? alphabet + 1 : alphabet;
    synth->class_id = t < answers ? WIRE_NO_CLASS : copy->symbols[t - answers];
    step->end = copy->position == answers + length;
    if (step->end)
        copy->position = 0;
}

const struct generator generator_copy = {
    .name = "copy",
    .ranges = {[SYNTH_LENGTH] = {1, LENGTH_MAX, COPY_LENGTH},
               [SYNTH_DELAY] = {1, LENGTH_MAX, COPY_DELAY},
               [SYNTH_ALPHABET] = {2, LENGTH_MAX, COPY_ALPHABET}},
    .x = {VALUE_CLASS, 1},
    .y = {VALUE_CLASS, 1},
    .state = sizeof(struct copy),
    .each = sizeof(uint32_t),
    .of = SYNTH_LENGTH,
    .next = copy_next,
};

/* ---- Drift: a concept that changes ----

   y = w x + noise, x uniform in -1..1, w standard normal over sqrt(size). w changes
   every --change steps (an abrupt concept drift). */

enum { DRIFT_SIZE = 4, DRIFT_CHANGE = 1000 };

static void drift_begin(struct synth *synth) {
    draw(synth, synth->state, synth->source.x.count, 1, synth->source.x.count);
}

static void drift_next(struct synth *synth, struct step *step) {
    const double *weights = synth->state;
    (void)step;
    if (changes(synth))
        drift_begin(synth);
    double y = synth->noise > 0 ? synth->noise * random_normal(&synth->random) : 0;
    for (size_t i = 0; i < synth->source.x.count; i++) {
        double x = random_uniform(&synth->random, -1, 1);
        y += weights[i] * x;
        synth->x[i] = (float)x;
    }
    synth->y[0] = (float)y;
}

const struct generator generator_drift = {
    .name = "drift",
    .ranges = {[SYNTH_SIZE] = {1, SIZE_MAX_DRIFT, DRIFT_SIZE},
               [SYNTH_CHANGE] = {0, UINT64_MAX, DRIFT_CHANGE}},
    .noisy = true,
    .x = {VALUE_REAL, 0},
    .y = {VALUE_REAL, 1},
    .each = sizeof(double),
    .of = SYNTH_SIZE,
    .begin = drift_begin,
    .next = drift_next,
};

/* ---- Slow: a regression that changes slowly ----

   Of Dohare and others, "Loss of plasticity in deep continual learning" (2024). x is 20 bits: one
   of the first 15 flips every --change steps, the others are random. y is the output of a random
   network of 100 threshold units whose weights are -1 or 1. */

enum { SLOW_BITS = 15, SLOW_INPUTS = 20, SLOW_UNITS = 100, SLOW_CHANGE = 10000 };
#define SLOW_THRESHOLD 0.7 /* share of the inputs that must agree with a unit's weights */

struct slow {
    double weights[SLOW_UNITS][SLOW_INPUTS + 1]; /* the last one is the bias */
    double output[SLOW_UNITS + 1];
};

static double draw_sign(struct synth *synth) {
    return random_below(&synth->random, 2) ? 1 : -1;
}

static void slow_begin(struct synth *synth) {
    struct slow *slow = synth->state;
    for (size_t u = 0; u <= SLOW_UNITS; u++) {
        slow->output[u] = draw_sign(synth);
        for (size_t i = 0; u < SLOW_UNITS && i <= SLOW_INPUTS; i++)
            slow->weights[u][i] = draw_sign(synth);
    }
}

static void slow_next(struct synth *synth, struct step *step) {
    const struct slow *slow = synth->state;
    (void)step;
    size_t flipped = changes(synth) ? random_below(&synth->random, SLOW_BITS) : SLOW_INPUTS;
    for (size_t i = 0; i < SLOW_INPUTS; i++)
        if (synth->steps == 0 || i >= SLOW_BITS)
            synth->x[i] = (float)random_below(&synth->random, 2);
        else if (i == flipped)
            synth->x[i] = 1 - synth->x[i];
    double y = slow->output[SLOW_UNITS];
    for (size_t u = 0; u < SLOW_UNITS; u++) {
        const double *w = slow->weights[u];
        double sum = w[SLOW_INPUTS], negative = w[SLOW_INPUTS] < 0;
        for (size_t i = 0; i < SLOW_INPUTS; i++) {
            sum += w[i] * (double)synth->x[i];
            negative += w[i] < 0;
        }
        if (sum > SLOW_THRESHOLD * (SLOW_INPUTS + 1) - negative)
            y += slow->output[u];
    }
    synth->y[0] = (float)y;
}

const struct generator generator_slow = {
    .name = "slow",
    .ranges = {[SYNTH_CHANGE] = {0, UINT64_MAX, SLOW_CHANGE}},
    .x = {VALUE_REAL, SLOW_INPUTS},
    .y = {VALUE_REAL, 1},
    .state = sizeof(struct slow),
    .begin = slow_begin,
    .next = slow_next,
};

/* ---- Regimes: sensors whose relations, levels and scales change ----

   x is 8 autocorrelated sensors, each with an offset and a scale; y is a random tanh network of
   their standard values, and noise. All are drawn again every --change steps. */

enum { REGIMES_SENSORS = 8, REGIMES_UNITS = 20, REGIMES_TARGETS = 4, REGIMES_CHANGE = 3000 };

struct regimes {
    double keep[REGIMES_SENSORS], value[REGIMES_SENSORS]; /* share of the last value, value */
    double offset[REGIMES_SENSORS], scale[REGIMES_SENSORS];
    double hidden[REGIMES_UNITS * REGIMES_SENSORS], bias[REGIMES_UNITS];
    double output[REGIMES_TARGETS * REGIMES_UNITS];
};

static void regimes_change(struct synth *synth) {
    static const double gain = 1.5, offset = 2, scale = 0.5; /* scale: of its logarithm */
    struct regimes *own = synth->state;
    draw(synth, own->offset, REGIMES_SENSORS, offset, 1);
    draw(synth, own->scale, REGIMES_SENSORS, scale, 1);
    draw(synth, own->hidden, REGIMES_UNITS * REGIMES_SENSORS, gain, REGIMES_SENSORS);
    draw(synth, own->bias, REGIMES_UNITS, 1, 1);
    draw(synth, own->output, REGIMES_TARGETS * REGIMES_UNITS, gain, REGIMES_UNITS);
}

static void regimes_begin(struct synth *synth) {
    struct regimes *own = synth->state;
    for (size_t i = 0; i < REGIMES_SENSORS; i++)
        own->keep[i] = random_uniform(&synth->random, 0.5, 0.99);
    regimes_change(synth);
}

static void regimes_next(struct synth *synth, struct step *step) {
    struct regimes *own = synth->state;
    (void)step;
    if (changes(synth))
        regimes_change(synth);
    for (size_t i = 0; i < REGIMES_SENSORS; i++) {
        double keep = own->keep[i];
        own->value[i] =
            keep * own->value[i] + sqrt(1 - keep * keep) * random_normal(&synth->random);
        synth->x[i] = (float)(own->offset[i] + exp(own->scale[i]) * own->value[i]);
    }
    double y[REGIMES_TARGETS] = {0};
    for (size_t u = 0; u < REGIMES_UNITS; u++) {
        double sum = own->bias[u];
        for (size_t i = 0; i < REGIMES_SENSORS; i++)
            sum += own->hidden[u * REGIMES_SENSORS + i] * own->value[i];
        for (size_t k = 0; k < REGIMES_TARGETS; k++)
            y[k] += own->output[k * REGIMES_UNITS + u] * tanh(sum);
    }
    for (size_t k = 0; k < REGIMES_TARGETS; k++)
        synth->y[k] = (float)(y[k] + synth->noise * random_normal(&synth->random));
}

const struct generator generator_regimes = {
    .name = "regimes",
    .ranges = {[SYNTH_CHANGE] = {0, UINT64_MAX, REGIMES_CHANGE}},
    .noisy = true,
    .x = {VALUE_REAL, REGIMES_SENSORS},
    .y = {VALUE_REAL, REGIMES_TARGETS},
    .state = sizeof(struct regimes),
    .begin = regimes_begin,
    .next = regimes_next,
};

/* ---- Recall: remember one symbol ----

   A cue (symbols 0..A-1, A: --alphabet), D - 1 distractors (A..A+4) and a question (A + 5), again
   and again, without an end of a sequence (D: --delay). y is the cue at the question. */

enum { RECALL_CUES = 4, RECALL_DISTRACTORS = 5, RECALL_DELAY = 50 };

static void recall_next(struct synth *synth, struct step *step) {
    uint32_t *cue = synth->state, cues = (uint32_t)synth->settings[SYNTH_ALPHABET];
    uint64_t delay = synth->settings[SYNTH_DELAY], t = synth->steps % (delay + 1);
    (void)step;
    if (t == 0)
        *cue = (uint32_t)random_below(&synth->random, cues);
    synth->symbol = t == 0 ? *cue
                    : t == delay
                        ? cues + RECALL_DISTRACTORS
                        : cues + (uint32_t)random_below(&synth->random, RECALL_DISTRACTORS);
    synth->class_id = t == delay ? *cue : WIRE_NO_CLASS;
}

const struct generator generator_recall = {
    .name = "recall",
    .ranges = {[SYNTH_DELAY] = {1, LENGTH_MAX, RECALL_DELAY},
               [SYNTH_ALPHABET] = {2, LENGTH_MAX, RECALL_CUES}},
    .x = {VALUE_CLASS, 1},
    .y = {VALUE_CLASS, 1},
    .state = sizeof(uint32_t), /* the cue */
    .next = recall_next,
};
