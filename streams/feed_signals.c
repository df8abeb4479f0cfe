/* Signals without a target: the model predicts the next value. */
#include <math.h>

#include "streams/sources/feed_synth.h"

#define SIZE_MAX_REAL (1u << 16)

static double noise(struct synth *synth) {
    return synth->noise > 0 ? synth->noise * random_normal(&synth->random) : 0;
}

/* ---- Sine: a mixture of SINES sines for each number ----

   x_k(t) = sum_j a_kj sin(2 pi t / p_kj + phi_kj) / sum_j a_kj, within [-1, 1], with periods p
   log-uniform in 8..128 steps, amplitudes a uniform in 0.5..1, phases phi uniform. */

enum { SINES = 3 };
#define PERIOD_MIN 8.0
#define PERIOD_MAX 128.0
#define AMPLITUDE_MIN 0.5

struct sine {
    double amplitude, frequency, phase;
};

static void sine_begin(struct synth *synth) {
    struct sine *mixture = synth->state;
    for (size_t k = 0; k < synth->source.x.count; k++, mixture += SINES) {
        double sum = 0;
        for (int j = 0; j < SINES; j++) {
            double octaves = random_uniform(&synth->random, 0, log(PERIOD_MAX / PERIOD_MIN));
            mixture[j].frequency = 2 * M_PI / (PERIOD_MIN * exp(octaves));
            mixture[j].phase = random_uniform(&synth->random, 0, 2 * M_PI);
            mixture[j].amplitude = random_uniform(&synth->random, AMPLITUDE_MIN, 1);
            sum += mixture[j].amplitude;
        }
        for (int j = 0; j < SINES; j++)
            mixture[j].amplitude /= sum;
    }
}

static void sine_next(struct synth *synth, struct step *step) {
    const struct sine *s = synth->state;
    (void)step;
    for (size_t k = 0; k < synth->source.x.count; k++) {
        double x = noise(synth);
        for (int j = 0; j < SINES; j++, s++)
            x += s->amplitude * sin(s->frequency * (double)synth->steps + s->phase);
        synth->x[k] = (float)x;
    }
}

const struct generator generator_sine = {
    .name = "sine",
    .ranges = {[SYNTH_SIZE] = {1, SIZE_MAX_REAL, 1}},
    .noisy = true,
    .x = {VALUE_REAL, 0},
    .each = SINES * sizeof(struct sine),
    .of = SYNTH_SIZE,
    .begin = sine_begin,
    .next = sine_next,
};

/* ---- Mackey-glass: a chaotic signal with a long memory ----

   dx/dt = 0.2 x(t - tau) / (1 + x(t - tau)^10) - 0.1 x(t)          (Mackey and Glass, 1977)
   with tau = 17 unless --delay sets another, by Runge and Kutta's fourth-order method with step
   0.1, the delayed value half way between two steps by linear interpolation. One sample a unit of
   time, from t = 1000 on; before t = 0 x is constant, uniform in 1.1..1.3. */

enum { MG_STEPS_PER_UNIT = 10, MG_SKIPPED_UNITS = 1000, MG_EXPONENT = 10, MG_TAU = 17 };
#define MG_BETA 0.2
#define MG_GAMMA 0.1

struct mackey_glass {
    double x;
    size_t position, delay; /* in integration steps */
    double past[];          /* (delay,) ring of x; `position` is x(t - tau) */
};

static double mg_derivative(double x, double delayed) {
    return MG_BETA * delayed / (1 + pow(delayed, MG_EXPONENT)) - MG_GAMMA * x;
}

static void mg_unit(struct mackey_glass *mg) {
    const double h = 1.0 / MG_STEPS_PER_UNIT;
    for (int i = 0; i < MG_STEPS_PER_UNIT; i++) {
        size_t following = mg->position + 1 == mg->delay ? 0 : mg->position + 1;
        double then = mg->past[mg->position], later = mg->past[following];
        double between = (then + later) / 2;
        double k1 = mg_derivative(mg->x, then);
        double k2 = mg_derivative(mg->x + h / 2 * k1, between);
        double k3 = mg_derivative(mg->x + h / 2 * k2, between);
        double k4 = mg_derivative(mg->x + h * k3, later);
        mg->past[mg->position] = mg->x;
        mg->position = following;
        mg->x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
}

static void mg_begin(struct synth *synth) {
    struct mackey_glass *mg = synth->state;
    mg->x = random_uniform(&synth->random, 1.1, 1.3);
    mg->delay = synth->settings[SYNTH_DELAY] * MG_STEPS_PER_UNIT;
    for (size_t i = 0; i < mg->delay; i++)
        mg->past[i] = mg->x;
    for (int i = 0; i < MG_SKIPPED_UNITS; i++)
        mg_unit(mg);
}

static void mg_next(struct synth *synth, struct step *step) {
    struct mackey_glass *mg = synth->state;
    (void)step;
    synth->x[0] = (float)(mg->x + noise(synth));
    mg_unit(mg);
}

const struct generator generator_mackey_glass = {
    .name = "mackey-glass",
    .ranges = {[SYNTH_DELAY] = {1, 1000, MG_TAU}},
    .noisy = true,
    .x = {VALUE_REAL, 1},
    .state = sizeof(struct mackey_glass),
    .each = MG_STEPS_PER_UNIT * sizeof(double),
    .of = SYNTH_DELAY,
    .begin = mg_begin,
    .next = mg_next,
};

/* ---- Lorenz: three coupled numbers, chaotic ----

   dx/dt = 10 (y - x);  dy/dt = x (28 - z) - y;  dz/dt = x y - 8/3 z          (Lorenz, 1963)
   by Runge and Kutta's fourth-order method with step 0.01; a sample every 0.02 units of time, from
   t = 50 on. At t = 0 each number is uniform in 0..1. */

enum { LORENZ_SIZE = 3, LORENZ_STEPS_PER_SAMPLE = 2, LORENZ_SKIPPED_STEPS = 5000 };
#define LORENZ_STEP 0.01
#define LORENZ_SIGMA 10.0
#define LORENZ_RHO 28.0
#define LORENZ_BETA (8.0 / 3.0)

static void lorenz_derivative(const double s[LORENZ_SIZE], double d[LORENZ_SIZE]) {
    d[0] = LORENZ_SIGMA * (s[1] - s[0]);
    d[1] = s[0] * (LORENZ_RHO - s[2]) - s[1];
    d[2] = s[0] * s[1] - LORENZ_BETA * s[2];
}

static void lorenz_step(double s[LORENZ_SIZE]) {
    static const double AHEAD[] = {LORENZ_STEP / 2, LORENZ_STEP / 2, LORENZ_STEP};
    double k[4][LORENZ_SIZE], at[LORENZ_SIZE];
    lorenz_derivative(s, k[0]);
    for (int stage = 1; stage < 4; stage++) {
        for (int i = 0; i < LORENZ_SIZE; i++)
            at[i] = s[i] + AHEAD[stage - 1] * k[stage - 1][i];
        lorenz_derivative(at, k[stage]);
    }
    for (int i = 0; i < LORENZ_SIZE; i++)
        s[i] += LORENZ_STEP / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
}

static void lorenz_begin(struct synth *synth) {
    double *s = synth->state;
    for (int i = 0; i < LORENZ_SIZE; i++)
        s[i] = random_uniform(&synth->random, 0, 1);
    for (int i = 0; i < LORENZ_SKIPPED_STEPS; i++)
        lorenz_step(s);
}

static void lorenz_next(struct synth *synth, struct step *step) {
    double *s = synth->state;
    (void)step;
    for (int i = 0; i < LORENZ_SIZE; i++)
        synth->x[i] = (float)(s[i] + noise(synth));
    for (int i = 0; i < LORENZ_STEPS_PER_SAMPLE; i++)
        lorenz_step(s);
}

const struct generator generator_lorenz = {
    .name = "lorenz",
    .noisy = true,
    .x = {VALUE_REAL, LORENZ_SIZE},
    .state = LORENZ_SIZE * sizeof(double),
    .begin = lorenz_begin,
    .next = lorenz_next,
};
